"""Each constraint, and several at once: a wide beam finds all outputs that they leave."""

from dataclasses import dataclass

import keras
import numpy as np
import pytest
from keras import ops

import keras_transformer as kt
from keras_transformer.decoding.constraints import (
    BannedTokens,
    Constraint,
    ForcedPrefix,
    MaxLength,
    MinLength,
    NoRepeatedNgrams,
    NoUnknownToken,
    RepetitionPenalty,
    followers,
    longer,
    mark,
)
from tests.decoding.comparison import model_of, new_model, reweight, without_padding
from tests.decoding.reference_search import NumpyTransformer, all_outputs, brute_force
from tests.decoding.search_functions import beam_search
from tests.helpers import assert_close, to_numpy

START, END, UNKNOWN, A, B = 1, 2, 3, 4, 5
SOURCE = [A, B, END]
EXTRA_LENGTH, LIMIT = 2, 4
WIDE = kt.BeamSearch(beam_size=130, alpha=0.0, extra_length=EXTRA_LENGTH)


def small_model(seed=5):
    sizes = {"num_layers": 1, "intermediate_dim": 12}
    return reweight(model_of(vocabulary_size=6, normalize_first=True, **sizes), seed)


def found(*constraints, source=SOURCE, search=WIDE):
    """Tokens -> score, of all outputs of one sentence."""
    token_ids, scores = search(
        small_model(), np.array([source]), num_results=130, constraints=constraints
    )
    is_there = to_numpy(scores)[0] > -np.inf
    outputs = [tuple(without_padding(row)) for row in to_numpy(token_ids)[0][is_there]]
    assert len(set(outputs)) == len(outputs) or isinstance(search, kt.Sampling)
    return dict(zip(outputs, to_numpy(scores)[0][is_there].tolist()))


def has_no_repeats(size):
    def check(output):
        grams = [output[i : i + size] for i in range(len(output) - size + 1)]
        return len(set(grams)) == len(grams)

    return check


@keras.saving.register_keras_serializable(package="tests")
@dataclass(frozen=True)
class OnlyEvenTokens(Constraint):
    """As a user would write one: it does not say how many tokens it forbids."""

    def allowed(self, log_probs, token_ids, state, progress):
        return ops.where(token_ids % 2 == 0, log_probs, -np.inf)


@keras.saving.register_keras_serializable(package="tests")
@dataclass(frozen=True)
class OnlyOf(Constraint):
    """It names the tokens that it allows at some step."""

    numbers: tuple[int, ...]

    def token_ids(self):
        return np.array(self.numbers, "int32")


