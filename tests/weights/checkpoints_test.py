import h5py
import keras
import numpy as np
import pytest

from keras_transformer.errors import UserError
from keras_transformer.training.stopping import best_checkpoints
from keras_transformer.weights.checkpoints import average_checkpoints, list_checkpoints
from keras_transformer.weights.weights_file import load_weights, narrow_weights, save_weights
from tests.helpers import error_of, randomize, to_numpy

pytestmark = pytest.mark.once


def small_model(units=3):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(units)])
    model.compile("sgd", "mse")
    return model


def write(path, tensors):
    with h5py.File(path, "w") as file:
        for name, values in tensors.items():
            file[name] = values
    return path


def read(path):
    with h5py.File(path) as file:
        return {name: file[name][...] for name in ("a", "layers/b")}


def message_of(*args):
    with pytest.raises(ValueError) as error:
        average_checkpoints(*args)
    assert "\n" not in str(error.value)
    return str(error.value)


# Averages


def test_mean_by_hand(tmp_path):
    values = [([1.0, 2.0], [[10.0]]), ([4.0, 0.0], [[20.0]]), ([1.0, -5.0], [[60.0]])]
    paths = [
        write(
            tmp_path / f"{i}.h5",
            {"a": np.array(a, "float32"), "layers/b": np.array(b, "float32")},
        )
        for i, (a, b) in enumerate(values)
    ]
    average_checkpoints(iter(paths), str(tmp_path / "new folder" / "average.h5"))
    average = read(tmp_path / "new folder" / "average.h5")
    assert average["a"].tolist() == [2.0, -1.0] and average["layers/b"].tolist() == [[30.0]]
    assert average["a"].dtype == "float32"
    # The files averaged are as they were.
    assert [read(path)["a"].tolist() for path in paths] == [a for a, _ in values]


def test_average_of_one_is_itself(tmp_path):
    path = write(tmp_path / "one.h5", {"a": [0.1], "layers/b": [2.0]})
    average_checkpoints([path], tmp_path / "average.h5")
    assert read(tmp_path / "average.h5")["a"].tolist() == [0.1]


def test_many_small_differences_are_not_lost(tmp_path):
    # Summed in float32 the ones would be rounded away.
    values = [2.0**24] + [1.0] * 9
    paths = [
        write(tmp_path / f"{i}.h5", {"a": np.array([x], "float32"), "layers/b": [0.0]})
        for i, x in enumerate(values)
    ]
    average_checkpoints(paths, tmp_path / "average.h5")
    assert read(tmp_path / "average.h5")["a"][0] == np.float32(np.mean(values))


def test_an_average_may_replace_one_of_its_files(tmp_path):
    paths = [write(tmp_path / f"{x}.h5", {"a": [x], "layers/b": [x]}) for x in (1.0, 2.0)]
    average_checkpoints(paths, paths[0])
    assert read(paths[0])["a"].tolist() == [1.5]


def test_an_average_of_models_has_their_mean_weights(tmp_path):
    weights, paths = [], []
    for seed in range(3):
        model = randomize(small_model(), seed=seed)
        weights.append(model.get_weights())
        paths.append(tmp_path / f"{seed}.weights.h5")
        model.save_weights(paths[-1])
    average_checkpoints(paths, tmp_path / "average.weights.h5")
    model = small_model()
    model.load_weights(tmp_path / "average.weights.h5")
    for actual, values in zip(model.get_weights(), zip(*weights)):
        np.testing.assert_allclose(actual, np.mean(values, axis=0), atol=1e-6)


# Errors


def test_averaging_no_checkpoints_is_refused_and_writes_nothing(tmp_path):
    message_of([], tmp_path / "average.h5")
    message_of(iter([]), tmp_path / "average.h5")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "other, name",
    [
        ({"a": [1.0], "layers/b": [1.0, 2.0]}, "layers/b"),
        ({"a": [1.0]}, "layers/b"),
        ({"a": [1.0], "layers/b": [1.0], "layers/c": [1.0]}, "layers/c"),
    ],
    ids=["shape", "missing", "extra"],
)
@pytest.mark.parametrize("first", [0, 1])
def test_checkpoints_of_different_models_are_refused(tmp_path, other, name, first):
    paths = [
        write(tmp_path / "0.h5", {"a": [1.0], "layers/b": [1.0]}),
        write(tmp_path / "1.h5", other),
    ]
    message = message_of([paths[first], paths[1 - first]], tmp_path / "average.h5")
    assert str(paths[0]) in message and str(paths[1]) in message and name in message
    assert not (tmp_path / "average.h5").exists()


