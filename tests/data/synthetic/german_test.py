"""German declension in the built-in corpus."""

import pytest

from keras_transformer.data.synthetic.german import german_phrase
from keras_transformer.data.synthetic.grammar import ADJECTIVE, NOUNS, NounPhrase

pytestmark = pytest.mark.once


def noun(word, *adjectives, determiner="the"):
    """The phrase for an English noun, singular or plural: `noun("dogs", "old")`."""
    entry = next(noun for noun in NOUNS if word in (noun.english, noun.plural))
    adjectives = tuple(ADJECTIVE[adjective] for adjective in adjectives)
    return NounPhrase(entry, determiner, word == entry.plural, adjectives)


# In the order nom, acc, dat, gen. Written out, not computed.
WEAK = {
    "man": ("der alte Mann", "den alten Mann", "dem alten Mann", "des alten Mannes"),
    "woman": ("die alte Frau", "die alte Frau", "der alten Frau", "der alten Frau"),
    "horse": ("das alte Pferd", "das alte Pferd", "dem alten Pferd", "des alten Pferdes"),
    "men": ("die alten Männer", "die alten Männer", "den alten Männern", "der alten Männer"),
    "women": ("die alten Frauen", "die alten Frauen", "den alten Frauen", "der alten Frauen"),
    "horses": ("die alten Pferde", "die alten Pferde", "den alten Pferden", "der alten Pferde"),
}
MIXED = {
    "man": ("mein alter Mann", "meinen alten Mann", "meinem alten Mann", "meines alten Mannes"),
    "woman": ("meine alte Frau", "meine alte Frau", "meiner alten Frau", "meiner alten Frau"),
    "horse": ("mein altes Pferd", "mein altes Pferd", "meinem alten Pferd", "meines alten Pferdes"),
    "men": (
        "meine alten Männer",
        "meine alten Männer",
        "meinen alten Männern",
        "meiner alten Männer",
    ),
    "women": (
        "meine alten Frauen",
        "meine alten Frauen",
        "meinen alten Frauen",
        "meiner alten Frauen",
    ),
    "horses": (
        "meine alten Pferde",
        "meine alten Pferde",
        "meinen alten Pferden",
        "meiner alten Pferde",
    ),
}
STRONG = {
    "coffee": ("kalter Kaffee", "kalten Kaffee", "kaltem Kaffee", "kalten Kaffees"),
    "milk": ("kalte Milch", "kalte Milch", "kalter Milch", "kalter Milch"),
    "water": ("kaltes Wasser", "kaltes Wasser", "kaltem Wasser", "kalten Wassers"),
    "eggs": ("kalte Eier", "kalte Eier", "kalten Eiern", "kalter Eier"),
}
PARADIGMS = {("the", "old"): WEAK, ("my", "old"): MIXED, ("", "cold"): STRONG}


@pytest.mark.parametrize(
    ("determiner", "adjective", "word", "forms"),
    [
        (determiner, adjective, word, forms)
        for (determiner, adjective), table in PARADIGMS.items()
        for word, forms in table.items()
    ],
)
def test_phrases_decline_as_in_the_paradigms(determiner, adjective, word, forms):
    phrase = noun(word, adjective, determiner=determiner)
    assert tuple(german_phrase(phrase, case) for case in ("nom", "acc", "dat", "gen")) == forms


# What every noun must end up with, by gender and case: article and adjective ending.
ENDINGS = {
    "the": {
        "m": "der -e den -en dem -en des -en",
        "f": "die -e die -e der -en der -en",
        "n": "das -e das -e dem -en des -en",
        "p": "die -en die -en den -en der -en",
    },
    "this": {
        "m": "dieser -e diesen -en diesem -en dieses -en",
        "f": "diese -e diese -e dieser -en dieser -en",
        "n": "dieses -e dieses -e diesem -en dieses -en",
        "p": "diese -en diese -en diesen -en dieser -en",
    },
    "a": {
        "m": "ein -er einen -en einem -en eines -en",
        "f": "eine -e eine -e einer -en einer -en",
        "n": "ein -es ein -es einem -en eines -en",
    },
    "no": {
        "m": "kein -er keinen -en keinem -en keines -en",
        "f": "keine -e keine -e keiner -en keiner -en",
        "n": "kein -es kein -es keinem -en keines -en",
        "p": "keine -en keine -en keinen -en keiner -en",
    },
    "two": {"p": "zwei -e zwei -e zwei -en zwei -er"},
}


@pytest.mark.parametrize("determiner", ENDINGS)
def test_every_noun_declines_with_every_determiner(determiner):
    for entry in NOUNS:
        for plural in (False, True) if entry.plural else (False,):
            gender = "p" if plural else entry.gender
            if gender not in ENDINGS[determiner]:
                continue
            expected = ENDINGS[determiner][gender].split()
            phrase = NounPhrase(entry, determiner, plural, (ADJECTIVE["small"],))
            for case, article, ending in zip(
                ("nom", "acc", "dat", "gen"), expected[::2], expected[1::2], strict=True
            ):
                words = german_phrase(phrase, case).split()
                assert words[:2] == [article, "klein" + ending[1:]]
                assert words[2][0].isupper()


def test_weak_masculine_nouns_and_stems():
    assert german_phrase(noun("boy"), "acc") == "den Jungen"
    assert german_phrase(noun("lion", determiner="a"), "dat") == "einem Löwen"
    assert german_phrase(noun("boy"), "nom") == "der Junge"
    assert german_phrase(noun("forest", "dark", determiner="a"), "nom") == "ein dunkler Wald"
    assert german_phrase(noun("clock", "expensive"), "nom") == "die teure Uhr"
    assert german_phrase(noun("man", "tired"), "nom") == "der müde Mann"
    assert german_phrase(noun("cars"), "dat") == "den Autos"
