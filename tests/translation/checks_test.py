import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer.translation import checks
from keras_transformer.translation.checks import count_findings, num_repeated, sentence_coverage
from keras_transformer.translation.preparation import tags_and_texts
from keras_transformer.translation.translator import Translator
from tests.helpers import error_of
from tests.small_corpus import new_model, tokenizer

SOURCE = "A dog runs through the snow. Two men sit on a bench. A girl eats an apple."
WHOLE = (
    "Ein Hund rennt durch den Schnee. Zwei Männer sitzen auf einer Bank. Ein Mädchen isst einen "
    "Apfel."
)


@pytest.fixture(scope="module")
def translator():
    return kt.Translator.from_preset("multi30k_en_de")


def kinds(check):
    return [finding.kind for finding in check.findings]


def test_findings_name_the_fault_of_a_translation(translator):
    first, second, third = (f"{x}." for x in WHOLE.removesuffix(".").split(". "))
    translations = [
        WHOLE,
        f"{second} {third}",
        f"{first} {second} {second} {third}",
        "Zwei Männer sitzen auf einer Bank und essen einen Apfel.",
        "",
    ]
    whole, dropped, doubled, merged, empty = translator.check_translations(
        [SOURCE] * 5, translations
    )
    assert whole.findings == () and str(whole) == ""
    assert kinds(dropped) == ["sentences", "coverage"]
    assert "The source has 3 sentences, and the translation has 2." in str(dropped)
    assert "Seems left out of the translation: 'A dog runs through the snow.'." in str(dropped)
    assert str(doubled) == "The translation repeats 'Zwei Männer sitzen auf einer Bank'."
    assert kinds(merged)[:2] == ["sentences", "coverage"] and "A dog runs" in str(merged)
    assert str(empty) == "The translation is empty."
    counts = count_findings([whole, dropped, doubled, merged, empty])
    assert (counts["any"], counts["sentences"], counts["repetition"]) == (4, 2, 1)


@pytest.mark.once
@pytest.mark.parametrize(
    ("number", "other"),
    [
        *(("1.5", "15"), ("0.5", "5"), ("v1.2.3", "v12.3"), ("10:30", "1030"), ("1.05", "1.5")),
        *(("1,000", "1"), ("1.500", "15"), ("0.500", "500"), ("12.50", "1250"), ("3.14", "314")),
        *(("1,000.5", "10005"), ("١٫٥", "15"), ("1.2.3", "123"), ("1 000", "1 0000")),
    ],
)
def test_numbers_with_separators_in_other_places_differ(number, other):
    for pair in ((number, other), (other, number)):
        assert checks.number_finding(*(f"Take {x} of it." for x in pair)) is not None


@pytest.mark.once
@pytest.mark.parametrize(
    "numbers",
    [
        *(["1.50", "1,5", "1.5", "١٫٥", "۱٫۵", "１．５", "१.५"], ["2024", "٢٠٢٤", "२०२४"]),
        ["12345", "12,345", "12.345", "12 345", "12\u00a0345", "12\u202f345", "12'345", "١٢٬٣٤٥"],
        *(["1,234,567.5", "1.234.567,50", "1 234 567,5", "12,34,567.5"], ["0.500", "0,5"]),
        *(["10:30", "10.30", "10：30"], ["10:00", "10"], ["01.05.2024", "1.5.2024"]),
        ["9" * 5000, f"{'9' * 5000},0"],
    ],
    ids=lambda numbers: numbers[0][:20],
)
def test_numbers_are_equal_however_a_language_writes_them(numbers):
    for number in numbers:
        for other in numbers:
            assert checks.number_finding(f"Take {number} of it.", f"Es sind {other}.") is None


@pytest.mark.once
def test_numbers_are_compared_in_time_that_grows_with_their_count():
    start = time.process_time()
    text = " ".join(f"{number}.{number % 7}" for number in range(50_000))
    assert checks.number_finding(text, text.replace(".", ",")) is None
    assert checks.number_finding(text, "1.5 " * 50_000) is not None
    assert time.process_time() - start < 10


@pytest.mark.once
@pytest.mark.parametrize(
    ("source", "translation", "message"),
    [
        ("It was 1,000 km.", "Es waren 1.000 km.", None),
        ("It costs 2.00 euros at 08:30.", "Es kostet um 8.30 Uhr 2 Euro.", None),
        ("He has 5 dogs.", "Er hat fünf Hunde.", None),
        ("Five of 12.", "5 von 12.", None),
        ("In 1987 it rained.", "Damals regnete es.", "missing: 1987."),
        ("He has 5 dogs.", "Er hat 6 Hunde.", "missing: 5; the translation has 6."),
        ("5 and 5", "5 und 7", "missing: 5; the translation has 7."),
    ],
)
def test_numbers_differ_only_if_no_word_can_stand_for_one(source, translation, message):
    finding = checks.number_finding(source, translation)
    if message is None:
        assert finding is None
    else:
        assert finding.kind == "numbers" and finding.message.endswith(message)


