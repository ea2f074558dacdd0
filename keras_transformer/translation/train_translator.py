"""Train a translator, from pairs of sentences to a model folder (sections 5 and 6.1)."""

from dataclasses import replace
from itertools import chain
from typing import Any

from keras_transformer.data.filters import filter_pairs
from keras_transformer.data.mixtures import Mixture
from keras_transformer.data.parallel_text import ParallelText, as_parallel_text
from keras_transformer.data.preprocessor import TranslationPreprocessor, validate_tags
from keras_transformer.data.reserved_symbols import with_symbols
from keras_transformer.errors import UserError
from keras_transformer.evaluation import TranslationScores, score_translations
from keras_transformer.tasks.init_from_preset import (
    initial_preprocessor,
    initial_preset,
    initial_search,
)
from keras_transformer.tasks.pipeline import (
    begin_training,
    make_batches,
    make_model,
    make_tokenizer,
    save_training,
)
from keras_transformer.training.context import TrainingContext
from keras_transformer.training.trainer import average_weights, fit, is_averaged, validate
from keras_transformer.translation.options import TranslatorTrainingOptions
from keras_transformer.untranslated import SYMBOLS


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
        train: `ParallelText` to train on, or rows from which it is made.
        val: the same, to validate on.
        test: the same, to score at the end. None: only `val` is scored.
        options: `TranslatorTrainingOptions`.
        dataset: name of the corpus in the results. Defaults to the name of `train`.
        command: the command that began the training, for the results and the model card.

    Returns:
        The tuple `(translator, report)`: an object of `task_class`, and its scores in several
        lines.

    Raises:
        UserError: if an option or a text is wrong, or the output folder holds another training.
    """
    train, val = as_parallel_text(train, "train"), as_parallel_text(val, "val")
    test = None if test is None else as_parallel_text(test, "test")
    context = begin_training(options)

    # Data and batching (section 5.1)
    train, left_out = filter_pairs(train, options.filters)
    read, checked = train, val
    if options.protect:
        read, checked = with_symbols(train, seed=options.run.seed), with_symbols(val, share=0)
    preprocessor = make_preprocessor(read, context)
    batches = make_batches(
        *(read, checked, preprocessor.source_encoder(), context),
        target_tokenizer=preprocessor.target_encoder(),
        max_tokens=options.filters.max_tokens,
        source_end=preprocessor.source_end,
    )

    # Model (section 3), optimizer (5.3), regularization (5.4)
    model = make_model(
        preprocessor.tokenizer.vocabulary_size,
        context,
        source_vocabulary_size=_source_vocabulary_size(preprocessor, options),
    )
    languages = {"source": val.source_language, "target": val.target_language}
    origin = {**languages, "dataset": dataset or train.name}
    if train.tags:
        origin["tags"] = list(train.tags)
    # How texts are split for this model: see `Translator`.
    origin["longest_source"] = int(batches.train.store.source.lengths.max()) + 1  # the end token
    if options.split != "sentences":
        origin["split"] = None if options.split == "none" else options.split
    init = options.run.init
    if init and "alignment" in (base := initial_preset(init)[0].metadata):
        origin["alignment"] = base["alignment"]
    translator = task_class(model, preprocessor, origin, search=initial_search(init))
    # Greedy search is the fastest. The preset that is saved has the beam search.
    greedy = task_class(model, preprocessor, origin, search="greedy")

    # Training (section 5.2)
    results = {}

    def score_val():
        results["val"] = score_text(greedy, val)
        return round(results["val"].bleu, 2)

    fitted = fit(model, batches, context, {"val_bleu": score_val})

    # Averaging the last checkpoints, and evaluation (section 6.1)
    weights = average_weights(model, context)
    validation = validate(model, batches.val)
    # A training that resumed at its end has scored nothing.
    if not results or is_averaged(context):
        score_val()
    if test is not None:
        results["test"] = score_text(greedy, test)
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


def make_preprocessor(text: ParallelText, context: TrainingContext) -> TranslationPreprocessor:
    """Train the vocabularies (section 5.1), or read them.

    A resumed training reads them from its output folder, and a training that begins with a preset
    takes the preset's.

    Args:
        text: the `ParallelText` to train on. Its tags are tokens of the source's vocabulary.
        context: the `TrainingContext`.

    Returns:
        A `TranslationPreprocessor`.

    Raises:
        UserError: as `kt.data.make_tokenizer`; if the preset's vocabulary lacks a tag, or cannot
            get the reserved symbols.
    """
    if init := context.options.run.init:
        preprocessor = initial_preprocessor(init)
        if context.options.protect and not preprocessor.has_symbols:
            if context.options.run.lora:
                raise UserError(
                    "`protect` must be left out with `lora`, which does not train new symbols."
                )
            preprocessor = preprocessor.with_symbols()
        validate_tags(preprocessor.source_tokenizer, text.tags)
        # As in `Translator.tagged`, the tags of the text replace the prefix.
        return replace(preprocessor, source_prefix=()) if text.is_tagged else preprocessor
    options, symbols = context.options.vocabulary, SYMBOLS if context.options.protect else ()
    targets = (pair[1] for pair in text)
    if options.source_vocabulary_size is None:
        both = chain.from_iterable(text)
        tokenizer = make_tokenizer(both, options, context, (*text.tags, *symbols), targets=targets)
        return TranslationPreprocessor(tokenizer)
    own = replace(options, vocabulary_size=options.source_vocabulary_size)
    sources, written = (pair[0] for pair in text), (pair[1] for pair in text)
    tags = (*text.tags, *symbols)
    source_tokenizer = make_tokenizer(sources, own, context, tags, "source_tokenizer.spm")
    tokenizer = make_tokenizer(targets, options, context, symbols, targets=written)
    return TranslationPreprocessor(tokenizer, source_tokenizer)


def _source_vocabulary_size(preprocessor, options):
    """Return the number of rows of the sources' own embedding, or None if both sides share one."""
    source = preprocessor.source_tokenizer
    is_shared = source is preprocessor.tokenizer
    if options.run.init:
        contents, _ = initial_preset(options.run.init)
        is_shared = contents.hyperparameters.get("source_vocabulary_size") is None
    return None if is_shared else source.vocabulary_size


def mixture_summary(text: ParallelText) -> dict[str, Any]:
    """Count the training pairs of each text of a `Mixture`.

    Args:
        text: a `ParallelText`.

    Returns:
        A dict of JSON values, which is empty for other texts.
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


def score_text(translator: Any, text: ParallelText) -> TranslationScores:
    """Score the translations of a `ParallelText`.

    The sources of a `TaggedText` contain their tags, so the translator must not add them.

    Args:
        translator: a `Translator`.
        text: a `ParallelText`.

    Returns:
        `TranslationScores`.
    """
    sources, references = zip(*text)
    return score_translations(
        translator(sources, split=None), references, text.bleu_tokenize, text.target_language
    )


def describe_bleu(result: TranslationScores) -> str:
    """Describe `TranslationScores` in one line of Markdown, with their signatures.

    Args:
        result: `TranslationScores`.

    Returns:
        A string.
    """
    return (
        f"BLEU {result.bleu:.2f} (`{result.bleu_signature}`), "
        f"chrF {result.chrf:.2f} (`{result.chrf_signature}`)"
    )
