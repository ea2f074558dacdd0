import json

import pytest
from nltk import Tree

from keras_transformer.parsing.word_tags import TagDictionary

pytestmark = pytest.mark.once


def trees(*lines):
    """Return a tree per line of `tag/word`."""
    return [
        Tree("S", [Tree(tag, [word]) for tag, word in (pair.split("/") for pair in line.split())])
        for line in lines
    ]


TREES = trees("DT/the NN/run", "DT/the VB/run", "NN/dog ,/, NN/cat", "DT/the ,/, VB/go")


def test_frequent_words_have_their_own_tags_and_others_the_common_tags():
    dictionary = TagDictionary.from_trees(TREES, min_count=2, min_words=2)
    sets = [dictionary.tag_sets[kind] for kind in dictionary.word_kinds(["the", ",", "run"])]
    assert sets == [["DT"], [","], ["NN", "VB"]]
    # Three words are nouns, two are verbs; one is an article, one a comma.
    assert dictionary.tag_sets[0] == ["NN", "VB"]
    assert dictionary.word_kinds(["dog", "alien", "Run", "", "run "]) == [0] * 5


def test_unknown_words_may_have_all_tags_if_none_is_common():
    dictionary = TagDictionary.from_trees(TREES, min_count=4, min_words=4)
    assert dictionary.tag_sets == [[",", "DT", "NN", "VB"]]
    assert dictionary.word_kinds(["the"]) == [0]


def test_rare_tags_of_a_word_are_left_out():
    commas = trees(*["NN/dog ,/,"] * 500, "NN/dog NN/,")
    assert TagDictionary.from_trees(commas).tag_sets[1:] == [[","], ["NN"]]
    dictionary = TagDictionary.from_trees(commas, min_share=0)
    assert dictionary.tag_sets[1:] == [[",", "NN"], ["NN"]]


def test_a_dictionary_survives_json():
    dictionary = TagDictionary.from_trees(TREES, min_count=1)
    again = TagDictionary(**json.loads(json.dumps(dictionary.to_dict())))
    assert again.kinds == dictionary.kinds and again.tag_sets == dictionary.tag_sets
    assert again.word_kinds(["cat", "go"]) == dictionary.word_kinds(["cat", "go"]) != [0, 0]


@pytest.mark.parametrize(
    ("tag_sets", "words"), [([], []), ([["NN"], []], ["a"]), ([["NN"]], ["a"]), ([["NN"]] * 2, [])]
)
def test_words_must_match_the_further_tag_sets(tag_sets, words):
    with pytest.raises(ValueError, match="words for each further set"):
        TagDictionary(tag_sets, words)


def test_a_min_count_of_0_is_an_error():
    with pytest.raises(ValueError, match="`min_count` must be a positive integer.*min_count=0"):
        TagDictionary.from_trees(TREES, min_count=0)
