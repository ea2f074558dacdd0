"""Scores a file of predicted trees against a gold file, and prints what the C program evalb prints.

Both files have one tree a line; an empty line is an empty tree.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from keras_transformer.errors import UserError, ended_by_pipe
from keras_transformer.parsing.evalb.evaluate import read_files, score_sentences
from keras_transformer.parsing.evalb.parameters import Parameters, named_parameters
from keras_transformer.parsing.evalb.scores import TABLE_HEAD, EvalbScores


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        parameters = _parameters(options)
        gold, predicted = read_files(options.gold, options.test, parameters)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if parameters.debug:
        print(f"DEBUG {parameters.debug}: there is no debugging output here.", file=sys.stderr)
    scores = score_sentences(gold, predicted, parameters)
    with ended_by_pipe():
        _print_scores(scores)
        sys.stdout.flush()
    return _warn_of_errors(scores, parameters.max_error)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m keras_transformer.parsing.evalb",
        description=__doc__,
        epilog="Exit status: 0; 1 if there were more errors than the C program allows (every "
        "sentence is scored all the same); 2 if the input is not as it should be.",
    )
    parser.add_argument("gold", metavar="GOLD", help="the file of gold trees")
    parser.add_argument("test", metavar="TEST", help="the file of predicted trees")
    parser.add_argument(
        "-p",
        dest="parameters",
        metavar="PRM",
        help="a parameter file, or the name of one that is shipped: "
        f"{', '.join(named_parameters())} (without it nothing is deleted)",
    )
    parser.add_argument(
        "-c", dest="cutoff_length", metavar="N", type=int, help="the cut-off length (40)"
    )
    parser.add_argument(
        "-e", dest="max_error", metavar="N", type=int, help="the number of errors allowed (10)"
    )
    return parser


def _parameters(options: argparse.Namespace) -> Parameters:
    """Those of the file, over which the options of the command line go."""
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
    """The exit status. The C program lets `max_error` errors and one more pass."""
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
