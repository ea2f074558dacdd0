"""LoRA: what it adds, what it trains, and what is saved of it."""

import keras
import numpy as np
import pytest

from keras_transformer.models.losses import LabelSmoothedCrossentropy
from keras_transformer.models.transformer import Transformer
from keras_transformer.weights.weights_file import load_weights, save_weights
from tests.decoding.search_functions import greedy_search
from tests.helpers import assert_close, normal, to_numpy
from tests.models.transformer_test import INPUTS, SOURCE, copy_task, new_model


def adapted_model(rank=2, **options):
    """One whose LoRA weights have been trained, or might have been."""
    model = new_model(num_layers=1)
    model.enable_lora(rank, **options)
    return randomize_lora(model)


def adapted_model_of_two_layers():
    model = new_model(num_layers=2)
    model.enable_lora(2)
    return model


def randomize_lora(model):
    for i, weight in enumerate(model.trainable_weights):
        weight.assign(0.3 * normal(*weight.shape, seed=i))
    return model


def test_enabling_lora_keeps_the_outputs():
    model = new_model(num_layers=1)
    before = to_numpy(model(INPUTS)).copy()
    model.enable_lora(3)
    assert_close(model(INPUTS), before, atol=0)
    # W^Q and W^V of the encoder's attention and of both of the decoder's.
    assert len(model.trainable_weights) == 3 * 2 * 2
    assert {tuple(weight.shape) for weight in model.trainable_weights} == {(8, 3), (3, 8)}


def test_lora_adds_the_product_of_its_matrices():
    model, plain = adapted_model(), new_model(num_layers=1)
    added = 0
    for layer, other in zip(model.dense_layers(), plain.dense_layers()):
        if layer.name in ("query", "value"):
            product = to_numpy(layer.lora_kernel_a) @ to_numpy(layer.lora_kernel_b)
            other.kernel.assign(to_numpy(other.kernel) + product)
            added += 1
    assert added == 6
    assert_close(model(INPUTS), plain(INPUTS))


def test_only_the_named_layers_are_adapted():
    names = ("output", "intermediate")
    model = adapted_model(target_layer_names=names)
    adapted = {layer.name for layer in model.dense_layers() if layer.lora_enabled}
    assert adapted == set(names)
    # Three attentions' W^O, two W_1 and two W_2, of two matrices each.
    assert len(model.trainable_weights) == 2 * (3 + 2 + 2)


@pytest.mark.parametrize(
    "loss", [pytest.param(LabelSmoothedCrossentropy(), marks=pytest.mark.each_backend), "other"]
)
def test_fit_trains_the_matrices_alone(loss):
    if loss == "other":  # of logits
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=0)
    model = new_model(num_layers=1, dropout=0.0)
    model.enable_lora(2)
    frozen = [to_numpy(weight).copy() for weight in model.non_trainable_weights]
    model.compile(keras.optimizers.Adam(0.01), loss)
    x, y = copy_task(32)
    losses = model.fit(x, y, batch_size=16, epochs=4, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
    for weight, before in zip(model.non_trainable_weights, frozen):
        assert_close(weight, before, atol=0)
    assert all(to_numpy(weight).any() for weight in model.trainable_weights)


def test_a_search_sees_the_matrices():
    # TensorFlow has compiled a search of the model without them.
    model = new_model(num_layers=1)
    options = {"extra_length": 1}
    _, before = greedy_search(model, SOURCE, **options)
    model.enable_lora(2)
    _, scores = greedy_search(randomize_lora(model), SOURCE, **options)
    assert np.abs(to_numpy(scores) - to_numpy(before)).max() > 1e-2


# Saving


def test_an_adapted_model_is_saved_plain(tmp_path):
    model = adapted_model()
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    model.save_weights(tmp_path / "model.weights.h5")
    other = Transformer.from_config(model.get_config())
    other.load_weights(tmp_path / "model.weights.h5")
    for copy in (loaded, other):
        assert_close(copy(INPUTS), model(INPUTS))
        assert len(copy.weights) == len(copy.trainable_weights) == len(model.weights) - 12
        assert not any(layer.lora_enabled for layer in copy.dense_layers())
    # So the weights of the model go into one that is being adapted, as its W.
    third = adapted_model(rank=1)
    third.load_weights(tmp_path / "model.weights.h5")
    assert_close(third(INPUTS), model(INPUTS))


@pytest.mark.once
def test_a_loaded_checkpoint_is_adapted(tmp_path):
    plain, path = new_model(num_layers=1), tmp_path / "step-1.weights.h5"
    save_weights(plain, path)
    model = adapted_model()
    load_weights(model, path)
    assert_close(model(INPUTS), plain(INPUTS), atol=0)
    # What is saved of the adapted model is a plain one's file, and is loaded in the same way.
    save_weights(randomize_lora(model), tmp_path / "step-2.weights.h5")
    expected = to_numpy(model(INPUTS)).copy()
    load_weights(model, tmp_path / "step-2.weights.h5")
    assert_close(model(INPUTS), expected)
    with pytest.raises(ValueError, match="Expected 61 tensors. Received: 31 tensors"):
        load_weights(adapted_model_of_two_layers(), path)


@pytest.mark.parametrize("load", [load_weights, Transformer.load_weights])
def test_the_matrices_can_be_trained_after_weights_are_loaded(load, tmp_path):
    path = tmp_path / "step-1.weights.h5"
    save_weights(new_model(num_layers=1), path)
    model = adapted_model()
    load(model, path)
    model.compile(keras.optimizers.SGD(0.1), LabelSmoothedCrossentropy())
    model.train_on_batch(*copy_task(8))
    model.train_on_batch(*copy_task(8))
    # B is zero at first, so A changes from the second step on.
    for layer in model.dense_layers():
        if layer.lora_enabled:
            assert to_numpy(layer.lora_kernel_a).all() and to_numpy(layer.lora_kernel_b).any()


@pytest.mark.parametrize("options", [{}, {"target_layer_names": ["output"]}], ids=str)
def test_lora_weights_are_saved_and_loaded(options, tmp_path):
    model, path = adapted_model(**options), tmp_path / "mine.lora.h5"
    model.save_lora_weights(path)
    other = new_model(num_layers=1)
    other.load_lora_weights(path)
    assert_close(other(INPUTS), model(INPUTS), atol=0)
    for weight in model.trainable_weights:
        weight.assign(np.zeros(weight.shape))
    model.load_lora_weights(path)
    assert_close(other(INPUTS), model(INPUTS), atol=0)


# Errors


@pytest.mark.each_backend
@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="strategies are TensorFlow's")
def test_matrices_are_made_in_the_scope_of_the_model():
    import tensorflow as tf

    strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    with strategy.scope():
        model = new_model(num_layers=1)
    number = len(model.weights)
    with pytest.raises(ValueError, match="in the scope of the model's `tf.distribute` strategy"):
        model.enable_lora(2)
    assert len(model.weights) == number
    with strategy.scope():
        model.enable_lora(2)
    assert len(model.trainable_weights) == 12


