"""Events of XML texts and their places, encodings, and refusals."""

import time

import pytest

from keras_transformer.documents.document import decoded
from keras_transformer.documents.xml_events import declared_encoding, encoded_xml, xml_events
from keras_transformer.errors import UserError

pytestmark = pytest.mark.once


def found(text):
    """Return the kind, the place as text, and the content of each event."""
    return [(e.kind, text[e.start : e.stop], e.text or e.name) for e in xml_events(text, "a.xml")]


def refusal(text):
    with pytest.raises(UserError) as error:
        list(xml_events(text, "a.xml"))
    assert "\n" not in str(error.value)
    return str(error.value)


def test_names_may_begin_with_any_letter_an_underscore_or_a_colon():
    assert found("<_x><é/><:b/><é:c xmlns:é='u'>d</é:c></_x>") == [
        ("start", "<_x>", "_x"), ("empty", "<é/>", "é"), ("empty", "<:b/>", "b"),
        ("start", "<é:c xmlns:é='u'>", "c"), ("text", "d", "d"), ("end", "</é:c>", "c"),
        ("end", "</_x>", "_x"),
    ]  # fmt: skip


def test_attributes_may_hold_brackets_quotes_and_line_ends():
    text = """<a b="1>2" c = '"/>' d='x&#10;&lt;\n&nbsp;&#x80;'\r\n/>"""
    (event,) = xml_events(text, "a.xml")
    assert event.kind == "empty"
    assert {name: (x.value, text[x.start : x.stop]) for name, x in event.attributes.items()} == {
        "b": ("1>2", "1>2"),
        "c": ('"/>', '"/>'),
        "d": ("x\n< \xa0\x80", "x&#10;&lt;\n&nbsp;&#x80;"),
    }


def test_tags_in_comments_and_instructions_are_not_tags():
    for other in ("<!-- <b> -->", '<?php echo "<b>" ?>'):
        assert found(f"<a>{other}x</a>")[1:3] == [("other", other, ""), ("text", "x", "x")]
    doctype = '<!DOCTYPE a [ <!-- ]> --> <!ATTLIST a b CDATA "]>"> <?x ]>?> %b; ]>'
    events = found(f"{doctype}<a>x</a>")
    assert "".join(raw for kind, raw, _ in events if kind == "other") == doctype
    assert events[-3:] == [("start", "<a>", "a"), ("text", "x", "x"), ("end", "</a>", "a")]


def test_a_cdata_section_is_one_event_without_escapes():
    text = "<a><![CDATA[1 &amp;\n<b>]]]]><![CDATA[>]]><![CDATA[]]></a>"
    assert [x[1:] for x in found(text) if x[0] == "cdata"] == [
        ("1 &amp;\n<b>]]", "1 &amp;\n<b>]]"), (">", ">"), ("", ""),
    ]  # fmt: skip


def test_line_ends_stay_as_they_are():
    events = found("<a>1\r\n2\r3\n</a>")
    assert [x[2] for x in events if x[0] == "text"] == ["1", "\r\n", "2", "\r", "3", "\n"]
    assert ("other", "&#13;", "") in found("<a>1&#13;\n</a>")  # A bare one is read as a line end.


def test_references_are_characters_and_unknown_entities_stay():
    events = found("<a>&lt;&amp;lt;&#65;&#x80;&nbsp;&my;</a>")
    assert [x[2] for x in events if x[0] == "text"] == ["<", "&", "lt;", "A", "\x80", "\xa0"]
    assert events[-2] == ("other", "&my;", "")


def test_places_are_right_after_long_texts_of_long_characters():
    text = "\ufeff<a>{}<b/></a>".format("é😀\r\n" * 300_000)  # Expat reads it in several pieces.
    *_, empty, end = xml_events(text, "a.xml")
    assert text[empty.start : empty.stop] == "<b/>" and text[end.start :] == "</a>"


def test_the_nearest_declaration_defines_a_namespace():
    text = '<a xmlns="u"><p:b xmlns:p="v" xmlns=""><c/></p:b><c xml:lang="x"/><q:c/></a>'
    assert [(e.kind, e.name, e.namespace) for e in xml_events(text, "a.xml")] == [
        ("start", "a", "u"), ("start", "b", "v"), ("empty", "c", ""), ("end", "b", "v"),
        ("empty", "c", "u"), ("empty", "c", ""), ("end", "a", "u"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "declaration", ['x "y"', 'x SYSTEM "file:///etc/passwd"', '% x SYSTEM "http://a.org/"']
)
def test_declared_entities_are_refused(declaration):
    reason = refusal(f"<!DOCTYPE a [<!ENTITY {declaration}>]><a/>")
    assert reason.startswith("a.xml must not declare entities") and "'x'" in reason


@pytest.mark.parametrize(
    "text",
    ["", "x", "<a>", "<a></b>", "<a/>x", "<a b=1/>", "<a>\x0b</a>", "<a>&#0;</a>", "<a>&</a>"],
)
def test_damaged_xml_is_refused_with_its_line(text):
    assert refusal(f"\n\n{text}").startswith(("a.xml, line 3 is not valid XML: ",))


@pytest.mark.parametrize(
    "element", ["<a>", "<a{}>", '<a xmlns:p{}="u">'], ids=["one name", "names", "namespaces"]
)
def test_elements_may_be_nested_100_000_deep(element):
    tags = [element.format(number) for number in range(100_000)]
    ends = [f"</{tag[1:-1].split()[0]}>" for tag in reversed(tags)]
    start = time.process_time()
    assert len(list(xml_events("".join([*tags, *ends]), "a.xml"))) == 200_000
    assert time.process_time() - start < 60


XML = '<?xml version="1.0" encoding="{}"?>\n<a>日本 Ab</a>'


@pytest.mark.parametrize(
    ("declared", "codec"),
    [("Shift_JIS",) * 2, ("GB18030",) * 2, ("EUC-JP",) * 2, ("Big5",) * 2, ("UTF-8",) * 2]
    + [("UTF-16", f"utf-{size}-{order}") for size in (16, 32) for order in ("le", "be")],
)
def test_a_text_returns_to_the_bytes_of_its_encoding(declared, codec):
    data = XML.format(declared).encode(codec)
    encoding = declared_encoding(data)
    assert encoding == codec.lower()
    text = decoded(data, encoding, "a.xml")
    assert [e.text for e in xml_events(text, "a.xml") if e.kind == "text"] == ["日本 Ab"]
    assert encoded_xml(text, encoding, "a.xml") == data


def test_a_declaration_that_the_bytes_contradict_is_not_used():
    assert declared_encoding(XML.format("utf-16").encode()) is None
    assert declared_encoding(b"<a>encoding='x'</a>") is None


def test_characters_that_an_encoding_lacks_are_references():
    text = "<a>„é<![CDATA[é<„“> ]]></a>"
    data = encoded_xml(text, "latin-1", "a.xml")
    assert data == "<a>&#8222;é<![CDATA[é<]]>&#8222;&#8220;<![CDATA[> ]]></a>".encode("latin-1")
    assert "".join(e.text for e in xml_events(data.decode("latin-1"), "a")) == "„éé<„“> "
