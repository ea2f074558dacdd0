"""HTML and XHTML: events, units, encodings, and the declared language."""

import contextlib
import html
import json
import os
import re
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_transformer.documents import read_document
from keras_transformer.documents.document import byte_order_mark
from keras_transformer.documents.html_document import declared_encoding, html_part, xhtml_part
from keras_transformer.documents.html_events import html_events
from keras_transformer.errors import UserError
from keras_transformer.protection.spans import MarkedText
from tests.documents.translators import upper_unit

html5lib = pytest.importorskip("html5lib", reason="html5lib is not installed")
pytestmark = pytest.mark.once
CASES = Path(os.environ.get("KERAS_TRANSFORMER_DATA", "no data")) / "html5lib"
needs_cases = pytest.mark.skipif(not CASES.exists(), reason="needs html5lib's cases")


def units(text, read=html_part):
    return [str(unit.marked) for unit in read(text).units]


def skipped(text, read=html_part):
    return dict(+read(text).skipped)


def upper(text, read=html_part):
    part = read(text)
    assert part.rendered([unit.marked for unit in part.units]) == text
    return part.rendered([upper_unit(unit.marked) for unit in part.units])


@pytest.fixture
def translated(tmp_path):
    """Return a function that writes the content of a file in upper case."""

    def run(content, suffix=".html", change=upper_unit, languages=(), **options):
        path, new = tmp_path / f"a{suffix}", tmp_path / f"b{suffix}"
        path.write_bytes(content)
        document = read_document(path, **options)
        document.render([change(unit) for unit in document.units], new, *languages)
        return new.read_bytes()

    return run


# --- events


def as_standard(text):
    """Return the events of a text in the form of html5lib's cases."""
    tokens = []
    for event in html_events(text):
        raw = text[event.start : event.stop]
        if event.kind == "text" or raw.startswith("&"):
            digits = raw[2:].rstrip(";")
            value = event.text or chr(int(digits.lstrip("xX"), 16 if digits[0] in "xX" else 10))
            if tokens and tokens[-1][0] == "Character":
                value = tokens.pop()[1] + value
            tokens.append(["Character", value])
        elif event.kind == "end":
            tokens.append(["EndTag", event.name])
        elif event.kind != "other":
            values = {name: value.value for name, value in event.attributes.items()}
            is_closed = [True] * (event.kind == "empty" and raw.endswith("/>"))
            tokens.append(["StartTag", event.name, values, *is_closed])
        elif re.match("<!doctype", raw, re.IGNORECASE):
            tokens.append(["DOCTYPE"])
        elif raw.startswith("<!--"):
            content = re.sub(r"^<!--(-?>|-?\Z)?|(--!?>|--!?\Z|-\Z)$", "", raw)
            tokens.append(["Comment", content])
        elif raw != "</>" and not re.match("</?[A-Za-z]", raw):
            tokens.append(["Comment", raw[1 + (raw[1] in "!/") :].removesuffix(">")])
    return tokens


def normal(value):
    """Return a token as events have it: with one line end, and U+FFFD for NUL."""
    text = json.dumps(value).replace("\\r\\n", "\\n").replace("\\r", "\\n")
    token = json.loads(text.replace("\\u0000", "\\ufffd"))
    return token[:1] if token[0] == "DOCTYPE" else token


ELEMENTS = {
    **{"PLAINTEXT state": ["plaintext"], "RCDATA state": ["title", "textarea"]},
    **{"RAWTEXT state": ["style", "xmp"], "Script data state": ["script"], "Data state": [""]},
}


def standard_cases():
    """Yield the input and the tokens of each case, in a state that a page can reach."""
    for path in sorted(CASES.glob("tokenizer/*.test")):
        for case in json.loads(path.read_text()).get("tests", ()):
            if case.get("doubleEscaped"):
                case["input"] = re.sub(r"\\u(....)", lambda x: chr(int(x[1], 16)), case["input"])
                case["output"] = json.loads(json.dumps(case["output"]).replace("\\\\u", "\\u"))
            for state in case.get("initialStates", ["Data state"]):
                last = case.get("lastStartTag")
                if names := ELEMENTS.get(state):
                    name = last if last in names else names[0]
                    content, tokens = case["input"], case["output"]
                    if last and last != name:
                        content = re.sub(last, name, content, flags=re.IGNORECASE)
                        tokens = json.loads(re.sub(last, name, json.dumps(tokens), flags=re.I))
                    yield f"<{name}>{content}" if name else content, tokens, bool(name)


