"""Files of each format: their units, and what is written with translations."""

import re
import sys

import pytest

import keras_transformer as kt
from keras_transformer.documents import read_document, translate_file

pytestmark = pytest.mark.once
polib = pytest.importorskip("polib", reason="the extra `documents` is not installed")
pysubs2 = pytest.importorskip("pysubs2", reason="pysubs2 is not installed")
TAG = re.compile(r"(<[^<>]*>|&\w+;|`[^`]*`|\]\([^)]*\))")


def same(texts, markup=None):
    return list(texts)


def upper(texts, markup=None):
    """Translate into capitals, without tags, entities, code and the targets of links."""
    return ["".join(x if TAG.fullmatch(x) else x.upper() for x in TAG.split(t)) for t in texts]


def nothing(texts, markup=None):
    return [""] * len(texts)


@pytest.fixture
def translated(tmp_path):
    """Return a function that translates the content of a file, and returns the new content."""

    def run(suffix, content, translate=upper, **options):
        source, target = tmp_path / f"a{suffix}", tmp_path / f"b{suffix}"
        source.write_bytes(content if isinstance(content, bytes) else content.encode())
        run.report = translate_file(source, target, translate, **options)
        run.units = read_document(source).units
        return target.read_bytes() if isinstance(content, bytes) else target.read_bytes().decode()

    return run


TEXT = "  First line.\r\n\r\n\tSecond, 2nd \n***\nlast\u2028one"
MARKDOWN = """\
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
HTML = """\
<!DOCTYPE html><html><head><meta charset="utf-8"><title>My page</title>
<style>p > a {}</style><script>if (a<b) { x = "<p>no</p>"; }</script></head>
<body class='x'><p>A <b>black &amp; white</b> <i>dog</i><br>Next line
<ul><li><a href="?a=1&b=2" title="A &quot;tip&quot;">Link</a><li>Two <!-- kept --> words
<li translate="no">Not <b>this</b></li></ul><img src=x ALT='An image'>
<p>Press <kbd>Enter</kbd> or see <img alt="a key" src=y> 5 < 6 &nbsp; now<pre>  pre <b>x</b></pre>
<p><em>Unclosed <span>tags</em></span> here &copy; 2020</p></body></html>
"""
SUBRIP = """\
1
00:00:01,000 --> 00:00:02,500
{\\an8}<i>A dog runs through
the snow and</i>

2
00:00:02,600 --> 00:00:04,500
<i>then it sleeps & eats.</i>

3
00:00:05,000 --> 00:00:06,500
- Hi there!
- Hello, 
you.

4
00:00:06,600 --> 00:00:07,000
1984!
5
00:00:07,100 --> 00:00:08,000
No <b>blank</b> line before
"""
WEBVTT = """\
WEBVTT - a title

STYLE
::cue { color: white }

NOTE a comment
with words

intro
00:01.000 --> 00:02.000 align:start
<v Fred>Tom &amp; <c.loud>Jerry</c>
run <00:01.500>fast

00:10.000 --> 00:11.000
<v Ann>Hello</v>
"""
CATALOG = """\
# Translators, 2020
msgid ""
msgstr ""
"Language: pl\\n"
"Content-Type: text/plain; charset=UTF-8\\n"
"Plural-Forms: nplurals=3; plural=(n==1 ? 0 : n%10>=2 && n%10<=4 ? 1 : 2);\\n"

#. A note
#: a.py:1
#, c-format
#| msgid "old"
msgctxt "menu"
msgid "Open \\"%s\\"?\\n"
msgstr ""

#, fuzzy
msgid "Almost"
msgstr "prawie"
msgid "Done"
msgstr ""
"gotowe"

msgid "One file"
msgid_plural "%d files"
msgstr[0] ""
msgstr[1] ""
msgstr[2] ""

msgid "%d"
msgstr ""

#~ msgid "gone"
#~ msgstr ""
"""
XLIFF_1 = """\
<?xml version='1.0' encoding="UTF-8"?>
<!-- comment --><xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">
<file source-language='en' original="a" datatype="plaintext"><body>
  <trans-unit id="1">
    <source>Save <g id="1">all <x id="2"/></g> files<bpt id="3">&lt;b></bpt>!</source>
    <note>untouched</note>
  </trans-unit>
  <trans-unit id="2"><source>Done</source><target>Fertig</target></trans-unit>
  <trans-unit id="3"><source>Empty</source><target xml:lang="de" /></trans-unit>
  <trans-unit id="4" translate="no"><source>Never</source></trans-unit>
  <trans-unit id="5"><source><![CDATA[<p>Some <b>html</b>]]></source><target state="new">x</target>
  <alt-trans><source>alt</source><target>old</target></alt-trans></trans-unit>
