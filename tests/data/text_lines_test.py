"""Lines of text: buffers, line breaks and sentences."""

import bz2
import gzip
import io
import lzma
import os
import sys
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_transformer.data.text_lines import (
    BREAKS,
    in_windows,
    line_windows,
    split_sentences,
    without_breaks,
)
from keras_transformer.errors import UserError

pytestmark = pytest.mark.once


def windows_of(data, size=None):
    return list(line_windows(io.BytesIO(data), "text", size))


def test_lines_before_one_that_is_too_long_are_yielded():
    lines = ["a", "b", "c", "d" * 100_001, "e"]
    windows = line_windows(io.BytesIO("\n".join(lines).encode()), "text", 2)
    assert [next(windows), next(windows)] == [["a", "b"], ["c"]]
    with pytest.raises(UserError, match="text, line 4: 100,001 characters"):
        next(windows)


# Of any stream


def failing(count):
    yield from range(count)
    raise OSError("no more")


def test_windows_of_a_stream():
    assert list(in_windows(range(7), 3)) == [[0, 1, 2], [3, 4, 5], [6]]
    assert list(in_windows(range(6), 3)) == [[0, 1, 2], [3, 4, 5]]
    assert list(in_windows([], 3)) == []


@pytest.mark.parametrize("count", [0, 2, 3, 4])
def test_items_before_an_error_are_yielded(count):
    seen = []
    with pytest.raises(OSError, match="no more"):
        for window in in_windows(failing(count), 3):
            seen += window
    assert seen == list(range(count))


def test_no_more_is_read_than_a_window():
    read = []
    stream = in_windows((read.append(i) or i for i in range(9)), 4)
    assert next(stream) == [0, 1, 2, 3] == read
    assert next(stream) == [4, 5, 6, 7] and len(read) == 8


# Of lines


@pytest.mark.parametrize("size", [1, 2, 3, 4, 100])
def test_lines_of_a_file(size):
    windows = windows_of(b"a\r\n\nb\rc\n\x00 \xc3\xa9\nlast", size)
    lines = ["a", "", "b\rc", "\x00 é", "last"]
    assert windows == [lines[i : i + size] for i in range(0, 5, size)]


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"a", ["a"]),
        (b"\xef\xbb\xbf", []),
        (b"\xef\xbb\xbfa\n\xef\xbb\xbfb", ["a", "\ufeffb"]),
    ],
)
def test_ends_and_byte_order_marks(data, lines):
    for size in (1, 5):
        assert [line for window in windows_of(data, size) for line in window] == lines


def test_lines_may_be_longer_than_the_read_buffer():
    lines = ["x" * 100_000, "é" * 70_000, "", "y" * 100_000]
    assert windows_of("\n".join(lines).encode()) == [lines]


def test_a_file_makes_full_windows():
    data = b"a line\n" * 30_000
    assert [len(window) for window in windows_of(data)] == [4096] * 7 + [30_000 - 7 * 4096]


@pytest.mark.parametrize("bad", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("size", [1, 2, 4, 100])
def test_lines_before_invalid_utf_8_are_yielded(bad, size):
    lines = [b"one", b"two", b"three", b"four", b"five"]
    lines[bad - 1] = b"\xff\xfe"
    seen = []
    with pytest.raises(ValueError, match=f"text, line {bad}: cannot decode byte"):
        for window in line_windows(io.BytesIO(b"\n".join(lines)), "text", size):
            seen += window
    assert seen == [line.decode() for line in lines[: bad - 1]]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("Собака бежит.\n".encode("utf-16-le"), "text, line 1: NUL or control bytes, as in UTF-16"),
        ("A dog.\n".encode("utf-16"), "text, line 1: NUL or control bytes, as in UTF-16"),
        (gzip.compress(b"A dog.\n", mtime=0), "text is compressed with gzip. Decompress it first."),
        (bz2.compress(b"A dog.\n"), "text is compressed with bzip2. Decompress it first."),
        (lzma.compress(b"A dog.\n"), "text is compressed with xz. Decompress it first."),
    ],
    ids=["utf-16-le", "utf-16", "gzip", "bzip2", "xz"],  # gzip's bytes have the time in them
)
def test_a_stream_in_another_encoding_is_named(data, message):
    for size in (1, 5):
        with pytest.raises(ValueError, match=message):
            windows_of(data, size)


@pytest.mark.parametrize("size", [0, -1])
def test_a_window_holds_a_line(size):
    with pytest.raises(ValueError, match=f"buffer_size={size}"):
        windows_of(b"a", size)


# Of lines that somebody else still writes


@pytest.fixture
def pipe():
    reading, writing = os.pipe()
    with open(reading, "rb") as reader, open(writing, "wb", buffering=0) as writer:
        # Who waits for more than there is finds the end, and the test fails.
        timer = threading.Timer(30, writer.close)
        timer.start()
        yield reader, writer
        timer.cancel()


