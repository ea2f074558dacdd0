"""Where a training works, where it stands, and what must stay as it is when it goes on."""

import dataclasses
import os
import time
from dataclasses import dataclass
from pathlib import Path

import keras

from keras_transformer.errors import UserError
from keras_transformer.files import FolderLock, remove_leftovers
from keras_transformer.options import mutable_on_resume
from keras_transformer.training.distribution import Devices, use_devices
from keras_transformer.training.training_state import TrainingState, as_json, find_start
from keras_transformer.validation import integer

_SEEDS = "an integer from 0 to 2^32 - 1"


@dataclass(kw_only=True)
class RunOptions:
    """Where a training writes, and whether it goes on."""

    output_dir: Path = mutable_on_resume()
    """Folder for the tokenizer, checkpoints, logs and, in model/, the trained model."""
    resume: bool = mutable_on_resume(False)
    """Go on from the newest checkpoint in the output folder, exactly where it was; without one,
    begin at the beginning."""
    overwrite: bool = mutable_on_resume(False)
    """Begin at the beginning, in place of an earlier training in the output folder."""
    seed: int = 1
    """Seed of weights, dropout and batches."""
    init: str | None = None
    """Begin with the tokenizer, the architecture and the weights of a preset: a folder or a name.
    Dropout and the options of training are those given here."""

    def check(self):
        """Check the options.

        Raises:
            UserError: if the seed is out of its range, or there is no folder.
        """
        if not isinstance(self.output_dir, str | os.PathLike) or not str(self.output_dir):
            raise UserError(
                f"`output_dir` must be the path of a folder. Received: {self.output_dir!r}"
            )
        if integer("seed", self.seed, 0, _SEEDS) >= 2**32:
            raise UserError(f"`seed` must be {_SEEDS}. Received: seed={self.seed}")


@dataclass(frozen=True)
class Run:
    """What the stages of a training need to know of it.

    Attributes:
        folder: where the training writes: its process 0.
        devices: the `Devices` that share each batch.
        start: the `TrainingState` that the training goes on from.
        settings: dict of what must stay as it is when the training goes on.
        seed: seed of weights, dropout and batches.
        began: when this process began, as `time.time()`.
        lock: the `FolderLock` of process 0, which keeps other trainings out of the folder.
    """

    folder: Path
    devices: Devices
    start: TrainingState
    settings: dict
    seed: int
    began: float
    lock: FolderLock | None = dataclasses.field(default=None, repr=False, compare=False)

    @property
    def checkpoints_folder(self):
        """The folder of the checkpoints."""
        return self.folder / "checkpoints"

    @property
    def processes(self):
        """The `Processes` that train together."""
        return self.devices.processes

    @property
    def is_resumed(self):
        """Whether the training goes on from a checkpoint."""
        return self.start.step > 0


def begin_run(options, devices, steps, settings):
    """Look where a training stands, choose its devices and seed everything that draws numbers.

    Args:
        options: `RunOptions`. Seeds are the whole process's from here on.
        devices: `DeviceOptions`.
        steps: the number of updates of the whole training.
        settings: dict of what must stay as it is when the training goes on, as `fixed_settings`
            finds it.

    Returns:
        A `Run`.

    Raises:
        UserError: if there are no such devices or is no such seed, the folder cannot be written to,
            holds another training or has one running in it, or another process was given other
            options.
    """
    options.check()
    began = time.time()
    folder = Path(options.output_dir)
    chosen = use_devices(devices)
    keras.utils.set_random_seed(options.seed)

    lock = None

    def find():
        nonlocal lock
        lock = _lock(folder)
        remove_leftovers(folder)
        checkpoints = folder / "checkpoints"
        return find_start(checkpoints, steps, options.resume, options.overwrite).to_json()

    start = TrainingState.from_json(chosen.processes.first(find))
    settings = {
        **settings,
        "num_replicas": chosen.num_replicas,
        # Where each shape has a program from the beginning. What an earlier version began had all
        # shapes in each epoch, and goes on so.
        "few_shapes_first": start.run.get(
            "few_shapes_first", start.step == 0 and keras.backend.backend() == "jax"
        ),
    }
    if settings.get("normalization", "") is None:
        # The vocabulary that is there decides. Earlier versions named their default.
        settings["normalization"] = start.run.get("normalization")
    run = Run(folder, chosen, start, settings, options.seed, began, lock)
    _check_settings(run, settings, steps=steps)
    return run


def _lock(folder):
    """Keep other trainings out of a folder, from now until this one has ended.

    Raises:
        UserError: if there is one already, or the folder cannot be written to.
    """
    if folder.exists() and not folder.is_dir():
        raise UserError(f"`output_dir` must be a folder. Received: {folder}, which is a file.")
    try:
        return FolderLock(folder)
    except BlockingIOError as error:
        raise UserError(
            f"Another training is running in {folder}. Wait until it has ended, or pass another "
            "`output_dir`."
        ) from error
    except OSError as error:
        raise UserError(
            f"Cannot write to {folder}: {error.strerror}. Pass another `output_dir`."
        ) from error


def check_data(run, train, *tokenizers, val=None):
    """Hold a run to its texts and vocabulary: a resumed training must have the same.

    Args:
        run: a `Run`.
        train: the training text, which has a `fingerprint()`.
        *tokenizers: the `Tokenizer`, or the source's and the target's.
        val: the validation text, likewise, by which `patience` and `keep_best` decide. None: a
            resumed training may have another.

    Returns:
        The `Run`, in whose settings all are noted.

    Raises:
        UserError: if one of them is not what the training began with, or not what process 0 has.
    """
    settings = {
        **run.settings,
        "training_text": train.fingerprint(),
        **({} if val is None else {"validation_text": val.fingerprint()}),
        "tokenizer": " ".join(dict.fromkeys(x.fingerprint() for x in tokenizers)),
    }
    _check_settings(run, settings)
    return dataclasses.replace(run, settings=settings)


def _check_settings(run, settings, **others):
    """Check them in all processes: they are what the training began with, and those of process 0.

    Args:
        run: the `Run`.
        settings: dict of what must stay as it is when the training goes on.
        **others: what may change then, and must be the same in all processes.
    """
    mine = as_json({**settings, **others})
    first = run.processes.first(lambda: mine)

    def check():
        run.start.check_run(settings)
        different = [
            f"{name}={mine[name]} (there {first[name]})"
            for name in mine
            if mine[name] != first[name]
        ]
        if different:
            raise UserError(
                f"Process {run.processes.index} has other options or another text than process 0: "
                f"{', '.join(different)}. Start all processes with the same."
            )

    run.processes.each(check)
