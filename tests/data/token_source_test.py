"""Other segmentations of the same sentences, and batches of them in each epoch."""

import functools
import itertools
import json
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import keras
import numpy as np
import pytest

from keras_transformer.data.batching import TokenBatches
from keras_transformer.data.synthetic import generate
from keras_transformer.data.token_source import SampledTokens, SubwordSampler
from keras_transformer.data.token_store import TokenStore
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.errors import UserError
from keras_transformer.parsing.parser_tokens import WordTokenizer
from keras_transformer.reserved_ids import UNKNOWN_ID
from tests.helpers import MODULES_ALONE
from tests.parsing import small_trees
from tests.small_corpus import sentence_pairs
from tests.small_corpus import tokenizer as small_tokenizer

pytestmark = pytest.mark.once

SENTENCES = [sentence for pair in sentence_pairs(60) for sentence in pair]


@functools.cache
def tokenizer(kind):
    sentences = [sentence for pair in sentence_pairs(200) for sentence in pair]
    size = {"bpe": 60, "unigram": 48}[kind]
    return Tokenizer.train(sentences, size, kind, user_defined_symbols=["<2de>"])


@functools.cache
def english(kind):
    return Tokenizer.train([example.english for example in generate("train", 200)], 200, kind)


BOTH = pytest.mark.parametrize("kind", ["bpe", "unigram"])


def of_bpe_dropout(symbols, scores, probability):
    """The probability of each outcome of algorithm 1, by trying all that may be left out."""
    pairs = [(scores.get(x + y), -i) for i, (x, y) in enumerate(itertools.pairwise(symbols))]
    merges = sorted(((*pair,) for pair in pairs if pair[0] is not None), reverse=True)
    outcomes = Counter()
    for number in range(len(merges) + 1):  # of those left out before the first that is not
        if number == len(merges):
            outcomes[symbols] += probability**number
            continue
        i = -merges[number][1]
        merged = (*symbols[:i], symbols[i] + symbols[i + 1], *symbols[i + 2 :])
        for outcome, share in of_bpe_dropout(merged, scores, probability).items():
            outcomes[outcome] += probability**number * (1 - probability) * share
    return outcomes


def assert_probable(drawn, expected):
    """That 4,000 draws have about the expected shares."""
    counts = Counter(map(tuple, drawn))
    assert {*counts} <= {*expected} and sum(expected.values()) == pytest.approx(1)
    for outcome, share in expected.items():
        assert counts[outcome] / 4000 == pytest.approx(share, abs=4 * np.sqrt(share / 4000) + 1e-3)