@pytest.mark.once
@pytest.mark.parametrize(
    ("text", "length", "run"),
    [
        ("a b c d", 0, ""),
        ("A dog runs. a Dog runs, too", 3, "a Dog runs"),
        ("the the the the", 3, "the the the"),
        ("我喜欢你。我喜欢你。", 2, "我 喜 欢 你"),
        ("オンライン、オンライン", 1, "オンライン"),
        ("", 0, ""),
    ],
)
def test_longest_repeated_run_of_words(text, length, run):
    assert num_repeated(text) == (length, run)


@pytest.mark.once
def test_coverage_is_the_attention_to_the_tokens_of_each_sentence():
    text = SimpleNamespace(
        source_prefix=("<2de>",),
        source_end=True,
        source_tokenizer=SimpleNamespace(encode=lambda parts: [[0] * len(part) for part in parts]),
    )
    attention = np.array([[9, 1, 0, 0, 0.5, 9], [9, 0, 1, 0, 0, 9]])
    assert sentence_coverage(["ab", "cd"], attention, text) == [1.0, 0.25]
    # The model has read two tokens of the second sentence, which has three.
    assert sentence_coverage(["ab", "cde"], attention, text) == [1.0, float("inf")]


@pytest.mark.once
def test_placeholders_and_lengths_are_compared():
    finding = checks.placeholder_finding("%s for {name}", "{name} für %d")
    assert finding.message == "Placeholders are missing: %s; added: %d."
    assert checks._length(10, 5) is None and checks._length(9, 1) is None
    assert checks._length(10, 4).kind == "length"
    assert checks._sentences(["See e.g.", "the page."], ["Siehe z. B. die Seite."]) is None


@pytest.mark.once
@pytest.mark.parametrize(
    ("text", "translation", "is_named"),
    [
        ("No Action", "No Action", True),
        ("Open the file {name}.", "open  the file {name}.", True),
        ("没有操作", "没有操作", True),
        ("No Action", "Keine Aktion", False),
        *((x, x, False) for x in ("Berlin", "42", "OK", "hotel", "IBM AG", "Berlin 2024", "")),
        *((x, x, False) for x in ("{name} has", "http://a.b/c-d e", "NASA: Hotel", "<b>Tom</b>")),
    ],
)
def test_a_copy_of_two_words_or_more_is_named(text, translation, is_named):
    finding = checks.copy_finding(text, translation)
    assert (finding is not None) == is_named
    assert not finding or str(finding.message) == "The translation equals the source."


def test_a_copied_source_is_a_finding(translator):
    copied, other = translator.check_translations(["Two Dogs."] * 2, ["Two Dogs.", "Zwei Hunde."])
    assert "untranslated" in kinds(copied) and "untranslated" not in kinds(other)


def test_a_tag_with_a_translated_attribute_is_not_another_tag():
    languages = {"source": "en", "target": "de"}
    translator: Any = SimpleNamespace(markup="html", metadata=languages)
    source = '<p lang="en" title="A dog">A <b>cat</b> <img alt="Two men"> %s</p>'
    changed = '<p lang="de" title="Ein Hund">Eine <b>Katze</b> <img alt="Zwei Männer"> %d</p>'
    finding = checks.placeholder_finding(
        *(tags_and_texts(translator, text) for text in (source, changed))
    )
    assert finding and finding.message == "Placeholders are missing: %s; added: %d."
    lost = changed.replace("<b>", "").replace("</b>", "").replace("%d", "%s")
    finding = checks.placeholder_finding(
        *(tags_and_texts(translator, text) for text in (source, lost))
    )
    assert finding and finding.message == "Placeholders are missing: <b>, </b>."


def test_the_check_reads_prepared_texts_and_finds_missing_placeholders(monkeypatch):
    plain, read = Translator(new_model(), tokenizer()), []
    forced = checks.teacher_forced

    def noted(model, sources, targets, *arguments, **options):
        read.append((sources, targets))
        return forced(model, sources, targets, *arguments, **options)

    monkeypatch.setattr(checks, "teacher_forced", noted)
    sources = ["the <b>dog</b> sees {name}", "{name}", "{name}"]
    found = plain.check_translations(sources, ["a <b>cat</b> sees {name}", "", "{other}"])
    assert [sides[0] for sides in read[0]] == [
        *plain.preprocessor.encode_sources(["the dog sees"]),
        *plain.preprocessor.encode_targets(["a cat sees"]),
    ]
    assert [kinds(x) for x in found[1:]] == [["empty"], ["placeholders"]]
    plain.check_translations(sources, sources, split=None)  # the search then reads the text itself
    assert read[1][0] == plain.preprocessor.encode_sources(sources)


@pytest.mark.once
def test_a_blank_source_and_a_text_longer_than_the_positions_have_no_error():
    learned = Translator(
        new_model(position_encoding="learned", max_length=60), tokenizer(), batch_tokens=64
    )
    blank, long = learned.check_translations([" ", "a dog"], ["", "a dog " * 100])
    assert blank.findings == ()
    assert kinds(long) == ["repetition"]
    message = error_of(learned.check_translations, ["a"], [])
    assert "Received: 1 sources and 0 translations" in message
