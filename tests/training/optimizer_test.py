"""The optimizer of whole batches: updates worked out by hand, then inside a compiled `fit`."""

import ast
import inspect
import re
from pathlib import Path

import keras
import numpy as np
import pytest

from keras_transformer.errors import UserError
from keras_transformer.models import replication
from keras_transformer.models.losses import LabelSmoothedCrossentropy
from keras_transformer.training.optimizer import (
    CooldownSchedule,
    NoamSchedule,
    WholeBatchOptimizer,
    paper_optimizer,
)
from tests.helpers import dtype_policy, to_numpy
from tests.small_corpus import new_model, quick_model

NAN, INF = float("nan"), float("inf")


class Update:
    """A variable that begins at (0, 0), under an optimizer."""

    def __init__(self, inner=None, **options):
        self.variable = keras.Variable(np.zeros(2, "float32"))
        self.optimizer = WholeBatchOptimizer(inner or keras.optimizers.SGD(1.0), **options)

    def __call__(self, *gradient):
        """The variable after one more call."""
        gradient = keras.ops.convert_to_tensor(np.float32(gradient))
        self.optimizer.apply([gradient], [self.variable])
        return to_numpy(self.variable).tolist()

    def __getattr__(self, name):
        return float(to_numpy(getattr(self.optimizer, name)))


# By hand


def test_without_options_updates_equal_the_inner_optimizer():
    update, variable = Update(keras.optimizers.Adam(0.1)), keras.Variable(np.zeros(2, "float32"))
    adam = keras.optimizers.Adam(0.1)
    for gradient in ([1.0, -3.0], [2.0, 0.5]):
        adam.apply([keras.ops.convert_to_tensor(np.float32(gradient))], [variable])
        assert update(*gradient) == to_numpy(variable).tolist()
    assert update.iterations == update.batches == 2 and update.num_skipped == 0


def test_accumulated_gradients_are_averaged():
    update = Update(accumulate=3)
    assert update(1, 2) == update(3, 5) == [0, 0]
    assert update(5, -1) == [-3, -2]
    assert (update.batches, update.iterations) == (3, 1)
    assert update(9, 9) == update(0, 0) == [-3, -2]
    assert update(0, 0) == [-6, -5]


def test_schedules_count_updates():
    # Half of 1/64 a step, as in the tests of NoamSchedule.
    update = Update(keras.optimizers.SGD(NoamSchedule(4, 16)), accumulate=2)
    positions = [update(1, 0)[0] * 128 for _ in range(6)]
    assert positions == pytest.approx([0, -1, -1, -3, -3, -6], rel=1e-5)


@pytest.mark.parametrize(
    ("clip_norm", "expected"), [(1.0, [-0.6, -0.8]), (5.0, [-3, -4]), (100.0, [-3, -4])]
)
def test_gradients_over_clip_norm_are_scaled_to_it(clip_norm, expected):
    assert Update(clip_norm=clip_norm)(3, 4) == pytest.approx(expected, rel=1e-6)


def test_clipping_is_by_the_norm_over_all_variables():
    variables = [keras.Variable(np.zeros(shape, "float32")) for shape in ((), (2,))]
    gradients = [keras.ops.convert_to_tensor(np.float32(x)) for x in (2, [4, 4])]
    WholeBatchOptimizer(keras.optimizers.SGD(1.0), clip_norm=3.0).apply(gradients, variables)
    assert to_numpy(variables[0]) == pytest.approx(-1)
    assert to_numpy(variables[1]) == pytest.approx([-2, -2])


def test_clipping_keeps_a_gradient_of_zeros():
    assert Update(clip_norm=1.0, skip_nonfinite=True)(0, 0) == [0, 0]


def test_the_mean_of_accumulated_gradients_is_clipped():
    update = Update(accumulate=2, clip_norm=1.0)
    # Clipped one by one, they would become (1, 0) and (0, 1).
    update(6, 0)
    assert update(0, 8) == pytest.approx([-0.6, -0.8], rel=1e-6)


