"""Train a translator, from pairs of sentences to a model folder (sections 5 and 6.1)."""

from dataclasses import dataclass, field
from itertools import chain

from keras_transformer.data.filters import FilterOptions, filter_pairs
from keras_transformer.decoding.beam_search import greedy_search
from keras_transformer.evaluation.bleu import score_translations
from keras_transformer.options import from_keywords
from keras_transformer.tasks.training import (
    TrainingOptions,
    begin_training,
    make_batches,
    make_model,
    make_tokenizer,
    save_training,
)
from keras_transformer.training.fitting import average_weights, fit
from keras_transformer.training.run import check_data


@dataclass(kw_only=True)
class TranslatorTrainingOptions(TrainingOptions):
    """Options of a translator's training.

    Attributes:
        filters: `kt.data.FilterOptions`: pairs that are left out.
    """

    filters: FilterOptions = field(default_factory=FilterOptions)


def train_translator(task_class, train, val, **options):
    """Train a translator: see `Translator.train`.

    Args:
        task_class: `Translator`, or a class derived from it.
        train: `ParallelText` to train on.
        val: `ParallelText` to validate on.
        **options: those of `TranslatorTrainingOptions`.

    Returns:
        A `task_class`.

    Raises:
        UserError: if an option or a text is wrong, or the output folder holds another training.
    """
    options = from_keywords(TranslatorTrainingOptions, options)
    run = begin_training(options)

    # Data and batching (section 5.1)
    train, left_out = filter_pairs(train, options.filters)
    sentences = chain.from_iterable(train)
    tokenizer = make_tokenizer(sentences, options.vocabulary, run)
    run = check_data(run, train, tokenizer)
    batches = make_batches(train, val, tokenizer, options, run)

    # Model (section 3), optimizer (5.3), regularisation (5.4)
    model = make_model(tokenizer.vocabulary_size, options, run)
    languages = {"source": train.source_language, "target": train.target_language}
    origin = {**languages, "dataset": train.name}
    # Greedy search, the fastest, to see how the training goes.
    greedy = task_class(model, tokenizer, origin, search=greedy_search)

    # Training (section 5.2)
    scores = {"val_bleu": lambda: round(score_text(greedy, val).bleu, 2)}
    fitted = fit(model, *batches, run, options.fitting, options.checkpoints, scores)

    # Averaging the last checkpoints, and evaluation (section 6.1)
    weights = average_weights(model, run, options.checkpoints)
    validation = model.evaluate(batches.val, verbose=0, return_dict=True)
    result = score_text(greedy, val)

    # Saving
    translator = task_class(model, tokenizer, origin)
    facts = {
        **origin,
        "left_out": left_out,
        "validation": validation,
        "scores": {"val": result.to_dict()},
    }
    title = f"{languages['source']} to {languages['target']}, trained on {train.name}"
    line = f"validation text, greedy search, {weights}: {describe_bleu(result)}"
    save_training(translator, facts, title, [line], options, run, batches, fitted)
    return translator


def score_text(translator, text):
    """The `TranslationScores` of a `ParallelText`'s translations.

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
