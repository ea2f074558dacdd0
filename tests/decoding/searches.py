"""Searches of every kind over the same sentences, for tests that run each in two ways."""

import functools

import numpy as np

from keras_transformer import constraints
from keras_transformer.models.transformer import Transformer
from keras_transformer.parsing.tree_grammar import TreeGrammar
from tests.decoding.search_functions import beam_search, sample
from tests.decoding.sentences import EXTRA_LENGTH, SOURCE
from tests.helpers import randomize

# Five rows are no two or three equal parts.
ROWS = SOURCE[:5]
_FREE = {"extra_length": EXTRA_LENGTH}
SEARCHES = {
    "beam": (beam_search, {"num_results": 3, "coverage_penalty": 0.2, **_FREE}),
    "prefix": (
        beam_search,
        {"prefix_token_ids": np.array([[5, 6], [4, 0], [0, 0], [7, 0], [3, 3]]), **_FREE},
    ),
    "constraints": (
        beam_search,
        {
            "constraints": (
                constraints.NoRepeatedNgrams(2),
                constraints.RepetitionPenalty(1.3),
                constraints.RepetitionPenalty(1.3, applies_to="log_probs"),
                constraints.NoUnknownToken(),
                constraints.BannedTokens((5,)),
                constraints.MinLength(2),
            ),
            **_FREE,
        },
    ),
    "sample": (sample, {"num_results": 2, "seed": 3, **_FREE}),
    "grammar": (
        beam_search,
        {
            "constraints": (
                TreeGrammar((4, 5), (6, 7), (8, 9, 10), leaf_sets=((8,), (9, 10))).over(
                    np.array([5, 1, 0, 3, 4]), np.arange(25).reshape(5, 5) % 2
                ),
            ),
            "extra_length": 30,
        },
    ),
}


@functools.cache
def shared_model():
    """A `Transformer` with random weights."""
    model = Transformer(12, num_layers=1, hidden_dim=8, intermediate_dim=16, num_heads=2)
    return randomize(model, seed=10)
