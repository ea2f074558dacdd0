"""Train a translator, from pairs of sentences to a model folder (sections 5 and 6.1)."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from keras_transformer.convert.foreign_transformer import with_zero_start
from keras_transformer.data.augmentation import augmented, parse_shares
from keras_transformer.data.filters import FilterOptions, filtered_text, num_left_out
from keras_transformer.data.mixtures import Mixture
from keras_transformer.data.parallel_text import ParallelText, as_parallel_text
from keras_transformer.data.preprocessor import TranslationPreprocessor, validate_tags
from keras_transformer.data.reserved_symbols import with_symbols
from keras_transformer.data.shortlist import Shortlist
from keras_transformer.data.token_store import TokenStore
from keras_transformer.data.tokenizer import NormalizationChanges, VocabularyOptions
from keras_transformer.errors import UserError
from keras_transformer.evaluation import TranslationScores, score_translations
from keras_transformer.models.variants import ModelOptions
from keras_transformer.tasks.init_from_preset import (
    initial_preprocessor,
    initial_preset,
    initial_search,
    load_initial_weights,
)
from keras_transformer.tasks.pipeline import (
    TrainingOptions,
    begin_training,
    make_batches,
    make_model,
    make_tokenizer,
    save_training,
)
from keras_transformer.training.context import TrainingContext
from keras_transformer.training.trainer import (
    Batches,
    average_weights,
    fit,
    is_averaged,
    validate,
)
from keras_transformer.untranslated import SYMBOLS
from keras_transformer.validation import check_optional, positive_integer

logger = logging.getLogger(__name__)

# Validation pairs from which on their BLEU decides whether a preset was better before LoRA.
_ENOUGH_TO_CHOOSE = 50


@dataclass(kw_only=True)
class TranslatorVocabularyOptions(VocabularyOptions):
    """Options of the vocabulary (section 5.1)."""

    source_vocabulary_size: int | None = None
    """Size of a vocabulary of the source's own: the other is then the target's. Without it both
    share one, as in the paper."""

    def validate(self) -> None:
        """Raise a `UserError` as `VocabularyOptions` do."""
        super().validate()
        check_optional(positive_integer, self, "source_vocabulary_size")


@dataclass(kw_only=True)
class TranslatorModelOptions(ModelOptions):
    """The model (section 3) and its regularization (section 5.4)."""

    decoder: Literal["attention", "ssru"] = "attention"
    """Self-attention in the decoder, or in its place a recurrent unit that makes searches faster:
    see `kt.convert.SSRU`."""
    zero_start: bool = False
    """Whether the decoder begins with a vector of zeros in place of a start token, and sinusoids
    have Marian's wavelengths. The export `marian_npz` requires it."""

    def hyperparameters(self) -> dict[str, Any]:
        hyperparameters = super().hyperparameters()
        if self.decoder != "attention":
            hyperparameters["decoder_type"] = self.decoder
        return self._with_start(hyperparameters)

    def fine_tuned(self, hyperparameters: Mapping[str, Any]) -> dict[str, Any]:
        return self._with_start(super().fine_tuned(hyperparameters))

    def _with_start(self, hyperparameters: dict[str, Any]) -> dict[str, Any]:
        return with_zero_start(hyperparameters) if self.zero_start else hyperparameters


