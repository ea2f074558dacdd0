"""What the built-in corpus promises."""

import itertools
import re
import unicodedata

import pytest

from keras_transformer.data.synthetic import corpus
from keras_transformer.data.synthetic.corpus import Sampler, generate, generate_splits, split_for
from keras_transformer.data.synthetic.english import english_text, english_tree
from keras_transformer.data.synthetic.german import german_text
from keras_transformer.data.synthetic.grammar import (
    NOUN,
    PRONOUNS,
    VERB,
    VERBS,
    Clause,
    NounPhrase,
    Pair,
)

pytestmark = pytest.mark.once

# The stream of seed 0, which must be the same on every machine and Python version.
FIRST_SENTENCES = [
    "A doctor painted this clock when our clever aunts' ducks dreamed of her cheap soup.",
    "In our house they do not want to work.",
    "The lions chase her grandmother under the tree.",
]


@pytest.fixture(scope="module")
def sample():
    return list(generate("train", 10_000))


def test_sentences_are_distinct(sample):
    assert len({example.english for example in sample}) == 10_000


def test_far_more_than_100_000_sentences(sample):
    """Capture and recapture: two draws out of N have about size * size / N sentences in common.

    They have more in common where some sentences are likelier than others, so N comes out low.
    """
    captured = {example.english for example in sample}
    common = sum(example.english in captured for example in generate("train", 5_000, seed=1))
    assert 10_000 * 5_000 / common > 500_000


def test_equal_arguments_give_equal_examples():
    assert list(generate("val", 50, seed=7)) == list(generate("val", 50, seed=7))
    assert list(generate("train", 50, seed=1)) != list(generate("train", 50, seed=2))


def test_splits_sampled_together_equal_splits_sampled_apart():
    sizes = {"test": 20, "train": 300, "val": 30}
    together = generate_splits(sizes, seed=4)
    assert together == {split: tuple(generate(split, n, seed=4)) for split, n in sizes.items()}


def test_sampling_that_was_stopped_loses_no_sentence(monkeypatch):
    """Callers share no sampler, so one that is interrupted takes no sentence from another."""
    expected = list(generate("train", 50))
    begun = generate("train", 50)
    assert [next(begun) for _ in range(10)] == expected[:10]
    adjective = Sampler.adjective

    def stop(self, kind):
        raise KeyboardInterrupt

    monkeypatch.setattr(Sampler, "adjective", stop)
    with pytest.raises(KeyboardInterrupt):
        list(generate("train", 50))
    monkeypatch.setattr(Sampler, "adjective", adjective)
    assert list(generate("train", 50)) == expected
    assert list(begun) == expected[10:]


def test_a_smaller_corpus_is_the_beginning_of_a_larger_one(sample):
    assert list(generate("train", 100)) == sample[:100]


def test_first_examples_never_change():
    assert [example.english for example in generate("train", 3, seed=0)] == FIRST_SENTENCES


def test_splits_are_disjoint_for_all_seeds(sample):
    val = {example.english for example in generate("val", 200, seed=1)}
    test = {example.english for example in generate("test", 200, seed=2)}
    assert len(val) == len(test) == 200
    assert not val & test
    assert not {example.english for example in sample} & (val | test)
    assert {split_for(english) for english in val} == {"val"}


def test_translation_and_tree_are_functions_of_the_english_sentence():
    known = {}
    for seed in range(2):
        sampler = Sampler(seed)
        for _ in range(4_000):
            sentence = sampler.sentence()
            tree = english_tree(sentence)
            value = (tree, german_text(sentence))
            assert known.setdefault(english_text(tree), value) == value
    assert len(known) < 8_000  # some sentences did come twice


