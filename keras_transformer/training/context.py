"""The context of a training: its options, its devices, and the state from which it resumes."""

import dataclasses
import random
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_transformer.errors import UserError
from keras_transformer.files import lock_folder, remove_leftovers
from keras_transformer.option_fields import fine_tuned_defaults, fixed_settings
from keras_transformer.training.distribution import Devices, choose_devices, make_deterministic
from keras_transformer.training.processes import Processes
from keras_transformer.training.training_state import TrainingState, as_json, find_start

_SEEDS = "an integer from 0 to 2^32 - 1"


@dataclass(frozen=True)
class TrainingContext:
    """The options and the state of a training. It is made once; the stages only read it.

    Attributes:
        options: `TrainingOptions`.
        devices: the `Devices` that share each batch.
        start: the `TrainingState` from which the training resumes.
        settings: dict of the options that must not change when the training resumes. Checkpoints
            record them.
        few_shapes_first: whether the first epochs use few batch shapes.
        began: the start of this process, as `time.time()`.
        lock: the lock of process 0, which keeps other trainings out of the folder.
    """

    options: Any
    devices: Devices
    start: TrainingState
    settings: dict[str, Any]
    few_shapes_first: bool
    began: float
    lock: Any = dataclasses.field(default=None, repr=False, compare=False)

    @property
    def folder(self) -> Path:
        """The output folder, into which process 0 writes."""
        return Path(self.options.run.output_dir)

    @property
    def checkpoints_folder(self) -> Path:
        """The folder of the checkpoints."""
        return self.folder / "checkpoints"

    @property
    def processes(self) -> Processes:
        """The `Processes` that train together."""
        return self.devices.processes

    @property
    def is_resumed(self) -> bool:
        """Whether the training resumes from a checkpoint."""
        return self.start.step > 0

    def validate_settings(self, settings: dict, **others: Any) -> None:
        """Check in all processes that settings are the same as at the start and as in process 0.

        Args:
            settings: dict of values that must not change when the training resumes.
            **others: values that may change then, but must be the same in all processes.

        Raises:
            UserError: if one of them differs.
        """
        mine = as_json({**settings, **others})
        first = self.processes.first(lambda: mine)

        def check() -> None:
            self.start.validate_run(settings)
            different = [
                f"{name}={mine[name]} (there {first[name]})"
                for name in mine
                if mine[name] != first[name]
            ]
            if different:
                raise UserError(
                    f"All processes must have the same options and texts as process 0. Received in "
                    f"process {self.processes.index}: {', '.join(different)}"
                )

        self.processes.each(check)


def make_context(options: Any, settings: dict) -> TrainingContext:
    """Find the state of a training, choose its devices and set the seeds of all random numbers.

    Args:
        options: `TrainingOptions`. The seed is set for the whole process.
        settings: dict of the options that must not change when the training resumes, as
            `fixed_settings` returns them.

    Returns:
        A `TrainingContext`.

    Raises:
        UserError: if a device or the seed is not valid, the folder cannot be written to, contains
            another training or is used by a running one, or another process has other options.
    """
    where, steps = options.run, options.fitting.steps
    where.validate()
    if where.init is not None:
        steps = getattr(steps, "fine_tuned", lambda _, steps: steps)(where, steps)
    began = time.time()
    folder = Path(where.output_dir)
    shared = options.devices
    if shared.deterministic:
        make_deterministic()
    devices = choose_devices(
        shared.replicas, shared.coordinator, shared.num_processes, shared.process_id
    )
    _set_seeds(where.seed)

    lock = None

    def find() -> dict[str, Any]:
        nonlocal lock
        lock = _lock(folder)
        remove_leftovers(folder)
        return find_start(folder / "checkpoints", steps, where.resume, where.overwrite).to_json()

    start = TrainingState.from_json(devices.processes.first(find))
    if where.init is not None:
        options = fine_tuned_defaults(options, where, steps, start.run)
        tuned = fixed_settings(options)
        settings = {name: tuned.get(name, value) for name, value in settings.items()}
    # Few shapes pay off if each has its own program from the beginning. A training that resumes on
    # another backend keeps its batches.
    few_shapes_first = start.run.get("few_shapes_first", keras.backend.backend() == "jax")
    settings = {
        **settings,
        "num_replicas": devices.num_replicas,
        "few_shapes_first": few_shapes_first,
    }
    context = TrainingContext(options, devices, start, settings, few_shapes_first, began, lock)
    context.validate_settings(settings, steps=steps)
    return context


def _set_seeds(seed: int) -> None:
    """Seed all random numbers that weights, dropout and batches come from.

    `keras.utils.set_random_seed` does the same, but it imports TensorFlow on every backend.
    """
    backend = keras.backend.backend()
    if backend == "tensorflow":
        keras.utils.set_random_seed(seed)
        return
    random.seed(seed)
    np.random.seed(seed)
    if backend == "torch":
        import torch

        torch.manual_seed(seed)


def _lock(folder: Path) -> Any:
    """Keep other trainings out of a folder until this one has ended.

    Raises:
        UserError: if another training is running there, or the folder cannot be written to.
    """
    if folder.exists() and not folder.is_dir():
        raise UserError(f"`output_dir` must be a folder. Received: the file {folder}")
    try:
        return lock_folder(folder)
    except TimeoutError as error:
        raise UserError(
            f"Another training is running in {folder}. Wait until it has ended, or pass another "
            "`output_dir`."
        ) from error
    except OSError as error:
        raise UserError(
            f"Cannot write to {folder}: {error.strerror}. Pass another `output_dir`."
        ) from error
