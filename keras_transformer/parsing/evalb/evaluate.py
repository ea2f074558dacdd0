"""Brackets of one tree set against those of another, as EVALB does it."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from keras_transformer.errors import UserError
from keras_transformer.parsing.evalb.parameters import Parameters, read_lines
from keras_transformer.parsing.evalb.scores import EvalbScores, SentenceScores, Status
from keras_transformer.parsing.evalb.sentence import Bracket, Sentence, read_sentence
from keras_transformer.progress import bar

# What a constituent is to EVALB.
MATCHED, UNMATCHED, NOT_SCORED = "matched", "unmatched", "not scored"


_SHOWN = 60  # characters of a tree in an error message


def evaluate_trees(
    gold: Sequence[Any], predicted: Sequence[Any], parameters: Parameters | None = None
) -> EvalbScores:
    """Scores predicted trees with EVALB's figures.

    ```python
    evaluate_trees(gold, predicted, Parameters.named("COLLINS")).f1
    ```

    A tree that is predicted without words (an empty string, say) is a skip sentence. Trees whose
    words differ are an error sentence; `sentence_scores` of the result says why. Both are counted,
    and left out of EVALB's figures; `strict_f1` counts them as wrong. The C program's limits (200
    words and 200 brackets a sentence, 20 quotes that may be put back, lines of 4,999 bytes) do not
    hold here.

    Args:
        gold: `nltk.Tree`s or bracketed strings, with words and parts of speech.
        predicted: one for each of `gold`. In a string `(NP )` is an empty word with the tag NP, as
            for the C program; an `nltk.Tree` without children is a bracket around nothing.
        parameters: a `Parameters`; by default the C program's own defaults, which delete nothing,
            not even TOP and punctuation.

    Returns:
        An `EvalbScores`.

    Raises:
        UserError: if there is nothing to score, if the numbers of trees differ, or if brackets do
            not pair.
    """
    gold, predicted = list(gold), list(predicted)
    if not gold:
        raise UserError("`gold` must hold at least one tree. Received: gold=[]")
    if len(gold) != len(predicted):
        raise UserError(
            "`predicted` must hold one tree for each gold tree. "
            f"Received: {len(gold):,} gold and {len(predicted):,} predicted trees"
        )
    parameters = parameters or Parameters()
    sentences = (
        _read_all(trees, parameters, lambda number, name=name: f"`{name}[{number}]`")
        for name, trees in (("gold", gold), ("predicted", predicted))
    )
    return score_sentences(*sentences, parameters)


def evaluate_files(
    gold_path: str | Path, predicted_path: str | Path, parameters: Parameters | None = None
) -> EvalbScores:
    """Scores a file of predicted trees, one a line, as `evaluate_trees` does.

    An empty line is an empty tree.

    Args:
        gold_path: file of gold trees, one a line.
        predicted_path: file of predicted trees, line N for line N.
        parameters: as for `evaluate_trees`.

    Returns:
        An `EvalbScores`.

    Raises:
        UserError: if a file cannot be read or is empty, if the numbers of lines differ (the C
            program then scores the lines that both have), or if the brackets of a line do not pair
            (it then counts an error, or stops).
    """
    parameters = parameters or Parameters()
    return score_sentences(*read_files(gold_path, predicted_path, parameters), parameters)


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
    scored = [_scored_by_number(sentence, parameters) for sentence in sentences]
    pairs = []
    if not message:
        pairs = matched_brackets(*(list(brackets.values()) for brackets in scored), parameters)
    matched = ([gold for gold, _ in pairs], [predicted for _, predicted in pairs])
    return Differences(*map(_statuses, sentences, scored, matched), message)


def _scored_by_number(sentence: Sentence, parameters: Parameters) -> dict:
    """Number of a constituent -> its bracket as it is scored, where it is."""
    found = (scored_bracket(bracket, parameters) for bracket in sentence.brackets)
    return {number: bracket for number, bracket in enumerate(found) if bracket is not None}


def _statuses(sentence: Sentence, scored: dict, matched) -> list[str]:
    numbers = list(scored)
    statuses = [UNMATCHED if i in scored else NOT_SCORED for i in range(len(sentence.brackets))]
    for place in matched:
        statuses[numbers[place]] = MATCHED
    return statuses


def read_files(
    gold_path: str | Path, predicted_path: str | Path, parameters: Parameters
) -> list[list[Sentence]]:
    """The gold sentences and the predicted ones."""
    paths = (gold_path, predicted_path)
    lines = [read_lines(path) for path in paths]
    for path, found in zip(paths, lines):
        if not found:
            raise UserError(f"The file {path} is empty. Expected one tree a line.")
    if len(lines[0]) != len(lines[1]):
        raise UserError(
            f"{gold_path} has {len(lines[0]):,} lines and {predicted_path} has {len(lines[1]):,}. "
            "Expected one tree a line, the same sentences in both; a sentence without a parse is "
            "an empty line."
        )
    return [
        _read_all(found, parameters, lambda number, path=path: f"{path}, line {number + 1}")
        for path, found in zip(paths, lines)
    ]


def score_sentences(
    gold: Iterable[Sentence], predicted: Iterable[Sentence], parameters: Parameters
) -> EvalbScores:
    return EvalbScores.of(
        [_score(*pair, parameters) for pair in zip(gold, predicted)], parameters.cutoff_length
    )


def _read_all(trees, parameters, where) -> list[Sentence]:
    sentences = []
    for number, tree in enumerate(bar("reading", "trees", iterable=trees)):
        try:
            sentences.append(read_sentence(tree, parameters))
        except ValueError as error:
            shown = f" Received: {tree[:_SHOWN]!r}" if isinstance(tree, str) else ""
            raise UserError(f"{where(number)}: {error}{shown}") from None
    return sentences


def _score(gold: Sentence, predicted: Sentence, parameters: Parameters) -> SentenceScores:
    if not predicted.words:
        return _unscored(gold, predicted, parameters, Status.SKIP)
    message = align(gold, predicted, parameters)
    if message:
        return _unscored(gold, predicted, parameters, Status.ERROR, message)

    gold_brackets = _scored_brackets(gold.brackets, parameters)
    predicted_brackets = _scored_brackets(predicted.brackets, parameters)
    return SentenceScores(
        gold.length,
        matched=len(matched_brackets(gold_brackets, predicted_brackets, parameters)),
        gold_brackets=len(gold_brackets),
        predicted_brackets=len(predicted_brackets),
        crossing=_count_crossing(gold_brackets, predicted_brackets),
        words=len(gold.words),
        correct_tags=sum(map(parameters.same_label, gold.tags, predicted.tags)),
    )


def _unscored(gold, predicted, parameters, status, message="") -> SentenceScores:
    return SentenceScores(
        gold.length,
        status,
        message,
        gold_brackets=len(_scored_brackets(gold.brackets, parameters)),
        predicted_brackets=len(_scored_brackets(predicted.brackets, parameters)),
    )


def align(gold: Sentence, predicted: Sentence, parameters: Parameters) -> str:
    """Puts quotes back where that helps; returns what EVALB says of words that are not the same,
    nothing if they are.
    """
    if len(gold.words) != len(predicted.words):
        _put_quotes_back(gold, predicted, parameters)
    return _difference(gold.words, predicted.words, parameters)


def _put_quotes_back(gold: Sentence, predicted: Sentence, parameters: Parameters) -> None:
    """Where one of two quotes at a place was deleted for its tag and the other was not.

    `'` may be tagged '' in one tree, which is deleted, and POS in the other, which is not.
    """
    deleted = parameters.delete_labels
    for number, quote in enumerate(predicted.quotes):
        # The place as it was: putting this quote back moves it, and EVALB does not look again.
        position = quote.position
        for gold_number, gold_quote in enumerate(gold.quotes):
            if gold_quote.position != position:
                continue
            if gold_quote.tag in deleted and quote.tag not in deleted:
                gold.put_back(gold_number)
            elif quote.tag in deleted and gold_quote.tag not in deleted:
                predicted.put_back(number)


def _difference(gold: list[str], predicted: list[str], parameters: Parameters) -> str:
    """What the C program says of words that are not the same; nothing if they are."""
    if len(gold) != len(predicted):
        return f"Length unmatch ({len(gold)}|{len(predicted)})"
    for word, other in zip(gold, predicted):
        if not parameters.same_word(word, other):
            return f"Words unmatch ({word}|{other})"
    return ""


def _scored_brackets(brackets: list[Bracket], parameters: Parameters) -> list[Bracket]:
    scored = (scored_bracket(bracket, parameters) for bracket in brackets)
    return [bracket for bracket in scored if bracket is not None]


def scored_bracket(bracket: Bracket, parameters: Parameters) -> Bracket | None:
    """One with words in it and a label that counts: NP of NP-SBJ-1, VP of VP=2."""
    if bracket.start == bracket.end:
        return None
    label = bracket.label.partition("-")[0].partition("=")[0]
    return None if parameters.deletes_bracket(label) else Bracket(label, bracket.start, bracket.end)


def matched_brackets(
    gold: list[Bracket], predicted: list[Bracket], parameters: Parameters
) -> list[tuple[int, int]]:
    """Each gold bracket takes the first predicted one that fits and is not yet taken: the pairs of
    their places in the lists.
    """
    places = defaultdict(list)
    for place, bracket in enumerate(predicted):
        places[bracket.start, bracket.end].append(place)
    pairs = []
    for gold_place, bracket in enumerate(gold):
        left = places[bracket.start, bracket.end]
        for index, place in enumerate(left):
            if not parameters.labeled or parameters.same_label(
                bracket.label, predicted[place].label
            ):
                pairs.append((gold_place, place))
                del left[index]
                break
    return pairs


def _count_crossing(gold: list[Bracket], predicted: list[Bracket]) -> int:
    """The predicted brackets that overlap a gold bracket, where neither holds the other."""
    spans = {(bracket.start, bracket.end) for bracket in gold}
    return sum(
        any(
            start < bracket.start < end < bracket.end or bracket.start < start < bracket.end < end
            for start, end in spans
        )
        for bracket in predicted
    )
