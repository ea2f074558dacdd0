"""Texts are split into sentences, and put together again with what stood between them."""

import itertools
import json
import math
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import keras_transformer as kt
from keras_transformer.translation.preparation import split_text, with_divided_sentences
from keras_transformer.translation.prepared_text import PreparedText, SplitText
from tests.translation.translator_test import copying_translator

pytestmark = pytest.mark.once

CASES = [
    # A bar between sentences; what stands between or around them is in brackets.
    ("en", "A dog.| |Two men."),
    ("en", "A dog.|\n|Two men."),
    ("en", "A dog|\n|sleeps"),
    ("en", "|\t|A dog.|\r\n\r\n|Two men.|  \n"),
    ("en", "A dog.|\x85|A cat.|\u2028|A man.|\u2029|A boy."),
    ("en", "|- |A dog.|\n- |A cat."),
    ("en", "|• |A dog.|\n• |A cat."),
    ("en", "|* |A dog."),
    ("en", "|— |A dog.|\n— |A cat."),
    ("en", "|1. |A dog.|\n2. |A cat."),
    ("en", "|1) |A dog.|\n10) |A cat.") ,
    ("en", "A dog -- and a cat."),
    ("en", "A well-known dog."),
    ("en", "-5 degrees were measured."),
    ("en", "Dr. Smith waits.| |He sits."),
    ("en", "Mr. and Mrs. Jones met Prof. Lee at St. Mary's."),
    ("en", "She paid $3.50.| |He paid 2.5 times as much."),
    ("en", "It costs 3.5 m.| |He waits."),
    ("en", "The U.S. flag is here."),
    ("en", "Version 3.5.1 is out.| |Get it."),
    ("en", "He lives at 10 Downing St. in London."),
    ("en", "J. R. R. Tolkien wrote it."),
    ("en", "See p. 5 for more."),
    ("en", "Wait...| |What?"),
    ("en", "What?!| |No!"),
    ("en", "She said: \"Go home.\"| |He left."),
    ("en", "He asked “Why?” and left."),
    ("en", "(It rained.)| |We stayed."),
    ("en", "Visit example.org today.| |It is free."),
    ("en", "He works at Inc. Magazine."),
    ("en", "We met at 5 p.m. yesterday."),
    ("en", "I like dogs, cats, etc. and birds."),
    ("en", "This is no. 5 on the list."),
    ("de", "Ein Hund.| |Zwei Männer."),
    ("de", "Er kommt z. B. morgen.| |Sie nicht."),
    ("de", "Das ist z.B. gut."),
    ("de", "Am 3. Mai regnete es."),
    ("de", "Dr. Müller wohnt in der Str. 5."),
    ("de", "Wie bitte?| |Ja!"),
    ("de", "„Geh nach Hause.“| |Er ging."),
    ("de", "Das kostet 3.50 Euro.| |Gut."),
    ("deu_Latn", "Er kommt z. B. morgen.| |Sie nicht."),
    ("fr", "Un chien.| |Deux hommes."),
    ("fr", "Quoi ?| |Non !"),
    ("fr", "« Bonjour. »| |Il part."),
    ("fra_Latn", "Un chien.| |Deux hommes."),
    ("es", "¿Qué?| |¡No!"),
    ("es", "El Sr. López espera."),
    ("it", "Il sig. Rossi aspetta."),
    ("nl", "Een hond.| |Twee mannen."),
    ("pt-BR", "Um cão.| |Dois homens."),
    ("pl", "Pies.| |Dwóch mężczyzn."),
    ("ru", "Собака бежит.| |Двое мужчин сидят."),
    ("rus_Cyrl", "Собака бежит.| |Двое мужчин сидят."),
    ("uk", "Собака біжить.| |Двоє чоловіків сидять."),
    ("el", "Ένας σκύλος.| |Δύο άντρες;"),
    ("zh", "一只狗。|两个男人。"),
    ("zh", "真的吗？|不！"),
    ("zh_CN", "一只狗。|\n|两个男人。"),
    ("zho_Hans", "一只狗。|两个男人。"),
    ("ja", "犬が走る。|男が座る。"),
    ("jpn_Jpan", "犬が走る。|　|男が座る。"),
    ("ko", "개가 달린다.| |남자가 앉는다."),
    ("ar", "كلب يركض.| |رجل يجلس؟"),
    ("arb_Arab", "هل هذا كلب؟| |نعم."),
    ("fa", "سگ می‌دود.| |مرد نشسته است."),
    ("hi", "कुत्ता दौड़ता है।| |आदमी बैठा है।"),
    ("hin_Deva", "कुत्ता दौड़ता है।| |आदमी बैठा है।"),
    ("bn", "কুকুর দৌড়ায়।| |মানুষ বসে।"),
    ("hy", "Շունը վազում է։| |Մարդը նստած է։"),
    ("am", "ውሻ ይሮጣል።| |ሰው ተቀምጧል።"),
    ("th", "หมาวิ่ง"),
    ("en", "|***\n|A dog.|\n---"),
    ("en", "|12\n34 %\n|A dog."),
]  # fmt: skip


