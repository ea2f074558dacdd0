"""What a hypothesis's log-probability is divided by, so that longer ones have a chance."""


def gnmt(length, alpha):
    """((5 + |y|) / 6)^α: Wu et al. (2016), Eq. 14; the paper's section 6.1."""
    return ((5 + length) / 6) ** alpha


def power(length, alpha):
    """|y|^α; with α = 1, the mean log-probability of a token."""
    return length**alpha


# Each grows with the length |y|, which counts the end token: the search relies on it.
length_penalties = {"gnmt": gnmt, "power": power}
