"""German declension in the built-in corpus."""

from pathlib import Path

import pytest

from keras_transformer.data.languages import read_table
from keras_transformer.data.synthetic.german import german_phrase
from keras_transformer.data.synthetic.grammar import ADJECTIVE, NOUNS, NounPhrase

pytestmark = pytest.mark.once


def noun(word, *adjectives, determiner="the"):
    """The phrase for an English noun, singular or plural: `noun("dogs", "old")`."""
    entry = next(noun for noun in NOUNS if word in (noun.english, noun.plural))
    adjectives = tuple(ADJECTIVE[adjective] for adjective in adjectives)
    return NounPhrase(entry, determiner, word == entry.plural, adjectives)


ROWS = read_table(Path(__file__).with_name("german_paradigms.tsv"))
CASES = ("nom", "acc", "dat", "gen")


@pytest.mark.parametrize(
    ("determiner", "adjective", "word", "forms"),
    [(*row[:3], row[3:]) for row in ROWS if len(row) == 7],
)
def test_phrases_decline_as_in_the_paradigms(determiner, adjective, word, forms):
    phrase = noun(word, adjective, determiner=determiner)
    assert [german_phrase(phrase, case) for case in CASES] == forms


@pytest.mark.parametrize(
    ("determiner", "gender", "forms"), [(*row[:2], row[2:]) for row in ROWS if len(row) == 6]
)
def test_every_noun_declines_with_every_determiner(determiner, gender, forms):
    for entry in NOUNS:
        for plural in (False, True) if entry.plural else (False,):
            if gender == ("p" if plural else entry.gender):
                phrase = NounPhrase(entry, determiner, plural, (ADJECTIVE["small"],))
                for case, form in zip(CASES, forms, strict=True):
                    article, ending = form.split(" -")
                    words = german_phrase(phrase, case).split()
                    assert words[:2] == [article, f"klein{ending}"]
                    assert words[2][0].isupper()


def test_weak_masculine_nouns_and_stems():
    assert german_phrase(noun("boy"), "acc") == "den Jungen"
    assert german_phrase(noun("lion", determiner="a"), "dat") == "einem Löwen"
    assert german_phrase(noun("boy"), "nom") == "der Junge"
    assert german_phrase(noun("forest", "dark", determiner="a"), "nom") == "ein dunkler Wald"
    assert german_phrase(noun("clock", "expensive"), "nom") == "die teure Uhr"
    assert german_phrase(noun("man", "tired"), "nom") == "der müde Mann"
    assert german_phrase(noun("cars"), "dat") == "den Autos"