@pytest.mark.parametrize(("language", "marked"), CASES, ids=lambda value: value[:30])
def test_text_between_sentences_is_not_translated(language, marked):
    text = marked.replace("|", "")
    split = split_text(text, "sentences", language)
    assert split.join(split.sentences).text == text
    assert split.sentences == [part for part in marked.split("|") if any(map(str.isalpha, part))]


def test_wrapped_lines_do_not_end_sentences():
    split = split_text("A dog\nruns. A cat.", "sentences", breaks_end_sentences=False)
    assert split.sentences == ["A dog\nruns.", "A cat."]


def test_texts_are_split_into_lines_or_not_at_all():
    text = " A dog. A cat.\n\n12\n- A man. "
    assert split_text(text, "lines").sentences == ["A dog. A cat.", "A man."]
    assert split_text(text, "lines").between == [" ", "\n\n12\n- ", " "]
    assert split_text(text, None) == SplitText([text], ["", ""])


letters = st.text(st.sampled_from('aB1 .!?。,;:\t\n\r\u2028-•()"中é\ud800'), max_size=60)


def divided(text, longest, split="sentences", language="en", breaks_end=True):
    """The parts of a text, of which those with more characters than `longest` are divided."""
    found = split_text(text, split, language, breaks_end)
    is_long = [longest is not None] * len(found.sentences)
    return with_divided_sentences(found, is_long, lambda sentence: len(sentence) <= longest)


@settings(max_examples=100)
@given(
    letters | st.text(max_size=40),
    st.sampled_from(("sentences", "lines", None)),
    st.none() | st.integers(1, 9),
    st.booleans(),
)
def test_no_character_is_lost_and_no_word_is_divided(text, split, longest, breaks_end):
    parts = divided(text, longest, split, "en", breaks_end)
    assert parts.join(parts.sentences).text == text
    assert len(parts.between) == len(parts.sentences) + 1
    if split is None:
        return
    for sentence in parts.sentences:
        assert sentence == sentence.strip() != ""
        assert not longest or len(sentence) <= longest or not any(map(str.isspace, sentence))
    assert not any(map(str.isalpha, "".join(parts.between))) or "(" in text or ")" in text


def test_a_long_sentence_is_divided_between_clauses_and_else_between_words():
    sentence = "a man sits, a dog runs; a cat sleeps, and it rains"
    split = divided(sentence, 30)
    assert split.sentences == ["a man sits, a dog runs;", "a cat sleeps, and it rains"]
    assert split.is_divided and split.join(split.sentences).text == sentence
    words = divided("a b c d e f", 4)
    assert all(len(part) <= 4 for part in words.sentences) and words.is_divided
    one_word = divided("x" * 50, 4)
    assert one_word.sentences == ["x" * 50] and not one_word.is_divided
    east = divided("犬が走る、猫が寝る。", 6, language="ja")
    assert east.sentences == ["犬が走る、", "猫が寝る。"]


def prepared(split):
    return PreparedText("", [split], [])


