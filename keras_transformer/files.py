"""Files and folders: written whole, or not at all; and what is JSON, read."""

import contextlib
import json
import os
import shutil
import tempfile
from pathlib import Path

from keras_transformer.errors import UserError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

_SUFFIX = ".unfinished"
_OLD = "old"
_MOST_NAMED = 5


@contextlib.contextmanager
def whole(path):
    """Give a temporary path beside `path`, and move what was written there to `path` at the end.

    If the block fails, the process is killed, or the power goes, whatever stood at `path` before
    stays as it was, or what was written stands there whole. Works for a file and for a folder (the
    block makes whichever it needs); a folder is replaced by moving the old one aside first.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = tempfile.TemporaryDirectory(
        dir=path.parent, prefix=f".{path.name}.", suffix=_SUFFIX
    )
    with temporary as folder, _hold(folder):
        new = Path(folder) / path.name
        yield new
        _to_disk(new)
        if new.is_dir() and path.is_dir():
            os.replace(path, Path(folder) / _OLD)
        os.replace(new, path)
        _sync(path.parent)


@contextlib.contextmanager
def whole_folder(path, names):
    """Like `whole`, of a folder that takes no place but that of an earlier one of its kind.

    Args:
        path: the folder.
        names: patterns, as of `Path.match`, of the names that stand in a folder of this kind.

    Raises:
        UserError: at once, if what is at `path` is something else, and would be lost.
    """
    check_replaceable(path, names)
    with whole(path) as folder:
        yield folder


def check_replaceable(path, names):
    """Raise a `UserError` if a folder at `path` would replace anything but one of its kind.

    Args:
        path: the folder.
        names: as for `whole_folder`.
    """
    path = Path(path)
    if not path.exists():
        return
    if not path.is_dir():
        raise UserError(f"{path} is a file, and a folder is to be written. Give another path.")
    if path.samefile("."):
        raise UserError(
            f"{path} is the folder that the program runs in, which cannot be replaced. Give the "
            "path of another one."
        )
    if others := sorted(x.name for x in path.iterdir() if not any(map(x.match, names))):
        more = ["..."] if len(others) > _MOST_NAMED else []
        raise UserError(
            f"{path} would be replaced, and what else is in it lost: "
            f"{', '.join(others[:_MOST_NAMED] + more)}. Give a new folder, an empty one, or an "
            "earlier one of the same kind."
        )


def read_json(path):
    """The values of a JSON file.

    Raises:
        UserError: if it holds no JSON.
    """
    try:
        return json.loads(Path(path).read_text("utf-8"))
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is damaged: {error}") from error


def beside(path, name):
    """The path `PATH.NAME`: what is made of `PATH`, and of no other file or folder beside it.

    What is made of something on another machine, such as `hf://user/repository`, is in the current
    folder.
    """
    _, is_remote, name_there = str(path).partition("://")
    path = Path(Path(name_there).name if is_remote else path).resolve()
    return path.with_name(f"{path.name}.{name}")


def check_room(path, size):
    """Raise an `OSError` if there is no room for a new file of so many bytes.

    For files that HDF5 writes: once a write of its own has failed, it crashes the process when some
    later file is closed.
    """
    if not hasattr(os, "posix_fallocate"):
        return  # Windows, macOS
    with open(path, "xb") as file:
        try:
            os.posix_fallocate(file.fileno(), 0, size)
        finally:
            os.unlink(path)


def remove_leftovers(folder):
    """Delete what killed processes left of their writing in `folder` and in the folders in it.

    What a living process is writing stays; so does everything where the file system has no locks,
    by which the two are told apart. Where one was killed between the two moves that replace
    a folder, the second move is made up for.
    """
    for left in [*Path(folder).glob(f".*{_SUFFIX}"), *Path(folder).glob(f"*/.*{_SUFFIX}")]:
        with contextlib.suppress(OSError), _hold(left, for_sure=True):
            name = left.name[1:].removesuffix(_SUFFIX).rpartition(".")[0]
            if (left / _OLD).exists() and not (left.parent / name).exists():
                os.replace(left / name, left.parent / name)
            shutil.rmtree(left)


@contextlib.contextmanager
def _hold(folder, for_sure=False):
    """Lock a temporary folder while its process lives; raises an `OSError` if another holds it.

    Some file systems have no locks: there it goes on without one, or with `for_sure` raises too.
    """
    if fcntl is None:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if for_sure or isinstance(error, BlockingIOError):
                raise
        yield
    finally:
        os.close(handle)


def _to_disk(path):
    """Without this, a power cut after the move could leave an empty file in the old one's place."""
    if path.is_dir():
        for part in path.rglob("*"):
            _sync(part)
    _sync(path)


def _sync(path):
    if fcntl is None and path.is_dir():
        return  # Windows opens no folders.
    handle = os.open(path, os.O_RDONLY if fcntl else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
