"""Search for the best translation, step by step, with a cache of keys and values (section 6.1)."""

import numbers

import numpy as np
from keras import ops

from keras_transformer.data.tokenizer import PAD_ID, START_ID
from keras_transformer.decoding.all_cores import search_on_all_cores
from keras_transformer.decoding.checks import (
    check_banned,
    check_grammar,
    check_not_negative,
    check_positive,
    check_prefix,
    check_source,
)
from keras_transformer.decoding.compilation import run_compiled
from keras_transformer.decoding.length_penalty import length_penalties
from keras_transformer.decoding.search_loop import Sampling, SearchOptions


def greedy_search(model, encoder_token_ids, extra_length=50):
    """Take the likeliest token at each step: beam search with a beam of one.

    A sentence's output ends with the end token, or where it is `extra_length` tokens longer than
    its source, whatever else is in the batch.

    Args:
        model: a `Transformer`.
        encoder_token_ids: int array `(batch, source)`, each row ending with the end token, padded
            with 0. A row of padding alone gives an empty output.
        extra_length: how many tokens, the end token included, an output may have beyond the tokens
            of its source.

    Returns:
        The pair `(token_ids, scores)`:
        `token_ids`: int32 tensor `(batch, source + extra_length)`, without the start token, the end
        token included, 0 after it;
        `scores`: float32 tensor `(batch,)`, the log-probability of the output.

    Raises:
        ValueError: if `encoder_token_ids` has not two axes, `extra_length` is not a positive
            integer, or a learned position table is too short.
    """
    token_ids, scores = beam_search(model, encoder_token_ids, 1, 0.0, extra_length)
    return token_ids[:, 0], scores[:, 0]


