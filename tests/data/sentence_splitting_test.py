import sys

import pytest

from keras_transformer.data import sentences

pytestmark = pytest.mark.once


def test_sentences_of_a_paragraph():
    pytest.importorskip("pysbd", reason="pysbd is not installed")
    expected = [
        "We saw E. coli in Fig. 2 at 3.5 h.",
        "Smith et al. (2001) did not!",
        "Why, e.g. here?",
    ]
    assert sentences.split_sentences(f" {'  '.join(expected)}\n") == expected
    assert sentences.split_sentences("") == sentences.split_sentences(" \n ") == []


@pytest.mark.parametrize(
    "text",
    [
        "The tiger \u222f was here. Then \u266c it left.",
        "\u2609 sun. \u2607 a. \u2608 b. \u0238 c. \u260f d.",
        "Mr. ? i. ?!",
        "\u266c",
    ],
)
def test_nothing_is_lost(text):
    # Characters that pySBD uses within.
    pytest.importorskip("pysbd", reason="pysbd is not installed")
    assert "".join("".join(sentences.split_sentences(text)).split()) == "".join(text.split())


def test_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "pysbd", None)
    sentences._segmenter.cache_clear()
    with pytest.raises(ValueError, match=r"keras-transformer\[sentences\]"):
        sentences.split_sentences("He runs.")
