"""ONNX files: the encoder, and a step of the decoder, for any runtime of that format."""

from pathlib import Path

import keras
from keras import ops

from keras_transformer.errors import UserError
from keras_transformer.export.exported_folder import exported_folder
from keras_transformer.export.formats import check_layers
from keras_transformer.export.tokenizer_files import TOKENIZER_FILES, check_protos, save_tokenizers
from keras_transformer.layers.padding_mask import padding_mask
from keras_transformer.models.quantization import is_quantized
from keras_transformer.translation.translator import Translator

ENCODER, STEP = "encoder.onnx", "decoder_step.onnx"


def export_onnx(translator: Translator, path: str | Path) -> None:
    """Write `encoder.onnx`, `decoder_step.onnx` and the tokenizer, with Keras's own export.

    ```
    encoder.onnx: encoder_token_ids -> cross_key_I, cross_value_I
    decoder_step.onnx: decoder_token_ids, encoder_token_ids, cross_key_I, cross_value_I,
        past_key_I, past_value_I -> logits, present_key_I, present_value_I
    ```

    Token ids are int32 `(batch, length)`, logits float32 `(batch, length, vocabulary_size)`. Each
    layer I of the decoder has keys `(batch, num_heads, key_dim, tokens)` and values `(batch,
    num_heads, tokens, value_dim)`, in float32. All lengths are free. The step takes one or more new
    tokens after the `past` of zero or more, and returns the `present`, which is the past of the
    next step. The user writes the search: it begins with 1, ends with 2, and pads with 0.

    Args:
        translator: a `Translator`.
        path: the folder to write, completely or not at all.

    Raises:
        UserError: on another backend than TensorFlow (Keras's export from PyTorch fails with free
            lengths, and its export from JAX needs Flax and more), if the package `tf2onnx` is not
            installed, the model is not in float32, or `path` contains other files.
    """
    _check(translator)
    model = translator.model
    with exported_folder(path, "onnx", [ENCODER, STEP, *TOKENIZER_FILES]) as folder:
        folder.mkdir()
        save_tokenizers(translator, folder)
        _write(_EncoderPart(model), folder / ENCODER)
        _write(_StepPart(model), folder / STEP)


def _check(translator):
    if keras.backend.backend() != "tensorflow":
        raise UserError(
            "Exporting ONNX with free lengths needs KERAS_BACKEND=tensorflow, which loads the same "
            f"model folder. Received: KERAS_BACKEND={keras.backend.backend()}"
        )
    try:
        import tf2onnx  # noqa: F401
    except ImportError as error:
        raise UserError(
            "ONNX is written with the package `tf2onnx`, which cannot be imported here "
            f"({error}). Install it: pip install tf2onnx"
        ) from error
    model = translator.model
    if is_quantized(model) or model.dtype_policy.name != "float32":
        raise UserError(
            'The model must be in float32: load it with `dtype="float32"`. Received a model with '
            f"dtype={model.dtype_policy.name!r}"
        )
    if getattr(model.config, "leaf_ids", None) is not None:
        raise UserError(
            "Cannot export deterministic attention to ONNX. Export a SavedModel instead. Received "
            "a model with `leaf_ids`."
        )
    check_layers(model.config, "The export to ONNX")
    check_protos(translator)


class _Part(keras.Model):
    """A part of a Transformer that Keras can export."""

    def __init__(self, model):
        super().__init__(name="transformer")
        self.model = model
        first = model.decoder.layers[0].self_attention
        self.built = True  # the layers are
        self.heads = first.num_heads, first.key_dim, first.value_dim

    def signature(self):
        """The shapes and dtypes of the inputs by name."""
        return {"encoder_token_ids": keras.InputSpec("int32", (None, None))}

    def cache_signature(self, kind):
        heads, key_dim, value_dim = self.heads
        for i in range(len(self.model.decoder.layers)):
            yield f"{kind}_key_{i}", keras.InputSpec("float32", (None, heads, key_dim, None))
            yield f"{kind}_value_{i}", keras.InputSpec("float32", (None, heads, None, value_dim))


class _EncoderPart(_Part):
    """Converts a source to the keys and values that the decoder attends to."""

    def call(self, inputs):
        encoded = self.model.encode(inputs["encoder_token_ids"])
        outputs = {}
        for i, layer in enumerate(self.model.decoder.layers):
            key, value = layer.cross_attention.project(encoded)
            outputs |= {f"cross_key_{i}": key, f"cross_value_{i}": value}
        return outputs


class _StepPart(_Part):
    """Converts new tokens to logits, and appends their keys and values to the past's."""

    def signature(self):
        return {
            **super().signature(),
            "decoder_token_ids": keras.InputSpec("int32", (None, None)),
            **dict(self.cache_signature("cross")),
            **dict(self.cache_signature("past")),
        }

    def call(self, inputs):
        decoder, token_ids = self.model.decoder, inputs["decoder_token_ids"]
        past, new = ops.shape(inputs["past_key_0"])[3], ops.shape(token_ids)[1]
        positions = past + ops.arange(new, dtype="int32")
        is_seen = positions[:, None] >= ops.arange(past + new, dtype="int32")
        x, outputs = decoder.embed(token_ids, positions=positions, training=False), {}
        for i, layer in enumerate(decoder.layers):
            # Concatenated, and not written into a cache of one length, as in our own search:
            # ONNX has no such operation of TensorFlow's, and its lengths are free.
            normal = layer.self_attention_norm(x) if layer.normalize_first else x
            key, value = layer.self_attention.project(normal)
            key = ops.concatenate([inputs[f"past_key_{i}"], key], axis=3)
            value = ops.concatenate([inputs[f"past_value_{i}"], value], axis=2)
            outputs |= {f"present_key_{i}": key, f"present_value_{i}": value}
            cross = inputs[f"cross_key_{i}"], inputs[f"cross_value_{i}"]
            x = layer(
                x,
                encoder_padding_mask=padding_mask(inputs["encoder_token_ids"]),
                cache={"self": (key, value), "cross": cross},
                self_attention_mask=is_seen[None],
                training=False,
            )
        return {"logits": decoder.logits(decoder.finish(x, x)), **outputs}


def _write(part, path):
    signature = {
        name: keras.InputSpec(dtype=spec.dtype, shape=spec.shape, name=name)
        for name, spec in part.signature().items()
    }
    part.export(path, format="onnx", verbose=False, input_signature=[signature])