CASES = {
    "min length": ([MinLength(3)], lambda output: len(output) >= 3),
    "banned": ([BannedTokens((B, A))], lambda output: not {A, B} & set(output)),
    "no unknown": ([NoUnknownToken()], lambda output: UNKNOWN not in output),
    "no token twice": ([NoRepeatedNgrams(1)], has_no_repeats(1)),
    "no pair twice": ([NoRepeatedNgrams(2)], has_no_repeats(2)),
    "no triple twice": ([NoRepeatedNgrams(3)], has_no_repeats(3)),
    "prefix": ([ForcedPrefix([[B, A, 0]])], lambda output: output[:2] == (B, A)),
    "of the user's": ([OnlyEvenTokens()], lambda output: not {UNKNOWN, B} & set(output)),
    "of two of the user's": (
        [OnlyOf((END, UNKNOWN, B)), OnlyOf((END, A, B))],
        lambda output: not {UNKNOWN, A} & set(output),
    ),
    "together": (
        [ForcedPrefix([[A]]), NoRepeatedNgrams(2), MinLength(3), BannedTokens((UNKNOWN,))],
        lambda output: (
            output[0] == A
            and has_no_repeats(2)(output)
            and len(output) >= 3
            and UNKNOWN not in output
        ),
    ),
    # What is forced is not kept out, and counts.
    "forced and banned": (
        [ForcedPrefix([[B, B]]), BannedTokens((B,)), NoRepeatedNgrams(1)],
        lambda output: (
            output[:2] == (B, B) and B not in output[2:] and has_no_repeats(1)(output[1:])
        ),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_wide_beam_finds_all_allowed_outputs(name):
    constraints, is_allowed = CASES[name]
    predict = NumpyTransformer(small_model())
    every = brute_force(predict, SOURCE, extra_length=EXTRA_LENGTH, alpha=0.0)
    expected = {each.tokens: each.score for each in every if is_allowed(each.tokens)}
    assert 1 < len(expected) < len(every) == len(list(all_outputs(LIMIT, 6)))
    outputs = found(*constraints)
    assert set(outputs) == set(expected)
    # Probabilities are the model's own: what is forbidden keeps its share.
    assert_close([outputs[x] for x in expected], list(expected.values()), atol=1e-4)


@pytest.mark.parametrize("seed", range(4))
def test_a_narrow_beam_finds_the_tokens_that_are_not_banned(seed):
    model = reweight(model_of(vocabulary_size=12, num_layers=1), seed)
    search = kt.BeamSearch(1, extra_length=EXTRA_LENGTH)
    token_ids, scores = search(model, [SOURCE], constraints=BannedTokens(tuple(range(3, 11))))
    assert to_numpy(scores)[0, 0] > -np.inf and set(to_numpy(token_ids)[0, 0]) <= {0, END, 11}


def test_the_end_token_that_max_length_forces_is_not_scored():
    steps, _ = NumpyTransformer(small_model())(SOURCE, [[START]])
    first = steps[0][0]
    expected = {(END,): first[END], **{(x, END): first[x] for x in (UNKNOWN, A, B)}}
    outputs = found(MaxLength(2))
    assert set(outputs) == set(expected)
    assert_close([outputs[x] for x in expected], list(expected.values()), atol=1e-4)


def test_a_prefix_that_is_not_scored():
    predict = NumpyTransformer(small_model())

    def log_probs(*tokens):
        steps, _ = predict(SOURCE, [[START, *tokens[:-1]]])
        return np.array([step[token] for step, token in zip(steps[0], tokens)])

    free = {"is_scored": False}
    for constraints, is_scored in [
        ([ForcedPrefix([[B, A]], **free)], [0, 0, 1, 1]),
        # The first constraint that forces a token decides, the next where it says nothing.
        ([ForcedPrefix([[B]]), ForcedPrefix([[A, A]], **free)], [1, 0, 1, 1]),
        ([ForcedPrefix([[B]], **free), ForcedPrefix([[A, A]])], [0, 1, 1, 1]),
    ]:
        for search in (WIDE, kt.Sampling(extra_length=EXTRA_LENGTH)):
            outputs = found(*constraints, search=search)
            assert len(outputs) > 5 and {tokens[:2] for tokens in outputs} == {(B, A)}
            for tokens, score in outputs.items():
                expected = np.sum(log_probs(*tokens) * is_scored[: len(tokens)])
                assert score == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("options", [{}, {"top_k": 3}, {"top_p": 0.9}])
@pytest.mark.parametrize("name", CASES)
def test_samples_keep_to_the_constraints(name, options):
    constraints, is_allowed = CASES[name]
    outputs = found(*constraints, search=kt.Sampling(extra_length=EXTRA_LENGTH, **options))
    assert outputs and all(map(is_allowed, outputs))


def logits_of(model, source, output):
    """The logits of each step of an output: an array `(steps, vocabulary_size)`."""
    inputs = {"encoder_token_ids": [source], "decoder_token_ids": [[START, *output[:-1]]]}
    return to_numpy(model({name: np.array(ids) for name, ids in inputs.items()})).copy()[0]


def test_a_repetition_penalty_scales_logits_and_scores_their_softmax():
    penalty, output = 1.5, (A, UNKNOWN, A, UNKNOWN)
    logits = logits_of(small_model(), SOURCE, output)
    for step, row in enumerate(logits):
        repeated = list(set(output[:step]))
        row[repeated] *= np.where(row[repeated] > 0, 1 / penalty, penalty)
    assert {*(logits[2:, A] > 0)} == {True, False}  # logits of both signs are scaled
    log_probs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    outputs = found(RepetitionPenalty(penalty))
    assert len(outputs) == len(list(all_outputs(LIMIT, 6)))
    assert outputs[output] == pytest.approx(sum(log_probs[range(4), output]), abs=1e-4)
    drawn = found(RepetitionPenalty(penalty), search=kt.Sampling(extra_length=EXTRA_LENGTH))
    for tokens, score in drawn.items():
        assert score == pytest.approx(outputs[tokens], abs=1e-4)


def test_a_repetition_penalty_scales_log_probabilities():
    predict = NumpyTransformer(small_model())
    log_probs, _ = predict(SOURCE, [[1, A, A, B]])
    steps = [log_probs[0, i, token] for i, token in enumerate((A, A, B, A))]
    outputs = found(RepetitionPenalty(1.5, "log_probs"))
    assert len(outputs) == len(list(all_outputs(LIMIT, 6)))
    expected = steps[0] + 1.5 * steps[1] + steps[2] + 1.5 * steps[3]
    assert outputs[A, A, B, A] == pytest.approx(expected, abs=1e-4)
    assert outputs == pytest.approx(found(RepetitionPenalty(np.float32(1.5), "log_probs")))


def test_a_repetition_penalty_of_one_changes_nothing():
    expected = found()
    for applies_to in ("logits", "log_probs"):
        assert found(RepetitionPenalty(1, applies_to)) == pytest.approx(expected, abs=1e-5)


def test_constraints_of_the_search_and_of_the_call_combine():
    search = kt.BeamSearch(130, 0.0, extra_length=EXTRA_LENGTH, constraints=(MinLength(2),))
    outputs = found(NoUnknownToken(), search=search)
    assert set(outputs) == {
        output for output in all_outputs(LIMIT, 6) if len(output) > 1 and UNKNOWN not in output
    }


def test_a_minimum_length_counts_outputs_alone():
    search, source = kt.BeamSearch(extra_length=EXTRA_LENGTH), [SOURCE, [A, END, 0], [0, 0, 0]]
    token_ids, _ = search(small_model(), source[::2], constraints=MinLength(LIMIT))
    assert [len(without_padding(row)) for row in to_numpy(token_ids)[:, 0]] == [LIMIT, 0]


def test_constraints_that_leave_nothing_give_an_empty_output():
    search = kt.BeamSearch(extra_length=EXTRA_LENGTH)
    constraints = (BannedTokens((UNKNOWN, A, B)), MinLength(2))
    token_ids, scores = search(small_model(), [SOURCE], constraints=constraints)
    assert not to_numpy(token_ids).any() and to_numpy(scores).tolist() == [[-np.inf]]


def test_a_grammar_combines_with_the_others():
    x, y = 8, 9
    model = new_model()
    grammar = kt.parsing.TreeGrammar((4, 5), (6, 7), (x, y)).over(np.array([2]))
    constraints = (grammar, BannedTokens((5, 3)), ForcedPrefix([[4, x]]), MinLength(7))
    token_ids, _ = beam_search(
        reweight(model, 5), [[10, 11, 2]], extra_length=6, constraints=constraints
    )
    (output,) = [without_padding(row) for row in to_numpy(token_ids)[0]]
    assert output[:2] == [4, x] and 5 not in output and len(output) >= 7 and output[-1] == END
    assert output.count(4) == output.count(6) and sum(t in (x, y) for t in output) == 2


# What looks back


def test_longer_history_puts_the_new_token_first():
    history = ops.convert_to_tensor([[[4, 3, 0], [5, 0, 0]]])
    history = longer(history, ops.convert_to_tensor([[0, 0]]), ops.convert_to_tensor([[6, 7]]))
    assert to_numpy(history).tolist() == [[[6, 4, 3], [7, 4, 3]]]
    history = longer(history, ops.convert_to_tensor([[1, 0]]), ops.convert_to_tensor([[9, 8]]))
    assert to_numpy(history).tolist() == [[[9, 7, 4], [8, 6, 4]]]


# The last token first.
HISTORY = [5, 4, 3, 5, 4, 6, 0, 0]


@pytest.mark.parametrize(
    ("tokens", "count", "expected"),
    [
        (HISTORY, 0, {3, 4, 5, 6}),
        (HISTORY, 1, {3}),
        (HISTORY, 2, {3}),
        (HISTORY, 3, set()),
        # No more tokens than `count`, then one more
        ([0, 0, 0, 0], 3, set()),
        ([5, 0, 0, 0], 3, set()),
        ([5, 5, 0, 0], 3, set()),
        ([5, 5, 5, 0], 3, set()),
        ([5, 5, 5, 5], 3, {5}),
    ],
)
def test_followers_are_the_tokens_after_an_earlier_equal_ngram(tokens, count, expected):
    history = ops.convert_to_tensor([[tokens]])
    assert set(to_numpy(followers(history, count)).ravel().tolist()) - {0} == expected


def test_mark_flags_the_given_tokens_in_each_row():
    tokens = ops.convert_to_tensor([[5, 9, 0], [3, 3, 3]])
    marks = to_numpy(mark(tokens, np.array([2, 3, 5, 7])))
    assert marks.tolist() == [[False, False, True, False], [False, True, False, False]]


# Objects
