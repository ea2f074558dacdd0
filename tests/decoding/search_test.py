import functools
import gc
import weakref

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer import BeamSearch, Sampling
from keras_transformer.decoding.beam_trace import replay
from keras_transformer.errors import UserError
from keras_transformer.models.transformer import Transformer
from tests.decoding.search_functions import greedy_search
from tests.decoding.sentences import EXTRA_LENGTH, LENGTH, SOURCE
from tests.helpers import assert_close, numpy_logits, randomize, to_numpy

SOURCE_LENGTHS = (SOURCE != 0).sum(axis=1)
LIMITS = np.where(SOURCE_LENGTHS, SOURCE_LENGTHS - 1 + EXTRA_LENGTH, 0)


def new_model(**options):
    sizes = {"num_layers": 2, "hidden_dim": 8, "intermediate_dim": 16, "num_heads": 2}
    return randomize(Transformer(**{"vocabulary_size": 12, **sizes, **options}), seed=SEED)


# One that gives outputs of several kinds: see `test_shared_model_shows_something`.
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


def test_shared_model_shows_something():
    # Of the rows compared above some must end by themselves, and some at their limits.
    token_ids, _ = search(shared_model())
    ended = (token_ids == 2).any(axis=1)
    assert ended[:5].any() and not ended[:5].all()
    assert len(np.unique(token_ids)) > 4


def test_score_follows_the_papers_formulas():
    model = shared_model()
    token_ids, scores = search(model)
    for row in range(5):
        source = SOURCE[row, : SOURCE_LENGTHS[row]]
        output = token_ids[row, : output_lengths(token_ids)[row]]
        log_probabilities = log_softmax(numpy_logits(model, source, [1, *output[:-1]]))
        score = log_probabilities[np.arange(len(output)), output].sum()
        assert_close(scores[row], score, atol=1e-4)


@KINDS
def test_output_is_tokens_then_end_then_padding(options):
    token_ids, _ = search(shared_model(**options))
    assert token_ids.shape == (len(SOURCE), LENGTH)
    for row, limit in zip(token_ids.tolist(), LIMITS):
        tokens = [token for token in row if token]
        assert row == tokens + [0] * (LENGTH - len(tokens))
        assert 1 not in tokens
        assert 2 not in tokens[:-1]
        assert len(tokens) == limit or tokens[-1] == 2


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


def test_neighbours_and_padding_change_nothing():
    model = shared_model()
    token_ids, scores = search(model)
    order = [3, 5, 0, 5, 4, 1, 2]
    wider = np.pad(SOURCE[order], ((0, 0), (0, 3)))
    other_ids, other_scores = search(model, wider)
    assert (other_ids[:, :LENGTH] == token_ids[order]).all()
    assert not other_ids[:, LENGTH:].any()
    assert_close(other_scores, scores[order], atol=1e-4)
    # Alone, and without any padding.
    alone_ids, alone_score = search(model, SOURCE[3:4, :4])
    assert (alone_ids[0] == token_ids[3, : alone_ids.shape[1]]).all()
    assert_close(alone_score, scores[3:4], atol=1e-4)


@pytest.mark.parametrize("rows", [0, 6])
def test_nothing_to_translate(rows):
    token_ids, scores = search(shared_model(), np.zeros((rows, 6), "int32"))
    assert token_ids.shape == (rows, LENGTH) and not token_ids.any()
    assert scores.shape == (rows,) and not scores.any()


def test_a_row_of_padding_is_empty():
    token_ids, scores = search(shared_model())
    assert not token_ids[5].any() and scores[5] == 0
    assert np.isfinite(scores).all()


@pytest.mark.parametrize("kind", [list, np.array, ops.convert_to_tensor])
def test_takes_lists_arrays_and_tensors(kind):
    token_ids, _ = search(shared_model(), kind(SOURCE.tolist()))
    assert token_ids.tolist() == search(shared_model())[0].tolist()


def test_changed_weights_are_seen():
    model = randomize(changing_model(), seed=SEED)
    before = search(model)
    randomize(model, seed=SEED + 1)
    after = search(model)
    assert after[0].tolist() == plain_greedy(model).tolist()
    assert after[0].tolist() != before[0].tolist()


