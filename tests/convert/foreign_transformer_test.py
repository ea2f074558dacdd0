"""Models with the options that only models trained elsewhere have."""

import keras
import numpy as np
import pytest
from keras import ops

import keras_transformer as kt
from keras_transformer.convert import SSRU
from keras_transformer.convert.foreign_layers import (
    ForeignDecoderLayer,
    ForeignEncoderLayer,
    ForeignSinePositionEncoding,
)
from keras_transformer.convert.foreign_transformer import (
    ForeignConfig,
    foreign_values,
    make_transformer,
)
from keras_transformer.models.config import TransformerConfig
from tests.helpers import assert_close, logits_of, normal, randomize, to_numpy
from tests.models import transformer_test as plain

OPTIONS = {
    "source_vocabulary_size": 11,
    "tie_weights": False,
    "output_bias": True,
    "scale_embeddings": False,
    "max_wavelength": 200.5,
    "first_position": 2,
    "final_norm": True,
    "num_decoder_layers": 1,
    "decoder_intermediate_dim": 12,
}
SSRU_OPTIONS = {"decoder_type": "ssru", "zero_start": True, "tied_decoder_layers": (1, 1)}
STEPS = {
    "sublayer_steps": "ndsdan",
    "embedding_steps": "nd",
    "final_steps": "dan",
    "feed_forward_depth": 3,
    "decoder_feed_forward_depth": 1,
}
KEYS = {"normalize_first": True, "normalize_keys": False, "final_norm": False}
KINDS = {"matrices": OPTIONS, "ssru": SSRU_OPTIONS, "steps": STEPS, "keys": KEYS}
SIZES = {"num_layers": 1, "hidden_dim": 16, "intermediate_dim": 32, "num_heads": 2}


@pytest.mark.parametrize(
    "options",
    [
        OPTIONS,
        {**OPTIONS, "normalize_first": True, "final_norm": False},
        {**OPTIONS, "tie_weights": True},
    ],
    ids=["post-norm", "pre-norm", "tied"],
)
def test_logits_follow_the_papers_formulas_with_other_matrices_and_positions(options):
    plain.test_logits_follow_the_papers_formulas(options)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "test",
    [
        plain.test_padding_changes_no_logit_of_a_real_position,
        plain.test_negative_ids_are_padding,
        plain.test_encode_and_decode_equal_the_whole_model,
        plain.test_decoding_step_by_step_equals_all_at_once,
        plain.test_bfloat16_logits_are_close_to_float32_logits,
    ],
)
def test_the_claims_of_plain_models_hold(test, kind):
    if (kind, test.__name__[:13]) == ("steps", "test_bfloat16"):
        pytest.skip("Five more norms and products of bfloat16 add up.")
    test(KINDS[kind])


@pytest.mark.parametrize("kind", KINDS)
def test_factors_of_logits_have_their_product(kind):
    model = plain.model_of(**KINDS[kind])
    sequence, table, _ = model.logit_factors(plain.INPUTS)
    logits = to_numpy(sequence) @ to_numpy(table).T
    assert_close(logits, logits_of(model, plain.INPUTS))


def test_stacks_end_with_a_normalization_if_they_are_told_to():
    for options, expected in (
        ({"normalize_first": True, "final_norm": False}, False),
        ({"final_norm": True}, True),
        ({"final_steps": "dan"}, True),
    ):
        model = plain.model_of(**options)
        found = [x.layer_norm is not None for x in (model.encoder, model.decoder)]
        assert found == [expected] * 2


def test_steps_of_a_sublayer_are_taken_in_their_order():
    x = normal(2, 3, 8)
    layer = ForeignEncoderLayer(16, 2, steps="nsan", dropout=0.0)
    layer.build((None, None, 8))
    randomize(layer)

    def norm(dense, x):
        return to_numpy(dense(ops.convert_to_tensor(x, "float32")))

    def sublayer(name, function, x):
        y = to_numpy(function(norm(getattr(layer, f"{name}_pre_norm"), x)))
        return norm(getattr(layer, f"{name}_norm"), x + y)

    expected = sublayer("self_attention", layer.self_attention, x)
    expected = sublayer("feed_forward", layer.feed_forward, expected)
    assert_close(layer(x), expected)
    layer = ForeignEncoderLayer(16, 2, steps="sa")
    layer.build((None, None, 8))
    assert layer.self_attention_norm is None and layer.feed_forward_norm is None


