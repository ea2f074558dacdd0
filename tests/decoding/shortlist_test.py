"""A search with a shortlist equals the search of a model whose other tokens have no probability."""

import keras
import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer import constraints
from keras_transformer.decoding.beam_trace import replay
from tests.decoding.sentences import EXTRA_LENGTH, SOURCE
from tests.helpers import assert_close, randomize, to_numpy

SIZE = 12
FORCED = 3
SEARCHES = {
    "greedy": kt.BeamSearch.greedy(extra_length=EXTRA_LENGTH),
    "beam": kt.BeamSearch(3, coverage_penalty=0.2, extra_length=EXTRA_LENGTH),
    "sample": kt.Sampling(seed=3, extra_length=EXTRA_LENGTH),
    "top_p": kt.Sampling(seed=3, top_p=0.9, extra_length=EXTRA_LENGTH),
    "top_k": kt.Sampling(seed=3, top_k=3, extra_length=EXTRA_LENGTH),
    "constraints": kt.BeamSearch(
        2,
        extra_length=EXTRA_LENGTH,
        constraints=(
            constraints.NoRepeatedNgrams(1),
            constraints.RepetitionPenalty(1.3),
            constraints.RepetitionPenalty(1.3, applies_to="log_probs"),
            constraints.BannedTokens((4,)),
            constraints.MinLength(2),
        ),
    ),
}
# The candidates of source token i are i and i + 1, after 2 of the reserved ones; 5 is always one.
LISTS = [[], [], [], *([i, i + 1] for i in range(3, SIZE - 1)), [SIZE - 1]]
SHORTLIST = kt.data.Shortlist(
    np.cumsum([0, *map(len, LISTS)]), np.concatenate(LISTS).astype(int), np.array([5])
)


def make_model(**options):
    sizes = {"num_layers": 1, "hidden_dim": 8, "intermediate_dim": 16, "num_heads": 2}
    return randomize(kt.convert.ForeignTransformer(SIZE, output_bias=True, **sizes, **options), 10)


def candidates(source, also=()):
    return {0, 1, 2, 5, *also, *(y for x in source for y in (x, *LISTS[x]))}


def search_alone(search, model, row, also=()):
    """Search with a bias that leaves other tokens no probability."""
    bias = model.decoder.output_bias.bias
    kept = to_numpy(bias)
    others = [i not in candidates(SOURCE[row], also) for i in range(SIZE)]
    bias.assign(np.where(others, -1e9, kept))
    found = search(model, SOURCE[row : row + 1], sentence_numbers=[row])
    bias.assign(kept)
    return [to_numpy(x)[0] for x in found]


@pytest.mark.each_backend
@pytest.mark.parametrize("name", SEARCHES)
def test_only_candidates_of_the_own_source_compete(name):
    model, search = make_model(), SEARCHES[name]
    token_ids, scores = search(model, SOURCE, shortlist=SHORTLIST)
    for row in range(len(SOURCE) - 1):
        expected_ids, expected_scores = search_alone(search, model, row)
        np.testing.assert_array_equal(to_numpy(token_ids)[row], expected_ids)
        assert_close(to_numpy(scores)[row], expected_scores, atol=1e-5)
        assert {*to_numpy(token_ids)[row, 0]} <= candidates(SOURCE[row])
    assert not to_numpy(token_ids)[-1].any()  # a source of padding


@pytest.mark.each_backend
def test_a_shortlist_of_all_tokens_changes_nothing():
    everything = kt.data.Shortlist(np.zeros(SIZE + 1, int), np.zeros(0, int), np.arange(SIZE))
    model = make_model()
    for name in ("beam", "top_p"):
        expected = SEARCHES[name](model, SOURCE)
        found = SEARCHES[name](model, SOURCE, shortlist=everything)
        np.testing.assert_array_equal(to_numpy(found[0]), to_numpy(expected[0]))
        assert_close(found[1], expected[1], atol=1e-5)


def test_forced_tokens_are_candidates():
    model, prefix = make_model(), np.full((len(SOURCE), 1), FORCED, "int32")
    search = kt.BeamSearch(2, extra_length=EXTRA_LENGTH)
    forced = constraints.ForcedPrefix(prefix)
    token_ids, scores = search(model, SOURCE, constraints=forced, shortlist=SHORTLIST)
    assert FORCED not in candidates(SOURCE[3])
    assert (to_numpy(token_ids)[:-1, 0, 0] == FORCED).all()
    one = kt.BeamSearch(
        2, extra_length=EXTRA_LENGTH, constraints=(constraints.ForcedPrefix(prefix[:1]),)
    )
    expected = search_alone(one, model, 3, also=[FORCED])
    assert_close(to_numpy(scores)[3], expected[1], atol=1e-5)


