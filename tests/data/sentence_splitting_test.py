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


def test_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "pysbd", None)
    sentences._segmenter.cache_clear()
    with pytest.raises(ValueError, match=r"keras-transformer\[sentences\]"):
        sentences.split_sentences("He runs.")