def beam_search(
    model,
    encoder_token_ids,
    beam_size=4,
    alpha=0.6,
    extra_length=50,
    num_results=1,
    length_penalty="gnmt",
    coverage_penalty=0.0,
    min_length=0,
    prefix_token_ids=None,
    banned_token_ids=(),
    return_attention=False,
    grammar=None,
    num_words=None,
    word_kinds=None,
):
    """Search for the output y of a source x that maximises (section 6.1; Wu et al., 2016, Eq. 14)

    ```
    score(y, x) = log P(y | x) / lp(|y|) + β Σ_i log min(Σ_j p_ij, 1)
    lp(|y|)     = ((5 + |y|) / 6)^α    "gnmt"
                  |y|^α                "power"
    ```

    where |y| counts the end token, and p_ij is the attention to source token i when y_j is
    predicted: the mean over the heads of the last layer.

    At each step the live hypotheses, `beam_size` at most, are continued with every token. Of the
    best `beam_size` continuations those that end are finished: scored once, and kept apart. The
    best `beam_size` that do not end live on. The search for a sentence stops when no live
    hypothesis can score more than what is finished, and the batch when all its sentences have
    stopped. An output ends with the end token, or where it is `extra_length` tokens longer than its
    source; a sentence's result does not depend on its neighbours. Of hypotheses that score the same
    the one of the better rank, then of the lower token id, comes first, on every backend.

    Args:
        model: a `Transformer`.
        encoder_token_ids: int array `(batch, source)`, each row ending with the end token, padded
            with 0. A row of padding alone gives empty outputs of score 0.
        beam_size: the number of live hypotheses of a sentence.
        alpha: α, the strength of the length penalty. The larger, the longer the outputs.
        extra_length: how many tokens, the end token included, an output may have beyond the tokens
            of its source.
        num_results: how many outputs of each sentence to return, `beam_size` at most.
        length_penalty: lp, `"gnmt"` or `"power"`.
        coverage_penalty: β, the strength of the coverage penalty. It chooses among finished
            hypotheses, and does not lead the search.
        min_length: the fewest tokens of an output, the end token included.
        prefix_token_ids: int array `(batch, prefix)`, padded with 0: tokens the outputs begin with.
            They may be banned ones, and count in length and score.
        banned_token_ids: token ids that no output may hold. Probabilities stay the model's own:
            what is banned keeps its share.
        return_attention: whether to return the attention of the outputs to the source.
        grammar: a `TreeGrammar`: all outputs are trees over the sentence's words (section 6.3).
        num_words: with a grammar, int array `(batch,)`: the number of words of each sentence. The
            output for a sentence without words is the end token alone.
        word_kinds: with a grammar that has leaf sets, int array `(batch, words)`: which of them is
            each word's. What is beyond a sentence's words has no effect.

    Returns:
        The tuple `(token_ids, scores)`, or `(token_ids, scores, attention)`:
        `token_ids`: int32 tensor `(batch, num_results, source + extra_length)`, without the start
        token, the end token included, 0 after it;
        `scores`: float32 tensor `(batch, num_results)`, the best first. Where there are fewer
        outputs than `num_results`, minus infinity, and 0 for tokens;
        `attention`: float32 tensor `(batch, num_results, num_layers, num_heads, source +
        extra_length, source)`, the encoder-decoder attention weights with which each output token
        was predicted; 0 after the output's end.

    Raises:
        ValueError: if an argument is out of its range, a learned position table is too short, or
            `prefix_token_ids` do not fit the sources and the vocabulary.
    """
    check_positive("beam_size", beam_size)
    check_positive("num_results", num_results)
    if num_results > beam_size:
        raise ValueError(
            "`num_results` must be no larger than `beam_size`. "
            f"Received: num_results={num_results}, beam_size={beam_size}"
        )
    check_not_negative("alpha", alpha)
    check_not_negative("coverage_penalty", coverage_penalty)
    if length_penalty not in list(length_penalties):
        raise ValueError(
            f"`length_penalty` must be one of {sorted(length_penalties)}. "
            f"Received: length_penalty={length_penalty!r}"
        )
    options = SearchOptions(
        beam_size=beam_size,
        num_results=num_results,
        extra_length=extra_length,
        alpha=float(alpha),
        length_penalty=length_penalty,
        coverage_penalty=float(coverage_penalty),
        min_length=min_length,
        banned_token_ids=_ids(banned_token_ids),
        grammar=grammar,
    )
    words = num_words, word_kinds
    return _search(model, encoder_token_ids, options, prefix_token_ids, words, return_attention)


def sample(
    model,
    encoder_token_ids,
    num_results=1,
    temperature=1.0,
    top_k=None,
    top_p=None,
    seed=0,
    extra_length=50,
    min_length=0,
    prefix_token_ids=None,
    banned_token_ids=(),
    return_attention=False,
    grammar=None,
    num_words=None,
    word_kinds=None,
):
    """Draw outputs at random, token by token, from `softmax(logits / temperature)`.

    The random numbers are a hash of `seed` and the sentence: the same on every backend, whatever
    else is in the batch.

    Args:
        model: a `Transformer`.
        encoder_token_ids: int array `(batch, source)`, as in `beam_search`.
        num_results: how many outputs to draw for each sentence. They may be equal.
        temperature: the higher, the more random.
        top_k: if given, only the `top_k` likeliest tokens are drawn from.
        top_p: if given, only the likeliest tokens whose probabilities sum up to `top_p` are drawn
            from (nucleus sampling, Holtzman et al., 2020); of those that `top_k` leaves.
        seed: integer; another seed gives other outputs.
        extra_length: as in `beam_search`.
        min_length: as in `beam_search`.
        prefix_token_ids: as in `beam_search`.
        banned_token_ids: as in `beam_search`.
        return_attention: as in `beam_search`.
        grammar: as in `beam_search`.
        num_words: as in `beam_search`.
        word_kinds: as in `beam_search`.

    Returns:
        The tuple `(token_ids, scores)`, or `(token_ids, scores, attention)`, as `beam_search`
        returns it. Scores are the model's log-probabilities, as of temperature 1; the best first.

    Raises:
        ValueError: as `beam_search`.
    """
    check_positive("num_results", num_results)
    if not isinstance(temperature, numbers.Real) or not temperature > 0:
        raise ValueError(f"`temperature` must be positive. Received: temperature={temperature}")
    if top_k is not None:
        check_positive("top_k", top_k)
    if top_p is not None and not (isinstance(top_p, numbers.Real) and 0 < top_p <= 1):
        raise ValueError(f"`top_p` must be above 0 and at most 1. Received: top_p={top_p}")
    options = SearchOptions(
        beam_size=num_results,
        num_results=num_results,
        extra_length=extra_length,
        min_length=min_length,
        banned_token_ids=_ids(banned_token_ids),
        sampling=Sampling(float(temperature), top_k, None if top_p is None else float(top_p)),
        grammar=grammar,
    )
    words = num_words, word_kinds
    return _search(
        model, encoder_token_ids, options, prefix_token_ids, words, return_attention, seed
    )


