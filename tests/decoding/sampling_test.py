import functools

import numpy as np
import pytest
from keras import ops

from keras_transformer import Sampling
from keras_transformer.decoding.sampling import (
    sampled_candidates,
    sentence_keys,
    uniform_numbers,
)
from keras_transformer.models.transformer import Transformer
from tests.decoding.search_functions import greedy_search, sample
from tests.helpers import assert_close, numpy_logits, randomize, to_numpy

EXTRA_LENGTH = 3
SOURCE = np.array([[5, 3, 8, 2], [4, 2, 0, 0], [9, 10, 2, 0], [0, 0, 0, 0]], "int32")


@functools.cache
def model():
    sizes = {"num_layers": 1, "hidden_dim": 8, "intermediate_dim": 16, "num_heads": 2}
    return randomize(Transformer(vocabulary_size=12, **sizes), seed=10)


def draw(source=SOURCE, **options):
    token_ids, scores = sample(model(), source, extra_length=EXTRA_LENGTH, **options)
    return to_numpy(token_ids), to_numpy(scores)


def softmax(logits):
    exponentials = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


# The draw of one token


PROBABILITIES = np.array([0.1, 0.4, 0.05, 0.25, 0.2])


def draw_tokens(sampling, numbers, banned=()):
    """The tokens that given uniform numbers lead to, and their log-probabilities."""
    numbers = np.asarray(numbers, "float32")[None]
    allowed = np.tile(np.log(PROBABILITIES).astype("float32"), (1, numbers.shape[1], 1))
    allowed[..., list(banned)] = -np.inf
    allowed = ops.convert_to_tensor(allowed)

    def choose(count):
        return allowed, np.arange(len(PROBABILITIES))

    scores, numbers = (ops.convert_to_tensor(x) for x in (np.zeros_like(numbers), numbers))
    candidates = sampled_candidates(choose, scores, sampling, numbers)
    assert to_numpy(candidates.parents).tolist() == [list(range(numbers.shape[1]))]
    return to_numpy(candidates.tokens)[0].tolist(), to_numpy(candidates.scores)[0]


LARGEST = 1 - 2.0**-23


@pytest.mark.parametrize(
    ("sampling", "numbers", "tokens"),
    [
        # Cumulated in the order of the ids: 0.1, 0.5, 0.55, 0.8, 1.
        (Sampling(1.0, None, None), [0, 0.09, 0.11, 0.49, 0.52, 0.7, 0.81, LARGEST],
         [0, 0, 1, 1, 2, 3, 4, 4]),
        # The likeliest three are 1, 3, 4: 0.4, 0.65, 0.85 of 0.85.
        (Sampling(1.0, 3, None), [0, 0.46, 0.48, 0.75, 0.77, LARGEST], [1, 1, 3, 3, 4, 4]),
        # 0.4 + 0.25 reach 0.6: of these, 1 has 8 of 13.
        (Sampling(1.0, None, 0.6), [0, 0.61, 0.62, LARGEST], [1, 1, 3, 3]),
        # The likeliest is always kept.
        (Sampling(1.0, None, 0.01), [0, LARGEST], [1, 1]),
        # Temperature 1/2 squares: 0.01, 0.16, 0.0025, 0.0625, 0.04 of 0.275.
        (Sampling(0.5, None, None), [0.03, 0.04, 0.61, 0.62, 0.63, 0.8, LARGEST],
         [0, 1, 1, 2, 3, 3, 4]),
        # Of what top_k leaves: 1 and 3 have 8 and 5 of 13; 8/13 alone reaches 0.6.
        (Sampling(1.0, 2, 0.6), [0, LARGEST], [1, 1]),
    ],
)  # fmt: skip
def test_a_drawn_token_follows_from_its_random_number(sampling, numbers, tokens):
    drawn, scores = draw_tokens(sampling, numbers)
    assert drawn == tokens
    # The model's own probability, whatever was left out.
    assert_close(scores, np.log(PROBABILITIES[tokens]), atol=1e-5)


def test_banned_token_is_never_drawn():
    drawn, scores = draw_tokens(Sampling(1.0, None, None), np.linspace(0, LARGEST, 99), banned=[1])
    assert sorted(set(drawn)) == [0, 2, 3, 4]
    assert_close(scores, np.log(PROBABILITIES[drawn]), atol=1e-5)


# The random numbers


def numbers_of(source, count, seed, step, sentence_numbers=None):
    source, seed = ops.convert_to_tensor(source), ops.convert_to_tensor([[seed]])
    if sentence_numbers is None:
        sentence_numbers = np.arange(len(source))
    sentence_numbers = ops.convert_to_tensor(np.reshape(sentence_numbers, (-1, 1)), "int32")
    keys = sentence_keys(source, sentence_numbers, seed)
    return to_numpy(uniform_numbers(keys, count, seed, np.int32(step)))