@pytest.mark.parametrize("tie_weights", [True, False])
def test_a_quantized_matrix_gives_nearly_the_same_scores(tie_weights):
    model = make_model(tie_weights=tie_weights)
    model.quantize("int8")
    search = kt.BeamSearch(2, extra_length=EXTRA_LENGTH)
    _, scores = search(model, SOURCE, shortlist=SHORTLIST)
    expected = [search_alone(search, model, row)[1] for row in range(len(SOURCE) - 1)]
    assert_close(to_numpy(scores)[:-1], np.array(expected), atol=0.1)


def test_a_trace_of_the_beam_equals_the_search():
    model, search = make_model(), SEARCHES["beam"]
    history = replay(search, model, SOURCE[:1], shortlist=SHORTLIST)
    token_ids, scores = search(model, SOURCE[:1], shortlist=SHORTLIST)
    assert history.results[0].score == pytest.approx(float(to_numpy(scores)[0, 0]), abs=1e-5)
    assert [*history.results[0].tokens] == [x for x in to_numpy(token_ids)[0, 0] if x]


def test_a_vocabulary_of_its_own_does_not_add_the_source_tokens():
    model = randomize(kt.Transformer(SIZE, 1, 8, 16, 2, source_vocabulary_size=SIZE), seed=1)
    nothing = kt.data.Shortlist(np.zeros(SIZE + 1, int), np.zeros(0, int), np.array([7]))
    search = kt.BeamSearch(2, extra_length=EXTRA_LENGTH)
    token_ids, _ = search(model, SOURCE, shortlist=nothing)
    assert {*to_numpy(token_ids).ravel()} <= {0, 2, 7}


def test_a_shortlist_of_another_vocabulary_is_refused():
    other = kt.data.Shortlist(np.zeros(SIZE, int), np.zeros(0, int), np.array([5]), "lex.bin")
    with pytest.raises(kt.UserError, match="lex.bin and the vocabulary do not match"):
        kt.BeamSearch()(make_model(), SOURCE, shortlist=other)


@pytest.mark.each_backend
def test_a_program_that_is_compiled_around_it():
    """TensorFlow computes the candidates in its graph; JAX has no values to compute them from."""
    model, search = make_model(), SEARCHES["beam"]
    expected = search(model, SOURCE, shortlist=SHORTLIST)
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        program = tf.function(lambda ids: search(model, ids, shortlist=SHORTLIST))
        token_ids, scores = program(SOURCE)
        np.testing.assert_array_equal(to_numpy(token_ids), to_numpy(expected[0]))
        assert_close(scores, expected[1], atol=1e-5)
    if keras.backend.backend() == "jax":
        import jax

        with pytest.raises(kt.UserError, match="outside of `jax.jit`"):
            jax.jit(lambda ids: search(model, ids, shortlist=SHORTLIST))(SOURCE)


def test_from_pairs_finds_translations_and_frequent_tokens():
    # The translation of token i is i + 4; 3 is in every target.
    generator = np.random.default_rng(0)
    sources = [generator.permutation(np.arange(4, 8))[:2] for _ in range(60)]
    targets = [np.append(x + 4, 3) for x in sources]
    shortlist = kt.data.Shortlist.from_pairs(sources, targets, 9, num_frequent=1, num_best=1)
    assert shortlist.frequent.tolist() == [3]
    lists = np.split(shortlist.token_ids, shortlist.offsets[1:-1])
    assert [x.tolist() for x in lists] == [[]] * 4 + [[8], [9], [10], [11]] + [[]]
    assert len(shortlist.offsets) == 10


def test_from_pairs_gives_each_source_its_own_tokens():
    sources, targets = [np.array([4, 5])] * 3, [np.array([7, 7])] * 3
    shortlist = kt.data.Shortlist.from_pairs(sources, targets, 6, 1, 2, same=[(5, 6), (3, 8)])
    lists = np.split(shortlist.token_ids, shortlist.offsets[1:-1])
    assert [x.tolist() for x in lists] == [[], [], [], [8], [7], [6, 7]]