@pytest.mark.parametrize("bad", [NAN, INF, -INF])
@pytest.mark.parametrize("clip_norm", [None, 100.0])
def test_nonfinite_updates_are_skipped_and_counted(bad, clip_norm):
    options = {"skip_nonfinite": True, "clip_norm": clip_norm}
    update, other = (Update(keras.optimizers.Adam(0.1), **options) for _ in range(2))
    update(1, 2), other(1, 2)
    before = [to_numpy(variable) for variable in update.optimizer.inner_optimizer.variables]
    assert update(bad, 0) == to_numpy(other.variable).tolist()
    after = [to_numpy(variable) for variable in update.optimizer.inner_optimizer.variables]
    np.testing.assert_equal(after, before)
    assert (update.num_skipped, update.iterations, update.batches) == (1, 1, 2)
    assert update(3, -1) == other(3, -1)
    assert (update.num_skipped, update.iterations) == (1, 2)


def test_without_skipping_a_nonfinite_gradient_is_seen():
    assert np.isnan(Update()(NAN, 1)).tolist() == [True, False]
    assert np.isnan(Update(clip_norm=1.0)(NAN, 1)).all()


def test_a_nonfinite_gradient_among_the_accumulated_spoils_one_update():
    update = Update(accumulate=2, skip_nonfinite=True)
    update(NAN, 0)
    assert update(1, 1) == [0, 0]
    assert (update.num_skipped, update.iterations) == (1, 0)
    update(1, 1)
    assert update(3, 5) == [-2, -3]
    assert (update.num_skipped, update.iterations, update.batches) == (1, 1, 4)


def test_loss_scale_halves_after_overflow_and_doubles_after_growth_steps():
    update = Update(loss_scaling=True, initial_scale=8.0, dynamic_growth_steps=2)
    assert float(update.optimizer.scale_loss(2.0)) == 16  # also before it is built
    assert update(8, 16) == [-1, -2]
    assert update.dynamic_scale == 8
    assert update(INF, 0) == [-1, -2]
    assert (update.dynamic_scale, update.num_skipped) == (4, 1)
    # Two updates, counted from the one that was skipped, double the scale.
    assert update(4, 0) == [-2, -2] and update.dynamic_scale == 4
    assert update(4, 0) == [-3, -2] and update.dynamic_scale == 8
    assert float(to_numpy(update.optimizer.scale_loss(2.0))) == 16


def test_loss_scale_changes_between_updates_only():
    update = Update(loss_scaling=True, initial_scale=8.0, dynamic_growth_steps=1, accumulate=2)
    update(INF, 8)
    assert update.dynamic_scale == 8
    update(8, 8)
    assert update.dynamic_scale == 4
    update(4, 0)
    assert update.dynamic_scale == 4
    assert update(4, 8) == [-1, -1]
    assert update.dynamic_scale == 8


def test_the_gradient_is_clipped_without_its_loss_scale():
    update = Update(loss_scaling=True, initial_scale=8.0, clip_norm=5.0)
    assert update(24, 32) == [-3, -4]


def test_moving_average_follows_updates_only():
    inner = keras.optimizers.SGD(1.0, use_ema=True, ema_momentum=0.75)
    update = Update(inner, accumulate=2, skip_nonfinite=True)
    for gradient in ([-4, 0], [-4, 0], [NAN, 0], [1, 0], [-8, 0], [-8, 0]):
        update(*gradient)
    assert to_numpy(update.variable).tolist() == [12, 0]
    update.optimizer.finalize_variable_values([update.variable])
    # The first update begins the average.
    assert to_numpy(update.variable).tolist() == [0.75 * 4 + 0.25 * 12, 0]


def test_constraints_are_applied_after_an_accumulated_update():
    update = Update(accumulate=2)
    update.variable.constraint = keras.constraints.NonNeg()
    update(1, -1)
    assert update(3, -1) == [0, 1]


def test_float16_turns_loss_scaling_on():
    assert not WholeBatchOptimizer(keras.optimizers.SGD(1.0)).loss_scaling
    with dtype_policy("mixed_float16"):
        assert WholeBatchOptimizer(keras.optimizers.SGD(1.0)).loss_scaling


def test_paper_optimizer_has_the_papers_betas_and_given_options():
    optimizer = paper_optimizer(NoamSchedule(512), 4, 1.5, 0.999, True)
    adam = optimizer.inner_optimizer
    assert (adam.beta_1, adam.beta_2, adam.epsilon) == (0.9, 0.98, 1e-9)
    assert (adam.use_ema, adam.ema_momentum) == (True, 0.999)
    assert (optimizer.accumulate, optimizer.clip_norm, optimizer.skip_nonfinite) == (4, 1.5, True)
    plain = paper_optimizer(0.1)
    assert not plain.inner_optimizer.use_ema and not plain.skip_nonfinite
    assert plain.accumulate == 1 and plain.clip_norm is None


