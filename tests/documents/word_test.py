"""Word documents: their units, and what is written with translations."""

import re
import zipfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_transformer.documents import read_document, translate_file
from keras_transformer.errors import UserError
from keras_transformer.protection.spans import MarkedText
from tests.documents.translators import upper_unit, zipped

pytestmark = pytest.mark.once
docx = pytest.importorskip("docx", reason="python-docx is not installed")
etree = pytest.importorskip("lxml.etree", reason="the extra `documents` is not installed")

W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
A = "http://schemas.openxmlformats.org/drawingml/2006/main"
TYPE = "application/vnd.openxmlformats-officedocument.wordprocessingml"
SUFFIX = ".docx"
SPACE = ' xml:space="preserve"'


def package(parts):
    """Return a package of parts: dict of names -> pairs of a content type and a content."""
    types = "".join(f'<Override PartName="/{x}" ContentType="{parts[x][0]}"/>' for x in parts)
    members = [(name, content) for name, (_, content) in parts.items()]
    return zipped([("[Content_Types].xml", f"<Types>{types}</Types>"), *members])


def root(body, name="document"):
    return f'<w:{name} xmlns:w="{W}" xmlns:a="{A}" xmlns:m="math" xmlns:x="other">{body}</w:{name}>'


def word(body, **parts):
    """Return a Word file of a body, and of further parts by the endings of their types."""
    contents = {"word/other.xml": (f"{TYPE}.document.main+xml", root(body))}
    for name, content in parts.items():
        contents[f"word/{name}.xml"] = (f"{TYPE}.{name}+xml", root(content, name))
    return package(contents)


def run(text, form="", before="", after=""):
    form = f"<w:rPr>{form}</w:rPr>" if form else ""
    return f"<w:r>{form}{before}<w:t{SPACE}>{text}</w:t>{after}</w:r>"


def paragraph(*runs):
    return f"<w:p><w:pPr><w:jc/></w:pPr>{''.join(runs)}</w:p>"


@pytest.fixture
def texts(read):
    return lambda body, **parts: [unit.text for unit in read(word(body, **parts)).units]


@pytest.fixture
def written(read, tmp_path):
    """Return a function that translates a body, and returns the new one."""

    def run(body, translate=upper_unit, languages=(None, None)):
        document = read(word(body))
        new = [translate(unit) for unit in document.units]
        document.render(new, tmp_path / "c.docx", *languages)
        with zipfile.ZipFile(tmp_path / "c.docx") as file:
            content = file.read("word/other.xml").decode()
        etree.fromstring(content)
        return re.sub("</?w:document.*?>", "", content)

    return run


def kinds(unit):
    return [(position, span.kind) for position, span in unit.spans]


def test_the_format_of_most_of_a_text_has_no_spans(read):
    (unit,) = read(word(paragraph(run("Plain "), run("bold", "<w:b/>"), run(" more text.")))).units
    assert unit.text == "Plain bold more text."
    assert kinds(unit) == [(6, "open"), (10, "close")]
    (unit,) = read(word(paragraph(run("a "), run("mostly bold", "<w:b/>")))).units
    assert kinds(unit) == [(0, "open"), (2, "close")]


def test_runs_that_look_the_same_are_one_text(read, written):
    body = paragraph(
        '<w:r w:rsidR="1"><w:rPr><w:b/><w:lang w:val="en"/></w:rPr><w:t>on</w:t></w:r>'
        '<w:proofErr w:type="gramStart"/>',
        run("e ", '<w:b/><w:noProof/><w:lang w:val="fr"/>', "<w:lastRenderedPageBreak/>"),
        run(" ", "<w:i/>") + run("two", "<w:b/>"),
    )
    (unit,) = read(word(body)).units
    assert unit == MarkedText("one  two")
    assert written(body) == paragraph(
        '<w:r w:rsidR="1"><w:rPr><w:b/><w:lang w:val="en"/></w:rPr>'
        f"<w:t{SPACE}>ONE  TWO</w:t></w:r>"
    )


def test_a_unit_ends_at_tabs_and_breaks_also_within_a_run(texts, written):
    body = paragraph(run("one", "<w:b/>", after="<w:tab/><w:t>two</w:t><w:br/>") + run("three"))
    assert texts(body) == ["one", "two", "three"]
    assert written(body) == body.replace("<w:t>two", f"<w:t{SPACE}>TWO").replace(
        "one", "ONE"
    ).replace("three", "THREE")
    swapped = written(body, lambda unit: MarkedText("zwei & <mehr>"))
    assert swapped.count("<w:r>") == 2 and swapped.count("zwei &amp; &lt;mehr&gt;</w:t>") == 3


