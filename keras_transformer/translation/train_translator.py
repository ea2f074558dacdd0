"""Train a translator, from pairs of sentences to a model folder (sections 5 and 6.1)."""

from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from keras_transformer.data.filters import FilterOptions, filter_pairs
from keras_transformer.data.mixtures import Mixture
from keras_transformer.data.parallel_text import ParallelText, as_parallel_text
from keras_transformer.data.prefixed_tokenizer import PrefixedTokenizer, check_tags_in_text
from keras_transformer.data.tokenizer import Tokenizer, VocabularyOptions
from keras_transformer.evaluation.bleu import score_translations
from keras_transformer.tasks.init_from_preset import initial_preset
from keras_transformer.tasks.pipeline import (
    TrainingOptions,
    begin_training,
    make_batches,
    make_model,
    make_tokenizer,
    save_training,
)
from keras_transformer.training.context import TrainingContext
from keras_transformer.training.trainer import average_weights, fit, validate
from keras_transformer.validation import check_optional, positive_integer


@dataclass(kw_only=True)
class TranslatorVocabularyOptions(VocabularyOptions):
    """The vocabulary (section 5.1)."""

    source_vocabulary_size: int | None = None
    """Size of a vocabulary of the source's own: the other is then the target's. Without it both
    share one, as in the paper."""

    def check(self):
        """Raise a `UserError` as `VocabularyOptions` do."""
        super().check()
        check_optional(positive_integer, self, "source_vocabulary_size")


@dataclass(kw_only=True)
class TranslatorTrainingOptions(TrainingOptions):
    """Options of a translator's training.

    Attributes:
        filters: `kt.data.FilterOptions`: pairs that are left out.
    """

    vocabulary: TranslatorVocabularyOptions = field(default_factory=TranslatorVocabularyOptions)
    filters: FilterOptions = field(default_factory=FilterOptions)

    scores = ("val_bleu",)


def train_translator(
    task_class: type,
    train: Any,
    val: Any,
    test: Any = None,
    *,
    options: TranslatorTrainingOptions,
    dataset: str | None = None,
    command: str | None = None,
) -> tuple[Any, str]:
    """Train a translator: see `Translator.train`.

    Args:
        task_class: `Translator`, or a class derived from it.
        train: `ParallelText` to train on, or rows that it takes.
        val: likewise, to validate on.
        test: likewise, to score at the end. None: only `val` is scored.
        options: `TranslatorTrainingOptions`.
        dataset: name of the corpus in the results. Defaults to that of `train`.
        command: the command that began the training, for the results and the model card.

    Returns:
        The tuple `(translator, report)`: a `task_class`, and its scores in several lines.

    Raises:
        UserError: if an option or a text is wrong, or the output folder holds another training.
    """
    train, val = as_parallel_text(train, "train"), as_parallel_text(val, "val")
    test = None if test is None else as_parallel_text(test, "test")
    context = begin_training(options)

    # Data and batching (section 5.1)
    train, left_out = filter_pairs(train, options.filters)
    tokenizers = make_tokenizers(train, context)
    source_tokenizer, target_tokenizer = tokenizers.encoders
    batches = make_batches(
        *(train, val, source_tokenizer, context),
        target_tokenizer=target_tokenizer,
        max_tokens=options.filters.max_tokens,
        source_end=tokenizers.source_end,
    )

    # Model (section 3), optimizer (5.3), regularization (5.4)
    target = tokenizers.target
    model = make_model(
        target.vocabulary_size,
        context,
        source_vocabulary_size=tokenizers.source_vocabulary_size,
    )
    languages = {"source": val.source_language, "target": val.target_language}
    origin = {**languages, "dataset": dataset or train.name}
    if train.tags:
        origin["tags"] = list(train.tags)
    translator = task_class(model, target, origin, **tokenizers.parts)
    # Greedy search is the fastest. The preset that is saved has the beam search.
    greedy = task_class(model, target, origin, **tokenizers.parts, search="greedy")

    # Training (section 5.2)
    scores = {"val_bleu": lambda: round(score_text(greedy, val).bleu, 2)}
    fitted = fit(model, batches, context, scores)

    # Averaging the last checkpoints, and evaluation (section 6.1)
    weights = average_weights(model, context)
    validation = validate(model, batches.val)
    results = {
        name: score_text(greedy, text)
        for name, text in (("val", val), ("test", test))
        if text is not None
    }
    before, after = fitted.history["val_bleu"][-1], results["val"].bleu
    report = [f"val: BLEU {before:.2f} with the last weights, {after:.2f} with the {weights}"]
    report += [f"{name}, greedy search, {weights}:\n{result}" for name, result in results.items()]

    # Saving
    translator = translator.tagged(*val.prefix) if val.prefix else translator
    if batches.train.store.num_overlong_pairs:
        left_out["too many tokens"] = batches.train.store.num_overlong_pairs
    facts = {
        **origin,
        **mixture_summary(train),
        "left_out": left_out,
        **({} if command is None else {"command": command}),
        "validation": validation,
        "val_bleu_before_averaging": before,
        "scores": {name: result.to_dict() for name, result in results.items()},
    }
    title = f"{languages['source']} to {languages['target']}, trained on {train.name}"
    lines = [f"{name}, greedy search, {weights}: {describe_bleu(x)}" for name, x in results.items()]
    save_training(translator, facts, title, lines, context, batches, fitted)
    return translator, "\n".join(report)


