"""Files and folders that are written completely or not at all, and reading of JSON."""

import contextlib
import errno
import fnmatch
import hashlib
import json
import lzma
import os
import re
import shutil
import stat
import struct
import sys
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import platformdirs
from filelock import FileLock

from keras_transformer.errors import UserError

UNFINISHED = ".unfinished"
"""The end of the names of temporary folders, which begin with "."."""
_OLD, _LOCK = "old", ".lock"
_DAY = 24 * 60 * 60  # seconds
# The error that a damaged zip file raises depends on its damage.
_ZIP_DAMAGES = (zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error, lzma.LZMAError, struct.error)
_ZIP_DAMAGES += (EOFError, ValueError, NotImplementedError, RuntimeError)
_MOST_NAMED = 5
_MOST_LINKS = 40  # Linux's limit
_LONGEST_NAME = 255  # in bytes, of most file systems
_NUM_RANDOM = 8  # characters that `tempfile` puts into a name


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

    What replaces a file, or a file of a folder, keeps its mode.
    """
    place = Path(os.path.realpath(path))
    if _is_special(path):
        with tempfile.TemporaryDirectory() as folder:
            new = Path(folder) / Path(path).name
            yield new
            _pour(new, path)
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    with _named(path, place), _temporary_folder(place) as folder:
        # Use the name of the link, because its ending may determine the format.
        new = folder / (Path(path).name if Path(path).is_symlink() else place.name)
        yield new
        _set_modes(new, place, folder)
        _to_disk(new)
        if new.is_dir() and place.is_dir():
            _replace_folder(place, new, folder / _OLD)
        else:
            os.replace(new, place)
        _sync(place.parent)


class FolderKind(NamedTuple):
    """A kind of folder that is written completely, and so may be replaced by another of its kind.

    Attributes:
        description: its name in an error, such as `"a preset"`.
        names: patterns of the paths of the files that it may have, such as `"assets/*.spm"`.
        is_marked: function of a folder that returns whether this package wrote it as this kind.
    """

    description: str
    names: tuple[str, ...]
    is_marked: Callable[[Path], bool]


@contextlib.contextmanager
def atomic_write_folder(path: str | PathLike, kind: FolderKind) -> Iterator[Path]:
    """Write a folder like `atomic_write`, but only replace an earlier folder of the same kind.

    Args:
        path: the folder.
        kind: the kind of folder.

    Raises:
        UserError: immediately, if `path` contains anything else, which would be lost.
    """
    check_replaceable(path, kind)
    check_writable("path", path, is_folder=True)
    with atomic_write(path) as folder:
        yield folder


def check_replaceable(path: str | PathLike, kind: FolderKind) -> None:
    """Raise a `UserError` if writing a folder at `path` would replace anything but one of its kind.

    Args:
        path: the folder.
        kind: the kind of folder.
    """
    path = Path(path)
    if not os.path.exists(path):  # also if its name is too long
        return
    if not path.is_dir():
        raise UserError(f"Cannot write the folder {path}: it is a file. Pass another path.")
    if path.samefile("."):
        raise UserError(
            f"Cannot replace {path}: it is the current folder. Pass the path of another folder."
        )
    if not (found := sorted(path.iterdir())):
        return
    is_marked = kind.is_marked(path)
    if others := _other_files(path, kind) if is_marked else found:
        more = ["..."] if len(others) > _MOST_NAMED else []
        shown = [part.relative_to(path).as_posix() for part in others[:_MOST_NAMED]]
        raise UserError(
            f"Cannot replace {path}: other files in it would be lost. Expected a new folder, an "
            f"empty folder, or {kind.description} that keras_transformer wrote and nothing else. "
            f"Received: a folder {'that also has' if is_marked else 'with'} "
            f"{', '.join(shown + more)}"
        )


def _other_files(path: Path, kind: FolderKind) -> list[Path]:
    """Return the files, links and empty folders in a folder that do not belong to its kind."""
    return [
        part
        for part in sorted(path.rglob("*"))
        if not any(_matches(part.relative_to(path), pattern) for pattern in kind.names)
        # A folder is judged by its files.
        and (part.is_symlink() or not part.is_dir() or not any(part.iterdir()))
    ]


def _matches(path: Path, pattern: str) -> bool:
    """Return whether a relative path matches a pattern, whose `*` matches no "/"."""
    patterns = pattern.split("/")
    return len(path.parts) == len(patterns) and all(map(fnmatch.fnmatchcase, path.parts, patterns))


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
            with contextlib.suppress(FileNotFoundError):
                os.stat(place)  # raises an error for a name that is too long
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


@contextlib.contextmanager
def open_zip(path: str | PathLike, largest: int) -> Iterator[zipfile.ZipFile]:
    """Open a zip file for reading, whose damages are errors of the user wherever they are found.

    Args:
        path: the file.
        largest: the number of bytes that its files may have together.

    Raises:
        UserError: if it declares more bytes; also from the block, if it is damaged.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(member.file_size for member in archive.infolist())
            if size > largest:
                raise UserError(
                    f"{path} is refused: it declares {size:,} bytes. Expected at most {largest:,}."
                )
            yield archive
    except (OSError, *_ZIP_DAMAGES) as error:
        # A place before the file's beginning is a damage. A full disk is not.
        is_damage = getattr(error, "errno", None) in (None, errno.EINVAL)
        if isinstance(error, UserError) or not is_damage:
            raise
        reason = str(error) or type(error).__name__
        raise UserError(
            f"{path} is damaged or cut short: {reason}. Copy or download it again."
        ) from error


