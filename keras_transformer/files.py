"""Files and folders that are written completely or not at all, and reading of JSON."""

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
_MOST_LINKS = 40  # Linux's limit


@contextlib.contextmanager
def atomic_write(path: str | PathLike) -> Iterator[Path]:
    """Yield a temporary path next to `path`, and move its content to `path` at the end.

    If the block fails, the process is killed, or the power fails, `path` contains either its old
    content or all of the new content. Works for files and folders (the block makes either). A
    folder is replaced by moving the old one aside first.

    A symbolic link remains, and its target is replaced. A device, a pipe or an open file
    (`/dev/null`, `/dev/stdout`) receives the content of the new file at the end of the block. An
    empty folder that cannot be replaced, such as a mount point, receives the parts of the new
    folder one by one.
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
        # Use the name of the link, because its ending may determine the format.
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
    """Write a folder like `atomic_write`, but only replace an earlier folder of the same kind.

    Args:
        path: the folder.
        names: patterns, as for `Path.match`, of the names in a folder of this kind.

    Raises:
        UserError: immediately, if `path` contains anything else, which would be lost.
    """
    check_replaceable(path, names)
    with atomic_write(path) as folder:
        yield folder


def check_replaceable(path: str | PathLike, names: Iterable[str]) -> None:
    """Raise a `UserError` if writing a folder at `path` would replace anything but one of its kind.

    Args:
        path: the folder.
        names: as for `atomic_write_folder`.
    """
    path = Path(path)
    if not path.exists():
        return
    if not path.is_dir():
        raise UserError(f"Cannot write the folder {path}: it is a file. Pass another path.")
    if path.samefile("."):
        raise UserError(
            f"Cannot replace {path}: it is the current folder. Pass the path of another folder."
        )
    if others := sorted(x.name for x in path.iterdir() if not any(map(x.match, names))):
        more = ["..."] if len(others) > _MOST_NAMED else []
        raise UserError(
            f"Cannot replace {path}: other files in it would be lost. Expected a new folder, an "
            "empty folder, or an earlier one of the same kind. Received: a folder with "
            f"{', '.join(others[:_MOST_NAMED] + more)}"
        )


def check_writable(argument: str, path: str | PathLike, is_folder: bool = False) -> None:
    """Raise a `UserError` if `atomic_write` cannot write to a path, before any work is done.

    Args:
        argument: name of the argument that contains the path.
        path: path of a file or a folder.
        is_folder: whether a folder will be written, which may replace another.
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
    """Read a JSON file.

    Raises:
        UserError: if its content is not JSON.
    """
    try:
        return json.loads(Path(path).read_text("utf-8"))
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is damaged: {error}") from error


def sibling_path(path: str | PathLike, name: str) -> Path:
    """Return the path `PATH.NAME`, for content that is made from `PATH`.

    If `PATH` is on another machine, such as `hf://user/repository`, the result is in the current
    folder.
    """
    _, is_remote, name_there = str(path).partition("://")
    path = Path(Path(name_there).name if is_remote else path).resolve()
    return path.with_name(f"{path.name}.{name}")


def check_room(path: str | PathLike, size: int) -> None:
    """Raise an `OSError` if there is no room for a new file of this size in bytes.

    It is for files that HDF5 writes: after a failed write, HDF5 crashes the process when a later
    file is closed.
    """
    if not hasattr(os, "posix_fallocate"):
        return  # Windows, macOS
    with open(path, "xb") as file:
        try:
            os.posix_fallocate(file.fileno(), 0, size)
        finally:
            os.unlink(path)


def remove_leftovers(folder: str | PathLike) -> None:
    """Delete temporary files of killed processes in `folder` and its subfolders.

    Files of running processes remain. So does everything on file systems without locks, by which
    the two are distinguished. If a process was killed between the two moves that replace a folder,
    the second move is completed.
    """
    for left in [*Path(folder).glob(f".*{_SUFFIX}"), *Path(folder).glob(f"*/.*{_SUFFIX}")]:
        with contextlib.suppress(OSError), _hold(left, for_sure=True):
            name = left.name[1:].removesuffix(_SUFFIX).rpartition(".")[0]
            new = [part for part in left.iterdir() if part.name != _OLD]
            if len(new) == 1 and (left / _OLD).exists() and not (left.parent / name).exists():
                os.replace(new[0], left.parent / name)
            shutil.rmtree(left)


