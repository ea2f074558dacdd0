import pytest
from nltk import Tree

from keras_transformer.parsing.brackets import parse_trees
from keras_transformer.parsing.linearization import LABELLED_BRACKETS, LabelledBrackets
from keras_transformer.parsing.traversal import tagged_words
from keras_transformer.parsing.treebanks import Treebank, TreePairs
from keras_transformer.parsing.word_tags import count_tags

pytestmark = pytest.mark.once

WITHOUT_TAGS = LabelledBrackets(keep_tags=False)


def test_trees_of_thousands_of_levels_become_pairs():
    deep = "(S (NP (NN dog))" * 3000 + ")" * 3000
    pairs = TreePairs(Treebank("x", "train", lambda: parse_trees([deep])))
    assert list(pairs.sentences()) == ["dog " * 2999 + "dog"]
    assert len(list(pairs)) == 1
    (tree,) = parse_trees([deep])
    assert count_tags([tree]) == {"dog": {"NN": 3000}}
    assert tagged_words(tree)[:2] == [("dog", "NN")] * 2


def treebank(size, label):
    trees = [f"({label} (DT the) (NN dog{i}))" for i in range(size)]
    return Treebank(label, "train", lambda: map(Tree.fromstring, trees))


def test_pairs_are_words_and_symbols():
    pairs = TreePairs(treebank(2, "NP"))
    assert (
        list(pairs)
        == list(pairs)
        == [
            ("the dog0", "(NP (DT) (NN) )NP"),
            ("the dog1", "(NP (DT) (NN) )NP"),
        ]
    )
    assert len(pairs) == 2 and pairs.split == "train"
    assert list(TreePairs(treebank(1, "NP"), linearization=WITHOUT_TAGS)) == [
        ("the dog0", "(NP (XX) (XX) )NP")
    ]


@pytest.mark.parametrize(
    ("gold", "extra", "ratio", "expected"),
    [
        (2, 2, 1.0, (2, 2)),
        (2, 20, 1.0, (20, 20)),  # the gold trees ten times
        (2, 20, 5.0, (4, 20)),
        (20, 2, 1.0, (20, 20)),
        (20, 2, 0.5, (20, 10)),
        (3, 4, 1.0, (3, 4)),  # as near as whole copies allow
    ],
)
def test_the_smaller_treebank_is_repeated(gold, extra, ratio, expected):
    pairs = TreePairs(treebank(gold, "A"), extra=treebank(extra, "B"), extra_ratio=ratio)
    symbols = [symbols for _, symbols in pairs]
    counts = tuple(sum(line.startswith(f"({label} ") for line in symbols) for label in "AB")
    assert counts == expected and len(pairs) == sum(expected)


def test_sentences_and_survey_are_of_both_treebanks():
    pairs = TreePairs(treebank(2, "A"), extra=treebank(4, "B"), linearization=WITHOUT_TAGS)
    assert list(pairs.sentences()) == [words for words, _ in pairs]
    assert pairs.name == "A" and len(list(pairs.sentences())) == 8
    assert pairs.survey.symbols == ["(A", "(B", "(XX)", ")A", ")B"]
    assert pairs.survey.tag_counts["the"] == {"DT": 2}  # neither repeated, nor of the extra trees


def test_fingerprints_differ_if_the_pairs_may_differ():
    fingerprints = {
        TreePairs(treebank(2, "A")).fingerprint(),
        TreePairs(treebank(2, "B")).fingerprint(),
        TreePairs(treebank(2, "A"), linearization=WITHOUT_TAGS).fingerprint(),
        TreePairs(treebank(2, "A"), extra=treebank(2, "B")).fingerprint(),
        TreePairs(treebank(2, "A"), extra=treebank(2, "B"), extra_ratio=2.0).fingerprint(),
    }
    assert len(fingerprints) == 5
    assert TreePairs(treebank(2, "A")).fingerprint() in fingerprints


def test_an_extra_ratio_of_0_is_an_error():
    with pytest.raises(ValueError, match="`extra_ratio` must be a positive number.*extra_ratio=0"):
        TreePairs(treebank(2, "A"), extra=treebank(2, "B"), extra_ratio=0)


GOLD = "(S (NP (DT the) (NN run)) (VP (VB run)))", "(S (NP (NN run)))"
SILVER = ("(S (NP (NP (FW chien))))",)


def survey(*texts, extra=(), linearization=LABELLED_BRACKETS):
    gold = Treebank("x", "train", lambda: map(Tree.fromstring, texts))
    silver = Treebank("y", "train", lambda: map(Tree.fromstring, extra)) if extra else None
    return TreePairs(gold, silver, linearization=linearization).survey


def test_survey_has_symbols_openings_and_tags():
    symbols, openings, counts = survey(*GOLD)
    assert symbols == sorted("(S )S (NP )NP (VP )VP (DT) (NN) (VB)".split())
    assert openings == 2
    assert counts == {"the": {"DT": 1}, "run": {"NN": 2, "VB": 1}}
    assert survey(*GOLD, linearization=WITHOUT_TAGS).symbols == sorted(
        "(S )S (NP )NP (VP )VP (XX)".split()
    )


def test_survey_counts_no_tags_of_extra_trees():
    symbols, openings, counts = survey(*GOLD, extra=SILVER)
    assert symbols == sorted([*survey(*GOLD).symbols, "(FW)"])
    assert openings == 3 and counts == survey(*GOLD).tag_counts
