"""PowerPoint files: their units, and what is written with translations."""

import re
import zipfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_transformer.documents import read_document
from keras_transformer.protection.spans import MarkedText
from tests.documents.word_test import package

pytestmark = pytest.mark.once
pptx = pytest.importorskip("pptx", reason="python-pptx is not installed")
chart_data = pytest.importorskip("pptx.chart.data")
chart_enum = pytest.importorskip("pptx.enum.chart")
etree = pytest.importorskip("lxml.etree", reason="the extra `documents` is not installed")

SUFFIX = ".pptx"
A = "http://schemas.openxmlformats.org/drawingml/2006/main"
P = "http://schemas.openxmlformats.org/presentationml/2006/main"
TYPE = "application/vnd.openxmlformats-officedocument.presentationml"
MAIN = (f"{TYPE}.presentation.main+xml", f'<p:presentation xmlns:p="{P}"/>')


def run(text, form=""):
    return f'<a:r><a:rPr lang="en-US" dirty="0"{form}/><a:t>{text}</a:t></a:r>'


def shape(*runs, inner=""):
    return (
        f'<p:sp><p:nvSpPr><p:cNvPr id="1" name="Title 1" descr="A dog"/>{inner}</p:nvSpPr>'
        f'<p:txBody><a:p><a:pPr/>{"".join(runs)}<a:endParaRPr lang="en-US"/></a:p></p:txBody>'
        "</p:sp>"
    )


def slides(content, kind="slide"):
    root = f'<p:sld xmlns:p="{P}" xmlns:a="{A}">{content}</p:sld>'
    return package({"ppt/main.xml": MAIN, "ppt/one.xml": (f"{TYPE}.{kind}+xml", root)})


def in_capitals(document, folder, *languages):
    new = [MarkedText(unit.text.upper(), unit.spans) for unit in document.units]
    document.render(new, folder / "b.pptx", *languages)
    return zipfile.ZipFile(folder / "b.pptx").read("ppt/one.xml").decode()


def test_runs_are_texts_whose_formats_are_pairs(read, tmp_path):
    content = shape(run("Two "), run("men", ' err="1"'), run(" sit", ' b="1"'), "<a:br/>", run("x"))
    document = read(slides(content))
    assert [unit.text for unit in document.units] == ["A dog", "Two men sit", "x"]
    assert [span.kind for _, span in document.units[1].spans] == ["open", "close"]
    new = in_capitals(document, tmp_path)
    assert re.findall("<a:t>(.*?)</a:t>", new) == ["TWO MEN", " SIT", "X"]
    assert 'descr="A DOG"' in new and 'name="Title 1"' in new and "space" not in new
    etree.fromstring(new)


def test_the_languages_of_runs_become_the_target(read, tmp_path):
    new = in_capitals(read(slides(shape(run("Two"), run(" men", ' b="1"')))), tmp_path, "en", "de")
    assert new.count('lang="de"') == 3 and "en-US" not in new


def test_fields_are_counted(read):
    field = '<a:fld type="datetime"><a:rPr/><a:t>May 4</a:t></a:fld>'
    document = read(slides(shape(run("on "), field, inner="")))
    assert document.units[1].text == "on " and document.skipped == {"in fields": 1}


@pytest.mark.parametrize("kind", ["slideLayout", "slideMaster", "notesMaster"])
def test_layouts_are_translated_except_their_placeholders(kind, read):
    prompt = shape(run("Click to edit"), inner='<p:nvPr><p:ph type="title"/></p:nvPr>')
    document = read(slides(shape(run("Our firm")) + prompt + shape(run("Since 1999")), kind))
    texts = [unit.text for unit in document.units if unit.text != "A dog"]
    assert texts == ["Our firm", "Since 1999"]
    assert document.skipped == {"in placeholders of layouts": 1}
    document = read(slides(prompt))
    assert [unit.text for unit in document.units] == ["A dog", "Click to edit"]


