"""Which matrices around the stacks are one."""

import numpy as np
import pytest

from keras_transformer.convert.embedding_tables import Tables
from keras_transformer.convert.vocabulary import COPY_BIAS, reserve
from tests.helpers import normal, to_numpy
from tests.small_corpus import new_model

pytestmark = pytest.mark.once

MATRICES = {"a": normal(60, 16), "b": normal(60, 16, seed=1), "c": normal(59, 16, seed=2)}
MATRICES["a again"] = MATRICES["a"].copy()
ORDER = reserve(60, start=9, end=2, unknown=3, pad=0)
OTHER = reserve(60, start=1, end=2, unknown=3, pad=0)
SMALLER = reserve(59, start=2, end=2, unknown=3, pad=0)  # and a copy of the end token


@pytest.mark.parametrize(
    ("names", "source_order", "sizes"),
    [
        (("a", "a", "a"), ORDER, {}),
        (("a again", "a", "a again"), ORDER, {}),
        (("b", "a", "a"), ORDER, {"source_vocabulary_size": 60}),
        (("a", "a", "a"), OTHER, {"source_vocabulary_size": 60}),
        (("c", "a", "b"), SMALLER, {"source_vocabulary_size": 60, "tie_weights": False}),
    ],
)
def test_matrices_that_are_one(names, source_order, sizes):
    tables = Tables.of_names(MATRICES.__getitem__, names, ORDER, source_order)
    none = {"source_vocabulary_size": None, "tie_weights": True, "output_bias": False}
    assert tables.hyperparameters() == {"vocabulary_size": 60, **none, **sizes}
    model = new_model(**tables.hyperparameters())
    tables.assign(model)
    source, target, output = (MATRICES[name] for name in names)
    layer = model.decoder.token_embedding
    np.testing.assert_array_equal(to_numpy(layer.embeddings), target[ORDER.rows])
    embeddings = to_numpy(model.encoder.token_embedding.embeddings)
    np.testing.assert_array_equal(embeddings, source[source_order.rows])
    if not layer.tie_weights:
        reverse = to_numpy(layer.reverse_embeddings)
        np.testing.assert_array_equal(reverse, output[ORDER.rows].T)


def test_the_bias_of_logits():
    bias = normal(59)
    for given, expected in ((None, np.zeros(59)), (bias, bias)):
        tables = Tables.of_names(MATRICES.__getitem__, 3 * ("c",), SMALLER, SMALLER, given)
        model = new_model(**tables.hyperparameters())
        tables.assign(model)
        actual = to_numpy(model.decoder.output_bias.bias)
        is_copy = np.arange(60) == SMALLER.copies
        np.testing.assert_allclose(actual[~is_copy], expected[SMALLER.rows[~is_copy]], rtol=1e-6)
        assert actual[is_copy] == COPY_BIAS


def test_a_matrix_that_is_one_everywhere_is_read_once():
    read = []

    def tensor(name):
        read.append(name)
        return MATRICES[name]

    tables = Tables.of_names(tensor, ("a", "a", "a"), ORDER, ORDER)
    assert read == []
    tables.assign(new_model(**tables.hyperparameters()))
    assert read == ["a"]
