"""`beam_search` against the search in plain Python, the list of all outputs, and hand-made models.

On every backend the same program: under PyTorch, which compiles nothing, a search takes a tenth of
a second. `compiled_search_test.py` holds the compiled ones to it.
"""

import numpy as np
import pytest
from keras import ops

from keras_transformer.decoding import batch_compaction, search_loop
from keras_transformer.decoding.beam_search import BeamSearch
from keras_transformer.decoding.sampling import Sampling
from tests.decoding.comparison import (
    END,
    EVERYTHING,
    FULL,
    LIMITS,
    MARGIN,
    PAD,
    PREFIX,
    SEED,
    SEEDS,
    START,
    VOCABULARY_SIZE,
    assert_equals_reference,
    last_norm,
    model_of,
    narrow_model,
    note_calls,
    output_lengths,
    reference,
    reweight,
    search,
    without_padding,
)
from tests.decoding.reference_search import (
    Hypothesis,
    NumpyTransformer,
    all_outputs,
    brute_force,
    penalty,
    reference_search,
    score,
)
from tests.decoding.sentences import LENGTH, SOURCE
from tests.helpers import assert_close, numpy_logits, randomize, to_numpy

# `test_narrow_beam_equals_reference` shows that the outputs of all seeds are of many kinds; for
# what else a search can be told, some stand for all.
FEW_SEEDS = SEEDS[:3]


# The references themselves


@pytest.mark.parametrize(
    "options",
    [{}, {"normalize_first": True, "key_dim": 3, "value_dim": 5, "use_bias": True}],
    ids=["plain", "pre-norm, free d_k and d_v"],
)
def test_numpy_transformer_equals_the_references_of_the_helpers(options):
    model = randomize(model_of(**options), seed=1)
    targets = [[1, 5, 2, 4], [1, 9, 9, 11]]
    predict = NumpyTransformer(model)
    for source in ([4, 8, 6, 2], [2]):
        log_probabilities, attention = predict(source, targets)
        for row, target in zip(log_probabilities, targets):
            assert_close(np.exp(row).sum(-1), np.ones(4), atol=1e-9)
            shift = numpy_logits(model, source, target) - row
            assert_close(shift, np.repeat(shift[:, :1], VOCABULARY_SIZE, axis=1), atol=1e-9)
        assert attention.shape == (2, 4, 2, 2, len(source))
        assert_close(attention.sum(-1), np.ones((2, 4, 2, 2)), atol=1e-9)


def test_reference_penalties_equal_values_worked_out_by_hand():
    assert penalty(1, 0.6, "gnmt") == penalty(1, 0.6, "power") == 1
    assert penalty(7, 1.0, "gnmt") == 2
    assert penalty(7, 1.0, "power") == 7
    assert penalty(7, 0.0, "gnmt") == penalty(7, 0.0, "power") == 1
    # Two tokens; the last layer's heads cover the first source token with 0.3 + 0.1, the second
    # with 1.7 + 1.9, which counts as 1.
    last_layer = [[[0.2, 0.8], [0.4, 0.6]], [[0.1, 0.9], [0.1, 0.9]]]  # (tokens, heads, source)
    attention = [[np.ones((2, 2)), weights] for weights in last_layer]
    hypothesis = Hypothesis((5, END), -3.0, attention)
    assert_close(score(hypothesis, 1.0, "power"), -1.5)
    assert_close(score(hypothesis, 1.0, "power", 0.5), -1.5 + 0.5 * np.log(0.4))


@pytest.mark.each_backend
@pytest.mark.parametrize("length_penalty", ["gnmt", "power"])
def test_scores_of_the_largest_alpha_are_finite_and_ordered(length_penalty):
    lengths = ops.arange(1, 1001, dtype="int32")
    search = BeamSearch(alpha=10.0, length_penalty=length_penalty)
    scores = to_numpy(search.penalized(ops.full((1000,), -0.01), lengths))
    assert (scores[1:] > scores[:-1]).all() and (scores < 0).all()


