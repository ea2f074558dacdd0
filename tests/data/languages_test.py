import logging
import os
from itertools import permutations
from pathlib import Path

import pytest

from keras_transformer.data.filters import FilterOptions, filter_pairs
from keras_transformer.data.languages import LanguageVotes, looks_swapped
from keras_transformer.data.parallel_text import ParallelText
from keras_transformer.data.synthetic import generate
from keras_transformer.data.text_files import read_lines

pytestmark = pytest.mark.once

DATA = os.environ.get("KERAS_TRANSFORMER_DATA")
SENTENCES = {
    "de": "Das ist nicht der Hund, den wir mit einem Kind sehen.",
    "en": "This is not the dog that we see with a child.",
    "es": "Este no es el perro que vemos con una niña por las calles.",
    "fr": "Ce n'est pas le chien que nous voyons dans la rue avec une fille.",
    "it": "Questo non è il cane che vediamo con una bambina nella strada.",
    "nl": "Dit is niet de hond die wij met een kind op de straat zien.",
    "pt": "Este não é o cão que vemos com uma menina na rua.",
    "ru": "Это не та собака.",
    "zh": "这不是那只狗。",
    "ja": "これはその犬ではありません。",
    "ar": "هذا ليس الكلب.",
    "ko": "이것은 그 개가 아닙니다.",
}


def is_other(sentence, expected, other, count=10):
    check = LanguageVotes(expected, other)
    for _ in range(count):
        check.add(sentence)
    return check.is_other


@pytest.mark.parametrize(("one", "other"), list(permutations(SENTENCES, 2)), ids=str)
def test_a_sentence_is_not_in_the_other_language(one, other):
    assert not is_other(SENTENCES[one], one, other)
    # Chinese has no character that Japanese or Korean has not.
    is_known = one != "zh" or other not in ("ja", "ko")
    assert is_other(SENTENCES[one], other, one) == is_known


def test_few_sentences_and_unknown_languages_give_no_warning():
    assert not is_other(SENTENCES["de"], "en", "de", count=9)
    assert not is_other(SENTENCES["de"], "en", "da", count=99)
    assert not is_other(SENTENCES["de"], "en", "xx", count=99)
    assert not is_other(SENTENCES["de"], None, "de", count=99)
    assert not is_other("https://x.org/a/b?c=d 123 %s", "en", "de", count=99)
    assert is_other(SENTENCES["de"], "en_US", "de-AT")


def test_swapped_files_are_told_before_the_training(caplog):
    pairs = [(x.english, x.german) for x in generate("val", 20)]
    for source, target, is_swapped in (("en", "de", False), ("de", "en", True)):
        caplog.clear()
        text = ParallelText("words", "train", source, target, lambda: iter(pairs))
        with caplog.at_level(logging.WARNING):
            filter_pairs(text, FilterOptions())
        assert [record.message for record in caplog.records] == [
            f"{text!r} looks swapped: its sources look like en, and its targets like de."
        ] * is_swapped
    # One side alone is no proof: nobody may have translated it.
    assert not looks_swapped([(english, english) for english, _ in pairs], "de", "en")


@pytest.mark.skipif(not DATA, reason="KERAS_TRANSFORMER_DATA is not set")
@pytest.mark.parametrize("language", ["de", "ru", "zh", "ja"])
def test_messages_of_programs_are_told_apart(language):
    lines = read_lines(Path(DATA) / "catalogs" / f"en-{language}" / "dev.tsv")
    pairs = [tuple(line.split("\t")[:2]) for line in lines]
    assert not looks_swapped(pairs, "en", language)
    assert looks_swapped(pairs, language, "en")
    # Of twenty lines, none looks like the other language by chance.
    for start in range(0, len(pairs), 20):
        for check, side in ((LanguageVotes("en", language), 0), (LanguageVotes(language, "en"), 1)):
            for pair in pairs[start : start + 20]:
                check.add(pair[side])
            assert not check.is_other