def test_keys_that_are_not_normalized_are_at_the_first_position():
    layer = ForeignDecoderLayer(16, 2, steps="nsda", normalize_keys=False, dropout=0.0)
    usual = ForeignDecoderLayer(16, 2, steps="nsda", dropout=0.0)
    target, source = normal(2, 4, 8), normal(2, 5, 8, seed=1)
    for each in (layer, usual):
        each.build(target.shape, source.shape)
        randomize(each)
    outputs, expected = to_numpy(layer(target, source)), to_numpy(usual(target, source))
    assert_close(outputs[:, 0], expected[:, 0])
    assert (np.abs(outputs[:, 1:] - expected[:, 1:]).max(-1) > 1e-3).all()


def test_attention_dropout_and_sinusoids_reach_their_layers():
    model = plain.new_model(attention_dropout=0.25, max_wavelength=100, first_position=1)
    assert model.decoder.layers[0].cross_attention.dropout == 0.25
    assert model.encoder.layers[0].self_attention.dropout == 0.25
    x = np.zeros((1, 2, 4), "float32")
    encoded = to_numpy(ForeignSinePositionEncoding(100, 1)(x))[0]
    assert_close(encoded[:, 2], np.sin([0.1, 0.2]))
    assert_close(encoded[:, 0], np.sin([1.0, 2.0]))


def test_the_embedding_of_the_start_token_is_zero_with_zero_start():
    usual, zero = (plain.model_of(**x) for x in ({"final_norm": False}, {"zero_start": True}))
    start, others = np.array([[1, 6, 11]]), np.array([[6, 11, 1]])
    positions = to_numpy(zero.decoder.position_encoding(np.zeros((1, 3, 8), "float32")))
    assert_close(to_numpy(zero.decoder.embed(start))[:, 0], positions[:, 0])
    assert_close(zero.encoder.embed(start), usual.encoder.embed(start))
    assert_close(zero.decoder.embed(others)[:, :2], usual.decoder.embed(others)[:, :2])


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_has_weights_where_plain_layers_have_them(kind, tmp_path):
    import h5py

    model = plain.model_of(**KINDS[kind])
    model.save_weights(tmp_path / "x.weights.h5")
    found = []
    with h5py.File(tmp_path / "x.weights.h5") as file:
        file["layers"].visit(lambda name: found.append(name.partition("/")[0]))
    assert {"transformer_encoder_layer", "transformer_decoder_layer"} <= {*found}
    other = plain.new_model(**KINDS[kind])
    for weight in other.weights:
        weight.assign(np.zeros(weight.shape))
    other.load_weights(tmp_path / "x.weights.h5")
    assert_close(other(plain.INPUTS), model(plain.INPUTS), atol=0)


def test_layers_are_made_again_from_their_configs():
    options = {"steps": "nsdan", "feed_forward_depth": 3, "attention_dropout": 0.1}
    layers = [
        ForeignEncoderLayer(16, 2, **options),
        ForeignDecoderLayer(16, 2, self_attention="ssru", **options),
        ForeignDecoderLayer(16, 2, steps="nsda", normalize_keys=False),
    ]
    for layer in layers:
        copy = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(layer))
        assert type(copy) is type(layer) and copy.get_config() == layer.get_config()
    layers[1].build((None, None, 6), (None, None, 6))
    assert isinstance(layers[1].self_attention, SSRU)
    assert layers[1].self_attention_pre_norm is not None


