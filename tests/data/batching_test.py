import os
from pathlib import Path

import keras
import numpy as np
import pytest

from keras_transformer.data.batch_planner import BatchingOptions
from keras_transformer.data.batching import TokenBatches, plan_batches
from keras_transformer.data.corpora import load_parallel_text
from keras_transformer.data.token_store import TokenStore
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.reserved_ids import END_ID, PAD_ID, START_ID
from tests.small_corpus import store_of

pytestmark = pytest.mark.once

COUNT = 300


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    generator = np.random.default_rng(0)
    source = generator.integers(1, 24, COUNT)
    target = np.maximum(source + generator.integers(-3, 6, COUNT), 1)
    source[:2], target[2:4] = 0, 0  # empty sentences
    return store_of(tmp_path_factory.mktemp("data") / "tokens", list(zip(source, target)))


def pairs_in(batch):
    """The numbers of the pairs in a batch."""
    inputs, targets, _ = batch
    largest = np.concatenate([inputs["encoder_token_ids"], targets], axis=1).max(axis=1)
    return (largest[largest > 0] - 4).tolist()


def all_batches(batches):
    return [batches[i] for i in range(len(batches))]


def epoch_pairs(batches, epoch=0):
    return [pairs_in(batches.batch(epoch, i)) for i in range(len(batches))]


BOTH = pytest.mark.parametrize("training", [True, False], ids=["training", "validation"])
SIZES = pytest.mark.parametrize(
    "sizes",
    [
        {"batch_tokens": 256},
        {"batch_tokens": 256, "num_shapes": 1},
        {"batch_tokens": 300, "num_shapes": 4, "rows_multiple": 2},
        {"batch_tokens": 256, "num_shapes": 3, "rows_multiple": 3},
        {"batch_tokens": 100_000, "num_shapes": 3, "rows_multiple": 8},
        {"batch_tokens": 1_000_000, "num_shapes": 1, "rows_multiple": 512},
    ],
    ids=str,
)


@BOTH
def test_sources_without_end_token(store, training):
    batches, others = (
        TokenBatches(store, 256, training=training, source_end=end) for end in (True, False)
    )
    pairs = zip(all_batches(batches), all_batches(others), strict=True)
    for (inputs, *rest), (other_inputs, *other_rest) in pairs:
        sources, other_sources = inputs.pop("encoder_token_ids"), other_inputs["encoder_token_ids"]
        np.testing.assert_array_equal(np.where(sources == END_ID, PAD_ID, sources), other_sources)
        np.testing.assert_array_equal(
            inputs["decoder_token_ids"], other_inputs["decoder_token_ids"]
        )
        for x, y in zip(rest, other_rest, strict=True):
            np.testing.assert_array_equal(x, y)


@BOTH
@SIZES
def test_every_pair_is_in_one_batch_of_an_epoch(store, training, sizes):
    batches = TokenBatches(store, training=training, **sizes)
    for epoch in (0, 1):
        pairs = [pair for batch in epoch_pairs(batches, epoch) for pair in batch]
        assert sorted(pairs) == list(range(COUNT))


@BOTH
@SIZES
def test_few_shapes_within_the_budget(store, training, sizes):
    batches = TokenBatches(store, training=training, **sizes)
    shapes = set()
    for inputs, targets, weights in all_batches(batches):
        source, decoder_input = inputs["encoder_token_ids"], inputs["decoder_token_ids"]
        assert {x.dtype for x in (source, decoder_input, targets)} == {np.dtype("int32")}
        assert weights.dtype == "float32"
        assert decoder_input.shape == targets.shape == weights.shape
        assert len(source) == len(targets)
        assert max(source.size, targets.size) <= sizes["batch_tokens"]
        assert len(source) % sizes.get("rows_multiple", 1) == 0
        shapes.add((source.shape, targets.shape))
    assert len(shapes) <= sizes.get("num_shapes", 12)
    assert len(shapes) == len(batches.shapes)


