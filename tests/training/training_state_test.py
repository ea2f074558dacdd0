import h5py
import keras
import numpy as np
import pytest

from keras_transformer.layers.dropout import Dropout
from keras_transformer.training.training_state import (
    Snapshot,
    TrainingState,
    find_start,
    list_states,
    newest_state,
    read_state,
)
from keras_transformer.weights.checkpoints import average_checkpoints
from keras_transformer.weights.weights_file import load_weights
from tests.helpers import normal, randomize, to_numpy

FACTS = {
    "step": 3,
    "batches": 6,
    "seconds": 1.5,
    "history": {"loss": [2.0, 1.5], "val_bleu": [0.1]},
    "run": {"variant": "tiny", "rate": 1e-9},
    "metric_sums": [2.5, [1.0, float("inf")]],
}


def new_model(optimizer, units=3, seed=0):
    layers = [
        keras.layers.Dense(4, name="first"),
        Dropout(0.5, name="dropout"),
        keras.layers.Dense(units, name="second"),
    ]
    model = randomize(keras.Sequential([keras.Input((2,)), *layers], name="model"), seed)
    model.compile(optimizer, "mse", weighted_metrics=["mae"])
    return model


def adam(**options):
    return keras.optimizers.Adam(0.01, **options)


# Gradients accumulated over two batches, and moving averages of the weights; and an optimizer
# around another, which has its own variable "iteration".
OPTIMIZERS = {
    "adam": adam,
    "accumulation and EMA": lambda: adam(
        gradient_accumulation_steps=2, use_ema=True, ema_momentum=0.5
    ),
    "loss scale": lambda: keras.optimizers.LossScaleOptimizer(adam()),
}


def train(model, first, last):
    """Batches of two rows each, number `first` up to `last`; the loss of each."""
    x, y = normal(20, 2), normal(20, 3)
    return [
        model.train_on_batch(x[2 * i : 2 * i + 2], y[2 * i : 2 * i + 2])[0]
        for i in range(first, last)
    ]


def save(model, path, **changes):
    Snapshot(model, **{**FACTS, **changes}).write(path)
    return path


@pytest.mark.each_backend
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_restored_training_continues_exactly(tmp_path, name):
    whole = new_model(OPTIMIZERS[name]())
    train(whole, 0, 3)
    path = save(whole, tmp_path / "step-3.state.weights.h5")
    losses = train(whole, 3, 6)

    # Of other weights, and of other seeds.
    other = new_model(OPTIMIZERS[name](), seed=1)
    read_state(path).restore(other)
    assert train(other, 3, 6) == losses
    ours, theirs = ([*x.variables, *x.optimizer.variables] for x in (other, whole))
    assert len(ours) == len(theirs)
    for one, another in zip(ours, theirs):
        assert np.array_equal(to_numpy(one), to_numpy(another)), one.path


@pytest.mark.parametrize("sums, told", [([], False), ([1.0, 2.0, 3.0], True)])
def test_a_state_without_the_sums_of_these_metrics_leaves_them_at_zero(
    tmp_path, caplog, sums, told
):
    model = new_model("sgd")
    path = save(model, tmp_path / "step-3.state.weights.h5", metric_sums=sums)
    model.reset_metrics()
    read_state(path).restore_metrics(model)
    assert not any(to_numpy(variable).any() for variable in model.metrics_variables)
    assert ("other metrics" in caplog.text) == told


def test_a_state_keeps_its_facts(tmp_path):
    path = save(new_model("sgd"), tmp_path / "step-3.state.weights.h5")
    assert read_state(path) == TrainingState(path=path, **FACTS)


def test_facts_may_be_long(tmp_path):
    history = {"loss": np.arange(20000.0).tolist()}
    path = save(new_model("sgd"), tmp_path / "step-3.state.weights.h5", history=history)
    assert read_state(path).history == history


def test_a_state_is_a_weights_file(tmp_path):
    paths, weights = [], []
    for seed in range(2):
        model = new_model(adam(), seed=seed)
        train(model, 0, 1)
        weights.append(model.get_weights())
        paths.append(save(model, tmp_path / f"step-{seed + 1}.state.weights.h5"))
    model = new_model("sgd", seed=2)
    load_weights(model, paths[0])
    for ours, theirs in zip(model.get_weights(), weights[0]):
        assert np.array_equal(ours, theirs)
    average_checkpoints(paths, tmp_path / "average.weights.h5")
    load_weights(model, tmp_path / "average.weights.h5")
    for ours, *theirs in zip(model.get_weights(), *weights):
        np.testing.assert_allclose(ours, np.mean(theirs, axis=0), atol=1e-6)
    with pytest.raises(ValueError, match="damaged"):
        read_state(tmp_path / "average.weights.h5")


@pytest.mark.once
def test_a_file_is_read_once_after_it_is_written(tmp_path, monkeypatch):
    names = []

    def noting(read):
        def noted(self, *args, **kwargs):
            names.append(self.name)
            return read(self, *args, **kwargs)

        return noted

    for way in ("__getitem__", "__array__"):
        monkeypatch.setattr(h5py.Dataset, way, noting(getattr(h5py.Dataset, way)))
    model = new_model(adam())
    path = save(model, tmp_path / "step-3.state.weights.h5")
    # For the digest and for whether all is finite: weights, optimizer, seeds and facts.
    assert len(names) == len(set(names)) > len(model.weights) + len(model.optimizer.variables)
    names.clear()
    # Twice when weights are loaded: before any of them changes, all must be numbers.
    load_weights(model, path)
    assert len(names) == 2 * len(set(names)) == 2 * len(model.weights)


