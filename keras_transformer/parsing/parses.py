"""Parses of a sentence, from the outputs of a search."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from keras import ops

from keras_transformer.decoding.search import Search
from keras_transformer.parsing.parser_tokens import TreeSymbols
from keras_transformer.parsing.trees import consensus, escape, repair
from keras_transformer.parsing.trees.traversal import LEAF, walk
from keras_transformer.parsing.words import Words

if TYPE_CHECKING:
    from nltk import Tree

# Token ids, padded with 0, and the score of an output.
Output = tuple[Sequence[int] | np.ndarray, float]


class Parse(NamedTuple):
    """The parse of a sentence."""

    tree: "Tree | None"  # None for a sentence that has no words or is too long
    score: float  # of the search, or the agreement of a consensus; 0 without a tree
    repairs: Counter[str]  # of the model's best output, by kind
    is_too_long: bool = False
    others: tuple["Parse", ...] = ()  # the next best, if more than one result was requested


def no_parse(sentence: Words) -> Parse:
    """Return the `Parse` of a sentence that was not searched."""
    return Parse(None, 0.0, Counter(), is_too_long=bool(sentence.words))


def parses_from_outputs(
    sentence: Words, outputs: Sequence[Output], symbols: TreeSymbols
) -> list[Parse]:
    """Return one `Parse` per output, in their order; without outputs, one repaired `Parse`.

    Args:
        sentence: `Words`.
        outputs: list of pairs (ids, score): int array, padded with 0, and float.
        symbols: the `TreeSymbols`.

    Returns:
        A list, not empty.
    """
    # An unconstrained search may find no output.
    outputs = outputs or [([], -np.inf)]
    return [
        Parse(tree, score, repairs)
        for token_ids, score in outputs
        for tree, repairs in [output_tree(sentence, token_ids, symbols)]
    ]


def output_tree(
    sentence: Words, token_ids: Sequence[int] | np.ndarray, symbols: TreeSymbols
) -> tuple["Tree", Counter[str]]:
    """Return the tree of an output, with the given tags, and the repairs by kind.

    Args:
        sentence: `Words`.
        token_ids: int array, padded with 0.
        symbols: the `TreeSymbols`.
    """
    words = [escape(word) for word in sentence.words]
    tree, repairs = repair(words, symbols.decode(token_ids), symbols.linearization)
    leaves = (node for step, node in walk(tree) if step == LEAF)
    for leaf, tag in zip(leaves, sentence.tags):
        if tag is not None:
            leaf.set_label(tag)
    return tree, repairs


def consensus_parse(parses: Sequence[Parse], log_probabilities: np.ndarray) -> Parse:
    """Return the consensus of parses, whose score is their agreement.

    Args:
        parses: list of `Parse`, not empty.
        log_probabilities: float array, one per parse.

    Returns:
        A `Parse`.
    """
    weights = np.exp(log_probabilities - log_probabilities.max())
    trees = [parse.tree for parse in parses if parse.tree is not None]
    tree, agreement = consensus(trees, weights.tolist())
    return parses[0]._replace(tree=tree, score=agreement)


def log_probabilities(outputs: Sequence[Output], search: Search) -> np.ndarray:
    """Return the log-probabilities of outputs: their scores without the length penalty.

    Args:
        outputs: list of pairs (ids, score), not empty.
        search: the `Search` that found them.

    Returns:
        Float array.
    """
    token_ids, scores = zip(*outputs)
    # A coverage penalty is not removed, because it is unknown here.
    lengths = ops.convert_to_tensor([np.count_nonzero(ids) for ids in token_ids], "int32")
    factors = search.penalized(ops.ones(len(token_ids)), lengths)
    return np.array(scores) / ops.convert_to_numpy(factors)
