"""Give an optimizer the same gradients on any number of devices, and write down what came of it.

KERAS_BACKEND=tensorflow python -m tests.training.shared_updates FOLDER
"""

import functools
import sys
from pathlib import Path

import keras
import numpy as np

from keras_transformer.training.training_state import Snapshot, read_state
from keras_transformer.training.whole_batch_optimizer import WholeBatchOptimizer
from tests.helpers import to_numpy

CALLS = 12
SAVED_AT = 4  # in the middle of an update

optimizers = keras.optimizers
# An inner optimizer, and options of the one around it.
CASES = {
    "sgd": (lambda: optimizers.SGD(0.1, momentum=0.9), {}),
    "adamw": (lambda: optimizers.AdamW(0.03, weight_decay=0.2), {"accumulate": 3}),
    "nadam": (lambda: optimizers.Nadam(0.03), {"accumulate": 3}),
    "ema": (
        lambda: optimizers.SGD(0.1, use_ema=True, ema_momentum=0.8),
        {"accumulate": 2, "skip_nonfinite": True},
    ),
    "clipped": (lambda: optimizers.SGD(0.1, momentum=0.9), {"accumulate": 3, "clip_norm": 2.0}),
    "scaled": (
        lambda: optimizers.Adam(0.03),
        {"accumulate": 3, "loss_scaling": True, "initial_scale": 8.0, "dynamic_growth_steps": 2},
    ),
    "all": (
        lambda: optimizers.AdamW(0.03, weight_decay=0.2),
        {"clip_norm": 2.0, "loss_scaling": True, "dynamic_growth_steps": 4},
    ),
}
# The replicas that share a case's updates.
REPLICAS = {**dict.fromkeys(CASES, (2,)), "all": (1, 2, 3)}


def new_model(optimizer):
    """A model with a constraint, compiled. Its weights are always the same."""
    inputs = keras.Input((3,))
    dense = keras.layers.Dense(
        2, kernel_constraint=keras.constraints.UnitNorm(axis=0), name="dense"
    )
    model = keras.Model(inputs, dense(inputs))
    model.set_weights([np.float32([[1, -2], [3, 1], [0, 2]]) / 3, np.float32([0.5, -1])])
    model.compile(optimizer)
    optimizer.build(model.trainable_variables)
    return model


@functools.cache
def gradients(name, num_replicas):
    """Of the two variables: `(calls, replicas, ...)`. One of one replica is not finite."""
    generator = np.random.default_rng(num_replicas)
    values = [
        generator.normal(size=(CALLS, num_replicas, *shape)).astype("float32") / num_replicas
        for shape in ((3, 2), (2,))
    ]
    options = CASES[name][1]
    if "loss_scaling" in options or "skip_nonfinite" in options:
        values[0][4, -1, 1, 1] = np.inf
    return values


def expected(name, num_replicas):
    """The weights that the inner optimizer comes to alone, with the gradients of whole batches."""
    make_inner, options = CASES[name]
    inner = make_inner()
    model = new_model(inner)
    accumulate = options.get("accumulate", 1)
    for first in range(0, CALLS, accumulate):
        grads = [x[first : first + accumulate].sum((0, 1)) for x in gradients(name, num_replicas)]
        grads = [x / accumulate for x in grads]
        norm = np.sqrt(sum(np.square(x).sum() for x in grads))
        if np.isfinite(norm):
            factor = min(1, options.get("clip_norm", np.inf) / norm)
            grads = [keras.ops.convert_to_tensor(np.float32(x * factor)) for x in grads]
            inner.apply(grads, model.trainable_variables)
    inner.finalize_variable_values(model.trainable_variables)
    return model.get_weights()


def compiled_apply(model):
    """`apply(grads)` of the model's optimizer as `fit` calls it: on JAX, in a compiled function."""
    optimizer, trained = model.optimizer, model.trainable_variables
    if keras.backend.backend() != "jax":
        return lambda grads: optimizer.apply(grads, trained)
    import jax

    stateless = jax.jit(optimizer.stateless_apply)

    def apply(grads):
        states = [[v.value for v in variables] for variables in (optimizer.variables, trained)]
        values, optimizer_values = stateless(states[0], grads, states[1])
        for variable, value in zip(trained + optimizer.variables, values + optimizer_values):
            variable.assign(value)

    return apply


def on_one_device(name, num_replicas, state=None):
    """The weights that the same gradients lead to without replicas, from the beginning or a state.

    Also the optimizer.
    """
    make_inner, options = CASES[name]
    model = new_model(WholeBatchOptimizer(make_inner(), **options))
    if state:
        read_state(state).restore(model)
    apply = compiled_apply(model)
    for call in range(SAVED_AT if state else 0, CALLS):
        scale = float(to_numpy(model.optimizer.scale_loss(1.0)))
        grads = [np.float32(x[call].sum(0) * scale) for x in gradients(name, num_replicas)]
        apply([keras.ops.convert_to_tensor(x) for x in grads])
    model.optimizer.finalize_variable_values(model.trainable_variables)
    return model.get_weights(), model.optimizer


def replicated(name, num_replicas, folder):
    """The weights under a `MirroredStrategy`, and how often each call reduced gradients.

    Training is stopped once, and goes on with the file of its state.
    """
    import tensorflow as tf

    reductions = []

    class Counting(tf.distribute.ReductionToOneDevice):
        def batch_reduce_implementation(self, reduce_op, value_destination_pairs, options):
            if len(value_destination_pairs) > 1:  # not a norm

                def count():
                    reductions[-1] += 1

                tf.py_function(count, [], [])
            return super().batch_reduce_implementation(reduce_op, value_destination_pairs, options)

    devices = [f"CPU:{i}" for i in range(num_replicas)]
    strategy = tf.distribute.MirroredStrategy(devices, cross_device_ops=Counting())
    make_inner, options = CASES[name]
    values = gradients(name, num_replicas)

    def begin():
        model = new_model(WholeBatchOptimizer(make_inner(), **options))

        @tf.function
        def step(call):
            def in_replica():
                replica = tf.distribute.get_replica_context().replica_id_in_sync_group
                scale = model.optimizer.scale_loss(1.0)
                grads = [tf.constant(x)[call, replica] * scale for x in values]
                model.optimizer.apply(grads, model.trainable_variables)

            strategy.run(in_replica)

        return model, step

    with strategy.scope():
        model, step = begin()
        for call in range(CALLS):
            if call == SAVED_AT:
                path = folder / f"{name}-{num_replicas}.state.weights.h5"
                Snapshot(model).write(path)
                if name in ("adamw", "clipped"):
                    model, step = begin()
                    read_state(path).restore(model)
            reductions.append(0)
            step(tf.constant(call))
        model.optimizer.finalize_variable_values(model.trainable_variables)
    return [*model.get_weights(), np.array(reductions)]


def main(folder):
    import tensorflow as tf

    cpu = tf.config.list_physical_devices("CPU")[0]
    logical = [tf.config.LogicalDeviceConfiguration()] * 3
    tf.config.set_logical_device_configuration(cpu, logical)
    for name, numbers in REPLICAS.items():
        for number in numbers:
            kernel, bias, reductions = replicated(name, number, Path(folder))
            path = f"{folder}/{name}-{number}.npz"
            np.savez(path, kernel=kernel, bias=bias, reductions=reductions)


if __name__ == "__main__":
    main(*sys.argv[1:])
