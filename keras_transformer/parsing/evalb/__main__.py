"""Score a file of predicted trees against a gold file, and print the output of the C program.

Both files have one tree per line; an empty line is an empty tree.
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
    """Run the command and return its exit status."""
    options = _parser().parse_args(arguments)
    try:
        parameters = _parameters(options)
        gold, predicted = read_files(options.gold, options.test, parameters)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if parameters.debug:
        print(
            f"DEBUG {parameters.debug} has no effect: debugging output is not supported.",
            file=sys.stderr,
        )
    scores = score_sentences(gold, predicted, parameters)
    with ended_by_pipe():
        _print_scores(scores)
        sys.stdout.flush()
    return _warn_of_errors(scores, parameters.max_error)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m keras_transformer.parsing.evalb",
        description=__doc__,
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
