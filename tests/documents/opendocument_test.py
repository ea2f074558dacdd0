"""OpenDocument files: their units, and what is written with translations."""

import io
import re
import zipfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_transformer.documents import read_document
from keras_transformer.errors import UserError
from tests.documents.translators import upper_unit, zipped

pytestmark = pytest.mark.once
etree = pytest.importorskip("lxml.etree", reason="the extra `documents` is not installed")

SUFFIX = ".odt"
NAMES = ("office", "text", "draw", "svg", "table", "style", "meta", "chart")
NAMESPACES = "".join(
    f' xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"' for name in NAMES
)
NAMESPACES += (
    ' xmlns:dc="http://purl.org/dc/elements/1.1/"'
    ' xmlns:fo="urn:oasis:names:tc:opendocument:xmlns:xsl-fo-compatible:1.0"'
)


def root(content):
    return f"<office:document{NAMESPACES}>{content}</office:document>"


def odt(content, **members):
    contents = {"content": content, **members}
    kind = ("mimetype", "application/vnd.oasis.opendocument.text")
    return zipped([kind, *((f"{name}.xml", root(x)) for name, x in contents.items())])


def p(*content):
    return f"<text:p>{''.join(content)}</text:p>"


@pytest.fixture
def texts(read):
    return lambda *arguments, **members: [
        unit.text for unit in read(odt(*arguments, **members)).units
    ]


@pytest.fixture
def written(read, tmp_path):
    def run(document, member="content.xml", languages=(None, None)):
        document = read(odt(document) if isinstance(document, str) else document)
        document.render(
            [upper_unit(unit) for unit in document.units], tmp_path / "c.odt", *languages
        )
        content = zipfile.ZipFile(tmp_path / "c.odt").read(member).decode()
        return re.sub("</?office:document.*?>", "", content)

    return run


def test_paragraphs_headings_cells_and_index_entries_are_units(texts):
    content = "<text:h>one</text:h><text:list><text:list-item>" + p("two") + "</text:list-item>"
    content += "</text:list><table:table-cell>" + p("three") + "</table:table-cell>"
    content += "<text:index-body><text:index-title>" + p("four") + "</text:index-title>"
    assert texts(content + "</text:index-body>") == ["one", "two", "three", "four"]


def test_spans_and_links_are_pairs_and_tabs_and_breaks_end_units(read, written):
    content = p("A <text:span>black</text:span><text:s/> dog<text:tab/>and<text:line-break/>more")
    units = read(odt(content)).units
    assert [unit.text for unit in units] == ["A black dog", "and", "more"]
    assert [span.kind for _, span in units[0].spans] == ["open", "close", "separator"]
    assert written(content) == re.sub("(?<=>)[^<]+", lambda x: x[0].upper(), content)


NESTED = {
    "note": "<text:note><text:note-citation>a</text:note-citation><text:note-body>{}"
    "</text:note-body></text:note>",
    "frame": "<draw:frame><draw:text-box>{}</draw:text-box></draw:frame>",
    "annotation": "<office:annotation><dc:creator>ann</dc:creator>{}</office:annotation>",
}


@pytest.mark.parametrize("name", NESTED)
def test_notes_frames_and_annotations_are_texts_within_a_text(name, texts, written):
    content = p("one", NESTED[name].format(p("in <text:span>it</text:span> too")), " two")
    assert texts(content) == ["one two", "in it too"]
    new = written(content)
    for text in ("one", " two", "in ", "it", " too"):
        content = content.replace(f">{text}<", f">{text.upper()}<")
    assert new == content


def test_fields_and_deleted_text_are_counted(read, written):
    deleted = f"<text:tracked-changes><text:deletion>{p('cut')}</text:deletion>"
    content = f"{deleted}</text:tracked-changes>" + p("on <text:date>May</text:date> two")
    document = read(odt(content))
    assert [unit.text for unit in document.units] == ["on  two"]
    assert [span.raw for _, span in document.units[0].spans] == ["<text:date>May</text:date>"]
    assert document.skipped == {"in fields": 1, "in deleted text": 1}
    assert written(content) == content.replace("on ", "ON ").replace(" two", " TWO")


