"""Train a translator, from pairs of sentences to a model folder (sections 5 and 6.1)."""

from dataclasses import dataclass, field, replace
from itertools import chain

from keras_transformer.data.filters import FilterOptions, filter_pairs
from keras_transformer.data.mixtures import Mixture
from keras_transformer.data.parallel_text import as_parallel_text
from keras_transformer.data.prefixed_tokenizer import PrefixedTokenizer, check_tags_in_text
from keras_transformer.data.tokenizer import Tokenizer, VocabularyOptions
from keras_transformer.decoding.beam_search import greedy_search
from keras_transformer.evaluation.bleu import score_translations
from keras_transformer.options import from_keywords
from keras_transformer.tasks.init_from_preset import initial_preset
from keras_transformer.tasks.pipeline import (
    TrainingOptions,
    begin_training,
    make_batches,
    make_model,
    make_tokenizer,
    save_training,
)
from keras_transformer.training.context import check_data
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


def train_translator(task_class, train, val, **options):
    """Train a translator: see `Translator.train`.

    Args:
        task_class: `Translator`, or a class derived from it.
        train: `ParallelText` to train on, or rows that it takes.
        val: likewise, to validate on.
        **options: those of `TranslatorTrainingOptions`.

    Returns:
        A `task_class`.

    Raises:
        UserError: if an option or a text is wrong, or the output folder holds another training.
    """
    options = from_keywords(TranslatorTrainingOptions, options)
    train, val = as_parallel_text(train, "train"), as_parallel_text(val, "val")
    run = begin_training(options)

    # Data and batching (section 5.1)
    train, left_out = filter_pairs(train, options.filters)
    tokenizers = make_tokenizers(train, options.vocabulary, run)
    run = check_data(run, train, *tokenizers.encoders, val=val)
    batches = make_translation_batches(train, val, tokenizers, options, run)

    # Model (section 3), optimizer (5.3), regularisation (5.4)
    model = make_model(tokenizers.target.vocabulary_size, options, run, **tokenizers.sizes)
    languages = {"source": val.source_language, "target": val.target_language}
    origin = {**languages, "dataset": train.name, **tags_of(train)}
    translator = task_class(model, tokenizers.target, origin, **tokenizers.parts)
    # Greedy search, the fastest, to see how the training goes.
    greedy = task_class(model, tokenizers.target, origin, **tokenizers.parts, search=greedy_search)

    # Training (section 5.2)
    scores = {"val_bleu": lambda: round(score_text(greedy, val).bleu, 2)}
    fitted = fit(model, *batches, run, options.fitting, options.checkpoints, scores)

    # Averaging the last checkpoints, and evaluation (section 6.1)
    weights = average_weights(model, run, options.checkpoints)
    validation = validate(model, batches.val)
    result = score_text(greedy, val)

    # Saving
    translator = translator.tagged(*val.prefix) if val.prefix else translator
    facts = {
        **origin,
        **parts_of(train),
        "left_out": {**left_out, **long_pairs(batches)},
        "validation": validation,
        "scores": {"val": result.to_dict()},
    }
    title = f"{languages['source']} to {languages['target']}, trained on {train.name}"
    line = f"validation text, greedy search, {weights}: {describe_bleu(result)}"
    save_training(translator, facts, title, [line], options, run, batches, fitted)
    return translator


@dataclass
class Tokenizers:
    """The vocabularies of both sides: one that they share, or two.

    Attributes:
        source: the `Tokenizer` of the sources.
        target: that of the targets, which may be the same.
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
    def sizes(self):
        """What a `Transformer` must know of the source's: a dict of its arguments."""
        return {"source_vocabulary_size": self.source_vocabulary_size}

    @property
    def parts(self):
        """What a `Translator` must know beside the targets' tokenizer: a dict of its arguments."""
        return {
            "source_tokenizer": self.source,
            "source_prefix": self.source_prefix,
            "target_prefix": self.target_prefix,
            "source_end": self.source_end,
        }

    @property
    def encoders(self):
        """What encodes sources and targets to train on, prefixes included: a tuple."""
        source = _with_prefix(self.source, self.source_prefix)
        if self.target is self.source and self.target_prefix == self.source_prefix:
            return source, source
        return source, _with_prefix(self.target, self.target_prefix)


def _with_prefix(tokenizer, prefix):
    return PrefixedTokenizer(tokenizer, prefix) if prefix else tokenizer


def make_tokenizers(text, options, run):
    """Train the vocabulary or vocabularies of a training, or read a resumed training's, or those of
    the preset that the training begins with.

    Args:
        text: the `ParallelText` to train on. Its tags are tokens of the source's vocabulary.
        options: `TranslatorVocabularyOptions`.
        run: the `Run`.

    Returns:
        `Tokenizers`.

    Raises:
        UserError: as `kt.data.make_tokenizer`; if a tag is no token of the preset's vocabulary.
    """
    if init := run.settings["init"]:
        return _initial_tokenizers(init, text)
    written = (pair[1] for pair in text)
    if options.source_vocabulary_size is None:
        both = chain.from_iterable(text)
        tokenizer = make_tokenizer(both, options, run, text.tags, targets=written)
        return Tokenizers(tokenizer, tokenizer)
    own = replace(options, vocabulary_size=options.source_vocabulary_size)
    sources, targets = (pair[0] for pair in text), (pair[1] for pair in text)
    source = make_tokenizer(sources, own, run, text.tags, "source_tokenizer.spm")
    target = make_tokenizer(targets, options, run, targets=written)
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


def make_translation_batches(train, val, tokenizers, options, run):
    """Tokenise the texts once, and plan the batches of both (section 5.1).

    Args:
        train: the `ParallelText` to train on.
        val: the `ParallelText` to validate on.
        tokenizers: `Tokenizers`.
        options: `TranslatorTrainingOptions`.
        run: the `Run`.

    Returns:
        `Batches`.

    Raises:
        UserError: if no pair is left, or the longest does not fit into a batch.
    """
    source, target = tokenizers.encoders
    return make_batches(
        *(train, val, source, options, run),
        target_tokenizer=target,
        max_tokens=options.filters.max_tokens,
        source_end=tokenizers.source_end,
    )


def long_pairs(batches):
    """How many pairs of the training text have too many tokens, by this reason: empty if none.

    Args:
        batches: `Batches`.
    """
    count = batches.train.store.num_left_out
    return {"too many tokens": count} if count else {}


def tags_of(text):
    """What a translator's metadata say of a text's tags: a dict, empty if there are none.

    Args:
        text: a `ParallelText`.
    """
    return {"tags": list(text.tags)} if text.tags else {}


def parts_of(text):
    """How many pairs of each text of a `Mixture` are trained on: a dict, empty of another text.

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
