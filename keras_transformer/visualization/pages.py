"""Self-contained HTML pages."""

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
    """Return an interactive page that shows the attention of words, by layer and head.

    Args:
        attention: an `Attention`.
        title: the title of the page.

    Returns:
        A string of HTML. It loads no other files, and follows the light or dark scheme of the
        reader's system. Weights are rounded to thousandths.
    """
    return page(title, [attention_section(attention)])


def page(title: str, sections: Iterable[str]) -> str:
    """Return an HTML page with the given sections, strings of HTML."""
    values = {"title": escape(title), "sections": "\n".join(sections)}
    return _filled("page.html", values)


def attention_section(attention: Attention) -> str:
    """Return the HTML section that shows an `Attention`."""
    kinds = {}
    for kind, name in KINDS.items():
        queries, keys, weights = attention.of_kind(kind)
        values = np.rint(1000 * weights).astype(int).tolist()
        kinds[kind] = {"title": name, "queries": queries, "keys": keys, "weights": values}
    data = {"colors": colors(attention.cross.shape[1]), "kinds": kinds}
    # "</" would end the script.
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    return _filled("attention.html", {"data": text})


def in_frame(html: str, height: int = 520) -> str:
    """Return a page in a frame for a notebook, which separates their styles and scripts."""
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
