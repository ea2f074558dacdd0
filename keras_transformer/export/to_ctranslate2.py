"""CTranslate2 models: the same weights in the format of its C++ engine."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from keras_transformer.errors import UserError
from keras_transformer.export.ctranslate2_weights import head_dim, set_decoder, set_encoder
from keras_transformer.export.exported_folder import exported_folder
from keras_transformer.export.formats import check_layers
from keras_transformer.export.tokenizer_files import (
    TOKENIZER_FILES,
    check_protos,
    pieces_of,
    save_tokenizers,
    words_of,
)
from keras_transformer.models.quantization import is_quantized
from keras_transformer.models.transformer import Transformer
from keras_transformer.reserved_ids import END_ID, START_ID, UNKNOWN_ID
from keras_transformer.translation.translator import Translator

_FILES = [
    *("model.bin", "config.json", "vmap.txt", *TOKENIZER_FILES),
    *(
        f"{side}_vocabulary.{end}"
        for side in ("shared", "source", "target")
        for end in ("json", "txt")
    ),
]
# Names of activations, in Keras and in CTranslate2.
_ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "silu": "SWISH"}


def export_ctranslate2(
    translator: Translator,
    path: str | Path,
    quantization: str | None = None,
    vmap: str | Path | None = None,
    force: bool = True,
) -> None:
    """Write a CTranslate2 model folder, with `ctranslate2.converters.Converter`.

    The folder also gets `tokenizer.spm`, which splits text into the model's tokens, or `source.spm`
    and `target.spm` if each side has its own:

    ```python
    tokenizer = sentencepiece.SentencePieceProcessor("FOLDER/tokenizer.spm")
    translator = ctranslate2.Translator("FOLDER")
    tokens = tokenizer.encode("A dog runs.", out_type=str)
    result = translator.translate_batch([tokens], suppress_sequences=[["<pad>"], ["<s>"]])
    tokenizer.decode(result[0].hypotheses[0])
    ```

    If the tokens are words between spaces, as in a model that `kt.convert.ctranslate2` read without
    a SentencePiece model, they keep their original spelling, and the folder has no such file:
    `tokens = text.split()`.

    CTranslate2 adds the start and end tokens itself. Our search never returns padding or a start
    token. `suppress_sequences` forbids them in CTranslate2, which matters for a model with little
    training. The tokens of a `source_prefix` must precede each list of tokens, and the tokens of a
    `target_prefix` are passed as `target_prefix`. A source or translation may have up to 2,048
    tokens, or the number of learned positions.

    Args:
        translator: a `Translator`, on any backend.
        path: the folder to write, completely or not at all.
        quantization: the type in which CTranslate2 stores the weights, such as `"int8"`,
            `"int8_float32"`, `"float16"` or `"bfloat16"`. Defaults to float32.
        vmap: path of a vocabulary map, a file with which CTranslate2 can compute the logits of only
            the likely tokens of a sentence. It is copied into the folder.
        force: whether to replace an existing folder.

    Raises:
        UserError: if the package `ctranslate2` is not installed; if CTranslate2 has no such
            `quantization`, lacks the model's activation, or cannot hold a model that is quantized
            or has an `attention_window`; if model and tokenizer have different vocabularies; if the
            file `vmap` does not exist; if `path` exists and `force` is false, or it contains other
            files.
    """
    # Before any computation.
    _check_options(path, quantization, vmap, force)
    check_protos(translator)
    converter = ctranslate2_converter(translator)
    with exported_folder(path, "ctranslate2", _FILES) as folder:
        converter.convert(
            str(folder), vmap=None if vmap is None else str(vmap), quantization=quantization
        )
        if _words(translator) is None:
            save_tokenizers(translator, folder)


def ctranslate2_converter(translator: Translator) -> Any:
    """Return the `ctranslate2.converters.Converter` of a translator.

    Args:
        translator: a `Translator`.

    Raises:
        UserError: if the package `ctranslate2` is not installed.
    """
    _specs()
    from ctranslate2.converters import Converter

    class TranslatorConverter(Converter):
        def _load(self):
            source, target = _words(translator) or map(pieces_of, _tokenizers(translator))
            return _new_spec(translator.model, target, source, translator.preprocessor.source_end)

    return TranslatorConverter()


def _tokenizers(translator):
    return translator.source_tokenizer, translator.tokenizer


def _words(translator):
    """Return both sides' tokens if they are words between spaces, or None."""
    words = [words_of(tokenizer) for tokenizer in _tokenizers(translator)]
    return None if None in words else words