@pytest.mark.parametrize("probability", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("word", ["tree", "others", "thethe"])
def test_byte_pairs_are_merged_as_in_the_paper(word, probability):
    processor = english("bpe")._processor
    scores = {processor.id_to_piece(i): processor.get_score(i) for i in range(4, 200)}
    outcomes = of_bpe_dropout(("▁", *word), scores, probability)
    expected = {tuple(map(processor.piece_to_id, x)): share for x, share in outcomes.items()}
    assert probability == 1 or len(expected) > 3
    ids = english("bpe").encode([word])
    assert_probable(english("bpe").sampler(probability)(ids * 4000, seed=1), expected)


def test_without_skipped_merges_tokens_equal_sentencepiece_s():
    """Its order of merges, of the leftmost first where two are the same."""
    sentences = [example.english for example in generate("val", 100)]
    ids = english("bpe").encode([*sentences, "ththth", "aaaa", "eeeeee sssss", "thethethe"])
    for strength in (1e-9, 1e-300, 5e-324):
        assert english("bpe").sampler(strength)(ids, seed=1) == ids


@pytest.mark.parametrize("alpha", [0.2, 1.0])
def test_unigram_segmentations_have_their_probabilities(alpha):
    """p(x)^alpha / Z over all segmentations, as found by trying all of them."""
    vocabulary = english("unigram")
    processor = vocabulary._processor
    text, scores = "▁bed", {}
    for cuts in itertools.product([False, True], repeat=len(text) - 1):
        pieces = [""]
        for letter, cut in zip(text, [False, *cuts]):
            pieces = [*pieces, letter] if cut else [*pieces[:-1], pieces[-1] + letter]
        ids = tuple(map(processor.piece_to_id, pieces))
        if UNKNOWN_ID not in ids:
            scores[ids] = sum(map(processor.get_score, ids))
    weights = {ids: np.exp(alpha * score) for ids, score in scores.items()}
    assert len(weights) == 3
    total = sum(weights.values())
    expected = {ids: weight / total for ids, weight in weights.items()}
    assert_probable(vocabulary.sampler(alpha)(vocabulary.encode(["bed"]) * 4000, 1), expected)


@BOTH
def test_the_sentences_stay_the_same(kind):
    vocabulary = tokenizer(kind)
    ids = vocabulary.encode([*SENTENCES, "", "the 中 dog ½ house中"])
    drawn = vocabulary.sampler(0.3)(ids, seed=5)
    assert vocabulary.decode(drawn) == vocabulary.decode(ids)
    assert drawn[-2] == [] and drawn[-1].count(UNKNOWN_ID) == ids[-1].count(UNKNOWN_ID) > 1
    assert sum(map(len, drawn)) > 1.1 * sum(map(len, ids))


@BOTH
def test_user_defined_symbols_are_never_split(kind):
    vocabulary = tokenizer(kind)
    (tag,) = vocabulary.tokens_to_ids(["<2de>"])
    ids = vocabulary.encode(["<2de> the dog runs <2de> house"] * 200)
    sampler = vocabulary.sampler({"bpe": 1.0, "unigram": 0.05}[kind])
    assert all(tokens.count(tag) == 2 for tokens in sampler(ids, 1))


def test_sampling_keeps_byte_tokens():
    sentences = [sentence for pair in sentence_pairs(200) for sentence in pair]
    vocabulary = Tokenizer.train(sentences, 320, byte_fallback=True)
    ids = vocabulary.encode(["the 中🙂 dog", "🙂"])
    drawn = vocabulary.sampler(1.0)(ids, seed=1)
    assert drawn[1] == ids[1] and len(ids[1]) > 4
    assert vocabulary.decode(drawn) == ["the 中🙂 dog", "🙂"]


def test_each_word_keeps_the_one_token_that_begins_it():
    words = WordTokenizer(small_trees.tokenizer())
    sentences = [[*tree.leaves(), "\u200b", "中文"] for tree in small_trees.trees()[:40]]
    ids = words.encode_words(sentences)
    drawn = words.sampler(0.5)(ids, seed=2)
    assert drawn != ids
    for sentence, tokens in zip(sentences, drawn):
        starts = words.starts_word[tokens]
        assert starts[0] and starts.sum() == len(sentence)
        parts = np.split(tokens, np.flatnonzero(starts)[1:])
        for word, part in zip(sentence[:-2], parts):
            assert words.tokenizer.decode([part]) == [word]


@BOTH
def test_the_seed_alone_decides(kind):
    sampler = tokenizer(kind).sampler(0.3)
    ids = tokenizer(kind).encode(SENTENCES)
    first, other = sampler(ids, 7), sampler(ids, 8)
    assert first != other
    tokenizer(kind).encode(SENTENCES * 50)
    with ThreadPoolExecutor(4) as threads:
        assert [*threads.map(lambda _: sampler(ids, 7), range(4))] == [first] * 4
    assert tokenizer(kind).sampler(0.3)(ids, 7) == first


def test_another_process_draws_the_same(tmp_path):
    """As a training does that goes on."""
    vocabularies = [tokenizer(kind) for kind in ("bpe", "unigram")]
    ids = [vocabulary.encode(SENTENCES) for vocabulary in vocabularies]
    drawn = [x.sampler(0.3)(y, 7) for x, y in zip(vocabularies, ids)]
    (tmp_path / "ids").write_text(json.dumps(ids))
    for index, vocabulary in enumerate(vocabularies):
        vocabulary.save(tmp_path / str(index))
    code = MODULES_ALONE + (
        "import json, pathlib; from keras_transformer.data.token_source import SubwordSampler\n"
        "folder = pathlib.Path(sys.argv[1])\n"
        "ids = json.loads((folder / 'ids').read_text())\n"
        "protos = [(folder / str(i)).read_bytes() for i in (0, 1)]\n"
        "print(json.dumps([SubwordSampler(x, 0.3)(y, 7) for x, y in zip(protos, ids)]))"
    )
    process = [sys.executable, "-c", code, tmp_path]
    assert json.loads(subprocess.run(process, capture_output=True, check=True).stdout) == drawn


@BOTH
def test_mean_lengths_predict_the_number_of_tokens(kind):
    sampler = tokenizer(kind).sampler(0.2)
    ids = tokenizer(kind).encode(SENTENCES)
    drawn = np.mean([sum(map(len, sampler(ids, seed))) for seed in range(10)])
    foretold = sum(sampler.mean_lengths[sentence].sum() for sentence in ids)
    assert foretold == pytest.approx(drawn, rel=0.1)
    assert (sampler.mean_lengths >= 1).all() and sampler.mean_lengths[UNKNOWN_ID] == 1


@pytest.mark.parametrize("strength", [-0.1, 0, 1.5, float("nan")])
def test_strength_out_of_range(strength):
    with pytest.raises(UserError, match="`subword_sampling` must be"):
        SubwordSampler(tokenizer("bpe").proto, strength)


def test_a_vocabulary_of_characters_cannot_be_sampled():
    vocabulary = Tokenizer.train(SENTENCES, 30, "char")
    with pytest.raises(UserError, match="bpe or unigram"):
        vocabulary.sampler(0.1)


# Batches

# Each pair once, so that a batch shows which pairs it holds; one side of some is empty. A dict and
# not a set, whose order changes with PYTHONHASHSEED, and the sampled tokens with it.
PAIRS = [*dict.fromkeys(sentence_pairs(120, seed=2)), ("", "the dog"), ("the dog", ""), ("", "")]
SIZES = {"batch_tokens": 250, "num_shapes": 4, "seed": 5}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return TokenStore.build(tmp_path_factory.mktemp("data") / "tokens", PAIRS, small_tokenizer())


@pytest.fixture(scope="module")
def samplers():
    return (small_tokenizer().sampler(0.3),) * 2


def epoch(batches, number):
    return [batches.batch(number, i) for i in range(batches.plans.num_batches(number))]


def texts(epoch):
    """The pairs of all rows of an epoch."""
    return [
        pair
        for inputs, target, _ in epoch
        for pair in zip(
            *(small_tokenizer().decode(x) for x in (inputs["encoder_token_ids"], target)),
            strict=True,
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
