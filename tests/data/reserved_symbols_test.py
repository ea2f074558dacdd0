"""Reserved symbols in training pairs."""

import re

import pytest

from keras_transformer.data.mixtures import Mixture, TaggedText
from keras_transformer.data.parallel_text import ParallelText
from keras_transformer.data.preprocessor import TranslationPreprocessor
from keras_transformer.data.reserved_symbols import translations_of_words, with_symbols
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.untranslated import SYMBOLS

pytestmark = pytest.mark.once

_SYMBOL = re.compile(f"[{''.join(SYMBOLS)}]")
# The translation of each word is the word backwards, in the reverse order, after an article.
WORDS = ("dog", "tree", "house", "river", "stone", "bird", "cloud", "lamp")
PAIRS = [
    (f"a {x} a {y} {i}", f"el {y[::-1]} el {x[::-1]} {i}")
    for i, (x, y) in enumerate((x, y) for x in WORDS for y in WORDS if x != y)
] * 8  # fmt: skip


def text_of(pairs):
    return ParallelText("x", "train", "en", "xx", pairs)


def test_placeholders_of_both_sides_become_the_same_symbols():
    pairs = [
        ("%s of {n} at http://a.b/c.", "http://a.b/c: {n} von %s"),
        ("%s: %s <b>x</b><ph/>", "<ph/><b>%s</b> - %s"),  # the same twice: in their order
        ("%d of %s", "%d von %i"),  # one side only
        ("no", "nein"),
    ]
    (a, b), (c, d), (e, f), last = with_symbols(text_of(pairs), share=0)
    one, two, three = _SYMBOL.findall(a)
    assert (a, b) == (f"{one} of {two} at {three}.", f"{three}: {two} von {one}")
    four, five, six = _SYMBOL.findall(c)
    assert (c, d) == (f"{four}: {five} <b>x</b>{six}", f"{six}<b>{four}</b> - {five}")
    assert (e, f) == (f"{e[0]} of %s", f"{e[0]} von %i")
    assert last == ("no", "nein")
    many = " ".join(f"{{a{i}}}" for i in range(12))
    ((source, target),) = with_symbols(text_of([(many, many)]), share=0)
    assert source == target
    assert sorted(_SYMBOL.findall(source)) == sorted(SYMBOLS)


@pytest.mark.slow
def test_words_are_replaced_with_their_translations_by_model_1():
    words = translations_of_words(PAIRS * 10)
    assert words["a"] == ""  # too frequent
    assert all(not words[word] for word in WORDS)
    rare = [(f"a {x} {i}", f"{i} el {x[::-1]}") for i, x in enumerate(WORDS)] * 3
    rare += [(f"a {x} b", f"b {x[::-1]} el") for x in WORDS for _ in range(3)]
    pairs = rare + [(f"a {i}", f"{i} el") for i in range(3000)]
    words = translations_of_words(pairs)
    assert {x: words[x] for x in WORDS} == {x: x[::-1] for x in WORDS}

    changed = list(with_symbols(text_of(pairs), share=1))
    for pair, (source, target) in zip(pairs, changed):
        symbols = _SYMBOL.findall(source)
        assert symbols and sorted(symbols) == sorted(_SYMBOL.findall(target))
        assert source.startswith("a ") and "el" in target.split()
        for word in pair[0].split()[1:]:
            other = word[::-1] if word in WORDS else word
            assert (word in source.split()) == (other in target.split())
    assert {x for source, _ in changed for x in _SYMBOL.findall(source)} == {*SYMBOLS}
    few = with_symbols(text_of(pairs), share=0.2, seed=3)
    count = sum(pair != other for pair, other in zip(pairs, few))
    assert 0.15 < count / len(pairs) < 0.25
    assert few.fingerprint() == with_symbols(text_of(pairs), share=0.2, seed=3).fingerprint()
    assert few.fingerprint() != with_symbols(text_of(pairs), share=0.2, seed=4).fingerprint()


def test_tags_and_ratios_of_a_mixture_stay():
    text = text_of([("{a} one", "{a} eins")])
    mixture = with_symbols(Mixture([TaggedText(text, "<2de>"), text], [1, 2]), share=0)
    assert mixture.tags == ("<2de>",) and mixture.counts == [1, 2]
    (first, _), (second, _), _ = mixture
    assert re.fullmatch(f"<2de> {_SYMBOL.pattern} one", first)
    assert re.fullmatch(f"{_SYMBOL.pattern} one", second)


def test_a_vocabulary_with_symbols_splits_other_text_as_before():
    sentences = [f"{x} {y}" for x, y in PAIRS]
    tokenizer = Tokenizer.train(sentences, 60)
    plain = TranslationPreprocessor(tokenizer)
    reserved = plain.with_symbols()
    assert (plain.has_symbols, reserved.has_symbols) == (False, True)
    assert reserved.tokenizer is reserved.source_tokenizer
    assert reserved.tokenizer.encode(sentences) == tokenizer.encode(sentences)
    size = tokenizer.vocabulary_size
    assert reserved.tokenizer.tokens_to_ids(SYMBOLS) == [*range(size, size + len(SYMBOLS))]
    text = f"a {SYMBOLS[0]} tree, {SYMBOLS[9]}."
    (ids,) = reserved.tokenizer.encode([text])
    assert [x for x in ids if x >= size] == [size, size + 9]
    again = reserved.with_symbols()
    assert again.tokenizer.fingerprint() == reserved.tokenizer.fingerprint()


def test_texts_without_words_have_no_translations_of_words():
    assert translations_of_words([]) == translations_of_words([("", "")]) == {}
