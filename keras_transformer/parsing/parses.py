"""A sentence's parses, from the outputs of a search."""

from collections import Counter
from typing import NamedTuple

import numpy as np
from keras import ops

from keras_transformer.parsing.trees import consensus, escape, repair
from keras_transformer.parsing.trees.traversal import LEAF, walk


class Parse(NamedTuple):
    """A sentence's tree; None for a sentence without words, and for one that is too long."""

    tree: object  # nltk.Tree
    score: float  # what the search gives it, or the agreement of a consensus; 0 without a tree
    repairs: Counter  # what had to be mended in the model's best output, by kind
    is_too_long: bool = False
    others: tuple = ()  # the next best, each a `Parse`, where more than one result was asked for


def no_parse(sentence):
    """The `Parse` of `Words` that were not searched for."""
    return Parse(None, 0.0, Counter(), is_too_long=bool(sentence.words))


def parses_of(sentence, outputs, symbols):
    """A `Parse` for each output, in their order; of no tree at all, without outputs.

    Args:
        sentence: `Words`.
        outputs: list of pairs (ids, score): int array, padded with 0, and float.
        symbols: the `TreeSymbols`.

    Returns:
        A list, not empty.
    """
    leaves, parses = [escape(word) for word in sentence.words], []
    # Without the constraint, no output at all is possible too.
    for token_ids, score in outputs or [([], -np.inf)]:
        tree, repairs = repair(leaves, symbols.decode(token_ids), symbols.linearization)
        parses.append(Parse(_tagged(tree, sentence.tags), score, repairs))
    return parses


def consensus_parse(parses, log_probabilities):
    """The tree that `parses` agree on; its score is their agreement.

    Args:
        parses: list of `Parse`, not empty.
        log_probabilities: float array, of each.

    Returns:
        A `Parse`.
    """
    weights = np.exp(log_probabilities - log_probabilities.max())
    tree, agreement = consensus([parse.tree for parse in parses], weights.tolist())
    return parses[0]._replace(tree=tree, score=agreement)


def _tagged(tree, tags):
    """The tree with the tags that are known."""
    leaves = (node for step, node in walk(tree) if step == LEAF)
    for leaf, tag in zip(leaves, tags):
        if tag is not None:
            leaf.set_label(tag)
    return tree


def log_probabilities(outputs, search):
    """Return the log-probabilities of outputs: their scores without the length penalty.

    Args:
        outputs: list of pairs (ids, score), not empty.
        search: the `Search` that found them.

    Returns:
        Float array.
    """
    token_ids, scores = zip(*outputs)
    # A penalty of coverage stays in them: it is unknown here.
    lengths = ops.convert_to_tensor([np.count_nonzero(ids) for ids in token_ids], "int32")
    factors = search.penalized(ops.ones(len(token_ids)), lengths)
    return np.array(scores) / ops.convert_to_numpy(factors)