@pytest.mark.parametrize("size", [1, 3, None])
def test_a_line_does_not_wait_for_the_next(pipe, size):
    reader, writer = pipe
    windows = line_windows(reader, "pipe", size)
    for text in ("one", "", "three"):
        writer.write(f"{text}\nunfini".encode())
        assert next(windows) == [text]
        writer.write(b"shed\n")
        assert next(windows) == ["unfinished"]
    writer.write(b"last")
    writer.close()
    assert next(windows) == ["last"]
    assert next(windows, None) is None


def test_lines_that_are_there_share_a_window(pipe):
    reader, writer = pipe
    windows = line_windows(reader, "pipe", 3)
    writer.write(b"1\n2\n3\n4\n5\n")
    assert next(windows) == ["1", "2", "3"]
    assert next(windows) == ["4", "5"]


def test_a_program_that_keeps_writing_fills_the_windows(pipe):
    reader, writer = pipe

    def write():  # more than a pipe holds
        with writer:
            writer.write(b"a line of some length\n" * 20_000)

    thread = threading.Thread(target=write)
    thread.start()
    sizes = [len(window) for window in line_windows(reader, "pipe")]
    thread.join()
    assert sum(sizes) == 20_000 and max(sizes) == 4096


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="the system has no such terminals")
def test_a_terminal_gives_a_line_at_a_time():
    master, slave = os.openpty()
    with open(slave, "rb") as terminal:
        os.write(master, b"one\ntwo\n")
        windows = line_windows(terminal, "terminal")
        assert [next(windows), next(windows)] == [["one"], ["two"]]
    os.close(master)


def test_breaks_equal_splitlines_and_the_tab():
    characters = map(chr, range(sys.maxunicode + 1))
    splitting = {x for x in characters if len(f"a{x}b".splitlines()) > 1}
    assert splitting | {"\t"} == set(BREAKS)


def test_a_text_keeps_only_the_line_breaks_of_its_source():
    text = f"a{BREAKS}b"
    assert without_breaks(text) == f"a{' ' * len(BREAKS)}b"
    assert without_breaks("a\n\tb\n", "x\ny") == "a\n b\n"
    assert without_breaks("a \xa0 b\x00") == "a \xa0 b\x00"


# Sentences


def read_paragraphs():
    lines = Path(__file__).with_name("sentences.tsv").read_text("utf-8").splitlines()
    rows = [line.split("\t") for line in lines if not line.startswith("#")]
    return [(language, text.replace("\\n", "\n")) for language, text in rows]


@pytest.mark.parametrize(("language", "text"), read_paragraphs())
def test_sentences_of_a_paragraph(language, text):
    space = "" if language in ("zh", "ja") else "  "
    expected = [sentence.strip() for sentence in text.split("|")]
    assert split_sentences(f" {text.replace('|', space)}\n", language) == expected


def test_a_blank_text_has_no_sentences():
    assert split_sentences("") == split_sentences(" \n ") == []


@given(
    st.text(
        st.sampled_from("ab A1.!?\"'()[]\u3002\uff01\u201c\u201d\u2026\n\t\u266c\ud800\x00"),
        max_size=60,
    ),
    st.sampled_from(["en", "de", "zh", "xx"]),
)
def test_sentences_have_all_characters_but_surrounding_space(text, language):
    assert "".join("".join(split_sentences(text, language)).split()) == "".join(text.split())


@pytest.mark.parametrize(
    "pattern", ["`", "\"'\u0301日", "“‘(", "a  ", "!a ", "1 a. A", "\n", "t.a."]
)
def test_splitting_any_text_takes_linear_time(pattern):
    def seconds(pattern):
        text = (pattern * 300_000)[:300_000]
        start = time.process_time()
        split_sentences(text)
        return time.process_time() - start

    assert seconds(pattern) < 2 + 3 * seconds("The dog sleeps in its house. The cat runs. ")


def test_a_sentence_that_is_longer_than_a_window_is_kept_whole():
    words = "word, “so”, " * 1000
    sentences = [f"A {words}end.", f"Mr. Smith's {words}end!", "He left."]
    assert split_sentences(" ".join(sentences)) == sentences
    assert split_sentences("x" * 10_000 + ". Then.") == ["x" * 10_000 + ".", "Then."]


@pytest.mark.parametrize(
    "sentence", ["Dr. A said: \u2018No.\u2019 ", "\u4f60\u597d\u3002", f"{'long ' * 3000}. "]
)
def test_a_long_text_is_split_as_a_short_one_in_time_that_grows_with_its_length(sentence):
    # Without windows, sentencex takes minutes for the second.
    count = max(1, 200_000 // len(sentence))
    start = time.process_time()
    assert split_sentences(sentence * count) == split_sentences(sentence) * count
    assert time.process_time() - start < 20