def test_white_space_around_a_unit_stays(texts, written):
    body = paragraph(run("  one "), run(" two ", "<w:b/>"), run("   "))
    assert texts(body) == ["one  two "]
    assert written(body) == body.replace("one", "ONE").replace("two", "TWO")


def test_moved_formats_move_their_runs(written):
    def swap(unit):
        (_, opening), (_, closing) = unit.spans
        return MarkedText("zwei eins", ((0, opening), (4, closing)))

    new = written(paragraph(run("eins und "), run("zwei", "<w:b/>")), swap)
    assert new == paragraph(run("zwei", "<w:b/>") + run(" eins"))


@pytest.mark.parametrize(
    "around",
    [
        '<w:sdt><w:sdtPr><w:id w:val="1"/></w:sdtPr><w:sdtContent>{}</w:sdtContent></w:sdt>',
        '<w:customXml w:element="a"><w:customXmlPr/>{}</w:customXml>',
        *(f"<w:{x}>{{}}</w:{x}>" for x in ("dir", "bdo", "hyperlink", "ins", "smartTag", "moveTo")),
    ],
)
def test_elements_around_runs_are_pairs(around, read, written):
    body = paragraph(run("Before "), around.format(run("controlled")), run(" after."))
    (unit,) = read(word(body)).units
    assert unit.text == "Before controlled after."
    assert [str(span) and span.raw for _, span in unit.spans] == around.split("{}")
    assert unit.spans[0][1].partner is unit.spans[1][1]
    new = written(body)
    assert new == re.sub(r"(?<=preserve\">)[^<]*", lambda x: x[0].upper(), body)
    assert [x.text for x in read(word(paragraph(around.format(run("alone"))))).units] == ["alone"]


COUNTED = {
    "in deleted text": "<w:del><w:r><w:delText>cut</w:delText></w:r></w:del>",
    "in ruby text": f"<w:r><w:ruby><w:rt>{run('ka')}</w:rt></w:ruby></w:r>",
    "in formulas": "<m:oMath><m:r><m:t>sin</m:t></m:r></m:oMath>",
    "in fields": f'<w:fldSimple w:instr="PAGE">{run("ten")}</w:fldSimple>',
    "in other elements": f"<x:other>{run('odd')}</x:other>",
}


@pytest.mark.parametrize("reason", COUNTED)
def test_text_that_is_not_translated_is_counted(reason, read, written):
    body = paragraph(run("one "), COUNTED[reason], run(" two"))
    document = read(word(body))
    assert [unit.text for unit in document.units] == ["one  two"]
    assert document.skipped == {reason: 1}
    assert written(body) == body.replace("one", "ONE").replace("two", "TWO")


def field(kind):
    return f'<w:r><w:fldChar w:fldCharType="{kind}"/></w:r>'


def test_a_field_is_one_placeholder(read, written):
    code = "<w:r><w:instrText>PAGE</w:instrText></w:r>"
    inner = field("begin") + code + field("separate") + run("seven") + field("end")
    body = paragraph(run("Page "), inner, run(" of ten"))
    document = read(word(body))
    (unit,) = document.units
    assert unit.text == "Page  of ten" and [span.raw for _, span in unit.spans] == [inner]
    assert document.skipped == {"in fields": 1}
    assert written(body) == body.replace("Page ", "PAGE ").replace("of ten", "OF TEN")


def test_a_field_over_paragraphs_or_elements_stays_in_its_place(texts, written):
    body = paragraph(
        run("one"), "<w:hyperlink>", run("two"), field("begin"), run("in"), "</w:hyperlink>"
    )
    body += paragraph(run("in"), field("end"), run("three"))
    assert texts(body) == ["one", "two", "three"]
    new = written(body, lambda unit: MarkedText("x"))
    assert new == body.replace("one", "x").replace("two", "x").replace("three", "x")


def test_text_boxes_are_texts_within_a_text(read, written):
    box = f"<w:drawing><w:txbxContent>{paragraph(run('in a box'))}</w:txbxContent></w:drawing>"
    alternatives = f"<x:AlternateContent><x:Choice>{box}</x:Choice>{box}</x:AlternateContent>"
    body = paragraph(run("one "), f"<w:r>{alternatives}</w:r>", run("two"))
    document = read(word(body))
    assert [unit.text for unit in document.units] == ["in a box", "in a box", "one two"]
    assert not document.skipped
    new = body.replace("one", "ONE").replace("two", "TWO").replace("in a box", "IN A BOX")
    assert written(body) == new


def test_comments_and_instructions_in_a_paragraph_are_read(texts, written):
    body = "<w:p><!-- a --><w:r><w:t>Hel<!-- c -->lo big</w:t></w:r><?b c?></w:p>"
    assert texts(body) == ["Hello big"]
    assert written(body) == (f"<w:p><!-- a --><w:r><w:t{SPACE}>HELLO BIG</w:t></w:r><?b c?></w:p>")


