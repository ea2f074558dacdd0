"""Options of the stages of a training."""

import os
from dataclasses import dataclass
from pathlib import Path

from keras_transformer.errors import UserError
from keras_transformer.option_fields import default_with_init, mutable_on_resume
from keras_transformer.validation import (
    check_optional,
    integer,
    positive_integer,
    positive_number,
    probability,
    whole_number,
)

# The defaults of fine-tuning, for texts of some hundred pairs: docs/guides/train.md.
_TUNING_STEPS = 300


def _tuning_warmup(run: "RunOptions", steps: int) -> int:
    return max(1, min(20, steps // 15))


def _tuning_cooldown(run: "RunOptions", steps: int) -> int:
    return min(200, steps * 2 // 3)


def _tuning_rate(run: "RunOptions", steps: int) -> float:
    return 0.001


_SEEDS = "an integer from 0 to 2^32 - 1"


@dataclass(kw_only=True)
class RunOptions:
    """Options for the output folder and resuming."""

    output_dir: Path = mutable_on_resume()
    """Folder for the tokenizer, checkpoints, logs and, in model/, the trained model."""
    resume: bool = mutable_on_resume(False)
    """Resume exactly from the newest checkpoint in the output folder. If there is none, start from
    the beginning."""
    overwrite: bool = mutable_on_resume(False)
    """Start from the beginning, and replace an earlier training in the output folder."""
    seed: int = 1
    """Seed of weights, dropout and batches."""
    init: str | None = None
    """Start with the tokenizer, the architecture and the weights of a preset: a folder or a name.
    Dropout and the training options are taken from the options given here. A model of another
    library is converted, as by `Translator.from_preset`."""
    lora: int | None = None
    """Fine-tune the preset of `init` with LoRA (Hu et al., 2021): train only low-rank matrices of
    this rank, such as 8, next to its frozen weights. The trained model contains their sum. The
    matrices of the last update are also written alone, to model.lora.h5."""

    def validate(self) -> None:
        """Validate the options.

        Raises:
            UserError: if a number is out of its range, there is no folder, or `lora` is given
                without `init`.
        """
        if not isinstance(self.output_dir, str | os.PathLike) or not str(self.output_dir):
            raise UserError(
                f"`output_dir` must be the path of a folder. Received: {self.output_dir!r}"
            )
        if integer("seed", self.seed, 0, _SEEDS) >= 2**32:
            raise UserError(f"`seed` must be {_SEEDS}. Received: seed={self.seed}")
        check_optional(positive_integer, self, "lora")
        if self.lora is not None and self.init is None:
            raise UserError(
                f"`lora` adapts a trained model: pass its preset as `init`. Received: "
                f"lora={self.lora}, init=None"
            )


@dataclass(kw_only=True)
class DeviceOptions:
    """Options for the devices that share a training step."""

    deterministic: bool = False
    """Produce bit-for-bit the same results in each run, at some cost in speed."""
    replicas: int | None = mutable_on_resume(None)
    """Devices that share each batch, in each process. Defaults to all GPUs, or to one CPU."""
    coordinator: str | None = mutable_on_resume(None)
    """HOST:PORT of process 0, if several processes train together (JAX)."""
    num_processes: int = 1
    """Number of processes that train together, on one machine or several, all with the same
    options."""
    process_id: int = mutable_on_resume(0)
    """Index of this process, from 0. Only process 0 writes checkpoints, logs and the model."""

    def validate(self) -> None:
        """Validate the options.

        Raises:
            UserError: if a number is out of its range.
        """
        check_optional(positive_integer, self, "replicas", "num_processes")
        whole_number("process_id", self.process_id)


@dataclass(kw_only=True)
class OptimizerOptions:
    """Options for the optimizer (section 5.3)."""

    warmup_steps: int = default_with_init(2000, _tuning_warmup)
    """Updates over which the learning rate increases (section 5.3). With `init`: 20, or fewer of
    less than 300 updates."""
    peak_learning_rate: float | None = default_with_init(0.003, _tuning_rate)
    """Learning rate at the end of the warm-up; "None" for the paper's, 1 / sqrt(hidden_dim *
    warmup_steps). With `init`: 0.001."""
    cooldown_steps: int = default_with_init(0, _tuning_cooldown)
    """Number of last updates over which the learning rate falls to zero (Hägele et al., 2024). 0:
    it only falls as in the paper. With `init`: 200, or two thirds of fewer than 300 updates."""
    ema: float | None = None
    """Momentum of a moving average of the weights (0.999, for example), used instead of averaged
    checkpoints."""
    accumulate: int = 1
    """Batches per update, equivalent to one batch that is larger by this factor."""
    clip_norm: float | None = None
    """Largest global norm of an update's gradient. Defaults to no clipping."""

    def validate(self) -> None:
        """Validate the options.

        Raises:
            UserError: if a number is out of its range.
        """
        positive_integer("warmup_steps", self.warmup_steps)
        whole_number("cooldown_steps", self.cooldown_steps)
        positive_integer("accumulate", self.accumulate)
        check_optional(positive_number, self, "peak_learning_rate", "clip_norm")
        check_optional(probability, self, "ema")


@dataclass(kw_only=True)
class FitOptions:
    """Options for the length of a training and its validations (section 5.2)."""

    steps: int = mutable_on_resume(default_with_init(7500, lambda *_: _TUNING_STEPS))
    """Number of updates. With `init`: 300."""
    interval: int = default_with_init(500, lambda *_: 100)
    """Updates between two validations. With `init`: 100."""

    def validate(self) -> None:
        """Validate the options.

        Raises:
            UserError: if a number is out of its range.
        """
        check_optional(positive_integer, self, "steps", "interval")


@dataclass(kw_only=True)
class CheckpointOptions:
    """Options for writing checkpoints and averaging them (section 6.1)."""

    checkpoint_steps: int | None = mutable_on_resume(None)
    """Updates between two checkpoints. Defaults to the interval."""
    checkpoint_minutes: float | None = mutable_on_resume(None)
    """Minutes between two checkpoints, instead of updates. The paper uses 10 (section 6.1)."""
    average: int = mutable_on_resume(default_with_init(5, lambda *_: 1))
    """Number of last checkpoints to average into the model (section 6.1). With `init`: 1."""
    keep: int = mutable_on_resume(0)
    """Number of checkpoints to keep, if it is more than the number to average."""
    keep_best: str | None = mutable_on_resume(None)
    """Keep and average the checkpoints of the best validations instead of the last ones: by
    val_loss, val_accuracy, val_perplexity, and val_bleu or val_f1."""
    patience: int = mutable_on_resume(0)
    """End the training if this number of intervals brings no better validation, by `keep_best` or
    else val_loss. 0: never."""

    def validate(self) -> None:
        """Validate the options.

        Raises:
            UserError: if a number is out of its range.
        """
        check_optional(positive_integer, self, "checkpoint_steps", "average")
        check_optional(positive_number, self, "checkpoint_minutes")
        check_optional(whole_number, self, "keep", "patience")
