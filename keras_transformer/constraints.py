"""Constraints on the outputs of a search, which combine: `BeamSearch(constraints=(...,))`.

- `MinLength`, `MaxLength`: the fewest and the most tokens of an output.
- `BannedTokens`, `NoUnknownToken`: tokens that no output may hold.
- `NoRepeatedNgrams`, `RepetitionPenalty`: against outputs that go round in circles.
- `FirstToken`, `ForcedPrefix`: what outputs begin with, all alike or each its own.
- `Constraint`: what to derive others from.

Probabilities stay the model's own, except under a `RepetitionPenalty`: what is forbidden keeps its
share.
"""

from keras_transformer.decoding.constraint import Constraint
from keras_transformer.decoding.constraints import (
    BannedTokens,
    FirstToken,
    ForcedPrefix,
    MaxLength,
    MinLength,
    NoRepeatedNgrams,
    NoUnknownToken,
    RepetitionPenalty,
)

__all__ = [
    "BannedTokens",
    "Constraint",
    "FirstToken",
    "ForcedPrefix",
    "MaxLength",
    "MinLength",
    "NoRepeatedNgrams",
    "NoUnknownToken",
    "RepetitionPenalty",
]