def test_descriptions_and_properties_are_texts_and_data_is_not(texts):
    content = "<draw:frame><svg:title>A dog</svg:title><svg:desc>It runs</svg:desc>"
    content += "<office:binary-data>abcd</office:binary-data></draw:frame>"
    content += "<chart:title>" + p("A chart") + "</chart:title>"
    meta = "<dc:title>Dogs</dc:title><dc:creator>ann</dc:creator>"
    assert texts(content, meta=meta) == ["A dog", "It runs", "A chart", "Dogs"]


def test_headers_are_translated(texts):
    assert texts("", styles=f"<style:header>{p('A header')}</style:header>") == ["A header"]


def test_the_language_and_its_country_become_the_target(written):
    properties = '<style:p fo:language="{}" fo:country="{}"/>'
    styles = properties.format("en", "US") + properties.format("fr", "FR")
    data = odt("", styles=styles, meta="<dc:language>en-GB</dc:language>")
    for target, country in (("de", "none"), ("pt-BR", "BR"), ("zh_Hans", "none")):
        expected = properties.format(re.split("[-_]", target)[0], country)
        new = written(data, "styles.xml", ("en", target))
        assert new == expected + properties.format("fr", "FR")
        new = written(data, "meta.xml", ("en", target))
        assert new == f"<dc:language>{target.replace('_', '-')}</dc:language>"


def test_an_encrypted_file_is_one_line(read):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as new:
        new.writestr("content.xml", bytes(range(256)))
        new.writestr("META-INF/manifest.xml", "<m><manifest:encryption-data/></m>")
    with pytest.raises(UserError, match=r"a\.odt is encrypted"):
        read(file.getvalue())


def test_texts_within_too_many_texts_are_refused(read):
    with pytest.raises(UserError, match=r"line 1: texts within texts, more than 20 deep"):
        read(odt("<text:p><draw:frame>" * 9000 + "</draw:frame></text:p>" * 9000))
    assert read(odt("<text:list>" * 9000 + p("one") + "</text:list>" * 9000)).units


LEAVES = st.sampled_from(
    [
        *("one", "two ", " three", "4", " ", "a &amp; b", "<text:s/>", "<text:tab/>"),
        *("<text:line-break/>", "<text:bookmark/>", "<text:date>May</text:date>", "<!-- c -->"),
        *("<text:soft-page-break/>", "<draw:line/>", "<text:placeholder>x</text:placeholder>"),
    ]
)


def wrapped(name, pieces):
    inner = "".join(pieces)
    return (
        NESTED[name].format(p(inner)) if name in NESTED else f"<text:{name}>{inner}</text:{name}>"
    )


def documents():
    """Return a strategy for contents of documents."""
    names = st.sampled_from(["span", "a", "meta", *NESTED])
    pieces = st.recursive(
        LEAVES, lambda x: st.builds(wrapped, names, st.lists(x, max_size=4)), max_leaves=9
    )
    paragraphs = st.builds(lambda x: p(*x), st.lists(pieces, max_size=6))
    return st.lists(paragraphs, min_size=1, max_size=3).map("".join)


@settings(max_examples=60, deadline=None)
@given(content=documents())
def test_any_document_keeps_its_structure_and_each_letter_is_translated_or_counted(
    content, tmp_path_factory
):
    folder = tmp_path_factory.getbasetemp()
    (folder / "a.odt").write_bytes(odt(content))
    document = read_document(folder / "a.odt")
    document.render([upper_unit(unit) for unit in document.units], folder / "b.odt")
    new = etree.fromstring(zipfile.ZipFile(folder / "b.odt").read("content.xml"))
    old = etree.fromstring(root(content))
    number = 0
    for before, after in zip(old.iter(), new.iter(), strict=True):
        assert before.tag == after.tag and before.attrib == after.attrib
        is_text = not isinstance(before.tag, str) or re.search(
            "date|place|citation|creator", before.tag
        )
        number += bool(isinstance(before.tag, str) and re.search("date|placeholder", before.tag))
        assert after.text == (before.text if is_text or not before.text else before.text.upper())
        assert after.tail == (before.tail and before.tail.upper())
    assert document.skipped["in fields"] == number
    document.render(document.units, folder / "b.odt")
    assert (folder / "a.odt").read_bytes() == (folder / "b.odt").read_bytes()
