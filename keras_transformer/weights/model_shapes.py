"""The shapes of a model's weights, found before the weights take memory."""

import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import keras

from keras_transformer.errors import UserError


def weight_shapes(model_class: Any, config: Any, largest: int) -> list[tuple[int, ...]]:
    """Return the shapes of the weights of a model without making them.

    Args:
        model_class: `Transformer`, or a class derived from it.
        config: the configuration of the model, an instance of `model_class.config_class`.
        largest: the number of values that the weights may have.

    Raises:
        UserError: if the weights have more values.
    """
    hyperparameters = config.to_dict()
    # Each layer has at least one vector of its own, and so has each token.
    vectors = sum(
        value
        for name, value in hyperparameters.items()
        if name.endswith(("vocabulary_size", "_layers", "_depth")) and isinstance(value, int)
    )
    _validate_count(vectors * config.hidden_dim, largest)

    def shapes() -> list[tuple[int, ...]]:
        with keras.StatelessScope(initialize_variables=False):
            model = model_class(**hyperparameters, dtype="float32")
            return [tuple(weight.shape) for weight in model.weights]

    # In the scope, Keras keeps a list of variables to initialize later. The list belongs to the
    # thread and ends with it.
    with ThreadPoolExecutor(1) as thread:
        found = thread.submit(shapes).result()
    _validate_count(sum(map(math.prod, found)), largest)
    return found


def _validate_count(count: int, largest: int) -> None:
    if count > largest:
        raise UserError(
            "The configuration and the weights do not match. Expected a model of at most "
            f"{largest:,} weights. Received: at least {count:,}"
        )
