"""Markdown: the units of each construct, and what is written with translations."""

import html
import re
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_transformer.documents import translate_file
from keras_transformer.documents.markdown import Markdown, markdown_part
from keras_transformer.protection.spans import MarkedText
from tests.helpers import error_of

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
            if old in text:
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


def test_nested_emphasis_is_nested_pairs():
    (unit,) = markdown_part("***A dog** runs* ~~fast~~").units
    assert unit.marked.text == "A dog runs fast"
    assert [(place, span.kind, span.raw) for place, span in unit.marked.spans] == [
        *((0, "open", "*"), (0, "open", "**"), (5, "close", "**"), (10, "close", "*")),
        *((11, "open", "~~"), (15, "close", "~~")),
    ]
    partners = [span.partner for _, span in unit.marked.spans]
    assert [unit.marked.spans[i][1] for i in (3, 2, 1, 0)] == partners[:4]


def test_links_keep_the_labels_that_they_are_found_by():
    source = "See [dog], [the cat][c], [cow][] and ![a *big* fox](f.png 'x').\n"
    labels = "\n[dog]: d\n[c]: c\n[cow]: w\n"
    words = [("dog", "Hund"), ("the cat", "die Katze"), ("cow", "Kuh"), ("fox", "Fuchs")]
    assert replaced(source + labels, *words) == (
        "See [Hund][dog], [die Katze][c], [Kuh][cow] and ![a *big* Fuchs](f.png 'x').\n" + labels
    )
    # A link whose text stays is written as it was.
    assert replaced(source + labels, ("See", "Siehe")) == source.replace("See", "Siehe") + labels


def test_the_text_of_an_image_is_text():
    assert texts("A man ![a dog](d.png) with") == ["A man a dog with"]
    assert upper("A man ![a dog](d.png)") == "A MAN ![A DOG](d.png)"


def test_marks_that_hold_no_words_are_one_span():
    source = "a [![](i)](b) c [`code`](d) <kbd>Esc <b>x</b></kbd> ![](e) z"
    (unit,) = markdown_part(source).units
    assert [(span.kind, span.raw) for _, span in unit.marked.spans] == [
        *(("separator", "[![](i)](b)"), ("placeholder", "[`code`](d)")),
        *(("placeholder", "<kbd>Esc <b>x</b></kbd>"), ("separator", "![](e)")),
    ]
    assert skipped(source) == {"in code": 2}


def test_tags_are_pairs_within_the_pairs_of_markdown():
    (unit,) = markdown_part("<b>a</b> *<i>b* c</i> <br> d<!-- e --> <u>f").units
    assert [(span.kind, span.raw) for _, span in unit.marked.spans] == [
        *(("open", "<b>"), ("close", "</b>"), ("open", "*"), ("mark", "<i>"), ("close", "*")),
        *(("mark", "</i>"), ("separator", "<br>"), ("mark", "<!-- e -->"), ("mark", "<u>")),
    ]


@pytest.mark.parametrize(
    "source",
    [
        "$$\na^2 + b^2 = c^2\n$$\n",
        "$$a_b$$\n",
        "\\[\na^2\n\\]\n",
        "\\begin{align}\na &= b\n\\end{align}\n",
        "<!-- a comment -->\n",
        "[a]: http://b.org\n",
        "`code`, <https://a.org/b> https://c.org/d, $x$ e@f.org\n",
        ":::note\n:::\n",
        "> [!NOTE]\n",
        "!!! note\n",
    ],
)
def test_code_and_data_are_not_units(source):
    assert texts(source) == [] and same(source) == source


def test_formulas_and_addresses_are_placeholders():
    source = "Let $a_b$, $$x$$ or \\(a_b\\) be a dog of https://a.org/b_(c). It costs $5 to $6."
    assert texts(source) == ["Let ,  or  be a dog of . It costs $5 to $6."]
    assert skipped(source) == {"in math": 3}
    assert replaced(source, ("dog", "Hund")) == source.replace("dog", "Hund")


def test_containers_are_kept_around_their_text():
    source = (
        ':::note\nTwo men sit.\n:::\n\n::: tip A title\nRun\n:::\n\n!!! info "Words"\n    More\n'
    )
    assert texts(source) == ["Two men sit.", "Run", "Words", "More"]
    assert upper(source) == (
        ':::note\nTWO MEN SIT.\n:::\n\n::: tip A title\nRUN\n:::\n\n!!! info "WORDS"\n    MORE\n'
    )
    assert skipped(source) == {"in titles": 1}
    source = "> [!NOTE]\n> Two men\n\nTerm\n: Definition\n"
    assert texts(source) == ["Two men", "Term", "Definition"]


def test_a_line_before_text_is_not_front_matter():
    assert texts("---\n\nTwo men sit.\n\n---\n\nA dog\n") == ["Two men sit.", "A dog"]
    assert texts("---\nTwo men sit.\n---\nA dog\n") == ["Two men sit.", "A dog"]
    for source in ("---\ntitle: A\nlist:\n- b\n---\nA dog\n", "+++\ntitle = 'A'\n+++\nA dog\n"):
        assert texts(source) == ["A dog"] and skipped(source) == {"in front matter": 1}


