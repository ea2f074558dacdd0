"""Progress of what takes long: where somebody looks, and nowhere else."""

import sys
import time

import pytest

from keras_transformer import progress

pytestmark = pytest.mark.once


def look(monkeypatch, seconds=0):
    # (In a fixture, standard error is not yet the test's.)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr(progress, "_SECONDS_BEFORE", seconds)


def work():
    with progress.working("exporting"):
        time.sleep(1.2)
    assert list(progress.bar("reading", "trees", iterable=range(3))) == [0, 1, 2]


def test_what_is_done_and_for_how_long(monkeypatch, capsys):
    look(monkeypatch)
    work()
    output, errors = capsys.readouterr()
    assert not output
    assert "exporting: 00:0" in errors and "reading: " in errors and "trees" in errors
    assert errors.endswith("\r")  # the line is free again


def test_nothing_before_the_fifth_second(monkeypatch, capsys):
    look(monkeypatch, 5)
    work()
    assert capsys.readouterr() == ("", "")


def test_nothing_where_nobody_looks_or_wants_it(capsys, monkeypatch):
    monkeypatch.setattr(progress, "_SECONDS_BEFORE", 0)
    work()
    look(monkeypatch)
    with progress.progress_shown(False):
        work()
    assert capsys.readouterr() == ("", "")


def test_an_error_ends_it(monkeypatch):
    look(monkeypatch)
    with pytest.raises(ZeroDivisionError), progress.working("dividing"):
        1 / 0  # noqa: B018
