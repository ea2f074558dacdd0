"""Translation of whole files: interruption, refusals, bad input, and the command."""

import json
import os
import re
import sys

import pytest

import keras_transformer as kt
from keras_transformer.commands import main
from keras_transformer.documents import read_document, translate_file
from keras_transformer.protection.spans import MarkedText
from tests.documents.translators import upper

pytestmark = pytest.mark.once
HEADER = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n"Language: de\\n"\n\n'
XLIFF = (
    '<xliff version="1.2"><file source-language="fr"><body><trans-unit id="1"><source>a</source>'
    "</trans-unit></body></file></xliff>"
)


class ShiftMarks:
    """A translator into capitals that moves all spans to the end."""

    def translate_units(self, units):
        texts = [unit.text.upper() for unit in units]
        return [
            MarkedText(text, tuple((len(text), span) for _, span in unit.spans))
            for text, unit in zip(texts, units)
        ]


@pytest.fixture
def lines(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("".join(f"line {number}\n" for number in range(600)))
    return path


def interrupted(source, target, **options):
    """Translate the first list of a file, and return its texts."""
    asked = []

    def fails_after_the_first_list(texts):
        if asked:
            raise KeyboardInterrupt
        asked.extend(texts)
        return upper(texts)

    with pytest.raises(KeyboardInterrupt):
        translate_file(source, target, fails_after_the_first_list, **options)
    return asked


def test_an_interrupted_run_continues_and_the_target_is_whole(lines, tmp_path):
    target, kept = tmp_path / "b.txt", tmp_path / "b.txt.translations.jsonl"
    asked = interrupted(lines, target, settings="model")
    assert not target.exists() and 0 < len(asked) < 600
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


def test_an_interrupted_run_keeps_the_places_of_spans(tmp_path):
    source = tmp_path / "a.txt"
    source.write_text("".join(f"\x1b[1mline\x1b[0m {number}\n" for number in range(300)))

    class Fails(ShiftMarks):
        def translate_units(self, units):
            if units[0].text == "line 0":
                return super().translate_units(units)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        translate_file(source, tmp_path / "b.txt", Fails())
    report = translate_file(source, tmp_path / "b.txt", ShiftMarks())
    assert report.num_resumed == 256
    expected = [f"LINE {number}\x1b[1m\x1b[0m" for number in range(300)]
    assert (tmp_path / "b.txt").read_text().split("\n") == [*expected, ""]


@pytest.mark.parametrize("other", [{"settings": "m2"}, {"target_lang": "fr"}, {"source_lang": "e"}])
def test_work_of_other_settings_is_kept_and_refused(other, lines, tmp_path):
    options = {"settings": "m", "target_lang": "de", "source_lang": "en"}
    interrupted(lines, tmp_path / "b.txt", **options)
    kept = tmp_path / "b.txt.translations.jsonl"
    before = kept.read_bytes()
    with pytest.raises(kt.UserError, match="interrupted run with other settings. Pass the same"):
        translate_file(lines, tmp_path / "b.txt", upper, **{**options, **other})
    assert kept.read_bytes() == before


def test_options_changed_since_an_interrupted_run_are_named(lines, tmp_path):
    settings = {"model": "m", "dtype": None, "alpha": "1"}
    interrupted(lines, tmp_path / "b.txt", settings=settings)
    with pytest.raises(kt.UserError, match=r"with other settings \(`alpha`, `model`\)"):
        translate_file(
            lines, tmp_path / "b.txt", upper, settings={**settings, "model": "./m", "alpha": "2"}
        )


@pytest.mark.parametrize("content", ["my notes\n", "", "[1]\n", "5\n", "[" * 100_000])
def test_a_file_in_the_place_of_the_kept_translations_is_not_deleted(content, lines, tmp_path):
    kept = tmp_path / "b.txt.translations.jsonl"
    kept.write_text(content)
    with pytest.raises(kt.UserError, match="jsonl must hold the translations .* Move it away"):
        translate_file(lines, tmp_path / "b.txt", upper)
    assert kept.read_text() == content


@pytest.mark.parametrize(
    "line",
    ["5", '["a", 7]', "null", "{}", '["[\\"line 1\\", []]", 7, []]', '["[\\"line 1\\", []]"]',
     '["[\\"line 1\\", []]", "WRONG", [[0, 0]]]', '["[\\"line 1\\", []]", "WRONG", 3]',
     '[["line 1"], "WRONG", []]', "[" * 100_000],
)  # fmt: skip
def test_damaged_lines_of_kept_translations_are_not_used(line, lines, tmp_path):
    interrupted(lines, tmp_path / "b.txt")
    kept = tmp_path / "b.txt.translations.jsonl"
    head = kept.read_text().split("\n")[0]
    kept.write_text(f"{head}\n{line}\n")
    report = translate_file(lines, tmp_path / "b.txt", upper)
    assert report.num_resumed == 0
    assert (tmp_path / "b.txt").read_text() == lines.read_text().upper()


def test_each_text_is_translated_once_and_an_empty_translation_is_not_used(tmp_path):
    (tmp_path / "a.txt").write_text("same\nother\nsame\n")
    asked = []

    def translate(texts):
        asked.extend(texts)
        return ["", "new"]

    report = translate_file(tmp_path / "a.txt", tmp_path / "b.txt", translate)
    assert asked == ["same", "other"]
    assert (tmp_path / "b.txt").read_text() == "same\nnew\nsame\n"
    assert str(report) == "translated 1 of 3 texts; skipped: 2 without a translation"


@pytest.mark.parametrize(
    "name", ["a.txt", "link.txt", "b.html", "folder", "c.nothing", "a.txt/b.txt"]
)
def test_a_wrong_target_is_refused_before_any_work(name, lines, tmp_path):
    (tmp_path / "link.txt").symlink_to(lines)
    (tmp_path / "folder").mkdir()
    before = lines.read_bytes()
    with pytest.raises(kt.UserError, match="`target`|the source"):
        translate_file(lines, tmp_path / name, lambda texts: pytest.fail("translated"))
    assert lines.read_bytes() == before


@pytest.mark.parametrize(
    ("result", "expected"),
    [([], "one string per text. Received: 0 results for 256"), ([1] * 256, "one string per text")],
)
def test_a_failed_translation_leaves_an_earlier_target(result, expected, lines, tmp_path):
    target = tmp_path / "b.txt"
    target.write_text("earlier")
    with pytest.raises(kt.UserError, match=expected):
        translate_file(lines, target, lambda texts: result)
    assert target.read_text() == "earlier"


def test_a_translation_that_lost_a_span_is_refused(tmp_path):
    class Loses:
        def translate_units(self, units):
            return [MarkedText(unit.text) for unit in units]

    (tmp_path / "a.txt").write_text("\x1b[1mred")
    with pytest.raises(kt.UserError, match="with the spans of its text. Received: 'red'"):
        translate_file(tmp_path / "a.txt", tmp_path / "b.txt", Loses())


def test_the_folder_of_a_target_is_made(lines, tmp_path):
    translate_file(lines, tmp_path / "new" / "folder" / "b.txt", upper)
    assert [*(tmp_path / "new" / "folder").iterdir()] == [tmp_path / "new" / "folder" / "b.txt"]


def test_a_device_gets_no_file_next_to_it(lines, capfd):
    translate_file(lines, "/dev/stdout", upper)
    assert capfd.readouterr().out == lines.read_text().upper()
    translate_file(lines, "/dev/null", upper)
    assert not os.path.exists("/dev/null.translations.jsonl")


def test_a_name_of_255_bytes_is_written_and_continued(lines, tmp_path):
    target = tmp_path / ("狗" * 83 + "bb.txt")
    assert len(os.fsencode(target.name)) == 255
    asked = interrupted(lines, target)
    assert translate_file(lines, target, upper).num_resumed == len(asked)
    assert sorted(x.name for x in tmp_path.iterdir()) == ["a.txt", target.name]


@pytest.mark.parametrize("kind", ["folder", "/dev/zero"])
def test_a_folder_or_a_device_in_the_place_of_the_kept_translations_is_refused(
    kind, lines, tmp_path
):
    kept = tmp_path / "b.txt.translations.jsonl"
    kept.mkdir() if kind == "folder" else kept.symlink_to(kind)
    with pytest.raises(kt.UserError, match=r"jsonl must hold the translations .* Move it away"):
        translate_file(lines, tmp_path / "b.txt", upper)


def test_a_disk_without_room_is_one_line(lines, tmp_path):
    resource = pytest.importorskip("resource", reason="Windows has no limits of sizes")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    def translate(texts):
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
        return upper(texts)

    try:
        with pytest.raises(kt.UserError, match=r"Cannot write to .*jsonl: File too large"):
            translate_file(lines, tmp_path / "b.txt", translate)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not (tmp_path / "b.txt").exists()


@pytest.mark.parametrize(
    ("declared", "wanted"),
    [("de", "fr"), ("de-CH", "fr_FR"), ("deu", "fra"), ("nb", "nn"), ("deu", "fr")],
)
def test_a_file_of_another_language_is_refused(declared, wanted, tmp_path):
    (tmp_path / "a.po").write_text(
        HEADER.replace("Language: de", f"Language: {declared}") + 'msgid "a"\nmsgstr ""\n'
    )
    expected = f"a.po declares translations into '{declared}'.* '{wanted}'"
    with pytest.raises(kt.UserError, match=expected):
        translate_file(tmp_path / "a.po", tmp_path / "b.po", upper, target_lang=wanted)


@pytest.mark.parametrize(
    ("declared", "wanted"),
    [("de", "de_AT"), ("nb", "no"), ("no", "nob_Latn"), ("iw", "he"), ("in", "id"), ("de", "deu"),
     ("zh_CN", "zho_Hans"), ("de@euro", "de"), ("xx", "xyz")],
)  # fmt: skip
def test_a_file_of_a_language_with_several_codes_is_translated(declared, wanted, tmp_path):
    (tmp_path / "a.po").write_text(
        HEADER.replace("Language: de", f"Language: {declared}") + 'msgid "a"\nmsgstr ""\n'
    )
    translate_file(tmp_path / "a.po", tmp_path / "b.po", upper, target_lang=wanted)


BAD = {
    "latin.txt": ("one\ngrün".encode("latin-1"), "line 2: cannot decode byte 0xfc as utf-8"),
    "wide.txt": ("wide\n".encode("utf-16-le"), "line 1: NUL bytes"),
    "long.txt": ("a\n" + "b" * 200_000, "line 2: a text of 200,000 characters"),
    "a.pdf": ("", "unknown format '.pdf'. Expected one of: .txt"),
}


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


@pytest.mark.parametrize("module", ["markdown_it", "mdit_py_plugins"])
def test_a_missing_library_is_named(module, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    (tmp_path / "a.md").write_text("a dog")
    with pytest.raises(kt.UserError, match="requires .*Install it: pip install .*`documents`"):
        read_document(tmp_path / "a.md")


def test_a_missing_file_is_one_line(tmp_path):
    with pytest.raises(kt.UserError, match=r"Cannot read the file .*a\.txt: No such file"):
        read_document(tmp_path / "a.txt")


def test_the_command_translates_a_file(tmp_path, capsys):
    (tmp_path / "a.txt").write_text("A dog runs\n")
    words = ["translate", "--model", "multi30k_en_de", str(tmp_path / "a.txt")]
    main([*words, "-o", str(tmp_path / "b.txt")])
    output = capsys.readouterr()
    assert output.out == "" and "b.txt: translated 1 of 1 texts" in output.err
    assert (tmp_path / "b.txt").read_text().startswith("Ein Hund")


def test_a_sentence_is_utf_8_in_every_locale(capsys):
    for sentence in ("A dog runs – a café.", "A dog runs \udce2\udc80\udc93 a caf\udcc3\udca9."):
        main(["translate", "--model", "multi30k_en_de", sentence])
    first, second = capsys.readouterr().out.splitlines()
    assert first == second


def test_the_report_names_letters_that_the_model_does_not_read(tmp_path):
    translator = kt.Translator.from_preset("multi30k_en_de", max_source_length=12)
    (tmp_path / "a.txt").write_text(f"A 狗 runs.\nA dog runs ✓.\nA 狗.\nA {'bigdog' * 20}")
    with pytest.warns(UserWarning, match="are not read whole"):
        report = translate_file(tmp_path / "a.txt", tmp_path / "b.txt", translator)
    assert sorted(report.remarks) == [
        "cut to the longest text that the model reads (texts: 1)",
        "not in the vocabulary: 狗 (texts: 2)",
    ]
    assert str(report).startswith("translated 4 of 4 texts\n")


def test_the_report_has_one_line_for_all_unknown_letters_and_is_the_same_after_a_stop(tmp_path):
    class Stopping:
        """It returns its units, and stops before the unit that it is given."""

        def __init__(self, number):
            self.prepare, self.rest = translator.prepare, number

        def translate_units(self, units):
            self.rest -= len(units)
            if self.rest < 0:
                raise KeyboardInterrupt
            return [unit.source for unit in units]

    translator = kt.Translator.from_preset("multi30k_en_de")
    letters = [chr(code) for code in range(0x4E00, 0x4E00 + 300)]
    (tmp_path / "a.txt").write_text("\n".join([*letters, letters[7] * 2]))
    source, target = tmp_path / "a.txt", tmp_path / "b.txt"
    whole = translate_file(source, target, Stopping(1000))
    with pytest.raises(KeyboardInterrupt):
        translate_file(source, target, Stopping(260))
    again = translate_file(source, target, Stopping(1000))
    assert again.num_resumed == 256 and again.remarks == whole.remarks
    (remark,) = whole.remarks
    assert remark.startswith(f"not in the vocabulary: {letters[7]}{letters[0]}")
    assert remark.endswith("... (texts: 301)") and len(remark) < 100


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["a.txt"], "Pass the file to write as `-o`"),
        (["A.TXT"], "Pass the file to write as `-o`"),
        (["a.txt", "b.txt", "-o", "c.txt"], "`-o` must be given with one file.* 2 files"),
        (["-o", "c.txt"], "`-o` must be given with one file.* 0 files"),
        (["a.txt", "-o", "a.txt"], "it is the source. Pass another `-o`"),
        (["a.txt", "-o", "a.html"], "`-o` must end with .txt"),
        (["a.txt", "-o", "a.txt/b.txt"], "Cannot write to .*Pass another `-o`"),
        (["a.txt", "-o", "/proc/b.txt"], "Cannot write to .*Pass another `-o`"),
        (["a.txt", "-o", f"{'n' * 300}.txt"], "Cannot write to .*name too long"),
        (
            ["a.txt", "-o", "c.txt", "--n-best", "2"],
            r"--n-best: expected without `-o`",
        ),
        (["a.txt", "-o", "c.txt", "--split", "none"], "--split: expected without `-o`"),
        (["a.txt", "-o", "c.txt", "--markup", "html"], "--markup: expected without `-o`"),
        (["a.txt", "-o", "c.txt", "--check", "--buffer-size", "1"], "--check, --buffer-size.*:"),
        (["--encoding", "utf-16", "a dog"], "--encoding is for files"),
        (["A dog \udcff runs."], r"Sentence 1 is not valid UTF-8. Received: 'A dog \\udcff runs"),
        (["A dog.", "\ud800"], "Sentence 2 is not valid UTF-8"),
    ],
)
def test_the_command_refuses_in_one_line(words, expected, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("a dog\n")
    (tmp_path / "A.TXT").write_text("a dog\n")
    with pytest.raises(SystemExit):
        main(["translate", "--model", "multi30k_en_de", *words])
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ") and re.search(expected, line), line


def test_a_sentence_of_over_255_bytes_may_end_with_the_name_of_a_file(capsys):
    main(["translate", "--model", "multi30k_en_de", "A dog runs. " * 25 + "See file.txt"])
    assert capsys.readouterr().out.startswith("Ein Hund")


def test_the_command_refuses_other_options_before_it_loads_the_model(tmp_path, capsys):
    (tmp_path / "a.txt").write_text("a dog\n")
    kept = tmp_path / "b.txt.translations.jsonl"
    kept.write_text(json.dumps([{"model": "other", "max_source_length": "9"}, "de", "en"]) + "\n")
    words = ["--model", "not/there", str(tmp_path / "a.txt"), "-o", str(tmp_path / "b.txt")]
    with pytest.raises(SystemExit):
        main(["translate", *words])
    assert (
        "interrupted run with other settings (--max-source-length, --model"
        in capsys.readouterr().err
    )
    assert kept.exists()


@pytest.mark.parametrize(
    ("code", "tag", "gettext"),
    [
        *(("deu_Latn", "de", "de"), ("de", "de", "de"), ("DE-ch", "de-CH", "de_CH")),
        *(("zho_Hant", "zh-Hant", "zh_Hant"), ("pt_BR", "pt-BR", "pt_BR"), ("en_XX", "en", "en")),
        *(("arb_Arab", "ar", "ar"), ("sr@latin", "sr-Latn", "sr@latin"), ("iw", "he", "he")),
        ("zh-Hans-CN", "zh-Hans-CN", "zh_Hans_CN"),
    ],
)
def test_a_file_declares_the_language_of_a_model_as_its_format_writes_it(
    code, tag, gettext, tmp_path
):
    for name, text, declared in (
        ("a.html", '<html lang="fr"><p>x</p>', f'lang="{tag}"'),
        ("a.xlf", XLIFF, f'target-language="{tag}"'),
        ("a.po", HEADER.replace(" de", "") + 'msgid "a"\nmsgstr ""\n', f"Language: {gettext}\\n"),
    ):
        (tmp_path / name).write_text(text)
        target = tmp_path / f"b_{name}"
        translate_file(tmp_path / name, target, upper, target_lang=code, source_lang="fra_Latn")
        assert declared in target.read_text()


@pytest.mark.parametrize(
    ("languages", "declared"),
    [
        ({"source": "fr", "target": "deu_Latn"}, "de"),
        ({"source": "source", "target": "target"}, "fr"),
    ],
)
def test_a_file_declares_the_language_of_the_translator(languages, declared, tmp_path):
    translator = ShiftMarks()
    translator.metadata = languages
    (tmp_path / "a.html").write_text('<html lang="fr"><p>x</p>')
    translate_file(tmp_path / "a.html", tmp_path / "b.html", translator)
    assert (tmp_path / "b.html").read_text() == f'<html lang="{declared}"><p>X</p>'


def test_a_file_in_another_language_than_the_translators_is_refused(tmp_path):
    translator = ShiftMarks()
    translator.metadata = {"source": "en", "target": "fr"}
    (tmp_path / "a.po").write_text(HEADER + 'msgid "a"\nmsgstr ""\n')
    with pytest.raises(kt.UserError, match="'de'.* 'fr'"):
        translate_file(tmp_path / "a.po", tmp_path / "b.po", translator)
