import keras
import numpy as np
import pytest
from nltk import Tree

import keras_transformer as kt
from keras_transformer.data.trees import linearize, rebuild
from keras_transformer.tasks.constituency_parser import ConstituencyParser, words_of
from tests.small_trees import new_parser, symbols, tag_dictionary, tokenizer, trees

SENTENCES = [tree.leaves() for tree in trees()[:12]]
ODD = [["🙂"], ["中文", "句子"], ["(", "odd", ")", "a(b)"], ["\u200b", "½", "\u00a0"], ["x" * 50]]


@pytest.fixture(scope="module")
def parser():
    return new_parser()


def test_trees_are_over_exactly_the_words(parser):
    sentences = SENTENCES + ODD
    for words, parse in zip(sentences, parser.parse(sentences), strict=True):
        expected = [word.replace("(", "-LRB-").replace(")", "-RRB-") for word in words]
        assert parse.tree.leaves() == expected
        assert rebuild(*linearize(parse.tree)) == parse.tree
        assert not parse.repairs and np.isfinite(parse.score)
        assert {subtree.label() for subtree in parse.tree.subtrees()} <= {
            symbol.strip("()") for symbol in symbols()
        }


@pytest.mark.compiles
def test_results_keep_the_order_of_the_sentences(parser):
    together = parser(SENTENCES)
    assert [tree.leaves() for tree in together] == SENTENCES
    assert parser(SENTENCES[3:4]) == together[3:4]


@pytest.mark.compiles
def test_without_words_there_is_no_tree(parser):
    assert parser(["", ["Hello"], [], "  "])[1].leaves() == ["Hello"]
    assert [tree is None for tree in parser(["", ["Hello"], [], "  "])] == [1, 0, 1, 1]
    assert parser([]) == []


@pytest.mark.once
def test_text_is_split_as_in_the_penn_treebank():
    assert words_of('He can\'t (really) say "no".') == [
        *("He", "ca", "n't", "-LRB-", "really", "-RRB-", "say", "``", "no", "''", "."),
    ]
    assert words_of(["as", "it", "is."]) == ["as", "it", "is."]


@pytest.mark.compiles
def test_unconstrained_outputs_are_repaired_and_counted():
    parses = list(new_parser(constrained=False).parse(SENTENCES))
    for words, parse in zip(SENTENCES, parses):
        assert parse.tree.leaves() == words
    assert sum(sum(parse.repairs.values()) for parse in parses) > len(parses)


@pytest.mark.compiles
def test_words_have_tags_of_the_dictionary(parser):
    def are_in_dictionary(parser):
        dictionary = tag_dictionary()
        return [
            all(
                tag in dictionary.tag_sets[kind]
                for (_, tag), kind in zip(tree.pos(), dictionary.kinds_of(tree.leaves()))
            )
            for tree in parser(SENTENCES + ODD)
        ]

    # The model is not trained: without the dictionary, tags are as good as random.
    assert all(are_in_dictionary(parser))
    assert not any(are_in_dictionary(new_parser(tag_dictionary=False))[: len(SENTENCES)])


@pytest.mark.compiles
def test_samples_are_trees_too():
    options = {"search": kt.sample, "temperature": 3.0, "seed": 1}
    for words, tree in zip(SENTENCES, new_parser(**options)(SENTENCES)):
        assert tree.leaves() == words


@pytest.mark.compiles
def test_preset_keeps_the_symbols(parser, tmp_path):
    parser.save_to_preset(tmp_path / "preset", card="# A parser\n")
    loaded = kt.ConstituencyParser.from_preset(
        tmp_path / "preset", extra_length=24, batch_tokens=1024, beam_size=3
    )
    assert loaded(SENTENCES) == parser(SENTENCES)
    with pytest.raises(ValueError, match="does not hold a model for Translator"):
        kt.Translator.from_preset(tmp_path / "preset")


@pytest.mark.once
def test_the_paper_s_search_is_the_default():
    parser = ConstituencyParser(new_parser().model, tokenizer(), {"symbols": list(symbols())})
    assert parser.search_options == {"beam_size": 21, "alpha": 0.3}
    assert parser.extra_length == 300 and parser.constrained


@pytest.mark.once
def test_a_string_is_no_list_of_sentences(parser):
    with pytest.raises(ValueError, match="parsed one by one"):
        parser("The dog runs.")


@pytest.mark.once
def test_symbols_are_needed():
    with pytest.raises(ValueError, match='as "symbols"'):
        ConstituencyParser(new_parser().model, tokenizer(), {})


@pytest.mark.compiles
def test_a_model_that_learned_one_tree_gives_it():
    """From a tree to its symbols, through training and search, and back."""
    tree = Tree.fromstring("(S (NP (DT the) (NN dog)) (VP (VBZ sees) (NP (PRP him))) (. .))")
    words, sequence = linearize(tree)
    parser = new_parser()
    source = np.array([[*tokenizer().encode([" ".join(words)])[0], 2]])
    target = np.array([[*parser.symbols.encode([" ".join(sequence)])[0], 2]])
    inputs = {
        "encoder_token_ids": source,
        "decoder_token_ids": np.concatenate([[[1]], target[:, :-1]], axis=1),
    }
    parser.model.compile(keras.optimizers.Adam(0.02), loss=kt.LabelSmoothedCrossentropy(0.0))
    for _ in range(40):
        parser.model.train_on_batch(inputs, target)
    (parse,) = parser.parse([words])
    assert parse.tree == tree