@needs_cases
def test_events_follow_the_html_standard():
    # Not compared: the contents of declarations, and CDATA sections of SVG, which are one event.
    cases = list(standard_cases())
    assert len(cases) == 6976
    for content, tokens, has_element in cases:
        found = [normal(token) for token in as_standard(content)[has_element:]]
        assert found == list(map(normal, tokens)), content


@pytest.mark.parametrize(
    "piece",
    ["<!", "<!-", "<!--", "<!-->", "<a ", "<a b='", "</", "</a", "&", "&#1", "&a", "&ampa", "<p>",
     "<svg>", "<svg><desc>", "</svg>", "<title>", "<script><!--", "<![CDATA[", "<p><div>", "<code>",
     "<li translate=no>", "<b></i>", "<code><p>", "<td></div>", "<a =", "<button><p>", "<pre>a"],
)  # fmt: skip
def test_the_time_for_a_page_is_linear_in_its_length(piece):
    def seconds(size):
        start = time.process_time()
        with contextlib.suppress(UserError):  # A text can be too long for a unit.
            html_part(piece * (size // len(piece)))
        return time.process_time() - start

    assert seconds(400_000) < 10 * max(seconds(100_000), 0.05)


def test_a_reference_without_a_character_keeps_its_form():
    events = [(x.kind, x.text) for x in html_events("a&amp;b &notit; &#1;")]
    assert events == [
        *(("text", "a"), ("text", "&"), ("text", "b "), ("text", "¬"), ("text", "it; ")),
        ("other", ""),
    ]


def test_ampersands_in_addresses_are_not_references():
    (event,) = html_events('<a title="?a=1&copy=2&lt;&copy">')
    assert event.get("title") == "?a=1&copy=2<©"


def test_a_number_of_thousands_of_digits_is_kept():
    assert upper(f"a &#{'1' * 5000}; b") == f"A &#{'1' * 5000}; B"


# --- units


def test_blocks_titles_and_attributes_are_units():
    page = (
        "<!DOCTYPE html><title>My &amp; page</title><style>p > a {}</style>"
        "<script>if (a<b) { x = '<p>no</p>'; }</script>"
        "<p>A <b>black &lt; white</b> <i>dog</i><br>Next line"
        '<ul><li><a title="A &quot;tip&quot;">Link</a><li>Two <!-- kept --> words</ul>'
        "<img src=x ALT='An image'>"
    )
    assert [unit.marked.text for unit in html_part(page).units] == [
        *("My & page", "A black < white dog", "Next line", 'A "tip"', "Link", "Two  words"),
        "An image",
    ]
    assert skipped(page) == {"in style": 1, "in script": 1}
    new = upper(page)
    assert "<TITLE" not in new and "<b>BLACK &lt; WHITE</b> <i>DOG</i><br>NEXT LINE<ul>" in new
    assert '"A &quot;TIP&quot;">LINK</a><li>TWO <!-- kept --> WORDS</ul>' in new
    assert "ALT='AN IMAGE'>" in new and "x = '<p>no</p>'" in new


@pytest.mark.parametrize(
    ("text", "expected"),
    [("a < b", "A &lt; B"), ("a &lt; b", "A &lt; B"), ("1 < 2 & a", "1 &lt; 2 &amp; A"),
     ("a <3", "A &lt;3"), ("a</", "A&lt;/"), ("a & b &c", "A &amp; B &amp;C")],
)  # fmt: skip
def test_characters_outside_of_markup_are_text(text, expected):
    assert upper(text) == expected


@pytest.mark.parametrize("text", ["a <b and c", "a <b c='>", "a <!-- b", "a <!b"])
def test_tags_and_comments_without_an_end_are_kept_and_counted(text):
    assert upper(text) == "A" + text[1:]
    assert skipped(text) == {"in a tag or comment without an end": 1}


KEPT = ["code", "iframe", "kbd", "math", "noembed", "noframes", "pre", "samp", "script", "style",
        "svg", "template", "textarea", "var", "xmp"]  # fmt: skip


@pytest.mark.parametrize("name", KEPT)
def test_code_scripts_and_pictures_are_kept_and_counted(name):
    text = f"<p>a <{name} title='t'>word</{name}> b</p>"
    assert upper(text) == f"<p>A <{name} title='T'>word</{name}> B</p>"
    assert skipped(text) == {f"in {name}": 1}


def test_text_after_plaintext_is_kept_and_counted():
    """It has no references, in which other text is written."""
    text = "<p>a<plaintext>b & <i>c</i></plaintext> d"
    assert upper(text) == text.replace("a<", "A<", 1)
    assert skipped(text) == {"in plaintext": 1}


def test_nested_elements_are_counted_once():
    assert skipped("<pre>a <code>b</code></pre><p translate=no>a <kbd>b</kbd>") == {
        "in pre": 1,
        'with translate="no"': 1,
    }


def test_the_innermost_translate_decides():
    text = '<div translate="no">a<p translate="yes">b <i translate=no>c</i></p>d</div>'
    assert upper(text) == text.replace("b", "B", 1)
    assert upper("<code translate=yes>a</code>") == "<code translate=yes>A</code>"


@pytest.mark.parametrize(
    ("name", "is_kept"),
    [("notranslate", True), ("a notranslate\nb", True), ("notranslate-me", False),
     ("my-notranslate", False), ("NoTranslate", False)],
)  # fmt: skip
def test_the_class_notranslate_is_a_whole_word(name, is_kept):
    text = f"<div class='{name}'>dog</div>"
    assert (upper(text) == text) == is_kept
    assert skipped(text) == ({"with class notranslate": 1} if is_kept else {})


@pytest.mark.parametrize(
    "text",
    ["<p translate=no>a<p>B", "<ul><li translate=no>a<li>B</ul>", "<div><p translate=no>a</div>B",
     "<dl><dt translate=no>a<dd>B</dl>", "<table><tr><td translate=no>a<td>B<tr><td>B</table>",
     "<table><tr><td translate=no>a</div>b<td>B</table>", "<p translate=no>a<ul><li>B</ul>",
     "<select><option translate=no>a<option>B</select>", "<a translate=no>a<a>B</a>",
     "<p>B<div class=notranslate>a</p>a</div>B", "<ul><li translate=no>a<ul><li>a</ul>a<li>B</ul>"],
)  # fmt: skip
def test_elements_without_end_tags_end_by_the_standard(text):
    assert upper(text.replace("B", "b")) == text


@pytest.mark.parametrize(
    "text",
    ["<p><code>a<p>B", "<code>a <b>c</b><div>B</div>B", "<div><span translate=no>a<p>B</p>B</div>",
     "<li><kbd>a<var>c<li>B", "<svg><path><p>B", "<p>B<math>x</p>B"],
)  # fmt: skip
def test_an_unclosed_inline_element_ends_at_the_next_block(text):
    assert upper(text.replace("B", "b")) == text


def test_a_kept_inline_element_with_blocks_lasts_to_its_end_tag():
    text = "<span translate=no><div>a</div> b</span> C"
    assert upper(text.replace("C", "c")) == text


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('<meta name="description" content="A">', ["A"]),
        (
            '<meta property=og:title content="A"><meta content=B property=og:description>',
            ["A", "B"],
        ),
        ('<meta property="og:url" content="A"><meta name=viewport content="B">', []),
        ('<meta name="twitter:title" content="A">', ["A"]),
        ("<input type=submit value=A><input type=RESET value=B>", ["A", "B"]),
        ("<input type=hidden value=A><input value=B><button value=C>D</button>", ["D"]),
        ('<input placeholder="A" value="B"><textarea placeholder="C">x</textarea>', ["A", "C"]),
        ('<p aria-label="A" data-title="B">1<th abbr="C" title="D">', ["A", "C", "D"]),
        ('<option label="A" value="B"><track label="C"><table summary="D">', ["A", "C", "D"]),
        ('<p title="A" translate=no>x</p><div translate=no><img alt="B"></div>', []),
        ("<a title='12'>", []),
    ],
)
def test_texts_in_attributes_are_those_that_the_standard_calls_translatable(text, names):
    assert units(text) == names


