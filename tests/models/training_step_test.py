"""Every row of Table 3 trains, at a sixteenth of its widths."""

import keras
import numpy as np
import pytest

from keras_transformer.models.transformer import Transformer
from keras_transformer.models.variants import get_variant, scaled, variants
from keras_transformer.training.losses import LabelSmoothedCrossentropy


@pytest.mark.skipif(keras.backend.backend() != "torch", reason="PyTorch need not compile each row")
@pytest.mark.parametrize("name", variants)
def test_every_variant_takes_a_training_step(name):
    hyperparameters = scaled(get_variant(name), 1 / 16)
    smoothing = hyperparameters.pop("label_smoothing")
    model = Transformer(50, **hyperparameters)
    model.compile("sgd", loss=LabelSmoothedCrossentropy(smoothing))
    token_ids = np.random.default_rng(0).integers(4, 50, (3, 6))
    before = model.get_weights()
    inputs = {"encoder_token_ids": token_ids, "decoder_token_ids": token_ids}
    assert 2 < model.train_on_batch(inputs, token_ids) < 8  # about log(50)
    after = model.get_weights()
    assert all((x != y).any() for x, y in zip(before, after) if x.ndim > 1)
