"""Which tokens of a translation belong to which tokens of its source."""

from pathlib import Path

import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer.protection import protect
from keras_transformer.translation.word_links import _links, _places, word_links
from tests.small_corpus import tokenizer

MODEL = Path(__file__).parents[2] / "saved_models" / "multi30k_en_de"


@pytest.mark.once
def test_a_token_is_linked_where_it_is_predicted_and_read():
    source, target = [(0, 1), (2, 4), (4, 4)], [(0, 2), (2, 3), (3, 3)]
    last = np.array([[0.1, 0.7, 0.2], [0.45, 0.55, 0], [0, 0, 1]])
    # Row 1 is read where the first token is the decoder's input.
    first = np.array([[1, 0, 0], [0, 1, 0], [1, 0, 0]])
    assert _links(source, target, [last, first]) == [(2, 4, 0, 2), (0, 1, 2, 3)]
    assert _links([], [], []) == []


@pytest.mark.once
def test_tokens_have_their_places_in_the_text():
    text = "the  dog § and cat"  # two spaces, and a letter that the vocabulary lacks
    (token_ids,) = tokenizer().encode([text])
    places = _places(tokenizer(), token_ids, text)
    pieces = [text[start:stop] for start, stop in places]
    assert "".join(pieces).replace("§", "") == "thedogandcat"
    assert all(piece == piece.strip() for piece in pieces)


def test_words_are_linked_with_their_translations():
    translator = kt.Translator.from_preset(MODEL)
    sources = ["A black dog runs through the snow.", "", "Two men sit on a bench."]
    translations = ["Ein schwarzer Hund rennt durch den Schnee.", "",
                    "Auf einer Bank sitzen zwei Männer."]  # fmt: skip
    links = word_links(translator, sources, translations)
    assert links[1] == []
    words = [
        {(source[a:b], translation[c:d]) for a, b, c, d in found}
        for source, translation, found in zip(sources, translations, links)
    ]
    assert {("dog", "Hund"), ("runs", "rennt"), ("snow", "Schnee")} <= words[0]
    assert {("men", "Männer"), ("bench", "Bank")} <= words[2]
    marked = protect("Two <b>men</b> sit on a <i>bench</i> {x}.")
    restored = marked.restore(translations[2], links[2])
    assert str(restored) == "Auf einer <i>Bank</i> {x} sitzen zwei <b>Männer</b>."
