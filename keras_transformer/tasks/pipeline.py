"""The options and stages that the trainings of all tasks share.

The stages are those of `keras_transformer.data` and `keras_transformer.training`, called in the
order of the paper's section 5.
"""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from keras_transformer.compilation_cache import keep_in_user_folder
from keras_transformer.convert.foreign_transformer import make_transformer
from keras_transformer.data.batch_planner import BatchingOptions
from keras_transformer.data.batching import plan_batches
from keras_transformer.data.text_cache import read_cache, write_cache
from keras_transformer.data.token_store import TokenStore
from keras_transformer.data.tokenizer import NormalizationChanges, Tokenizer, VocabularyOptions
from keras_transformer.data.tokenizer import make_tokenizer as write_tokenizer
from keras_transformer.errors import UserError
from keras_transformer.files import check_replaceable
from keras_transformer.models.transformer import Transformer
from keras_transformer.models.variants import ModelOptions, without_training
from keras_transformer.option_fields import check_options, fixed_settings
from keras_transformer.presets.location import PRESET
from keras_transformer.presets.registry import license_in, read_card
from keras_transformer.tasks.init_from_preset import (
    initial_hyperparameters,
    initial_preprocessor,
    initial_preset,
    make_initial_model,
    validate_init,
)
from keras_transformer.training.context import TrainingContext, make_context
from keras_transformer.training.optimizer import make_optimizer, make_schedule
from keras_transformer.training.results import model_card, training_facts, write_results
from keras_transformer.training.stage_options import (
    CheckpointOptions,
    DeviceOptions,
    FitOptions,
    OptimizerOptions,
    RunOptions,
)
from keras_transformer.training.stopping import validate_choice_of_checkpoints
from keras_transformer.training.trainer import Batches, Fitted, compile_model

logger = logging.getLogger(__name__)

_MODEL = "model"  # the preset, in the output folder
_CACHE = "tokens/cache.json"  # results of passes over the texts, and of planning


@dataclass(kw_only=True)
class TrainingOptions:
    """Options of a training, grouped by its stages.

    Attributes:
        run: `RunOptions`: the output folder, and whether the training resumes.
        vocabulary: `kt.data.VocabularyOptions`.
        batching: `kt.data.BatchingOptions`.
        model: `ModelOptions`.
        optimizer: `OptimizerOptions`.
        fitting: `FitOptions`: the number of updates, and the interval of validation.
        checkpoints: `CheckpointOptions`.
        devices: `DeviceOptions`.
    """

    run: RunOptions
    vocabulary: VocabularyOptions = field(default_factory=VocabularyOptions)
    batching: BatchingOptions = field(default_factory=BatchingOptions)
    model: ModelOptions = field(default_factory=ModelOptions)
    optimizer: OptimizerOptions = field(default_factory=OptimizerOptions)
    fitting: FitOptions = field(default_factory=FitOptions)
    checkpoints: CheckpointOptions = field(default_factory=CheckpointOptions)
    devices: DeviceOptions = field(default_factory=DeviceOptions)

    # The names of the scores that are computed at each interval besides loss, accuracy and
    # perplexity, or None if they are not known before `fit`.
    scores: ClassVar[tuple[str, ...] | None] = None

    def validate(self) -> None:
        """Validate the options.

        Raises:
            UserError: if options of two stages contradict each other.
        """
        make_schedule(self.optimizer, 1, self.fitting.steps)
        uses_ema = self.optimizer.ema is not None
        validate_choice_of_checkpoints(self.checkpoints, self.scores, uses_ema)


def begin_training(options: TrainingOptions) -> TrainingContext:
    """Begin or resume the training that `TrainingOptions` describe.

    With `init`, some options have defaults for fine-tuning.

    Args:
        options: `TrainingOptions`, or a class derived from them.

    Returns:
        A `TrainingContext`.

    Raises:
        UserError: if an option is out of its range, a device is missing, the folder holds another
            training, or its `model` contains files that are not part of a preset.
    """
    keep_in_user_folder()
    check_options(options)
    validate_init(options)
    context = make_context(options, fixed_settings(options))
    _validate_model_folder(context.folder / _MODEL, options.run)
    if context.is_resumed:
        read_cache(context.folder / _CACHE)
    return context


def _warn_of_long_warmup(options: TrainingOptions) -> None:
    steps, warmup = options.fitting.steps, options.optimizer.warmup_steps
    if steps < warmup:
        logger.warning(
            "`steps=%d` is less than `warmup_steps=%d`, so the learning rate only reaches %.2g %% "
            "of its peak. Pass fewer `warmup_steps`, or more `steps`.",
            steps,
            warmup,
            100 * steps / warmup,
        )


