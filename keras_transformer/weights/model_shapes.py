"""The shapes of a model's weights, found before the weights take memory."""

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
        UserError: if embeddings and layers are too many for that number.
    """
    hyperparameters = config.to_dict()
    # Each layer has at least one vector of its own, as each token has.
    counts = {
        name: value
        for name, value in hyperparameters.items()
        if name.endswith(("vocabulary_size", "_layers", "_depth")) and isinstance(value, int)
    }
    if sum(counts.values()) * config.hidden_dim > largest:
        received = {**counts, "hidden_dim": config.hidden_dim}
        raise UserError(
            f"Expected a model of at most {largest:,} weights. Received: "
            f"{', '.join(f'{name}={value}' for name, value in received.items())}"
        )

    def shapes():
        with keras.StatelessScope(initialize_variables=False):
            model = model_class(**hyperparameters, dtype="float32")
            return [tuple(weight.shape) for weight in model.weights]

    # In the scope, Keras keeps a list of variables to initialize later. The list belongs to the
    # thread and ends with it.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(shapes).result()