@pytest.mark.slow
def test_the_small_sentences_have_one_reading():
    """Every subject, verb, tense and simple object: few enough to try them all."""
    man, woman, dog, book = (NounPhrase(NOUN[word]) for word in ("man", "woman", "dog", "book"))
    women, books = woman._replace(plural=True), book._replace(determiner="her", plural=True)
    milk = NounPhrase(NOUN["milk"], determiner="")
    subjects = [*PRONOUNS.values(), man, women, milk._replace(determiner="the"), Pair(man, woman)]
    objects = [*PRONOUNS.values(), dog, books, milk]
    tenses = ["present", "past", "perfect", "must", "want"]
    known = {}
    for subject, verb, tense, negated in itertools.product(subjects, VERBS, tenses, (False, True)):
        if tense == "past" and verb.past == verb.english:
            continue  # never drawn: "they read"
        for objs in itertools.product(objects, repeat=len(verb.cases)):
            sentence = Clause(subject, verb, objs, tense, negated)
            tree = english_tree(sentence)
            value = (tree, german_text(sentence))
            assert known.setdefault(english_text(tree), value) == value


def test_trees_span_their_sentences(sample):
    nltk = pytest.importorskip("nltk")
    for example in sample[:1_000]:
        tree = nltk.Tree.fromstring(example.tree)
        assert tree.label() == "S"
        assert "\n" not in example.tree
        assert " ".join(example.tree.split()) == example.tree
        text = " ".join(tree.leaves()).replace("can not ", "cannot ")
        for mark in (",", ".", "'"):
            text = text.replace(" " + mark, mark)
        assert text == example.english
        assert all(len(node) for node in tree.subtrees())


def test_leaves_are_penn_treebank_tokens(sample):
    tokenize = pytest.importorskip("nltk.tokenize").TreebankWordTokenizer().tokenize
    for example in sample[:1_000]:
        assert tokenize(example.english) == re.findall(r" ([^ ()]+)\)", example.tree)


def test_each_tree_is_one_balanced_bracket(sample):
    for example in sample:
        depths = list(
            itertools.accumulate({"(": 1, ")": -1}.get(letter, 0) for letter in example.tree)
        )
        assert depths[-1] == 0 and min(depths[:-1]) == 1


def test_sentences_have_single_spaces_and_end_with_a_period(sample):
    for example in sample:
        for text in (example.english, example.german):
            assert text[0].isupper() and text.endswith(".")
            assert not re.search(r"  | [,.']|,[^ ]|,,|,\.", text)
            assert 2 <= len(text.split()) <= 30
        assert unicodedata.is_normalized("NFC", example.german)
        assert example.english.isascii()


def test_german_subordinate_clauses_stand_between_commas(sample):
    openings = re.compile(r"(?<![,]) (dass|ob|weil|obwohl|wenn|als|während|dessen|deren)\b")
    assert not [e.german for e in sample if openings.search(e.german)]


def test_an_stands_before_vowels(sample):
    for example in sample:
        assert not re.search(r"\b[Aa] [aeiou]|\b[Aa]n [^aeiou]", example.english)


def test_unknown_splits_and_negative_sizes_are_refused():
    with pytest.raises(
        ValueError, match="must be one of 'train', 'val', 'test'. Received: split='dev'"
    ):
        generate("dev", 10)
    with pytest.raises(ValueError, match="Received: size=-1"):
        generate("train", -1)
    with pytest.raises(ValueError, match="Received: split='dev'"):
        generate_splits({"train": 1, "dev": 1})
    assert list(generate("test", 0)) == []


def test_an_exhausted_grammar_is_an_error(monkeypatch):
    man, woman = (NounPhrase(NOUN[word]) for word in ("man", "woman"))
    sentence = Clause(man, VERB["see"], (woman,))
    split = split_for("The man sees the woman.")
    monkeypatch.setattr(Sampler, "sentence", lambda self: sentence)
    monkeypatch.setattr(corpus, "MAX_TRIES", 10)
    examples = generate(split, 2)
    assert next(examples).german == "Der Mann sieht die Frau."
    with pytest.raises(ValueError, match="at most 1 .*Received: size=2"):
        next(examples)
    with pytest.raises(ValueError, match=f"at most 1 for split='{split}'.*Received: size=2"):
        generate_splits({split: 2})
