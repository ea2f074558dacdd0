import re

import keras
import pytest

from keras_transformer.models.transformer import Transformer
from keras_transformer.models.variants import get_variant, variants

pytestmark = pytest.mark.once

# Millions of parameters, Table 3. The paper's column fits one vocabulary size in the rows around
# `base` and another in `big`. Rows A keep the size of `base`, and rows D are `base`.
BASE_VOCABULARY, BIG_VOCABULARY = 41_000, 36_500
PARAMETERS = {
    "base": 65,
    "heads_1": 65,
    "heads_4": 65,
    "heads_16": 65,
    "heads_32": 65,
    "key_dim_16": 58,
    "key_dim_32": 60,
    "layers_2": 36,
    "layers_4": 50,
    "layers_8": 80,
    "hidden_256": 28,
    "hidden_1024": 168,
    "feed_forward_1024": 53,
    "feed_forward_4096": 90,
    "dropout_0.0": 65,
    "big": 213,
}


@pytest.fixture
def without_values():
    """Variables made here have a shape and no values: a large model costs no memory."""
    with keras.StatelessScope(initialize_variables=False):
        yield


@pytest.fixture(scope="module", autouse=True)
def forget_variables_without_values():
    """Otherwise Keras would give them values in the next test that uses a stateless scope."""
    yield
    keras.utils.clear_session()


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters_of_table_3(name, without_values):
    vocabulary_size = BIG_VOCABULARY if name == "big" else BASE_VOCABULARY
    model = Transformer.from_variant(name, vocabulary_size)
    assert model.count_params() / 1e6 == pytest.approx(PARAMETERS[name], rel=0.01)


def test_parameters_of_base_by_hand(without_values):
    attention = 4 * 512 * 512
    feed_forward = 512 * 2048 + 2048 + 2048 * 512 + 512
    norm = 2 * 512
    encoder_layer = attention + feed_forward + 2 * norm
    decoder_layer = 2 * attention + feed_forward + 3 * norm
    expected = 37_000 * 512 + 6 * (encoder_layer + decoder_layer)
    assert Transformer.from_variant("base", 37_000).count_params() == expected


def test_learned_positions_add_one_table_a_stack(without_values):
    sine = Transformer.from_variant("base", 1000).count_params()
    learned = Transformer.from_variant("learned_positions", 1000, max_length=100)
    assert learned.count_params() == sine + 2 * 100 * 512


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("base", {"num_layers": 6, "hidden_dim": 512, "intermediate_dim": 2048, "num_heads": 8}),
        ("base", {"dropout": 0.1, "label_smoothing": 0.1, "position_encoding": "sine"}),
        ("big", {"num_layers": 6, "hidden_dim": 1024, "intermediate_dim": 4096, "num_heads": 16}),
        ("big", {"dropout": 0.3}),
        ("key_dim_16", {"key_dim": 16, "value_dim": 64, "num_heads": 8}),
        ("dropout_0.2", {"dropout": 0.2, "label_smoothing": 0.1}),
        ("label_smoothing_0.2", {"dropout": 0.1, "label_smoothing": 0.2}),
        ("learned_positions", {"position_encoding": "learned"}),
        ("parsing", {"num_layers": 4, "hidden_dim": 1024}),
        ("tiny", {"num_layers": 4, "hidden_dim": 128, "intermediate_dim": 256, "num_heads": 4}),
    ],
)
def test_variants_have_the_hyperparameters_of_table_3(name, expected):
    assert {key: variants[name][key] for key in expected} == expected


def test_variants_cannot_be_changed():
    with pytest.raises(TypeError):
        variants["base"] = {}
    with pytest.raises(TypeError):
        variants["base"]["num_layers"] = 7
    get_variant("base")["num_layers"] = 7
    assert variants["base"]["num_layers"] == 6


@pytest.mark.slow
@pytest.mark.parametrize("name", variants)
def test_every_variant_builds(name, without_values):
    model = Transformer.from_variant(name, 50)
    expected = {key: value for key, value in variants[name].items() if key != "label_smoothing"}
    assert {key: model.get_config()[key] for key in expected} == expected


def test_keyword_arguments_override_a_variant(without_values):
    model = Transformer.from_variant("tiny", 50, num_layers=1, dropout=0.0, normalize_first=True)
    config = model.get_config()
    assert (config["vocabulary_size"], config["hidden_dim"]) == (50, 128)
    assert (config["num_layers"], config["dropout"], config["normalize_first"]) == (1, 0.0, True)
    assert len(model.encoder.layers) == len(model.decoder.layers) == 1


@pytest.mark.parametrize("make", [get_variant, lambda name: Transformer.from_variant(name, 50)])
def test_an_unknown_variant_is_refused_with_a_list(make):
    with pytest.raises(ValueError, match=r"`variant` must be one of base, big, .*variant='huge'"):
        make("huge")


def test_an_override_that_is_not_an_argument_is_refused(without_values):
    with pytest.raises((TypeError, ValueError), match=re.escape("num_layer")):
        Transformer.from_variant("tiny", 50, num_layer=1)
