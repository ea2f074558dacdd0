"""Zipped documents: what is checked before anything is translated, and what is copied."""

import io
import random
import struct
import zipfile

import pytest

from keras_transformer.documents import zipped
from keras_transformer.documents.text_part import TextPart
from keras_transformer.errors import UserError
from keras_transformer.protection.spans import MarkedText
from tests.documents.translators import zipped as archive

pytestmark = pytest.mark.once


class Words(zipped.ZippedDocument):
    """A document whose texts are the members that end with ".xml"."""

    def _read_parts(self):
        for name in self.names:
            if name.endswith(".xml"):
                part = TextPart(self._text(name), name)
                part.add(MarkedText(part.text), 0, len(part.text))
                self._keep(name, part)


@pytest.fixture
def read(tmp_path):
    def run(data):
        (tmp_path / "a.docx").write_bytes(data)
        return Words(tmp_path / "a.docx")

    return run


def upper(document, folder):
    document.render([MarkedText(unit.text.upper()) for unit in document.units], folder / "b.docx")
    return (folder / "b.docx").read_bytes()


MEMBERS = (("mimetype", b"x"), ("b/", b""), ("b/ä.bin", bytes(range(256))), ("a.xml", b"words"))


def test_members_without_texts_keep_their_contents_order_dates_and_compression(read, tmp_path):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as new:
        new.comment = b"comment"
        for number, (name, content) in enumerate(MEMBERS):
            info = zipfile.ZipInfo(name, (2001, 2, number + 1, 4, 5, 6))
            info.compress_type = zipfile.ZIP_DEFLATED if number > 1 else zipfile.ZIP_STORED
            info.external_attr, info.extra = number << 16, struct.pack("<HHB", 0xCAFE, 1, number)
            new.writestr(info, content)
    upper(read(file.getvalue()), tmp_path)
    with zipfile.ZipFile(tmp_path / "b.docx") as new, zipfile.ZipFile(file) as old:
        assert new.comment == b"comment" and new.namelist() == old.namelist()
        fields = ("date_time", "compress_type", "external_attr", "extra")
        for info in new.infolist():
            same = old.getinfo(info.filename)
            assert all(getattr(info, field) == getattr(same, field) for field in fields[1:])
            assert info.date_time == same.date_time
        expected = [content.upper() if name == "a.xml" else content for name, content in MEMBERS]
        assert [new.read(name) for name in new.namelist()] == expected


def test_an_archive_without_new_texts_is_the_same_bytes(read, tmp_path):
    data = archive(MEMBERS)
    read(data).render([None], tmp_path / "b.docx")
    assert (tmp_path / "b.docx").read_bytes() == data


def test_a_name_in_utf_8_that_is_not_declared_stays(read, tmp_path):
    data = archive([("aaaa.bin", b"x"), ("a.xml", b"words")]).replace(b"aaaa", "éé".encode())
    assert read(data).names[0] == "éé.bin"
    assert "éé.bin".encode() in upper(read(data), tmp_path)
    assert read(data.replace("éé".encode(), b"\x82\x82\x82\x82")).names[0] == "éééé.bin"  # cp437


def test_a_text_keeps_its_encoding_and_mark(read, tmp_path):
    for head, codec in (
        ('<?xml version="1.0" encoding="latin-1"?>', "latin-1"),
        ("", "utf-16"),
    ):
        content = f"{head}<a>é</a>"
        document = read(archive([("a.xml", content.encode(codec))]))
        (unit,) = document.units
        document.render([MarkedText(unit.text.replace("é", "É狗"))], tmp_path / "b.docx")
        with zipfile.ZipFile(tmp_path / "b.docx") as new:
            dog = "&#29399;" if codec == "latin-1" else "狗"
            assert new.read("a.xml").decode(codec) == content.replace("é", "É" + dog)


def with_size(data, size):
    """Return an archive whose central directory declares another size of its first member."""
    at = data.index(b"PK\1\2") + 24
    return data[:at] + struct.pack("<I", size) + data[at + 4 :]


ONE = archive([("a.xml", b"x" * 5000)])
DAMAGED = {
    "not a zip": (b"text", "File is not a zip file"),
    "half": (ONE[:60], "File is not a zip file"),
    "CRC": (archive([("i.png", b"pixels")], zipfile.ZIP_STORED).replace(b"pix", b"pax"), "Bad CRC"),
    "less than declared": (with_size(ONE, 9000), "a.xml has 5,000 of 9,000 bytes"),
    "more than declared": (with_size(ONE, 10), "Bad CRC"),
    "huge": (with_size(ONE, 1 << 31), "a.xml: 2,147,483,648 bytes or more when unpacked"),
    "method": (archive([("a.xml", b"x")], zipfile.ZIP_BZIP2), "is not stored or deflated"),
    "encrypted": (ONE.replace(b"PK\1\2\x14\3\x14\0\0", b"PK\1\2\x14\3\x14\0\1"), "encrypted"),
    "twice": (archive([("a.xml", b"x"), ("b.xml", b"")]).replace(b"b.x", b"a.x"), "two members"),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_archive_is_one_line(name, read, tmp_path):
    data, expected = DAMAGED[name]
    with pytest.raises(UserError, match=expected) as error:
        read(data)
    assert str(tmp_path / "a.docx") in str(error.value) and "\n" not in str(error.value)


def test_a_text_that_is_too_large_is_one_line(read, monkeypatch):
    monkeypatch.setattr(zipped, "LARGEST_TEXT", 1000)
    with pytest.raises(UserError, match=r"a\.docx, a\.xml: 5,000 bytes when unpacked"):
        read(ONE)


def test_random_damages_are_refused_in_one_line_or_change_nothing(read):
    data, draw = (
        archive([(f"{i}.xml", f"words {i} " * 99) for i in range(9)]),
        random.Random(1),
    )
    expected = read(data).units
    for _ in range(300):
        start, size = draw.randrange(len(data)), draw.choice([1, 1, 4, 200])
        bad = data[:start] + draw.randbytes(size) + data[start + size :]
        try:
            units = read(bad).units
        except UserError as error:
            assert "\n" not in str(error)
        else:
            assert units == expected
