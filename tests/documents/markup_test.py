"""Units of texts with markup, and texts with new units."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_transformer.documents.markup import (
    Rules,
    add_units,
    escape_xml,
    escape_xml_attribute,
)
from keras_transformer.documents.text_part import LONGEST_UNIT, TextPart
from keras_transformer.documents.xml_events import xml_events
from keras_transformer.errors import UserError
from keras_transformer.protection.spans import MarkedText
from tests.documents.translators import upper_unit

etree = pytest.importorskip("lxml.etree", reason="the extra `documents` is not installed")
pytestmark = pytest.mark.once
RULES = Rules(
    is_inline=lambda tag: tag.name in ("b", "i", "img"),
    reason=lambda tag: {"no": "marked", "yes": ""}.get(tag.get("t") or ""),
    alone=lambda tag: "separator" if tag.name == "img" else "placeholder",
    attributes=lambda tag: ("alt",),
)


def read(text, rules=RULES):
    part = TextPart(text)
    add_units(part, xml_events(text, "a.xml"), rules)
    assert part.rendered([unit.marked for unit in part.units]) == text
    return part


def texts(text, rules=RULES):
    return [str(unit.marked) for unit in read(text, rules).units]


def in_capitals(text, rules=RULES):
    part = read(text, rules)
    return part.rendered([upper_unit(unit.marked) for unit in part.units])


def seconds(function, *arguments):
    start = time.process_time()
    function(*arguments)
    return time.process_time() - start


def test_a_unit_ends_at_an_element_that_is_not_inline():
    assert texts("<p>one <b>two</b><p>three</p> four <i>five</i> six</p>") == [
        "one <b>two</b>", "three", "four <i>five</i> six",
    ]  # fmt: skip


def test_white_space_and_marks_around_a_unit_are_not_part_of_it():
    for around in (
        " \n{} ",
        "<b>{}</b>",
        "<b><i></i> {}</b>",
        "<i><b></b></i>{}",
        "<!-- c -->{}<?d?>",
    ):
        assert texts(f"<p>{around.format('one')}</p>") == ["one"]
    assert texts("<p><img/>one<img/>two<img/></p>") == ["one<img/>two"]


def test_a_comment_in_a_text_is_kept():
    assert in_capitals("<p>one<!-- two --> three</p>") == "<p>ONE<!-- two --> THREE</p>"


def test_an_element_that_is_not_translated_is_one_span_and_counted():
    part = read('<p>one <b t="no">two <i t="yes">three</i></b> four</p>')
    assert [unit.marked.text for unit in part.units] == ["three", "one  four"]
    assert part.skipped == {"marked": 1}
    assert in_capitals(part.text) == '<p>ONE <b t="no">two <i t="yes">THREE</i></b> FOUR</p>'


def test_texts_of_attributes_are_units_in_units():
    text = '<p>a <img alt="dog &quot;x&quot;"/> <b t="no">n <i t="yes">b <img alt="c"/> d</i></b> e'
    text += "</p>"
    expected = text.replace("<p>a", "<p>A").replace("dog &quot;x", "DOG &quot;X")
    expected = expected.replace(">b ", ">B ").replace('"c"', '"C"').replace("d<", "D<")
    assert in_capitals(text) == expected.replace(" e<", " E<")


def test_a_cdata_section_alone_stays_one():
    text = "<p> <![CDATA[ a < b &amp; ]]> </p>"
    assert texts(text) == ["a < b &amp;"]
    assert in_capitals(text) == "<p> <![CDATA[ A < B &AMP; ]]> </p>"
    part = read(text)
    new = part.rendered([MarkedText("x ]]> y \x01")])
    assert etree.fromstring(new).text.strip() == "x ]]> y"


@pytest.mark.parametrize(
    "text",
    ["a &amp; <![CDATA[b < c]]>.", "<![CDATA[a]]]]><![CDATA[>b]]>", "a <b><![CDATA[ b ]]></b>"],
)
def test_a_cdata_section_in_a_sentence_is_part_of_its_unit(text):
    part = read(f"<p>{text}</p>")
    assert len(part.units) == 1
    tree, old = (etree.fromstring(x) for x in (in_capitals(part.text), part.text))
    assert "".join(tree.itertext()) == "".join(old.itertext()).upper()


def test_characters_that_xml_cannot_hold_are_not_written():
    text = "a\x00\x0b\x1f\ud800\ufffe<&>\"'\n\t\x7f\x85"
    assert escape_xml(text) == "a&lt;&amp;&gt;\"'\n\t\x7f\x85"
    assert escape_xml_attribute(text) == "a&lt;&amp;&gt;&quot;&#x27;&#10;&#9;\x7f\x85"


def test_a_unit_that_is_too_long_is_refused_with_its_line():
    with pytest.raises(UserError, match=r"^The text, line 2: a text of 100,001 characters"):
        read(f"<p>\n{'a' * (LONGEST_UNIT + 1)}</p>")


@pytest.mark.parametrize(
    "text",
    [
        "<p>{}x{}</p>".format("<p>" * 100_000, "</p>" * 100_000),
        "<p>{}x{}</p>".format("<b>" * 100_000, "</b>" * 100_000),
        "<p>{}<p>x</p>{}</p>".format('<b t="no"><b t="yes">' * 50_000, "</b>" * 100_000),
        "<p>{}x{}</p>".format('<b t="no"><b t="yes">y' * 50_000, "</b>" * 100_000),
        "<p><b>{}x</b>{}</p>".format("<!-- -->" * 100_000, "<i></i>" * 100_000),
    ],
    ids=["blocks", "inline", "kept around blocks", "kept", "empty"],
)
def test_deep_and_long_texts_take_linear_time(text):
    assert seconds(in_capitals, text) < 100  # 4 on one core; quadratic ones take hours.


def test_an_end_tag_without_a_start_is_compared_with_no_open_element():
    """Such tags are in HTML, whose events have the same form."""
    events = [event for event in xml_events("<b>" * 3 + "x" + "</b>" * 3, "a")]
    strange = events[-1]._replace(name="i")
    opened, ends = events[:1] * 100_000, [strange] * 100_000
    part = TextPart("<b>")
    assert seconds(add_units, part, [*opened, *ends], RULES) < 100


def test_an_insertion_at_the_end_of_a_unit_is_not_part_of_it():
    part = TextPart("one two")
    part.add(MarkedText("one"), 0, 3)
    part.add(MarkedText("two"), 4, 7)
    edits = [(3, 3, "|"), (0, 0, "^"), (4, 4, "_"), (7, 7, "$")]
    assert part.rendered([MarkedText("1"), MarkedText("2")], edits) == "^1| _2$"
    assert part.rendered([None, None], edits) == "^one| _two$"


def test_a_unit_that_cannot_be_replaced_keeps_the_changes_in_it():
    class Stays(TextPart):
        def replacement(self, unit, translation, write):
            return (
                None
                if unit.stop - unit.start > 3
                else super().replacement(unit, translation, write)
            )

    part = Stays("one two three")
    for start, stop in ((0, 13), (4, 7)):
        part.add(MarkedText(part.text[start:stop]), start, stop)
    assert part.rendered([upper_unit(unit.marked) for unit in part.units]) == "one TWO three"


def documents():
    """Return a strategy for XML texts with every construct."""
    words = st.sampled_from(
        [*("one", " two ", "\r\n", "&amp;", "&lt;b&gt;", "&nbsp;", "&#13;", "&my;", "é😀", "<b/>"),
         *('<img alt="a dog"/>', '<img alt="&quot;"/>', "<!-- <c> -->", "<?d >?>"),
         *("<![CDATA[ x & <y> ]]>", "<![CDATA[]]>")]
    )  # fmt: skip
    tags = st.sampled_from([*("p", "b", "i", "_q", "é"), 'b t="no"', 'p t="no"', 'i t="yes"'])
    return st.recursive(
        st.lists(words, max_size=4).map("".join),
        lambda inner: st.lists(
            st.tuples(tags, inner).map(lambda x: f"<{x[0]}>{x[1]}</{x[0].split()[0]}>") | inner,
            max_size=3,
        ).map("".join),
        max_leaves=12,
    ).map(lambda x: f'<!DOCTYPE p SYSTEM "x.dtd">\n<p lang="en">{x}</p>\n')


@given(documents())
@settings(deadline=None, max_examples=300)
def test_every_letter_is_in_a_unit_or_in_an_element_that_is_not_translated(text):
    tree, old = (
        etree.fromstring(x.replace("&nbsp;", "\xa0"), etree.XMLParser(resolve_entities=False))
        for x in (in_capitals(text), text)
    )
    assert [x.tag for x in tree.iter()] == [x.tag for x in old.iter()]
    for new, was in zip(tree.iter("*"), old.iter("*")):
        marks = [x.get("t") for x in (was, *was.iterancestors()) if x.get("t")]
        change = str if marks and marks[0] == "no" else str.upper
        assert (
            " ".join(new.xpath("text()")).split() == change(" ".join(was.xpath("text()"))).split()
        )
        assert new.get("alt") == (was.get("alt") and change(was.get("alt")))
