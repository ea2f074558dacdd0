"""What a hypothesis's log-probability is divided by, so that longer ones have a chance."""

from keras import ops


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