def test_model_can_be_collected_after_a_search():
    model = new_model(num_layers=1)
    search(model)
    reference = weakref.ref(model)
    del model
    gc.collect()
    assert reference() is None


def test_bfloat16_gives_finite_float32_scores_within_the_limits():
    token_ids, scores = search(new_model(num_layers=1, dtype="mixed_bfloat16"))
    assert scores.dtype == "float32" and np.isfinite(scores).all()
    assert (output_lengths(token_ids) <= LIMITS).all()


def test_search_leaves_the_model_as_it_was():
    model = shared_model()
    assert model.encoder.dropout.rate > 0
    before = [to_numpy(variable.value).copy() for variable in model.variables]
    first, second = search(model), search(model)
    assert first[0].tolist() == second[0].tolist()
    for variable, values in zip(model.variables, before):
        assert np.array_equal(to_numpy(variable.value), values)


# Errors


@pytest.mark.parametrize("shape", [(6,), (1, 2, 6), ()])
def test_source_of_other_axes(shape):
    with pytest.raises(ValueError, match=r"\(batch, source\).*Received: shape="):
        greedy_search(shared_model(), np.ones(shape, "int32"))


@pytest.mark.parametrize("rows", [1, 0])
def test_source_of_width_0(rows):
    with pytest.raises(ValueError, match=rf"one column at least.*shape=\({rows}, 0\)"):
        greedy_search(shared_model(), np.ones((rows, 0), "int32"))


@pytest.mark.parametrize("wrong", [12, -1, 2**31 - 1])
def test_source_ids_outside_the_vocabulary(wrong):
    source = SOURCE.copy()
    source[3, 1] = wrong
    with pytest.raises(ValueError, match=f"from 0 to 11.*Received: the id {wrong}"):
        greedy_search(shared_model(), source)


@pytest.mark.parametrize("row", [[0, 5, 6, 2], [0, 0, 0, 2], [5, 0, 6, 2]])
def test_padding_before_a_token_is_refused(row):
    message = rf"`encoder_token_ids` must be padded with 0 at the end.*row 1=\[{row[0]}, "
    source = [[5, 6, 7, 2], row]
    for search in (BeamSearch(), Sampling()):
        with pytest.raises(UserError, match=message):
            search(shared_model(), source)
    with pytest.raises(UserError, match=message):
        replay(BeamSearch(), shared_model(), source)


@pytest.mark.each_backend
def test_sources_that_are_not_integers_are_refused():
    floats = np.array([[5.0, 2.0]], "float32")
    wrong = [
        *([[5, 6, 2], [5, 2]], floats, floats.tolist(), ops.convert_to_tensor(floats)),
        *([["the", "dog"]], [[True, False]], [[2**32 + 5, 2]], None),
    ]
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        wrong.append(tf.ragged.constant([[5, 6, 2], [5, 2]]))
    for source in wrong:
        with pytest.raises(UserError, match="`encoder_token_ids` must be an array of 32-bit int"):
            BeamSearch()(None, source)  # before any model is needed


@pytest.mark.parametrize("is_beam", [True, False])
def test_weights_that_are_no_numbers_give_empty_outputs(is_beam):
    model = randomize(changing_model(), seed=SEED)
    model.decoder.layers[-1].feed_forward_norm.beta.assign(np.full(8, np.nan))
    search = BeamSearch(extra_length=EXTRA_LENGTH)
    if not is_beam:
        search = Sampling(top_p=0.9, extra_length=EXTRA_LENGTH)
    token_ids, scores = (to_numpy(x) for x in search(model, SOURCE))
    assert not token_ids.any() and (scores[:5] == -np.inf).all()
    assert scores[5] == 0  # a row of padding has its empty output


@pytest.mark.parametrize("extra_length", [0, -1, 2.5, None, "5"])
def test_extra_length_out_of_range(extra_length):
    with pytest.raises(
        ValueError, match=f"`extra_length`.*Received: extra_length={extra_length!r}"
    ):
        greedy_search(shared_model(), SOURCE, extra_length)


def test_learned_positions_too_few():
    model = shared_model(position_encoding="learned", max_length=10)
    search(model, extra_length=4)
    with pytest.raises(ValueError, match="max_length=10"):
        search(model, extra_length=5)
