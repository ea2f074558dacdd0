"""Pages of HTML that need nothing but themselves."""

import functools
import json
from collections.abc import Iterable
from html import escape
from pathlib import Path

import numpy as np

from keras_transformer.visualization.attention import KINDS, Attention
from keras_transformer.visualization.style import colors

_FOLDER = Path(__file__).parent


def attention_page(attention: Attention, title: str = "Attention") -> str:
    """A page to point at words in: which look at which, by layer and head.

    Args:
        attention: an `Attention`.
        title: its title.

    Returns:
        A string of HTML. It loads nothing from anywhere, and is light or dark as the reader's
        system is. Weights are rounded to thousandths.
    """
    return page(title, [attention_section(attention)])


def page(title: str, sections: Iterable[str]) -> str:
    """A page of sections, strings of HTML."""
    values = {"title": escape(title), "sections": "\n".join(sections)}
    return _filled("page.html", values)


def attention_section(attention: Attention) -> str:
    """The part of a page that shows an `Attention`: a string of HTML."""
    kinds = {}
    for kind, name in KINDS.items():
        queries, keys, weights = attention.of_kind(kind)
        values = np.rint(1000 * weights).astype(int).tolist()
        kinds[kind] = {"title": name, "queries": queries, "keys": keys, "weights": values}
    data = {"colors": colors(attention.cross.shape[1]), "kinds": kinds}
    # In a script, "</" would end it.
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    return _filled("attention.html", {"data": text})


def framed(html: str, height: int = 520) -> str:
    """A page as a part of a notebook, whose styles and scripts do not meet the notebook's."""
    grow = "this.style.height=this.contentDocument.documentElement.scrollHeight+'px'"
    return (
        f'<iframe srcdoc="{escape(html)}" onload="{grow}" '
        f'style="width:100%;height:{height}px;border:0"></iframe>'
    )


@functools.cache
def _template(name):
    return (_FOLDER / name).read_text("utf-8")


def _filled(name, values):
    text = _template(name)
    for key, value in values.items():
        text = text.replace("{{" + key + "}}", value)
    return text
