"""CTranslate2 models: the same weights in the format of its C++ engine."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from keras import ops

from keras_transformer.convert.foreign_transformer import ForeignConfig
from keras_transformer.convert.weight_mapping import to_float32
from keras_transformer.data.shortlist import Shortlist
from keras_transformer.errors import UserError
from keras_transformer.export.exported_folder import (
    TOKENIZER_FILES,
    exported_folder,
    save_tokenizers,
    token_pieces,
    validate_foreign_values,
    validate_tokenizers,
)
from keras_transformer.layers import SinePositionEncoding
from keras_transformer.models.quantization import is_quantized
from keras_transformer.models.transformer import Transformer
from keras_transformer.presets.format import Preset
from keras_transformer.reserved_ids import END_ID, START_ID, UNKNOWN_ID

_FILES = [
    *("model.bin", "config.json", "vmap.txt", *TOKENIZER_FILES),
    *(
        f"{side}_vocabulary.{end}"
        for side in ("shared", "source", "target")
        for end in ("json", "txt")
    ),
]
# Hyperparameters of a `ForeignTransformer`.
_SUPPORTED = (
    *("attention_dropout", "output_bias", "max_wavelength", "first_position", "final_norm"),
    *("decoder_intermediate_dim", "tied_decoder_layers", "zero_start"),
)
# Names of activations, in Keras and in CTranslate2.
_ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "silu": "SWISH"}
_SPACES = frozenset(" \t\r\n")
# Sinusoids have no last position, but CTranslate2 needs a table: its own have another layout.
_SINE_POSITIONS = 2048


def export_ctranslate2(
    preset: Preset,
    path: str | Path,
    quantization: str | None = None,
) -> None:
    """Write a CTranslate2 model folder, with CTranslate2's own specification.

    The folder also gets `tokenizer.spm`, which splits text into the model's tokens, or `source.spm`
    and `target.spm` if each side has its own:

    ```python
    tokenizer = sentencepiece.SentencePieceProcessor("FOLDER/tokenizer.spm")
    translator = ctranslate2.Translator("FOLDER")
    tokens = tokenizer.encode("A dog runs.", out_type=str)
    result = translator.translate_batch([tokens], suppress_sequences=[["<pad>"], ["<s>"]])
    tokenizer.decode(result[0].hypotheses[0])
    ```

    CTranslate2 adds the start and end tokens itself. Our search never returns padding or a start
    token. `suppress_sequences` forbids them in CTranslate2, which matters for a model with little
    training. The tokens of a `source_prefix` must precede each list of tokens, and the tokens of a
    `target_prefix` are passed as `target_prefix`. A source or translation may have up to 2,048
    tokens, or the number of learned positions. A shortlist is written as `vmap.txt`, which
    `translate_batch(..., use_vmap=True)` uses: an output then consists of the candidates of all
    sources in its batch, and may have the unknown token unless `disable_unk=True`.

    Args:
        preset: the `Preset`, on any backend.
        path: the folder to write, completely or not at all.
        quantization: the type in which CTranslate2 stores the weights, such as `"int8"`,
            `"int8_float32"`, `"float16"` or `"bfloat16"`. Defaults to float32.

    Raises:
        UserError: if the package `ctranslate2` is not installed; if CTranslate2 has no such
            `quantization`, lacks the model's activation, or cannot hold a model that is quantized
            or has an `attention_window`; if model and tokenizer have different vocabularies; if
            `path` contains other files.
    """
    _validate_quantization(quantization)
    validate_tokenizers(preset)
    tokenizers = preset.source_tokenizer, preset.tokenizer
    source, target = map(token_pieces, tokenizers)
    with exported_folder(path, "ctranslate2", _FILES) as folder:
        spec = ctranslate2_spec(
            preset.model, target, source, preset.preprocessor.source_end, quantization
        )
        folder.mkdir()
        spec.save(str(folder))
        save_tokenizers(preset, folder)
        if preset.shortlist is not None:
            text = _vocabulary_map(preset.shortlist, source, target)
            (folder / "vmap.txt").write_text(text, "utf-8", newline="\n")


def _vocabulary_map(shortlist: Shortlist, source: Sequence[str], target: Sequence[str]) -> str:
    """Return a shortlist as lines of a source token, a tab, and its candidates.

    The line of the empty token has the candidates of all sources, also those of the end token:
    CTranslate2 adds it later.
    """
    lists = np.split(shortlist.token_ids, shortlist.offsets[1:-1])
    if source == target:
        lists = [[i, *ids] for i, ids in enumerate(lists)]
    lines = [("", [*shortlist.frequent, *lists[END_ID]]), *zip(source, lists)]
    # Spaces separate words: a token with a space cannot be written.
    words = [
        (x, [y for y in map(target.__getitem__, ids) if _SPACES.isdisjoint(y)]) for x, ids in lines
    ]
    return "".join(f"{x}\t{' '.join(y)}\n" for x, y in words if y and _SPACES.isdisjoint(x))


def ctranslate2_spec(
    model: Transformer,
    pieces: Sequence[str],
    source_pieces: Sequence[str] | None = None,
    source_end: bool = True,
    quantization: str | None = None,
) -> Any:
    """Return the `ctranslate2.specs.TransformerSpec` of a model, ready to be saved.

    Args:
        model: a `Transformer`.
        pieces: list of strings, the tokens in the order of their ids.
        source_pieces: the tokens of the source, if it has its own vocabulary.
        source_end: whether sources end with the end token.
        quantization: as for `export_ctranslate2`.

    Returns:
        A `TransformerSpec` that holds copies of the weights.

    Raises:
        UserError: as `export_ctranslate2`.
    """
    source_pieces = source_pieces or pieces
    transformer_spec = _specs().transformer_spec
    config = ForeignConfig.from_config(model.config)
    _validate_model(model, config, pieces, source_pieces)
    spec = transformer_spec.TransformerSpec(
        transformer_spec.TransformerEncoderSpec(**_options(config, model.encoder)),
        transformer_spec.TransformerDecoderSpec(**_options(config, model.decoder)),
    )
    _set_encoder(spec.encoder, model.encoder)
    _set_decoder(spec.decoder, model.decoder, config)
    spec.decoder.start_from_zero_embedding = config.zero_start
    for stack_spec in (spec.encoder, spec.decoder):
        stack_spec.pre_norm = config.normalize_first
        stack_spec.scale_embeddings = config.scale_embeddings
    spec.register_source_vocabulary(source_pieces)
    spec.register_target_vocabulary(pieces)
    spec.config.layer_norm_epsilon = config.layer_norm_epsilon
    spec.config.add_source_eos = source_end
    spec.config.bos_token = spec.config.decoder_start_token = pieces[START_ID]
    spec.config.eos_token = pieces[END_ID]
    spec.config.unk_token = pieces[UNKNOWN_ID]
    spec.validate()
    # Repeated arrays, such as the tied embeddings, are stored once.
    spec.optimize(quantization=quantization)
    return spec


def _specs() -> Any:
    try:
        from ctranslate2 import specs
        from ctranslate2.specs import transformer_spec  # noqa: F401
    except ImportError as error:
        raise UserError(
            "Writing a CTranslate2 model needs the package `ctranslate2`, which cannot be "
            f"imported here ({error}). Install it: pip install ctranslate2"
        ) from error
    return specs


def _validate_quantization(quantization: str | None) -> None:
    accepted = _specs().model_spec.ACCEPTED_MODEL_TYPES
    if quantization is not None and quantization not in accepted:
        raise UserError(
            f"`quantization` must be one of CTranslate2's: {', '.join(accepted)}. "
            f"Received: quantization={quantization!r}"
        )


def _validate_model(
    model: Transformer,
    config: ForeignConfig,
    pieces: Sequence[str],
    source_pieces: Sequence[str],
) -> None:
    source_size = config.source_vocabulary_size or config.vocabulary_size
    for size, tokens in ((config.vocabulary_size, pieces), (source_size, source_pieces)):
        if len(tokens) != size:
            raise UserError(
                "Model and tokenizer must have the same vocabulary. Received: a model of "
                f"{size} tokens, a tokenizer of {len(tokens)}"
            )
    validate_foreign_values(config, "CTranslate2", _SUPPORTED)
    # An activation that is not a string is the user's own function, serialized.
    if config.activation not in list(_ACTIVATIONS):
        raise UserError(
            f"CTranslate2 only supports the activations {', '.join(_ACTIVATIONS)}. "
            f"Received a model with activation={config.activation!r}"
        )
    if config.attention_window is not None:
        raise UserError(
            "CTranslate2 does not support restricted self-attention. Received a model with "
            f"attention_window={config.attention_window}"
        )
    if getattr(model.config, "leaf_ids", None) is not None:
        raise UserError(
            "CTranslate2 does not support deterministic attention. Received a model with "
            "`leaf_ids`."
        )
    if is_quantized(model):
        raise UserError(
            "Cannot export a quantized model to CTranslate2. Export the model in floats with "
            '`quantization="int8"`.'
        )


def _options(config: ForeignConfig, stack: Any) -> dict[str, Any]:
    """Return the arguments of the specification of a stack."""
    activation = _specs().common_spec.Activation[_ACTIVATIONS[str(config.activation)]]
    return {
        "num_layers": len(stack.layers),
        "num_heads": config.num_heads,
        # Only a pre-norm stack is made with a norm at its end: which it is, is set afterwards.
        "pre_norm": stack.layer_norm is not None,
        "activation": activation,
        "head_dim": _head_dim(stack.layers[0].self_attention),
    }


# Weights in the layout of the specification


def _set_encoder(spec: Any, encoder: Any) -> None:
    """Fill a `TransformerEncoderSpec` with the weights of an `Encoder`."""
    _set_embeddings(spec, spec.embeddings[0], encoder)
    for layer_spec, layer in zip(spec.layer, encoder.layers):
        _set_attention(layer_spec.self_attention, layer.self_attention, layer.self_attention_norm)
        _set_feed_forward(layer_spec.ffn, layer)


def _set_decoder(spec: Any, decoder: Any, config: Any) -> None:
    """Fill a `TransformerDecoderSpec` with the weights of a `Decoder`."""
    _set_embeddings(spec, spec.embeddings, decoder)
    spec.projection.weight = spec.embeddings.weight
    if not config.tie_weights:
        spec.projection.weight = to_float32(decoder.token_embedding.reverse_embeddings).T
    if config.output_bias:
        spec.projection.bias = to_float32(decoder.output_bias.bias)
    for layer_spec, layer in zip(spec.layer, decoder.layers):
        _set_attention(layer_spec.self_attention, layer.self_attention, layer.self_attention_norm)
        _set_attention(layer_spec.attention, layer.cross_attention, layer.cross_attention_norm)
        _set_feed_forward(layer_spec.ffn, layer)


def _set_embeddings(spec: Any, embeddings_spec: Any, stack: Any) -> None:
    """Set embeddings, positions, and the norm after the stack, if there is one."""
    embeddings_spec.weight = to_float32(stack.token_embedding.embeddings)
    spec.position_encodings.encodings = _positions(stack)
    if stack.layer_norm is not None:
        _set_norm(spec.layer_norm, stack.layer_norm)


def _positions(stack: Any) -> np.ndarray:
    """Return the table that is added to the embeddings, `(positions, hidden_dim)`."""
    if not isinstance(stack.position_encoding, SinePositionEncoding):
        return to_float32(stack.position_encoding.embeddings)
    # The layer's output for zeros, in float32 independent of the model's dtype.
    config = {**stack.position_encoding.get_config(), "dtype": "float32"}
    sinusoids = type(stack.position_encoding).from_config(config)
    return to_float32(
        sinusoids(ops.zeros((1, _SINE_POSITIONS, stack.token_embedding.output_dim)))[0]
    )


def _set_attention(spec: Any, attention: Any, norm: Any) -> None:
    """Set one attention sub-layer.

    CTranslate2's keys and values have one size. If ours have two, the smaller is padded with zeros,
    which change neither the products of queries and keys nor the output.
    """
    _set_norm(spec.layer_norm, norm)
    spec.queries_scale = np.float32(attention.key_dim**-0.5)
    size = _head_dim(attention)
    query, key, value = (
        _projection(dense, attention.num_heads, size)
        for dense in (attention.query_dense, attention.key_dense, attention.value_dense)
    )
    # Self-attention is one matrix and the output's; cross-attention has the queries' apart.
    fused = [[query, key, value]] if len(spec.linear) == 2 else [[query], [key, value]]
    for linear_spec, parts in zip(spec.linear, fused):
        weights, biases = zip(*parts)
        linear_spec.weight = np.concatenate(weights)
        if attention.use_bias:
            linear_spec.bias = np.concatenate(biases)
    weight, bias = _dense(attention.output_dense)
    # (hidden_dim, num_heads * value_dim)
    spec.linear[-1].weight = _fill_heads(weight, attention.num_heads, size)
    if attention.use_bias:
        spec.linear[-1].bias = bias


def _projection(dense: Any, num_heads: int, size: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Return weight `(num_heads * size, hidden_dim)` and bias of a projection to heads."""
    weight, bias = _dense(dense)
    weight = _fill_heads(weight.T, num_heads, size).T
    return weight, None if bias is None else _fill_heads(bias[None], num_heads, size)[0]


