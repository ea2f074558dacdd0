import errno
import fcntl
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock

from keras_transformer import files
from keras_transformer.errors import UserError
from keras_transformer.files import (
    FolderKind,
    atomic_write,
    atomic_write_folder,
    check_writable,
    leftovers,
    lock_folder,
    read_json,
    remove_leftovers,
    sibling_path,
    temporary_folder,
)

pytestmark = pytest.mark.once


def write(path, text, folder):
    if folder:
        path.mkdir()
        path /= "part"
    path.write_text(text)


def read(path):
    return (path / "part" if path.is_dir() else path).read_text()


def names(folder):
    return sorted(path.name for path in folder.iterdir())


BOTH_KINDS = pytest.mark.parametrize("folder", [False, True], ids=["file", "folder"])


@BOTH_KINDS
def test_a_written_path_appears_only_at_the_end(tmp_path, folder):
    path = tmp_path / "result"
    with atomic_write(path) as new:
        write(new, "new", folder)
        assert not path.exists()
    assert read(path) == "new"
    assert names(tmp_path) == ["result"]


@BOTH_KINDS
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_failed_block_leaves_nothing(tmp_path, folder, error):
    with pytest.raises(error), atomic_write(tmp_path / "result") as new:
        write(new, "half", folder)
        raise error
    assert names(tmp_path) == []


@BOTH_KINDS
def test_new_content_replaces_the_old(tmp_path, folder):
    path = tmp_path / "result"
    write(path, "old", folder)
    if folder:
        (path / "not in the new one").touch()
    with atomic_write(path) as new:
        write(new, "new", folder)
        assert read(path) == "old"
    assert read(path) == "new"
    assert names(tmp_path) == ["result"]
    assert not folder or names(path) == ["part"]


@BOTH_KINDS
def test_a_failed_block_keeps_the_old_content(tmp_path, folder):
    path = tmp_path / "result"
    write(path, "old", folder)
    with pytest.raises(ValueError), atomic_write(path) as new:
        write(new, "half", folder)
        raise ValueError
    assert read(path) == "old"
    assert names(tmp_path) == ["result"]


def test_a_block_that_writes_nothing_keeps_the_old_content(tmp_path):
    (tmp_path / "result").write_text("old")
    with pytest.raises(OSError), atomic_write(tmp_path / "result"):
        pass
    assert read(tmp_path / "result") == "old"
    assert names(tmp_path) == ["result"]


@BOTH_KINDS
def test_a_file_does_not_replace_a_folder_or_the_reverse(tmp_path, folder):
    # A file does not take the place of a folder, nor a folder that of a file.
    path = tmp_path / "result"
    write(path, "old", folder)
    with pytest.raises(OSError), atomic_write(path) as new:
        write(new, "new", not folder)
    assert read(path) == "old"
    assert names(tmp_path) == ["result"]


KIND = FolderKind(
    "a model",
    ("config.json", "*.weights", "assets/*.spm"),
    lambda folder: (folder / "config.json").is_file(),
)


def write_kind(path):
    """Writes a folder of a kind that `config.json` marks."""
    with atomic_write_folder(path, KIND) as folder:
        folder.mkdir()
        (folder / "config.json").touch()


def put(folder, *parts):
    """Write files of these names."""
    for part in parts:
        (folder / part).parent.mkdir(parents=True, exist_ok=True)
        (folder / part).write_text("years of work")


@pytest.mark.parametrize("earlier", [None, [], ["config.json", "a.weights", "assets/b.spm"]])
def test_a_folder_replaces_a_folder_of_its_kind(tmp_path, earlier):
    path = tmp_path / "model"
    if earlier is not None:
        path.mkdir()
        put(path, *earlier)
    write_kind(path)
    assert names(path) == ["config.json"]


@pytest.mark.parametrize(
    "other",
    ["thesis.txt", ".git/HEAD", "runs/config.json", "assets/wedding.jpg", "assets/a/b.spm"],
)
def test_a_folder_with_other_files_is_not_replaced(tmp_path, other):
    write_kind(tmp_path / "model")
    put(tmp_path / "model", other)
    match = f"Cannot replace .*model: .* a folder that also has {other}"
    with pytest.raises(UserError, match=match):
        write_kind(tmp_path / "model")
    assert (tmp_path / "model" / other).read_text() == "years of work"
    assert names(tmp_path) == ["model"]


