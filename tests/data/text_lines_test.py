"""Lines of text: buffers, line breaks and sentences."""

import bz2
import gzip
import io
import lzma
import os
import sys
import threading
import time

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


def test_lines_longer_than_what_is_read_at_once():
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
        (gzip.compress(b"A dog.\n"), "text is compressed with gzip. Decompress it first."),
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


def test_a_program_that_goes_on_fills_the_windows(pipe):
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


def test_breaks_are_those_of_splitlines_and_the_tab():
    characters = map(chr, range(sys.maxunicode + 1))
    splitting = {x for x in characters if len(f"a{x}b".splitlines()) > 1}
    assert splitting | {"\t"} == set(BREAKS)


def test_a_text_keeps_only_the_line_breaks_of_its_source():
    text = f"a{BREAKS}b"
    assert without_breaks(text) == f"a{' ' * len(BREAKS)}b"
    assert without_breaks("a\n\tb\n", "x\ny") == "a\n b\n"
    assert without_breaks("a \xa0 b\x00") == "a \xa0 b\x00"


# Sentences

SENTENCES = [
    ("en", "Dr. Smith met Mrs. Jones on Jan. 5.|She left at once."),
    ("en", "It cost $3.50 and weighs 1,000.25 kg.|The pH rose by 0.5."),
    ("en", "He waited...|Then he left."),
    ("en", "We waited … and left."),
    ("en", '"Stop!" he cried.|Nobody stopped.'),
    ("en", 'He said "It works."|She agreed.'),
    ("en", "J. R. R. Tolkien wrote it.|It is long."),
    ("en", "The U.S. economy grew.|It ended at 5 p.m.|He went home."),
    ("en", "We saw E. coli in Fig. 2 at 3.5 h.|Smith et al. (2001) did not!|Why, e.g. here?"),
    ("en", "See www.example.com and Fig. 3A.|It has files."),
    ("en", "What?!|No way."),
    ("en", "No. 5 is alive\nand well.\n\n|A new paragraph"),
    ("de", "Am 3. Mai kam Dr. Müller z. B. nach Bonn.|Er blieb."),
    ("de-AT", "„Komm!“, rief er am 3. Mai.|Sie kam."),
    ("es", "¿Cómo está el Sr. García?|¡Muy bien!|Gracias."),
    ("it", "Il dott. Rossi è qui.|Va bene."),
    ("ru", "А. С. Пушкин родился в 1799 г. в Москве.|Он поэт."),
    ("zh", "价格是3.5元。|真贵……不买。|你呢？|他说：“好。”|然后走了！"),
    ("ja", "バージョン3.5です。|本当？|「はい。」|行こう！"),
    ("hi", "यह एक वाक्य है।|यह दूसरा है।"),
    ("ar", "هل أنت بخير؟|نعم.|أنا بخير."),
    ("unknown", "你好。|Hello.|Yes!"),
    # Small letters end a sentence only where no capitals begin sentences.
    ("en", "a dog runs.|a cat sleeps."),
    ("en", "A dog runs.|A cat sleeps. and eats.|It is late."),
    ("en", "I was there.|it was fun.|we left."),
    ("en", "We like Yahoo! and Google.|He left at 5 p.m.|It rained at 6 p.m. and later."),
    ("en", "The iPhone came.|eBay sold it.|Then he left."),
    ("ka", "ძაღლი დარბის.|კატას სძინავს.|NATO is here.|Yes.|ის მიდის."),
    ("en", "Get milk.\n\n|and eggs."),
    # Numbers.
    ("en", "It was in the box.|5 dogs came."),
    ("en", "He saw 3.|5 dogs came."),
]
# Abbreviations before a name, a small letter and a number.
SENTENCES += [
    ("bg", "Тук е г-н Иванов.|Това е, т.е. добре, ср. 5.|Край."),
    ("ca", "El Sr. Puig i el Dr. Pla són aquí.|Pesa aprox. 5 kg, p. ex. avui.|Adéu."),
    ("cs", "Pan Ing. Novák přišel.|Viz např. str. 5.|Konec."),
    ("da", "Hr. Hansen kom.|Det er f.eks. ca. 5 km.|Slut."),
    ("de", "Hrn. Maier sah ich, d.h. z.B. gestern.|Siehe Nr. 5, ggf. 6.|Ende."),
    ("el", "Ο κ. Παππάς ήρθε.|Δες π.χ. σελ. 5, δηλ. εδώ.|Τέλος."),
    ("en", "He has approx. 5 dogs.|See Vol. 2, i.e. Mx. Hill's.|She left."),
    ("es", "La Dña. Ana y el Sr. Gil vinieron.|Son aprox. 5 km, p. ej. hoy.|Fin."),
    ("et", "Seal on hr. Tamm.|Vaata nt. lk. 5 jne. edasi.|Lõpp."),
    ("fi", "Siellä on tri. Virtanen.|Se on esim. noin 5 km, ks. s. 5.|Loppu."),
    ("fr", "M. Dupont est là.|Mme. Dupont et Dr. Petit parlent.|Voir p. ex. réf. 5."),
    ("hr", "Mag. Horvat je tu.|Ima cca. 5 km, npr. danas.|Kraj."),
    ("hu", "Itt van özv. Nagy.|Kb. 5 km, ún. rövid.|Vége."),
    ("it", "Il Dott. Rossi e la Prof.ssa Bo parlano.|Vedi pag. 3 qui.|Fine."),
    ("lt", "Čia kun. Petraitis.|Žr. psl. 5, pvz. čia, t. y. taip.|Pabaiga."),
    ("lv", "Šeit ir doc. Ozols.|Skat. lpp. 5, piem. te, t.i. tā.|Beigas."),
    ("nl", "Mevr. Jansen is er.|Dat is d.w.z. goed, zie afb. 5.|Klaar."),
    ("no", "Her er fru. Hansen.|Det er f.eks. ca. 5 km, jf. kap. 3.|Slutt."),
    ("nb", "Det er f.eks. kl. 5.|Slutt."),
    ("pl", "Dr. Kowalski jest tu.|Ma ok. 5 lat, tj. mało, m.in. dziś.|Koniec."),
    ("pt", "A Profa. Lima e o Sr. Gil vieram.|São aprox. 5 km, p. ex. hoje.|Fim."),
    ("ro", "Dl. Popescu e aici.|Vezi pag. 5, de ex. aici.|Gata."),
    ("ru", "Это т.е. хорошо.|Тут г-н. Иванов, см. рис. 5, напр. тут.|Конец."),
    ("sk", "Prišiel Ing. Novák.|Pozri napr. str. 5.|Koniec."),
    ("sl", "Tu je mag. Novak.|Glej npr. str. 5, tj. tu.|Konec."),
    ("sv", "Det är t.ex. bra.|Fru Berg och fru. Ek kom kl. 5.|Slut."),
    ("tr", "Av. Kaya ve Doç. Ak geldi.|Bkz. örn. sf. 5 vb. yerler.|Son."),
    ("uk", "Тут проф. Коваль.|Див. рис. 5, напр. тут, т. зв. там.|Кінець."),
]


@pytest.mark.parametrize(("language", "text"), SENTENCES)
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
def test_splitting_any_text_takes_a_time_like_that_of_prose(pattern):
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