@dataclass
class Tokenizers:
    """The vocabularies of both sides: one that they share, or two.

    Attributes:
        source: the `Tokenizer` of the sources.
        target: the `Tokenizer` of the targets, which may be the same.
        source_vocabulary_size: number of rows of the sources' own embedding. None: both share one.
        source_prefix: tokens before each source, as strings.
        target_prefix: tokens before each target, as strings.
        source_end: whether sources end with the end token.
    """

    source: Tokenizer
    target: Tokenizer
    source_vocabulary_size: int | None = None
    source_prefix: tuple[str, ...] = ()
    target_prefix: tuple[str, ...] = ()
    source_end: bool = True

    @property
    def parts(self):
        """The arguments of a `Translator` next to the target tokenizer: a dict."""
        return {
            "source_tokenizer": self.source,
            "source_prefix": self.source_prefix,
            "target_prefix": self.target_prefix,
            "source_end": self.source_end,
        }

    @property
    def encoders(self):
        """The encoders of the sources and the targets to train on, with prefixes: a tuple."""
        source = _with_prefix(self.source, self.source_prefix)
        if self.target is self.source and self.target_prefix == self.source_prefix:
            return source, source
        return source, _with_prefix(self.target, self.target_prefix)


def _with_prefix(tokenizer, prefix):
    return PrefixedTokenizer(tokenizer, prefix) if prefix else tokenizer


def make_tokenizers(text: ParallelText, context: TrainingContext) -> Tokenizers:
    """Train the vocabularies, or read them: from the output folder of a resumed training, or from
    the preset that the training starts with.

    Args:
        text: the `ParallelText` to train on. Its tags are tokens of the source's vocabulary.
        context: the `TrainingContext`.

    Returns:
        `Tokenizers`.

    Raises:
        UserError: as `kt.data.make_tokenizer`; if the preset's vocabulary lacks a tag.
    """
    if init := context.options.run.init:
        return _initial_tokenizers(init, text)
    options = context.options.vocabulary
    written = (pair[1] for pair in text)
    if options.source_vocabulary_size is None:
        both = chain.from_iterable(text)
        tokenizer = make_tokenizer(both, options, context, text.tags, targets=written)
        return Tokenizers(tokenizer, tokenizer)
    own = replace(options, vocabulary_size=options.source_vocabulary_size)
    sources, targets = (pair[0] for pair in text), (pair[1] for pair in text)
    source = make_tokenizer(sources, own, context, text.tags, "source_tokenizer.spm")
    target = make_tokenizer(targets, options, context, targets=written)
    return Tokenizers(source, target, source.vocabulary_size)


def _initial_tokenizers(init, text):
    contents, _ = initial_preset(init)
    source = contents.source_tokenizer or contents.tokenizer
    check_tags_in_text(source, text.tags)
    return Tokenizers(
        source,
        contents.tokenizer,
        contents.hyperparameters.get("source_vocabulary_size"),
        # As of `Translator.tagged`, tags take its place.
        () if text.is_tagged else tuple(contents.source_prefix),
        tuple(contents.target_prefix),
        contents.source_end,
    )


def mixture_summary(text):
    """Count the pairs of each text of a `Mixture` that are trained on: a dict, empty for others.

    Args:
        text: a `ParallelText`.
    """
    if not isinstance(text, Mixture):
        return {}
    parts = [
        {
            "dataset": part.name,
            "source": part.source_language,
            "target": part.target_language,
            "tags": list(part.prefix),
            "pairs": count,
        }
        for part, count in zip(text.texts, text.counts)
    ]
    return {"mixture": parts}


def score_text(translator, text):
    """The `TranslationScores` of a `ParallelText`'s translations.

    Of a `TaggedText` the sources have their tags: the translator must not add them again.

    Args:
        translator: a `Translator`.
        text: a `ParallelText`.

    Returns:
        `TranslationScores`.
    """
    sources, references = zip(*text)
    return score_translations(
        translator(sources), references, text.bleu_tokenize, text.target_language
    )


def describe_bleu(result):
    """`TranslationScores` in one line of Markdown, with their signatures.

    Args:
        result: `TranslationScores`.

    Returns:
        A string.
    """
    return (
        f"BLEU {result.bleu:.2f} (`{result.bleu_signature}`), "
        f"chrF {result.chrf:.2f} (`{result.chrf_signature}`)"
    )
