"""The common parts of all commands: options, one-line messages, and memory settings."""

import contextlib
import ctypes
import difflib
import errno
import io
import itertools
import logging
import os
import platform
import re
import shlex
import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keras_transformer.compilation_cache import keep_compiled_programs
from keras_transformer.errors import INTERRUPT_STATUS, TrainingStopped, UserError, ended_by_pipe
from keras_transformer.option_fields import all_fields, mutable_on_resume
from keras_transformer.progress import progress_shown

_COMMAND = "keras-transformer"
_NUMBERS_TOLD = 5

# System errors that are caused by the given paths, and by the disks they are on.
_OF_PATHS = (
    *(errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG),
    *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO),
)


@dataclass(kw_only=True)
class ProgressOptions:
    """Options of every command that takes longer than a moment."""

    quiet: bool = mutable_on_resume(False)
    """Show no progress, and print only results, warnings and errors. (If standard error is not a
    terminal, progress is logged once a minute.)"""


@dataclass(kw_only=True)
class CommonOptions(ProgressOptions):
    """Options of every command that trains or searches."""

    compilation_cache: Path | None = mutable_on_resume(None)
    """Folder that keeps compiled programs for the next run: all programs on JAX, XLA's programs on
    TensorFlow; "off" for none. Defaults on JAX to keras-transformer/programs in the user's cache.
    """


@dataclass(kw_only=True)
class StreamOptions(CommonOptions):
    """Options of every command that answers lines."""

    max_source_length: int | None = 1024
    """The most tokens of a line, including its end token; None for no limit but the model's."""
    buffer_size: int | None = None
    """The most lines that are read in advance, sorted by length and searched together. Defaults to
    1 on a terminal, otherwise to 4096. A line never waits for a line that has not been written."""


class LineNotes:
    """Remarks about input lines, printed on standard error at the end of a `with` block.

    Each remark takes one line, with the number of input lines and the first few line numbers.
    """

    def __init__(self) -> None:
        self._counts = Counter()
        self._first_numbers = defaultdict(list)
        self._last_numbers = {}

    def add(self, remark: str, number: int) -> None:
        """Add a remark about a line. Repeated remarks about one line count once."""
        if number == self._last_numbers.get(remark):
            return
        self._last_numbers[remark] = number
        self._counts[remark] += 1
        if len(self._first_numbers[remark]) < _NUMBERS_TOLD:
            self._first_numbers[remark].append(str(number))

    def __enter__(self) -> "LineNotes":
        return self

    def __exit__(self, *_: object) -> None:
        for remark, count in self._counts.items():
            numbers = ", ".join(self._first_numbers[remark])
            more = ", ..." if count > _NUMBERS_TOLD else ""
            lines = "1 line" if count == 1 else f"{count:,} lines"
            print(f"{remark}: {lines} ({numbers}{more})", file=sys.stderr)