def test_links_and_empty_folders_of_others_are_not_lost(tmp_path):
    write_kind(tmp_path / "model")
    put(tmp_path / "album", "wedding.spm")
    for other in (tmp_path / "model" / "assets", tmp_path / "model" / "drafts"):
        if other.name == "assets":
            other.symlink_to(tmp_path / "album")
        else:
            other.mkdir()
        with pytest.raises(UserError, match=f"a folder that also has {other.name}"):
            write_kind(tmp_path / "model")
        other.unlink() if other.is_symlink() else other.rmdir()
    write_kind(tmp_path / "model")
    assert names(tmp_path / "album") == ["wedding.spm"]


def test_a_folder_without_the_mark_of_its_kind_is_not_replaced(tmp_path):
    put(tmp_path / "model", *map("{}.weights".format, "abcdefg"))
    match = (
        r"a model that keras_transformer wrote .* a folder with a.weights, .*, e.weights, \.\.\."
    )
    with pytest.raises(UserError, match=match):
        write_kind(tmp_path / "model")
    assert len(names(tmp_path / "model")) == 7


def test_a_folder_replaces_neither_a_file_nor_the_current_folder(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="Cannot write the folder .*file: it is a file"):
        write_kind(tmp_path / "file")
    monkeypatch.chdir(tmp_path)
    for path in (".", tmp_path):
        with pytest.raises(UserError, match="it is the current folder"):
            write_kind(path)
    assert names(tmp_path) == ["file"]


def test_parent_folders_are_made(tmp_path):
    with atomic_write(tmp_path / "a" / "b" / "result") as new:
        new.write_text("new")
    assert read(tmp_path / "a" / "b" / "result") == "new"


@pytest.mark.parametrize("kind", [str, Path])
def test_paths_may_be_strings_and_relative(tmp_path, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)
    with atomic_write(kind("result")) as new:
        new.write_text("new")
    assert names(tmp_path) == ["result"]


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_modes_follow_the_umask(tmp_path, umask):
    # The temporary folder is private, and so are some writers' files. The result must not be.
    before = os.umask(umask)
    try:
        with atomic_write(tmp_path / "file") as new:
            os.close(os.open(new, os.O_CREAT, 0o600))
        with atomic_write(tmp_path / "folder") as new:
            new.mkdir(0o700)
            (new / "program").touch(0o700)
    finally:
        os.umask(before)
    folder = tmp_path / "folder"
    modes = [path.stat().st_mode & 0o777 for path in (tmp_path / "file", folder)]
    assert modes == [0o666 & ~umask, 0o777 & ~umask]
    assert (folder / "program").stat().st_mode & 0o777 == 0o700 | (0o666 & ~umask)


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o755])
def test_replaced_files_keep_their_modes(tmp_path, mode):
    file, folder = tmp_path / "file", tmp_path / "folder"
    file.touch()
    put(folder, "part")
    folder.chmod(mode | 0o300)
    for path in (file, folder / "part"):
        path.chmod(mode)
    with atomic_write(file) as new:
        new.write_text("new")
    with atomic_write(folder) as new:
        write(new, "new", folder=True)
    assert [read(file), read(folder)] == ["new", "new"]
    modes = [path.stat().st_mode & 0o777 for path in (file, folder / "part", folder)]
    assert modes == [mode, mode, mode | 0o300]


@BOTH_KINDS
@pytest.mark.parametrize("name", ["n" * 255, "名" * 85], ids=["ascii", "chinese"])
def test_names_may_be_as_long_as_the_file_system_allows(tmp_path, folder, name):
    for text in ("old", "new"):
        check_writable("output", tmp_path / name, is_folder=folder)
        with atomic_write(tmp_path / name) as new:
            write(new, text, folder)
    assert read(tmp_path / name) == "new" and names(tmp_path) == [name]
    beside = sibling_path(tmp_path / name, "test.txt")
    assert beside.name.endswith(".test.txt") and len(os.fsencode(beside.name)) <= 255
    assert beside != sibling_path(tmp_path / f"{name[:-1]}m", "test.txt")
    beside.touch()


def test_a_name_that_is_too_long_is_an_error_before_the_work(tmp_path):
    with pytest.raises(UserError, match="File name too long"):
        check_writable("output", tmp_path / ("n" * 256))


def test_the_old_folder_is_moved_back_if_the_new_one_cannot_replace_it(tmp_path, monkeypatch):
    # Even a move may need room on the disk.
    path = tmp_path / "model"
    write(path, "old", folder=True)
    move = os.replace

    def replace(old, new):
        if Path(new) == path and Path(old).name == "model":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(old), None, str(new))
        move(old, new)

    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(OSError) as error, atomic_write(path) as new:
        write(new, "new", folder=True)
    assert str(error.value) == f"[Errno 28] No space left on device: '{path}'"
    assert read(path) == "old" and names(tmp_path) == ["model"]


