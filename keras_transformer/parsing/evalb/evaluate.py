"""EVALB's comparison of the brackets of two trees."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from keras_transformer.errors import UserError
from keras_transformer.parsing.evalb.parameters import Parameters, read_lines
from keras_transformer.parsing.evalb.scores import EvalbScores, SentenceScores, Status
from keras_transformer.parsing.evalb.sentence import Bracket, Sentence, read_sentence
from keras_transformer.progress import bar

if TYPE_CHECKING:
    from nltk import Tree

_SHOWN = 60  # characters of a tree in an error message
# The statuses of a constituent.
MATCHED, UNMATCHED, NOT_SCORED = "matched", "unmatched", "not scored"


def evaluate_trees(
    gold: "Iterable[Tree | str]",
    predicted: "Iterable[Tree | str]",
    parameters: Parameters | None = None,
) -> EvalbScores:
    """Score predicted trees with EVALB's figures.

    ```python
    evaluate_trees(gold, predicted, Parameters.named("COLLINS")).f1
    ```

    A predicted tree without words (such as an empty string) makes a skip sentence. Trees whose
    words differ make an error sentence; `sentence_scores` of the result gives the reason. Both are
    counted, but excluded from EVALB's figures; `strict_f1` counts them as wrong. The limits of the
    C program (200 words and 200 brackets per sentence, 20 quotes to put back, lines of 4,999 bytes)
    do not apply.

    Args:
        gold: `nltk.Tree`s or bracketed strings, with words and parts of speech.
        predicted: one tree per tree of `gold`. In a string `(NP )` is an empty word with the tag
            NP, as for the C program; an `nltk.Tree` without children is an empty bracket.
        parameters: a `Parameters`. Defaults to the C program's own defaults, which delete nothing,
            not even TOP and punctuation.

    Returns:
        An `EvalbScores`.

    Raises:
        UserError: if there is nothing to score, the numbers of trees differ, or brackets are not
            balanced.
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
    return score_sentences(
        _read_all(gold, parameters, lambda number: f"`gold[{number}]`"),
        _read_all(predicted, parameters, lambda number: f"`predicted[{number}]`"),
        parameters,
    )


def evaluate_files(
    gold_path: str | Path, predicted_path: str | Path, parameters: Parameters | None = None
) -> EvalbScores:
    """Score a file of predicted trees, one per line, as `evaluate_trees` does.

    An empty line is an empty tree.

    Args:
        gold_path: file of gold trees, one per line.
        predicted_path: file of predicted trees, in the same order.
        parameters: as for `evaluate_trees`.

    Returns:
        An `EvalbScores`.

    Raises:
        UserError: if a file cannot be read or is empty, if the numbers of lines differ (the C
            program then scores the lines that both files have), or if the brackets of a line are
            not balanced (the C program then counts an error, or stops).
    """
    parameters = parameters or Parameters()
    gold, predicted = read_files(gold_path, predicted_path, parameters)
    return score_sentences(gold, predicted, parameters)


class Differences(NamedTuple):
    """The differences between two trees of a sentence, as EVALB scores them.

    Attributes:
        gold: list with one string per constituent of the gold tree, in the order of the opening
            brackets: `"matched"`, `"unmatched"` (missing in the predicted tree) or `"not scored"`.
        predicted: the same for the predicted tree, where `"unmatched"` means wrong.
        message: EVALB's message if the words differ and nothing is scored; else empty.
    """

    gold: list[str]
    predicted: list[str]
    message: str = ""


def find_differences(
    gold: "Tree | str", predicted: "Tree | str", parameters: Parameters | None = None
) -> Differences:
    """Compare two trees of a sentence as `evaluate_trees` does.

    Args:
        gold: an `nltk.Tree` or a bracketed string.
        predicted: an `nltk.Tree` or a bracketed string.
        parameters: a `Parameters`. Defaults to the C program's own defaults.

    Returns:
        `Differences`.

    Raises:
        UserError: if brackets are not balanced.
    """
    parameters = parameters or Parameters()
    gold_sentence = read_sentence(gold, parameters)
    predicted_sentence = read_sentence(predicted, parameters)
    message = align(gold_sentence, predicted_sentence, parameters)
    gold_brackets = _scored_by_number(gold_sentence, parameters)
    predicted_brackets = _scored_by_number(predicted_sentence, parameters)
    pairs = []
    if not message:
        gold_list, predicted_list = list(gold_brackets.values()), list(predicted_brackets.values())
        pairs = matched_brackets(gold_list, predicted_list, parameters)
    return Differences(
        _statuses(gold_sentence, gold_brackets, [place for place, _ in pairs]),
        _statuses(predicted_sentence, predicted_brackets, [place for _, place in pairs]),
        message,
    )


def _scored_by_number(sentence: Sentence, parameters: Parameters) -> dict[int, Bracket]:
    """Return the brackets that are scored, by the numbers of their constituents."""
    found = (scored_bracket(bracket, parameters) for bracket in sentence.brackets)
    return {number: bracket for number, bracket in enumerate(found) if bracket is not None}


