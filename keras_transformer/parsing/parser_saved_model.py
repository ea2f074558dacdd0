"""Export of a parser as a TensorFlow SavedModel, from sentences to bracketed trees."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from keras import ops

from keras_transformer.errors import UserError
from keras_transformer.export.saved_model import (
    save_module,
    search_in_batches,
    string_tokenizer,
    text_signature,
)
from keras_transformer.parsing.brackets import escape
from keras_transformer.parsing.parser_tokens import PLACEHOLDER, TreeSymbols
from keras_transformer.parsing.word_tags import TagDictionary
from keras_transformer.reserved_ids import END_ID

if TYPE_CHECKING:
    from keras_transformer.parsing.constituency_parser import ConstituencyParser


def export_parser(parser: "ConstituencyParser", path: str | Path) -> None:
    """Write a SavedModel that parses, with this signature:

    ```
    serving_default(text: string[n])  -> tree: string[n], score: float32[n]
    ```

    A text is a sentence with spaces between its words, in the spelling of the parser's treebank.
    (Raw text is split into words in Python, by `kt.parsing.tokenize_words(text,
    parser.word_tokenizer)`, before it is sent to the model.) The tree is in brackets, on one line,
    and always over exactly the words. It is empty for a text that has no words or is longer than
    the parser's `max_source_length`. The search is the parser's own, and the tree its best,
    independent of the parser's `decision`. A process that loads the model only needs to import
    `tensorflow` and `tensorflow_text`.

    Args:
        parser: a `ConstituencyParser`.
        path: the folder, which is written completely or not at all.

    Raises:
        UserError: if the backend is not TensorFlow, or the parser's search is not constrained to
            trees.
    """
    if not parser.constrained:
        raise UserError(
            "A SavedModel requires a search constrained to trees, because repairs run only in "
            "Python. Received: a parser with constrained=False"
        )
    save_module(functools.partial(_parsing_module, parser), parser.model, path)


def _parsing_module(parser: "ConstituencyParser") -> tuple[Any, dict[str, Any]]:
    import tensorflow as tf

    module: Any = tf.Module()
    module.tokenizer = string_tokenizer(parser.tokenizer, add_eos=False)
    ids_to_tokens = word_tokenizer(module.tokenizer, parser.source_tokenizer.starts_word)
    module.kinds = kinds_table(parser.tag_dictionary)
    write = tree_writer(parser.symbols)

    @tf.function(**text_signature())
    def parse(text):
        words = tf.strings.split(text)
        num_words = ops.cast(words.row_lengths(), "int32")
        for mark in "()":
            words = tf.ragged.map_flat_values(
                tf.strings.regex_replace, words, f"[{mark}]", escape(mark)
            )

        def search(batch, rows):
            batch_words = tf.gather(words, rows)
            kinds = module.kinds and module.kinds[_dense(batch_words)]
            trees = parser.word_tags.grammar.over(tf.gather(num_words, rows), kinds)
            token_ids, scores = parser.search_batch(batch, 1, (trees,), sentence_numbers=rows)
            return write(token_ids[:, 0], batch_words)[:, None], scores

        token_ids = ids_to_tokens(words)
        is_searched = num_words > 0
        if (limit := parser.source_limit()) is not None:
            is_searched &= token_ids.row_lengths() <= limit
        trees, scores = search_in_batches(token_ids, is_searched, search, parser.batch_tokens)
        return {"tree": trees[:, 0], "score": scores[:, 0]}

    module.parse = parse
    return module, {"serving_default": parse}


def word_tokenizer(tokenizer: Any, starts_word: np.ndarray) -> Callable[[Any], Any]:
    """Return the `WordTokenizer` in TensorFlow.

    Args:
        tokenizer: the SentencePiece tokenizer, which adds no end token.
        starts_word: bool array `(vocabulary_size,)`: which tokens begin a word.

    Returns:
        A function from ragged words `(n, None)` to ragged int32 ids `(n, None)`, with the end
        token.
    """
    import tensorflow as tf

    def ids_to_tokens(words):
        tokens = tokenizer.tokenize(words.flat_values)
        starts = tf.gather(tf.constant(starts_word, "int32"), tokens.flat_values)
        starts = tokens.with_flat_values(starts)
        is_counted = tf.reduce_sum(starts, axis=1) == 1
        counted = tf.where(is_counted, words.flat_values, PLACEHOLDER)
        token_ids = words.with_flat_values(tokenizer.tokenize(counted)).merge_dims(1, 2)
        return tf.concat([token_ids, tf.fill([words.nrows(), 1], END_ID)], axis=1)

    return ids_to_tokens


def kinds_table(tag_dictionary: TagDictionary | None) -> Any:
    """Return the dictionary's kinds of words as a TensorFlow table; None without a dictionary."""
    import tensorflow as tf

    if tag_dictionary is None:
        return None
    kinds = {"": 0, **tag_dictionary.kinds}  # TensorFlow does not allow an empty table.
    entries = tf.lookup.KeyValueTensorInitializer(
        list(kinds), list(kinds.values()), tf.string, tf.int32
    )
    return tf.lookup.StaticHashTable(entries, default_value=0)