def test_the_list_of_all_outputs_is_complete_for_small_lengths():
    assert list(all_outputs(1, 5)) == [(2,), (3,), (4,)]
    assert list(all_outputs(2, 4)) == [(2,), (3, 2), (3, 3)]
    # 1 + 3 that end before the limit of 3, 9 that end at it and 27 that are cut.
    assert len(set(all_outputs(3, 6))) == 40


def test_wide_reference_is_brute_force():
    predict = NumpyTransformer(reweight(small_model(), seed=0))
    options = {"extra_length": 1, "alpha": 0.6, "coverage_penalty": 0.4}
    for source in ([3, 4, 2], [2]):
        expected = brute_force(predict, source, **options)
        results = reference_search(predict, source, 40, num_results=40, **options).results
        assert [each.tokens for each in results] == [each.tokens for each in expected]
        assert_close([each.score for each in results], [each.score for each in expected], atol=1e-9)


def test_stopping_early_loses_nothing():
    options = {"beam_size": 3, "num_results": 2, "coverage_penalty": 0.2}
    saved = 0
    for seed in SEEDS:
        model = narrow_model(seed)
        early = reference(model, **options)
        late = reference(model, stops_early=False, **options)
        for one, other in zip(early, late):
            assert [each.tokens for each in one.results] == [each.tokens for each in other.results]
            saved += len(other.completed) - len(one.completed)
    assert saved > 10  # or the search would never have stopped early


# Brute force: three tokens besides the end, at most 40 outputs, and a beam that prunes none


# With an extra length of 1, the limits are 3, 3, 2 and 1.
WIDE_SOURCE = np.array([[3, 4, 2], [4, 4, 3], [5, 2, 0], [2, 0, 0]], "int32")
WIDE = {
    # The best alone: the search may stop early.
    "gnmt": {"alpha": 0.6, "num_results": 1},
    "power": {"alpha": 1.0, "length_penalty": "power", "num_results": 5},
    # All there are, and for short sentences more than there are: the last results are missing.
    "coverage": {"alpha": 0.0, "coverage_penalty": 0.4, "num_results": 40},
}


def small_model():
    sizes = {"num_layers": 1, "intermediate_dim": 12}
    return model_of(vocabulary_size=6, normalize_first=True, **sizes)


def wide_search(model, kind):
    return search(model, WIDE_SOURCE, extra_length=1, beam_size=40, **WIDE[kind])


