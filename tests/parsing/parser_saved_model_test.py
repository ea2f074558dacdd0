import keras
import numpy as np
import pytest

from keras_transformer.parsing.brackets import to_bracketed
from keras_transformer.parsing.linearization import InOrderBrackets
from keras_transformer.parsing.parser_saved_model import kinds_table, tree_writer
from keras_transformer.parsing.parser_tokens import TreeSymbols
from keras_transformer.parsing.word_tags import TagDictionary
from tests.parsing.small_trees import (
    new_parser,
    symbols_of,
    tokenizer_of,
    trees,
)
from tests.parsing.unlabelled_closers import UnlabelledClosers

pytestmark = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="a SavedModel is made by TensorFlow"
)

SENTENCES = [tree.leaves() for tree in trees()[:10]]
ODD = [["🙂"], ["中文", "句子"], ["(", "odd", ")", "a(b)"], ["\u200b", "½"], ["x" * 20], []]
# Words that SentencePiece drops or splits in two, and a sentence that is too long.
ODD += [["\u200b", "runs", "a\u00a0b", "the", "\u200b", "dog"], ["runs"] * 45]


@pytest.mark.each_backend
def test_saved_model_returns_the_trees_of_the_parser(tmp_path):
    gives_what_python_gives(new_parser(max_source_length=45, counts_words=True), tmp_path)


def gives_what_python_gives(parser, tmp_path):
    import tensorflow as tf

    parser.export(tmp_path / "saved_model")
    serve = tf.saved_model.load(str(tmp_path / "saved_model")).signatures["serving_default"]
    sentences = SENTENCES + ODD
    outputs = serve(text=tf.constant([" ".join(words) for words in sentences]))
    parses = list(parser.parse(sentences))
    expected = [to_bracketed(parse.tree) if parse.tree else "" for parse in parses]
    assert [tree.decode() for tree in outputs["tree"].numpy()] == expected
    assert [parse.is_too_long for parse in parses] == [False] * (len(parses) - 1) + [True]
    scores = np.array([parse.score for parse in parses])
    np.testing.assert_allclose(outputs["score"], scores, rtol=1e-4)
    assert serve(text=tf.constant([], tf.string))["tree"].shape == (0,)


def test_a_dictionary_without_frequent_words_is_exported():
    import tensorflow as tf

    dictionary = TagDictionary.from_trees(trees()[:3], min_count=1000)
    assert not dictionary.kinds
    assert kinds_table(dictionary)[tf.constant([["The", "dog"]])].numpy().tolist() == [[0, 0]]


def test_only_a_constrained_parser_is_exported(tmp_path):
    with pytest.raises(ValueError, match="constrained=False"):
        new_parser(constrained=False).export(tmp_path / "saved_model")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("linearization", [UnlabelledClosers(), InOrderBrackets()])
def test_saved_model_writes_trees_of_other_linearizations(linearization):
    import tensorflow as tf

    inventory = symbols_of(linearization)
    symbols = TreeSymbols(inventory, tokenizer_of(tuple(inventory)), linearization)
    words, lines = zip(*map(linearization.linearize, trees()[:10]))
    token_ids = tf.ragged.constant(symbols.encode(map(" ".join, lines)), dtype="int32")
    # Ids with the end token and padding.
    token_ids = tf.pad(
        tf.pad(token_ids.to_tensor(), [[0, 0], [0, 1]], constant_values=2), [[0, 0], [0, 3]]
    )
    texts = tree_writer(symbols)(token_ids, tf.ragged.constant(words))
    assert [text.decode() for text in texts.numpy()] == list(map(to_bracketed, trees()[:10]))
