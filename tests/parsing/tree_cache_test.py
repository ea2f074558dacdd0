import os
import tempfile
import tracemalloc

import pytest
from nltk import Tree

from keras_transformer.errors import UserError
from keras_transformer.parsing.treebanks import TreeCache

pytestmark = pytest.mark.once


def trees(count):
    return (Tree("S", [Tree("CD", [f"{i}\u2028\x85é"])] * 20) for i in range(count))


def test_trees_are_what_they_were_in_every_pass():
    cache = TreeCache(trees(1000))  # several chunks
    assert len(cache) == 1000
    # Two passes at once, one of them ahead of the other.
    first, second = iter(cache), iter(cache)
    ahead = [next(first) for _ in range(700)]
    assert ahead == [next(second) for _ in range(700)] == list(trees(1000))[:700]
    assert list(first) == list(second) == list(trees(1000))[700:]


def test_fingerprint_is_of_all_trees_in_order():
    prints = {TreeCache(trees(count)).fingerprint for count in (0, 1, 2, 2)}
    prints.add(TreeCache(reversed(list(trees(2)))).fingerprint)
    assert len(prints) == 4 and list(TreeCache([])) == []


@pytest.mark.skipif(os.name != "posix", reason="elsewhere the file has a name while it is open")
def test_a_killed_process_could_leave_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    cache = TreeCache(trees(1000))
    assert len(cache) == 1000 and not list(tmp_path.iterdir())


@pytest.mark.slow
def test_memory_does_not_grow_with_the_trees():
    def peak(count):
        tracemalloc.start()
        for _ in TreeCache(trees(count)):
            pass
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    peak(10)
    assert peak(4000) < peak(1000) + 50_000  # 3,000 trees are 800 kB of text alone


def test_a_full_or_missing_temporary_folder_names_tmpdir(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda: open("/dev/full", "w+b"))
    with pytest.raises(UserError, match="No space left on device. Set TMPDIR"):
        TreeCache(trees(1000))
    monkeypatch.undo()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(UserError, match="No such file or directory. Set TMPDIR"):
        TreeCache(trees(1))
