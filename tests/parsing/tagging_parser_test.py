"""A parser whose trees are searched for without tags, which a tagger finds."""

import keras
import numpy as np
import pytest
from nltk import Tree

import keras_transformer as kt
from keras_transformer.parsing.options import TreeOptions
from keras_transformer.parsing.trees import InOrderBrackets, LabelledBrackets
from keras_transformer.parsing.word_tags import TagDictionary
from tests.helpers import to_numpy
from tests.parsing.small_trees import (
    new_parser,
    new_tagging_parser,
    short_sentences,
    tag_dictionary,
)

SENTENCES = short_sentences(8)


@pytest.fixture(scope="module")
def parser():
    return new_tagging_parser()


def best_tags(parser, words, may_be):
    """The best tag of each word, by the model alone and one word after the other."""
    tokens, first = [], []
    for word in words:
        first.append(len(tokens))
        tokens += parser.source_tokenizer.encode_words([[word]])[0]
    model = parser.model
    encoded = to_numpy(model.encode(np.array([[*tokens, 2]])))[0]
    names = {leaf: tag for tag, leaf in parser.symbols.leaves().items()}
    table = to_numpy(model.token_embedding.embeddings)
    found = []
    for word, begin, end in zip(words, first, [*first[1:], len(tokens)]):
        scores = table @ encoded[begin:end].mean(axis=0)
        found.append(max(may_be(word), key=lambda tag: scores[parser.symbols.leaves()[tag]]))
    assert set(found) <= set(names.values())
    return found


def tags_of(tree):
    return [tag for _, tag in tree.pos()]


@pytest.mark.parametrize("constrained", [True, False])
def test_tags_are_the_tagger_s_best(constrained):
    parser = new_tagging_parser(constrained=constrained)
    dictionary = tag_dictionary()
    every = [tag for tag in parser.symbols.leaves() if tag != "XX"]

    def may_be(word):
        return dictionary.tag_sets[dictionary.kinds.get(word, 0)] if constrained else every

    repairs = 0
    for words, parse in zip(SENTENCES, parser.parse(SENTENCES)):
        assert parse.tree.leaves() == words
        assert tags_of(parse.tree) == best_tags(parser, words, may_be)
        repairs += parse.repairs.total()
    # Whatever had to be repaired, each word keeps its own tag.
    assert (repairs > 0) is not constrained


def test_tags_are_found_in_any_order_and_given_tags_are_kept(parser):
    """As in the trees, in any order of lengths, and of sentences that cannot be parsed none."""
    sentences = [*SENTENCES, [], [(word, None) for word in SENTENCES[0]], "the"]
    expected = [tree and tags_of(tree) for tree in parser(sentences)]
    assert expected[len(SENTENCES)] is None
    assert [*parser.tag(iter(sentences))] == expected
    (word, *others), tag = SENTENCES[0], "FOREIGN"
    assert [*parser.tag([[(word, tag), *others]])] == [[tag, *expected[0][1:]]]


def test_tags_alone_of_a_parser_that_writes_tags():
    """With a tagger's loss: it is trained, and no search asks it."""
    parser = new_parser(counts_words=TreeOptions(tag_loss_weight=1.0))
    assert not parser.has_tagger
    dictionary = parser.tag_dictionary
    for words, tags in zip(SENTENCES, parser.tag(SENTENCES)):
        assert tags == best_tags(
            parser, words, lambda word: dictionary.tag_sets[dictionary.kinds.get(word, 0)]
        )


def test_tags_alone_need_a_tagger():
    with pytest.raises(kt.UserError, match="has no tagger"):
        next(new_parser().tag(SENTENCES))
    with pytest.raises(kt.UserError, match="[Ss]tring"):
        new_parser().tag("The dog runs.")


def test_without_a_dictionary():
    parser = new_tagging_parser(tag_dictionary=False)
    every = [tag for tag in parser.symbols.leaves() if tag != "XX"]
    for words, tree in zip(SENTENCES, parser(SENTENCES)):
        assert tags_of(tree) == best_tags(parser, words, lambda word: every)


def test_what_stands_for_all_tags_is_none():
    parser = new_tagging_parser(tag_dictionary=False)
    model, words = parser.model, SENTENCES[0]
    source = np.array([[*parser.source_tokenizer.encode_words([words])[0], 2]])
    vectors = to_numpy(model.word_vectors(model.encode(source), source))[0]
    table = to_numpy(model.token_embedding.embeddings).copy()
    untagged = model.config.untagged_leaf_id
    table[untagged] = 100 * vectors[0]
    model.token_embedding.embeddings.assign(table)
    leaves = model.decoder.tagger.leaf_ids
    assert leaves[to_numpy(model.tag(source))[0, 0].argmax()] == untagged
    assert "XX" not in tags_of(parser([words])[0])