def test_cells_that_have_no_column_are_counted():
    source = "| a | b |\n|-|-|\n| c | d | e |\n| f\n"
    assert texts(source) == ["a", "b", "c", "d", "f"]
    assert skipped(source) == {"in surplus cells": 1}
    assert upper("| a \\| `b\\|c` | d |\n|-|-|\n") == "| A \\| `b\\|c` | D |\n|-|-|\n"
    assert replaced("| a | d |\n|-|-|\n", ("a", "x|y")) == "| x\\|y | d |\n|-|-|\n"


def test_lines_are_only_broken_in_text():
    source = (
        "[A girl](<my file with spaces.html> 'a title here')\n"
        "eats an `apple and pear` <b title='x y'>now</b>.\n"
    )
    new = replaced(source, ("\n", " "), ("A girl", "Ein Maedchen isst"))
    assert new == (
        "[Ein Maedchen\nisst](<my file with spaces.html> 'a title here')\n"
        "eats an `apple and pear` <b title='x y'>now</b>.\n"
    )


def test_a_translation_in_one_line_is_wrapped_like_its_source():
    part = markdown_part("> quoted words go\n> on and on here\n")
    new = MarkedText("vier - worte 1. gehen weiter und # weiter bis zum ende")
    assert (
        part.rendered([new])
        == "> vier - worte 1.\n> gehen weiter\n> und # weiter\n> bis zum ende\n"
    )
    assert replaced("- a b\n  c d\n", ("b\n", "b ")) == "- a b\n  c d\n"


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        *(("1. Platz", "1\\. Platz"), ("- nein", "\\- nein"), ("# Nr", "\\# Nr"), ("-5 m", "-5 m")),
        *(("+ x", "\\+ x"), ("> x", "\\> x"), ("a * b * c", "a * b * c"), ("*b*", "\\*b\\*")),
        *(("<b>", "\\<b>"), ("&lt;", "\\&lt;"), ("a_b_c", "a_b_c"), ("_b_", "\\_b\\_")),
        *(("[b](c)", "&#91;b\\](c)"), ("`b`", "\\`b\\`"), ("\\*b", "\\\\\\*b"), ("$b$", "\\$b\\$")),
        *(("[b]: c", "&#91;b\\]: c"), ("x@b.org", "x\\@b.org"), ("http://b.c", "http\\://b.c")),
        *(("a ~~b~~", "a \\~\\~b\\~\\~"), ("[word]", "&#91;word\\]"), ("::: note", "\\::: note")),
    ],
)
def test_characters_that_would_be_marks_are_escaped(new, expected):
    source = "word\n\n[word]: x\n"
    part = markdown_part(source)
    assert part.rendered([MarkedText(new)]) == f"{expected}\n\n[word]: x\n"
    assert markdown_part(f"{expected}\n\n[word]: x\n").units[0].marked.text == new


def test_escaped_brackets_around_addresses_and_boxes_stay_text():
    source = "* \\[ ] Add &lt;a@b.org&gt;\n\n> \\[!NOTE]\n> b\n"
    new = replaced(source, ("Add", "Neu"), ("b", "c"))
    assert new == "* &#91; \\] Neu \\<a@b.org>\n\n> &#91;!NOTE\\]\n> c\n"
    assert texts(new) == ["[ ] Neu <>", "[!NOTE]\nc"]


def test_a_heading_keeps_its_last_characters():
    assert replaced("# Learn C #\n", ("C", "C #")) == "# Learn C \\# #\n"


def test_a_translation_whose_marks_would_be_others_is_not_used():
    source = "a **b** c\n"
    part = markdown_part(source)
    ((_, first), (_, last)) = part.units[0].marked.spans
    for text, places in (("a  b c", (2, 3)), ("a b", (3, 3)), ("a bc", (2, 2))):
        spans = ((places[0], first), (places[1], last))
        assert part.rendered([MarkedText(text, spans)]) == source
    assert part.rendered([MarkedText("a b", ())]) == source
    assert part.skipped["with other marks after translation"] == 4


def test_hard_breaks_end_a_unit_outside_of_pairs():
    source = "A dog  \nruns *fast\\\nhome* and\nsleeps\\\nwell\n"
    assert texts(source) == ["A dog", "runs fasthome and\nsleeps", "well"]
    assert upper(source) == source.upper()
    assert replaced(source, ("A dog", "*A* `dog"), ("well", "w`ell")) == source.replace(
        "A dog", "\\*A\\* \\`dog"
    ).replace("well", "w\\`ell")


def test_lazy_lines_tabs_and_nested_blocks_keep_their_beginnings():
    source = "> a b\nc\n> - d\n>\te\n\n1) f\n\n   > g\n   h\n\n10. i\n\n\tj\n    k\n"
    assert upper(source) == source.upper()


def test_a_text_that_no_block_holds_is_counted():
    source = "> " * 70 + "deep\n"
    assert texts(source) == [] and skipped(source) == {"outside of blocks": 1}


