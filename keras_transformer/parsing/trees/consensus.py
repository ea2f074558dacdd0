"""One tree out of many of the same sentence: the constituents that most of them have."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from keras_transformer.errors import UserError
from keras_transformer.parsing.trees.traversal import CLOSE, LEAF, OPEN, TOP_DOWN, new_builder, walk

if TYPE_CHECKING:
    from nltk import Tree

# More than half, by more than sums of floats are wrong by.
_MAJORITY = 0.5 + 1e-9


class Consensus(NamedTuple):
    """What many trees agree on."""

    tree: "Tree"
    agreement: float  # the mean share of the weight that the tree's constituents have, 0 to 1


class _Constituent(NamedTuple):
    start: int
    end: int  # the first word after it
    label: str
    number: int  # of those of the same words and label, from the innermost, 0, outwards


def consensus(trees: Sequence["Tree"], weights: Sequence[float]) -> Consensus:
    """Finds the tree whose expected number of wrong and missed constituents is least.

    If a tree's weight is its probability, a constituent c is in the right tree with the probability

    ```
    p(c) = Σ_t w_t [c in t] / Σ_t w_t
    ```

    and taking it lowers the expected number of errors exactly where p(c) > 1/2. No two such
    constituents cross, since some tree has both: so they are a tree, and it is the one of minimum
    Bayes risk (Goodman, 1996, "Parsing Algorithms and Metrics", for labelled recall). It may be
    none of the trees. Each word has the tag of the largest weight, and where no constituent of all
    words has a majority, the root is the one of the largest weight.

    Args:
        trees: trees of one sentence, one or more, such as those of a beam.
        weights: a number for each of them, not negative and not all 0.

    Returns:
        A `Consensus`.

    Raises:
        UserError: if the trees are not of the same words, or the weights no such numbers.
    """
    parts = [_parts(tree) for tree in trees]
    words = _words([leaves for leaves, _ in parts])
    total = _total(weights, len(trees))
    tags = [Counter() for _ in words]
    found: Counter[_Constituent] = Counter()
    heights: Counter[_Constituent] = Counter()
    for (leaves, constituents), weight in zip(parts, weights):
        for tag, leaf in zip(tags, leaves):
            tag[leaf.label()] += weight
        for constituent, height in constituents:
            found[constituent] += weight
            heights[constituent] += weight * height

    taken = [c for c, weight in found.items() if weight > _MAJORITY * total]
    roots = [c for c in found if c.end - c.start == len(words) > 1]
    if roots and not set(roots) & set(taken):
        taken.append(max(roots, key=found.get))
    taken.sort(key=lambda c: (c.start, -c.end, -heights[c] / found[c]))
    # Rounding may take it beyond 1.
    agreement = min(1.0, sum(found[c] for c in taken) / total / len(taken)) if taken else 1.0
    best_tags = [tag.most_common(1)[0][0] for tag in tags]
    return Consensus(_put_together(words, best_tags, taken), agreement)


def _words(leaves):
    sentences = {tuple(leaf[0] for leaf in of_tree) for of_tree in leaves}
    if len(sentences) != 1:
        raise UserError(
            "`trees` must be one tree or more, all of the same words. "
            f"Received: trees of {len(sentences)} sentences"
        )
    return sentences.pop()


def _total(weights, num_trees):
    if len(weights) != num_trees or min(weights) < 0 or not sum(weights) > 0:
        raise UserError(
            "`weights` must hold a number for each tree, not negative and not all 0. "
            f"Received: weights={list(weights)} for {num_trees} trees"
        )
    return sum(weights)


def _parts(tree: "Tree") -> tuple[list["Tree"], list[tuple[_Constituent, int]]]:
    """A tree's leaves, and its constituents with the number of those of the same words inside."""
    leaves, constituents, starts = [], [], []
    of_words, of_label = Counter(), Counter()
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


def _put_together(words, tags, constituents) -> "Tree":
    """The tree of constituents that do not cross, the outer before the inner."""
    builder = new_builder(TOP_DOWN, words)
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
