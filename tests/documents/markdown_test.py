"""Markdown: the units of each construct, and what is written with translations."""

import re
import sys

import pytest

import keras_transformer as kt
from keras_transformer.documents.markdown import Markdown, markdown_part
from keras_transformer.protection.spans import MarkedText

pytestmark = pytest.mark.once
markdown_it = pytest.importorskip("markdown_it", reason="the extra `documents` is not installed")

TEXT = """\
---
title: Not text
---
# A title #

A paragraph over
two `lines of code` with a [link](http://a.org "t").
A hard break\\
and more.

> quoted words
> go on

* [ ] task
* 1. item
     continued

| head | b \\| c |
|------|--------|
| 11   | 1 cell |

Underlined
==========

[ref]: http://a.org "Title"

```py
code = "fence"
```

    indented = code

<div>block</div>

[^1]: A footnote.
"""


def texts(source):
    return [unit.marked.text for unit in markdown_part(source).units]


def upper(source):
    part = markdown_part(source)
    new = [MarkedText(x.marked.text.upper(), x.marked.spans) for x in part.units]
    return part.rendered(new)


def replaced(source, *words, skipped=0):
    """Translate by replacing words."""
    part = markdown_part(source)
    new = []
    for unit in part.units:
        text, spans = unit.marked.text, unit.marked.spans
        for old, word in words:
            while old in text:
                place, size = text.index(old), len(old)
                moved = [(p + len(word) - size if p >= place + size else p, s) for p, s in spans]
                text, spans = text[:place] + word + text[place + size :], tuple(moved)
        new.append(MarkedText(text, spans))
    result = part.rendered(new)
    assert part.skipped["with other marks after translation"] == skipped
    return result


def same(source):
    part = markdown_part(source)
    return part.rendered([unit.marked for unit in part.units])


def skipped(source):
    return dict(+markdown_part(source).skipped)


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_a_text_translated_into_itself_is_the_same(newline):
    source = TEXT.replace("\n", newline)
    assert same(source) == source and same(source[: -len(newline)]) == source[: -len(newline)]


def test_blocks_are_units():
    assert texts(TEXT) == [
        *("A title", "A paragraph over\ntwo  with a link.\nA hard break", "and more."),
        *("quoted words\ngo on", "task", "item\ncontinued", "head", "b | c", "1 cell"),
        *("Underlined", "A footnote."),
    ]
    expected = TEXT
    for words in (
        *("A title", "A paragraph over", "two", "with a", "link", "A hard break", "and more."),
        *("quoted words", "go on", "task", "item", "continued", "head", "b", "c", "cell"),
        *("Underlined", "A footnote."),
    ):
        found = rf"(?<![\w/.]){re.escape(words)}(?!\w)(?! =)"
        expected = re.sub(found, words.upper(), expected, count=1)
    assert upper(TEXT) == expected
    assert skipped(TEXT) == {
        **{"in front matter": 1, "in code": 3, "in titles": 2, "in HTML": 1},
        "without letters": 1,
    }