def make(inner=None, **options):
    return lambda: WholeBatchOptimizer(inner or keras.optimizers.SGD(0.1), **options)


def make_noam(**arguments):
    return lambda: NoamSchedule(**{"hidden_dim": 512, **arguments})


def apply_nothing():
    make()().apply([None], [keras.Variable(0.0)])


ERRORS = [
    (make(accumulate=0), "`accumulate`.*0"),
    (make(accumulate=1.5), "`accumulate`.*1.5"),
    (make(clip_norm=0.0), "`clip_norm`.*0.0"),
    (make(clip_norm=NAN), "`clip_norm`.*nan"),
    (lambda: paper_optimizer(0.1, ema_momentum=1.0), "`ema_momentum`.*1.0"),
    (make(keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1))), "must not scale"),
    (apply_nothing, "Expected a gradient"),
    *(
        (make(keras.optimizers.SGD(0.1, **{option: 2})), f"`{option}`.*parts of the batch")
        for option in ("clipnorm", "clipvalue", "global_clipnorm", "gradient_accumulation_steps")
    ),
    *(
        (make_noam(**{name: value}), f"`{name}` must be a positive number.*{name}={value}")
        for name in ("hidden_dim", "warmup_steps", "scale")
        for value in (0, -1, NAN)
    ),
    *(
        (
            lambda steps=steps: CooldownSchedule(NoamSchedule(4, 16), 10, steps),
            f"from 1 to the number of updates, 10.*={steps}",
        )
        for steps in (0, -1, 11)
    ),
]


@pytest.mark.once
@pytest.mark.parametrize(("call", "words"), ERRORS, ids=[words for _, words in ERRORS])
def test_invalid_arguments_of_optimizers_and_schedules_are_refused(call, words):
    with pytest.raises(ValueError, match=words):
        call()


@pytest.mark.once
def test_the_optimizer_uses_no_private_names_of_keras():
    """Only its own attributes begin with an underscore, and none of them is Keras's too."""
    path = Path(inspect.getfile(WholeBatchOptimizer))
    names = {
        node.attr
        for source in (path, Path(inspect.getfile(replication)), path.with_name("optimizer.py"))
        for node in ast.walk(ast.parse(source.read_text("utf-8")))
        if isinstance(node, ast.Attribute) and re.match("_[^_]", node.attr)
    }
    optimizer = WholeBatchOptimizer(keras.optimizers.SGD(0.1))
    assert names <= set(vars(WholeBatchOptimizer)) | {"_trained"}
    assert not names & {*dir(optimizer.inner_optimizer), *dir(keras.optimizers.LossScaleOptimizer)}


# In a compiled step


def batches_of(count, seed=0):
    """Batches of one shape, of few and many tokens: `(inputs, targets, weights)`."""
    generator = np.random.default_rng(seed)
    for _ in range(count):
        tokens = generator.integers(4, 60, (4, 6)).astype("int32")
        tokens[:, generator.integers(1, 6) :] = 0
        inputs = {"encoder_token_ids": tokens, "decoder_token_ids": np.roll(tokens, 1, axis=1)}
        yield inputs, tokens, np.float32(tokens > 0)


def concatenated(batches):
    return keras.tree.map_structure(lambda *parts: np.concatenate(parts), *batches)


def compiled(model, optimizer):
    jit_compile = keras.backend.backend() != "torch"
    loss = LabelSmoothedCrossentropy(reduction="sum")
    model.compile(optimizer, loss, jit_compile=jit_compile)
    return model


def train(model, batches):
    """The loss of each batch."""
    losses = []
    for batch in batches:
        model.reset_metrics()  # as Keras does from 3.15 on
        losses.append(model.train_on_batch(*batch))
    return losses


def assert_same_weights(model, other, atol):
    for a, b in zip(model.get_weights(), other.get_weights()):
        np.testing.assert_allclose(a, b, atol=atol, rtol=0)