def test_a_model_with_a_recurrent_decoder_learns_is_quantized_and_saved(tmp_path):
    model = kt.convert.ForeignTransformer(
        20, **SIZES, dropout=0.0, decoder_type="ssru", zero_start=True
    )
    source = np.random.default_rng(1).integers(4, 20, (64, 5))
    target = np.concatenate([np.ones((64, 1), int), source[:, :-1]], axis=1)
    inputs = {"encoder_token_ids": source, "decoder_token_ids": target}
    model.compile(keras.optimizers.Adam(0.01), kt.LabelSmoothedCrossentropy(), jit_compile=False)
    losses = model.fit(inputs, source, epochs=8, verbose=0).history["loss"]
    assert losses[-1] < 0.8 * losses[0]
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    assert type(again) is kt.convert.ForeignTransformer
    assert_close(again(inputs), model(inputs))
    again.quantize("int8")
    logits, exact = to_numpy(again(inputs)), to_numpy(model(inputs))
    assert np.corrcoef(logits.ravel(), exact.ravel())[0, 1] > 0.99
    model.enable_lora(2, ["input", "query"])
    assert any("lora" in weight.path for weight in model.trainable_weights)
    assert ops.shape(kt.BeamSearch(2)(model, source[:3])[0])[:2] == (3, 1)


# Hyperparameters


def test_all_arguments_of_a_transformer_are_arguments_with_the_same_defaults():
    ours, theirs = ForeignConfig.defaults(), TransformerConfig.defaults()
    assert {name: ours[name] for name in theirs} == theirs
    assert len(ours) == len(theirs) + 15
    model = kt.convert.ForeignTransformer.from_variant("tiny", 20, final_norm=True, num_layers=1)
    assert (model.config.hidden_dim, model.config.final_norm) == (128, True)
    assert kt.convert.ForeignTransformer.from_config(model.get_config()).config == model.config


@pytest.mark.once
def test_a_plain_model_is_made_where_no_value_is_foreign():
    arguments = {"vocabulary_size": 20, **SIZES, "final_norm": None, "max_wavelength": 10000}
    assert foreign_values(arguments) == {}
    assert type(make_transformer(**arguments)) is kt.Transformer
    model = make_transformer(**{**arguments, "final_norm": True})
    assert type(model) is kt.convert.ForeignTransformer
    assert foreign_values(model.hyperparameters) == {"final_norm": True}
    config = ForeignConfig.from_config(make_transformer(**arguments).config)
    assert foreign_values(config.to_dict()) == {} and config.steps == "sdan"


@pytest.mark.once
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"decoder_type": "rnn"}, "`decoder_type` must be one of attention, ssru"),
        ({"decoder_type": "ssru", "normalize_keys": False}, "`normalize_keys=False` requires"),
        ({"tied_decoder_layers": [1]}, "one number per layer of the decoder"),
        ({"tied_decoder_layers": [2, 1]}, "one number per layer of the decoder"),
        ({"sublayer_steps": "dan"}, 'letters n, s, d, a, with "s" once'),
        ({"sublayer_steps": "sdan", "normalize_first": True}, "replaces `normalize_first`"),
        ({"final_steps": "n", "final_norm": True}, "`final_steps` replaces `final_norm`"),
        ({"embedding_steps": "x"}, "`embedding_steps` must be a string of the letters d, n"),
        ({"embedding_steps": None}, "`embedding_steps` must be a string.*None"),
        ({"feed_forward_depth": None}, "`feed_forward_depth` must be a positive integer"),
        ({"feed_forward_depth": 0}, "`feed_forward_depth` must be a positive integer"),
        ({"decoder_feed_forward_depth": 1.5}, "must be a positive integer"),
        ({"decoder_intermediate_dim": -1}, "`decoder_intermediate_dim` must be a positive integer"),
        ({"first_position": -1}, "`first_position` must be an integer.*first_position=-1"),
        ({"first_position": 0.5}, "`first_position` must be an integer.*first_position=0.5"),
        ({"max_wavelength": 0}, "`max_wavelength` must be a positive number.*max_wavelength=0"),
        ({"max_wavelength": "x"}, "`max_wavelength` must be a positive number.*max_wavelength='x'"),
        (
            {"position_encoding": "learned", "max_length": 9, "first_position": 2},
            "are options of sinusoids.*first_position=2",
        ),
    ],
)
def test_wrong_values_and_contradictions_are_refused(options, message):
    with pytest.raises(kt.UserError, match=message):
        kt.convert.ForeignTransformer(20, 2, 8, 16, 2, **options)