def test_a_non_breaking_hyphen_is_part_of_its_word(texts):
    assert texts(paragraph(run("x", after="<w:noBreakHyphen/><w:softHyphen/><w:t>ray</w:t>"))) == [
        "x\u2011ray"
    ]


def test_descriptions_of_pictures_and_properties_are_texts(read):
    body = paragraph('<w:r><w:drawing><x:docPr name="Picture 1" descr="A dog"/></w:drawing></w:r>')
    core = "<c><title> A title </title><creator>Ann</creator><language>en</language></c>"
    kind = "application/vnd.openxmlformats-package.core-properties+xml"
    document = read(
        package(
            {
                "word/other.xml": (f"{TYPE}.document.main+xml", root(body)),
                "docProps/core.xml": (kind, core),
            }
        )
    )
    assert [unit.text for unit in document.units] == ["A dog", "A title"]


def test_headers_and_notes_are_translated_and_comments_are_counted(read):
    names = ("header", "footer", "footnotes", "endnotes", "comments", "document.glossary")
    document = read(word("", **{name: paragraph(run(name)) for name in names}))
    assert [unit.text for unit in document.units] == [*names[:4]]
    assert document.skipped == {"in comments": 1, "in the glossary": 1}


def test_texts_of_charts_and_diagrams_are_translated_and_their_data_is_counted(read):
    chart = f'<c:c xmlns:c="chart" xmlns:a="{A}"><a:p><a:r><a:t>Title</a:t></a:r></a:p>'
    chart += "<c:strCache><c:pt><c:v>Sales</c:v></c:pt></c:strCache></c:c>"
    main = (f"{TYPE}.document.main+xml", root(""))
    kind = "application/vnd.openxmlformats-officedocument.drawingml"
    parts = {"word/other.xml": main, "c.xml": (f"{kind}.chart+xml", chart)}
    document = read(package({**parts, "d.xml": (f"{kind}.diagramData+xml", chart)}))
    assert [unit.text for unit in document.units] == ["Title", "Title"]
    assert document.skipped == {"in the data of charts": 2}


def test_the_source_language_becomes_the_target_language(written, read, tmp_path):
    form = '<w:lang w:val="en-US" w:eastAsia="ja-JP"/>'
    body = paragraph(run("one", form), run(" two", f"<w:b/>{form}"))
    body += paragraph(run("x", form, after="<w:tab/><w:t>y</w:t>"))
    body += paragraph(run("un", '<w:lang w:val="fr"/>'))
    new = written(body, languages=("en", "de"))
    assert new.count('w:val="de" w:eastAsia="ja-JP"') == 3 and new.count('w:val="fr"') == 1
    document = read(word("", settings='<w:themeFontLang w:val="en-GB"/>'))
    document.render([], tmp_path / "c.docx", "en", "de")
    assert b'"de"' in zipfile.ZipFile(tmp_path / "c.docx").read("word/settings.xml")


@pytest.fixture
def word_file(tmp_path):
    """A document of python-docx with formats, a picture, tabs, a table and a header."""
    document = docx.Document()
    new = document.add_paragraph("Plain ")
    new.add_run("bold").bold = True
    new.add_run(" ").italic = True
    new.add_run("and <i> & more.")
    new.add_run("\tAfter a tab")
    picture = tmp_path / "a.gif"
    picture.write_bytes(b"GIF89a\1\0\1\0\x80\0\0\0\0\0\xff\xff\xff,\0\0\0\0\1\0\1\0\0\2\2D\1\0;")
    new.add_run().add_picture(str(picture))
    document.add_table(1, 1).cell(0, 0).text = "A cell"
    document.sections[0].header.paragraphs[0].text = "A header"
    document.core_properties.title = document.core_properties.comments = ""
    document.save(tmp_path / "word.docx")
    return tmp_path / "word.docx"


def test_python_docx_reads_the_written_file(word_file, tmp_path):
    report = translate_file(word_file, tmp_path / "b.docx", lambda texts: map(str.upper, texts))
    assert report.num_translated == 4 and not report.skipped
    document = docx.Document(str(tmp_path / "b.docx"))
    runs = [(run.text, run.bold) for run in document.paragraphs[0].runs]
    assert runs == [
        *(("PLAIN ", None), ("BOLD ", True), ("AND <I> & MORE.", None), ("\tAFTER A TAB", None)),
        ("", None),
    ]
    assert len(document.inline_shapes) == 1
    assert document.tables[0].cell(0, 0).text == "A CELL"
    assert document.sections[0].header.paragraphs[0].text == "A HEADER"
    with zipfile.ZipFile(word_file) as old, zipfile.ZipFile(tmp_path / "b.docx") as new:
        assert old.namelist() == new.namelist()
        different = [name for name in old.namelist() if old.read(name) != new.read(name)]
    assert different == ["word/document.xml", "word/header1.xml"]


