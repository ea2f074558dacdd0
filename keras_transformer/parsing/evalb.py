"""EVALB's scores of constituency trees, computed as Sekine and Collins's C program does.

`evaluate_trees` and `evaluate_files` score in Python. The command
`python -m keras_transformer.parsing.evalb` prints the same output as the C program.
"""

import argparse
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from keras_transformer.errors import UserError, ended_by_pipe
from keras_transformer.parsing.evalb_inputs import (
    Bracket,
    Parameters,
    Sentence,
    named_parameters,
    read_lines,
    read_sentence,
)
from keras_transformer.parsing.evalb_scores import TABLE_HEAD, EvalbScores, SentenceScores, Status
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
    gold_brackets = _scored_brackets(gold_sentence, parameters)
    predicted_brackets = _scored_brackets(predicted_sentence, parameters)
    pairs = []
    if not message:
        pairs = _matched_brackets(gold_brackets, predicted_brackets, parameters)
    return Differences(
        _statuses(gold_sentence, gold_brackets, [number for number, _ in pairs]),
        _statuses(predicted_sentence, predicted_brackets, [number for _, number in pairs]),
        message,
    )


def _statuses(sentence: Sentence, scored: Iterable[int], matched: Iterable[int]) -> list[str]:
    statuses = [NOT_SCORED] * len(sentence.brackets)
    for status, numbers in ((UNMATCHED, scored), (MATCHED, matched)):
        for number in numbers:
            statuses[number] = status
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
    return EvalbScores.from_sentences(
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

    gold_brackets = _scored_brackets(gold, parameters)
    predicted_brackets = _scored_brackets(predicted, parameters)
    return SentenceScores(
        gold.length,
        matched=len(_matched_brackets(gold_brackets, predicted_brackets, parameters)),
        gold_brackets=len(gold_brackets),
        predicted_brackets=len(predicted_brackets),
        crossing=_count_crossing(gold_brackets.values(), predicted_brackets.values()),
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
        gold_brackets=len(_scored_brackets(gold, parameters)),
        predicted_brackets=len(_scored_brackets(predicted, parameters)),
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


def _scored_brackets(sentence: Sentence, parameters: Parameters) -> dict[int, Bracket]:
    """Return the brackets that are scored, by the numbers of their constituents, with their bare
    labels (NP for NP-SBJ-1, VP for VP=2): brackets with words whose label is not deleted.
    """
    scored = {}
    for number, bracket in enumerate(sentence.brackets):
        label = bracket.label.partition("-")[0].partition("=")[0]
        if bracket.start != bracket.end and not parameters.deletes_bracket(label):
            scored[number] = Bracket(label, bracket.start, bracket.end)
    return scored


def _matched_brackets(
    gold: Mapping[int, Bracket], predicted: Mapping[int, Bracket], parameters: Parameters
) -> list[tuple[int, int]]:
    """Match each gold bracket to the first equal predicted bracket that is not matched yet.

    Returns:
        The pairs of their numbers.
    """
    by_span = defaultdict(list)
    for number, bracket in predicted.items():
        by_span[bracket.start, bracket.end].append(number)
    pairs = []
    for gold_number, bracket in gold.items():
        left = by_span[bracket.start, bracket.end]
        for index, number in enumerate(left):
            if not parameters.labeled or parameters.same_label(
                bracket.label, predicted[number].label
            ):
                pairs.append((gold_number, number))
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


# The command


def main(arguments: Sequence[str] | None = None) -> int:
    """Score a file of predicted trees against a gold file, and print the output of the C program.

    Both files have one tree per line; an empty line is an empty tree.

    Args:
        arguments: the command's arguments. Defaults to those of the process.

    Returns:
        The exit status.
    """
    options = _parser().parse_args(arguments)
    try:
        parameters = _parameters(options)
        gold, predicted = read_files(options.gold, options.test, parameters)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    scores = score_sentences(gold, predicted, parameters)
    with ended_by_pipe():
        _print_scores(scores)
        sys.stdout.flush()
    return _warn_of_errors(scores, parameters.max_error)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m keras_transformer.parsing.evalb",
        description="Score a file of predicted trees against a gold file, and print the output "
        "of the C program. Both files have one tree per line; an empty line is an empty tree.",
        epilog="Exit status: 0; 1 if there were more errors than the C program allows (all "
        "sentences are still scored); 2 if the input is not valid.",
    )
    parser.add_argument("gold", metavar="GOLD", help="the file of gold trees")
    parser.add_argument("test", metavar="TEST", help="the file of predicted trees")
    parser.add_argument(
        "-p",
        dest="parameters",
        metavar="PRM",
        help="a parameter file, or the name of one that is included: "
        f"{', '.join(named_parameters())} (default: nothing is deleted)",
    )
    parser.add_argument(
        "-c", dest="cutoff_length", metavar="N", type=int, help="the cut-off length (40)"
    )
    parser.add_argument(
        "-e", dest="max_error", metavar="N", type=int, help="the number of errors allowed (10)"
    )
    return parser


def _parameters(options: argparse.Namespace) -> Parameters:
    """Return the parameters of the file, overridden by the options of the command line."""
    name = options.parameters
    if name is None:
        parameters = Parameters()
    elif name in named_parameters() and not Path(name).is_file():
        parameters = Parameters.named(name)
    else:
        parameters = Parameters.from_file(name)
    chosen = {field: getattr(options, field) for field in ("cutoff_length", "max_error")}
    return replace(parameters, **{k: value for k, value in chosen.items() if value is not None})


def _print_scores(scores: EvalbScores) -> None:
    print(TABLE_HEAD)
    for number, sentence in enumerate(scores.sentence_scores, start=1):
        if sentence.message:
            print(f"{number} : {sentence.message}", file=sys.stderr)
        print(sentence.table_row(number))
    print(scores.table_foot())
    print(scores)


def _warn_of_errors(scores: EvalbScores, max_error: int) -> int:
    """Return the exit status. The C program allows `max_error` errors and one more."""
    if scores.errors <= max_error + 1:
        return 0
    rows = enumerate(scores.sentence_scores, start=1)
    stop = [number for number, row in rows if row.message][max(max_error + 1, 0)]
    print(
        f"{scores.errors:,} error sentences with MAX_ERROR {max_error}: the C program stops at "
        f"sentence {stop:,}, without a summary. Here all sentences were scored.",
        file=sys.stderr,
    )
    return 1


if __name__ == "__main__":
    sys.exit(main())