@BOTH
def test_each_row_holds_a_pair_with_start_and_end_tokens_and_weights(store, training):
    for inputs, targets, weights in all_batches(
        TokenBatches(store, 300, 4, rows_multiple=4, training=training)
    ):
        for source, decoder_input, target, weight in zip(*inputs.values(), targets, weights):
            if not source.any():  # a row of padding
                assert not decoder_input[1:].any() and not target.any() and not weight.any()
                continue
            pair = max(source.max(), target.max()) - 4
            assert_sentence(source, [*store.source[pair], END_ID])
            assert_sentence(target, [*store.target[pair], END_ID])
            assert_sentence(decoder_input, [START_ID, *store.target[pair]])
            assert ((weight > 0) == (target != PAD_ID)).all()


def assert_sentence(row, expected):
    assert row[: len(expected)].tolist() == expected
    assert not row[len(expected) :].any()


def test_training_weights_sum_to_one(store):
    for _, _, weights in all_batches(TokenBatches(store, 300, 4, rows_multiple=4)):
        assert abs(weights.sum(dtype="float64") - 1) < 1e-6
        assert len(np.unique(weights[weights > 0])) == 1


def test_validation_weights_give_the_mean_over_all_tokens(store):
    batches = all_batches(TokenBatches(store, 256, 4, rows_multiple=2, training=False))
    sums = np.zeros(2)
    for _, targets, weights in batches:
        # Some number of each token; what a metric would average.
        sums += (weights * np.sin(targets)).sum(), weights.sum()
    tokens = np.concatenate([[*store.target[i], END_ID] for i in range(COUNT)])
    assert abs(sums[0] / sums[1] - np.sin(tokens).mean()) < 1e-6
    assert abs(sums[1] / len(batches) - 1) < 1e-6


@pytest.mark.parametrize("compile_batches", [0, 5], ids=["all shapes", "few shapes first"])
@pytest.mark.parametrize("accumulate", [5, 7])
def test_batches_that_share_an_update_weigh_their_tokens_alike(store, accumulate, compile_batches):
    options = {"accumulate": accumulate, "compile_batches": compile_batches}
    batches = TokenBatches(store, 300, 4, rows_multiple=4, **options)
    epochs = [batches.plans.first_step(epoch) for epoch in range(1, 6)]
    assert any(step % accumulate for step in epochs)  # some updates have batches of two epochs
    for first in range(0, epochs[-1], accumulate):
        weights = [batches.batch_of_step(first + i)[2] for i in range(accumulate)]
        flat = np.concatenate([w[w > 0] for w in weights])
        assert len(np.unique(flat)) == 1
        assert abs(flat.sum(dtype="float64") - accumulate) < 1e-5


# Shards


@BOTH
@pytest.mark.parametrize("parts", [2, 4])
def test_shards_make_up_the_batches(store, training, parts):
    options = {"num_shapes": 4, "rows_multiple": 4, "training": training, "accumulate": 3}
    whole = TokenBatches(store, 300, **options)
    shards = [TokenBatches(store, 300, **options, shard=(i, parts)) for i in range(parts)]
    for i in range(len(whole)):
        together = keras.tree.map_structure(
            lambda *x: np.concatenate(x), *[shard[i] for shard in shards]
        )
        keras.tree.map_structure(np.testing.assert_array_equal, together, whole[i])
        assert len({shard[i][1].shape for shard in shards}) == 1


def test_a_shard_reads_its_own_rows_alone(store, monkeypatch):
    shards = [TokenBatches(store, 256, rows_multiple=2, shard=(i, 2)) for i in range(2)]
    read = []
    padded = type(store.source).padded
    monkeypatch.setattr(
        type(store.source),
        "padded",
        lambda self, pairs, length: read.append(list(pairs)) or padded(self, pairs, length),
    )
    for shard, part in zip(shards, np.split(shards[0].pairs_of_batch(0, 3)[1], 2)):
        shard.batch(0, 3)
        assert read == [list(part)] * 2  # of the source, and of the target
        read.clear()


def test_rows_that_cannot_be_shared_evenly_are_refused(store):
    with pytest.raises(ValueError, match="`rows_multiple` must be .* of 3.*rows_multiple=4"):
        TokenBatches(store, 256, rows_multiple=4, shard=(0, 3))


# Order


