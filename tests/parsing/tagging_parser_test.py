"""The tags of a parser with a tagger next to its decoder."""

import keras
import numpy as np
import pytest
from nltk import Tree

import keras_transformer as kt
from keras_transformer.parsing.linearization import LABELLED_BRACKETS
from tests.helpers import to_numpy
from tests.parsing.small_trees import (
    new_parser,
    new_tagging_parser,
    short_sentences,
    tag_dictionary,
)

SENTENCES = short_sentences(8)


def best_tags(parser, words, may_be):
    """Return the best tag of each word, computed word by word from the encoder's outputs."""
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


@pytest.mark.parametrize("has_dictionary", [True, False])
def test_tags_are_the_best_that_words_may_have(has_dictionary):
    parser, dictionary = new_tagging_parser(tag_dictionary=has_dictionary), tag_dictionary()
    every = list(parser.symbols.leaves())

    def may_be(word):
        return dictionary.tag_sets[dictionary.kinds.get(word, 0)] if has_dictionary else every

    tags = [*parser.tag(SENTENCES)]
    assert tags == [best_tags(parser, words, may_be) for words in SENTENCES]


def test_tags_of_streams_keep_their_order_and_given_tags():
    parser = new_tagging_parser()
    sentences = [*SENTENCES, [], [(word, None) for word in SENTENCES[0]], ["🙂"], ["\u200b"] * 20]
    tags = [*parser.tag(iter(sentences))]
    assert [found and len(found) for found in tags] == [len(words) or None for words in sentences]
    for words, found in zip(sentences, tags):
        assert [*parser.tag([words])] == [found]
    assert tags[len(SENTENCES) + 1] == tags[0]
    (word, *others), tag = SENTENCES[0], "FOREIGN"
    assert [*parser.tag([[(word, tag), *others]])] == [[tag, *tags[0][1:]]]


def test_tags_alone_need_a_tagger():
    with pytest.raises(kt.UserError, match="has no tagger"):
        next(new_parser().tag(SENTENCES))
    with pytest.raises(kt.UserError, match="[Ss]tring"):
        new_parser().tag("The dog runs.")


def test_a_parser_learns_trees_and_its_tagger_their_tags():
    texts = ("(S (NP (DT the) (NN dog)) (VP (VBZ sees) (NP (PRP him))))", "(S (NP (NNP He)))")
    learned = list(map(Tree.fromstring, texts))
    parser = new_tagging_parser(tag_dictionary=False)
    words, symbols = zip(*map(LABELLED_BRACKETS.linearize, learned))
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
    loss = kt.LabelSmoothedCrossentropy(0.0)
    parser.model.compile(keras.optimizers.Adam(0.01), loss=loss, fused=True)
    losses = (parser.model.train_on_batch(inputs, target) for _ in range(300))
    assert any(loss < 0.05 for loss in losses)
    assert parser(list(words)) == learned
    assert [*parser.tag(list(words))] == [[tag for _, tag in tree.pos()] for tree in learned]