def _dense(words):
    """Return ragged words as `(batch, words)`, with one more column for sentences without words."""
    import tensorflow as tf

    return tf.pad(words.to_tensor(), [[0, 0], [0, 1]], constant_values="")


def tree_writer(symbols: TreeSymbols) -> Callable[..., Any]:
    """Return a writer of bracketed trees in TensorFlow.

    Args:
        symbols: the `TreeSymbols` of the trees.

    Returns:
        A function of ids `(batch, length)` and of ragged words without brackets in them. It returns
        the trees: strings `(batch,)`.
    """
    import tensorflow as tf

    before, after = zip(*symbols.texts_around())
    ids = np.arange(symbols.vocabulary_size)
    is_leaf = np.isin(ids, list(symbols.leaves().values()))
    opening, closing = symbols.brackets()
    change = np.isin(ids, opening).astype("int32") - np.isin(ids, closing)
    is_in_order = symbols.linearization.order == "in-order"

    def write(token_ids, words):
        if is_in_order:
            order = top_down_order(tf.gather(is_leaf, token_ids), tf.gather(change, token_ids))
            token_ids = tf.gather(token_ids, order, axis=1, batch_dims=1)
        leaves = tf.gather(tf.constant(is_leaf), token_ids)
        number = tf.cumsum(tf.cast(leaves, "int32"), axis=1) - 1
        number = tf.maximum(number, 0)
        word = tf.gather(_dense(words), number, axis=1, batch_dims=1)
        texts = (
            tf.gather(tf.constant(before), token_ids),
            tf.where(leaves, word, ""),
            tf.gather(tf.constant(after), token_ids),
        )
        return tf.strings.strip(tf.strings.reduce_join(tf.strings.join(texts), axis=1))

    return write


def top_down_order(is_leaf: Any, change: Any) -> Any:
    """Return the top-down order of the symbols of trees that are written in-order.

    Each symbol belongs to a leaf: an opening symbol to the first leaf in its constituent, a closing
    symbol to the last. Top-down, constituents are opened before their first leaf, in the reverse of
    their in-order sequence, so that the outermost comes first. They are closed after their last
    leaf in the same sequence.

    Args:
        is_leaf: bool `(batch, length)`.
        change: int32 `(batch, length)`: 1 for a symbol that opens a constituent, -1 for one that
            closes it, else 0.

    Returns:
        Int32 `(batch, length)`: the index of the symbol at each position. Tokens after a tree stay
        after it.
    """
    import tensorflow as tf

    index = tf.range(tf.shape(change)[1])
    depth = tf.cumsum(change, axis=1)
    is_opener = change > 0
    # The last child before an opener begins with the last leaf at the depth of that child: (batch,
    # opener, leaf).
    begins = is_leaf[:, None, :] & (depth[:, None, :] == depth[:, :, None] - 1)
    begins &= index[None, None, :] < index[None, :, None]
    first = tf.reduce_max(tf.where(begins, index, 0), axis=-1)
    last = _latest(tf.where(is_leaf, index, 0))
    place = tf.where(is_opener, 3 * first, tf.where(is_leaf, 3 * index + 1, 3 * last + 2))
    within = tf.where(is_opener, -index, index)
    # Sort by place, then within a place.
    size = 2 * tf.size(index) + 1
    key = tf.cast(place, "int64") * tf.cast(size, "int64") + tf.cast(within, "int64")
    return tf.argsort(key, axis=1, stable=True)


def _latest(index):
    """Return the running maximum of each row."""
    import tensorflow as tf

    size = tf.shape(index)[1]
    is_before = tf.linalg.band_part(tf.ones((size, size), "bool"), -1, 0)
    return tf.reduce_max(tf.where(is_before, index[:, None, :], 0), axis=-1)
