"""The command `keras-transformer`: its subcommands, one module each.

The first words select a module, which is imported then. Modules of commands import Keras only in
`main`, after the options have been read, so that their help appears at once.
"""

import dataclasses
import difflib
import importlib
import sys
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple, Union

from keras_transformer.errors import UserError, ended_by_pipe
from keras_transformer.presets.location import task_of
from keras_transformer.version import __version__

PROGRAM = "keras-transformer"
_TASKS = ("translation", "parsing")


class _Command(NamedTuple):
    """A subcommand."""

    summary: str
    # Whether there is a module for each task. The task is the next word, or that of `--model`.
    has_tasks: bool = False
    module: str | None = None  # the module, if it is not named like the command


COMMANDS = {
    "translate": _Command("Translate lines, or the given sentences"),
    "parse": _Command("Parse lines into constituency trees"),
    "train": _Command("Train a model: train translation, train parsing", True),
    "score": _Command("Score given translations, line by line"),
    "evaluate": _Command("Score a model on a test set", True),
    "export": _Command("Write a model as a SavedModel, CTranslate2 or Marian", True),
    "explain": _Command("Draw attention, alignment and beam for a sentence", True),
    "convert": _Command("Write another library's model as a preset"),
    "list": _Command("List the available presets", module="list_presets"),
    "info": _Command("Describe a preset"),
    "serve": _Command("Serve a model over HTTP, with a page to type in"),
    "cache": _Command("List or clear converted models"),
    "completion": _Command("Print a completion script for bash or zsh"),
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command `keras-transformer`.

    Args:
        arguments: the words after the command. Defaults to the process's.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    first = words[0] if words else "--help"
    with ended_by_pipe():
        if first in ("--help", "-h"):
            print(_help())
            return
        if first == "--version":
            print(f"{PROGRAM} {__version__}")
            return
        if first == "completion":
            _print_completion(words[1:])
            return
    try:
        module, used = select(words)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    from keras_transformer.command_line import run

    run(module.main, module.Options, words[used:], " ".join([PROGRAM, *words[:used]]))


def _help() -> str:
    width = max(map(len, COMMANDS))
    rows = [f"  {name:<{width}}  {command.summary}" for name, command in COMMANDS.items()]
    return "\n".join(
        [
            f"usage: {PROGRAM} COMMAND [options]",
            "",
            'The Transformer of "Attention Is All You Need" for Keras 3.',
            "",
            *rows,
            "",
            f"{PROGRAM} COMMAND --help lists the options of a command. KERAS_BACKEND selects",
            "tensorflow (the default), jax or torch.",
        ]
    )


def select(words: Sequence[str]) -> tuple[Any, int]:
    """Return the module of a command.

    Args:
        words: the words after `keras-transformer`.

    Returns:
        The tuple of the module and the number of words that select it.

    Raises:
        UserError: if there is no such command.
    """
    name = words[0]
    if name not in COMMANDS:
        close = difflib.get_close_matches(name, COMMANDS)
        raise UserError(
            f"Unknown command {name!r}. Expected one of: {', '.join(COMMANDS)}."
            + (f" Did you mean {close[0]}?" if close else "")
        )
    command, used = COMMANDS[name], 1
    module = command.module or name
    if command.has_tasks:
        task = words[1] if len(words) > 1 and words[1] in _TASKS else None
        used += task is not None
        module = f"{name}_{task or _task_of_model(name, words)}"
    return importlib.import_module(f"{__name__}.{module}"), used


def _task_of_model(name: str, words: Sequence[str]) -> str:
    """Return the task of the model that the options name."""
    if name == "train":
        raise UserError(f"Expected `{PROGRAM} train translation` or `{PROGRAM} train parsing`.")
    model = _value_of("--model", words)
    is_parser = model is not None and task_of(model) == "ConstituencyParser"
    return _TASKS[is_parser]


def _value_of(option: str, words: Sequence[str]) -> str | None:
    for index, word in enumerate(words):
        if word == option:
            return next(iter(words[index + 1 :]), None)
        if word.startswith(f"{option}="):
            return word.partition("=")[2]
    return None


def _print_completion(words: Sequence[str]) -> None:
    """Print a script that completes commands and options in a shell."""
    if list(words) not in (["bash"], ["zsh"]):
        print(
            f"Expected a shell: {PROGRAM} completion bash, or zsh. For bash:\n"
            f'  eval "$({PROGRAM} completion bash)"',
            file=sys.stderr,
        )
        sys.exit(2)
    import tyro

    tyro.cli(
        _all_options(),
        prog=PROGRAM,
        args=["--tyro-print-completion", *words],
        config=(tyro.conf.OmitArgPrefixes, tyro.conf.OmitSubcommandPrefixes),
    )


def _all_options() -> Any:
    """Return the union of the options of all commands, which tyro reads as subcommands."""
    import tyro

    def options(module: str, name: str) -> Any:
        found = importlib.import_module(f"{__name__}.{module}").Options
        return Annotated[found, tyro.conf.subcommand(name)]

    kinds = []
    for name, command in COMMANDS.items():
        if command.has_tasks:
            tasks = [options(f"{name}_{task}", task) for task in _TASKS]
            group = dataclasses.make_dataclass(name.title(), [("task", Union[*tasks])])
            kinds.append(Annotated[group, tyro.conf.subcommand(name)])
        elif name != "completion":
            kinds.append(options(command.module or name, name))
    return Union[*kinds]
