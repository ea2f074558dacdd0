"""EPUB books: which members are texts, and what is kept."""

import io
import zipfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_transformer.documents import read_document
from keras_transformer.errors import UserError
from keras_transformer.protection.spans import MarkedText
from tests.documents.translators import upper_unit

etree = pytest.importorskip("lxml.etree", reason="the extra `documents` is not installed")
pytestmark = pytest.mark.once

CONTAINER = (
    '<?xml version="1.0"?><container xmlns="urn:oasis:names:tc:opendocument:xmlns:container">'
    '<rootfiles><rootfile full-path="OEBPS/book.opf"/></rootfiles></container>'
)
PACKAGE = """\
<?xml version="1.0" encoding="utf-8"?>
<package xmlns="http://www.idpf.org/2007/opf" xml:lang="en"><metadata
 xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>a dog</dc:title><dc:creator>ann</dc:creator>
<dc:language>en-US</dc:language><dc:description>all of it</dc:description></metadata>
<manifest><item href="a%20page.xhtml#x" media-type="application/xhtml+xml"/>
<item href="nav.xhtml" media-type="application/xhtml+xml"/><item href="old.html"
 media-type="text/html"/><item href="../toc.ncx" media-type="application/x-dtbncx+xml"/>
<item href="missing.xhtml" media-type="application/xhtml+xml"/>
<item href="p.png" media-type="image/png"/></manifest>
<guide><reference title="cover" href="a%20page.xhtml"/></guide></package>
"""
CONTENTS = (
    '<ncx xmlns="http://www.daisy.org/z3986/2005/ncx/" xml:lang="en"><head><meta/></head>'
    "<docTitle><text>a dog</text></docTitle><docAuthor><text>ann</text></docAuthor>"
    "<navMap><navPoint><navLabel><text>one</text></navLabel></navPoint></navMap></ncx>"
)
PAGE = '<html xmlns="http://www.w3.org/1999/xhtml"><body>{}</body></html>'


def book(pages=("<p>words</p>", "<nav><ol><li><a>one</a></li></ol></nav>"), **others):
    members = {
        **{"mimetype": "application/epub+zip", "META-INF/container.xml": CONTAINER},
        **{"OEBPS/p.png": b"\x89PNG\0", "OEBPS/book.opf": PACKAGE, "toc.ncx": CONTENTS},
        "OEBPS/a page.xhtml": PAGE.format(pages[0]),
        **{"OEBPS/nav.xhtml": PAGE.format(pages[1]), "OEBPS/old.html": "<p>old<br>page", **others},
    }
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            kind = zipfile.ZIP_STORED if name == "mimetype" else None
            archive.writestr(name, content, kind)
    return file.getvalue()


def read(folder, data):
    (folder / "a.epub").write_bytes(data)
    return read_document(folder / "a.epub")


def translated(document, folder, change=upper_unit, languages=()):
    document.render([change(unit) for unit in document.units], folder / "b.epub", *languages)
    return zipfile.ZipFile(folder / "b.epub")


def test_pages_contents_and_titles_are_texts(tmp_path):
    document = read(tmp_path, book())
    assert [unit.text for unit in document.units] == [
        *("a dog", "all of it", "cover", "words", "one", "old", "page", "a dog", "one")
    ]
    assert document.skipped == {"in data about the book": 2}
    new = translated(document, tmp_path, languages=("en", "de"))
    assert new.read("OEBPS/a page.xhtml").decode() == PAGE.format("<p>WORDS</p>")
    assert new.read("OEBPS/old.html") == b"<p>OLD<br>PAGE"
    expected = PACKAGE.replace("a dog", "A DOG").replace("all of it", "ALL OF IT")
    expected = expected.replace("cover", "COVER").replace("en-US", "de").replace('"en"', '"de"')
    assert new.read("OEBPS/book.opf").decode() == expected
    expected = CONTENTS.replace("a dog", "A DOG").replace("one", "ONE").replace('"en"', '"de"')
    assert new.read("toc.ncx").decode() == expected


def test_other_members_and_the_order_are_kept(tmp_path):
    document = read(tmp_path, book())
    old, new = zipfile.ZipFile(tmp_path / "a.epub"), translated(document, tmp_path)
    assert new.namelist() == old.namelist()
    assert new.infolist()[0].compress_type == zipfile.ZIP_STORED
    assert new.read("OEBPS/p.png") == old.read("OEBPS/p.png")