def _fill_heads(x: np.ndarray, num_heads: int, size: int) -> np.ndarray:
    """Pad each head with zeros, from `(rows, num_heads * s)` to `(rows, num_heads * size)`."""
    heads = x.reshape(len(x), num_heads, -1)
    zeros = np.zeros((len(x), num_heads, size - heads.shape[-1]), x.dtype)
    return np.concatenate([heads, zeros], axis=-1).reshape(len(x), num_heads * size)


def _head_dim(attention: Any) -> int:
    """Return the size of a head in CTranslate2, which is the same for keys and values."""
    return max(attention.key_dim, attention.value_dim)


def _set_feed_forward(spec: Any, layer: Any) -> None:
    _set_norm(spec.layer_norm, layer.feed_forward_norm)
    spec.linear_0.weight, spec.linear_0.bias = _dense(layer.feed_forward.intermediate_dense)
    spec.linear_1.weight, spec.linear_1.bias = _dense(layer.feed_forward.output_dense)


def _set_norm(spec: Any, norm: Any) -> None:
    spec.gamma, spec.beta = to_float32(norm.gamma), to_float32(norm.beta)


def _dense(layer: Any) -> tuple[np.ndarray, np.ndarray | None]:
    """Return weight `(outputs, inputs)`, the transpose of Keras's kernel, and bias or None."""
    return to_float32(layer.kernel).T, to_float32(layer.bias) if layer.use_bias else None