def test_numbers_are_uniform_and_independent():
    generator = np.random.default_rng(0)
    source = generator.integers(3, 100, (300, 6)).astype("int32")
    numbers = [numbers_of(source, 20, seed, step) for seed in (0, 1) for step in range(4)]
    counts = np.histogram(numbers, bins=20, range=(0, 1))[0]
    assert counts.sum() == 8 * 300 * 20
    # 2,400 a bin; five standard deviations.
    assert abs(counts - 2400).max() < 5 * 2400**0.5
    flat = np.reshape(numbers, (8, -1))
    assert abs(np.corrcoef(flat) - np.eye(8)).max() < 5 / flat.shape[1] ** 0.5
    slots = np.moveaxis(numbers, -1, 0).reshape(20, -1)
    assert abs(np.corrcoef(slots) - np.eye(20)).max() < 5 / slots.shape[1] ** 0.5


def test_numbers_of_equal_sentences_are_independent():
    source = np.tile(SOURCE[:1], (300, 1))
    numbers = np.array([numbers_of(source, 20, 0, step) for step in range(4)])
    assert len(np.unique(numbers)) > 0.99 * numbers.size  # 24,000 of 2^23: 34 are equal by chance
    # From one sentence to the next, also where a result of one is as far on as the other's number.
    for distance in range(3):
        pairs = numbers[:, 1:, : 20 - distance], numbers[:, :-1, distance:]
        correlation = np.corrcoef(*(x.ravel() for x in pairs))[0, 1]
        assert abs(correlation) < 5 / pairs[0].size ** 0.5


@pytest.mark.each_backend
def test_numbers_depend_on_the_sentence_and_its_number_alone():
    first = numbers_of(SOURCE, 3, seed=7, step=2)
    wider = np.pad(SOURCE[::-1], ((0, 0), (0, 2)))
    second = numbers_of(wider, 3, seed=7, step=2, sentence_numbers=[3, 2, 1, 0])
    assert first.tolist() == second[::-1].tolist()
    # The order of the words counts.
    swapped = SOURCE[:, [1, 0, 2, 3]]
    third = numbers_of(swapped, 3, seed=7, step=2)
    assert (third[0] != first[0]).all()


# Whole outputs
def test_frequencies_are_the_models_probabilities():
    # One token, of limit 1: 4,000 draws.
    source = np.array([[2]], "int32")
    token_ids, _ = sample(model(), source, num_results=4000, extra_length=1)
    counts = np.bincount(to_numpy(token_ids)[0, :, 0], minlength=12)
    probabilities = softmax(numpy_logits(model(), [2], [1])[0][2:])
    expected = np.concatenate([[0, 0], probabilities]) * 4000
    assert (abs(counts - expected) <= 5 * np.sqrt(expected) + 1e-6).all()
    assert np.count_nonzero(counts) > 3


def test_score_is_the_log_probability():
    token_ids, scores = draw(num_results=20)
    for tokens, score in list(zip(token_ids[0].tolist(), scores[0]))[:5]:
        tokens = [token for token in tokens if token]
        probabilities = softmax(numpy_logits(model(), SOURCE[0].tolist(), [1, *tokens[:-1]]))
        assert score == pytest.approx(
            np.log(probabilities[np.arange(len(tokens)), tokens]).sum(), abs=1e-4
        )


def test_one_candidate_is_greedy_search():
    token_ids, scores = draw(top_k=1)
    expected_ids, expected_scores = greedy_search(model(), SOURCE, EXTRA_LENGTH)
    assert token_ids[:, 0].tolist() == to_numpy(expected_ids).tolist()
    assert_close(scores[:, 0], expected_scores, atol=1e-4)


def test_seed_and_neighbours():
    token_ids, scores = draw(num_results=20)
    search = Sampling(extra_length=EXTRA_LENGTH)
    numbers = np.array([3, 2, 1, 0])
    again_ids, again_scores = map(
        to_numpy, search(model(), SOURCE[::-1], num_results=20, sentence_numbers=numbers)
    )
    assert again_ids[::-1].tolist() == token_ids.tolist()
    assert_close(again_scores[::-1], scores, atol=1e-4)
    other_ids, _ = draw(num_results=20, seed=1)
    assert (other_ids[0] != token_ids[0]).any()


def test_equal_sentences_of_a_call_have_different_samples():
    # 80 rows: some end early, and the rest goes on in a smaller batch or in parts.
    source = np.tile(SOURCE[:1], (80, 1))
    token_ids, _ = draw(source, num_results=2)
    assert len({row.tobytes() for row in token_ids}) > 75
    search = Sampling(extra_length=EXTRA_LENGTH)
    for start in (0, 40):
        part, _ = search(
            model(), source[:40], num_results=2, sentence_numbers=start + np.arange(40)
        )
        assert to_numpy(part).tolist() == token_ids[start : start + 40].tolist()
