"""What a replica of a `tf.distribute` strategy does alone, and what all replicas do together.

Without a strategy, and on the other backends, there is one replica: JAX spreads arrays over its
devices, and each computation is of whole arrays.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
from keras import ops

from keras_transformer.typing import Tensor


def replica_context() -> Any:
    """TensorFlow's context of this replica; None where nothing is replicated."""
    if keras.backend.backend() != "tensorflow":
        return None
    import tensorflow as tf

    return tf.distribute.get_replica_context() if tf.distribute.has_strategy() else None


def is_in_scope(variable: keras.Variable) -> bool:
    """Return whether new variables would be replicated as a Keras variable is.

    They are where the `tf.distribute` strategy in scope is the strategy of the variable.
    """
    if keras.backend.backend() != "tensorflow":
        return True
    import tensorflow as tf

    return tf.distribute.get_strategy().extended.variable_created_in_scope(variable.value)


@contextlib.contextmanager
def summed_over_replicas() -> Iterator[None]:
    """Variables made here are sums, of which each replica keeps and changes its own part.

    Read outside of the replicas, as for a file, such a variable is the sum of the parts. A value
    that is written there is divided evenly among them.
    """
    if keras.backend.backend() != "tensorflow":
        yield
        return
    import tensorflow as tf

    def create(next_creator, **options):
        options["synchronization"] = tf.VariableSynchronization.ON_READ
        options["aggregation"] = tf.VariableAggregation.SUM
        return next_creator(**options)

    with tf.variable_creator_scope(create):
        yield


def call_if(
    condition: Tensor, function: Callable[[], None], variables: Sequence[keras.Variable]
) -> None:
    """Call a function without results, which assigns to variables, if a condition is true.

    Replicas may meet in it. The condition must be the same for all of them.

    Args:
        condition: a boolean scalar.
        function: takes and returns nothing.
        variables: list of all variables that the function reads or assigns.
    """
    context = replica_context()
    if keras.backend.backend() == "jax":
        _call_if_on_jax(condition, function, variables)
    elif context is None or _meets_in_branches():
        ops.cond(condition, function, lambda: None)
    else:
        context.merge_call(_call_together_if, args=(condition, function))


def _meets_in_branches():
    """Whether replicas may meet in a branch: those that XLA compiles for GPUs."""
    import tensorflow as tf

    # Keras asks this too, and for the same.
    return tf.__internal__.distribute.strategy_supports_no_merge_call()


def _call_together_if(strategy, conditions, functions):
    """Branch outside of the replicas: TensorFlow lets them meet in no branch of their own."""
    condition = strategy.experimental_local_results(conditions)[0]

    def call():
        strategy.extended.call_for_each_replica(lambda function: function(), args=(functions,))

    ops.cond(condition, call, lambda: None)


def _call_if_on_jax(condition, function, variables):
    # What a branch assigns must be its result.
    before = [variable.value for variable in variables]

    def assigned():
        with keras.StatelessScope(list(zip(variables, before))) as scope:
            function()
        return [scope.get_current_value(variable) for variable in variables]

    for variable, value in zip(variables, ops.cond(condition, assigned, lambda: before)):
        variable.assign(value)
