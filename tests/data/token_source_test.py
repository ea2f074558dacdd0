"""Batches whose sentences are segmented in another way in each epoch."""

import keras
import numpy as np
import pytest

from keras_transformer.data.batching import TokenBatches
from keras_transformer.data.token_source import SampledTokens
from keras_transformer.data.token_store import TokenStore
from tests.small_corpus import sentence_pairs, tokenizer

pytestmark = pytest.mark.once

# Each pair once, so that a batch shows which pairs it holds; one side of some is empty. A dict and
# not a set, whose order changes with PYTHONHASHSEED, and the sampled tokens with it.
PAIRS = [*dict.fromkeys(sentence_pairs(120, seed=2)), ("", "the dog"), ("the dog", ""), ("", "")]
SIZES = {"batch_tokens": 250, "num_shapes": 4, "seed": 5}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return TokenStore.build(tmp_path_factory.mktemp("data") / "tokens", PAIRS, tokenizer())


@pytest.fixture(scope="module")
def samplers():
    return (tokenizer().sampler(0.3),) * 2


def epoch(batches, number):
    return [batches.batch(number, i) for i in range(batches.plans.num_batches(number))]


def texts(epoch):
    """The pairs of all rows of an epoch."""
    return [
        pair
        for inputs, target, _ in epoch
        for pair in zip(
            *(tokenizer().decode(x) for x in (inputs["encoder_token_ids"], target)), strict=True
        )
    ]


def ids_to_tokens(epoch):
    """Pair -> the target's token ids in an epoch."""
    rows = [row[row > 0].tolist() for _, target, _ in epoch for row in target]
    return dict(zip(texts(epoch), rows, strict=True))


def assert_same(x, y):
    keras.tree.map_structure(np.testing.assert_array_equal, x, y)


def test_every_pair_is_in_each_epoch_in_other_tokens(store, samplers):
    batches = TokenBatches(store, samplers=samplers, **SIZES)
    plain = TokenBatches(store, **SIZES)
    first, second = epoch(batches, 0), epoch(batches, 1)
    for found in (first, second):
        rows = texts(found)
        padding = len(rows) - len(PAIRS)
        assert sorted(rows) == sorted(PAIRS + [("", "")] * padding)
    tokens, others = ids_to_tokens(first), ids_to_tokens(second)
    assert np.mean([tokens[pair] != others[pair] for pair in PAIRS]) > 0.8
    counts = [sum((x[1] > 0).sum() for x in found) for found in (first, second, epoch(plain, 0))]
    assert min(counts[:2]) > 1.1 * counts[2]
    assert batches.target_tokens(len(batches)) == pytest.approx(np.mean(counts[:2]), rel=0.05)
    assert 0.5 < batches.real_token_share() <= 1


def test_epoch_and_index_alone_decide_a_batch(store, samplers):
    batches = TokenBatches(store, samplers=samplers, accumulate=2, **SIZES)
    steps = [batches.batch_of_step(step) for step in range(20)]
    again = TokenBatches(store, samplers=samplers, accumulate=2, **SIZES)
    for step in (17, 3, 4, 19, 0, 18):
        assert_same(again.batch_of_step(step), steps[step])
    other = TokenBatches(store, samplers=samplers, **{**SIZES, "seed": 6})
    assert texts(epoch(other, 0)) != texts(epoch(batches, 0))


def test_weights_are_of_the_tokens_that_were_drawn(store, samplers):
    batches = TokenBatches(store, samplers=samplers, accumulate=3, **SIZES)
    for update in range(6):
        steps = [batches.batch_of_step(3 * update + i) for i in range(3)]
        weights = np.concatenate([weights[target > 0] for _, target, weights in steps])
        assert len(np.unique(weights)) == 1
        assert weights.sum(dtype="float64") == pytest.approx(3, abs=1e-5)


def test_processes_read_parts_of_the_same_batch(store, samplers):
    options = {**SIZES, "rows_multiple": 2, "samplers": samplers}
    whole = TokenBatches(store, **options)
    parts = [TokenBatches(store, shard=(i, 2), **options) for i in range(2)]
    for index in range(4):
        halves = [part.batch(1, index) for part in parts]
        joined = keras.tree.map_structure(lambda *x: np.concatenate(x), *halves)
        assert_same(joined, whole.batch(1, index))


def test_a_side_without_a_sampler_keeps_its_stored_tokens(store, samplers):
    batches = TokenBatches(store, samplers=(samplers[0], None), **SIZES)
    targets = [row[row > 2].tolist() for batch in epoch(batches, 0) for row in batch[1]]
    stored = [store.target[i].tolist() for i in range(len(store))]
    assert sorted(filter(None, targets)) == sorted(filter(None, stored))
    sources = [batch[0]["encoder_token_ids"] for batch in epoch(batches, 0)]
    assert sum((x > 2).sum() for x in sources) > 1.1 * store.source.lengths.sum()


def test_a_sentence_whose_samples_never_fit_keeps_its_tokens(store):
    """A sampler that says that it makes nothing longer, and makes all things longer."""

    class Longer:
        mean_lengths, length_variances = np.ones(60), np.zeros(60)

        def __call__(self, sequences, seed):
            return [[*ids, *ids] for ids in sequences]

    batches = TokenBatches(store, samplers=(Longer(), Longer()), **{**SIZES, "num_shapes": 1})
    rows = [row[row > 2].tolist() for batch in epoch(batches, 0) for row in batch[1]]
    length = batches.shapes[0][1]
    stored = [store.target[i].tolist() for i in range(len(store))]
    expected = [ids * 2 if 2 * len(ids) < length else ids for ids in stored]
    assert sorted(filter(None, rows)) == sorted(filter(None, expected))


def test_sums_of_a_value_of_tokens(store, monkeypatch):
    monkeypatch.setattr("keras_transformer.data.token_store._CHUNK", 7)
    values = np.arange(60.0)
    expected = [values[store.source[i]].sum() for i in range(len(store))]
    assert store.source.sums(values).tolist() == expected


def test_planned_lengths_are_the_mean_and_half_a_deviation(store, samplers):
    tokens = SampledTokens(store, (samplers[0], None), seed=1)
    sampler, ids = samplers[0], store.source[0]
    mean, variance = (x[ids].sum() for x in (sampler.mean_lengths, sampler.length_variances))
    assert tokens.lengths[0][0] == np.ceil(mean + np.sqrt(variance) / 2) + 1
    assert tokens.lengths[1].tolist() == (store.target.lengths + 1).tolist()