def test_seed_and_epoch_decide_the_batches(store):
    first, same, other_seed = (TokenBatches(store, 256, seed=seed) for seed in (3, 3, 4))
    same.batch(7, 0)  # What was asked before must not matter.
    assert epoch_pairs(first) == epoch_pairs(same)
    assert epoch_pairs(first, 1) == epoch_pairs(same, 1)
    orders = [epoch_pairs(first), epoch_pairs(first, 1), epoch_pairs(other_seed)]
    for a, b in ((0, 1), (0, 2), (1, 2)):
        # Other pairs share a batch, not only the batches come in another order.
        same_batches = {frozenset(x) for x in orders[a]} & {frozenset(x) for x in orders[b]}
        assert len(same_batches) < len(first) / 2


def test_arrays_are_the_same_when_asked_again(store):
    batches = TokenBatches(store, 256)
    for x, y in zip(keras.tree.flatten(batches[2]), keras.tree.flatten(batches[2])):
        np.testing.assert_array_equal(x, y)


def test_batches_are_shuffled_over_the_shapes(store):
    batches = TokenBatches(store, 256)
    lengths = [batches[i][1].shape[1] for i in range(2, len(batches))]
    assert lengths != sorted(lengths) and lengths != sorted(lengths, reverse=True)


def test_validation_batches_never_change(store):
    batches = TokenBatches(store, 256, training=False)
    before = epoch_pairs(batches)
    batches.on_epoch_end()
    assert [pairs_in(batch) for batch in all_batches(batches)] == before
    assert epoch_pairs(TokenBatches(store, 256, training=False, seed=5)) == before


@BOTH
def test_the_largest_batch_is_first_and_the_smallest_second(store, training):
    batches = TokenBatches(store, 256, 5, training=training)
    for epoch in range(4):
        areas = []
        for i in range(len(batches)):
            inputs, targets, _ = batches.batch(epoch, i)
            areas.append(inputs["encoder_token_ids"].shape[1] + targets.shape[1])
        assert areas[0] == max(areas)
        assert areas[1] == min(areas)


def test_on_epoch_end_goes_to_the_next_epoch(store):
    batches = TokenBatches(store, 256)
    expected = epoch_pairs(batches, 1)
    batches.on_epoch_end()
    assert [pairs_in(batch) for batch in all_batches(batches)] == expected


@pytest.mark.parametrize("start_step", [0, 5, 1000])
def test_a_step_is_a_batch_of_an_epoch(store, start_step):
    batches = TokenBatches(store, 256)
    for step in (0, 1, len(batches) - 1, len(batches), 3 * len(batches) + 2):
        epoch, index = divmod(start_step + step, len(batches))
        expected = pairs_in(batches.batch(epoch, index))
        assert pairs_in(batches.batch_of_step(start_step + step)) == expected


def test_epochs_differ_in_length_where_few_shapes_come_first(store):
    batches = TokenBatches(store, 256, compile_batches=5)
    lengths, shares = [], []
    tokens = batches.store.target.lengths.sum() + COUNT
    for epoch in range(8):
        lengths.append(len(batches))
        shares.append(batches.real_token_share())
        pairs = [pair for i in range(len(batches)) for pair in pairs_in(batches[i])]
        assert sorted(pairs) == list(range(COUNT))
        assert epoch <= batches.epochs(sum(lengths) - 1) < epoch + 1 == batches.epochs(sum(lengths))
        assert batches.target_tokens(sum(lengths)) == (epoch + 1) * tokens
        batches.on_epoch_end()
    assert lengths[0] > lengths[-1] and shares[0] < shares[-1]
    last = TokenBatches(store, 256)
    assert len(last.shapes) == len(batches.shapes)
    assert abs(batches.mean_target_tokens - tokens / batches.plans.num_batches_at_last) < 1e-9


def test_recipes_plan_few_shapes_first(store):
    train, val = plan_batches(store, store, BatchingOptions(batch_tokens=256), accumulate=3, seed=2)
    assert train.plans.num_shapes(0) < train.plans.num_shapes(1000) == len(train.shapes)
    assert (train.seed, train.accumulate, train.training) == (2, 3, True)
    assert (val.training, len(val.shapes), val.plans.num_shapes(0)) == (False, 3, 3)
    train, _ = plan_batches(store, store, BatchingOptions(), few_shapes_first=False)
    assert train.plans.num_shapes(0) == len(train.shapes)


