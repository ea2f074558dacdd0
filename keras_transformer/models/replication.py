"""Computation on one replica of a `tf.distribute` strategy, and on all replicas together.

Without a strategy, and on the other backends, there is one replica: JAX distributes arrays over its
devices, and each computation applies to whole arrays.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
from keras import ops

from keras_transformer.annotations import Tensor


def replica_context() -> Any:
    """Return TensorFlow's context of this replica, or None if nothing is replicated."""
    if keras.backend.backend() != "tensorflow":
        return None
    import tensorflow as tf

    return tf.distribute.get_replica_context() if tf.distribute.has_strategy() else None


def is_in_scope(variable: keras.Variable) -> bool:
    """Return whether new variables would be replicated in the same way as a Keras variable.

    They are if the `tf.distribute` strategy in scope is the strategy of the variable.
    """
    if keras.backend.backend() != "tensorflow":
        return True
    import tensorflow as tf

    return tf.distribute.get_strategy().extended.variable_created_in_scope(variable.value)


@contextlib.contextmanager
def summed_over_replicas() -> Iterator[None]:
    """Within the block, make variables that are sums of one part per replica.

    Each replica reads and changes its own part. Outside of the replicas, for example when it is
    written to a file, the variable is the sum of the parts. A value that is assigned there is
    divided evenly among them.
    """
    if keras.backend.backend() != "tensorflow":
        yield
        return
    import tensorflow as tf

    def create(next_creator: Callable[..., Any], **options: Any) -> Any:
        options["synchronization"] = tf.VariableSynchronization.ON_READ
        options["aggregation"] = tf.VariableAggregation.SUM
        return next_creator(**options)

    with tf.variable_creator_scope(create):
        yield


def call_if(
    condition: Tensor, function: Callable[[], None], variables: Sequence[keras.Variable]
) -> None:
    """Call a function that assigns to variables if a condition is true.

    Replicas may communicate in it. The condition must be the same for all of them.

    Args:
        condition: a boolean scalar.
        function: function without arguments and results.
        variables: list of all variables that the function reads or assigns.
    """
    context = replica_context()
    if keras.backend.backend() == "jax":
        _call_if_on_jax(condition, function, variables)
    elif context is None or _meets_in_branches():
        ops.cond(condition, function, lambda: None)
    else:
        context.merge_call(_call_together_if, args=(condition, function))


def _meets_in_branches() -> bool:
    """Return whether replicas may communicate in a branch: those that XLA compiles for GPUs may."""
    import tensorflow as tf

    # Keras uses this check for the same purpose.
    return tf.__internal__.distribute.strategy_supports_no_merge_call()


def _call_together_if(strategy: Any, conditions: Any, functions: Any) -> None:
    """Branch outside of the replicas: TensorFlow lets them communicate only there."""
    condition = strategy.experimental_local_results(conditions)[0]

    def call() -> None:
        strategy.extended.call_for_each_replica(lambda function: function(), args=(functions,))

    ops.cond(condition, call, lambda: None)


def _call_if_on_jax(
    condition: Tensor, function: Callable[[], None], variables: Sequence[keras.Variable]
) -> None:
    # Assigned values must be results of the branch.
    before = [variable.value for variable in variables]

    def assigned() -> list[Tensor]:
        with keras.StatelessScope(list(zip(variables, before))) as scope:
            function()
        return [scope.get_current_value(variable) for variable in variables]

    for variable, value in zip(variables, ops.cond(condition, assigned, lambda: before)):
        variable.assign(value)
