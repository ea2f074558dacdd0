"""Translations of words, learned from pairs of sentences (Model 1: Brown et al., 1993)."""

from collections.abc import Sequence
from itertools import chain

import numpy as np


def lexical_probabilities(
    sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], iterations: int = 4
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the probability of each target word for each source word that it occurs with.

    Each target word comes from one of the source words of its pair:

    ```
    count(y | x) = Σ p(y | x) / Σ_x' p(y | x')     over the pairs, and the words y in their targets
    p(y | x)     = count(y | x) / Σ_y' count(y' | x)
    ```

    Args:
        sources: list of int arrays, words by their numbers.
        targets: list of int arrays, their translations.
        iterations: rounds of expectation and maximization.

    Returns:
        Three arrays: x, y and p(y | x) of each pair of words, sorted by x, then by y.
    """
    lengths = (np.array([*map(len, side)], int) for side in (sources, targets))
    sizes = np.repeat(*lengths)
    groups = np.repeat(np.arange(len(sizes)), sizes)  # one per target word
    source = _joined([np.tile(x, len(y)) for x, y in zip(sources, targets)])
    target = _joined([np.repeat(y, len(x)) for x, y in zip(sources, targets)])
    num_targets = target.max(initial=0) + 1
    keys, links = np.unique(source * num_targets + target, return_inverse=True)
    of_source, of_target = np.divmod(keys, num_targets)
    probabilities = np.ones(len(keys))
    for _ in range(iterations):
        shares = probabilities[links]
        shares /= np.bincount(groups, shares)[groups]
        counts = np.bincount(links, shares)
        probabilities = counts / np.bincount(of_source, counts)[of_source]
    return of_source, of_target, probabilities


def most_probable(
    sources: Sequence[Sequence[str]], targets: Sequence[Sequence[str]], iterations: int = 4
) -> dict[str, str]:
    """Return the most probable target word of each source word.

    Args:
        sources: list of lists of words.
        targets: list of lists of words, their translations.
        iterations: as for `lexical_probabilities`.
    """
    names = [[*dict.fromkeys(chain.from_iterable(side))] for side in (sources, targets)]
    known = [{name: number for number, name in enumerate(side)} for side in names]
    first, second = (
        [[of_name[word] for word in words] for words in side]
        for of_name, side in zip(known, (sources, targets))
    )
    *links, probabilities = lexical_probabilities(first, second, iterations)
    order = np.argsort(probabilities, kind="stable")  # the best one of a word comes last, and stays
    return {names[0][i]: names[1][j] for i, j in zip(*(x[order] for x in links))}


def _joined(rows: list[np.ndarray]) -> np.ndarray:
    return np.concatenate([np.zeros(0, "int64"), *rows]).astype("int64")
