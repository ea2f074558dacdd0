"""The whole state of a training in one file, from which it resumes exactly, on any backend.

`step-N.state.weights.h5` is a weights file as `save_weights` writes it, with a group
`training_state`:

- `optimizer/NAME`: the optimizer's variables (moments, iterations, accumulated gradients, moving
  averages, ...), by name;
- `other/I`: other variables that change in training, in the model's order: the seeds of dropout;
- `facts`: JSON text of the other fields of `TrainingState`, as bytes, among them the sums of the
  metrics. They may be infinite, unlike all tensors.

Like every weights file, it ends with a SHA-256, so that damage is detected.
"""

import dataclasses
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
from keras_transformer.training.processes import Processes
from keras_transformer.weights.checkpoints import list_by_step, list_checkpoints
from keras_transformer.weights.weights_file import (
    DAMAGE,
    STATE_GROUP,
    datasets,
    load_weights,
    opened,
    validate_finite,
    write_checksum,
    write_weights,
)

logger = logging.getLogger(__name__)

# Keras requires that names of weights files end with `.weights.h5`.
STATE_ENDING = "state.weights.h5"

_FORMAT = 2


@dataclass(frozen=True)
class TrainingState:
    """The state of a training; without arguments, the beginning.

    Args:
        path: the file, or None at the beginning.
        step: the number of updates.
        batches: the number of batches that are done.
        seconds: the training time so far.
        history: name -> values, one per epoch, as in Keras.
        run: names and JSON values of the options and fingerprints that must not change.
        metric_sums: the values of the metrics' variables in an unfinished epoch, as nested lists;
            none after a whole epoch.
    """

    path: Path | None = None
    step: int = 0
    batches: int = 0
    seconds: float = 0.0
    history: dict[str, list[float]] = field(default_factory=dict)
    run: dict[str, Any] = field(default_factory=dict)
    metric_sums: list[Any] = field(default_factory=list)

    def validate_run(self, run: Mapping[str, Any]) -> None:
        """Raise a `UserError` if a value in `run` differs from the value of this training.

        Args:
            run: dict of the values that must not change when the training resumes.

        Raises:
            UserError: if an option has another value; the message names it.
        """
        changed = [
            name
            for name, value in run.items()
            if name in self.run and self.run[name] != as_json(value)
        ]
        if changed:
            expected, received = (
                ", ".join(f"{name}={_short(values[name])}" for name in changed)
                for values in (self.run, run)
            )
            raise UserError(
                f"Cannot resume from {self.path} with other texts or options. Expected: "
                f"{expected}. Received: {received}. Pass the same, or train in another folder."
            )

    def restore(self, model: keras.Model, processes: Processes | None = None) -> None:
        """Restore this state in a compiled model. The beginning changes nothing.

        Args:
            model: the model.
            processes: the `Processes` that train it, of which process 0 reads the file. Defaults to
                this process alone.

        Raises:
            UserError: if the state belongs to another model or optimizer.
        """
        if self.path is None:
            return
        processes = processes or Processes()
        path = self.path
        processes.load(model, lambda: load_weights(model, path))
        if not model.optimizer.built:
            model.optimizer.build(model.trainable_variables)
        variables = _state_variables(model)
        values = processes.each(lambda: self._read(variables) if processes.is_writer else None)
        processes.assign(variables.values(), values)

    def restore_metrics(self, model: keras.Model, processes: Processes | None = None) -> None:
        """Restore the sums of the metrics, at the beginning of the epoch that resumes.

        Without them, or if the model has other metrics, its means cover the rest of the epoch.

        Args:
            model: the model, whose metrics are built.
            processes: as in `restore`.
        """
        variables = model.metrics_variables
        sums = [np.asarray(value, "float64") for value in self.metric_sums]
        if [x.shape for x in sums] == [tuple(v.shape) for v in variables]:
            (processes or Processes()).assign(variables, sums)
        elif sums:
            logger.warning("%s has other metrics: means cover the rest of the epoch.", self.path)

    def _read(self, variables: Mapping[str, keras.Variable]) -> list[np.ndarray]:
        """Return the tensors of the file other than the weights, in the order of the variables."""
        with h5py.File(self.path) as file:
            values = {
                name: x[...] for name, x in datasets(file[STATE_GROUP]).items() if name != "facts"
            }
        for name in sorted(variables.keys() | values.keys()):
            shapes = [tuple(x[name].shape) if name in x else None for x in (values, variables)]
            if shapes[0] != shapes[1]:
                raise UserError(
                    f"{self.path} does not fit the model or the optimizer. Expected shape "
                    f"{shapes[1]} for {name}. Received: {shapes[0]}"
                )
        return [values[name] for name in variables]

    def to_json(self) -> dict[str, Any]:
        """Return a dict of JSON values from which `from_json` restores the object."""
        path = None if self.path is None else str(self.path)
        return {**dataclasses.asdict(self), "path": path}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "TrainingState":
        """Restore an object from the result of `to_json`.

        Args:
            values: the dict.

        Returns:
            A `TrainingState`.
        """
        path = None if values["path"] is None else Path(values["path"])
        return cls(**{**values, "path": path})


