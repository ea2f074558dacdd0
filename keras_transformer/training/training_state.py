"""The whole state of a training in one file, from which it goes on exactly, on any backend.

`step-N.state.weights.h5` is a weights file as `save_weights` writes it, with a group
`training_state`:

- `optimizer/NAME`: the optimizer's variables (moments, iterations, accumulated gradients, moving
  averages, ...), by their names;
- `other/I`: what else the model changes in training, in the model's order: the seeds of dropout;
- `metrics/NAME/I`: the sums of the metrics since the epoch began, if it has not ended;
- `facts`: a JSON text of `TrainingState`'s other fields, as bytes.

A SHA-256 of all of it is its attribute: a damaged file is known as such.
"""

import hashlib
import json
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import h5py
import numpy as np
from keras import ops

from keras_transformer.training.checkpoints import (
    STATE_GROUP,
    datasets,
    list_by_step,
    list_checkpoints,
    load_weights,
    save_weights,
)

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
    history: dict = field(default_factory=dict)
    run: dict = field(default_factory=dict)

    def check_run(self, run):
        """Raise a `ValueError` if anything in `run` differs from what was trained."""
        changes = [
            f"{name}={self.run[name]} (now {value})"
            for name, value in run.items()
            if name in self.run and self.run[name] != _as_json(value)
        ]
        if changes:
            raise ValueError(
                f"{self.path} is of another training, one with {', '.join(changes)}. Go on with "
                "what it had, or train anew in another folder."
            )

    def restore(self, model):
        """Give a compiled model this state. At the beginning it keeps its own.

        Raises:
            ValueError: if model or optimizer are others.
        """
        if self.path is None:
            return
        load_weights(model, self.path)
        if not model.optimizer.built:
            model.optimizer.build(model.trainable_variables)
        variables = {
            name: variable
            for name, variable in _state_variables(model).items()
            if not name.startswith("metrics/")
        }
        values = self._read(metrics=False)
        for name in sorted(variables.keys() | values.keys()):
            shapes = [tuple(x[name].shape) if name in x else None for x in (values, variables)]
            if shapes[0] != shapes[1]:
                raise ValueError(
                    f"{self.path} is of another model or optimizer: {name} has the shape "
                    f"{shapes[0]}, and should have {shapes[1]}."
                )
        for name, variable in variables.items():
            variable.assign(values[name])

    def metric_sums(self):
        """What the metrics had summed up of the epoch: name -> array, for `add_metric_sums`."""
        return {} if self.path is None else self._read(metrics=True)

    def _read(self, metrics):
        """Either the metrics' tensors or all others: name -> array."""
        with h5py.File(self.path) as file:
            return {
                name: x[...]
                for name, x in datasets(file[STATE_GROUP]).items()
                if name != "facts" and name.startswith("metrics/") == metrics
            }


def add_metric_sums(model, sums):
    """Add what metrics had summed up to those that the model has made so far.

    Args:
        model: a compiled model. Some metrics are made with it, others with its first batch.
        sums: what `metric_sums` returned.

    Returns:
        The sums of metrics that are not made yet.
    """
    variables = _state_variables(model)
    for name in sums.keys() & variables.keys():
        variables[name].assign(ops.convert_to_numpy(variables[name]) + sums[name])
    return {name: x for name, x in sums.items() if name not in variables}


def save_state(model, path, within_epoch, **facts):
    """Write the state of a compiled model and its optimizer to a new file.

    Args:
        model: a functional model, compiled.
        path: the file, whose name ends in `.weights.h5`.
        within_epoch: whether the metrics belong to an epoch that has not ended.
        **facts: the fields of `TrainingState` without the path.

    Raises:
        ValueError: if anything is infinite or not a number.
    """
    # An attribute could hold only 64 kB.
    facts = np.frombuffer(json.dumps({"format": _FORMAT, **facts}, default=str).encode(), "uint8")
    variables = {
        name: variable
        for name, variable in _state_variables(model).items()
        if within_epoch or not name.startswith("metrics/")
    }
    save_weights(model, path, room_for=[*variables.values(), facts])
    with h5py.File(path, "r+") as file:
        state = file.create_group(STATE_GROUP)
        for name, variable in variables.items():
            state[name] = _values(variable)
        state["facts"] = facts
        state.attrs["sha256"] = np.bytes_(_digest(file))
        _check_finite(file)