def test_notes_are_translated_and_comments_are_counted(read):
    assert [x.text for x in read(slides(shape(run("Say")), "notesSlide")).units] == ["A dog", "Say"]
    document = read(slides("<p:cm><p:text>Why?</p:text></p:cm>", "comments"))
    assert not document.units and document.skipped == {"in comments": 1}


def test_python_pptx_reads_the_written_file(tmp_path):
    presentation = pptx.Presentation()
    slide = presentation.slides.add_slide(presentation.slide_layouts[5])
    slide.shapes.title.text = "A title"
    table = slide.shapes.add_table(1, 1, 0, 0, 9, 9).table
    table.cell(0, 0).text = "A cell"
    slide.notes_slide.notes_text_frame.text = "A note"
    data = chart_data.CategoryChartData()
    data.categories = ["East"]
    data.add_series("Sales", (1,))
    kind = chart_enum.XL_CHART_TYPE.PIE
    chart = slide.shapes.add_chart(kind, 0, 0, 9, 9, data).chart
    chart.chart_title.text_frame.text = "A chart"
    presentation.save(tmp_path / "a.pptx")
    document = read_document(tmp_path / "a.pptx")
    assert document.skipped["in the data of charts"] == 2
    new = [MarkedText(unit.text.upper(), unit.spans) for unit in document.units]
    document.render(new, tmp_path / "b.pptx")
    slide = pptx.Presentation(tmp_path / "b.pptx").slides[0]
    title, table, chart = slide.shapes
    assert title.text_frame.text == "A TITLE" and table.table.cell(0, 0).text == "A CELL"
    assert chart.chart.chart_title.text_frame.text == "A CHART"
    assert slide.notes_slide.notes_text_frame.text == "A NOTE"


FIELD = '<a:fld type="datetime"><a:rPr/><a:t>May</a:t></a:fld>'
RUNS = st.builds(
    run,
    st.sampled_from(["one", "two ", " three", " ", "", "4", "a &amp; b"]),
    st.sampled_from(["", ' b="1"', ' i="1" err="1"']),
)


def documents():
    """Return a strategy for contents of slides."""
    pieces = (
        RUNS | RUNS | st.sampled_from(["<a:br/>", FIELD, "<!-- c -->", "<a:br><a:rPr/></a:br>"])
    )
    shapes = st.builds(lambda x: shape(*x), st.lists(pieces, max_size=7))
    return st.lists(shapes, min_size=1, max_size=3).map("".join)


def characters(content):
    """Return each letter of a slide with its format, and each other element."""
    found = []
    for element in etree.fromstring(content).iter("{*}t", "{*}br", "{*}fld", "{*}sp", "{*}cNvPr"):
        if element.tag.endswith("}t"):
            form = element.getparent()[0]
            look = (form.get("b"), form.get("i"), element.getparent().tag)
            found += [(x.upper(), look) for x in element.text or "" if not x.isspace()]
        else:
            found.append(element.tag)
    return found


@settings(max_examples=60, deadline=None)
@given(content=documents())
def test_any_slide_keeps_its_structure_and_each_letter_is_translated_or_counted(
    content, tmp_path_factory
):
    folder = tmp_path_factory.getbasetemp()
    (folder / "a.pptx").write_bytes(slides(content))
    document = read_document(folder / "a.pptx")
    new = in_capitals(document, folder)
    old = zipfile.ZipFile(folder / "a.pptx").read("ppt/one.xml")
    assert characters(new.encode()) == characters(old)
    left = re.findall("<a:t>[^<]*[a-z][^<]*", new.replace("&amp;", ""))
    assert left == ["<a:t>May"] * document.skipped["in fields"]
    assert document.skipped["in fields"] == content.count("May")
    document.render(document.units, folder / "b.pptx")
    assert (folder / "a.pptx").read_bytes() == (folder / "b.pptx").read_bytes()