@dataclass(kw_only=True)
class TranslatorTrainingOptions(TrainingOptions):
    """Options of the training of a translator.

    Attributes:
        filters: `kt.data.FilterOptions`: the pairs to leave out.
    """

    vocabulary: TranslatorVocabularyOptions = field(default_factory=TranslatorVocabularyOptions)
    model: TranslatorModelOptions = field(default_factory=TranslatorModelOptions)
    filters: FilterOptions = field(default_factory=FilterOptions)
    split: Literal["sentences", "lines", "none"] = "sentences"
    """How the model's users' texts are split: sentences, if the sources of the corpus are
    sentences; lines or none, if they are texts of other kinds, such as messages."""

    protect: bool = False
    """Train the model to copy reserved symbols, which stand for placeholders and addresses when it
    translates. They stand for those of the corpus, and in a quarter of the pairs for a word or two
    and their translations. With `init` they are added to the preset's vocabulary."""

    augment: str | None = None
    """Also train on pairs in the forms of text as it comes: shares of the pairs, such as
    upper=0.07,title=0.05,typo=0.05,no_end=0.2. They are upper case and title case (both sides), a
    typo in the source, and no final full stop (both sides). A pair has one form at a time."""

    shortlist: bool = False
    """Also make a shortlist of the most probable translations of each token of the corpus, to which
    searches are then confined. They are faster, by more the larger the vocabulary is."""

    scores = ("val_bleu",)

    def validate(self) -> None:
        """Raise a `UserError` as `TrainingOptions` do, or if `augment` is wrong."""
        super().validate()
        if self.augment is not None:
            parse_shares(self.augment)


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
    for text in (val, val if test is None else test):
        len(text)  # raises an error for bad input, before the training begins
    parts: list[ParallelText] = []
    train = filtered_text(train, options.filters, parts)
    train_read, val_read = train, val
    if options.protect:
        train_read = with_symbols(train, seed=options.run.seed)
        val_read = with_symbols(val, share=0)
    if options.augment is not None:
        train_read = augmented(train_read, parse_shares(options.augment), options.run.seed)
    preprocessor = make_preprocessor(train_read, context)
    batches = make_batches(
        train_read,
        val_read,
        preprocessor.source_encoder(),
        context,
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
    metadata = _metadata(train, val, batches, options, dataset)
    search = initial_search(options.run.init)
    translator = task_class(model, preprocessor, metadata, search=search)
    # Greedy search is the fastest. The preset that is saved has the beam search.
    greedy = task_class(model, preprocessor, metadata, search="greedy")

    # Training (section 5.2)
    scores: dict[str, TranslationScores] = {}

    def score_val() -> float:
        scores["val"] = score_text(greedy, val)
        return round(scores["val"].bleu, 2)

    fitted = fit(model, batches, context, {"val_bleu": score_val})

    # Averaging the last checkpoints, and evaluation (section 6.1)
    weights = average_weights(model, context)
    validation = validate(model, batches.val)
    # A training that resumed at its end has scored nothing.
    if not scores or is_averaged(context):
        score_val()
    if (init := options.run.init) and options.run.lora and len(val) >= _ENOUGH_TO_CHOOSE:
        tuned, tuned_scores = model.get_weights(), scores["val"]
        load_initial_weights(model, init, context.processes)
        score_val()
        if scores["val"].bleu > tuned_scores.bleu:
            weights, validation = "weights of the preset", validate(model, batches.val)
            logger.warning(
                "The training lowered BLEU of the validation text from %.2f to %.2f. The model "
                "keeps the weights of its preset.",
                scores["val"].bleu,
                tuned_scores.bleu,
            )
        else:
            model.set_weights(tuned)
            scores["val"] = tuned_scores
    if test is not None:
        scores["test"] = score_text(greedy, test)
    before = fitted.history["val_bleu"][-1]

    # Saving
    translator = translator.tagged(*val.prefix) if val.prefix else translator
    if options.shortlist:
        translator.shortlist = _shortlist(batches.train.store, preprocessor)
    facts = {
        **metadata,
        **_mixture_summary(train),
        "left_out": {**num_left_out(parts), **_overlong_pairs(batches)},
        **({"command": command} if command else {}),
        "validation": validation,
        "val_bleu_before_averaging": before,
        "scores": {name: score.to_dict() for name, score in scores.items()},
    }
    title = f"{val.source_language} to {val.target_language}, trained on {train.name}"
    lines = [f"{name}, greedy search, {weights}: {_in_markdown(x)}" for name, x in scores.items()]
    save_training(translator, facts, title, lines, context, batches, fitted)
    after = scores["val"].bleu
    report = [f"val: BLEU {before:.2f} with the last weights, {after:.2f} with the {weights}"]
    report += [f"{name}, greedy search, {weights}:\n{score}" for name, score in scores.items()]
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
    changes = NormalizationChanges()  # They are counted in the pass for the first vocabulary.
    tags = (*text.tags, *symbols)
    if options.source_vocabulary_size is None:
        both = (x for source, target in text for x in (source, changes.add(target)))
        tokenizer = make_tokenizer(both, options, context, tags, targets=changes)
        return TranslationPreprocessor(tokenizer)
    own = replace(options, vocabulary_size=options.source_vocabulary_size)
    sources, targets = (pair[0] for pair in text), (changes.add(pair[1]) for pair in text)
    source_tokenizer = make_tokenizer(sources, own, context, tags, "source_tokenizer.spm")
    tokenizer = make_tokenizer(targets, options, context, symbols, targets=changes)
    return TranslationPreprocessor(tokenizer, source_tokenizer)


def _shortlist(store: TokenStore, preprocessor: TranslationPreprocessor) -> Shortlist:
    """Return the shortlist of the training text."""
    sides = preprocessor.source_tokenizer, preprocessor.tokenizer
    pieces, targets = (side.ids_to_tokens(range(side.vocabulary_size)) for side in sides)
    ids = {piece: number for number, piece in enumerate(targets)}
    same = [(i, ids[piece]) for i, piece in enumerate(pieces) if piece in ids]
    return Shortlist.from_pairs(
        store.source, store.target, len(pieces), same=same if sides[0] is not sides[1] else ()
    )


def _source_vocabulary_size(
    preprocessor: TranslationPreprocessor, options: TrainingOptions
) -> int | None:
    """Return the number of rows of the sources' own embedding, or None if both sides share one."""
    source = preprocessor.source_tokenizer
    is_shared = source is preprocessor.tokenizer
    if options.run.init:
        contents, _ = initial_preset(options.run.init)
        is_shared = contents.hyperparameters.get("source_vocabulary_size") is None
    return None if is_shared else source.vocabulary_size


def _metadata(
    train: ParallelText,
    val: ParallelText,
    batches: Batches,
    options: TranslatorTrainingOptions,
    dataset: str | None,
) -> dict[str, Any]:
    """Return the metadata of the preset: languages and corpus, and how texts are read."""
    metadata: dict[str, Any] = {
        "source": val.source_language,
        "target": val.target_language,
        "dataset": dataset or train.name,
    }
    if train.tags:
        metadata["tags"] = list(train.tags)
    # How texts are split for this model: see `Translator`.
    lengths = batches.train.store.source.lengths
    metadata["longest_source"] = int(lengths.max()) + 1  # the end token
    if options.split != "sentences":
        metadata["split"] = None if options.split == "none" else options.split
    if options.run.init:
        initial = initial_preset(options.run.init)[0].metadata
        metadata |= {name: initial[name] for name in ("alignment",) if name in initial}
    return metadata


def _mixture_summary(text: ParallelText) -> dict[str, Any]:
    """Return the training pairs of each text of a `Mixture`, or an empty dict for other texts."""
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


def _overlong_pairs(batches: Batches) -> dict[str, int]:
    """Return the number of pairs that `max_tokens` left out, by the reason."""
    count = batches.train.store.num_overlong_pairs
    return {"too many tokens": count} if count else {}


def score_text(translator: Any, text: ParallelText) -> TranslationScores:
    """Score the translations of a `ParallelText`.

    The sources of a `TaggedText` contain their tags, so the translator must not add them.

    Args:
        translator: a `Translator`.
        text: a `ParallelText`.
    """
    sources, references = zip(*text)
    return score_translations(
        translator(sources, split=None), references, text.bleu_tokenize, text.target_language
    )


def _in_markdown(scores: TranslationScores) -> str:
    """Return BLEU and chrF in one line of Markdown, with their signatures."""
    return (
        f"BLEU {scores.bleu:.2f} (`{scores.bleu_signature}`), "
        f"chrF {scores.chrf:.2f} (`{scores.chrf_signature}`)"
    )
