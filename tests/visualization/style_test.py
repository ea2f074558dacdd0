"""Letters of other scripts in matplotlib's pictures."""

import warnings
from types import SimpleNamespace

import pytest
from matplotlib import font_manager

from keras_transformer.visualization import style

pytestmark = pytest.mark.once
OWN = ["sans-serif"]


@pytest.fixture
def installed(monkeypatch):
    """Fonts that a machine might have, and the letters of each; what is opened is noted."""
    letters = {"bold": "狗猫", "plain": "狗", "both": "狗猫א", "Last Resort": "狗猫אꙮ"}
    weights = {"bold": 700}
    opened = []

    def letters_of(path):
        opened.append(path)
        return frozenset(map(ord, letters.get(path, "abcdefghij")))

    monkeypatch.setattr(style, "_letters", letters_of)
    entries = [
        SimpleNamespace(name=name, fname=name, style="normal", weight=weights.get(name, 400))
        for name in letters
    ]
    monkeypatch.setattr(font_manager, "findfont", lambda font: "own")
    monkeypatch.setattr(font_manager.fontManager, "ttflist", entries)
    return opened


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["dad", "bad"], []),
        (["a", "狗"], ["plain"]),
        (["猫狗"], ["plain", "both"]),
        (["א"], ["both"]),
        (["ꙮ"], []),
    ],
)
def test_fonts_that_have_what_the_first_lacks(texts, expected, installed):
    assert style.font_families(texts) == OWN + expected
    if not expected and texts != ["ꙮ"]:
        assert len(installed) == 1  # no font is opened that is not needed
    if "both" in expected:
        assert installed[-1] == "both"


def test_what_this_machine_has():
    """A letter is drawn by the font that has it, whatever fonts there are."""
    from matplotlib.figure import Figure

    with style.figure_style(families=style.font_families(["Größe", "собака"])):
        figure = Figure()
        figure.text(0.1, 0.5, "Größe собака")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            figure.canvas.draw()


def test_chinese_characters_are_two_columns_wide():
    assert [style.text_width(text) for text in ("", "dog", "狗", "▁狗a")] == [0, 3, 2, 4]