BAD = {
    "another archive": (
        zipped([("word/document.xml", "<a/>")]),
        r"it has no member \[Content_Types\]\.xml",
    ),
    "without a main part": (package({"a.xml": ("text/xml", "<a/>")}), "has no main document"),
    "not well-formed": (word("<w:p>"), r"a\.docx, word/other\.xml, line 1 is not valid XML"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_damaged_document_is_one_line(name, read):
    data, expected = BAD[name]
    with pytest.raises(UserError, match=expected) as error:
        read(data)
    assert "\n" not in str(error.value)


def test_texts_within_too_many_texts_are_refused(read):
    body = "<w:p><w:r><w:pict>" * 9000 + "</w:pict></w:r></w:p>" * 9000
    with pytest.raises(UserError, match=r"line 1: texts within texts, more than 20 deep"):
        read(word(body))
    assert read(word("<w:tbl>" * 9000 + paragraph(run("one")) + "</w:tbl>" * 9000)).units


FORMATS = st.sampled_from(["", "", "<w:b/>", "<w:i/>", '<w:b/><w:lang w:val="en"/>'])
WORDS = st.sampled_from(["one", "two ", " three", " ", "", "4", "a &amp; b"])
INNER = st.sampled_from(
    [
        *("", "", "<w:tab/>", "<w:br/>", "<w:sym/>", "<w:drawing/>", "<w:lastRenderedPageBreak/>"),
        *("<w:footnoteReference/>", "<w:t>mid</w:t>"),
        f"<w:pict>{paragraph(run('nested '), run('box', '<w:b/>'))}</w:pict>",
    ]
)
RUNS = st.builds(run, WORDS, FORMATS, INNER, INNER)
ALONE = st.sampled_from(
    ["<w:bookmarkStart/>", "<w:proofErr/>", "<!-- c -->", *COUNTED.values()]
    + [field(kind) for kind in ("begin", "begin", "separate", "end", "end")]
)
NAMES = st.sampled_from(["hyperlink", "ins", "sdt", "bdo"])


def around(name, pieces):
    inner = "".join(pieces)
    if name == "sdt":
        return f"<w:sdt><w:sdtPr/><w:sdtContent>{inner}</w:sdtContent></w:sdt>"
    return f"<w:{name}>{inner}</w:{name}>"


PIECES = st.recursive(
    RUNS | RUNS | ALONE, lambda x: st.builds(around, NAMES, st.lists(x, max_size=4)), max_leaves=9
)


def documents():
    """Return a strategy for bodies of documents."""
    paragraphs = st.builds(lambda x: paragraph(*x), st.lists(PIECES, max_size=7))
    return st.lists(paragraphs, min_size=1, max_size=3).map("".join)


def characters(body):
    """Return each letter of a body with all that applies to it, and each other element.

    Pieces of white space and properties of runs without text do not count.
    """
    found = []
    for element in etree.fromstring(root(body)).iter():
        if not isinstance(element.tag, str):
            continue
        name = etree.QName(element).localname
        if name == "t":
            form = [x.tag for x in element.getparent().iterfind("{*}rPr/*") if "lang" not in x.tag]
            places = [x.tag for x in element.iterancestors() if not x.tag.endswith("}r")]
            text = "".join(element.itertext())
            found += [(x.upper(), form, places) for x in text if not x.isspace()]
        elif name not in ("r", "rPr", "b", "i", "lang", "proofErr", "lastRenderedPageBreak"):
            found.append(element.tag)
    return found


@settings(max_examples=60, deadline=None)
@given(body=documents())
def test_any_document_keeps_its_structure_and_each_letter_is_translated_or_counted(
    body, tmp_path_factory
):
    folder = tmp_path_factory.getbasetemp()
    (folder / "a.docx").write_bytes(word(body))
    document = read_document(folder / "a.docx")
    document.render([upper_unit(unit) for unit in document.units], folder / "b.docx")
    content = zipfile.ZipFile(folder / "b.docx").read("word/other.xml").decode()
    new = re.sub("</?w:document.*?>", "", content)
    assert characters(new) == characters(body)
    left = re.findall("<w:t[^>]*>[^<]*[a-z]", new.replace("&amp;", ""))
    in_fields = len(left) + len(re.findall("delText>|<m:t>", new.replace("</w:delText>", "")))
    assert in_fields == sum(document.skipped.values()) - document.skipped["without letters"]
    document.render(document.units, folder / "b.docx")
    assert (folder / "a.docx").read_bytes() == (folder / "b.docx").read_bytes()
