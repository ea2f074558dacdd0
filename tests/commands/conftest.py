"""The fixture that runs commands."""

import io
import sys
from types import SimpleNamespace

import pytest

from keras_transformer.commands import main


def call(monkeypatch, command, *arguments, stdin=""):
    words = [*command.split(), *map(str, arguments)]
    data = stdin.encode() if isinstance(stdin, str) else stdin
    monkeypatch.setattr(sys, "argv", ["keras-transformer", *words])
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    main()


class Command:
    """Runs `keras-transformer WORDS` in this process. The first word may hold several.

    The result has what was printed: `out`, its `lines`, and `err`.
    """

    def __init__(self, monkeypatch, capsys):
        self._monkeypatch, self._capsys = monkeypatch, capsys

    def __call__(self, command, *arguments, stdin="", status=0):
        found = 0
        try:
            call(self._monkeypatch, command, *arguments, stdin=stdin)
        except SystemExit as stop:
            found = stop.code
        out, err = self._capsys.readouterr()
        assert found == status, err
        return SimpleNamespace(out=out, lines=out.splitlines(), err=err)

    def fails(self, command, *arguments, stdin=""):
        """Return what a command that ends with status 2 prints on standard error."""
        return self(command, *arguments, stdin=stdin, status=2).err


@pytest.fixture
def command(monkeypatch, capsys):
    return Command(monkeypatch, capsys)
