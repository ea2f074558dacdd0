"""KerasHub's own tests of backbones, tokenizers, preprocessors and tasks, on our classes."""

import keras
import numpy as np
import pytest

from tests.small_corpus import sentence_pairs, tokenizer

pytest.importorskip("tensorflow")
pytest.importorskip("grain")  # which its tests import, and its package needs not
pytest.importorskip("keras_hub")
TestCase = pytest.importorskip("keras_hub.src.tests.test_case").TestCase
hub = pytest.importorskip("keras_transformer.hub")

SIZES = {"num_layers": 1, "hidden_dim": 16, "intermediate_dim": 32, "num_heads": 2, "dropout": 0.0}
PAIRS = sentence_pairs(4, longest=5)
STRINGS = {
    "encoder_text": [source for source, _ in PAIRS],
    "decoder_text": [target for _, target in PAIRS],
}


class KerasHubTest(TestCase):
    def setUp(self):
        self.tokenizer = hub.TransformerTokenizer(tokenizer().proto)
        self.init_kwargs = {
            "tokenizer": self.tokenizer,
            "encoder_sequence_length": 9,
            "decoder_sequence_length": 8,
        }
        self.sizes = {"vocabulary_size": tokenizer().vocabulary_size, **SIZES}
        self.inputs = {
            "encoder_token_ids": np.ones((2, 5), "int32"),
            "decoder_token_ids": np.ones((2, 5), "int32"),
        }

    def test_keras_hubs_backbone_test_passes(self):
        self.run_backbone_test(
            hub.TransformerBackbone,
            self.sizes,
            self.inputs,
            (2, 5, tokenizer().vocabulary_size),
            run_quantization_check=False,  # int8 is the only quantization
        )

    def test_keras_hubs_tokenizer_test_passes(self):
        self.run_preprocessing_layer_test(
            hub.TransformerTokenizer,
            {"proto": tokenizer().proto},
            STRINGS["encoder_text"],
            expected_output=tokenizer().encode(STRINGS["encoder_text"]),
        )

    def test_keras_hubs_preprocessor_test_passes(self):
        self.run_preprocessor_test(
            hub.TransformerSeq2SeqLMPreprocessor,
            self.init_kwargs,
            STRINGS,
            token_id_key="decoder_token_ids",
        )

    @pytest.mark.slow
    def test_keras_hubs_task_test_passes(self):
        options = {
            "backbone": hub.TransformerBackbone(**self.sizes),
            "preprocessor": hub.TransformerSeq2SeqLMPreprocessor(**self.init_kwargs),
        }
        self.run_task_test(
            hub.TransformerSeq2SeqLM,
            options,
            (STRINGS,),
            expected_output_shape=(4, 8, tokenizer().vocabulary_size),
        )

    def test_keras_hubs_saving_test_passes(self):
        self.run_model_saving_test(hub.TransformerBackbone, self.sizes, self.inputs)


# TensorFlow's test of its own session, which is not about our classes.
if keras.backend.backend() != "tensorflow":
    KerasHubTest.test_session = None