ENCRYPTION = (
    '<encryption xmlns:e="http://www.w3.org/2001/04/xmlenc#"><e:EncryptedData><e:CipherData>'
    '<e:CipherReference URI="OEBPS/{}"/></e:CipherData></e:EncryptedData></encryption>'
)


def test_an_encrypted_page_is_refused_and_an_encrypted_font_is_copied(tmp_path):
    assert read(tmp_path, book(**{"META-INF/encryption.xml": ENCRYPTION.format("p.png")})).units
    with pytest.raises(UserError, match="a page.xhtml is encrypted"):
        read(tmp_path, book(**{"META-INF/encryption.xml": ENCRYPTION.format("a%20page.xhtml")}))


@pytest.mark.parametrize(
    ("others", "message"),
    [
        ({"META-INF/container.xml": "<container/>"}, "container.xml has no <rootfile>"),
        ({"META-INF/container.xml": "<container>"}, "container.xml, line 1 is not valid XML"),
        ({"META-INF/container.xml": '<a><rootfile full-path="x"/></a>'}, "it has no member x"),
        ({"OEBPS/nav.xhtml": "<p>\n<p>"}, "nav.xhtml, line 2 is not valid XML"),
        ({"OEBPS/nav.xhtml": b"<p>\xff</p>"}, "nav.xhtml, line 1: cannot decode byte 0xff"),
        ({"toc.ncx": '<!DOCTYPE a [<!ENTITY b "c">]><a/>'}, "must not declare entities"),
    ],
)
def test_a_damaged_book_is_one_line(others, message, tmp_path):
    with pytest.raises(UserError, match=message):
        read(tmp_path, book(**others))


def test_an_archive_without_a_container_is_refused(tmp_path):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("mimetype", "application/epub+zip")
    with pytest.raises(UserError, match=r"not a complete \.epub file: it has no member META-INF"):
        read(tmp_path, file.getvalue())


WORDS = st.sampled_from(
    ["dog ", "Über", "a &amp; b", "&nbsp;x", "<![CDATA[a < b]]>", "<!-- c -->", "<br/>", "<?pi x?>",
     '<img alt="a dog"/>', "<wbr/>", "&#x41;", " ", "\n", "<hr/>", '<p title="a &lt; b"/>'],
)  # fmt: skip
TAGS = st.sampled_from(
    ["b", "i", "p", "div", "code", "pre", "span translate='no'", "b translate='yes'", "q lang='en'",
     "a epub:type='x' xmlns:epub='http://www.idpf.org/2007/ops' title='dog'", "ruby", "rt", "svg",
     "m:math xmlns:m='http://www.w3.org/1998/Math/MathML'", "p class='notranslate'"]
)  # fmt: skip


def documents():
    def elements(inner):
        pairs = st.tuples(TAGS, st.lists(inner, max_size=4))
        return pairs.map(lambda x: f"<{x[0]}>{''.join(x[1])}</{x[0].split()[0]}>")

    return st.recursive(WORDS, elements, max_leaves=20).map(lambda page: book([page, page]))


@settings(max_examples=60, deadline=None)
@given(documents())
def test_each_letter_of_a_book_is_translated_or_counted(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("book")
    document = read(folder, data)
    document.render(document.units, folder / "b.epub")
    assert (folder / "b.epub").read_bytes() == data
    old, new = zipfile.ZipFile(folder / "a.epub"), translated(document, folder)

    def structure(content):
        return [
            (x.tag, x.attrib.keys(), (x.text or "").upper(), (x.tail or "").upper())
            for x in etree.fromstring(content).iter()
        ]

    for name in ("OEBPS/a page.xhtml", "OEBPS/nav.xhtml"):
        content = new.read(name).replace(b"&nbsp;", b"&#160;")
        assert structure(content) == structure(old.read(name).replace(b"&nbsp;", b"&#160;"))
        if set(+document.skipped) <= {"in data about the book", "without letters"}:
            shown = "".join(etree.fromstring(content).itertext("{*}*"))
            assert shown == upper_unit(MarkedText(shown)).text
