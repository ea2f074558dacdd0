"""The whole state of a training in one file, from which it goes on exactly, on any backend.

`step-N.state.weights.h5` is a weights file as `save_weights` writes it, with a group
`training_state`:

- `optimizer/NAME`: the optimizer's variables (moments, iterations, accumulated gradients, moving
  averages, ...), by their names;
- `other/I`: what else the model changes in training, in the model's order: the seeds of dropout;
- `facts`: a JSON text of `TrainingState`'s other fields, as bytes.

(Earlier versions wrote `metrics/NAME/I` too, the sums of the metrics of an epoch that had not
ended. They are passed over.)

A SHA-256 of all of it is an attribute of the group, and every weights file ends with one of its
own: a damaged file is known as such.
"""

import dataclasses
import hashlib
import json
import logging
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import h5py
import keras
import numpy as np
from keras import ops

from keras_transformer.errors import UserError
from keras_transformer.training.checkpoints import (
    DAMAGE,
    STATE_GROUP,
    check_finite,
    datasets,
    list_by_step,
    list_checkpoints,
    load_weights,
    opened,
    seal,
    write_weights,
)
from keras_transformer.training.processes import Processes

logger = logging.getLogger(__name__)

# Keras loads weights from files with the second half of it alone.
STATE_ENDING = "state.weights.h5"

_FORMAT = 1


@dataclass(frozen=True)
class TrainingState:
    """Where a training stood; without arguments, the beginning of one.

    Args:
        path: the file, or None at the beginning.
        step: the number of updates.
        batches: the number of batches consumed.
        seconds: the time that training took so far.
        history: as Keras keeps it, name -> values, one for each epoch.
        run: what was trained: names and JSON values of what must stay as it is.
    """

    path: Path | None = None
    step: int = 0
    batches: int = 0
    seconds: float = 0.0
    history: dict[str, list[float]] = field(default_factory=dict)
    run: dict[str, Any] = field(default_factory=dict)

    def check_run(self, run: Mapping[str, Any]) -> None:
        """Raise a `UserError` if anything in `run` differs from what was trained.

        Args:
            run: dict of what must not change when the training goes on.

        Raises:
            UserError: if an option has another value, which it names.
        """
        changes = [
            f"{name}={_short(value)} in place of {name}={_short(self.run[name])}"
            for name, value in run.items()
            if name in self.run and self.run[name] != as_json(value)
        ]
        if changes:
            raise UserError(
                f"Cannot resume from {self.path}: expected the texts and options that it was "
                f"trained with. Received: {', '.join(changes)}. Pass the same, or train in another "
                "folder."
            )

    def restore(self, model: keras.Model, processes: Processes | None = None) -> None:
        """Give a compiled model this state. At the beginning it keeps its own.

        Args:
            model: the model.
            processes: the `Processes` that train it, of which process 0 reads the file. Defaults to
                this one alone.

        Raises:
            UserError: if model or optimizer are others.
        """
        if self.path is None:
            return
        processes = processes or Processes()
        load_weights(model, self.path, processes)
        if not model.optimizer.built:
            model.optimizer.build(model.trainable_variables)
        variables = _state_variables(model)
        values = processes.each(lambda: self._read(variables) if processes.is_writer else None)
        processes.assign(variables.values(), values)

    def _read(self, variables):
        """The tensors of the file besides the weights: a list in the order of the variables."""
        with h5py.File(self.path) as file:
            values = {
                name: x[...]
                for name, x in datasets(file[STATE_GROUP]).items()
                if name != "facts" and not name.startswith("metrics/")
            }
        for name in sorted(variables.keys() | values.keys()):
            shapes = [tuple(x[name].shape) if name in x else None for x in (values, variables)]
            if shapes[0] != shapes[1]:
                raise UserError(
                    f"{self.path} is of another model or optimizer: {name} has the shape "
                    f"{shapes[0]}, and should have {shapes[1]}."
                )
        return [values[name] for name in variables]

    def to_json(self) -> dict[str, Any]:
        """A dict of JSON values, of which `from_json` makes it again."""
        path = None if self.path is None else str(self.path)
        return {**dataclasses.asdict(self), "path": path}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "TrainingState":
        """Make what `to_json` has written down.

        Args:
            values: the dict.

        Returns:
            A `TrainingState`.
        """
        path = None if values["path"] is None else Path(values["path"])
        return cls(**{**values, "path": path})


class Snapshot:
    """The state of a training, copied to the memory of the host: the training may go on.

    Args:
        model: a functional model, compiled.
        **facts: the fields of `TrainingState` without the path.
    """

    def __init__(self, model: keras.Model, **facts: Any):
        text = json.dumps({"format": _FORMAT, **facts}, default=str)
        self._model = model
        # `convert_to_numpy` copies, on every backend.
        self._weights = [(v, ops.convert_to_numpy(v)) for v in model.weights]
        self._others = {name: _values(v) for name, v in _state_variables(model).items()}
        # An attribute could hold only 64 kB.
        self._others["facts"] = np.frombuffer(text.encode(), "uint8")

    def write(self, path: str | PathLike) -> None:
        """Write it to a new file: in any thread.

        Args:
            path: the file, whose name ends in `.weights.h5`.

        Raises:
            UserError: if anything is infinite or not a number.
        """
        # In the scope, which other threads do not see, the variables have the copied values: as
        # arrays, that is not on a device, which may be full, or another process's.
        scope = keras.StatelessScope()
        for update in self._weights:
            scope.add_update(update)
        with scope:
            write_weights(self._model, path, room_for=self._others.values())
        with h5py.File(path, "r+") as file:
            state = file.create_group(STATE_GROUP)
            for name, values in self._others.items():
                state[name] = values
            state.attrs["sha256"] = np.bytes_(_digest(file, must_be_finite=True))
        seal(path)