def sibling_path(path: str | PathLike, name: str) -> Path:
    """Return the path `PATH.NAME`, for content that is made from `PATH`.

    If `PATH` is on another machine, such as `hf://user/repository`, the result is in the current
    folder. If the name would be too long for the file system, its beginning is shortened.
    """
    _, is_remote, name_there = str(path).partition("://")
    path = Path(Path(name_there).name if is_remote else path).resolve()
    if len(os.fsencode(f"{path.name}.{name}")) <= (longest := _longest_name(path.parent)):
        return path.with_name(f"{path.name}.{name}")
    digest = hashlib.sha256(os.fsencode(path.name)).hexdigest()[:_NUM_RANDOM]
    end = f"-{digest}.{name}"
    return path.with_name(_first_bytes(path.name, longest - len(os.fsencode(end))) + end)


def _longest_name(folder: Path) -> int:
    """Return the largest number of bytes in a name, by the file system of a folder."""
    while not folder.exists():
        folder = folder.parent
    with contextlib.suppress(AttributeError, OSError, ValueError):  # such as on Windows
        if (longest := os.pathconf(folder, "PC_NAME_MAX")) > 0:
            return longest
    return _LONGEST_NAME


def _first_bytes(name: str, count: int) -> str:
    """Return the beginning of a name, at most `count` bytes of whole characters."""
    encoded = os.fsencode(name)
    return name if len(encoded) <= count else encoded[:count].decode("utf-8", "ignore")


@contextlib.contextmanager
def temporary_folder(parent: str | PathLike, name: str) -> Iterator[Path]:
    """Make a folder for the time of the block, which `remove_leftovers` deletes if it remains.

    Args:
        parent: the folder to make it in, which is made if it does not exist.
        name: the beginning of its name.
    """
    Path(parent).mkdir(parents=True, exist_ok=True)
    with _temporary_folder(Path(parent) / name) as folder:
        # The names of its files must not be taken for the parts of a replaced folder.
        (folder / "files").mkdir()
        yield folder / "files"


def leftovers(folder: str | PathLike) -> list[Path]:
    """Return the temporary folders in a folder that no running process holds.

    On a file system without locks, these are the folders to which nothing was written for a day.
    """
    found = []
    for left in Path(folder).glob(f".*{UNFINISHED}"):
        try:
            with _held(left):
                found.append(left)
        except TimeoutError:  # another process holds it
            continue
        except OSError:
            found += [left] if _is_old(left) else []
    return found


def _is_old(folder: Path) -> bool:
    with contextlib.suppress(OSError):
        newest = max(part.stat().st_mtime for part in (folder, *folder.rglob("*")))
        return time.time() - newest > _DAY
    return False


def remove_leftovers(folder: str | PathLike) -> None:
    """Delete temporary files of killed processes in `folder` and its subfolders.

    Files of running processes remain. So does everything on file systems without locks, by which
    the two are distinguished. If a process was killed between the two moves that replace a folder,
    the second move is completed.
    """
    for left in [*Path(folder).glob(f".*{UNFINISHED}"), *Path(folder).glob(f"*/.*{UNFINISHED}")]:
        with contextlib.suppress(OSError):
            with _held(left):
                _complete_move(left)
            shutil.rmtree(left)


def _complete_move(left: Path) -> None:
    """Complete the second of the two moves that replace a folder."""
    new = [part for part in left.iterdir() if part.name not in (_OLD, _LOCK)]
    if len(new) != 1 or not (left / _OLD).exists():
        return
    name = left.name[1:].removesuffix(UNFINISHED).rpartition(".")[0]
    if _part_of_name(left.parent / new[0].name) == name:
        name = new[0].name  # whose end was too long for the temporary folder's name
    if not (left.parent / name).exists():
        os.replace(new[0], left.parent / name)


def _is_special(path: str | PathLike) -> bool:
    """Return whether a path is neither a file nor a folder, and is written to in place."""
    path = Path(path)
    return _descriptor(path) is not None or (
        path.exists() and not path.is_file() and not path.is_dir()
    )


def _descriptor(path: Path) -> int | None:
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


