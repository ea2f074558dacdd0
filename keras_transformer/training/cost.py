"""The cost of a training in floating-point operations (Table 2 and section 6.1)."""

import collections
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

    def attention(queries, keys):
        """Of one block, for each pair."""
        projections = width * num_heads * (key_dim + value_dim)  # of a query, of a key and value
        heads = num_heads * (key_dim + value_dim)  # of a query with a key
        return (queries + keys) * projections + queries * keys * heads

    def feed_forward(tokens):
        return tokens * 2 * width * hyperparameters["intermediate_dim"]

    encoder = attention(source, source) + feed_forward(source)
    own = attention(target, target)
    if hyperparameters.get("decoder_type") == "ssru":
        own = target * 2 * width**2
    decoder = own + attention(target, source) + feed_forward(target)
    layers = hyperparameters["num_layers"] * encoder + _decoder_layers(hyperparameters) * decoder
    products = np.sum(counts * (layers + target * width * vocabulary_size))
    return float(3 * 2 * products)


def _decoder_layers(hyperparameters):
    return hyperparameters["num_decoder_layers"] or hyperparameters["num_layers"]


def _feed_forward(width, inner, depth):
    """Return the number of weights in the matrices of a feed-forward network."""
    return width**2 if depth == 1 else 2 * width * inner + (depth - 2) * inner**2


def least_parameters(hyperparameters: Mapping[str, Any]) -> int:
    """Return the number of weights in a model's matrices, before its arguments are validated.

    Args:
        hyperparameters: dict of all arguments of `Transformer`.

    Returns:
        An integer; 0 if a size is not a positive integer, which the model itself rejects.
    """
    of = collections.defaultdict(lambda: None, {"feed_forward_depth": 2, **hyperparameters})
    required = ("vocabulary_size", "num_layers", "hidden_dim", "intermediate_dim", "num_heads")
    required += ("feed_forward_depth",)
    optional = ("source_vocabulary_size", "num_decoder_layers", "decoder_intermediate_dim")
    optional += ("key_dim", "value_dim", "max_length", "decoder_feed_forward_depth")
    sizes = [of[x] for x in (*required, *(x for x in optional if of[x] is not None))]
    if not all(type(size) is int and size > 0 for size in sizes):
        return 0
    width, inner, num_heads = of["hidden_dim"], of["intermediate_dim"], of["num_heads"]
    key_dim = of["key_dim"] or width // num_heads
    attention = 2 * width * num_heads * (key_dim + (of["value_dim"] or key_dim))
    depth = of["feed_forward_depth"]
    encoder = of["num_layers"] * (attention + _feed_forward(width, inner, depth))
    own = 2 * width**2 if of["decoder_type"] == "ssru" else attention
    decoder = own + attention
    decoder += _feed_forward(
        width, of["decoder_intermediate_dim"] or inner, of["decoder_feed_forward_depth"] or depth
    )
    tied = of["tied_decoder_layers"]
    decoder *= len({*map(str, tied)}) if isinstance(tied, list) else _decoder_layers(of)
    rows = of["vocabulary_size"] * (1 if of["tie_weights"] else 2)
    rows += (of["source_vocabulary_size"] or 0) + 2 * (of["max_length"] or 0)
    return encoder + decoder + rows * width