class Snapshot:
    """The state of a training, copied to the host's memory so that the training can continue.

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
        # Not an attribute, which can hold only 64 kB.
        self._others["facts"] = np.frombuffer(text.encode(), "uint8")

    def write(self, path: str | PathLike) -> None:
        """Write the state to a new file, in any thread.

        Args:
            path: the file, whose name ends in `.weights.h5`.

        Raises:
            UserError: if a value is infinite or not a number.
        """
        # In the scope, which is local to this thread, the variables have the copied values: as
        # arrays, which need no device that may be full or belong to another process.
        scope = keras.StatelessScope()
        summed = {id(variable) for variable in _summed_variables(self._model)}
        for variable, values in self._weights:
            is_summed = id(variable) in summed
            scope.add_update((variable, ops.convert_to_tensor(values) if is_summed else values))
        with scope:
            write_weights(self._model, path, room_for=self._others.values())
        with h5py.File(path, "r+") as file:
            state = file.create_group(STATE_GROUP)
            for name, values in self._others.items():
                state[name] = values
            for name, item in datasets(file).items():
                validate_finite(name, item[()])
        write_checksum(path)


def read_state(path: str | PathLike) -> TrainingState:
    """Read a file that `Snapshot.write` wrote, except for the tensors.

    Returns:
        A `TrainingState`.

    Raises:
        UserError: if the file is damaged, or was written by another version.
    """
    path = Path(path)
    try:
        with opened(path) as file:
            facts = json.loads(file[f"{STATE_GROUP}/facts"][()].tobytes())
    except DAMAGE as error:
        raise UserError(f"{path} is damaged.") from error
    if facts.pop("format") != _FORMAT:
        raise UserError(f"{path} was written by another version of keras_transformer.")
    return TrainingState(path=path, **facts)


def list_states(folder: str | PathLike) -> list[Path]:
    """Return the files with a training's state in a folder, oldest first."""
    return list_by_step(folder, STATE_ENDING)


def newest_state(folder: str | PathLike) -> TrainingState:
    """Return the newest complete state in a folder, or the beginning if there is none.

    Damaged states are logged as warnings.

    Raises:
        UserError: if all states are damaged.
    """
    paths = list_states(folder)
    for path in reversed(paths):
        try:
            return read_state(path)
        except UserError as error:
            logger.warning("%s Trying the state before it.", error)
    if paths:
        raise UserError(
            f"Cannot resume: all states of the training in {folder} are damaged. Train again in "
            "another folder, or with `overwrite=True`."
        )
    return TrainingState()


def find_start(folder: str | PathLike, steps: int, resume: bool, overwrite: bool) -> TrainingState:
    """Return the state from which a training starts, given the folder of its checkpoints.

    Args:
        folder: the folder of the checkpoints.
        steps: the number of updates in the whole training.
        resume: whether to resume from the newest state.
        overwrite: whether the checkpoints may be replaced.

    Returns:
        A `TrainingState`.

    Raises:
        UserError: if there are checkpoints, and neither or both of `resume` and `overwrite` are
            set; or if the newest state is beyond `steps`.
    """
    if resume and overwrite:
        raise UserError(
            "Pass `resume=True` to resume, or `overwrite=True` to train again from the beginning, "
            "but not both."
        )
    if not resume:
        if not overwrite and (list_states(folder) or list_checkpoints(folder)):
            raise UserError(
                f"{folder} holds checkpoints of an earlier training. Pass `resume=True` to resume "
                "from the newest, `overwrite=True` to replace them, or another `output_dir`."
            )
        return TrainingState()
    state = newest_state(folder)
    if state.step > steps:
        raise UserError(
            f"`steps` must be at least {state.step}, the step of the checkpoint {state.path}. "
            f"Received: steps={steps}. Pass more, or train again with `overwrite=True`."
        )
    if state.path:
        logger.info("Resuming from step %d, %s.", state.step, state.path)
    else:
        logger.info(
            "%s has no checkpoint to resume from: training starts from the beginning.", folder
        )
    return state


def steps_done(model: keras.Model) -> int:
    """Return the number of updates of a compiled model."""
    return int(ops.convert_to_numpy(model.optimizer.iterations))


def metric_sums(model: keras.Model) -> list[Any]:
    """Return `TrainingState.metric_sums` of a model, in an epoch."""
    return [_values(variable).tolist() for variable in model.metrics_variables]


def _state_variables(model: keras.Model) -> dict[str, keras.Variable]:
    """Return all variables that change in training other than the weights: name -> variable."""
    weights = {id(variable) for variable in model.weights}
    others = [v for v in model.non_trainable_variables if id(v) not in weights]
    named = [("optimizer", v.name, v) for v in model.optimizer.variables]
    # The names of seed generators are numbered over all models of the process.
    named += [("other", str(number), v) for number, v in enumerate(others)]
    # A file of weights contains the sum of a matrix and its LoRA: the parts are needed to resume.
    named += [("lora", v.path, v) for v in _summed_variables(model)]
    variables, seen = {}, Counter()
    for group, name, variable in named:
        # An optimizer that wraps another has a second variable "iteration".
        repeats = seen[group, name]
        seen[group, name] += 1
        variables[f"{group}/{name}" + (f".{repeats}" if repeats else "")] = variable
    return variables


def _summed_variables(model: Any) -> list[keras.Variable]:
    """Return the variables that a file of weights contains as sums: of layers with LoRA."""
    layers = model.dense_layers() if hasattr(model, "dense_layers") else ()
    return [
        variable
        for layer in layers
        if layer.lora_enabled
        for variable in (layer._kernel, layer.lora_kernel_a, layer.lora_kernel_b)
    ]


def _values(variable: keras.Variable) -> np.ndarray:
    values = ops.convert_to_numpy(variable)
    # HDF5 has no bfloat16. float32 represents it exactly.
    return values.astype("float32") if values.dtype.name == "bfloat16" else values


def _short(value: Any) -> Any:
    """Return a value for an error message; a fingerprint is shortened to its first digits."""
    is_digest = isinstance(value, str) and re.fullmatch("[0-9a-f]{64}( [0-9a-f]{64})?", value)
    return f"{value[:12]}..." if is_digest else value


def as_json(value: Any) -> Any:
    """Return a value as it is after being written to JSON and read again."""
    return json.loads(json.dumps(value, default=str))