def _validate_model_folder(path: Path, options: RunOptions) -> None:
    """Validate that the model can be saved, before the training begins."""
    check_replaceable(path, PRESET)
    if path.exists() and not (options.resume or options.overwrite):
        raise UserError(
            f"{path} holds the model of an earlier training. Pass `overwrite=True` to replace it, "
            "or another `output_dir`."
        )


def make_tokenizer(
    sentences: Iterable[str],
    options: VocabularyOptions,
    context: TrainingContext,
    user_defined_symbols: Sequence[str] = (),
    name: str = "tokenizer.spm",
    targets: Iterable[str] | NormalizationChanges = (),
) -> Tokenizer:
    """Train the vocabulary (section 5.1), or read it.

    A resumed training reads it from the output folder, and a training that begins with a preset
    takes the preset's. Process 0 sends it to the other processes.

    Args:
        sentences: iterable of strings, source and target together for a shared vocabulary.
        options: `VocabularyOptions`.
        context: the `TrainingContext`.
        user_defined_symbols: strings that are always one token.
        name: the file in the output folder.
        targets: iterable of the sentences among them that the model learns to write, or their
            `NormalizationChanges`.

    Returns:
        A `Tokenizer`.

    Raises:
        UserError: as `kt.data.make_tokenizer`; if the preset's vocabulary lacks one of the symbols.
    """

    def proto() -> str:
        if init := context.options.run.init:
            tokenizer = initial_preprocessor(init).tokenizer
            tokenizer.tokens_to_ids(list(user_defined_symbols))  # raises an error if it lacks one
        else:
            tokenizer = write_tokenizer(
                sentences,
                options,
                context.folder / name,
                keep=context.is_resumed,
                user_defined_symbols=user_defined_symbols,
                targets=targets,
            )
        return tokenizer.proto.decode("latin-1")  # as text: byte for byte

    return Tokenizer(context.processes.first(proto).encode("latin-1"))


def make_batches(
    train: Any,
    val: Any,
    tokenizer: Any,
    context: TrainingContext,
    target_tokenizer: Any = None,
    max_tokens: int | None = None,
    source_end: bool = True,
) -> Batches:
    """Tokenize the texts once, and plan the batches of both (section 5.1).

    A resumed training must have the same texts and tokenizers.

    Args:
        train: pairs of strings to train on, such as a `ParallelText`.
        val: pairs to validate on.
        tokenizer: the `Tokenizer`.
        context: the `TrainingContext`.
        target_tokenizer: the tokenizer of the targets. Defaults to `tokenizer`.
        max_tokens: leave out pairs with a sentence of more tokens. None: no limit.
        source_end: whether sources end with the end token.

    Returns:
        `Batches`.

    Raises:
        UserError: if the longest pair does not fit into a batch, or a text or tokenizer differs
            from the start of the training or between processes.
    """
    options = context.options
    tokenizers = tokenizer, target_tokenizer or tokenizer
    prints = [x.fingerprint() for x in tokenizers if hasattr(x, "fingerprint")]
    fingerprints = {
        "training_text": train.fingerprint(),
        "validation_text": val.fingerprint(),
        "tokenizer": " ".join(dict.fromkeys(prints)),
    }
    context.validate_settings({**context.settings, **fingerprints})

    texts = {"train": train, "val": val}
    stores = dict(zip(texts, _tokenize(texts, (*tokenizers, max_tokens), context)))
    planned = plan_batches(
        stores["train"],
        stores["val"],
        options.batching,
        accumulate=options.optimizer.accumulate,
        seed=options.run.seed,
        num_replicas=context.devices.num_replicas,
        shard=context.devices.shard,
        few_shapes_first=context.few_shapes_first,
        source_end=source_end,
    )
    if context.processes.is_writer:
        write_cache(context.folder / _CACHE)
    return Batches(*planned, fingerprints)


