"""The cost of a training in floating-point operations (Table 2 and section 6.1)."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike


def training_flops(
    hyperparameters: Mapping[str, Any],
    vocabulary_size: int,
    source_lengths: ArrayLike,
    target_lengths: ArrayLike,
    counts: ArrayLike = 1,
) -> float:
    """Count the operations of one pass over sentence pairs, forward and backward.

    Only matrix products are counted, with two operations per multiplication and addition. The
    backward pass takes twice the operations of the forward pass. Padding is not counted.

    Args:
        hyperparameters: hyperparameters of a variant.
        vocabulary_size: the number of logits.
        source_lengths: int array `(pairs,)`, tokens of each source.
        target_lengths: int array `(pairs,)`, tokens of each target.
        counts: float array `(pairs,)`, the number of occurrences of each pair. Defaults to one.

    Returns:
        A float.
    """
    source, target = (np.asarray(x, "float64") for x in (source_lengths, target_lengths))
    width, num_heads = hyperparameters["hidden_dim"], hyperparameters["num_heads"]
    key_dim = hyperparameters["key_dim"] or width // num_heads
    value_dim = hyperparameters["value_dim"] or key_dim

    def attention(queries: np.ndarray, keys: np.ndarray) -> np.ndarray:
        """Of one block, for each pair."""
        projections = width * num_heads * (key_dim + value_dim)  # of a query, of a key and value
        heads = num_heads * (key_dim + value_dim)  # of a query with a key
        return (queries + keys) * projections + queries * keys * heads

    def feed_forward(tokens: np.ndarray) -> np.ndarray:
        return tokens * 2 * width * hyperparameters["intermediate_dim"]

    encoder = attention(source, source) + feed_forward(source)
    own = attention(target, target)
    if hyperparameters.get("decoder_type") == "ssru":
        own = target * 2 * width**2
    decoder = own + attention(target, source) + feed_forward(target)
    num_decoder_layers = hyperparameters["num_decoder_layers"] or hyperparameters["num_layers"]
    layers = hyperparameters["num_layers"] * encoder + num_decoder_layers * decoder
    products = np.sum(counts * (layers + target * width * vocabulary_size))
    return float(3 * 2 * products)