def ctranslate2_spec(
    model: Transformer, pieces: Sequence[str], source_pieces: Sequence[str] | None = None
) -> Any:
    """Return the `ctranslate2.specs.TransformerSpec` of a model, ready to be saved.

    Args:
        model: a `Transformer`.
        pieces: list of strings, the tokens in the order of their ids.
        source_pieces: the tokens of the source, if it has its own vocabulary.

    Returns:
        A `TransformerSpec` that holds copies of the weights.

    Raises:
        UserError: as `export_ctranslate2`.
    """
    spec = _new_spec(model, pieces, source_pieces or pieces)
    spec.validate()
    spec.optimize()  # Stores repeated arrays, such as the tied embeddings, once.
    return spec


def _new_spec(model, pieces, source_pieces, source_end=True):
    transformer_spec = _specs().transformer_spec
    config = model.config
    _check_model(model, pieces, source_pieces)
    spec = transformer_spec.TransformerSpec(
        transformer_spec.TransformerEncoderSpec(**_options(config, model.encoder)),
        transformer_spec.TransformerDecoderSpec(**_options(config, model.decoder)),
    )
    set_encoder(spec.encoder, model.encoder)
    set_decoder(spec.decoder, model.decoder, config)
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
    return spec


def _specs():
    try:
        from ctranslate2 import specs
        from ctranslate2.specs import transformer_spec  # noqa: F401
    except ImportError as error:
        raise UserError(
            "Writing a CTranslate2 model needs the package `ctranslate2`, which cannot be "
            f"imported here ({error}). Install it: pip install ctranslate2"
        ) from error
    return specs


def _check_options(path, quantization, vmap, force):
    accepted = _specs().model_spec.ACCEPTED_MODEL_TYPES
    if quantization is not None and quantization not in accepted:
        raise UserError(
            f"`quantization` must be one of CTranslate2's: {', '.join(accepted)}. "
            f"Received: quantization={quantization!r}"
        )
    if vmap is not None and not Path(vmap).is_file():
        raise UserError(f"`vmap` must be an existing file. Received: vmap={str(vmap)!r}")
    if not force and Path(path).exists():
        raise UserError(f"{path} exists. Pass `force=True` to replace it.")


def _check_model(model, pieces, source_pieces):
    config = model.config
    source_size = config.source_vocabulary_size or config.vocabulary_size
    for size, tokens in ((config.vocabulary_size, pieces), (source_size, source_pieces)):
        if len(tokens) != size:
            raise UserError(
                "Model and tokenizer must have the same vocabulary. Received: a model of "
                f"{size} tokens, a tokenizer of {len(tokens)}"
            )
    check_layers(config, "CTranslate2")
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
    if getattr(config, "leaf_ids", None) is not None:
        raise UserError(
            "CTranslate2 does not support deterministic attention. Received a model with "
            "`leaf_ids`."
        )
    if is_quantized(model):
        raise UserError(
            "Cannot export a quantized model to CTranslate2. Export the model in floats with "
            '`quantization="int8"`.'
        )


def _options(config, stack):
    """Return the arguments of the specification of a stack."""
    activation = _specs().common_spec.Activation[_ACTIVATIONS[config.activation]]
    return {
        "num_layers": len(stack.layers),
        "num_heads": config.num_heads,
        # Only a pre-norm stack is made with a norm at its end: which it is, is set afterwards.
        "pre_norm": stack.layer_norm is not None,
        "activation": activation,
        "head_dim": head_dim(stack.layers[0].self_attention),
    }