@pytest.mark.parametrize("text", ["[", "![", "*", "_", "`", "<", ">", ":", "[a][", "_<?_<", "**a"])
def test_a_long_text_of_marks_takes_time_in_proportion(text):
    times = []
    for size in (5_000, 20_000):
        start = time.process_time()
        same(f"x {text * (size // len(text))}\n")
        times.append(time.process_time() - start)
    assert times[1] < 9 * times[0] + 0.2


def test_a_block_that_is_too_long_is_refused():
    assert "line 3: a text of 100,0" in error_of(markdown_part, "a\n\n" + "b\n" * 50_010)
    assert "line 2: a line of over" in error_of(markdown_part, "a\n" + "b" * 100_001)


def test_the_missing_library_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "mdit_py_plugins", None)
    assert "Install it: pip install mdit-py-plugins" in error_of(markdown_part, "a")


def test_the_bytes_around_texts_stay(tmp_path):
    path = tmp_path / "a.md"
    for encoding in ("utf-8", "utf-8-sig", "utf-16"):
        path.write_bytes(TEXT.replace("\n", "\r\n").encode(encoding))
        document = Markdown(path)
        document.render(document.units, tmp_path / "b.md")
        assert (tmp_path / "b.md").read_bytes() == path.read_bytes()


INLINE = st.sampled_from(
    [
        *(
            "word",
            "a b",
            "*em*",
            "**strong** x",
            "***A** b*",
            "~~gone~~",
            "`code x`",
            "\\*",
            "&amp;",
        ),
        *(
            '[link](u "t")',
            "[dog]",
            "[dog][]",
            "[text][dog]",
            "![alt *x*](s)",
            "<b>bold</b>",
            "<br>",
        ),
        *(
            "<http://a.b/c>",
            "https://a.b/c",
            "$x_y$",
            "\\(z\\)",
            "[^1]",
            "snake_case",
            "5 * 3",
            "<u>",
        ),
        *(
            "a  \nb",
            "a\\\nb",
            "c\nd",
            "<!-- e -->",
            "[<i>f</i> `g`](<h i>)",
            "1. j",
            "- k",
            "x@y.zz",
        ),
    ]
)
PROSE = st.lists(INLINE, min_size=1, max_size=5).map(" ".join)
LINE = PROSE.map(lambda text: re.sub(r"\s+", " ", text))
BLOCK = st.one_of(
    PROSE.map(lambda text: f"p {text}"),
    LINE.map(lambda text: f"## {text} ##"),
    PROSE.map(lambda text: f"s {text}\n==="),
    PROSE.map(lambda text: "> q " + text.replace("\n", "\n> ")),
    PROSE.map(lambda text: "> q " + text),
    PROSE.map(lambda text: "* [ ] l " + text.replace("\n", "\n  ") + "\n  1. m"),
    LINE.map(lambda text: f"| h | {text} |\n|---|:-:|\n| `a\\|b` | c \\| {text} | e |"),
    LINE.map(lambda text: f"t {text}\n: d {text}"),
    PROSE.map(lambda text: "[^1]: f " + text.replace("\n", "\n    ")),
    LINE.map(lambda text: f":::note\n{text}\n:::"),
    st.sampled_from(
        ["```\ncode\n```", "    code", "<div>\nx\n</div>", "$$\ny\n$$", "***", "<!--x-->"]
    ),
)
FRONT = st.sampled_from(["", "---\ntitle: x\n---\n", "---\n\n"])
NEWLINE = st.sampled_from(["\n", "\r\n"])


@st.composite
def documents(draw):
    blocks = "\n\n".join(draw(st.lists(BLOCK, min_size=1, max_size=5)))
    text = f"{draw(FRONT)}{blocks}\n\n[dog]: e 'T'{draw(st.sampled_from(['', chr(10)]))}"
    return text.replace("\n", draw(NEWLINE))


@settings(max_examples=150, deadline=None)
@given(documents())
def test_documents_keep_their_structure(source):
    assert same(source) == source
    part = markdown_part(source)
    new = [MarkedText(x.marked.text.upper(), x.marked.spans) for x in part.units]
    result = part.rendered(new)
    assert part.skipped["with other marks after translation"] == 0
    assert [x.marked.text for x in markdown_part(result).units] == [
        text.upper() for text in texts(source)
    ]
    # Another reader, without extensions, sees the same but for letters.
    reader = markdown_it.MarkdownIt("commonmark").enable(["table", "strikethrough"])
    old, new = (" ".join(html.unescape(reader.render(x)).lower().split()) for x in (source, result))
    assert old == new


def test_a_word_before_a_mark_of_a_note_is_translated(tmp_path):
    (tmp_path / "a.md").write_text("A dog[^1]. A cat[^1]\n\n[^1]: A note\n")
    translate_file(tmp_path / "a.md", tmp_path / "b.md", lambda texts: [x.upper() for x in texts])
    expected = "A DOG[^1]. A CAT[^1]\n\n[^1]: A NOTE\n"
    assert (tmp_path / "b.md").read_text() == expected