def test_values_of_attributes_are_escaped_as_their_quotes_need():
    part = html_part("""<p title=a><p title="b"><p title='c'>""")
    texts = [MarkedText("x 'y' \"z\" =`>&")] * 3
    new = part.rendered(texts)
    assert [html.unescape(unit.marked.text) for unit in html_part(new).units] == [texts[0].text] * 3
    assert new.startswith("<p title=x&#32;&#x27;y")


def test_attributes_in_tags_of_a_unit_and_in_kept_pieces_are_written_too():
    text = '<p>a <a title="t">b</a> <code><img alt="c">x</code> <img alt="d"> e</p>'
    assert 'A <a title="T">B</a> <code><img alt="c">x</code> <img alt="D"> E' in upper(text)


def test_line_breaks_and_pictures_are_separators_and_wbr_is_a_mark():
    (unit,) = html_part("<p>a<input>b<img>c<wbr>d<ph id=1 />e</p>").units
    assert [span.kind for _, span in unit.marked.spans] == [
        *("separator", "separator", "mark", "placeholder")
    ]


def test_control_characters_in_a_text_stay():
    assert upper("<p>a\x0cb \x1b[c\x7f</p>") == "<p>A\x0cB \x1b[C\x7f</p>"


# --- XHTML


def test_cdata_of_xhtml_is_not_escaped():
    assert (
        upper("<p><![CDATA[A dog & a cat]]></p>", xhtml_part) == "<p><![CDATA[A DOG & A CAT]]></p>"
    )


