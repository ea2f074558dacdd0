"""The Transformer of "Attention Is All You Need" for Keras 3.

`keras-transformer COMMAND --help` lists the options of a command. The environment variable
KERAS_BACKEND selects tensorflow (the default), jax or torch.
"""

import dataclasses
import difflib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Union

from keras_transformer.command_line import run
from keras_transformer.commands import (
    convert,
    evaluate,
    explain,
    export,
    list_presets,
    parse,
    serve,
    train,
    translate,
)
from keras_transformer.errors import UserError, ended_by_pipe
from keras_transformer.presets.location import read_task_name
from keras_transformer.version import __version__

PROGRAM = "keras-transformer"
# A command is a function with one argument, the options. The task of a command with a task is the
# next word, or that of `--model`.
COMMANDS: dict[str, Any] = {
    "translate": translate.translate,
    "parse": parse.parse,
    "train": {"translation": train.train_translation, "parsing": train.train_parsing},
    "score": evaluate.score_lines,
    "evaluate": {
        "translation": evaluate.evaluate_translation,
        "parsing": evaluate.evaluate_parsing,
    },
    "export": {"translation": export.export_translation, "parsing": export.export_parsing},
    "explain": {"translation": explain.explain_translation, "parsing": explain.explain_parsing},
    "convert": convert.convert,
    "list": list_presets.list_presets,
    "info": list_presets.describe_preset,
    "serve": serve.serve,
    "cache": list_presets.manage_cache,
}


@ended_by_pipe()
def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command `keras-transformer`.

    Args:
        arguments: the words after the command. Defaults to the process's.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words == ["--version"]:
        print(f"{PROGRAM} {__version__}")
        return
    try:
        command, used = select(words)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    if command is None:
        _print_help(words)
    else:
        run(command, _options_class(command), words[used:], " ".join([PROGRAM, *words[:used]]))


def select(words: Sequence[str]) -> tuple[Callable[[Any], None] | None, int]:
    """Return the function of a command.

    Args:
        words: the words after `keras-transformer`.

    Returns:
        The tuple of the function and the number of words that select it. The function is None if
        the words ask for the help of several commands, or for a completion script.

    Raises:
        UserError: if there is no such command.
    """
    table, used = COMMANDS, 0
    while isinstance(table, dict):
        word = words[used] if used < len(words) else "--help"
        if word in table:
            table, used = table[word], used + 1
        elif word in ("-h", "--help") or word.startswith("--tyro-"):
            return None, used
        elif used and words[0] != "train":
            table = table[_task_of_model(words)]
        else:
            near = difflib.get_close_matches(word, table, n=1)
            raise UserError(
                f"Unknown command: {' '.join([PROGRAM, *words[:used], word])}. Expected "
                f"{', '.join(table)}." + (f" Did you mean {near[0]}?" if near else "")
            )
    return table, used


def _task_of_model(words: Sequence[str]) -> str:
    """Return the task of the model that the option `--model` names."""
    for word, following in zip(words, [*words[1:], ""]):
        option, is_joined, value = word.partition("=")
        if option == "--model":
            is_parser = read_task_name(value if is_joined else following) == "ConstituencyParser"
            return "parsing" if is_parser else "translation"
    return "translation"


def _options_class(command: Callable[[Any], None]) -> type:
    return command.__annotations__["options"]


def _print_help(words: Sequence[str]) -> None:
    """Print the help of several commands, or a completion script."""
    import tyro

    tyro.cli(
        _subcommands(COMMANDS),
        prog=PROGRAM,
        description=__doc__,
        args=words or ["--help"],
        config=(tyro.conf.OmitArgPrefixes, tyro.conf.OmitSubcommandPrefixes),
    )


def _subcommands(commands: Mapping[str, Any]) -> Any:
    """Return the union of the options of commands, which tyro reads as subcommands."""
    import tyro

    kinds = []
    for name, command in commands.items():
        if isinstance(command, dict):
            kind = dataclasses.make_dataclass(name, [("task", _subcommands(command))])
            description = f"{name.capitalize()} a model for {' or '.join(command)}."
        else:
            kind = _options_class(command)
            description = (command.__doc__ or "").partition("\n")[0]
        kinds.append(Annotated[kind, tyro.conf.subcommand(name, description=description)])
    return Union[*kinds]