def _is_special(path):
    """Return whether a path is neither a file nor a folder, and is written to in place."""
    path = Path(path)
    return _descriptor(path) is not None or (
        path.exists() and not path.is_file() and not path.is_dir()
    )


def _descriptor(path):
    """Return the descriptor of the open file of this process that a path stands for, or None.

    `/dev/stdout` may be a file to which the process has already written. Opening it again would
    overwrite its beginning.
    """
    for _ in range(_MOST_LINKS):
        if not path.is_symlink():
            return None
        if re.fullmatch(r"/proc/\d+/fd", folder := os.path.realpath(path.parent)):
            is_mine = Path(folder).parent.name == str(os.getpid())
            return int(path.name) if is_mine else None
        path = path.parent / os.readlink(path)
    return None  # The links form a circle.


def _pour(new, path):
    descriptor = _descriptor(Path(path))
    if descriptor is None:
        handle = os.open(path, os.O_WRONLY)
    else:
        for stream in (sys.stdout, sys.stderr):  # write earlier output first
            if stream:
                stream.flush()
        handle = os.dup(descriptor)
    with open(new, "rb") as file, open(handle, "wb") as special:
        shutil.copyfileobj(file, special)


@contextlib.contextmanager
def _temporary_folder(place):
    """Make a temporary folder next to `place`; or in `place`, if its parent folder is read-only."""
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
    """Put `path` into system errors that name a file in the temporary folder, or no file."""
    try:
        yield
    except OSError as error:
        if error.errno and str(error.filename or folder).startswith(str(folder)):
            error.filename = str(path)
        raise


def _is_moved(place, old):
    """Move a folder aside. Return False if it is empty and the system does not allow moving it."""
    try:
        os.replace(place, old)
    except OSError as error:
        if any(part != old.parent for part in place.iterdir()):
            raise UserError(
                f"Cannot replace {place} ({error.strerror}). Pass an empty folder, or the path of "
                "a new one."
            ) from error
        return False
    return True


def _open_to_readers(new, folder):
    """Give written files the modes of the umask if their own are narrower."""
    # Reading the umask requires setting it, which would affect other threads.
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
    """A lock on a folder, held by a process until it is released or no longer referenced.

    It is also released when the process ends, in any way.

    If the file system or Windows has no locks, nothing is locked.

    Args:
        folder: the folder, which is made if it does not exist. A file `.lock` remains in it.

    Raises:
        BlockingIOError: if another process holds the lock.
        OSError: if the folder cannot be made or written to.
    """

    _held: ClassVar = weakref.WeakValueDictionary()

    def __new__(cls, folder: str | PathLike) -> "FolderLock":
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        name = os.path.realpath(folder)
        # A training may follow another in the same process, whose objects still exist.
        if (lock := cls._held.get(name)) is not None and lock._handle is not None:
            return lock
        lock = super().__new__(cls)
        # Lock a file instead of the folder: network file systems lock only files that are open for
        # writing.
        lock._handle = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o666)
        _lock(lock._handle)
        cls._held[name] = lock
        return lock

    def release(self) -> None:
        """Release the lock."""
        handle, self._handle = getattr(self, "_handle", None), None
        if handle is not None:
            os.close(handle)

    __del__ = release


@contextlib.contextmanager
def _hold(folder, for_sure=False):
    """Lock a temporary folder during the block; raise an `OSError` if another process holds it.

    If the file system has no locks, continue without one, or with `for_sure` raise an error too.
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
    """Flush to disk. Otherwise a power failure after the move could leave an empty file."""
    if path.is_dir():
        for part in path.rglob("*"):
            _sync(part)
    _sync(path)


def _sync(path):
    if fcntl is None and path.is_dir():
        return  # Windows cannot open folders.
    handle = os.open(path, os.O_RDONLY if fcntl else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def user_cache() -> Path:
    """Return this package's folder in the user's cache, which need not exist.

    `XDG_CACHE_HOME` in the environment names another cache than `~/.cache`.
    """
    caches = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG specification requires that relative paths are ignored.
    caches = Path(caches) if os.path.isabs(caches) else Path("~/.cache").expanduser()
    return caches / "keras-transformer"
