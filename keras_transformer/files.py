"""Files and folders: written whole, or not at all; and what is JSON, read."""

import contextlib
import errno
import json
import os
import re
import shutil
import stat
import sys
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar

from keras_transformer.errors import UserError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

_SUFFIX = ".unfinished"
_OLD = "old"
_MOST_NAMED = 5
_MOST_LINKS = 40  # as Linux follows


@contextlib.contextmanager
def atomic_write(path: str | PathLike) -> Iterator[Path]:
    """Give a temporary path beside `path`, and move what was written there to `path` at the end.

    If the block fails, the process is killed, or the power goes, whatever stood at `path` before
    stays as it was, or what was written stands there whole. Works for a file and for a folder (the
    block makes whichever it needs); a folder is replaced by moving the old one aside first.

    A symbolic link stays, and what it points to is replaced. A device, a pipe or an open file
    (`/dev/null`, `/dev/stdout`) gets the content of the new file once the block has ended. An empty
    folder that cannot be replaced, such as the place of a mounted disk, gets the parts of the new
    folder, one after the other.
    """
    place = Path(os.path.realpath(path))
    if _is_special(path):
        with tempfile.TemporaryDirectory() as folder:
            new = Path(folder) / Path(path).name
            yield new
            _pour(new, path)
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    with _temporary_folder(place) as folder, _hold(folder), _named(path, folder):
        # The name of the link, as its ending may decide what is written.
        new = folder / (Path(path).name if Path(path).is_symlink() else place.name)
        yield new
        _open_to_readers(new, folder)
        _to_disk(new)
        if not (new.is_dir() and place.is_dir()) or _is_moved(place, folder / _OLD):
            os.replace(new, place)
        else:
            for part in new.iterdir():
                shutil.move(part, place)
            _to_disk(place)
        _sync(place.parent)


@contextlib.contextmanager
def atomic_write_folder(path: str | PathLike, names: Iterable[str]) -> Iterator[Path]:
    """Like `whole`, of a folder that takes no place but that of an earlier one of its kind.

    Args:
        path: the folder.
        names: patterns, as of `Path.match`, of the names that stand in a folder of this kind.

    Raises:
        UserError: at once, if what is at `path` is something else, and would be lost.
    """
    check_replaceable(path, names)
    with atomic_write(path) as folder:
        yield folder