def read_state(path: str | PathLike) -> TrainingState:
    """Read a file that `Snapshot.write` wrote, except for the tensors.

    Returns:
        A `TrainingState`.

    Raises:
        UserError: if the file is damaged, or of another version.
    """
    path = Path(path)
    try:
        with opened(path) as file:
            state = file[STATE_GROUP]
            is_whole = state.attrs["sha256"] == _digest(file).encode()
            facts = json.loads(state["facts"][()].tobytes()) if is_whole else None
    except DAMAGE as error:
        raise UserError(f"{path} is damaged.") from error
    if facts is None:
        raise UserError(f"{path} is damaged.")
    if facts.pop("format") != _FORMAT:
        raise UserError(f"{path} is of another version of keras_transformer.")
    return TrainingState(path=path, **facts)


def list_states(folder: str | PathLike) -> list[Path]:
    """The files with a training's state in a folder, the oldest first."""
    return list_by_step(folder, STATE_ENDING)


def newest_state(folder: str | PathLike) -> TrainingState:
    """The newest state in a folder that is whole, or the beginning where there is none at all.

    Each one that is damaged is logged as a warning.

    Raises:
        UserError: if all are damaged.
    """
    paths = list_states(folder)
    for path in reversed(paths):
        try:
            return read_state(path)
        except UserError as error:
            logger.warning("%s Trying the one before.", error)
    if paths:
        raise UserError(
            f"All states of the training in {folder} are damaged: it cannot go on. "
            "Train anew in another folder, or with `overwrite=True`."
        )
    return TrainingState()


def find_start(folder: str | PathLike, steps: int, resume: bool, overwrite: bool) -> TrainingState:
    """Where a training begins, by what its checkpoints' folder holds.

    Args:
        folder: the folder of the checkpoints.
        steps: the number of updates that the training shall have.
        resume: whether to go on from the newest.
        overwrite: whether they may be replaced.

    Returns:
        A `TrainingState`.

    Raises:
        UserError: if there are checkpoints, and neither `resume` nor `overwrite` is set, or both;
            or if the newest is beyond `steps`.
    """
    if resume and overwrite:
        raise UserError("Pass `resume=True` to go on, or `overwrite=True` to train anew: not both.")
    if not resume:
        if not overwrite and (list_states(folder) or list_checkpoints(folder)):
            raise UserError(
                f"{folder} holds checkpoints of an earlier training. Pass `resume=True` to go on "
                "from the newest, `overwrite=True` to replace them, or another `output_dir`."
            )
        return TrainingState()
    state = newest_state(folder)
    if state.step > steps:
        raise UserError(
            f"{state.path} is beyond the {steps} steps asked for. Pass more `steps` than "
            f"{state.step}, or train anew with `overwrite=True`."
        )
    if state.path:
        logger.info("Going on from step %d, %s.", state.step, state.path)
    else:
        logger.info("%s holds nothing to go on from: training begins at the beginning.", folder)
    return state


def _state_variables(model):
    """All that changes in training except for the weights: name -> variable."""
    weights = {id(variable) for variable in model.weights}
    others = [v for v in model.non_trainable_variables if id(v) not in weights]
    named = [("optimizer", v.name, v) for v in model.optimizer.variables]
    # Seed generators are numbered as they are made, by all models of the process.
    named += [("other", str(number), v) for number, v in enumerate(others)]
    variables, seen = {}, Counter()
    for group, name, variable in named:
        # An optimizer around another has a second variable "iteration".
        repeats = seen[group, name]
        seen[group, name] += 1
        variables[f"{group}/{name}" + (f".{repeats}" if repeats else "")] = variable
    return variables


def _values(variable):
    values = ops.convert_to_numpy(variable)
    # HDF5 has no bfloat16. float32 holds it exactly.
    return values.astype("float32") if values.dtype.name == "bfloat16" else values


def _digest(file, must_be_finite=False):
    """The SHA-256 of all tensors of an open file, each of which is read once."""
    digest = hashlib.sha256()
    for name, item in datasets(file).items():
        values = np.ascontiguousarray(item[()])
        if must_be_finite:
            check_finite(name, values)
        digest.update(f"{name} {item.dtype} {item.shape}".encode())
        digest.update(values.data)
    return digest.hexdigest()


def _short(value):
    """A value as an error names it: of a fingerprint, the first digits."""
    is_digest = isinstance(value, str) and re.fullmatch("[0-9a-f]{64}( [0-9a-f]{64})?", value)
    return f"{value[:12]}..." if is_digest else value


def as_json(value: Any) -> Any:
    """A value as it is when it has been written down in JSON, and read."""
    return json.loads(json.dumps(value, default=str))