def test_xhtml_has_the_rules_of_html():
    text = (
        '<html xmlns="http://www.w3.org/1999/xhtml"><head><title>a</title><script src="x"/></head>'
        '<body><p title="b">c<br/>d <code>x</code>&nbsp;e<svg:svg xmlns:svg='
        '"http://www.w3.org/2000/svg"><svg:g><svg:text>x</svg:text></svg:g></svg:svg> f</p></body>'
        "</html>"
    )
    expected = text.replace("<title>a", "<title>A").replace('"b">c', '"B">C').replace(">d", ">D")
    expected = expected.replace("&nbsp;e", "\xa0E").replace(" f</p>", " F</p>")
    assert upper(text, xhtml_part) == expected
    assert skipped(text, xhtml_part) == {"in code": 1, "in svg": 1}


def test_xhtml_that_is_not_well_formed_is_an_error_with_a_line():
    with pytest.raises(UserError, match="a.xhtml, line 2 is not valid XML"):
        xhtml_part("<p>\n<b></p>", "a.xhtml")


# --- languages


def test_the_declared_language_becomes_the_one_of_the_translation(translated):
    page = (
        b'<html lang="en-US"><meta http-equiv=Content-Language content=en><p lang="fr">a</p>'
        b'<p lang=en hreflang="en">b</p>'
    )
    assert translated(page, languages=("en", "de")) == (
        b'<html lang="de"><meta http-equiv=Content-Language content=de><p lang="fr">A</p>'
        b'<p lang=de hreflang="en">B</p>'
    )
    page = b'<html xml:lang="en" lang="en"><p>a</p></html>'
    assert translated(page, ".xhtml", languages=(None, "de")) == page.replace(b"en", b"de").replace(
        b"a</p>", b"A</p>"
    )


# --- encodings


@needs_cases
def test_declared_encodings_follow_the_html_standard():
    found = failed = 0
    for path in sorted(CASES.glob("encoding/*.dat")):
        cases = re.findall(rb"#data\n(.*?)\n#encoding\n([^\n]*)", path.read_bytes(), re.DOTALL)
        for data, label in cases:
            expected = declared_encoding(b"<meta charset=%s>" % label)
            found += 1
            codec = byte_order_mark(data)[1] or declared_encoding(data) or "cp1252"
            failed += codec != expected
    # They declare it in a script or style, where browsers look, too, unless the page declares one.
    assert (found, failed) == (82, 3)


@pytest.mark.parametrize(
    "before",
    [b'<!-- <meta charset="latin1"> -->', b"<script>x='<meta charset=latin1>'</script>",
     b'<meta name="description" content="charset=latin1">', b"<title><meta charset=koi8-r></title>",
     b"<meta http-equiv=refresh content='0; charset=koi8-r'>", b"<meta charset=undefined>",
     b"<meta charset=rot13>", b"<meta charset='\xff'>"[:0], b"<p title='<meta charset=koi8-r>'>"],
)  # fmt: skip
def test_the_encoding_is_the_one_of_the_first_meta_tag_that_declares_one(before):
    assert declared_encoding(before + b'<meta charset="utf-8">') == "utf-8"


@pytest.mark.parametrize(
    ("label", "codec"),
    [("iso-8859-1", "cp1252"), ("latin1", "cp1252"), ("ASCII", "cp1252"), (" utf8 ", "utf-8"),
     ("iso-8859-9", "cp1254"), ("utf-16", "utf-8"), ("utf-16le", "utf-8"), ("gb2312", "gb18030"),
     ("gbk", "gb18030"), ("x-sjis", "cp932"), ("Shift_JIS", "cp932"), ("euc-kr", "cp949"),
     ("windows-949", "cp949"), ("tis-620", "cp874"), ("iso-8859-8-i", "iso8859-8"),
     ("iso885915", "iso8859-15"), ("undefined", None), ("idna", None), ("a b", None)],
)  # fmt: skip
def test_encoding_labels_have_their_meaning_on_the_web(label, codec):
    assert declared_encoding(f"<meta charset='{label}'>".encode()) == codec