def test_n_best_of_a_text_have_the_largest_sums_of_scores():
    generator = np.random.default_rng(3)
    found = [
        [(f"{i}{j}", score) for j, score in enumerate(sorted(-generator.random(count)))][::-1]
        for i, count in enumerate((4, 1, 3, 2))
    ]
    split = prepared(SplitText([""] * 4, ["<", " ", " ", " ", ">"]))
    sums = sorted(
        (sum(score for _, score in rows), f"<{' '.join(text for text, _ in rows)}>")
        for rows in itertools.product(*found)
    )[::-1]
    results = split.n_best(found, 5)
    assert [text for text, _ in results] == [text for _, text in sums[:5]]
    assert [score for _, score in results] == pytest.approx([total for total, _ in sums[:5]])
    # There are 24 translations in all.
    assert len(split.n_best(found, 100)) == 24


def test_a_sentence_without_output_leaves_the_others():
    split = prepared(SplitText(["a", "b"], ["", " ", ""]))
    assert split.n_best([[("A", -1.0)], []], 2) == [("A ", -math.inf)]


# What `Translator` makes of texts, with a model that copies


def test_texts_without_sentences_come_back_unchanged():
    texts = ["", " \n ", "the dog\u2028a cat", "\tthe dog\n\n- a cat\n  ", "12.", "a dog"]
    translator = copying_translator()
    assert translator(texts) == texts
    assert [translator(text) for text in texts] == texts


def test_metadata_of_a_preset_choose_how_texts_are_split():
    text = "the dog. the cat.\nthe man."
    sizes = {}
    for split in ("sentences", "lines", None):
        translator = copying_translator()
        translator.metadata["split"] = split
        sizes[split] = len(translator.prepare([text])[0].sentences)
    assert sizes == {"sentences": 3, "lines": 2, None: 1}


def test_a_sentence_longer_than_any_of_the_training_is_divided():
    translator = copying_translator()
    text = "the dog and the cat, the man and the house, a dog and a cat"
    (whole,) = translator.prepare([text])
    assert (len(whole.sentences), whole.is_divided, whole.unknown) == (1, False, ",")
    translator.metadata["longest_source"] = 12
    (found,) = translator.prepare([text])
    assert len(found.sentences) > 1 and found.is_divided and not found.is_cut
    assert len(translator(text)) > len(text) / 2


# With a trained model


@pytest.fixture(scope="module")
def translator():
    return kt.Translator.from_preset("saved_models/multi30k_en_de", beam_size=1)


def test_a_sentence_longer_than_any_caption_is_divided(translator):
    long, short = translator.prepare(["a man sits, " * 30, "a man sits, " * 10])
    assert (len(long.sentences), long.is_divided, long.is_cut) == (4, True, False)
    assert (len(short.sentences), short.is_divided) == (1, False)


def test_paragraphs_are_translated_as_their_sentences_alone(translator):
    """With white space of all kinds between sentences, and several texts at once."""
    sentences = ["A dog runs through the snow.", "Two men sit on a bench.", "A girl eats an apple."]
    alone = dict(zip(sentences, translator(sentences, split=None)))
    generator = np.random.default_rng(1)
    texts, expected = [], []
    for _ in range(40):
        count = generator.integers(1, 9)
        chosen = generator.choice(sentences, count)
        spaces = generator.choice([" ", "  ", "\n", "\n\n", "\t", "\r\n\t", " \n- "], count + 1)
        split = SplitText([*chosen], [*spaces])
        texts.append(split.join(split.sentences).text)
        expected.append(split.join([alone[sentence] for sentence in chosen]).text)
    assert translator(texts) == expected


@pytest.mark.skipif("KERAS_TRANSFORMER_DATA" not in os.environ, reason="needs the cases")
def test_paragraphs_of_the_cases_lose_no_sentence(translator):
    path = Path(os.environ["KERAS_TRANSFORMER_DATA"]).parent / "cases/paragraphs.json"
    texts = json.loads(path.read_text("utf-8"))["texts"]
    split = translator.prepare(texts)
    alone = iter(translator([x for text in split for x in text.sentences], split=None))
    expected = [text.join(list(itertools.islice(alone, len(text.sentences)))) for text in split]
    assert translator(texts) == expected
    assert [len(text.sentences) for text in split] == [3, 2, 3, 2, 2, 2, 3, 1, 0, 0, 2]