def _search(model, encoder_token_ids, options, prefix_token_ids, words, return_attention, seed=0):
    encoder_token_ids = ops.convert_to_tensor(encoder_token_ids, "int32")
    check_source(model, encoder_token_ids, options)
    check_banned(model, options.banned_token_ids)
    tensors = [encoder_token_ids, np.array([[seed]]).astype("int32")]
    if options.grammar is not None or any(part is not None for part in words):
        check_grammar(model, encoder_token_ids, *words, prefix_token_ids, options)
        tensors += _words(*words)
    elif prefix_token_ids is not None:
        check_prefix(model, encoder_token_ids, prefix_token_ids, options)
        prefix_token_ids = ops.convert_to_tensor(prefix_token_ids, "int32")
        if prefix_token_ids.shape[1] > 0:
            tensors.append(prefix_token_ids)
    if encoder_token_ids.shape[0] == 0:
        token_ids, scores = _nothing(encoder_token_ids, options)
    else:
        token_ids, scores = search_on_all_cores(model, *tensors, options=options)
    if not return_attention:
        return token_ids, scores
    return token_ids, scores, _attention(model, encoder_token_ids, token_ids)


def _words(num_words, word_kinds):
    """What `Words` has. A grammar without leaf sets does not look at the kinds."""
    count = ops.expand_dims(ops.convert_to_tensor(num_words, "int32"), 1)
    return count, count if word_kinds is None else ops.convert_to_tensor(word_kinds, "int32")


def _nothing(encoder_token_ids, options):
    """The results of no sentences; on JAX an empty batch does not go through the loop."""
    length = encoder_token_ids.shape[1] + options.extra_length
    shape = (0, options.num_results)
    return ops.zeros((*shape, length), "int32"), ops.zeros(shape, "float32")


def _attention(model, encoder_token_ids, token_ids):
    """The encoder-decoder attention of each output: one pass over the chosen ones alone."""
    batch, num_results, length = token_ids.shape
    flat_ids = ops.reshape(token_ids, (batch * num_results, length))
    encoder_token_ids = ops.repeat(encoder_token_ids, num_results, axis=0)
    weights = run_compiled(_attention_program, model, flat_ids, encoder_token_ids)
    return ops.reshape(weights, (batch, num_results, *weights.shape[1:]))


def _attention_program(model, token_ids, encoder_token_ids):
    start = ops.full((ops.shape(token_ids)[0], 1), START_ID, "int32")
    decoder_token_ids = ops.concatenate([start, token_ids[:, :-1]], axis=1)
    weights = model.cross_attention(decoder_token_ids, encoder_token_ids)
    is_token = ops.cast(token_ids != PAD_ID, "float32")[:, None, None, :, None]
    return ops.cast(weights, "float32") * is_token


def _ids(token_ids):
    token_ids = np.asarray(token_ids).ravel()
    return tuple(sorted(set(token_ids.tolist())))