# Errors


def message_of(function, *args, **kwargs):
    with pytest.raises(ValueError) as error:
        function(*args, **kwargs)
    assert "\n" not in str(error.value)
    return str(error.value)


def cut(content):
    return content[: len(content) // 2]


def flip_a_weight(content):
    # The last bytes of a tensor, which HDF5 reads as they are.
    at = content.index(np.float32(0.123456).tobytes())
    return content[:at] + b"\0" + content[at + 1 :]


DAMAGES = {
    "cut": cut,
    "flipped": flip_a_weight,
    "empty": lambda _: b"",
    "text": lambda _: b"x" * 99,
}


def damage(path, how):
    path.write_bytes(DAMAGES[how](path.read_bytes()))


def marked_model():
    model = new_model(adam())
    model.get_layer("second").bias.assign([0.123456] * 3)
    return model


@pytest.mark.parametrize("how", DAMAGES)
def test_a_damaged_state_is_refused(tmp_path, how):
    path = save(marked_model(), tmp_path / "step-3.state.weights.h5")
    damage(path, how)
    assert str(path) in message_of(read_state, path)


@pytest.mark.parametrize("how", DAMAGES)
def test_a_damaged_newest_state_is_skipped(tmp_path, caplog, how):
    model = marked_model()
    paths = [save(model, tmp_path / f"step-{n}.state.weights.h5", step=n) for n in (9, 10)]
    damage(paths[1], how)
    assert newest_state(tmp_path).path == paths[0]
    (record,) = caplog.records
    assert str(paths[1]) in record.getMessage() and record.levelname == "WARNING"
    damage(paths[0], how)
    assert str(tmp_path) in message_of(newest_state, tmp_path)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("where", ["weights", "optimizer"])
def test_non_finite_states_are_not_written(tmp_path, value, where):
    model = new_model(adam())
    train(model, 0, 1)
    variables = model.weights if where == "weights" else model.optimizer.variables
    variables[-1].assign(to_numpy(variables[-1]) * 0 + value)
    message = message_of(save, model, tmp_path / "step-3.state.weights.h5")
    assert "infinite or not a number" in message


@pytest.mark.parametrize(
    "other, word",
    [
        (lambda: new_model(adam(), units=2), "second"),
        (lambda: new_model("sgd"), "momentum"),
        (lambda: new_model(adam(use_ema=True)), "average"),
    ],
    ids=["model", "less", "more"],
)
def test_a_state_of_another_model_or_optimizer_is_refused(tmp_path, other, word):
    model = new_model(adam())
    train(model, 0, 1)
    path = save(model, tmp_path / "step-3.state.weights.h5")
    message = message_of(read_state(path).restore, other())
    assert str(path) in message and (word in message or "another model" in message)


def test_resuming_with_another_option_is_refused_by_name(tmp_path):
    state = read_state(save(new_model("sgd"), tmp_path / "step-3.state.weights.h5"))
    state.validate_run({"variant": "tiny", "rate": 1e-9})
    state.validate_run({"variant": "tiny"})  # `rate` may be an option that was removed since
    message = message_of(state.validate_run, {"variant": "base", "rate": 1e-9})
    assert "variant=tiny" in message and "base" in message and "rate" not in message


# Where to begin


def test_a_training_starts_at_its_newest_state_only_when_it_resumes(tmp_path, caplog):
    caplog.set_level("INFO")
    beginning = TrainingState()
    for resume, overwrite in [(False, False), (False, True), (True, False)]:
        assert find_start(tmp_path / "none", 9, resume, overwrite) == beginning
    assert "starts from the beginning" in caplog.messages[-1]
    model = new_model("sgd")
    for step in (2, 3):
        save(model, tmp_path / f"step-{step}.state.weights.h5", step=step)
    assert [path.name[:6] for path in list_states(tmp_path)] == ["step-2", "step-3"]
    assert find_start(tmp_path, 3, resume=True, overwrite=False).step == 3
    assert "step 3" in caplog.messages[-1]
    assert find_start(tmp_path, 3, resume=False, overwrite=True) == beginning
    assert len(list_states(tmp_path)) == 2  # until the new training begins


def test_contradictory_or_missing_options_of_a_start_are_refused(tmp_path):
    assert "not both" in message_of(find_start, tmp_path, 9, resume=True, overwrite=True)
    (tmp_path / "step-2.weights.h5").touch()
    message = message_of(find_start, tmp_path, 9, resume=False, overwrite=False)
    assert all(word in message for word in (str(tmp_path), "resume=True", "overwrite=True"))
    save(new_model("sgd"), tmp_path / "step-3.state.weights.h5")
    message = message_of(find_start, tmp_path, 2, resume=True, overwrite=False)
    assert "`steps` must be at least 3" in message


def test_the_beginning_changes_nothing():
    model = new_model("sgd")
    before = model.get_weights()
    TrainingState().validate_run({"variant": "tiny"})
    TrainingState().restore(model)
    assert all(map(np.array_equal, model.get_weights(), before))