@pytest.mark.parametrize("num_models", [10, pytest.param(70, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", WIDE)
def test_wide_beam_finds_the_best_of_all_outputs(kind, num_models):
    scoring = dict(WIDE[kind])
    num_results = scoring.pop("num_results")
    model, best_lengths, num_penalized = small_model(), set(), 0
    first_seed = 1000 * list(WIDE).index(kind)  # 210 models in the three long tests
    for seed in range(first_seed, first_seed + num_models):
        token_ids, scores = wide_search(reweight(model, seed), kind)
        predict = NumpyTransformer(model)
        for row, source in enumerate(WIDE_SOURCE):
            outputs = brute_force(predict, without_padding(source), extra_length=1, **scoring)
            best = outputs[:num_results]
            best_scores = [each.score for each in best]
            missing = [-np.inf] * (num_results - len(best))
            assert_close(scores[row], best_scores + missing, atol=1e-4)
            # Each result is an output of that score: the ranks are right wherever scores differ.
            results = [tuple(without_padding(each)) for each in token_ids[row]]
            exact = {each.tokens: each.score for each in outputs}
            assert_close([exact[each] for each in results[: len(best)]], best_scores, atol=1e-4)
            assert len(set(results[: len(best)])) == len(best)
            assert not any(results[len(best) :])

            best_lengths.add(len(results[0]))
            likeliest = max(outputs, key=lambda each: each.log_probability)
            num_penalized += results[0] != likeliest.tokens
    # The comparison saw outputs of all kinds, and penalties that chose another than the likeliest.
    assert best_lengths == {1, 2, 3}
    assert num_penalized > 10 or num_models < 70  # rare among a few


# Narrow beams


ONE = {"beam_size": 1, "alpha": 0.0}
PAIR = {"beam_size": 2, "num_results": 2}
BEST_OF_PAIR = {"beam_size": 2}
POWER = {"beam_size": 3, "alpha": 1.0, "length_penalty": "power", "num_results": 2}


@pytest.mark.parametrize("options", [ONE, BEST_OF_PAIR, POWER, FULL], ids=str)
def test_narrow_beam_equals_reference(options):
    searches = []
    for seed in SEEDS:
        searches += assert_equals_reference(narrow_model(seed), **options)
    searches = [each for each in searches if each.completed]  # not those of padding alone
    # What was compared is of every kind: winners that end by themselves and such that are cut,
    # both of many lengths;
    winners = [each.results[0] for each in searches]
    ended = {len(each.tokens) for each in winners if each.tokens[-1] == END}
    cut = {len(each.tokens) for each in winners if each.tokens[-1] != END}
    assert len(ended) > 2 and cut == set(LIMITS[:-1])
    # hypotheses of one sentence that are complete after different numbers of tokens;
    lengths = [{len(each.tokens) for each in search.completed} for search in searches]
    assert options is ONE or max(map(len, lengths)) > 2
    # and the first one complete is not always the best.
    late = [each.completed[0].tokens != each.results[0].tokens for each in searches]
    assert any(late) or options is ONE


@pytest.mark.parametrize("options", [ONE, POWER, FULL], ids=str)
def test_a_full_cache_drops_unused_positions(monkeypatch, options):
    # Room for four steps, then for sixteen, then for all twenty-four.
    monkeypatch.setattr(batch_compaction, "_FIRST_STEPS", 4)
    called = note_calls(
        monkeypatch, (search_loop, "without_unused"), (batch_compaction, "with_capacity")
    )
    searches, model = [], model_of.__wrapped__()  # one that has compiled no search yet
    for seed in SEEDS[:3]:
        searches += assert_equals_reference(reweight(model, seed), extra_length=18, **options)
    assert max(len(each.tokens) for search in searches for each in search.results) > 16
    # A beam of one needs all it has.
    assert "with_capacity" in called and ("without_unused" in called) is (options is not ONE)


def test_coverage_chooses_between_the_hypotheses_compared():
    model = narrow_model(SEED)
    with_coverage = reference(model, **FULL)
    without = reference(model, **{**FULL, "coverage_penalty": 0.0})
    assert any(a.results[0].tokens != b.results[0].tokens for a, b in zip(with_coverage, without))


def test_output_is_tokens_then_end_then_padding():
    token_ids, scores = search(narrow_model(SEED), **FULL)
    assert token_ids.dtype == "int32" and token_ids.shape == (6, 4, LENGTH)
    assert scores.dtype == "float32" and scores.shape == (6, 4)
    for results, limit in zip(token_ids.tolist(), LIMITS):
        for result in results:
            tokens = without_padding(result)
            assert result == tokens + [PAD] * (LENGTH - len(tokens))
            assert START not in tokens and END not in tokens[:-1]
            assert len(tokens) == limit or tokens[-1] == END


def test_neighbours_and_padding_change_nothing():
    model = narrow_model(SEED)
    assert all(each.margin > MARGIN for each in reference(model, **FULL))
    token_ids, scores = search(model, **FULL)

    order = [3, 5, 0, 5, 4, 1, 2]
    wider = np.pad(SOURCE[order], ((0, 0), (0, 3)))
    other_ids, other_scores = search(model, wider, **FULL)
    assert other_ids[:, :, :LENGTH].tolist() == token_ids[order].tolist()
    assert not other_ids[:, :, LENGTH:].any()
    assert_close(other_scores, scores[order], atol=1e-4)

    # Alone, and without any padding.
    alone_ids, alone_scores = search(model, SOURCE[3:4, :4], **FULL)
    assert alone_ids.tolist() == token_ids[3:4, :, :8].tolist()
    assert_close(alone_scores, scores[3:4], atol=1e-4)


def test_search_leaves_the_model_as_it_was():
    model = narrow_model(SEED)
    assert model.encoder.dropout.rate > 0
    before = [to_numpy(variable.value).copy() for variable in model.variables]
    first, second = search(model, **FULL), search(model, **FULL)
    for one, other in zip(first, second):
        assert np.array_equal(one, other)
    for variable, values in zip(model.variables, before):
        assert np.array_equal(to_numpy(variable.value), values)


def test_takes_lists_arrays_and_tensors():
    model = narrow_model(SEED)
    results = []
    for kind in (list, np.array, ops.convert_to_tensor):
        source, prefix = kind(SOURCE.tolist()), kind(PREFIX.tolist())
        results.append(search(model, source, prefix_token_ids=prefix, **PAIR)[0].tolist())
    assert results[0] == results[1] == results[2]


# What an output must and must not be


LIMITED = {
    **{"beam_size": 2, "num_results": 2, "min_length": 5, "banned_token_ids": (3, 7)},
    "extra_length": 5,  # room for as many tokens in the third sentence's outputs
}


def test_shortest_length_and_banned_tokens():
    searches = []
    for seed in SEEDS:
        model = narrow_model(seed)
        token_ids, _ = search(model, **LIMITED)
        assert not np.isin(token_ids, LIMITED["banned_token_ids"]).any()
        assert (output_lengths(token_ids)[:5] >= 5).all()
        searches += assert_equals_reference(model, **LIMITED)
    # The end was never banned, only early.
    assert {len(result.tokens) for each in searches for result in each.results} >= {5, 6}

    # Without them the outputs would be others.
    free = [reference(narrow_model(seed), **PAIR) for seed in SEEDS]
    tokens = [result.tokens for rows in free for each in rows for result in each.results]
    assert {3, 7} <= {token for each in tokens for token in each}
    # The first sentence's.
    assert any(len(result.tokens) < 5 for rows in free for result in rows[0].results)


def test_prefix_equals_reference():
    for seed in FEW_SEEDS:
        model = narrow_model(seed)
        token_ids, scores = search(model, prefix_token_ids=PREFIX, **PAIR)
        for results, result_scores, prefix in zip(token_ids, scores, map(without_padding, PREFIX)):
            is_there = np.isfinite(result_scores)
            assert (results[is_there, : len(prefix)] == prefix).all()
        # Where the prefix is all of the output there is one result.
        assert np.isfinite(scores).tolist() == [[True, i not in (2, 3)] for i in range(6)]
        assert_equals_reference(model, prefix_token_ids=PREFIX, **PAIR)


def test_end_in_the_prefix_ends_the_output():
    prefix = np.zeros_like(PREFIX)
    prefix[0], prefix[1, 0] = [9, 2, 7, 7], END
    model = narrow_model(SEED)
    token_ids, scores = search(model, prefix_token_ids=prefix, **PAIR)
    assert [without_padding(row) for row in token_ids[0]] == [[9, 2], []]
    assert [without_padding(row) for row in token_ids[1]] == [[2], []]
    assert np.isfinite(scores[:2]).tolist() == [[True, False]] * 2
    assert_equals_reference(model, prefix_token_ids=prefix, **PAIR)


def test_a_row_of_padding_is_empty_with_any_prefix():
    prefix = PREFIX.copy()
    prefix[5] = [4, 4, 0, 0]
    token_ids, scores = search(narrow_model(SEED), prefix_token_ids=prefix, **PAIR)
    assert not token_ids[5].any() and not scores[5].any()


@pytest.mark.parametrize("width", [0, 4])
def test_empty_prefix_changes_nothing(width):
    prefix = np.zeros((6, width), "int32")
    for seed in FEW_SEEDS:
        model = narrow_model(seed)
        assert_equals_reference(model, prefix_token_ids=prefix, **PAIR)


def test_all_options_together_equal_the_search_in_plain_python():
    for seed in FEW_SEEDS:
        assert_equals_reference(narrow_model(seed), **EVERYTHING)


# Other models, and no sentences


def test_pre_norm_and_free_sizes_equal_reference():
    options = {"normalize_first": True, "key_dim": 3, "value_dim": 5, "use_bias": True}
    for seed in FEW_SEEDS:
        assert_equals_reference(narrow_model(seed, **options), **FULL)


@pytest.mark.parametrize("rows", [0, 6])
def test_nothing_to_translate(rows):
    token_ids, scores = search(narrow_model(SEED), np.zeros((rows, 6), "int32"), **FULL)
    assert token_ids.shape == (rows, 4, LENGTH) and not token_ids.any()
    assert scores.shape == (rows, 4) and not scores.any()


# Models that want what is not allowed, or nothing


def model_that_wants(token, sign=1):
    """A model whose logit of `token` is far above all others, whatever the inputs; or far below."""
    model = randomize(model_of(num_layers=1), seed=10)
    embeddings = to_numpy(model.encoder.token_embedding.embeddings).copy()
    embeddings[token] *= 5  # else a longer one may have the larger product with it
    model.encoder.token_embedding.embeddings.assign(embeddings)
    norm = last_norm(model)
    norm.gamma.assign(0.01 * norm.gamma)
    norm.beta.assign(sign * 5 * embeddings[token])
    return model


def test_outputs_end_at_once_or_at_their_limits_as_the_model_wants():
    token_ids, scores = search(model_that_wants(END), **ONE)
    assert token_ids[:5, 0, 0].tolist() == [END] * 5 and not token_ids[:, :, 1:].any()
    assert (scores[:5] <= 0).all() and (scores[:5] > -0.5).all()
    token_ids, _ = search(model_that_wants(END, sign=-1), **ONE)
    assert not (token_ids == END).any() and output_lengths(token_ids)[:, 0].tolist() == LIMITS


@pytest.mark.parametrize("forbidden", [PAD, START])
def test_padding_and_start_are_never_an_output(forbidden):
    model = model_that_wants(forbidden)
    assert numpy_logits(model, [5, 3, 2], [START])[0].argmax() == forbidden
    token_ids, scores = search(model, **ONE)
    for tokens, count in zip(token_ids[:, 0], output_lengths(token_ids)[:, 0]):
        assert (tokens[:count] > START).all() and not tokens[count:].any()
    # The probability is the model's own: what is forbidden keeps its share.
    assert (scores[:5] < -1).all()


@pytest.mark.parametrize("options", [BeamSearch(), Sampling(top_p=0.9)], ids=["beam", "sampling"])
def test_nan_weights_give_empty_outputs(options):
    model = narrow_model(SEED, num_layers=1)
    last_norm(model).beta.assign(np.full(8, np.nan))
    token_ids, scores = (to_numpy(x) for x in options(model, SOURCE))
    assert not token_ids.any() and (scores[:5] == -np.inf).all()
    assert scores[5] == 0  # a row of padding has its empty output


# By hand: a model whose next token depends on the last one alone, by any table


A, B, C = 3, 4, 5
RARE = 1e-4  # the probability of what a table leaves out
HAND_SOURCE = np.array([[3, 2]], "int32")  # with an extra length of 4, a limit of 5
TWO = {"beam_size": 2, "alpha": 0.0, "num_results": 2}


def table_model(table):
    """A model with P(next | last) = table[last][next]; padding, never an output, has the rest.

    The feed-forward layer looks up the row: it tells the last token by its large embedding, and
    gives a vector so large that nothing else is left after the last norm.
    """
    model, size, dim = small_model(), 6, 8
    for variable in model.weights:
        variable.assign(np.ones(variable.shape) * (variable.name == "gamma"))  # all others are 0
    embeddings = 8 * np.eye(size, dim)
    scale = 20
    rows = np.zeros((size, dim))
    for last, probabilities in table.items():
        row = np.full(size, RARE)
        row[list(probabilities)] = list(probabilities.values())
        row[PAD] = 1 - row[1:].sum()
        rows[last, :size] = np.log(row) / scale
        # Two more numbers make mean 0 and variance 1, so the norm changes nothing: their sum is s
        # and the sum of their squares q.
        s, q = -rows[last].sum(), dim - (rows[last] ** 2).sum()
        rows[last, size:] = s / 2 + np.array([1, -1]) * np.sqrt(q / 2 - s**2 / 4)
    feed_forward = model.decoder.layers[0].feed_forward
    # After the norm the component of the last token is above 2, and the others are below 0: then
    # relu(x - 1) - relu(x - 2) is 1 for it and 0 for the others.
    identity = np.eye(dim, size)
    feed_forward.intermediate_dense.kernel.assign(np.concatenate([identity, identity], axis=1))
    feed_forward.intermediate_dense.bias.assign([-1] * size + [-2] * size)
    feed_forward.output_dense.kernel.assign(1e8 * np.concatenate([rows, -rows]))
    model.encoder.token_embedding.embeddings.assign(embeddings)
    last_norm(model).gamma.assign(np.full(dim, scale / 8))
    return model


def test_table_model_has_the_probabilities_of_its_table():
    table = {START: {A: 0.5, B: 0.4}, A: {END: 0.3, B: 0.25, C: 0.2}, B: {END: 0.9}, C: {C: 0.6}}
    log_probabilities, _ = NumpyTransformer(table_model(table))([3, 2], [[START, A, B, C]])
    expected = [
        [0.1 - 3 * RARE, RARE, RARE, 0.5, 0.4, RARE],
        [0.25 - 2 * RARE + RARE, RARE, 0.3, RARE, 0.25, 0.2],
        [0.1 - 4 * RARE, RARE, 0.9, RARE, RARE, RARE],
        [0.4 - 4 * RARE, RARE, RARE, RARE, RARE, 0.6],
    ]
    assert_close(np.exp(log_probabilities[0]), expected, atol=1e-4)


def assert_finds(model, expected, **options):
    """`expected`: pairs of tokens and their score."""
    token_ids, scores = search(model, HAND_SOURCE, **options)
    assert [without_padding(row) for row in token_ids[0]] == [tokens for tokens, _ in expected]
    assert_close(scores[0], [score for _, score in expected], atol=1e-3)


def test_a_beam_of_two_finds_an_output_that_greedy_misses():
    model = table_model(
        {START: {A: 0.5, B: 0.4}, A: {END: 0.3, B: 0.25, C: 0.2}, B: {END: 0.9}, C: {END: 0.9}}
    )
    # Greedy takes the likelier A.
    greedy = reference(model, HAND_SOURCE, beam_size=1, alpha=0.0)[0].results[0]
    assert greedy.tokens == (A, END)
    expected = [([B, END], np.log(0.4 * 0.9)), ([A, END], np.log(0.5 * 0.3))]
    assert_finds(model, expected, **TWO)


def test_length_penalty_chooses_the_longer():
    # P(END) = 0.5, and P(A B C END) = 0.48 * 0.98^3 = 0.4518.
    model = table_model({START: {END: 0.5, A: 0.48}, A: {B: 0.98}, B: {C: 0.98}, C: {END: 0.98}})
    short, long = np.log(0.5), np.log(0.4518)
    assert_finds(model, [([END], short), ([A, B, C, END], long)], **TWO)
    # The longer is complete last, and overtakes: -0.795 / 1.5^0.6 is more than -0.693.
    expected = [([A, B, C, END], long / 1.5**0.6), ([END], short)]
    assert_finds(model, expected, **{**TWO, "alpha": 0.6})


def test_an_end_outside_the_beam_is_not_complete():
    model = table_model(
        {
            START: {A: 0.4, B: 0.3, END: 0.2},
            A: {END: 0.1, C: 0.05},
            B: {END: 0.1, C: 0.05},
            C: {END: 0.1},
        }
    )
    # Though the end alone, third in the first step, would have had 0.2.
    assert_finds(model, [([A, END], np.log(0.04)), ([B, END], np.log(0.03))], **TWO)


def test_an_end_leaves_its_place_to_the_next_candidate():
    model = table_model(
        {START: {END: 0.5, A: 0.3, B: 0.15}, A: {END: 0.1, C: 0.1}, B: {END: 0.9}, C: {END: 0.1}}
    )
    # B is third in the first step, and lives on because one of the first two ended.
    assert_finds(model, [([END], np.log(0.5)), ([B, END], np.log(0.135))], **TWO)


# Ties


def constant_model(model, logits):
    """Give `model` weights with these logits in every step, to the last bit."""
    randomize(model)
    # Nothing but the offset passes the last norm, and it picks the first column of the embeddings.
    last_norm(model).gamma.assign(np.zeros(8))
    last_norm(model).beta.assign([1] + [0] * 7)
    embeddings = to_numpy(model.encoder.token_embedding.embeddings).copy()
    embeddings[:, 0] = logits
    model.encoder.token_embedding.embeddings.assign(embeddings)
    return model


def test_lower_tokens_come_first_among_equal_candidates():
    # All tokens alike. First step: the end is complete, and of the others the lowest two go on, A
    # and B. Second step: A END is complete. No longer output can win.
    expected = [([END], np.log(1 / 6)), ([A, END], 2 * np.log(1 / 6))]
    assert_finds(constant_model(small_model(), [0] * 6), expected, **TWO)


def test_earlier_ends_come_first_among_equal_hypotheses():
    # A logit less by 64 is a probability less by e^64, so that of B is 1 in float32. All logs are
    # multiples of 64: sums of them are exact, in any order.
    model = constant_model(small_model(), [-128, -128, -64, -64, 0, -64])
    # END, B END, B B END, ... all have -64, the best has 0.
    assert_finds(model, [([B, B, B, B, B], 0), ([END], -64)], **TWO)


def random_logits(size, generator):
    """One token of probability 1, and many alike."""
    logits = -64 * generator.integers(1, 4, size)
    logits[generator.integers(END, size)] = 0
    return logits


def test_ties_equal_reference():
    generator = np.random.default_rng(0)
    models = (constant_model(small_model(), random_logits(6, generator)) for _ in range(20))
    assert_ties_equal_reference(models, **TWO)


def assert_ties_equal_reference(models, **options):
    ties = 0
    for model in models:
        token_ids, scores = search(model, HAND_SOURCE, **options)
        expected = reference(model, HAND_SOURCE, **options)[0]
        assert scores[0].tolist() == [each.score for each in expected.results]
        tokens = [list(each.tokens) for each in expected.results]
        assert [without_padding(row) for row in token_ids[0]] == tokens
        ties += expected.margin == 0
    assert ties > 5


# A vocabulary so large, and with so many divisors, that not all of it need be sorted
LARGE = 240
LARGE_OPTIONS = {"beam_size": 3, "alpha": 0.0, "num_results": 3}


def large_model():
    """With learned positions, as many as are needed: it costs a model less."""
    positions = {"position_encoding": "learned", "max_length": 6}
    return model_of(vocabulary_size=LARGE, num_layers=1, **positions)


def test_large_vocabulary_and_learned_positions_equal_reference():
    for seed in FEW_SEEDS:
        assert_equals_reference(reweight(large_model(), seed), HAND_SOURCE, **LARGE_OPTIONS)


def test_encoder_with_a_window_equals_reference():
    for seed in FEW_SEEDS:
        assert_equals_reference(narrow_model(seed, attention_window=3), **FULL)


def test_ties_in_a_large_vocabulary_equal_reference():
    generator = np.random.default_rng(0)
    models = (constant_model(large_model(), random_logits(LARGE, generator)) for _ in range(10))
    assert_ties_equal_reference(models, **LARGE_OPTIONS)


def test_tokens_of_equal_embeddings_give_equal_results():
    model = reweight(small_model(), seed=5)
    embeddings = to_numpy(model.encoder.token_embedding.embeddings).copy()
    embeddings[4] = embeddings[3]
    model.encoder.token_embedding.embeddings.assign(embeddings)
    token_ids, scores = wide_search(model, "coverage")
    exchange = {PAD: PAD, END: END, 3: 4, 4: 3, 5: 5}
    for results, result_scores in zip(token_ids.tolist(), scores.tolist()):
        score_of = dict(zip(map(tuple, results), result_scores))
        for tokens in score_of:
            twin = tuple(exchange[token] for token in tokens)
            assert score_of[tokens] == pytest.approx(score_of[twin], abs=1e-5)