</body></file></xliff>
"""
XLIFF_2 = """\
<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="en" trgLang="de">
<file id="f"><unit id="1"><segment><source>Press <pc id="1">OK</pc> or <mrk id="m" translate="no"
>Esc</mrk></source></segment><ignorable><source> </source></ignorable>
<segment state="final"><source>A</source><target>B</target></segment></unit></file></xliff>
"""
FILES = {
    **{".txt": TEXT, ".md": MARKDOWN, ".html": HTML, ".srt": SUBRIP, ".vtt": WEBVTT},
    **{".po": CATALOG, ".xlf": XLIFF_1, ".xliff": XLIFF_2},
}


@pytest.mark.parametrize("suffix", [".txt", ".md", ".html", ".srt", ".vtt"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_file_translated_into_itself_is_the_same_bytes(suffix, newline, encoding, translated):
    content = FILES[suffix].replace("\r\n", "\n").replace("\n", newline).encode(encoding)
    assert translated(suffix, content, same) == content


@pytest.mark.parametrize("suffix", [".po", ".xlf", ".xliff"])
def test_a_file_without_new_translations_is_the_same_bytes(suffix, translated):
    content = FILES[suffix].replace("\n", "\r\n").encode("utf-8-sig")
    assert translated(suffix, content, nothing) == content


def test_the_units_of_a_text_are_its_lines(translated):
    new = translated(".txt", TEXT)
    assert translated.units == ["First line.", "Second, 2nd", "last\u2028one"]
    assert new == "  FIRST LINE.\r\n\r\n\tSECOND, 2ND \n***\nLAST\u2028ONE"
    assert translated.report.skipped == {"without letters": 1}


def test_the_blocks_of_markdown_are_units(translated):
    new = translated(".md", MARKDOWN)
    assert translated.units == [
        *("A title", 'A paragraph over\ntwo `lines of code` with a [link](http://a.org "t").\n'
          "A hard break", "and more.", "quoted words\ngo on", "task", "item\ncontinued"),
        *("head", "b \\| c", "1 cell", "Underlined", "A footnote."),
    ]  # fmt: skip
    expected = MARKDOWN
    for unit in translated.units:
        for old, line in zip(unit.split("\n"), upper([unit])[0].split("\n")):
            expected = re.sub(
                rf"(?<!\w){re.escape(old)}(?!\w)", line.replace("\\", r"\\"), expected, count=1
            )
    assert new == expected
    assert translated.report.skipped["code and HTML blocks"] == 3


def test_a_markdown_translation_in_one_line_is_wrapped_like_its_source(translated):
    def one_line(texts, markup=None):
        return ["vier - worte 1. gehen weiter und # weiter bis zum ende"]

    new = translated(".md", "> quoted words go\n> on and on here\n", one_line)
    assert new == "> vier - worte 1.\n> gehen weiter\n> und # weiter\n> bis zum ende\n"


@pytest.mark.parametrize(
    ("translation", "expected"),
    [("1. Platz", "1\\. Platz\n"), ("- nein", "\\- nein\n"), ("# Nr", "\\# Nr\n"), ("-5", "-5\n")],
)
def test_a_markdown_translation_begins_no_other_block(translation, expected, translated):
    assert translated(".md", "word\n", lambda texts, markup: [translation]) == expected


def test_a_markdown_translation_without_its_link_is_not_used(translated):
    assert translated(".md", "a [b](c)\n", lambda texts, markup: ["a b"]) == "a [b](c)\n"
    assert translated.report.num_translated == 0


def test_the_blocks_and_attributes_of_html_are_units(translated):
    new = translated(".html", HTML)
    assert translated.units == [
        *("My page", "A <b>black &amp; white</b> <i>dog</i>", "Next line"),
        *("A &quot;tip&quot;", "Link", 'Two <ph id="1"/> words', "An image"),
        'Press <ph id="1"/> or see <ph id="2"/> 5 < 6 &nbsp; now',
        *("a key", "Unclosed", "tags", "here &copy; 2020"),
    ]
    for changed in (
        *(
            "<p>A <b>BLACK &amp; WHITE</b> <i>DOG</i><br>NEXT LINE\n<ul>",
            "<li>TWO <!-- kept --> WORDS",
        ),
        '<a href="?a=1&b=2" title="A &quot;TIP&quot;">LINK</a>',
        *("ALT='AN IMAGE'>", "<title>MY PAGE</title>", '<li translate="no">Not <b>this</b></li>'),
        'PRESS <kbd>Enter</kbd> OR SEE <img alt="A KEY" src=y> 5 < 6 &nbsp; NOW<pre>  pre <b>x',
        *('x = "<p>no</p>"', "<em>UNCLOSED <span>TAGS</em></span> HERE"),
    ):
        assert changed in new


@pytest.mark.parametrize("wrong", ["a <b>dog", "a dog", "<i>a</i> dog", "a</b> <b>dog"])
def test_html_with_other_tags_is_not_used(wrong, translated):
    content = "<p>a <b>dog</b> runs</p>"
    assert translated(".html", content, lambda texts, markup: [wrong]) == content
    assert translated.report.skipped == {"with other tags after translation": 1}


def test_html_translations_are_escaped(translated):
    new = translated(".html", '<p title="a">b</p>', lambda texts, markup: ['"x" & <', "y & <"])
    assert new == '<p title="&quot;x&quot; &amp; &lt;">y &amp; &lt;</p>'


def test_html_in_its_declared_encoding(translated):
    head = '<meta http-equiv=x content="text/html; charset=ISO-8859-1">'
    content = f"{head}<p>grün</p>".encode("latin-1")
    assert translated(".html", content) == f"{head}<p>GRÜN</p>".encode("latin-1")


def test_a_sentence_over_two_cues_is_one_unit(translated, tmp_path):
    new = translated(".srt", SUBRIP)
    assert translated.units == [
        "A dog runs through the snow and then it sleeps &amp; eats.",
        *("Hi there!", "Hello, you.", "No <b>blank</b> line before"),
    ]
    cues = pysubs2.load(str(tmp_path / "b.srt"))
    old = pysubs2.load(str(tmp_path / "a.srt"))
    assert [(cue.start, cue.end) for cue in cues] == [(cue.start, cue.end) for cue in old]
    assert [cue.plaintext.upper() for cue in old] == [cue.plaintext for cue in cues]
    assert "{\\an8}<i>A DOG RUNS THROUGH\nTHE SNOW AND</i>\n" in new
    assert "<i>THEN IT SLEEPS & EATS.</i>" in new and "- HELLO, \nYOU." in new


def test_a_translation_is_put_back_in_proportion_to_the_cues(translated):
    times = "00:00:0{0},000 --> 00:00:0{0},900\n"
    content = f"1\n{times.format(1)}one two three four\n\n2\n{times.format(2)}five six.\n"

    def german(texts, markup=None):
        assert texts == ["one two three four five six."]
        return ["<b>eins zwei drei vier</b> fünf sechs."]

    wrong = translated(".srt", content, german)
    assert wrong == content  # It has tags that the source lacks.
    new = translated(".srt", content, lambda texts, markup: ["aaa bbb ccc ddd eee fff."])
    assert new == content.replace("one two three four", "aaa bbb ccc ddd").replace(
        "five six.", "eee fff."
    )


def test_tags_over_two_cues_are_closed_in_each(translated):
    times = "00:00:0{0},000 --> 00:00:0{0},900\n"
    content = f"{times.format(1)}a <i>b c</i>\n\n{times.format(2)}d <b>e</b> f\n"
    new = translated(".srt", content, lambda texts, markup: ["<i>a <b>b c d</b></i> e f"])
    assert [line for line in new.split("\n") if ">" in line and "--" not in line] == [
        *("<i>a <b>b c</b></i>", "<i><b>d</b></i> e f"),
    ]


def test_lines_of_subtitles_are_wrapped_at_42_columns(translated):
    times = "00:00:01,000 --> 00:00:02,000\n"
    words = " ".join(["word"] * 14)  # 69 characters
    new = translated(".srt", f"{times}short\n", lambda texts, markup: [words])
    lines = new.split("\n")[1:-1]
    assert len(lines) == 2 and " ".join(lines) == words and max(map(len, lines)) <= 42
    chinese = translated(".srt", f"{times}short\n", lambda texts, markup: ["狗，" * 15])
    lines = chinese.split("\n")[1:-1]
    assert "".join(lines) == "狗，" * 15 and len(lines) == 2 and not lines[1].startswith("，")


def test_webvtt_keeps_voices_styles_and_times_in_cues(translated):
    new = translated(".vtt", WEBVTT)
    assert translated.units == ['Tom &amp; <c.loud>Jerry</c> run <ph id="1"/>fast', "Hello"]
    assert new == WEBVTT.replace("Tom", "TOM").replace("Jerry", "JERRY").replace(
        "run <00:01.500>fast", "RUN <00:01.500>FAST"
    ).replace("Hello", "HELLO")


def test_messages_without_a_translation_are_filled_and_fuzzy(translated, tmp_path):
    new = translated(".po", CATALOG)
    assert translated.units == ['Open "%s"?', "One file", "%d files"]
    assert translated.report.skipped == {
        "fuzzy": 1, "translated": 1, "without letters": 1, "obsolete": 1,
    }  # fmt: skip
    old, catalog = (polib.pofile(str(tmp_path / name)) for name in ("a.po", "b.po"))
    filled = catalog.find('Open "%s"?\n')
    assert filled.msgstr == 'OPEN "%S"?\n' and filled.flags == ["fuzzy", "c-format"]
    assert (filled.comment, filled.msgctxt, filled.previous_msgid) == ("A note", "menu", "old")
    plural = catalog.find("One file")
    assert plural.msgstr_plural == {0: "ONE FILE", 1: "%D FILES", 2: "%D FILES"} and plural.fuzzy
    others = [entry for entry in catalog if entry not in (filled, plural)]
    assert [str(entry) for entry in others] == [str(entry) for entry in old if entry in others]
    # Other lines are the same.
    assert {*new.splitlines()} >= {
        x for x in CATALOG.splitlines() if not x.startswith("msgstr[")
    } - {"#, c-format"}


def test_long_messages_are_wrapped_as_gettext_does(translated):
    header = CATALOG[: CATALOG.index("#. A note")]
    new = translated(".po", f'{header}msgid "a"\nmsgstr ""\n', lambda texts: ["wort " * 40])
    assert max(map(len, new.split("#, fuzzy")[1].splitlines())) <= 79


def test_segments_of_xliff_1_get_a_target(translated):
    new = translated(".xlf", XLIFF_1, target_lang="de")
    assert translated.units == [
        *('Save <g id="1">all <ph id="1"/></g> files<ph id="2"/>!', "Empty", "Some <b>html</b>"),
    ]
    state = 'state="needs-review-translation"'
    inner = 'SAVE <g id="1">ALL <x id="2"/></g> FILES<bpt id="3">&lt;b></bpt>!'
    expected = XLIFF_1.replace(
        "!</source>\n", f"!</source>\n    <target {state}>{inner}</target>\n"
    )
    expected = expected.replace(
        '<target xml:lang="de" />', f'<target xml:lang="de" {state}>EMPTY</target>'
    )
    expected = expected.replace(
        '<target state="new">x</target>',
        f"<target {state}><![CDATA[<p>SOME <b>HTML</b>]]></target>",
    )
    expected = expected.replace('datatype="plaintext"', 'datatype="plaintext" target-language="de"')
    assert new == expected
    assert translated.report.skipped == {"translated": 1, 'with translate="no"': 1}


def test_segments_of_xliff_2_get_a_target(translated):
    new = translated(".xliff", XLIFF_2, target_lang="de")
    source = 'PRESS <pc id="1">OK</pc> OR <mrk id="m" translate="no"\n>Esc</mrk>'
    assert new == XLIFF_2.replace(
        "<segment><", '<segment state="translated" subState="kt:needs-review"><'
    ).replace("</source></segment><i", f"</source><target>{source}</target></segment><i")


@pytest.mark.parametrize("suffix", [".md", ".po", ".xlf"])
def test_a_missing_library_is_named(suffix, tmp_path, monkeypatch):
    for module in ("polib", "lxml.etree", "markdown_it"):
        monkeypatch.setitem(sys.modules, module, None)
    (tmp_path / f"a{suffix}").write_text(FILES[suffix])
    with pytest.raises(kt.UserError, match="requires .*Install it: pip install .*`documents`"):
        read_document(tmp_path / f"a{suffix}")
