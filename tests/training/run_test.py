import keras
import pytest

from keras_transformer.training.distribution import DeviceOptions
from keras_transformer.training.run import RunOptions, begin_run
from keras_transformer.training.training_state import save_state
from tests.small_corpus import quick_model


def go_on(folder, **options):
    return begin_run(RunOptions(output_dir=folder, **options), DeviceOptions(), 10, {})


@pytest.mark.parametrize(
    ("was", "expected"),
    [({}, False), ({"few_shapes_first": False}, False), ({"few_shapes_first": True}, True)],
)
def test_a_training_goes_on_with_the_plans_that_it_began_with(tmp_path, was, expected):
    at_first = keras.backend.backend() == "jax"
    assert go_on(tmp_path).settings["few_shapes_first"] == at_first
    model = quick_model()
    model.compile("sgd", "mse")
    model.optimizer.build(model.trainable_variables)
    (tmp_path / "checkpoints").mkdir()
    path = tmp_path / "checkpoints" / "step-3.state.weights.h5"
    save_state(model, path, step=3, batches=3, seconds=0.0, history={}, run=was)
    run = go_on(tmp_path, resume=True)
    assert (run.start.step, run.settings["few_shapes_first"]) == (3, expected)
    assert go_on(tmp_path, overwrite=True).settings["few_shapes_first"] == at_first
