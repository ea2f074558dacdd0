"""Compiling, fitting and averaging a model (sections 5.2 and 6.1)."""

import contextlib
import importlib.util
import logging
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import keras

from keras_transformer.errors import UserError
from keras_transformer.models.losses import LabelSmoothedCrossentropy
from keras_transformer.models.metrics import Perplexity, TokenAccuracy
from keras_transformer.progress import spinner
from keras_transformer.training.callbacks import (
    CompileLater,
    LimitInFlightBatches,
    LogScore,
    StopOnNonFinite,
    TensorBoard,
    first_compiled_batch,
    xla_pays,
)
from keras_transformer.training.context import TrainingContext
from keras_transformer.training.fit_progress import LogProgress, ShowProgress
from keras_transformer.training.processes import explain_lost_connections
from keras_transformer.training.results import write_history
from keras_transformer.training.rolling_checkpoints import RollingCheckpoints
from keras_transformer.training.stopping import (
    StopEarly,
    best_checkpoints,
    has_ended,
    stop_on_signals,
    validate_choice_of_checkpoints,
)
from keras_transformer.weights.checkpoints import average_checkpoints, list_checkpoints
from keras_transformer.weights.weights_file import load_weights

logger = logging.getLogger(__name__)

# In the errors of PyTorch, JAX and TensorFlow.
_NO_MEMORY = re.compile("out of memory|RESOURCE_EXHAUSTED|OOM when allocating")


class Batches(NamedTuple):
    """The planned training and validation batches."""

    train: Any  # `TokenBatches`
    val: Any  # `TokenBatches`
    # Fingerprints of texts and tokenizers, which must not change when the training resumes.
    fingerprints: dict[str, Any]


class Fitted(NamedTuple):
    """The result of `fit`."""

    history: dict[str, list[float]]  # name -> values, one per interval, as in Keras
    seconds: float  # training time, including the time before it resumed


class Part(NamedTuple):
    """A part of a training whose epochs have one length: one call of Keras's `fit`."""

    first_batch: int  # counted from 0 over the whole training
    first_epoch: int
    end_epoch: int
    batches_per_epoch: int


def compile_model(
    model: keras.Model,
    optimizer: keras.optimizers.Optimizer,
    label_smoothing: float,
    context: TrainingContext,
) -> None:
    """Compile a model for training, and restore the state from which the training resumes.

    The loss is the token mean over the batch of all replicas: see `TokenBatches`.

    Args:
        model: a `Transformer`, made in `context.devices.scope()`.
        optimizer: a `WholeBatchOptimizer`.
        label_smoothing: ε_ls (section 5.4).
        context: the `TrainingContext`.

    Raises:
        UserError: if the checkpoint belongs to another model or optimizer.
    """
    with context.devices.scope():
        model.compile(
            optimizer=optimizer,
            loss=LabelSmoothedCrossentropy(label_smoothing, reduction="sum"),
            weighted_metrics=[TokenAccuracy(), Perplexity()],
            jit_compile=context.devices.jit_compile and not _compiles_later(context),
        )
        # Otherwise TensorFlow traces the first step twice, because it creates variables.
        model.optimizer.build(model.trainable_variables)
        context.start.restore(model, context.processes)
    logger.info("%s parameters", f"{model.count_params():,}")