INNER = pytest.mark.parametrize(
    "inner",
    [
        pytest.param(lambda: keras.optimizers.SGD(0.5), id="sgd", marks=pytest.mark.each_backend),
        pytest.param(lambda: keras.optimizers.Adam(0.01, epsilon=1e-3), id="adam"),
    ],
)


@INNER
def test_three_batches_train_as_one_three_times_as_large(inner):
    clip = {"clip_norm": 0.5}  # the gradients' norms are from below to above it
    parts, whole = [], []
    for i in range(4):
        group = list(batches_of(3, seed=i))
        tokens = sum(weights.sum() for *_, weights in group)
        parts += [(x, y, weights * 3 / tokens) for x, y, weights in group]
        x, y, weights = concatenated(group)
        whole.append((x, y, weights / tokens))
    accumulating = compiled(quick_model(), WholeBatchOptimizer(inner(), accumulate=3, **clip))
    at_once = compiled(quick_model(), WholeBatchOptimizer(inner(), **clip))
    losses = np.reshape(train(accumulating, parts), (4, 3)).mean(axis=1)
    np.testing.assert_allclose(losses, train(at_once, whole), rtol=1e-5)
    assert_same_weights(accumulating, at_once, 1e-6)


@INNER
def test_a_nonfinite_batch_leaves_no_trace(inner):
    good = [(x, y, weights / weights.sum()) for x, y, weights in batches_of(3)]
    bad = good[1][:2] + (good[1][2] * NAN,)
    skipping = compiled(quick_model(), WholeBatchOptimizer(inner(), skip_nonfinite=True))
    without = compiled(quick_model(), WholeBatchOptimizer(inner(), skip_nonfinite=True))
    losses = train(skipping, [good[0], bad, *good[1:]])
    assert np.isnan(losses).tolist() == [False, True, False, False]
    train(without, good)
    assert_same_weights(skipping, without, 0)
    assert int(to_numpy(skipping.optimizer.num_skipped)) == 1
    assert int(to_numpy(skipping.optimizer.iterations)) == 3


@pytest.mark.each_backend
@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="rows are TensorFlow's")
def test_adam_gets_dense_gradients():
    """Keras's Adam on rows of an embedding, as TensorFlow gives them, makes other updates.

    The Transformer's embedding is the output layer too.
    """
    models = []
    for optimizer in (
        keras.optimizers.Adam(0.01),
        WholeBatchOptimizer(keras.optimizers.Adam(0.01)),
    ):
        model = new_model(dropout=0.0)
        model.compile(optimizer, LabelSmoothedCrossentropy(reduction="sum"), run_eagerly=True)
        train(model, batches_of(3))
        models.append(model)
    assert_same_weights(*models, 1e-6)


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_low_precision_trains(policy):
    with dtype_policy(policy):
        optimizer = paper_optimizer(0.03, accumulate=2, clip_norm=1.0)
        model = compiled(new_model(dropout=0.0), optimizer)
        ((x, y, weights),) = batches_of(1)
        losses = train(model, [(x, y, weights / weights.sum())] * 24)
    assert model.optimizer.loss_scaling == (policy == "mixed_float16")
    assert losses[-1] < losses[0] / 2
    assert np.isfinite(losses).all()
    assert {str(v.dtype) for v in model.trainable_variables} == {"float32"}


def test_a_saved_model_restores_the_optimizer(tmp_path):
    model = compiled(quick_model(), paper_optimizer(NoamSchedule(16), 2, 0.5, 0.9, True))
    batches = list(batches_of(5))
    train(model, batches[:3])  # in the middle of an update
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert loaded.optimizer.get_config() == model.optimizer.get_config()
    assert int(to_numpy(loaded.optimizer.batches)) == 3
    assert train(model, batches[3:]) == train(loaded, batches[3:])
    assert_same_weights(model, loaded, 0)


@pytest.mark.parametrize(
    "options",
    [{"clip_norm": INF}, {"clip_norm": NAN}, {"ema_momentum": NAN}, {"accumulate": 0}],
    ids=str,
)
def test_an_argument_of_the_optimizer_is_named(options):
    ((name, value),) = options.items()
    with pytest.raises(UserError, match=f"`{name}` must be .*Received: {name}={value}"):
        paper_optimizer(0.1, **options)
