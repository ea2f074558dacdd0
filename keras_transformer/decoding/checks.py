"""What would fail, or mislead, inside a search raises a `ValueError` before it."""

import numbers

import numpy as np
from keras import ops

from keras_transformer.data.tokenizer import END_ID, PAD_ID, START_ID


def check_positive(name, value):
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < 1:
        raise ValueError(f"`{name}` must be a positive integer. Received: {name}={value}")


def check_not_negative(name, value):
    if not isinstance(value, numbers.Real) or not 0 <= value < np.inf:
        raise ValueError(f"`{name}` must be a number, 0 or larger. Received: {name}={value}")


def check_source(model, encoder_token_ids, options):
    if len(encoder_token_ids.shape) != 2:
        raise ValueError(
            "`encoder_token_ids` must have the shape (batch, source). "
            f"Received: shape={tuple(encoder_token_ids.shape)}"
        )
    extra_length = options.extra_length
    check_positive("extra_length", extra_length)
    if not isinstance(options.min_length, int) or options.min_length < 0:
        raise ValueError(
            "`min_length` must be an integer, 0 or larger. "
            f"Received: min_length={options.min_length}"
        )
    length, max_length = encoder_token_ids.shape[1], model.hyperparameters["max_length"]
    if max_length is not None and length is not None and length + extra_length > max_length:
        raise ValueError(
            f"The source has {length} positions and its translation up to {length + extra_length}, "
            f"but the model learned only max_length={max_length}. Shorten the source, or pass a "
            "smaller `extra_length`."
        )


def check_banned(model, token_ids):
    size = model.hyperparameters["vocabulary_size"]
    is_id = [isinstance(token_id, int) and 0 <= token_id < size for token_id in token_ids]
    if END_ID in token_ids or not all(is_id):
        raise ValueError(
            f"`banned_token_ids` must be ids below {size}, the vocabulary size, without the end "
            f"token {END_ID}. Received: banned_token_ids={token_ids}"
        )


def check_prefix(model, encoder_token_ids, prefix_token_ids, options):
    prefix = np.asarray(ops.convert_to_numpy(prefix_token_ids))
    source = np.asarray(ops.convert_to_numpy(encoder_token_ids))
    if prefix.ndim != 2 or len(prefix) != len(source):
        raise ValueError(
            "`prefix_token_ids` must have the shape (batch, prefix), one row for each source. "
            f"Received: shape={prefix.shape} for {len(source)} sources"
        )
    size = model.hyperparameters["vocabulary_size"]
    is_token = prefix != PAD_ID
    wrong = prefix[(prefix < 0) | (prefix >= size) | (prefix == START_ID)]
    if len(wrong):
        raise ValueError(
            f"`prefix_token_ids` must be ids of tokens: below {size}, the vocabulary size, and not "
            f"the start token {START_ID}. Received: the id {wrong[0]}"
        )
    if (is_token[:, 1:] > is_token[:, :-1]).any():
        row = (is_token[:, 1:] > is_token[:, :-1]).any(axis=1).argmax()
        raise ValueError(
            "`prefix_token_ids` must be padded with 0 at the end, and only there. "
            f"Received: row {row}={prefix[row].tolist()}"
        )
    source_lengths = (source != PAD_ID).sum(axis=1)
    limits = np.where(source_lengths, source_lengths - 1 + options.extra_length, prefix.shape[1])
    if (is_token.sum(axis=1) > limits).any():
        row = (is_token.sum(axis=1) > limits).argmax()
        raise ValueError(
            f"`prefix_token_ids` must fit in the outputs. Received: row {row} of "
            f"{is_token[row].sum()} tokens, for an output of {limits[row]} at most. Pass a larger "
            "`extra_length`."
        )


def check_grammar(model, encoder_token_ids, num_words, word_kinds, prefix_token_ids, options):
    if options.grammar is None or num_words is None:
        raise ValueError("`grammar` and `num_words` go together. Received only one of them.")
    if prefix_token_ids is not None or options.min_length or options.banned_token_ids:
        raise ValueError(
            "With a `grammar`, pass no `prefix_token_ids`, `min_length` or `banned_token_ids`: a "
            "tree might not be possible with them."
        )
    size = model.hyperparameters["vocabulary_size"]
    if options.grammar.largest_id >= size:
        raise ValueError(
            f"The grammar's ids must be below {size}, the vocabulary size. "
            f"Received: {options.grammar.largest_id}"
        )
    if tuple(num_words.shape) != (encoder_token_ids.shape[0],):
        raise ValueError(
            "`num_words` must have the shape (batch,), a number for each source. "
            f"Received: shape={tuple(num_words.shape)} for {encoder_token_ids.shape[0]} sources"
        )
    if bool(options.grammar.leaf_sets) != (word_kinds is not None):
        raise ValueError(
            "`word_kinds` and a grammar's `leaf_sets` go together. Received only one of them."
        )
    words, source = _values(num_words), _values(encoder_token_ids)
    if words is None or source is None:
        return
    _check_kinds(options.grammar, word_kinds, words)
    lengths = (source != PAD_ID).sum(axis=1)
    limits = lengths - 1 + options.extra_length
    # A leaf for each word, and the end token. A source without tokens has no output.
    wrong = (lengths > 0) & ((words < 0) | (words + 1 > limits))
    if wrong.any():
        row = wrong.argmax()
        raise ValueError(
            "An output must be long enough for all words and the end token. Received: row "
            f"{row} of {words[row]} words, for an output of {limits[row]} at most. Pass a larger "
            "`extra_length`."
        )


def _check_kinds(grammar, word_kinds, num_words):
    if word_kinds is None:
        return
    kinds = _values(word_kinds)
    most = max(num_words, default=1)
    if kinds.ndim != 2 or len(kinds) != len(num_words) or kinds.shape[1] < most:
        raise ValueError(
            "`word_kinds` must have the shape (batch, words), a number for each word. Received: "
            f"shape={kinds.shape} for {len(num_words)} sources of up to {most} words"
        )
    if kinds.size and not (0 <= kinds.min() and kinds.max() < len(grammar.leaf_sets)):
        raise ValueError(
            f"`word_kinds` must be from 0 to {len(grammar.leaf_sets) - 1}: the grammar has "
            f"{len(grammar.leaf_sets)} leaf sets. Received: {kinds.min()} to {kinds.max()}"
        )


def _values(tensor):
    """The values of a tensor; None inside a program that is being compiled."""
    try:
        return np.asarray(ops.convert_to_numpy(tensor))
    except (NotImplementedError, TypeError):
        return None