def read_state(path):
    """Read what `save_state` wrote, except for the tensors.

    Returns:
        A `TrainingState`.

    Raises:
        ValueError: if the file is damaged, or of another version.
    """
    path = Path(path)
    try:
        with h5py.File(path) as file:
            state = file[STATE_GROUP]
            is_whole = state.attrs["sha256"] == _digest(file).encode()
            facts = json.loads(state["facts"][()].tobytes()) if is_whole else None
    # h5py tells a damaged file in many ways.
    except (OSError, KeyError, RuntimeError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is damaged.") from error
    if facts is None:
        raise ValueError(f"{path} is damaged.")
    if facts.pop("format") != _FORMAT:
        raise ValueError(f"{path} is of another version of keras_transformer.")
    return TrainingState(path=path, **facts)


def list_states(folder):
    """The files with a training's state in a folder, the oldest first."""
    return list_by_step(folder, STATE_ENDING)


def newest_state(folder):
    """The newest state in a folder that is whole, or the beginning where there is none at all.

    Each one that is damaged is told of on standard error.

    Raises:
        ValueError: if all are damaged.
    """
    paths = list_states(folder)
    for path in reversed(paths):
        try:
            return read_state(path)
        except ValueError as error:
            print(f"{error} Trying the one before.", file=sys.stderr)
    if paths:
        raise ValueError(
            f"All states of the training in {folder} are damaged: it cannot go on. "
            "Train anew in another folder, or with --overwrite."
        )
    return TrainingState()


def find_start(folder, steps, resume, overwrite):
    """Where a training begins, by what its checkpoints' folder holds.

    Args:
        folder: the folder of the checkpoints.
        steps: the number of updates that the training shall have.
        resume: whether to go on from the newest.
        overwrite: whether they may be replaced.

    Returns:
        A `TrainingState`.

    Raises:
        ValueError: if there are checkpoints, and neither `resume` nor `overwrite` is set, or both;
            or if the newest is beyond `steps`.
    """
    if resume and overwrite:
        raise ValueError("Pass --resume to go on, or --overwrite to train anew: not both.")
    if not resume:
        if not overwrite and (list_states(folder) or list_checkpoints(folder)):
            raise ValueError(
                f"{folder} holds checkpoints of an earlier training. Pass --resume to go on from "
                "the newest, --overwrite to replace them, or another --output-dir."
            )
        return TrainingState()
    state = newest_state(folder)
    if state.step > steps:
        raise ValueError(
            f"{state.path} is beyond the {steps} steps asked for. Pass --steps {state.step} or "
            "more, or train anew with --overwrite."
        )
    if state.path:
        print(f"Going on from step {state.step}, {state.path}.")
    else:
        print(f"{folder} holds nothing to go on from: training begins at the beginning.")
    return state


def _state_variables(model):
    """All that changes in training except for the weights: name -> variable."""
    weights = {id(variable) for variable in model.weights}
    others = [v for v in model.non_trainable_variables if id(v) not in weights]
    named = [("optimizer", v.name, v) for v in model.optimizer.variables]
    # Seed generators are numbered as they are made, by all models of the process.
    named += [("other", str(number), v) for number, v in enumerate(others)]
    named += [
        (f"metrics/{metric.name}", str(number), v)
        for metric in model.metrics
        for number, v in enumerate(metric.variables)
    ]
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


def _digest(file):
    digest = hashlib.sha256()
    for name, item in datasets(file).items():
        digest.update(f"{name} {item.dtype} {item.shape}".encode())
        digest.update(np.ascontiguousarray(item[()]))
    return digest.hexdigest()


def _check_finite(file):
    for name, item in datasets(file).items():
        # The metrics of an epoch may well be infinite, if a batch of it was skipped.
        is_metric = name.startswith(f"{STATE_GROUP}/metrics/")
        if item.dtype.kind == "f" and not is_metric and not np.isfinite(item[()]).all():
            raise ValueError(f"{name} has values that are infinite or not a number.")


def _as_json(value):
    return json.loads(json.dumps(value, default=str))