def test_an_old_folder_that_cannot_be_moved_back_is_not_deleted(tmp_path, monkeypatch):
    path = tmp_path / "model"
    write(path, "old", folder=True)
    move = os.replace

    def replace(old, new):
        if Path(new) == path:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        move(old, new)

    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(OSError), atomic_write(path) as new:
        write(new, "new", folder=True)
    (left,) = tmp_path.iterdir()
    assert read(left / "old") == "old"
    monkeypatch.undo()
    remove_leftovers(tmp_path)
    assert read(path) == "new" and names(tmp_path) == ["model"]


def test_two_processes_may_write_one_path(tmp_path):
    with atomic_write(tmp_path / "result") as first:
        first.write_text("first")
        with atomic_write(tmp_path / "result") as second:
            second.write_text("second")
    assert read(tmp_path / "result") == "first"
    assert names(tmp_path) == ["result"]


def test_content_is_flushed_to_disk_before_the_move(tmp_path, monkeypatch):
    # A power cut must not leave a name whose content was never written.
    done = []

    def fsync(handle):
        done.append(("to disk", Path(os.readlink(f"/proc/self/fd/{handle}"))))

    def replace(old, new):
        done.append(("move", Path(new)))
        os.rename(old, new)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", replace)
    with atomic_write(tmp_path / "result") as new:
        write(new, "new", folder=True)
    assert set(done[:2]) == {("to disk", new), ("to disk", new / "part")}
    assert done[2:] == [("move", tmp_path / "result"), ("to disk", tmp_path)]


def test_a_full_disk_names_the_path(tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2048, hard))
    try:
        with pytest.raises(OSError) as error, atomic_write(tmp_path / "file") as new:
            new.write_bytes(b" " * 9999)
        assert (error.value.errno, error.value.filename) == (errno.EFBIG, f"{tmp_path}/file")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert names(tmp_path) == []


def test_a_link_remains_and_its_target_is_replaced(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "disk" / "blob").write_text("old")
    link, dangling = tmp_path / "a.txt", tmp_path / "b.txt"
    link.symlink_to("disk/blob")
    dangling.symlink_to("disk/other")
    for path in (link, dangling):
        with atomic_write(path) as new:
            assert new.name == path.name  # whose ending may decide what is written
            new.write_text("new")
        assert path.is_symlink() and read(path) == "new"
    assert names(tmp_path / "disk") == ["blob", "other"]
    assert names(tmp_path) == ["a.txt", "b.txt", "disk"]


def test_a_link_to_a_folder_remains(tmp_path):
    (tmp_path / "disk").mkdir()
    write(tmp_path / "disk" / "model", "old", folder=True)
    (tmp_path / "link").symlink_to("disk/model")
    with atomic_write(tmp_path / "link") as new:
        write(new, "new", folder=True)
    assert (tmp_path / "link").is_symlink() and read(tmp_path / "link") == "new"
    assert names(tmp_path / "disk") == ["model"]


