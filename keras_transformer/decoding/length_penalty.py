"""What a hypothesis's log-probability is divided by, so that longer ones have a chance."""

from keras import ops

from keras_transformer.validation import real_number

# With a larger one, penalties of long outputs are beyond float32, and scores are 0.
_LARGEST_ALPHA = 10


def check_alpha(alpha):
    """Return α as a Python float; raise a `UserError` if it is not a number from 0 to 10."""
    return real_number(
        "alpha",
        alpha,
        lambda x: 0 <= x <= _LARGEST_ALPHA,
        f"a number from 0 to {_LARGEST_ALPHA}",
    )


def gnmt(length, alpha):
    """((5 + |y|) / 6)^α: Wu et al. (2016), Eq. 14; the paper's section 6.1."""
    return ((5 + length) / 6) ** alpha


def power(length, alpha):
    """|y|^α; with α = 1, the mean log-probability of a token."""
    return length**alpha


# Each grows with the length |y|, which counts the end token: the search relies on it.
length_penalties = {"gnmt": gnmt, "power": power}


def penalised(scores, length, alpha, length_penalty="gnmt"):
    """Log-probabilities divided by the penalty of their hypotheses' lengths.

    Args:
        scores: float32 tensor: log-probabilities.
        length: int32 tensor that broadcasts to it: numbers of tokens, the end token included.
        alpha: float, or float32 scalar tensor.
        length_penalty: a key of `length_penalties`.

    Returns:
        Float32 tensor.
    """
    if isinstance(alpha, float) and alpha == 0:
        return scores
    return scores / length_penalties[length_penalty](ops.cast(length, "float32"), alpha)
