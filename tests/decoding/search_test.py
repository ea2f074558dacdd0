import functools

import numpy as np
import pytest

from keras_transformer import BeamSearch, Sampling
from keras_transformer.models.transformer import Transformer
from tests.decoding.search_functions import greedy_search
from tests.decoding.sentences import EXTRA_LENGTH, LENGTH, SOURCE
from tests.helpers import assert_close, randomize, to_numpy

SOURCE_LENGTHS = (SOURCE != 0).sum(axis=1)
LIMITS = np.where(SOURCE_LENGTHS, SOURCE_LENGTHS - 1 + EXTRA_LENGTH, 0)


def new_model(**options):
    sizes = {"num_layers": 2, "hidden_dim": 8, "intermediate_dim": 16, "num_heads": 2}
    return randomize(Transformer(**{"vocabulary_size": 12, **sizes, **options}), seed=SEED)


# One that gives outputs of several kinds: see `test_some_outputs_of_the_shared_model_end_before_their_limits`.
SEED = 10
shared_model = functools.cache(new_model)


@functools.cache
def changing_model():
    """For tests that set the weights themselves: compiling the search is most of what they cost."""
    return new_model(num_layers=1)


def search(model, source=SOURCE, extra_length=EXTRA_LENGTH):
    token_ids, scores = greedy_search(model, source, extra_length)
    return to_numpy(token_ids), to_numpy(scores)


def log_softmax(logits):
    logits = to_numpy(logits).astype("float64")
    logits = logits - logits.max(axis=-1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))


def full_logits(model, decoder_token_ids):
    """Of the whole model, without a cache."""
    inputs = {"encoder_token_ids": SOURCE, "decoder_token_ids": decoder_token_ids}
    return model(inputs)


def plain_greedy(model):
    """The search step by step in Python, running the whole model again for each token."""
    outputs = np.zeros((len(SOURCE), LENGTH), "int32")
    # Later positions are padding, which causality hides: one shape for all steps.
    decoder_inputs = np.zeros((len(SOURCE), LENGTH + 1), "int32")
    decoder_inputs[:, 0] = 1
    finished = SOURCE_LENGTHS == 0
    for step in range(LENGTH):
        logits = to_numpy(full_logits(model, decoder_inputs[:, :-1]))[:, step]
        for row in np.flatnonzero(~finished):
            token = 2 + logits[row, 2:].argmax()
            outputs[row, step] = decoder_inputs[row, step + 1] = token
            finished[row] = token == 2 or step + 1 == LIMITS[row]
    return outputs


def output_lengths(token_ids):
    return (token_ids != 0).sum(axis=1)


def model_that_wants(token, sign=1):
    """A model whose logit of `token` is far above all others, whatever the inputs; or far below."""
    model = randomize(changing_model(), seed=SEED)
    embeddings = to_numpy(model.encoder.token_embedding.embeddings).copy()
    embeddings[token] *= 5  # else a longer one may have the larger product with it
    model.encoder.token_embedding.embeddings.assign(embeddings)
    norm = model.decoder.layers[-1].feed_forward_norm
    norm.gamma.assign(0.01 * norm.gamma)
    norm.beta.assign(sign * 5 * embeddings[token])
    return model


KINDS = pytest.mark.parametrize(
    "options",
    [
        {},
        {"normalize_first": True, "key_dim": 3, "value_dim": 5},
        {"position_encoding": "learned", "max_length": 10},
    ],
    ids=["plain", "pre-norm, free d_k and d_v", "learned positions"],
)


@KINDS
def test_equals_step_by_step_argmax_of_the_full_model(options):
    model = shared_model(**options)
    token_ids, scores = search(model)
    assert token_ids.dtype == "int32" and scores.dtype == "float32"
    assert token_ids.tolist() == plain_greedy(model).tolist()

    # The score is the log-probability, along the output, by the full model.
    decoder_inputs = np.concatenate([np.ones((len(SOURCE), 1), "int32"), token_ids[:, :-1]], axis=1)
    log_probabilities = log_softmax(full_logits(model, decoder_inputs))
    chosen = np.take_along_axis(log_probabilities, token_ids[..., None].astype("int64"), -1)[..., 0]
    assert_close(scores, (chosen * (token_ids != 0)).sum(axis=1), atol=1e-4)


def test_some_outputs_of_the_shared_model_end_before_their_limits():
    # Of the rows compared above some must end by themselves, and some at their limits.
    token_ids, _ = search(shared_model())
    ended = (token_ids == 2).any(axis=1)
    assert ended[:5].any() and not ended[:5].all()
    assert len(np.unique(token_ids)) > 4


def test_ends_at_once_where_the_end_is_likeliest():
    token_ids, scores = search(model_that_wants(2))
    assert token_ids[:5, 0].tolist() == [2] * 5
    assert not token_ids[:, 1:].any()
    assert (scores[:5] <= 0).all() and (scores[:5] > -0.5).all()


def test_each_sentence_has_its_own_length_limit():
    token_ids, _ = search(model_that_wants(2, sign=-1))
    assert not (token_ids == 2).any()
    # The source's tokens without the end token, and EXTRA_LENGTH more; none for no source.
    assert output_lengths(token_ids).tolist() == [9, 5, 4, 7, 8, 0]


@pytest.mark.parametrize("forbidden", [0, 1])
def test_padding_and_start_are_never_an_output(forbidden):
    model = model_that_wants(forbidden)
    first = to_numpy(full_logits(model, np.ones((len(SOURCE), 1), "int32")))[:, 0]
    assert (first.argmax(axis=-1)[:5] == forbidden).all()  # the model would like to
    token_ids, scores = search(model)
    for tokens, count in zip(token_ids, output_lengths(token_ids)):
        assert (tokens[:count] > 1).all()
        assert not tokens[count:].any()
    # The probability is the model's own: what is forbidden keeps its share.
    assert (scores[:5] < -1).all()


def test_changed_weights_are_seen():
    model = randomize(changing_model(), seed=SEED)
    before = search(model)
    randomize(model, seed=SEED + 1)
    after = search(model)
    assert after[0].tolist() == plain_greedy(model).tolist()
    assert after[0].tolist() != before[0].tolist()


# Errors


@pytest.mark.parametrize("is_beam", [True, False])
def test_nan_weights_give_empty_outputs(is_beam):
    model = randomize(changing_model(), seed=SEED)
    model.decoder.layers[-1].feed_forward_norm.beta.assign(np.full(8, np.nan))
    search = BeamSearch(extra_length=EXTRA_LENGTH)
    if not is_beam:
        search = Sampling(top_p=0.9, extra_length=EXTRA_LENGTH)
    token_ids, scores = (to_numpy(x) for x in search(model, SOURCE))
    assert not token_ids.any() and (scores[:5] == -np.inf).all()
    assert scores[5] == 0  # a row of padding has its empty output