def test_a_pipe_receives_the_content(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        with pytest.raises(ValueError), atomic_write(tmp_path / "pipe") as new:
            new.write_text("half")
            raise ValueError
        with atomic_write(tmp_path / "pipe") as new:
            new.write_text("all")
        assert os.read(reader, 100) == b"all"
    finally:
        os.close(reader)
    assert (tmp_path / "pipe").is_fifo() and names(tmp_path) == ["pipe"]


def test_a_device_receives_the_content():
    before = os.stat(os.devnull)
    with atomic_write(os.devnull) as new:
        new.write_text("away")
    after = os.stat(os.devnull)
    assert (after.st_mode, after.st_ino) == (before.st_mode, before.st_ino)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/dev/fd as on Linux")
@pytest.mark.parametrize("through_link", [False, True])
def test_an_open_file_receives_the_content_at_its_position(tmp_path, through_link):
    # As standard output that goes to a file: what was printed before must stay before.
    with open(tmp_path / "out", "wb", buffering=0) as out:
        out.write(b"before ")
        path = Path(f"/dev/fd/{out.fileno()}")
        if through_link:
            (tmp_path / "link").symlink_to(path)
            path = tmp_path / "link"
        with atomic_write(path) as new:
            new.write_text("scores ")
        out.write(b"after")
    assert read(tmp_path / "out") == "before scores after"


def full_disk_on_second_call():
    calls = []

    def to_disk(path):
        calls.append(path)
        if len(calls) == 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    return to_disk


def refuse_to_move(monkeypatch, path, number):
    """As the system does of a place where a disk is mounted."""
    move = os.replace

    def replace(old, new):
        if Path(old) == path:
            raise OSError(number, os.strerror(number), str(old))
        move(old, new)

    monkeypatch.setattr(os, "replace", replace)


def test_an_empty_folder_that_cannot_be_moved_is_filled(tmp_path, monkeypatch):
    path = tmp_path / "disk"
    path.mkdir()
    inode = path.stat().st_ino
    refuse_to_move(monkeypatch, path, errno.EBUSY)
    with atomic_write(path) as new:
        write(new, "new", folder=True)
        (new / "assets").mkdir()
    assert path.stat().st_ino == inode
    assert read(path) == "new" and names(path) == ["assets", "part"]
    assert names(tmp_path) == ["disk"]
    for part in path.iterdir():
        files.shutil.rmtree(part) if part.is_dir() else part.unlink()
    with pytest.raises(OSError), atomic_write(path) as new:
        put(new, "a", "b")
        monkeypatch.setattr(files, "_to_disk", full_disk_on_second_call())
    assert names(path) == []  # all parts, or none
    monkeypatch.undo()
    refuse_to_move(monkeypatch, path, errno.EBUSY)
    write_to = path / "part"
    write_to.write_text("new")
    (path / "assets").mkdir()
    with pytest.raises(UserError, match=r"Cannot replace .*disk \(Device or resource busy\)"):
        with atomic_write(path) as new:
            write(new, "newer", folder=True)
    assert read(path) == "new" and names(path) == ["assets", "part"]


def test_an_empty_folder_in_one_that_is_read_only_is_filled(tmp_path, monkeypatch):
    path, make = tmp_path / "disk", files.tempfile.mkdtemp
    path.mkdir()

    def temporary(dir, **options):
        if dir == tmp_path:
            raise PermissionError(errno.EACCES, "Permission denied", str(dir))
        return make(dir=dir, **options)

    monkeypatch.setattr(files.tempfile, "mkdtemp", temporary)
    check_writable("output", path, is_folder=True)
    with atomic_write(path) as new:
        write(new, "new", folder=True)
    assert read(path) == "new" and names(path) == ["part"]
    with pytest.raises(PermissionError), atomic_write(tmp_path / "other"):
        pytest.fail("began")


# The module alone, without the package, whose import takes seconds.
KILLED = """
import os, runpy, sys, types
sys.modules["keras_transformer"] = package = types.ModuleType("keras_transformer")
package.__path__ = [os.path.dirname({module!r})]
def die(*arguments):
    os.kill(os.getpid(), 9)
def first_alone(old, new):
    os.rename(old, new)
    os.replace = die
atomic_write = runpy.run_path({module!r})["atomic_write"]
with atomic_write({path!r}) as new:
    {make}
    new.write_text("half")
    {when}
"""


def write_and_be_killed(path, folder, when="die()"):
    make = "new.mkdir(); new /= 'part'" if folder else "pass"
    script = KILLED.format(module=files.__file__, path=str(path), make=make, when=when)
    process = subprocess.run([sys.executable, "-c", script], env=dict(os.environ))
    assert process.returncode == -signal.SIGKILL


@BOTH_KINDS
def test_a_killed_process_keeps_the_old_content(tmp_path, folder):
    path = tmp_path / "result"
    write(path, "old", folder)
    write_and_be_killed(path, folder)
    assert read(path) == "old"


# What killed processes leave


@pytest.mark.slow
@BOTH_KINDS
def test_leftovers_are_removed(tmp_path, folder):
    for path in (tmp_path / "run" / "result", tmp_path / "run" / "checkpoints" / "result"):
        path.parent.mkdir(parents=True)
        write_and_be_killed(path, folder)
        assert len(names(path.parent)) == 1
    remove_leftovers(tmp_path / "run")
    assert names(tmp_path / "run") == ["checkpoints"]
    assert names(tmp_path / "run" / "checkpoints") == []
    remove_leftovers(tmp_path / "none")


def test_files_being_written_are_not_leftovers(tmp_path):
    (tmp_path / ".mine.unfinished").touch()  # a user's file
    with atomic_write(tmp_path / "result") as new:
        new.write_text("new")
        remove_leftovers(tmp_path)
    assert read(tmp_path / "result") == "new"
    assert names(tmp_path) == [".mine.unfinished", "result"]


def test_a_move_interrupted_by_a_kill_is_completed(tmp_path):
    path = tmp_path / "result"
    write(path, "old", folder=True)
    write_and_be_killed(path, folder=True, when="os.replace = first_alone")
    assert not path.exists()
    remove_leftovers(tmp_path)
    assert read(path) == "half"  # whole in truth: the block had ended
    assert names(tmp_path) == ["result"]


@pytest.mark.parametrize("number", [errno.ENOTSUP, errno.ENOLCK])
def test_files_are_written_on_a_file_system_without_locks(tmp_path, monkeypatch, number):
    write_and_be_killed(tmp_path / "left", folder=False)

    def no_locks(handle, operation):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with atomic_write(tmp_path / "result") as new:
        new.write_text("new")
        remove_leftovers(tmp_path)  # they may be another process's, which is writing them
    assert read(tmp_path / "result") == "new" and len(names(tmp_path)) == 2
    lock_folder(tmp_path)  # not an error


def test_a_folder_that_is_being_written_is_not_a_leftover(tmp_path):
    with atomic_write(tmp_path / "result") as new:
        new.write_text("new")
        assert leftovers(tmp_path) == []
        remove_leftovers(tmp_path)
        assert new.exists()
    assert read(tmp_path / "result") == "new"


def test_an_interrupted_move_of_a_long_name_is_completed(tmp_path):
    path = tmp_path / ("名" * 85)
    write(path, "old", folder=True)
    write_and_be_killed(path, folder=True, when="os.replace = first_alone")
    assert len(leftovers(tmp_path)) == 1
    remove_leftovers(tmp_path)
    assert read(path) == "half" and names(tmp_path) == [path.name]


def test_a_temporary_folder_is_deleted_at_the_end_of_its_block(tmp_path):
    with temporary_folder(tmp_path / "new", "download") as folder:
        put(folder, "old", "other")
        assert leftovers(tmp_path / "new") == []
    assert names(tmp_path / "new") == []


# The module alone takes a lock, says so, and waits.
LOCKS = """
import os, runpy, sys, types
sys.modules["keras_transformer"] = package = types.ModuleType("keras_transformer")
package.__path__ = [os.path.dirname({module!r})]
lock = runpy.run_path({module!r})["lock_folder"]({path!r})
print("locked", flush=True)
input()
"""


def test_killing_a_process_releases_its_lock(tmp_path):
    path = tmp_path / "run"
    script = LOCKS.format(module=files.__file__, path=str(path))
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", script], **pipes) as process:
        assert process.stdout.readline() == b"locked\n"
        with pytest.raises(TimeoutError):
            lock_folder(path)
        process.kill()
    lock_folder(path).release()


def other_process_can_lock(folder):
    try:
        with FileLock(folder / ".lock", timeout=0):  # another open file, as in another process
            return True
    except TimeoutError:
        return False


def test_a_process_may_lock_a_folder_again(tmp_path):
    first = lock_folder(tmp_path / "run")
    (tmp_path / "link").symlink_to("run")
    again = lock_folder(tmp_path / "link")
    del first
    assert not other_process_can_lock(tmp_path / "run")
    del again
    assert other_process_can_lock(tmp_path / "run")
    lock = lock_folder(tmp_path / "run")
    lock.release()
    assert other_process_can_lock(tmp_path / "run")


def test_damaged_json_files_are_refused_by_path(tmp_path):
    path = tmp_path / "x.json"
    path.write_text('{"a": "ä"}', "utf-8")
    assert read_json(path) == {"a": "ä"}
    for damaged in (b"", b'{"a": ', b'"\xff"', b"[" * 100_000):
        path.write_bytes(damaged)
        with pytest.raises(UserError, match="x.json is damaged"):
            read_json(path)


def test_sibling_path_is_next_to_the_folder(tmp_path, monkeypatch):
    assert sibling_path(tmp_path / "en_de", "test.txt") == tmp_path / "en_de.test.txt"
    (tmp_path / "model").mkdir()
    monkeypatch.chdir(tmp_path / "model")
    assert sibling_path(".", "test.txt") == tmp_path / "model.test.txt"


def test_sibling_path_of_a_remote_folder_is_in_the_current_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert sibling_path("hf://user/en_de", "test.txt") == tmp_path / "en_de.test.txt"


def test_a_path_that_cannot_be_written_is_refused_before_the_work(tmp_path):
    file, folder = tmp_path / "file", tmp_path / "folder"
    file.touch()
    folder.mkdir()
    for path, reason in ((file / "a" / "b", "Not a directory"), (folder, "Is a directory")):
        with pytest.raises(UserError, match=f"Cannot write to {path}: {reason}. Pass.*`trees`"):
            check_writable("trees", path)
    for path in (file, folder / "new" / "newer", os.devnull):
        check_writable("trees", path)
    check_writable("output", folder, is_folder=True)
    assert sorted(tmp_path.rglob("*")) == [file, folder]