@ended_by_pipe()
def run(
    main: Callable[[Any], object],
    options_class: type,
    arguments: Sequence[str] | None = None,
    prog: str | None = None,
) -> None:
    """Parse the command line into a dataclass, and call `main` with the options.

    An argument `@FILE` is replaced by the options in a file, where `#` begins a comment. If an
    option is given twice, the last value counts.

    A `UserError` is printed in one line, and the exit status is 2. System errors that a path or a
    full disk causes are treated in the same way. If the reader of standard output has closed it,
    the command ends silently with status 141. After Ctrl-C the status is 130. Any other error is a
    defect and keeps its traceback.

    Standard output and standard error are UTF-8 in every locale. Log messages of the package are
    printed: warnings on standard error, others on standard output, or also on standard error if
    standard output is for answers (`StreamOptions`). If an error or a warning names an argument
    that is an option, its flag is printed.

    Args:
        main: function with one argument, the options.
        options_class: a dataclass; a `CommonOptions` if the command trains or searches. Its fields
            are the options, and their docstrings are the help. Fields of a nested dataclass are
            options like the others.
        arguments: the words of the command line after the command. Defaults to the process's.
        prog: the command, for its help. Defaults to the script's name.
    """
    import tyro

    keep_freed_memory()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # not a notebook's
            stream.reconfigure(encoding="utf-8", errors=stream.errors)
    names = flags_of(options_class)
    try:
        words = sys.argv[1:] if arguments is None else arguments
        words = list(itertools.chain.from_iterable(map(_expand, words)))
        _validate_words(words, names)
        options = tyro.cli(
            options_class,
            prog=prog,
            description=main.__doc__ or sys.modules[main.__module__].__doc__,
            args=words,
            config=(tyro.conf.OmitArgPrefixes,),
        )
        if getattr(options, "compilation_cache", None):
            keep_compiled_programs(options.compilation_cache)
        quiet = getattr(options, "quiet", False)
        answers = issubclass(options_class, StreamOptions)
        with _printed_log(names, answers, quiet), _printed_warnings(names):
            main(options)
    except (UserError, OSError) as error:
        if not isinstance(error, UserError) and error.errno not in _OF_PATHS:
            raise
        print(f"error: {name_flags(_message(error), names)}", file=sys.stderr)
        # Python sets it for each error that it prints: see `training.processes`.
        sys.last_value = error if isinstance(error, UserError) else UserError(error)
        sys.exit(2)
    except KeyboardInterrupt as error:
        sys.last_value = error
        sys.exit(INTERRUPT_STATUS)
    except TrainingStopped:
        print(f"Resume with: {resume_command()}", file=sys.stderr)
        raise


# Parameters of mallopt(3).
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_MAX, _M_ARENA_MAX = -1, -2, -4, -8


def keep_freed_memory() -> bool:
    """Let the process keep freed memory for its next allocation.

    A training step allocates the same large buffers as the step before. glibc takes each of them
    from the system and gives it back, so every step pays for the pages again (on Linux, a step of
    `tiny` on 2 CPU cores: 80,000 page faults, a third of its time). After this call the process
    never shrinks, and all its threads share one heap. Call it before threads start.

    Returns:
        True if the C library supports it, which glibc does.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    libc = ctypes.CDLL(None)
    settings = {
        # Allocate large buffers on the heap too, since others are given back when freed.
        _M_MMAP_MAX: 0,
        _M_TRIM_THRESHOLD: 2**31 - 1,  # give back the free end of the heap only above 2 GiB
        _M_TOP_PAD: 64 * 2**20,  # grow the heap in large pieces
        # Use the main heap for all threads, since the heaps of other threads are given back.
        _M_ARENA_MAX: 1,
    }
    return all(libc.mallopt(name, value) == 1 for name, value in settings.items())


def _message(error: UserError | OSError) -> str:
    """Return an error in one line; a system error as PATH: REASON."""
    if isinstance(error, UserError):
        return str(error)
    return ": ".join(str(x) for x in (error.filename, error.strerror) if x is not None) + "."


def flags_of(options_class: type) -> dict[str, str]:
    """Return the flags of a class of options by name, such as `"-o"` or `"--data-dir"`.

    Positional arguments have no flag.
    """
    from tyro.conf import Positional

    marks: Any = getattr(Positional[int], "__metadata__", ())
    flags = {}
    for field in all_fields(options_class):
        metadata = getattr(field.type, "__metadata__", ())
        if not any(x in marks for x in metadata):
            aliases = [x for y in metadata for x in getattr(y, "aliases", None) or ()]
            flags[field.name] = [*aliases, f"--{field.name.replace('_', '-')}"][0]
    return flags


def name_flags(message: str, flags: Mapping[str, str]) -> str:
    """Replace the arguments that a message of the package names by their flags.

    Args:
        message: the message, in which arguments are written as `` `name` `` or `` `name=value` ``.
        flags: the flags of the arguments that are options, by name.

    Returns:
        The message with `--name` and `--name value` instead of `` `name` `` and `` `name=value` ``.
    """

    def flag(match: re.Match[str]) -> str:
        name, value = match.groups()
        if name not in flags:
            return match[0]
        flag = flags[name]
        switches = {None: flag, "True": flag, "False": flag.replace("--", "--no-", 1)}
        return switches.get(value, f"{flag} {value}")

    return re.sub(r"`([a-z]\w*)(?:=([^`]*))?`", flag, message)


@contextlib.contextmanager
def _printed_log(names: Mapping[str, str], answers: bool, quiet: bool) -> Iterator[None]:
    """Within the block, print the package's log messages and show progress, unless `quiet`."""
    logger, handler = logging.getLogger("keras_transformer"), _Printer(names, answers)
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.WARNING if quiet else logging.INFO)
    try:
        with progress_shown(not quiet):
            yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