def _statuses(sentence: Sentence, scored: dict[int, Bracket], matched: Iterable[int]) -> list[str]:
    numbers = list(scored)
    statuses = [UNMATCHED if i in scored else NOT_SCORED for i in range(len(sentence.brackets))]
    for place in matched:
        statuses[numbers[place]] = MATCHED
    return statuses


def read_files(
    gold_path: str | Path, predicted_path: str | Path, parameters: Parameters
) -> tuple[list[Sentence], list[Sentence]]:
    """Return the gold sentences and the predicted sentences of two files."""
    gold, predicted = read_lines(gold_path), read_lines(predicted_path)
    for path, lines in ((gold_path, gold), (predicted_path, predicted)):
        if not lines:
            raise UserError(f"The file {path} is empty. Expected one tree per line.")
    if len(gold) != len(predicted):
        raise UserError(
            f"{gold_path} has {len(gold):,} lines and {predicted_path} has {len(predicted):,}. "
            "Expected one tree per line and the same sentences in both files. A sentence without a "
            "parse is an empty line."
        )
    return (
        _read_all(gold, parameters, lambda number: f"{gold_path}, line {number + 1}"),
        _read_all(predicted, parameters, lambda number: f"{predicted_path}, line {number + 1}"),
    )


def score_sentences(
    gold: Iterable[Sentence], predicted: Iterable[Sentence], parameters: Parameters
) -> EvalbScores:
    """Score predicted sentences against gold sentences, in the same order."""
    return EvalbScores.of(
        [_score(*pair, parameters) for pair in zip(gold, predicted)], parameters.cutoff_length
    )


def _read_all(
    trees: "Sequence[Tree | str]", parameters: Parameters, where: Callable[[int], str]
) -> list[Sentence]:
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


def _unscored(
    gold: Sentence, predicted: Sentence, parameters: Parameters, status: Status, message: str = ""
) -> SentenceScores:
    return SentenceScores(
        gold.length,
        status,
        message,
        gold_brackets=len(_scored_brackets(gold.brackets, parameters)),
        predicted_brackets=len(_scored_brackets(predicted.brackets, parameters)),
    )


def align(gold: Sentence, predicted: Sentence, parameters: Parameters) -> str:
    """Put quotes back where this helps; return EVALB's message if the words still differ, else an
    empty string.
    """
    if len(gold.words) != len(predicted.words):
        _put_quotes_back(gold, predicted, parameters)
    return _difference(gold.words, predicted.words, parameters)


def _put_quotes_back(gold: Sentence, predicted: Sentence, parameters: Parameters) -> None:
    """Put a quote back if its tag was deleted and the tag of the other tree's quote was not.

    `'` may be tagged '' in one tree, which is deleted, and POS in the other, which is not.
    """
    deleted = parameters.delete_labels
    for number, quote in enumerate(predicted.quotes):
        # The position as it was: putting this quote back moves it, and EVALB does not look again.
        position = quote.position
        for gold_number, gold_quote in enumerate(gold.quotes):
            if gold_quote.position != position:
                continue
            if gold_quote.tag in deleted and quote.tag not in deleted:
                gold.put_back(gold_number)
            elif quote.tag in deleted and gold_quote.tag not in deleted:
                predicted.put_back(number)


def _difference(gold: Sequence[str], predicted: Sequence[str], parameters: Parameters) -> str:
    """Return the C program's message for words that differ; an empty string if they agree."""
    if len(gold) != len(predicted):
        return f"Length unmatch ({len(gold)}|{len(predicted)})"
    for word, other in zip(gold, predicted):
        if not parameters.same_word(word, other):
            return f"Words unmatch ({word}|{other})"
    return ""


def _scored_brackets(brackets: Iterable[Bracket], parameters: Parameters) -> list[Bracket]:
    scored = (scored_bracket(bracket, parameters) for bracket in brackets)
    return [bracket for bracket in scored if bracket is not None]


def scored_bracket(bracket: Bracket, parameters: Parameters) -> Bracket | None:
    """Return a bracket with its bare label (NP for NP-SBJ-1, VP for VP=2), or None if it has no
    words or its label is deleted.
    """
    if bracket.start == bracket.end:
        return None
    label = bracket.label.partition("-")[0].partition("=")[0]
    return None if parameters.deletes_bracket(label) else Bracket(label, bracket.start, bracket.end)


def matched_brackets(
    gold: Sequence[Bracket], predicted: Sequence[Bracket], parameters: Parameters
) -> list[tuple[int, int]]:
    """Match each gold bracket to the first equal predicted bracket that is not matched yet.

    Returns:
        The pairs of their indices in the two lists.
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


def _count_crossing(gold: Iterable[Bracket], predicted: Iterable[Bracket]) -> int:
    """Count the predicted brackets that overlap a gold bracket without nesting."""
    spans = {(bracket.start, bracket.end) for bracket in gold}
    return sum(
        any(
            start < bracket.start < end < bracket.end or bracket.start < start < bracket.end < end
            for start, end in spans
        )
        for bracket in predicted
    )