def test_quotes_of_windows_1252_are_read_on_a_page_in_latin_1(translated, tmp_path):
    page = b'<meta charset="iso-8859-1"><p>He said \x93hello\x94 \x81</p>'
    assert translated(page) == page.replace(b"He said", b"HE SAID").replace(b"hello", b"HELLO")
    assert read_document(tmp_path / "a.html").units[0].text == "He said “hello” \x81"


def test_characters_that_the_encoding_lacks_are_written_as_references(translated):
    new = translated(
        b'<meta charset="iso-8859-1"><p title="b">a</p>',
        change=lambda unit: MarkedText("„Я“"),
    )
    expected = b'<meta charset="iso-8859-1"><p title="\x84&#1071;\x93">\x84&#1071;\x93</p>'
    assert new == expected
    new = translated(
        b'<?xml version="1.0" encoding="iso-8859-2"?><p>a</p>',
        ".xhtml",
        change=lambda unit: MarkedText("Я"),
    )
    assert new == b'<?xml version="1.0" encoding="iso-8859-2"?><p>&#1071;</p>'


def test_a_byte_order_mark_and_the_option_precede_the_declaration(translated):
    page = '<meta charset="koi8-r"><p>ä</p>'
    assert translated(page.encode("utf-8-sig")) == page.replace("ä", "Ä").encode("utf-8-sig")
    assert translated(page.encode("cp1252"), encoding="cp1252") == page.replace("ä", "Ä").encode(
        "cp1252"
    )


def test_a_page_in_another_encoding_than_declared_is_one_line(tmp_path):
    (tmp_path / "a.html").write_bytes(b"<meta charset=utf-8>\n<p>gr\xfcn")
    with pytest.raises(UserError, match="line 2: cannot decode byte 0xfc as utf-8"):
        read_document(tmp_path / "a.html")


# --- every construct


WORDS = st.sampled_from(["dog ", "Über", "a &amp; b", "x &lt; y", "5 < 6", "&nbsp;", "&copy;w", " ",
                         "\r\n", "&#1;", "&shy;", "é\x0c", "<", "&", "it's \"q\"", "&notit;",
                         "<!-- c -->", "<?pi?>", "<!x>", "</>", "<br>", "<img alt='dog'>", "<wbr>",
                         "<input type=submit value=go>", "<hr>", "<b/>", "</p>", "</b>", "<p>",
                         "<li>", "<td>", "<a b", "<code>"])  # fmt: skip
NAMES = st.sampled_from(
    ["b", "i", "a", "span", "p", "div", "ul", "li", "table", "tr", "td", "title", "button",
     "h1", "ruby", "rt", "x-y", "svg", "pre", *KEPT]
)  # fmt: skip
MARKS = st.sampled_from(
    ["", " title='a dog'", ' TITLE="&quot;x"', " title=dog", " translate=no", " translate=yes",
     " class='a notranslate'", " lang=en", " a='>' b", " /"]
)  # fmt: skip


@st.composite
def elements(draw, inner):
    name, marks, content = draw(NAMES), draw(MARKS), draw(inner)
    end = draw(st.sampled_from([f"</{name}>", f"</{name.upper()} >", ""]))
    return f"<{name}{marks}>{content}{end}"


def documents():
    return st.recursive(
        WORDS,
        lambda inner: st.lists(inner | elements(inner), max_size=5).map("".join),
        max_leaves=20,
    )


@settings(max_examples=300, deadline=None)
@given(documents())
def test_each_letter_of_a_page_is_translated_or_counted(text):
    part = html_part(text)
    assert part.rendered([unit.marked for unit in part.units]) == text
    new = part.rendered([upper_unit(unit.marked) for unit in part.units])

    def structure(page):
        tree = html5lib.parseFragment(page, treebuilder="etree", namespaceHTMLElements=False)
        return [
            (str(x.tag), sorted(x.attrib), (x.text or "").upper(), (x.tail or "").upper())
            for x in tree.iter()
        ]

    assert structure(new) == structure(text)
    if not set(+part.skipped) - {"without letters"}:
        tree = html5lib.parseFragment(new, treebuilder="etree", namespaceHTMLElements=False)
        texts = [x.text or "" for x in tree.iter() if isinstance(x.tag, str)]
        shown = "".join([*texts, *(x.tail or "" for x in tree.iter())])
        assert shown == upper_unit(MarkedText(shown)).text