@contextlib.contextmanager
def _printed_warnings(names: Mapping[str, str]) -> Iterator[None]:
    """Within the block, print each `UserWarning` in one line, without the code that caused it.

    (`warnings.catch_warnings` would undo the filters that other libraries set when they are
    imported.)
    """
    show = warnings.showwarning

    def print_warning(message: Any, category: Any, *where: Any, **options: Any) -> None:
        if category is not UserWarning:
            show(message, category, *where, **options)
            return
        words = " ".join(str(message).split())
        print(f"warning: {name_flags(words, names)}", file=sys.stderr)

    warnings.showwarning = print_warning
    try:
        yield
    finally:
        warnings.showwarning = show


class _Printer(logging.Handler):
    def __init__(self, names: Mapping[str, str], answers: bool) -> None:
        super().__init__()
        self.names = names
        self.answers = answers

    def emit(self, record: logging.LogRecord) -> None:
        is_warning = record.levelno >= logging.WARNING
        stream = sys.stderr if is_warning or self.answers else sys.stdout
        print(name_flags(record.getMessage(), self.names), file=stream, flush=True)


def given(options: Any, *names: str) -> dict[str, Any]:
    """Return the options that were given a value: name -> value."""
    values = {name: getattr(options, name) for name in names}
    return {name: value for name, value in values.items() if value is not None}


def _validate_words(words: Sequence[str], names: Mapping[str, str]) -> None:
    """Raise an error for unknown options, and for an empty value, as of an unset shell variable.

    As a path, an empty value would be the current folder.
    """
    known = [flag.replace("_", "-") for name in names for flag in (f"--{name}", f"--no-{name}")]
    for word, following in zip(words, [*words[1:], None]):
        if word == "--":  # no options follow
            return
        if not word.startswith("--") or word == "--help":
            continue
        flag, is_joined, value = word.partition("=")
        if flag.replace("_", "-") not in known:
            near = difflib.get_close_matches(flag, known, n=1, cutoff=0.0)
            similar = f" The most similar one is {near[0]}." if near else ""
            raise UserError(f"There is no option {flag}.{similar}")
        if (value if is_joined else following) == "":
            raise UserError(f"{flag} must have a value. Received: an empty one")


def _expand(argument: str) -> list[str]:
    """Return the options in a file for an argument `@FILE`, and other arguments unchanged."""
    if not argument.startswith("@"):
        return [argument]
    path = Path(argument[1:])
    if not path.is_file():
        raise UserError(f"Cannot find the options file {path}. Check the path.")
    try:
        return shlex.split(path.read_text("utf-8"), comments=True)
    except ValueError as error:  # an open quotation, another encoding
        raise UserError(f"{path} is not a valid options file: {error}") from error


def resume_command() -> str:
    """Return the shell command that started this process, with --resume."""
    options = [option for option in sys.argv if option not in ("--resume", "--overwrite")]
    command = shlex.join([*_program(sys.executable), *options[1:], "--resume"])
    backend = os.environ.get("KERAS_BACKEND")
    return f"KERAS_BACKEND={shlex.quote(backend)} {command}" if backend else command


def this_command() -> str:
    """Return the shell command that started this process, as far as Python knows it."""
    return shlex.join([*_program("python"), *sys.argv[1:]])


def _program(python: str) -> list[str]:
    """Return the words that start this process's program, before its arguments."""
    script = Path(sys.argv[0])
    if script.stem == _COMMAND or script.parts[-2:] == ("keras_transformer", "__main__.py"):
        return [_COMMAND]
    return [python, sys.argv[0]]
