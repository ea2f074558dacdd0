"""Translation of whole files: interruption, refusals, bad input, and the command."""

import io
import json
import re
import zipfile

import pytest

import keras_transformer as kt
from keras_transformer.commands import main
from keras_transformer.documents import read_document, translate_file

pytestmark = pytest.mark.once
pytest.importorskip("polib", reason="the extra `documents` is not installed")
HEADER = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n"Language: de\\n"\n\n'
XLIFF = '<xliff version="1.2"><file><body><trans-unit id="1"><source>{}</source></trans-unit>{}'
# Each entity is ten times the one before.
ENTITIES = "".join(f'<!ENTITY e{n + 1} "{f"&e{n};" * 10}">' for n in range(9))
ENTITIES = f'<!DOCTYPE x [<!ENTITY e0 "aaaaaaaaaa">{ENTITIES}]>'


def upper(texts, markup=None):
    return [text.upper() for text in texts]


@pytest.fixture
def lines(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("".join(f"line {number}\n" for number in range(600)))
    return path


def test_an_interrupted_run_continues_and_the_target_is_whole(lines, tmp_path):
    target, asked = tmp_path / "b.txt", []

    def fails_after_the_first_list(texts):
        if asked:
            raise KeyboardInterrupt
        asked.extend(texts)
        return upper(texts)

    with pytest.raises(KeyboardInterrupt):
        translate_file(lines, target, fails_after_the_first_list, settings="model")
    assert not target.exists() and 0 < len(asked) < 600
    kept = tmp_path / "b.txt.translations.jsonl"
    with open(kept, "a") as file:
        file.write('["line 599", "half a l')  # killed while it wrote
    rest = []

    def remaining(texts):
        rest.extend(texts)
        return upper(texts)

    report = translate_file(lines, target, remaining, settings="model")
    assert sorted(asked + rest) == sorted(lines.read_text().splitlines())
    assert (report.num_units, report.num_translated, report.num_resumed) == (600, 600, len(asked))
    assert target.read_text() == lines.read_text().upper() and not kept.exists()


def test_translations_of_other_settings_are_not_used(lines, tmp_path):
    kept = tmp_path / "b.txt.translations.jsonl"
    kept.write_text(json.dumps(["other", None, None]) + '\n["line 1", "wrong"]\n')
    report = translate_file(lines, tmp_path / "b.txt", upper, settings="model")
    assert report.num_resumed == 0 and "wrong" not in (tmp_path / "b.txt").read_text()


def test_each_text_is_translated_once_and_an_empty_translation_is_none(tmp_path):
    (tmp_path / "a.txt").write_text("same\nother\nsame\n")
    asked = []

    def translate(texts):
        asked.extend(texts)
        return ["", "new"]

    report = translate_file(tmp_path / "a.txt", tmp_path / "b.txt", translate)
    assert asked == ["same", "other"]
    assert (tmp_path / "b.txt").read_text() == "same\nnew\nsame\n"
    assert str(report) == "translated 1 of 3 texts; skipped: 2 without a translation"


@pytest.mark.parametrize("name", ["a.txt", "link.txt", "b.html", "folder", "c.nothing"])
def test_a_wrong_target_is_refused_before_any_work(name, lines, tmp_path):
    (tmp_path / "link.txt").symlink_to(lines)
    (tmp_path / "folder").mkdir()
    before = lines.read_bytes()
    with pytest.raises(kt.UserError, match="`output`|the source"):
        translate_file(lines, tmp_path / name, lambda texts: pytest.fail("translated"))
    assert lines.read_bytes() == before


def test_a_failed_translation_leaves_an_earlier_target(lines, tmp_path):
    target = tmp_path / "b.txt"
    target.write_text("earlier")
    with pytest.raises(kt.UserError, match="one string per text. Received: 0 for 256"):
        translate_file(lines, target, lambda texts: [])
    assert target.read_text() == "earlier"


def test_a_file_of_another_language_is_refused(tmp_path):
    (tmp_path / "a.po").write_text(f'{HEADER}msgid "a"\nmsgstr ""\n')
    with pytest.raises(kt.UserError, match="a.po declares translations into 'de'.* 'fr'"):
        translate_file(tmp_path / "a.po", tmp_path / "b.po", upper, target_lang="fr")
    translate_file(tmp_path / "a.po", tmp_path / "b.po", upper, target_lang="de_AT")
    (tmp_path / "a.xlf").write_text('<xliff version="2.0" trgLang="de-CH"><file id="a"/></xliff>')
    with pytest.raises(kt.UserError, match="a.xlf declares translations into 'de-CH'.* 'fr_FR'"):
        translate_file(tmp_path / "a.xlf", tmp_path / "b.xlf", upper, target_lang="fr_FR")


def archive(name, content):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as parts:
        parts.writestr(name, content)
    return file.getvalue()


BAD = {
    "not_a_zip.docx": (b"text", "is not a complete .docx file: File is not a zip file"),
    "half.docx": (archive("word/document.xml", "<a/>" * 99)[:60], "is not a complete .docx"),
    "other.docx": (archive("a", "b"), "has no part word/document.xml"),
    "bomb.docx": (archive("word/document.xml", f"{ENTITIES}<a>&e9;</a>"), "document.xml.*ampli"),
    "bomb.xlf": (f"{ENTITIES}{XLIFF.format('&e9;', '</body></file></xliff>')}", "amplification"),
    "file.xlf": (
        '<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/hostname">]>'
        + XLIFF.format("&a;", "</body></file></xliff>"),
        "must not declare entities",
    ),
    "half.xlf": (XLIFF.format("a", "\n"), "half.xlf, line 2 is not valid XML"),
    "page.xlf": ("<html/>", "is not an XLIFF file: its first element is html"),
    "latin.txt": ("one\ngrün".encode("latin-1"), "line 2: cannot decode byte 0xfc as utf-8"),
    "wide.txt": ("wide\n".encode("utf-16-le"), "line 1: NUL bytes"),
    "long.txt": ("a\n" + "b" * 200_000, "line 2: a text of 200,000 characters"),
    "long.md": ("a\n" + "b" * 200_000, "line 2: a line of over 100,000 characters"),
    "long.html": ("<p>\n" + "b" * 200_000, "line 1: a text without a tag of over 100,000"),
    "charset.html": ("<meta charset=nothing>", "has an unknown encoding: 'nothing'"),
    "times.srt": ("1\n00:00:01,000 --> 00:00:x2,000\na\n", "line 2: cannot read the times"),
    "back.srt": ("\n00:00:05,000 --> 00:00:02,000\na\n", "line 2: a cue ends before it begins"),
    "none.srt": ("words\n", "has no cue"),
    "long.srt": ("1\n00:00:01,000 --> 00:00:02,000\n" + "b" * 200_000, "line 3: a line of over"),
    "none.vtt": ("00:01.000 --> 00:02.000\na\n", "line 1: expected WEBVTT"),
    "header.po": ('msgid "a"\nmsgstr ""\n', "line 1: the header of the catalog has no charset"),
    "template.po": (HEADER.replace("UTF-8", "CHARSET"), "line 1: the header of the catalog has"),
    "half.po": (f'{HEADER}msgid "a', "line 5: the catalog is damaged"),
    "without.po": (f'{HEADER}msgid "a"\n', "line 5: a message without msgstr"),
    "plural.po": (
        f'{HEADER}msgid "a"\nmsgid_plural "b"\nmsgstr[0] ""\n', "line 5: .* no valid Plural-Forms"
    ),
    "word.po": (f'{HEADER}msgid "a"\nnothing "b"\n', "line 6: the catalog is damaged"),
    "a.pdf": ("", "unknown format '.pdf'. Expected one of: .txt"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_line_with_its_file_and_place(name, tmp_path, capsys):
    content, expected = BAD[name]
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(kt.UserError, match=expected) as error:
        read_document(path)
    assert str(path) in str(error.value) and "\n" not in str(error.value)
    with pytest.raises(SystemExit):
        main(["translate", "--model", "multi30k_en_de", str(path), "-o", str(tmp_path / "b")])
    (line,) = capsys.readouterr().err.splitlines()
    assert re.search(expected, line) and [*tmp_path.iterdir()] == [path]


def test_a_word_file_that_unpacks_to_too_much_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr("keras_transformer.documents.docx._LARGEST_PART", 1000)
    (tmp_path / "a.docx").write_bytes(archive("word/document.xml", " " * 1001))
    with pytest.raises(
        kt.UserError, match=r"a\.docx, word/document.xml: 1,001 bytes when unpacked"
    ):
        read_document(tmp_path / "a.docx")


def test_a_function_gets_the_markup_if_it_has_the_argument(tmp_path):
    (tmp_path / "a.html").write_text("<p>a")
    (tmp_path / "a.md").write_text("a")
    for suffix, markup in ((".html", "html"), (".md", "markdown")):
        paths = tmp_path / f"a{suffix}", tmp_path / f"b{suffix}"
        translate_file(*paths, lambda texts, markup=None: [f"{markup}!"])
        assert paths[1].read_text().endswith(f"{markup}!")
        translate_file(*paths, lambda texts: ["plain"])
        assert paths[1].read_text().endswith("plain")


def test_a_missing_file_is_one_line(tmp_path):
    with pytest.raises(kt.UserError, match=r"Cannot read the file .*a\.txt: No such file"):
        read_document(tmp_path / "a.txt")


def test_an_encoding_can_be_given(tmp_path):
    (tmp_path / "a.txt").write_bytes("grün".encode("latin-1"))
    translate_file(tmp_path / "a.txt", tmp_path / "b.txt", upper, encoding="latin-1")
    assert (tmp_path / "b.txt").read_bytes() == "GRÜN".encode("latin-1")
    with pytest.raises(kt.UserError, match="is in latin-1, which lacks '狗', in line 1"):
        translate_file(
            *(tmp_path / "a.txt", tmp_path / "c.txt", lambda texts: ["狗"]), encoding="latin-1"
        )


def test_overlapping_cues_are_not_joined_and_reported(tmp_path):
    times = "00:00:0{},000 --> 00:00:0{},000\n{}\n\n"
    (tmp_path / "a.srt").write_text(times.format(1, 4, "a dog") + times.format(2, 3, "a cat"))
    report = translate_file(tmp_path / "a.srt", tmp_path / "b.srt", upper)
    assert report.num_units == 2 and report.remarks == [
        "cues that begin before the last one ends, in lines 4"
    ]


def test_characters_that_no_xml_can_hold_are_left_out(tmp_path):
    (tmp_path / "a.xlf").write_text(XLIFF.format("a", "</body></file></xliff>"))
    translate_file(
        tmp_path / "a.xlf", tmp_path / "b.xlf", lambda texts, markup: ["b\0\x1b<& \ud800c"]
    )
    assert ">b&lt;&amp; c</target>" in (tmp_path / "b.xlf").read_text()
    translate_file(
        tmp_path / "a.xlf", tmp_path / "b.xlf", lambda texts, markup: ["&copy; &LT; &none; &gt;"]
    )
    assert ">\xa9 &lt; &amp;none; &gt;</target>" in (tmp_path / "b.xlf").read_text()


def test_the_command_translates_a_file(tmp_path, capsys):
    (tmp_path / "a.srt").write_text(
        "1\n00:00:01,000 --> 00:00:02,000\nA dog runs\n\n"
        "2\n00:00:02,000 --> 00:00:03,000\nthrough the snow.\n"
    )
    words = ["translate", "--model", "multi30k_en_de", str(tmp_path / "a.srt")]
    main([*words, "-o", str(tmp_path / "b.srt")])
    output = capsys.readouterr()
    assert output.out == "" and "b.srt: translated 1 of 1 texts" in output.err
    assert (tmp_path / "b.srt").read_text() == (
        "1\n00:00:01,000 --> 00:00:02,000\nEin Hund rennt\n\n"
        "2\n00:00:02,000 --> 00:00:03,000\ndurch den Schnee.\n"
    )


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["a.txt"], "Pass the file to write as `output`"),
        (["a.txt", "b.txt", "-o", "c.txt"], "must be given with one file.* 2 files"),
        (["-o", "c.txt"], "must be given with one file.* 0 files"),
        (["a.txt", "-o", "c.txt", "--n-best", "2"], "without `n_best`"),
        (["a.txt", "-o", "a.txt"], "it is the source"),
        (["a.txt", "-o", "a.html"], "`output` .*must end with .txt"),
    ],
)
def test_the_command_refuses_other_files(words, expected, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("a dog\n")
    with pytest.raises(SystemExit):
        main(["translate", "--model", "multi30k_en_de", *words])
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ") and re.search(expected, line), line
