"""Mappings between our weights and other libraries'."""

import numpy as np
import pytest
from keras import ops

from keras_transformer.convert.weight_mapping import (
    assign,
    assign_embeddings,
    foreign_layout,
    halves_to_interleaved,
    stack_mappings,
)
from keras_transformer.layers import SinePositionEncoding
from tests.helpers import assert_close, normal, to_numpy
from tests.small_corpus import new_model

pytestmark = pytest.mark.once

OPTIONS = {"num_layers": 2, "num_decoder_layers": 1, "use_bias": True, "final_norm": True}


def test_permutation_makes_halves_of_sinusoids():
    hidden_dim, positions = 6, 11
    angles = np.arange(positions)[:, None] / 10000 ** (np.arange(0, hidden_dim, 2) / hidden_dim)
    halves = np.concatenate([np.sin(angles), np.cos(angles)], axis=-1)
    ours = SinePositionEncoding()(ops.zeros((1, positions, hidden_dim)))[0]
    assert_close(ours, halves[:, halves_to_interleaved(hidden_dim)])


def test_every_weight_of_the_stacks_has_one_mapping():
    model = new_model(**OPTIONS)
    places = stack_mappings(model)
    names = [place.name for place in places]
    assert len(names) == len({*names})
    embedding = model.token_embedding.embeddings
    expected = {weight.path for weight in model.weights} - {embedding.path}
    assert {place.variable.path for place in places} == expected
    assert "decoder.layers.0.encoder_attn.out_proj.bias" in names
    assert "encoder.layer_norm.weight" in names
    assert not any("layers.1" in name for name in names if name.startswith("decoder"))


def test_foreign_layout_inverts_assign():
    model, order = new_model(**OPTIONS), np.random.default_rng(0).permutation(16)
    before = [to_numpy(weight).copy() for weight in model.weights]
    places = stack_mappings(model)
    there = {place.name: foreign_layout(place, order) for place in places}
    assert there["encoder.layers.0.fc1.weight"].shape == (32, 16)
    for weight in model.weights[1:]:
        weight.assign(np.zeros(weight.shape))
    assign(places, there.get, order)
    for weight, values in zip(model.weights, before):
        np.testing.assert_array_equal(to_numpy(weight), values)


def test_weights_of_another_shape_are_refused():
    places = stack_mappings(new_model())
    with pytest.raises(ValueError, match=r"'encoder.layers.0.self_attn.q_proj.weight' do"):
        assign(places, lambda name: np.zeros((3, 5)))
    embeddings = new_model().token_embedding.embeddings
    for shape in ((60, 12), (59, 16), (61, 16), (60,)):
        with pytest.raises(ValueError, match="'embeddings' do not match"):
            assign_embeddings(embeddings, np.zeros(shape), np.arange(60))


def test_embeddings_are_reordered():
    model = new_model(tie_weights=False)
    order = halves_to_interleaved(16)
    # Three rows are used twice.
    rows = np.append(np.random.default_rng(0).permutation(57), [5, 5, 9])
    table, layer = normal(57, 16), model.decoder.token_embedding
    assign_embeddings(layer.embeddings, table, rows, order)
    assign_embeddings(layer.reverse_embeddings, table, rows, order, transposed=True)
    for values in (to_numpy(layer.embeddings), to_numpy(layer.reverse_embeddings).T):
        np.testing.assert_array_equal(values, table[rows][:, order])
