import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.training.optimizer import CooldownSchedule, NoamSchedule
from tests.helpers import to_numpy


def rate(schedule, step):
    return float(to_numpy(schedule(step)))


@pytest.mark.parametrize(
    ("update", "expected"),
    [
        # d_model = 4, 16 updates of warm-up: 4^-0.5 = 1/2 and 16^-1.5 = 1/64.
        (1, 1 / 2 * 1 / 64),
        (8, 1 / 2 * 8 / 64),
        (16, 1 / 2 * 1 / 4),  # the peak, where both branches agree
        (64, 1 / 2 * 1 / 8),
        (1024, 1 / 2 * 1 / 32),
    ],
)
def test_rates_equal_values_worked_out_by_hand(update, expected):
    # Keras counts updates from 0, the paper from 1.
    assert rate(NoamSchedule(4, 16), update - 1) == pytest.approx(expected, rel=1e-6)


def test_the_base_models_rate_peaks_at_update_4000():
    schedule = NoamSchedule(512)
    assert rate(schedule, 3999) == pytest.approx(6.98771e-4, rel=1e-5)
    assert rate(schedule, 3998) < rate(schedule, 3999) > rate(schedule, 4000)


@pytest.mark.each_backend
def test_rates_follow_the_formula_of_section_5_3():
    schedule = NoamSchedule(512, 4000, scale=2.0)
    steps = np.array([1, 2, 100, 3999, 4000, 4001, 100_000, 300_000])
    expected = 2 * 512**-0.5 * np.minimum(steps**-0.5, steps * 4000.0**-1.5)
    actual = [rate(schedule, ops.convert_to_tensor(step - 1)) for step in steps]
    np.testing.assert_allclose(actual, expected, rtol=1e-5)


def test_from_peak_reaches_the_given_rate_after_warmup():
    schedule = NoamSchedule.from_peak(0.005, hidden_dim=128, warmup_steps=400)
    assert rate(schedule, 399) == pytest.approx(0.005, rel=1e-6)
    assert rate(schedule, 0) == pytest.approx(0.005 / 400, rel=1e-6)
    assert rate(schedule, 1599) == pytest.approx(0.005 / 2, rel=1e-6)


def test_an_optimizer_begins_with_step_1():
    optimizer = keras.optimizers.SGD(NoamSchedule(4, 16))
    variable = keras.Variable(0.0)
    positions = []
    for _ in range(2):
        optimizer.apply([ops.convert_to_tensor(1.0)], [variable])
        positions.append(float(to_numpy(variable)))
    assert positions == pytest.approx([-1 / 128, -1 / 128 - 2 / 128])


def test_a_schedule_survives_serialization():
    schedule = NoamSchedule(512, 100, scale=3.0)
    config = keras.optimizers.schedules.serialize(schedule)
    copy = keras.optimizers.schedules.deserialize(config)
    assert type(copy) is NoamSchedule
    assert copy.get_config() == {"hidden_dim": 512, "warmup_steps": 100, "scale": 3.0}


@pytest.mark.each_backend
def test_saved_inside_the_optimizer_of_a_model(tmp_path):
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    schedule = NoamSchedule(4, 16)
    model.compile(keras.optimizers.Adam(schedule, beta_2=0.98, epsilon=1e-9), "mse")
    x = np.ones((4, 1), "float32")
    model.fit(x, x, batch_size=1, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert loaded.optimizer.get_config() == model.optimizer.get_config()
    # It goes on from the fifth update.
    actual = float(to_numpy(loaded.optimizer.learning_rate))
    assert actual == pytest.approx(1 / 2 * 5 / 64, rel=1e-6)


@pytest.mark.parametrize(
    ("step", "share"), [(0, 1), (5, 1), (6, 1), (7, 3 / 4), (9, 1 / 4), (10, 0), (12, 0)]
)
def test_the_rate_falls_to_zero(step, share):
    schedule = NoamSchedule(4, 16)
    cooled = CooldownSchedule(schedule, num_steps=10, cooldown_steps=4)
    assert rate(cooled, step) == pytest.approx(share * rate(schedule, step), rel=1e-6)
    assert rate(cooled, ops.convert_to_tensor(step)) == rate(cooled, step)


def test_a_cooled_schedule_is_serialized_with_the_one_in_it():
    cooled = CooldownSchedule(NoamSchedule(512, 100, scale=3.0), 200, 50)
    copy = keras.optimizers.schedules.deserialize(keras.optimizers.schedules.serialize(cooled))
    assert type(copy) is CooldownSchedule and type(copy.schedule) is NoamSchedule
    assert copy.get_config() == cooled.get_config()