def fit(
    model: keras.Model,
    batches: Batches,
    context: TrainingContext,
    scores: dict[str, Callable[[], float]] | None = None,
) -> Fitted:
    """Train a model (section 5.2) in intervals that end with a validation.

    Process 0 writes checkpoints and finally `history.json` and `training.png` into the output
    folder.

    An interrupted training resumes exactly: the same call leads to the same weights, history and
    scores.

    Args:
        model: a model that `compile_model` has compiled.
        batches: `Batches`.
        context: the `TrainingContext`.
        scores: dict of names in the history, such as `"val_bleu"`, and functions without arguments
            that return a number. They are called at the end of each interval.

    Returns:
        `Fitted`.

    Raises:
        UserError: if the loss is infinite or not a number, a checkpoint cannot be written, or
            another process has ended.
        TrainingStopped: after SIGTERM or Ctrl-C, once the checkpoint is written.
    """
    options, kept = context.options.fitting, context.options.checkpoints
    options.validate()
    kept.validate()
    scores = scores or {}
    validate_choice_of_checkpoints(kept, scores, model.optimizer.inner_optimizer.use_ema)
    num_batches = options.steps * batches.train.accumulate
    interval = options.interval * batches.train.accumulate
    first_batch = context.start.batches
    checkpoints = RollingCheckpoints(
        context.checkpoints_folder,
        keep=max(kept.keep, kept.average),
        every_steps=kept.checkpoint_steps,
        every_minutes=kept.checkpoint_minutes,
        start=context.start,
        run={**context.settings, **batches.fingerprints},
        num_batches=num_batches,
        processes=context.processes,
        best_by=kept.keep_best,
    )
    by, patience = kept.keep_best or "val_loss", kept.patience
    ended = has_ended(checkpoints.history.get(by, []), by, patience)
    callbacks = [
        *_compile_later(model, context, batches, num_batches),
        LimitInFlightBatches(),
        LogProgress(batches.train.target_tokens, options.steps),
        StopOnNonFinite(batches.train, checkpoints),
        *(LogScore(name, score) for name, score in scores.items()),
        *(_tensorboard(context.folder) if context.processes.is_writer else []),
    ]
    stop_early = [StopEarly(by, patience, checkpoints.history)] if patience else []
    with (
        _progress(context) as show,
        stop_on_signals(checkpoints.stop_sync, checkpoints.last_good),
        explain_lost_connections(),
        explain_lack_of_memory(),
    ):
        fit_in_parts(
            model,
            batches.train.stream,
            [] if ended else plan_parts(first_batch, num_batches, interval),
            validation_data=batches.val,
            callbacks=[*callbacks, *show, *stop_early, checkpoints],
            verbose=0,
        )
    every = options.interval, options.steps
    context.processes.first(lambda: write_history(checkpoints.history, context.folder, *every))
    return Fitted(checkpoints.history, checkpoints.seconds)


@contextlib.contextmanager
def explain_lack_of_memory() -> Iterator[None]:
    """Convert errors of a device without free memory to a message with the options to change.

    The first batch of a training is the largest: see `EpochPlans`.

    Raises:
        UserError: if a computation in the block found too little memory.
    """
    try:
        yield
    except Exception as error:  # Each backend has its own class.
        if isinstance(error, UserError) or not _NO_MEMORY.search(str(error)):
            raise
        raise UserError(
            "The device has too little memory for a batch. Pass a smaller `batch_tokens`, and a "
            "larger `accumulate` to keep the size of an update. Received: "
            f"{str(error).strip().partition(chr(10))[0]}"
        ) from error


def plan_parts(first_batch: int, num_batches: int, interval: int) -> list[Part]:
    """Divide a training into parts whose epochs end at multiples of the interval.

    Args:
        first_batch: the number of batches that are already done.
        num_batches: the number of batches in the whole training.
        interval: batches per epoch.

    Returns:
        A list of `Part`: the rest of an interrupted epoch, whole epochs, and a short last epoch.
        Empty parts are omitted.
    """
    parts = []
    while first_batch < num_batches:
        epoch, within = divmod(first_batch, interval)
        left = num_batches - first_batch
        if within or left < interval:
            size, epochs = min(interval - within, left), 1
        else:
            size, epochs = interval, left // interval
        parts.append(Part(first_batch, epoch, epoch + epochs, size))
        first_batch += size * epochs
    return parts


def fit_in_parts(
    model: keras.Model, stream: Callable[[int], Any], parts: Sequence[Part], **options: Any
) -> None:
    """Call Keras's `fit` for each part of a training, until a callback stops it.

    Args:
        model: a compiled model.
        stream: function that takes the number of batches to skip, and returns an infinite dataset
            of the others, such as `TokenBatches.stream`.
        parts: the result of `plan_parts`.
        **options: further arguments of `fit`.
    """
    if parts and parts[0].first_batch and keras.backend.backend() == "tensorflow":
        # Otherwise TensorFlow creates the metrics in the first batch, too late to restore them.
        batch = next(iter(stream(parts[0].first_batch)))
        model._symbolic_build(data_batch=batch)
    for part in parts:
        model.fit(
            stream(part.first_batch),
            shuffle=False,  # batches are already shuffled
            initial_epoch=part.first_epoch,
            epochs=part.end_epoch,
            steps_per_epoch=part.batches_per_epoch,
            **options,
        )
        if model.stop_training:
            return


