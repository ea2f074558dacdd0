"""Progress of what takes long: where somebody looks, and nowhere else."""

import logging
import os
import select
import sys
import time

import pytest

from keras_transformer import progress
from tests.helpers import wait_for

pytestmark = pytest.mark.once


def look(monkeypatch, seconds=0):
    # (In a fixture, standard error is not yet the test's.)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr(progress, "_SECONDS_BEFORE", seconds)


def work(until=None):
    """Work until a condition holds, or for a second."""
    with progress.spinner("exporting"):
        wait_for(until) if until else time.sleep(1)
    assert list(progress.bar("reading", "trees", iterable=range(3))) == [0, 1, 2]


@pytest.mark.parametrize("has_log", [False, True])
def test_messages_are_printed_once_and_only_for_a_verbose_call(monkeypatch, capsys, has_log):
    package, received = logging.getLogger("keras_transformer"), []
    log = logging.Handler()
    log.emit = received.append
    monkeypatch.setattr(logging.getLogger(), "handlers", [log] if has_log else [])
    for verbose in (True, False):
        with progress.messages_shown(verbose):
            assert progress.is_wanted() == verbose
            package.info("of a verbose call" if verbose else "of a silent one")
    package.info("after them")
    assert [record.getMessage() for record in received] == ["of a verbose call"] * has_log
    assert capsys.readouterr().err == "" if has_log else "of a verbose call\n"


def test_the_spinner_shows_a_description_and_the_time(monkeypatch, capsys):
    look(monkeypatch)
    work(lambda: "exporting: 00:0" in sys.stderr.getvalue())
    output, errors = capsys.readouterr()
    assert not output
    assert "exporting: 00:0" in errors and "reading: " in errors and "trees" in errors
    assert errors.endswith("\r")  # the line is free again


def test_nothing_is_shown_in_the_first_five_seconds(monkeypatch, capsys):
    look(monkeypatch, 5)
    work()
    assert capsys.readouterr() == ("", "")


@pytest.mark.skipif(sys.platform == "win32", reason="it has no pseudo-terminals")
def test_a_terminal_of_zero_columns_shows_the_bar(monkeypatch):
    import pty

    reader, terminal = pty.openpty()
    assert os.get_terminal_size(terminal).columns == 0
    with os.fdopen(terminal, "w") as file:
        monkeypatch.setattr(sys, "stderr", file)
        monkeypatch.setattr(progress, "_SECONDS_BEFORE", 0)
        with progress.bar("reading", "trees", total=8) as bar:
            bar.update(4)
            bar.refresh()
        assert select.select([reader], [], [], 5)[0]
        shown = os.read(reader, 10_000).decode()
    os.close(reader)
    assert "reading:  50%" in shown and "4/8" in shown


def test_without_a_terminal_a_line_is_logged_each_minute(capsys, monkeypatch, caplog):
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    with caplog.at_level("INFO", "keras_transformer"):
        with progress.bar("reading", "trees", 5000) as bar:
            for seconds in (59, 1, 59, 1, 3600):
                now[0] += seconds
                bar.update(1000)
        assert list(progress.bar("reading", "trees", iterable="abc")) == [*"abc"]
        with progress.progress_shown(False):
            bar.update()
            now[0] += 99
            bar.update()
    assert caplog.messages == [
        "reading: 2,000 of 5,000 trees, 1:00",
        "reading: 4,000 of 5,000 trees, 2:00",
        "reading: 5,000 of 5,000 trees, 62:00",
    ]
    assert capsys.readouterr() == ("", "")


def test_without_a_terminal_a_long_call_is_logged(monkeypatch, caplog):
    monkeypatch.setattr(progress, "_SECONDS_BETWEEN_LINES", 0.01)
    with caplog.at_level("INFO", "keras_transformer"), progress.spinner("exporting"):
        wait_for(lambda: caplog.messages)
    assert caplog.messages[0] == "exporting, 0:00"


def test_disabled_progress_shows_and_logs_nothing(capsys, monkeypatch):
    monkeypatch.setattr(progress, "_SECONDS_BEFORE", 0)
    work()
    look(monkeypatch)
    with progress.progress_shown(False):
        work()
    assert capsys.readouterr() == ("", "")


def test_an_error_ends_the_progress(monkeypatch):
    look(monkeypatch)
    with pytest.raises(ZeroDivisionError), progress.spinner("dividing"):
        1 / 0  # noqa: B018
