"""What a training costs, in floating-point operations (Table 2 and section 6.1)."""

import numpy as np


def training_flops(hyperparameters, vocabulary_size, source_lengths, target_lengths):
    """Count the operations of one pass over sentence pairs, forward and backward.

    Counted are matrix products, at two operations for a multiplication and an addition; the
    backward pass has twice those of the forward pass. Padding is not counted.

    Args:
        hyperparameters: those of a variant.
        vocabulary_size: the number of logits.
        source_lengths: int array `(pairs,)`, tokens of each source.
        target_lengths: int array `(pairs,)`, tokens of each target.

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
    decoder = attention(target, target) + attention(target, source) + feed_forward(target)
    num_layers = hyperparameters["num_layers"]
    num_decoder_layers = hyperparameters["num_decoder_layers"] or num_layers
    layers = num_layers * encoder + num_decoder_layers * decoder
    products = np.sum(layers + target * width * vocabulary_size)
    return float(3 * 2 * products)
