"""Subtitles: their cues and units, and what is written with translations."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

import keras_transformer as kt
from keras_transformer.documents import read_document, translate_file
from keras_transformer.protection.spans import MarkedText
from tests.documents.translators import Upper, upper

pytestmark = pytest.mark.once
pysubs2 = pytest.importorskip("pysubs2", reason="pysubs2 is not installed")
SUFFIX = ".srt"
SUBRIP = """\
1
00:00:01,000 --> 00:00:02,500
{\\an8}<i>A dog runs through
the snow and</i>

2
00:00:02,600 --> 00:00:04,500
<i>then it sleeps & eats.</i>

3
00:00:05,000 --> 00:00:06,500
- Hi there!
- Hello, 
you.

4
00:00:06,600 --> 00:00:07,000
1984!
5
00:00:07,100 --> 00:00:08,000
No <b>blank</b> line before
"""
WEBVTT = """\
WEBVTT - a title

STYLE
::cue { color: white }

NOTE a comment
with words

intro
00:01.000 --> 00:02.000 align:start
<v Fred>Tom &amp; <c.loud>Jerry</c>
run <00:01.500>fast

00:10.000 --> 00:11.000
<v Ann>Hello</v>
"""
TIMES = "00:00:0{0},000 --> 00:00:0{0},900\n"


class Answer:
    """A translator of one unit, whose spans are at the given positions."""

    def __init__(self, text, *positions):
        self.text, self.positions = text, positions

    def translate_units(self, units):
        (unit,) = units
        spans = zip(self.positions, [span for _, span in unit.spans], strict=True)
        return [MarkedText(self.text, tuple(spans))]


@pytest.mark.parametrize(("suffix", "content"), [(".srt", SUBRIP), (".vtt", WEBVTT)])
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_subtitles_translated_into_themselves_are_the_same_bytes(
    suffix, content, newline, encoding, translated
):
    content = content.replace("\n", newline).encode(encoding)
    assert translated(content, lambda texts: texts, suffix) == content
    assert translated(content.upper(), upper, suffix)[:9] == content.upper()[:9]


def test_a_sentence_over_two_cues_is_one_unit(translated, tmp_path):
    new = translated(SUBRIP)
    assert translated.units == [
        "A dog runs through the snow and</i> <i>then it sleeps & eats."[:31]
        + " then it sleeps & eats.",
        *("Hi there!", "Hello, you.", "No <b>blank</b> line before"),
    ]
    cues, old = (pysubs2.load(str(tmp_path / name)) for name in ("b.srt", "a.srt"))
    assert [(cue.start, cue.end) for cue in cues] == [(cue.start, cue.end) for cue in old]
    assert [cue.plaintext.upper() for cue in old] == [cue.plaintext for cue in cues]
    assert "{\\an8}<i>A DOG RUNS THROUGH\nTHE SNOW AND</i>\n" in new
    assert "<i>THEN IT SLEEPS & EATS.</i>" in new and "- HELLO, \nYOU." in new
    assert translated.report.skipped == {"without letters": 1}


def test_webvtt_keeps_voices_styles_and_times_in_cues(translated):
    new = translated(WEBVTT, suffix=".vtt")
    assert translated.units == ["Tom & <c.loud>Jerry</c> run <00:01.500>fast", "Hello"]
    assert new == WEBVTT.replace("Tom", "TOM").replace("Jerry", "JERRY").replace(
        "run <00:01.500>fast", "RUN <00:01.500>FAST"
    ).replace("Hello", "HELLO")
    assert translated.report.skipped == {"in notes": 1}


def test_a_translation_is_put_back_in_proportion_to_the_cues(translated):
    content = f"1\n{TIMES.format(1)}one two three four\n\n2\n{TIMES.format(2)}five six.\n"
    new = translated(content, Answer("aaa bbb ccc ddd eee fff."))
    assert translated.units == ["one two three four five six."]
    assert new == content.replace("one two three four", "aaa bbb ccc ddd").replace(
        "five six.", "eee fff."
    )


def lines_with_tags(text):
    return [line for line in text.split("\n") if "<" in line]


@pytest.mark.parametrize(
    ("positions", "expected"),
    [
        ((0, 7, 8, 9), ["<i>a b c</i>", "<i>d</i> <b>e</b> f"]),
        ((2, 6, 6, 11), ["a <i>b c</i>", "<b>d e f</b>"]),
        ((2, 5, 6, 9), ["a <i>b c</i>", "<b>d e</b> f"]),
        ((0, 11, 11, 11), ["<i>a b c</i>", "<i>d e f</i><b></b>"]),
    ],
)
def test_tags_that_end_in_another_cue_are_closed_and_opened_again(positions, expected, translated):
    content = f"{TIMES.format(1)}a <i>b c</i>\n\n{TIMES.format(2)}d <b>e</b> f\n"
    new = translated(content, Answer("a b c d e f", *positions))
    assert translated.units == ["a <i>b c</i> d <b>e</b> f"]
    assert lines_with_tags(new) == expected


def test_cues_with_fewer_words_than_cues_show_the_last_part_again(translated):
    content = "".join(f"{TIMES.format(n)}word{n}\n\n" for n in (1, 2, 3))
    new = translated(content, Answer("Hallo Welt"))
    assert new == re.sub("word[23]", "Welt", content.replace("word1", "Hallo"))
    assert translated(content, Answer("Hallo")) == re.sub(r"word\d", "Hallo", content)


def test_lines_of_subtitles_are_wrapped_at_42_columns(translated):
    words = " ".join(["word"] * 14)  # 69 characters
    new = translated(f"{TIMES.format(1)}short\n", Answer(words))
    lines = new.split("\n")[1:-1]
    assert len(lines) == 2 and " ".join(lines) == words and max(map(len, lines)) <= 42
    chinese = translated(f"{TIMES.format(1)}short\n", Answer("狗，" * 15))
    lines = chinese.split("\n")[1:-1]
    assert "".join(lines) == "狗，" * 15 and len(lines) == 2 and not lines[1].startswith("，")


def test_tags_may_span_lines_of_a_cue(translated):
    content = f"{TIMES.format(1)}one <i>two\nthree</i> four\n"
    assert translated(content) == content.upper().replace("I>", "i>")


@pytest.mark.parametrize("ends", ["\n\r\n", "\r\n\n", "\r\n", "\n", "\r"])
def test_mixed_line_ends_cut_no_letter_off(ends, translated):
    first, second = ends[: len(ends) // 2 or 1], ends[len(ends) // 2 :]
    parts = [
        f"1\n{TIMES.format(1)}Hello dog.\n\n".replace("\n", first),
        f"2\n{TIMES.format(2)}A cat.\nIt runs.\n".replace("\n", second),
    ]
    new = translated("".join(parts).encode())
    assert new.decode() == "".join(parts).upper()
    assert translated.units == ["Hello dog.", "A cat. It runs."]


def test_subrip_text_after_a_blank_line_is_translated(translated):
    content = (
        f"1\n{TIMES.format(1)}\nA dog runs.\n\n2\n{TIMES.format(2)}Two men sit\n\non a bench."
        f"\n\n3\n{TIMES.format(3)}I am stuck at work,\n\nI will be late."
        f"\n\n\n4\n{TIMES.format(4)}End\n"
    )
    assert translated(content) == content.upper()
    assert translated.units == [
        *("A dog runs.", "Two men sit on a bench.", "I am stuck at work, I will be late.", "End"),
    ]


def test_a_line_with_a_space_does_not_end_a_cue(translated):
    content = (
        "WEBVTT\nKind: captions\nLanguage: en\n\n00:00:00.030 --> 00:00:02.720 align:start\n \n"
        "a<00:00:00.719><c> dog</c><00:00:00.930><c> runs</c>\n\n"
        "00:00:02.720 --> 00:00:02.730 align:start\na dog runs\n \n\n"
        "00:00:02.730 --> 00:00:05.000 align:start\na dog runs\nand<00:00:03.000><c> sleeps</c>\n"
    )
    new = translated(content, suffix=".vtt")
    assert [re.sub("<[^>]*>", "", unit) for unit in translated.units] == [
        *("a dog runs", "a dog runs", "a dog runs", "and sleeps"),
    ]
    expected = re.sub("a dog runs|and|(?<=<c> )[a-z]+|^a(?=<)", lambda x: x[0].upper(), content)
    assert new == expected.replace("\na<", "\nA<")


def test_text_of_webvtt_outside_of_cues_is_counted(translated):
    content = (
        "WEBVTT\n\nNOTE one\n\nREGION\nid:fred\n\n00:01.000 --> 00:02.000\nTwo men sit\n\n"
        "on a bench.\n\n"
        "name of a cue\n00:03.000 --> 00:04.000\nEnd\n\nleft\nover\n\nSTYLE\n::cue {}\n"
    )
    new = translated(content, suffix=".vtt")
    assert translated.report.skipped == {"in notes": 1, "outside of cues": 2}
    assert new == content.replace("Two men sit", "TWO MEN SIT").replace("End", "END")


def test_text_with_an_arrow_is_text(translated):
    content = f"{TIMES.format(1)}press A --> B\n--> or this\n"
    assert translated(content) == content.upper()
    assert translated.units == ["press A --> B --> or this"]


def test_the_language_of_a_header_becomes_the_targets(translated):
    content = "WEBVTT\nLanguage: en\n\n00:01.000 --> 00:02.000\nLanguage: en\n"
    new = translated(content, suffix=".vtt", source_lang="eng_Latn", target_lang="de")
    assert new == content.replace("Language: en\n\n", "Language: de\n\n").replace(
        "Language: en\n", "LANGUAGE: EN\n"
    )
    other = content.replace("en\n\n", "fr\n\n")
    assert "Language: fr\n\n" in translated(
        other, suffix=".vtt", source_lang="en", target_lang="de"
    )


def test_webvtt_is_escaped_and_subrip_is_not(translated):
    answer = Answer("a < b & c --> d")
    new = translated("WEBVTT\n\n00:01.000 --> 00:02.000\nx\n", answer, ".vtt")
    assert new.endswith("\na &lt; b &amp; c --&gt; d\n")
    assert translated(f"{TIMES.format(1)}x & y < z\n", answer).endswith("\na < b & c --> d\n")


@pytest.mark.parametrize(
    ("cue", "units"),
    [
        ("- Hi\n- Ho", ["Hi", "Ho"]),
        ("<i>- Hi\n- Ho</i>", ["Hi", "Ho"]),
        ("— Hi\n–  Ho", ["Hi", "Ho"]),
        ("well-known\nthing", ["well-known thing"]),
        ("Hi - and\nHo", ["Hi - and Ho"]),
        ("{\\an8}{\\i1}Hi{\\i0} there", ["Hi{\\i0} there"]),
        ("{not} a {mark}", ["{not} a {mark}"]),
        ('<font color="#fff">Hi</font>', ["Hi"]),
        ("1 < 2 and\n3 > 2", ["1 < 2 and 3 > 2"]),
        ("狗在\n跑", ["狗在跑"]),
    ],
)
def test_the_units_of_a_cue(cue, units, translated):
    content = TIMES.format(1) + cue + "\n"
    assert translated(content) == TIMES.format(1) + re.sub(
        r"<\w[^>]*>|</\w*>|\{\\[^}]*\}|(.)", lambda x: (x[1] or "").upper() or x[0], cue
    ) + "\n"  # fmt: skip
    assert translated.units == units


@pytest.mark.parametrize(
    ("first", "second", "count"),
    [
        ("one", "two", 1), ("one.", "two", 2), ("one!”", "two", 2), ("one [x]", "two", 2),
        ("one (x) ♪", "two", 2), ("one", "- two", 2), ("one", "<v Ann>two", 2),
        ("one", "<i>two</i>", 1),
    ],
)  # fmt: skip
def test_which_cues_continue_a_sentence(first, second, count, translated):
    content = f"{TIMES.format(1)}{first}\n\n{TIMES.format(2)}{second}\n"
    translated(content)
    assert len(translated.units) == count


def test_cues_after_a_long_pause_or_of_a_long_sentence_are_not_joined(translated):
    translated(f"{TIMES.format(1)}one\n\n{TIMES.format(5)}two\n")
    assert translated.units == ["one", "two"]
    times = "00:00:{0:02},000 --> 00:00:{0:02},900\n"
    translated("".join(f"{times.format(n)}word{n}\n\n" for n in range(20)))
    assert [len(unit.split()) for unit in translated.units] == [8, 8, 4]


def test_overlapping_cues_are_not_joined_and_reported(translated):
    times = "00:00:0{},000 --> 00:00:0{},000\n{}\n\n"
    translated(times.format(1, 4, "a dog") + times.format(2, 3, "a cat"))
    assert translated.report.num_units == 2 and translated.report.remarks == [
        "cues that begin before the last one ends, in lines 4"
    ]


def test_numbers_of_cues_are_not_text(translated):
    content = (
        f"1\n{TIMES.format(1)}A dog\n2\n{TIMES.format(2)}runs\n\n3\n\n{TIMES.format(3)}fast.\n"
    )
    assert translated(content) == content.upper()
    assert translated.units == ["A dog runs fast."]


@pytest.mark.parametrize("text", [")", "<", "{\\", "- ", " \n", "<b ", "<b>", "-"])
def test_time_is_linear_in_the_length_of_a_cue(text, tmp_path):
    text = text * (90_000 // len(text)) + "a"
    (tmp_path / "a.srt").write_text(f"{TIMES.format(1)}{text}\n\n{TIMES.format(2)}b\n")
    begin = time.process_time()
    translate_file(tmp_path / "a.srt", tmp_path / "b.srt", Upper())
    assert time.process_time() - begin < 3


BAD = {
    "times.srt": ("1\n00:00:01,000 --> 00:00:x2,000\na\n", "line 2: cannot read the times"),
    "digits.srt": (
        f"00:{'1' * 5000}:01,000 --> 00:00:02,000\na\n",
        "line 1: cannot read the times",
    ),
    "back.srt": ("\n00:00:05,000 --> 00:00:02,000\na\n", "line 2: a cue ends before it begins"),
    "none.srt": ("words\n", "has no cue"),
    "empty.srt": ("", "has no cue"),
    "long.srt": (TIMES.format(1) + "b" * 200_000, "line 2: a text of 200,000 characters"),
    "none.vtt": ("00:01.000 --> 00:02.000\na\n", "line 1: expected WEBVTT"),
    "latin.srt": (TIMES.format(1).encode() + b"gr\xfcn", "line 2: cannot decode byte 0xfc"),
}


@pytest.mark.parametrize("name", BAD)
def test_damaged_subtitles_are_refused_in_one_line(name, tmp_path):
    content, expected = BAD[name]
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(kt.UserError, match=expected) as error:
        read_document(path)
    assert str(path) in str(error.value) and "\n" not in str(error.value)


PIECES = st.sampled_from(
    ["a dog", "runs.", "狗在跑。", "é", "&amp;", "x < y", "- ", "<i>", "</i>", "<c.x>", "</c>",
     "{\\an8}",     "<00:00:01.500>", "<v Ann>", " ", "\n", "\n \n", "5", "-->", "…", "♪"]
)  # fmt: skip


@st.composite
def documents(draw, is_vtt):
    """Build a file out of all constructs."""
    blocks = ["WEBVTT - title\nLanguage: en"] if is_vtt else []
    second = 0
    for number in range(draw(st.integers(1, 5))):
        if is_vtt and draw(st.integers(0, 3)) == 3:
            blocks.append(draw(st.sampled_from(["NOTE x\ny", "STYLE\n::cue {}", "left over"])))
        second += draw(st.integers(1, 4))
        point = "." if is_vtt else ","
        times = f"00:00:{second:02}{point}000 --> 00:00:{second:02}{point}900"
        text = "".join(draw(st.lists(PIECES, max_size=6))).replace("\n-->", "\n")
        head = draw(st.sampled_from([f"{number}\n", ""]))
        blocks.append(f"{head}{times}{' line:0' * is_vtt}\n{text.strip() or 'x'}")
    text = "\n\n".join(blocks) + draw(st.sampled_from(["", "\n", "\n\n"]))
    return text.replace("\n", draw(st.sampled_from(["\n", "\r\n"])))


@pytest.mark.parametrize("suffix", [".srt", ".vtt"])
@given(st.data())
def test_each_letter_is_translated_or_counted_and_nothing_else_changes(
    suffix, tmp_path_factory, data
):
    document = data.draw(documents(suffix == ".vtt"))
    folder = tmp_path_factory.mktemp("subtitles")
    source, target = folder / f"a{suffix}", folder / f"b{suffix}"
    source.write_bytes(document.encode())
    translate_file(source, target, lambda texts: texts)
    assert target.read_bytes().decode() == document
    report = translate_file(source, target, Upper())
    new = target.read_bytes().decode()
    unescape = lambda x: x.replace("&gt;", ">").replace("&lt;", "<")  # noqa: E731
    assert unescape(new).upper().replace("&AMP;", "&") == unescape(document).upper().replace(
        "&AMP;", "&"
    )
    if suffix == ".srt":
        cues = pysubs2.SSAFile.from_string(new, "srt"), pysubs2.SSAFile.from_string(document, "srt")
        assert [(x.start, x.end) for x in cues[0]] == [(x.start, x.end) for x in cues[1]]
    without = re.sub(
        r"(?m)</?[A-Za-z][^<>\n]*>|\{\\[^}]*\}|&[a-z]+;|^(WEBVTT|Language|STYLE|::cue|00:).*$",
        "",
        new,
    )
    left = re.findall(r"[a-zé]+", without)
    assert bool(left) <= bool(report.skipped), (left, report)