def is_averaged(context: TrainingContext) -> bool:
    """Return whether `average_weights` changes the weights that the last validation scored.

    Args:
        context: the `TrainingContext`.
    """
    options = context.options
    kept = options.checkpoints
    return kept.average > 1 or bool(kept.keep_best) or options.optimizer.ema is not None


def average_weights(model: keras.Model, context: TrainingContext) -> str:
    """Average checkpoints into the model (section 6.1), or use the moving average of its weights.

    The options select the last checkpoints, or the checkpoints of the best validations.

    Args:
        model: the model after `fit`.
        context: the `TrainingContext`.

    Returns:
        A description of the weights, such as "last 5 checkpoints averaged".

    Raises:
        UserError: if a checkpoint is missing or damaged.
    """
    if context.options.run.lora:  # before they are merged into the weights
        path = context.folder / "model.lora.h5"
        context.processes.first(lambda: model.save_lora_weights(path))
    if model.optimizer.inner_optimizer.use_ema:
        model.optimizer.overwrite_with_average(model.trainable_variables)
        return "moving average of the weights"
    options = context.options.checkpoints
    averaged = context.folder / "averaged.weights.h5"

    def average() -> int:
        if options.keep_best:
            paths = best_checkpoints(context.checkpoints_folder, options.keep_best, options.average)
        else:
            paths = list_checkpoints(context.checkpoints_folder)[-options.average :]
        average_checkpoints(paths, averaged)
        return len(paths)

    count = context.processes.first(average)
    context.processes.load(model, lambda: load_weights(model, averaged))
    if options.keep_best:
        return f"best {count} checkpoints by {options.keep_best}, averaged"
    return f"last {count} checkpoints averaged"


def validate(model: keras.Model, batches: keras.utils.PyDataset) -> dict[str, float]:
    """Compute loss and metrics on the validation text.

    Args:
        model: the compiled model.
        batches: the validation text's `TokenBatches`.

    Returns:
        A dict of numbers: `"loss"`, `"accuracy"` and `"perplexity"`.
    """
    with spinner("validating"):
        return model.evaluate(batches, verbose=0, return_dict=True)


def _compiles_later(context: TrainingContext) -> bool:
    """Return whether a training starts without XLA although the devices support it."""
    return context.devices.jit_compile and keras.backend.backend() == "tensorflow"


def _compile_later(
    model: keras.Model, context: TrainingContext, batches: Batches, num_batches: int
) -> list[keras.callbacks.Callback]:
    """Return the callback, if any, that compiles the training later; log the programs."""
    num_shapes, first = len(batches.train.shapes), 0
    if _compiles_later(context):
        first = first_compiled_batch(num_shapes, num_batches) if xla_pays(model) else None
    if first is None or not context.devices.jit_compile:
        return []
    logger.info(
        "One program per batch shape is compiled at its first use%s, which takes seconds, or "
        "minutes for a large model. Shapes: %d in training, %d in validation.",
        f" after batch {first:,}" if first else "",
        num_shapes,
        len(batches.val.shapes),
    )
    return [CompileLater(first, context.start.batches)] if first else []


@contextlib.contextmanager
def _progress(context: TrainingContext) -> Iterator[list[keras.callbacks.Callback]]:
    """Yield the callbacks that show progress. Only process 0 has them."""
    options = context.options.fitting
    if context.devices.shard[0]:
        yield []
        return
    with contextlib.closing(ShowProgress(options.steps, options.interval)) as show:
        yield [show]


def _tensorboard(folder: Path) -> list[keras.callbacks.Callback]:
    """Return the callback that logs to TensorBoard, where that is installed."""
    if importlib.util.find_spec("tensorboard") is None:
        logger.info("No TensorBoard log: tensorboard is not installed.")
        return []
    return [TensorBoard(folder / "tensorboard")]