@pytest.mark.once
@pytest.mark.parametrize("rank", [0, -1, 1.5, None])
def test_ranks_that_are_not_positive_integers_are_refused(rank):
    with pytest.raises(ValueError, match=f"`rank` must be a positive integer.*rank={rank}"):
        new_model(num_layers=1).enable_lora(rank)


@pytest.mark.once
@pytest.mark.parametrize("names", ["query", ["querry"], ["query", "token_embedding"]], ids=str)
def test_layer_names_that_cannot_be_adapted_are_refused(names):
    with pytest.raises(ValueError, match="intermediate, key, output, query, value.*Received: "):
        new_model(num_layers=1).enable_lora(2, names)


@pytest.mark.slow
@pytest.mark.once
def test_lora_is_refused_twice_and_for_quantized_models():
    model = adapted_model()
    with pytest.raises(ValueError, match="has LoRA already"):
        model.enable_lora(2)
    with pytest.raises(ValueError, match="quantize the loaded model"):
        model.quantize("int8")
    model = new_model(num_layers=1)
    model.quantize("int8")
    with pytest.raises(ValueError, match="Adapt the model in floats"):
        model.enable_lora(2)


@pytest.mark.once
def test_other_files_are_not_lora_weights(tmp_path):
    model, path = adapted_model(), tmp_path / "mine.lora.h5"
    with pytest.raises(ValueError, match=r"must end with \.lora\.h5.*mine\.h5"):
        model.save_lora_weights(tmp_path / "mine.h5")
    with pytest.raises(ValueError, match=r"Call `enable_lora\(rank\)` first"):
        new_model(num_layers=1).save_lora_weights(path)
    assert not path.exists()
    for damaged in (b"", b"other"):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match="mine.lora.h5 is not a file of LoRA weights"):
            model.load_lora_weights(path)
    model.save_weights(tmp_path / "model.weights.h5")
    path.write_bytes((tmp_path / "model.weights.h5").read_bytes())
    with pytest.raises(ValueError, match="mine.lora.h5 is not a file of LoRA weights"):
        model.load_lora_weights(path)


@pytest.mark.once
def test_lora_weights_of_another_model_are_refused(tmp_path):
    path = tmp_path / "mine.lora.h5"
    adapted_model().save_lora_weights(path)
    for other in (new_model(num_layers=2), new_model(num_layers=1, hidden_dim=16)):
        before = len(other.weights)
        with pytest.raises(ValueError, match="do not fit the layers"):
            other.load_lora_weights(path)
        assert len(other.weights) == before
    with pytest.raises(ValueError, match="do not fit the layers"):
        adapted_model(target_layer_names=["key"]).load_lora_weights(path)
    with pytest.raises(ValueError, match="rank 3.*rank 2"):
        adapted_model(rank=3).load_lora_weights(path)