def _tokenize(texts: dict[str, Any], how: tuple, context: TrainingContext) -> list[TokenStore]:
    """Return the `TokenStore` of each text.

    Process 0 builds them. A process that cannot see its files builds its own.

    Args:
        texts: dict of the texts by name.
        how: tuple of the tokenizers and the limit that a `TokenStore` takes.
        context: the `TrainingContext`.
    """
    processes, shared = context.processes, context.folder / "tokens"
    own = context.folder / f"process-{processes.index}" / "tokens"

    def build(folder: Path) -> list[TokenStore]:
        return [TokenStore.build_once(folder / x, texts[x], *how) for x in texts]

    def find_or_build() -> list[TokenStore]:
        found = [TokenStore.find(shared / x, texts[x], *how) for x in texts]
        stores = [store for store in found if store is not None]
        return stores if len(stores) == len(found) else build(own)

    built = processes.each(lambda: build(shared) if processes.is_writer else None)
    stores: Any = processes.each(lambda: built or find_or_build())
    for name, store in zip(texts, stores):
        _log_left_out(name, store, how[-1])
    return stores


def _log_left_out(name: str, store: TokenStore, max_tokens: int | None) -> None:
    if not store.num_overlong_pairs:
        return
    count = f"{store.num_overlong_pairs:,} pairs"
    message = f"{name}: {count} have a sentence of more than {max_tokens} tokens"
    if not len(store):
        raise UserError(f"{message}, and no pair is left. Pass a larger `max_tokens`.")
    logger.info("%s and are left out; %s are kept.", message, f"{len(store):,}")


def make_model(
    vocabulary_size: int,
    context: TrainingContext,
    model_class: type[Transformer] = Transformer,
    **overrides: Any,
) -> Transformer:
    """Build the model (section 3) with its optimizer (5.3) and regularization (5.4), compiled.

    Args:
        vocabulary_size: size of the vocabulary.
        context: the `TrainingContext`.
        model_class: `Transformer`, or a class derived from it.
        **overrides: arguments of `model_class` that replace those of the options.

    Returns:
        A compiled `Transformer`, in the state that the training resumes from.

    Raises:
        UserError: if an option is out of its range, or the resumed training had another model.
    """
    options = context.options
    _warn_of_long_warmup(options)
    hyperparameters = _hyperparameters(options)
    with context.devices.scope():
        if init := options.run.init:
            model = make_initial_model(
                init, vocabulary_size, options.model, context.processes, model_class, **overrides
            )
            if options.run.lora:
                model.enable_lora(options.run.lora)
        else:
            make = make_transformer if model_class is Transformer else model_class
            sizes = without_training(hyperparameters)
            model = make(
                **{
                    "vocabulary_size": vocabulary_size,
                    "dtype": options.model.precision,
                    **sizes,
                    **overrides,
                }
            )
        optimizer = make_optimizer(
            options.optimizer,
            hyperparameters["hidden_dim"],
            options.fitting.steps,
            loss_scaling=model.dtype_policy.compute_dtype == "float16",
        )
    compile_model(model, optimizer, hyperparameters["label_smoothing"], context)
    return model


def _hyperparameters(options: TrainingOptions) -> dict[str, Any]:
    """Return the hyperparameters of the model and its training."""
    chosen = options.model.hyperparameters()
    if options.run.init is None:
        return chosen
    if options.run.lora is not None and options.model.label_smoothing is None:
        chosen["label_smoothing"] = 0.0
    initial = initial_hyperparameters(options.run.init, options.model)
    return {**chosen, **{name: initial[name] for name in chosen.keys() & initial.keys()}}


def _origin(init: str | Path | None) -> list[str]:
    """Return the lines of a card that name the preset that a training began with."""
    if init is None:
        return []
    license = license_in(read_card(initial_preset(init)[1]))
    return [f"fine-tuned from {init}", *([f"license: {license}"] if license else [])]


def save_training(
    task: Any,
    facts: dict,
    title: str,
    lines: list[str],
    context: TrainingContext,
    batches: Batches,
    fitted: Fitted,
) -> None:
    """Write the results and the preset `model` with its model card, in process 0.

    Args:
        task: a `Translator` or another task with the trained model.
        facts: dict of JSON values for `results.json`. Its `"command"`, if any, is for the card.
        title: title of the model card.
        lines: further lines of the card, such as scores.
        context: the `TrainingContext`.
        batches: `Batches`.
        fitted: the result of `fit`.
    """
    hyperparameters = _hyperparameters(context.options)
    facts = {
        **facts,
        **training_facts(task.model, batches.train, context, fitted.seconds, hyperparameters),
        "interval": context.options.fitting.interval,
    }

    def write() -> None:
        write_results(facts, fitted.history, context.folder)
        card = model_card(title, facts, [*lines, *_origin(context.options.run.init)])
        task.save_to_preset(context.folder / _MODEL, card=card)
        logger.info("The model is in %s.", context.folder / _MODEL)

    context.processes.first(write)
    if context.lock is not None:
        context.lock.release()  # The context may live on, in a notebook.