def _pour(new: Path, path: str | PathLike) -> None:
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
def _temporary_folder(place: Path) -> Iterator[Path]:
    """Make and lock a temporary folder next to `place`; or in it, if its parent is read-only."""
    try:
        folder = _new_folder(place.parent, place)
    except OSError:
        if not place.is_dir():
            raise
        folder = _new_folder(place, place)
    try:
        with contextlib.ExitStack() as stack:
            with contextlib.suppress(OSError):  # a file system without locks
                stack.enter_context(_held(folder))
            yield folder
    finally:
        # If a folder was moved aside and could not be moved back, this is its only copy.
        if place.exists() or not (folder / _OLD).exists():
            shutil.rmtree(folder, ignore_errors=True)


def _new_folder(parent: Path, place: Path) -> Path:
    prefix = f".{_part_of_name(place)}."
    return Path(tempfile.mkdtemp(dir=parent, prefix=prefix, suffix=UNFINISHED))


def _part_of_name(place: Path) -> str:
    """Return the beginning of a name that fits into the name of a temporary folder next to it."""
    around = len("..") + _NUM_RANDOM + len(UNFINISHED)
    return _first_bytes(place.name, _longest_name(place.parent) - around)


@contextlib.contextmanager
def _named(path: str | PathLike, place: Path) -> Iterator[None]:
    """Put `path` into system errors that name a temporary file or folder, or no file."""
    hidden = str(place.parent / f".{_part_of_name(place)}.")
    inside = str(place / f".{_part_of_name(place)}.")
    try:
        yield
    except OSError as error:
        if error.errno and str(error.filename or hidden).startswith((hidden, inside)):
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise


def _replace_folder(place: Path, new: Path, old: Path) -> None:
    """Move a folder aside and another to its place, or fill it if it is empty and cannot move."""
    try:
        os.replace(place, old)
    except OSError as error:
        if any(part != old.parent for part in place.iterdir()):
            raise UserError(
                f"Cannot replace {place} ({error.strerror}). Pass an empty folder, or the path of "
                "a new one."
            ) from error
        _fill(place, new)
        return
    try:
        os.replace(new, place)
    except BaseException:
        os.replace(old, place)
        raise


def _fill(place: Path, new: Path) -> None:
    """Move the parts of a folder to an empty folder: all of them, or none."""
    names = [part.name for part in new.iterdir()]
    try:
        for name in names:
            shutil.move(new / name, place)
        _to_disk(place)
    except BaseException:
        for part in (place / name for name in names):
            if part.is_dir() and not part.is_symlink():
                shutil.rmtree(part, ignore_errors=True)
            else:
                part.unlink(missing_ok=True)
        raise


def _set_modes(new: Path, place: Path, folder: Path) -> None:
    """Give written files the modes of the files that they replace, or else the umask's."""
    # Reading the umask requires setting it, which would affect other threads.
    probe = folder / _OLD
    os.close(os.open(probe, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    mode = stat.S_IMODE(probe.stat().st_mode)
    probe.unlink()
    for part in (new, *new.rglob("*")):
        if part.is_symlink():
            continue
        has, old = stat.S_IMODE(part.stat().st_mode), place / part.relative_to(new)
        if old.exists() and old.is_dir() == part.is_dir():
            wanted = stat.S_IMODE(old.stat().st_mode)
        else:
            wanted = has | mode | ((mode & 0o444) >> 2 if part.is_dir() else 0)
        if wanted != has:
            part.chmod(wanted)


def lock_folder(folder: str | PathLike) -> FileLock:
    """Lock a folder for this process, and return the lock.

    The lock is held until it is released or no longer referenced, or the process ends in any way.
    A process may lock a folder again: a training may follow another, whose objects still exist.
    Nothing is locked on a file system without locks.

    Args:
        folder: the folder, which is made if it does not exist. A file `.lock` remains in it.

    Raises:
        TimeoutError: if another process holds the lock.
        OSError: if the folder cannot be made or written to.
    """
    folder = Path(os.path.realpath(folder))
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / _LOCK, timeout=0, is_singleton=True, thread_local=False)
    try:
        if not lock.is_locked:
            lock.acquire()
    except OSError as error:
        if error.errno not in (errno.ENOTSUP, errno.ENOLCK, errno.ENOSYS):
            raise
    return lock


def _held(folder: Path) -> FileLock:
    """Return a lock on a temporary folder, for a `with` block.

    The block raises a `TimeoutError` if another process holds the lock, and another `OSError` on a
    file system without locks.
    """
    return FileLock(folder / _LOCK, timeout=0, fallback_to_soft=False)


def _to_disk(path: Path) -> None:
    """Flush to disk. Otherwise a power failure after the move could leave an empty file."""
    if path.is_dir():
        for part in path.rglob("*"):
            _sync(part)
    _sync(path)


def _sync(path: Path) -> None:
    if os.name == "nt" and path.is_dir():
        return  # Windows cannot open folders.
    handle = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def user_cache() -> Path:
    """Return this package's folder in the user's cache, which need not exist.

    On Linux it is `~/.cache/keras-transformer`, or in the cache that `XDG_CACHE_HOME` names.
    """
    return platformdirs.user_cache_path("keras-transformer", appauthor=False)