def check_replaceable(path: str | PathLike, names: Iterable[str]) -> None:
    """Raise a `UserError` if a folder at `path` would replace anything but one of its kind.

    Args:
        path: the folder.
        names: as for `atomic_write_folder`.
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


def check_writable(argument: str, path: str | PathLike, is_folder: bool = False) -> None:
    """Raise a `UserError` if `whole` cannot write to a path: before the work, not after it.

    Args:
        argument: the name of the argument that the path is from.
        path: the path of a file, or of a folder.
        is_folder: whether a folder is to be written, which may replace another.
    """
    place = Path(os.path.realpath(path))
    try:
        if place.is_dir() and not is_folder:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not _is_special(path):
            while not place.parent.exists():
                place = place.parent
            with _temporary_folder(place):
                pass
    except OSError as error:
        raise UserError(
            f"Cannot write to {path}: {error.strerror}. Pass another `{argument}`."
        ) from error


def read_json(path: str | PathLike) -> Any:
    """The values of a JSON file.

    Raises:
        UserError: if it holds no JSON.
    """
    try:
        return json.loads(Path(path).read_text("utf-8"))
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is damaged: {error}") from error


def sibling_path(path: str | PathLike, name: str) -> Path:
    """The path `PATH.NAME`: what is made of `PATH`, and of no other file or folder beside it.

    What is made of something on another machine, such as `hf://user/repository`, is in the current
    folder.
    """
    _, is_remote, name_there = str(path).partition("://")
    path = Path(Path(name_there).name if is_remote else path).resolve()
    return path.with_name(f"{path.name}.{name}")


def check_room(path: str | PathLike, size: int) -> None:
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


def remove_leftovers(folder: str | PathLike) -> None:
    """Delete what killed processes left of their writing in `folder` and in the folders in it.

    What a living process is writing stays; so does everything where the file system has no locks,
    by which the two are told apart. Where one was killed between the two moves that replace
    a folder, the second move is made up for.
    """
    for left in [*Path(folder).glob(f".*{_SUFFIX}"), *Path(folder).glob(f"*/.*{_SUFFIX}")]:
        with contextlib.suppress(OSError), _hold(left, for_sure=True):
            name = left.name[1:].removesuffix(_SUFFIX).rpartition(".")[0]
            new = [part for part in left.iterdir() if part.name != _OLD]
            if len(new) == 1 and (left / _OLD).exists() and not (left.parent / name).exists():
                os.replace(new[0], left.parent / name)
            shutil.rmtree(left)


def _is_special(path):
    """Whether a path is written to and not replaced: what is there is neither file nor folder."""
    path = Path(path)
    return _descriptor(path) is not None or (
        path.exists() and not path.is_file() and not path.is_dir()
    )


def _descriptor(path):
    """The number of the open file of this process that a path stands for, such as 1, or None.

    `/dev/stdout` may be a file to which the process has written already. Opened once more, it would
    be written from its beginning.
    """
    for _ in range(_MOST_LINKS):
        if not path.is_symlink():
            return None
        if re.fullmatch(r"/proc/\d+/fd", folder := os.path.realpath(path.parent)):
            is_mine = Path(folder).parent.name == str(os.getpid())
            return int(path.name) if is_mine else None
        path = path.parent / os.readlink(path)
    return None  # They lead in a circle.


def _pour(new, path):
    descriptor = _descriptor(Path(path))
    if descriptor is None:
        handle = os.open(path, os.O_WRONLY)
    else:
        for stream in (sys.stdout, sys.stderr):  # what is printed before comes before
            if stream:
                stream.flush()
        handle = os.dup(descriptor)
    with open(new, "rb") as file, open(handle, "wb") as special:
        shutil.copyfileobj(file, special)


@contextlib.contextmanager
def _temporary_folder(place):
    """A folder beside `place`; in it, if `place` is a folder and the one around it is read-only."""
    parents = [place.parent, *([place] if place.is_dir() else [])]
    for parent in parents:
        try:
            temporary = tempfile.TemporaryDirectory(
                dir=parent, prefix=f".{place.name}.", suffix=_SUFFIX
            )
        except OSError:
            if parent == parents[-1]:
                raise
        else:
            with temporary as folder:
                yield Path(folder)
            return


@contextlib.contextmanager
def _named(path, folder):
    """Name `path` in an error of the system that names a file in the folder, or none."""
    try:
        yield
    except OSError as error:
        if error.errno and str(error.filename or folder).startswith(str(folder)):
            error.filename = str(path)
        raise


def _is_moved(place, old):
    """Move a folder aside. False if it is empty and the system does not allow that."""
    try:
        os.replace(place, old)
    except OSError as error:
        if any(part != old.parent for part in place.iterdir()):
            raise UserError(
                f"{place} cannot be replaced ({error.strerror}). Give an empty folder, or the path "
                "of a new one."
            ) from error
        return False
    return True


def _open_to_readers(new, folder):
    """Give what was written the modes that the umask gives, where it has narrower ones."""
    # The umask cannot be read without being set, which other threads would see.
    probe = folder / _OLD
    os.close(os.open(probe, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    mode = stat.S_IMODE(probe.stat().st_mode)
    probe.unlink()
    for part in (new, *new.rglob("*")):
        if part.is_symlink():
            continue
        has = stat.S_IMODE(part.stat().st_mode)
        wanted = has | mode | ((mode & 0o444) >> 2 if part.is_dir() else 0)
        if wanted != has:
            part.chmod(wanted)


class FolderLock:
    """A lock on a folder, which its process holds until it is released, or nothing refers to it.

    The end of the process releases it too, however it ends.

    Where the file system or Windows has no locks, nothing is locked.

    Args:
        folder: the folder, which is made if it is missing. A file `.lock` stays in it.

    Raises:
        BlockingIOError: if another process holds the lock.
        OSError: if the folder cannot be made or written to.
    """

    _held: ClassVar = weakref.WeakValueDictionary()

    def __new__(cls, folder: str | PathLike) -> "FolderLock":
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        name = os.path.realpath(folder)
        # One training in a process may follow another whose objects are still there.
        if (lock := cls._held.get(name)) is not None and lock._handle is not None:
            return lock
        lock = super().__new__(cls)
        # A file, and not the folder: network file systems lock only what is open for writing.
        lock._handle = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o666)
        _lock(lock._handle)
        cls._held[name] = lock
        return lock

    def release(self) -> None:
        """Let other processes take the lock."""
        handle, self._handle = getattr(self, "_handle", None), None
        if handle is not None:
            os.close(handle)

    __del__ = release


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
        _lock(handle, for_sure)
        yield
    finally:
        os.close(handle)


def _lock(handle, for_sure=False):
    if fcntl is None:
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if for_sure or isinstance(error, BlockingIOError):
            raise


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
