"""Lines of a text file, cut as the C program cuts them."""

from pathlib import Path

from keras_transformer.errors import UserError


def read_lines(path: str | Path) -> list[str]:
    """The lines of a file, which end at "\\n" alone.

    Bytes that are not UTF-8 are carried along: EVALB compares bytes, in whatever encoding.
    """
    try:
        with open(path, encoding="utf-8-sig", errors="surrogateescape", newline="\n") as file:
            return [line.removesuffix("\n") for line in file]
    except FileNotFoundError:
        raise UserError(f"There is no file {path}. Check the path.") from None
    except OSError as error:
        raise UserError(f"The file {path} could not be read: {error.strerror}.") from None
