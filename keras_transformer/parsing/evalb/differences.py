"""Which brackets of a tree EVALB counts as right, bracket by bracket."""

from typing import Any, NamedTuple

from keras_transformer.parsing.evalb.evaluate import (
    align,
    matched_brackets,
    scored_bracket,
)
from keras_transformer.parsing.evalb.parameters import Parameters
from keras_transformer.parsing.evalb.sentence import Sentence, read_sentence

# What a constituent is to EVALB.
MATCHED, UNMATCHED, NOT_SCORED = "matched", "unmatched", "not scored"


class Differences(NamedTuple):
    """What EVALB makes of two trees of a sentence.

    Attributes:
        gold: list of `"matched"`, `"unmatched"` (so it is missing in the other tree) and `"not
            scored"`: of each constituent of the gold tree, in the order of their opening brackets.
        predicted: the same of the predicted tree, where `"unmatched"` is wrong.
        message: what EVALB says where the words differ, so that nothing is scored; else empty.
    """

    gold: list[str]
    predicted: list[str]
    message: str = ""


def find_differences(
    gold: Any, predicted: Any, parameters: Parameters | None = None
) -> Differences:
    """Compares two trees of a sentence as `evaluate_trees` does.

    Args:
        gold: an `nltk.Tree` or a bracketed string.
        predicted: likewise.
        parameters: a `Parameters`; by default the C program's own defaults.

    Returns:
        `Differences`.

    Raises:
        UserError: if brackets do not pair.
    """
    parameters = parameters or Parameters()
    sentences = [read_sentence(tree, parameters) for tree in (gold, predicted)]
    message = align(*sentences, parameters)
    scored = [_scored(sentence, parameters) for sentence in sentences]
    pairs = []
    if not message:
        pairs = matched_brackets(*(list(brackets.values()) for brackets in scored), parameters)
    matched = ([gold for gold, _ in pairs], [predicted for _, predicted in pairs])
    return Differences(*map(_statuses, sentences, scored, matched), message)


def _scored(sentence: Sentence, parameters: Parameters) -> dict:
    """Number of a constituent -> its bracket as it is scored, where it is."""
    found = (scored_bracket(bracket, parameters) for bracket in sentence.brackets)
    return {number: bracket for number, bracket in enumerate(found) if bracket is not None}


def _statuses(sentence: Sentence, scored: dict, matched) -> list[str]:
    numbers = list(scored)
    statuses = [UNMATCHED if i in scored else NOT_SCORED for i in range(len(sentence.brackets))]
    for place in matched:
        statuses[numbers[place]] = MATCHED
    return statuses
