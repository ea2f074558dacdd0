"""Text files: their lines, control characters and encodings."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

import keras_transformer as kt
from keras_transformer.documents import translate_file
from tests.documents.translators import Upper

pytestmark = pytest.mark.once
SUFFIX = ".txt"
TEXT = "  First line.\r\n\r\n\tSecond, 2nd \n***\nlast\u2028one"


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_a_text_translated_into_itself_is_the_same_bytes(newline, encoding, translated):
    content = TEXT.replace("\r\n", "\n").replace("\n", newline).encode(encoding)
    assert translated(content, lambda texts: texts) == content


def test_the_units_of_a_text_are_its_lines(translated):
    new = translated(TEXT)
    assert translated.texts == ["First line.", "Second, 2nd", "last\u2028one"]
    assert new == "  FIRST LINE.\r\n\r\n\tSECOND, 2ND \n***\nLAST\u2028ONE"
    assert translated.report.skipped == {"without letters": 1}


@pytest.mark.parametrize(
    ("content", "units"),
    [
        ("A dog runs.\x0cA cat sleeps.\n", ["A dog runs.", "A cat sleeps."]),
        ("\x0cpage\x0b2 of\x1d3\x85end", ["page", "2 of", "end"]),
        ("\x1b[31mred\x1b[0m dog", ["red dog"]),
        ("a\x00b\x7fc\x08", ["abc"]),
        ("bell\x07\x9d end", ["bell end"]),
    ],
)
def test_control_characters_of_a_text_stay(content, units, translated):
    capitals = re.sub(r"(\x1b\[\d+m)|.", lambda x: x[1] or x[0].upper(), content, flags=re.DOTALL)
    assert translated(content) == capitals
    assert translated.texts == units
    # Functions of strings get the texts without them.
    assert translated(content, lambda texts: texts) == content


@pytest.mark.parametrize(
    ("encoding", "codec"),
    [("utf-16", "utf-16-le"), ("UTF_16", "utf-16-le"), ("utf-8-sig", "utf-8"), ("U8", "utf-8"),
     ("utf-32", "utf-32-le"), ("utf-16-be", "utf-16-be"), ("latin-1", "latin-1")],
)  # fmt: skip
def test_a_given_encoding_adds_no_byte_order_mark(encoding, codec, translated):
    assert translated("grün".encode(codec), encoding=encoding) == "GRÜN".encode(codec)


@pytest.mark.parametrize(
    ("encoding", "expected"),
    [
        ("undefined", "cannot be decoded as undefined"),
        ("rot13", "has an unknown encoding: 'rot13'"),
        ("hex", "has an unknown encoding: 'hex'"),
        ("x-none", "has an unknown encoding: 'x-none'"),
        ("a\0b", "cannot be decoded as"),
        ("ascii", "line 2: cannot decode byte 0xc3 as ascii"),
    ],
)
def test_an_encoding_that_is_not_the_texts_is_one_line(encoding, expected, translated):
    with pytest.raises(kt.UserError, match=expected) as error:
        translated("a\ngrün".encode(), encoding=encoding)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("content", "encoding"),
    [(b"\x1b(B\x1b(Ba", "iso2022_jp"), (b"+AGE-b", "utf-7"), (b"\x87\x90", "cp932")],
)
def test_a_text_that_could_not_be_written_back_is_refused(content, encoding, translated, tmp_path):
    with pytest.raises(kt.UserError, match="could not be written back as it is"):
        translated(content, encoding=encoding)
    assert not (tmp_path / "b.txt").exists()


@pytest.mark.parametrize(
    ("encoding", "letter"), [("latin-1", "狗"), ("utf-8", "\ud800"), ("ascii", "ü")]
)
def test_a_translation_that_the_encoding_lacks_is_one_line(encoding, letter, translated, tmp_path):
    with pytest.raises(kt.UserError, match=r"a\.txt is in .*, which lacks .*, in line 2"):
        translated(b"one\ntwo", lambda texts: ["a", letter], encoding=encoding)
    assert not (tmp_path / "b.txt").exists()
    # The work is kept.
    assert (tmp_path / "b.txt.translations.jsonl").exists()


@st.composite
def documents(draw):
    """Build a text out of lines with all kinds of characters."""
    letters = "abé 狗5 \t\u2028\ufeff_*\x00\x0b\x0c\x1b[31m\x85\x7f"
    words = st.text(st.sampled_from(letters), max_size=12)
    ends = st.sampled_from(["\n", "\r\n", "\r", "\n\n", "\x0c"])
    return "".join(draw(words) + draw(ends) for _ in range(draw(st.integers(1, 5))))


@given(documents())
def test_each_letter_is_translated_and_nothing_else_changes(tmp_path_factory, document):
    if document.count("\0") > 1:
        document = document.replace("\0", "")
    folder = tmp_path_factory.mktemp("text")
    (folder / "a.txt").write_bytes(document.encode())
    translate_file(folder / "a.txt", folder / "b.txt", lambda texts: texts)
    assert (folder / "b.txt").read_bytes() == document.encode()
    translate_file(folder / "a.txt", folder / "b.txt", Upper())
    pattern = re.compile(r"(\x1b\[[\d;?]*[A-Za-z])|.", re.DOTALL)
    wanted = pattern.sub(lambda x: x[1] or x[0].upper(), document)
    assert (folder / "b.txt").read_bytes().decode() == wanted