@pytest.mark.parametrize("damage", ["empty", "text", "truncated", "missing"])
def test_a_damaged_checkpoint_is_refused_and_the_old_output_stays(tmp_path, damage):
    small_model().save_weights(tmp_path / "good.weights.h5")
    path, output = tmp_path / "bad.weights.h5", tmp_path / "average.weights.h5"
    whole = (tmp_path / "good.weights.h5").read_bytes()
    if damage != "missing":
        path.write_bytes({"empty": b"", "text": b"weights", "truncated": whole[:-100]}[damage])
    output.write_text("old")
    assert str(path) in message_of([tmp_path / "good.weights.h5", path], output)
    assert output.read_text() == "old"


def saved(path, value=0.123456):
    """A model, and its weights in a file whose bytes can be found."""
    model = small_model()
    model.layers[0].bias.assign([value] * 3)
    save_weights(model, path)
    return model


def flip_a_bit(path, value=0.123456):
    content = bytearray(path.read_bytes())
    content[content.index(np.float32(value).tobytes())] ^= 1  # the least of a weight's bits
    path.write_bytes(content)


def test_a_flipped_bit_is_found_by_each_reader(tmp_path):
    path = tmp_path / "step-2.weights.h5"
    saved(tmp_path / "step-1.weights.h5")
    model = saved(path)
    load_weights(model, path)
    flip_a_bit(path)
    for message in (
        error_of(load_weights, model, path),
        error_of(average_checkpoints, list_checkpoints(tmp_path), tmp_path / "average.weights.h5"),
    ):
        assert f"{path} is damaged" in message and "checksum" in message
    assert not (tmp_path / "average.weights.h5").exists()


@pytest.mark.parametrize("how", ["average", "narrow"])
def test_averages_and_narrow_weights_have_checksums(tmp_path, how):
    path, value = tmp_path / "a.weights.h5", 0.123456
    model = saved(path)
    if how == "average":
        saved(tmp_path / "b.weights.h5", 0.0)
        average_checkpoints([path, tmp_path / "b.weights.h5"], path)
        value /= 2
    else:
        narrow_weights(path, "float32")
    load_weights(model, path)
    np.testing.assert_allclose(to_numpy(model.layers[0].bias), value)
    flip_a_bit(path, value)
    assert "checksum" in error_of(load_weights, model, path)


@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_weights_that_are_not_finite_are_neither_saved_nor_loaded(tmp_path, value):
    path, model = tmp_path / "a.weights.h5", small_model()
    model.layers[0].bias.assign([0, value, 0])
    assert "infinite or not a number" in error_of(save_weights, model, tmp_path / "b.weights.h5")
    model.save_weights(path)  # Keras's own
    message = error_of(load_weights, small_model(), path)
    assert str(path) in message and "infinite or not a number" in message
    assert message == error_of(average_checkpoints, [path], tmp_path / "average.weights.h5")


def test_any_damaged_byte_is_a_user_error(tmp_path):
    # Most of these bytes are HDF5's own, where a flipped bit can crash the process.
    path = tmp_path / "step-1.weights.h5"
    model = saved(path)
    expected, content = model.get_weights(), path.read_bytes()
    generator, refused = np.random.default_rng(0), 0
    for _ in range(60):  # but for what says that there is a checksum
        damaged = bytearray(content)
        damaged[generator.integers(len(content) - 50)] ^= 1 << int(generator.integers(8))
        path.write_bytes(damaged)
        for use in (
            lambda: load_weights(model, path),
            lambda: average_checkpoints([path], tmp_path / "average.weights.h5"),
            lambda: best_checkpoints(tmp_path, "val_loss", 1),
        ):
            try:
                use()
            except UserError as error:
                assert "\n" not in str(error)
                refused += 1
        assert all(map(np.array_equal, model.get_weights(), expected))
    assert refused == 3 * 60


@pytest.mark.parametrize("note", [b"{", b"[1]", b"\xff"])
def test_a_damaged_note_of_a_validation_is_a_damaged_checkpoint(tmp_path, note):
    path = tmp_path / "step-1.weights.h5"
    saved(path)
    with h5py.File(path, "r+") as file:
        file.attrs["validation"] = np.bytes_(note)
    assert str(path) in error_of(best_checkpoints, tmp_path, "val_loss", 1)


# Lists


def test_list_is_by_number_and_leaves_out_other_files(tmp_path):
    # By name, step-1000 comes before step-9.
    for step in (1000, 9, 10):
        (tmp_path / f"step-{step}.weights.h5").touch()
    # What a killed process leaves behind, what else training writes, and what users put there.
    (tmp_path / ".step-6.weights.h5.abc.unfinished").mkdir()
    (tmp_path / ".step-6.weights.h5.abc.unfinished" / "step-6.weights.h5").touch()
    (tmp_path / "step-9.state.weights.h5").touch()
    (tmp_path / "notes.txt").touch()
    (tmp_path / "step-best.weights.h5").touch()
    names = [path.name for path in list_checkpoints(tmp_path)]
    assert names == ["step-9.weights.h5", "step-10.weights.h5", "step-1000.weights.h5"]


def test_a_missing_folder_has_no_checkpoints(tmp_path):
    assert list_checkpoints(tmp_path / "none") == []