def test_a_treebank_with_a_tag_of_this_name():
    # The dictionary has it for a tag then.
    parser = new_tagging_parser(tag_dictionary=TagDictionary([["XX"], ["NN"]], ["dog"]))
    (tree,) = parser([["the", "dog"]])
    assert tags_of(tree) == ["XX", "NN"]


def test_the_search_is_for_trees_without_tags(parser):
    words = SENTENCES[0]
    untagged = parser.model.config.untagged_leaf_id
    tokens = parser.source_tokenizer.encode_words([words])[0]
    outputs, scores = map(
        to_numpy, parser.search_trees(np.array([[*tokens, 2]], "int32"), np.array([len(words)]))
    )
    leaves = np.isin(outputs[0, 0], [*parser.symbols.leaves().values()])
    assert (outputs[0, 0][leaves] == untagged).all() and leaves.sum() == len(words)
    (parse,) = parser.parse([words])
    assert parse.score == pytest.approx(scores[0, 0], abs=1e-4)


def test_several_trees_of_a_sentence_differ_in_more_than_tags(parser):
    (parse,) = parser.parse(SENTENCES[:1], num_results=3)
    found = [parse.tree, *(other.tree for other in parse.others)]
    assert len({str(tree) for tree in found}) == 3
    assert len({tuple(tags_of(tree)) for tree in found}) == 1


@pytest.mark.parametrize("constrained", [True, False])
def test_given_tags_win(constrained):
    parser = new_tagging_parser(constrained=constrained)
    free = parser(SENTENCES[:3])
    given = [[(word, None) for word in words] for words in SENTENCES[:3]]
    given[0][1] = (SENTENCES[0][1], "ALIEN")
    given[1][0] = (SENTENCES[1][0], "NN")
    for before, after, sentence in zip(free, parser(given), given):
        expected = [tag or own for (_, tag), own in zip(sentence, tags_of(before))]
        assert tags_of(after) == expected
    assert sum(tag is not None for sentence in given for _, tag in sentence) == 2  # as they were


def test_odd_sentences_get_trees_with_a_tag_for_each_word(parser):
    odd = [[], ["🙂"], ["(", "odd", ")"], ["\u200b"] * 20, ["a\u00a0b"], ["."] * 3]
    for words, tree in zip(odd, parser(odd)):
        assert (tree is None) == (not words)
        assert not words or (len(tree.leaves()) == len(words) and "XX" not in tags_of(tree))


def test_other_searches_give_the_same_tags():
    parser = new_tagging_parser(search="random")
    expected = map(tags_of, new_tagging_parser()(SENTENCES[:2]))
    assert list(map(tags_of, parser(SENTENCES[:2]))) == list(expected)


def test_a_preset_keeps_it(parser, tmp_path):
    parser.save_to_preset(tmp_path / "preset")
    loaded = kt.ConstituencyParser.from_preset(tmp_path / "preset")
    assert loaded.has_tagger and loaded(SENTENCES) == parser(SENTENCES)
    assert not new_parser().has_tagger


@pytest.mark.once
def test_symbols_of_another_parser():
    parser, other = new_tagging_parser(), new_parser(counts_words=True)
    symbols = [symbol for symbol in other.symbols.symbols if symbol[-1] != ")"]
    with pytest.raises(ValueError, match="among the parser's leaves. Received: untagged_leaf_id="):
        kt.ConstituencyParser(parser.model, parser.tokenizer, {"symbols": symbols})


@pytest.mark.parametrize(
    ("linearization", "weight"),
    [(LabelledBrackets(), 0.5), pytest.param(InOrderBrackets(), None, marks=pytest.mark.slow)],
    ids=str,
)
def test_learns_trees_and_tags(linearization, weight):
    """From trees to symbols with tags, through training, tagger and search, and back."""
    texts = ("(S (NP (DT the) (NN dog)) (VP (VBZ sees) (NP (PRP him))))", "(S (NP (NNP He)))")
    learned = list(map(Tree.fromstring, texts))
    parser = new_tagging_parser(linearization, tag_dictionary=False)
    words, symbols = zip(*map(linearization.linearize, learned))
    source, target = (
        keras.utils.pad_sequences([[*ids, 2] for ids in lists], padding="post")
        for lists in (
            parser.source_tokenizer.encode_words(words),
            parser.symbols.encode(map(" ".join, symbols)),
        )
    )
    inputs = {
        "encoder_token_ids": source,
        "decoder_token_ids": np.concatenate([np.ones((2, 1), int), target[:, :-1]], axis=1),
    }
    if weight is not None:
        config = {**parser.model.get_config(), "tag_loss_weight": weight}
        model = type(parser.model).from_config(config)
        model.set_weights(parser.model.get_weights())
        parser.model = model
    loss = kt.LabelSmoothedCrossentropy(0.0)
    parser.model.compile(keras.optimizers.Adam(0.01), loss=loss, fused=True)
    losses = (parser.model.train_on_batch(inputs, target) for _ in range(300))
    assert any(loss < 0.05 for loss in losses)
    assert parser(list(words)) == learned
