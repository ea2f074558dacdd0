"""The consensus of many trees of one sentence: the constituents that most of them have."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from keras_transformer.errors import UserError
from keras_transformer.parsing.traversal import CLOSE, LEAF, OPEN, TreeBuilder, walk

if TYPE_CHECKING:
    from nltk import Tree

# More than half, by more than the rounding error of sums.
_MAJORITY = 0.5 + 1e-9


class Consensus(NamedTuple):
    """The result of `consensus`."""

    tree: "Tree"
    agreement: float  # the mean share of the weight that the tree's constituents have, 0 to 1


class _Constituent(NamedTuple):
    start: int
    end: int  # the first word after it
    label: str
    number: int  # among equal words and label, counted outwards from the innermost, 0


def consensus(trees: Sequence["Tree"], weights: Sequence[float]) -> Consensus:
    """Find the tree with the smallest expected number of wrong and missed constituents.

    If the weight of a tree is its probability, a constituent c is in the right tree with the
    probability

    ```
    p(c) = Σ_t w_t [c in t] / Σ_t w_t
    ```

    Taking c lowers the expected number of errors exactly if p(c) > 1/2. No two such constituents
    cross, because some tree has both. So together they form a tree, the tree of minimum Bayes risk
    (Goodman, 1996, "Parsing Algorithms and Metrics", for labelled recall). It need not be one of
    the given trees. Each word has the tag with the largest weight. If no constituent over all words
    has a majority, the root is the one with the largest weight.

    Args:
        trees: one or more trees of one sentence, such as the trees of a beam.
        weights: one number per tree, not negative and not all 0.

    Returns:
        A `Consensus`.

    Raises:
        UserError: if the trees have different words, or the weights are not such numbers.
    """
    parts = [_parts(tree) for tree in trees]
    words = _words([leaves for leaves, _ in parts])
    total = _total(weights, len(trees))
    found: defaultdict[_Constituent, float] = defaultdict(float)
    heights: defaultdict[_Constituent, float] = defaultdict(float)
    for (_, constituents), weight in zip(parts, weights):
        for constituent, height in constituents:
            found[constituent] += weight
            heights[constituent] += weight * height

    majority = [c for c, weight in found.items() if weight > _MAJORITY * total]
    roots = [c for c in found if c.end - c.start == len(words) > 1]
    if roots and not set(roots) & set(majority):
        majority.append(max(roots, key=found.__getitem__))
    majority.sort(key=lambda c: (c.start, -c.end, -heights[c] / found[c]))
    agreement = 1.0
    if majority:
        # Rounding can give a mean above 1.
        agreement = min(1.0, sum(found[c] for c in majority) / total / len(majority))
    tags = _best_tags([leaves for leaves, _ in parts], weights)
    return Consensus(_build(words, tags, majority), agreement)


def _best_tags(leaves: Sequence[Sequence["Tree"]], weights: Sequence[float]) -> list[str]:
    """Return the tag of each word with the largest weight, of equal ones the first."""
    tags: list[defaultdict[str, float]] = [defaultdict(float) for _ in leaves[0]]
    for of_tree, weight in zip(leaves, weights):
        for tag, leaf in zip(tags, of_tree):
            tag[leaf.label()] += weight
    return [max(tag, key=tag.__getitem__) for tag in tags]


def _words(leaves: Iterable[Sequence["Tree"]]) -> tuple[str, ...]:
    sentences = {tuple(leaf[0] for leaf in of_tree) for of_tree in leaves}
    if len(sentences) != 1:
        raise UserError(
            "`trees` must be one or more trees, all with the same words. "
            f"Received: trees of {len(sentences)} sentences"
        )
    return sentences.pop()


def _total(weights: Sequence[float], num_trees: int) -> float:
    if len(weights) != num_trees or min(weights) < 0 or not sum(weights) > 0:
        raise UserError(
            "`weights` must hold one number per tree, not negative and not all 0. "
            f"Received: weights={list(weights)} for {num_trees} trees"
        )
    return sum(weights)


def _parts(tree: "Tree") -> tuple[list["Tree"], list[tuple[_Constituent, int]]]:
    """Return the leaves of a tree, and its constituents with the number of the constituents of the
    same words inside them.
    """
    leaves: list[Tree] = []
    constituents: list[tuple[_Constituent, int]] = []
    starts: list[int] = []
    of_words: Counter[tuple[int, int]] = Counter()
    of_label: Counter[tuple[int, int, str]] = Counter()
    for step, node in walk(tree):
        if step == OPEN:
            starts.append(len(leaves))
        elif step == LEAF:
            leaves.append(node)
        else:
            span = starts.pop(), len(leaves)
            labelled = *span, node.label()
            constituent = _Constituent(*labelled, of_label[labelled])
            constituents.append((constituent, of_words[span]))
            of_words[span] += 1
            of_label[labelled] += 1
    return leaves, constituents


def _build(
    words: Sequence[str], tags: Sequence[str], constituents: Sequence[_Constituent]
) -> "Tree":
    """Build a tree of constituents that do not cross, sorted with the outer before the inner."""
    builder = TreeBuilder(words)
    waiting, ends = list(reversed(constituents)), []
    for position, tag in enumerate(tags):
        while waiting and waiting[-1].start == position:
            opened = waiting.pop()
            builder.add(OPEN, opened.label)
            ends.append(opened.end)
        builder.add(LEAF, tag)
        while ends and ends[-1] == position + 1:
            builder.add(CLOSE, None)
            ends.pop()
    return builder.tree()