# Small and bad corpora


@pytest.mark.parametrize("lengths", [[(3, 5)], [(0, 0)], [(3, 4)] * 7, [(1, 20), (20, 1)]])
@pytest.mark.parametrize("rows_multiple", [1, 4])
def test_each_pair_of_a_tiny_corpus_is_in_one_batch(tmp_path, lengths, rows_multiple):
    batches = TokenBatches(store_of(tmp_path / "tokens", lengths), 84, rows_multiple=rows_multiple)
    rows = 0
    for inputs, targets, weights in all_batches(batches):
        assert len(targets) % rows_multiple == 0
        assert abs(weights.sum() - 1) < 1e-6
        rows += inputs["encoder_token_ids"].any(axis=1).sum()
    assert rows == len(lengths)


def test_share_of_real_tokens(store):
    batches = TokenBatches(store, 256, 4, rows_multiple=2)
    counts = np.zeros(2)
    for inputs, targets, _ in all_batches(batches):
        for x in (inputs["encoder_token_ids"], targets):
            counts += (x != PAD_ID).sum(), x.size
    assert abs(batches.real_token_share() - counts[0] / counts[1]) < 1e-12


def test_a_store_without_pairs_is_refused(tmp_path):
    with pytest.raises(ValueError, match="must contain sentence pairs"):
        TokenBatches(store_of(tmp_path / "tokens", []), 256)


@pytest.mark.parametrize("name", ["batch_tokens", "num_shapes"])
@pytest.mark.parametrize("value", [0, -1, float("nan")])
def test_sizes_are_positive_integers(store, name, value):
    with pytest.raises(ValueError, match=f"`{name}` must be a positive integer.*{name}={value}"):
        TokenBatches(store, **{name: value})


@pytest.mark.parametrize("rows_multiple, least", [(1, 21), (4, 84)])
def test_a_budget_below_the_longest_sentence_is_refused(tmp_path, rows_multiple, least):
    # 20 tokens, and the end token.
    store = store_of(tmp_path / "tokens", [(3, 20), (2, 2)])
    TokenBatches(store, least, rows_multiple=rows_multiple)
    with pytest.raises(ValueError, match=f"at least {least}.*batch_tokens={least - 1}"):
        TokenBatches(store, least - 1, rows_multiple=rows_multiple)


# Real text


@pytest.fixture(scope="module")
def multi30k(tmp_path_factory):
    folder = os.environ.get("KERAS_TRANSFORMER_DATA")
    if not folder:
        pytest.skip("set KERAS_TRANSFORMER_DATA to the folder that holds multi30k/")
    text = load_parallel_text("multi30k.lc.norm.tok", "train", data_dir=Path(folder))
    trained = Tokenizer.train((sentence for pair in text for sentence in pair), 6000)
    return TokenStore.build(tmp_path_factory.mktemp("multi30k") / "tokens", text, trained)


@pytest.mark.slow
def test_nine_tenths_of_the_slots_of_multi30k_are_tokens(multi30k):
    batches = TokenBatches(multi30k, batch_tokens=4096)
    tokens, slots, shapes = 0, 0, set()
    for inputs, targets, _ in all_batches(batches):
        arrays = inputs["encoder_token_ids"], targets
        tokens += sum(int((x != PAD_ID).sum()) for x in arrays)
        slots += sum(x.size for x in arrays)
        shapes.add(tuple(x.shape for x in arrays))
    assert len(shapes) <= 12
    assert tokens / slots >= 0.90
    assert abs(batches.real_token_share() - tokens / slots) < 1e-12


@pytest.mark.slow
def test_few_shapes_of_multi30k_first(multi30k):
    plans = plan_batches(multi30k, multi30k, BatchingOptions())[0].plans
    assert [plans.num_shapes(epoch) for epoch in (0, 1, 10)] == [3, 5, 12]
    # Close to what plans for so few, or for 12 alone, would take.
    for epoch, num_shapes in ((0, 3), (10, 12)):
        best = TokenBatches(multi30k, 2048, num_shapes).plans
        assert plans.num_slots(epoch) <= 1.03 * best.num_slots(0)
