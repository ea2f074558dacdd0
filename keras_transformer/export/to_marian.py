"""Marian's own files: the same weights in the format that Marian itself runs."""

import io
import json
import logging
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from keras import ops

from keras_transformer.convert.foreign_transformer import (
    ForeignConfig,
    marian_wavelength,
    output_bias,
)
from keras_transformer.convert.marian_names import marian_name
from keras_transformer.convert.weight_mapping import (
    ACTIVATIONS,
    foreign_layout,
    halves_to_interleaved,
    stack_mappings,
)
from keras_transformer.decoding.beam_search import BeamSearch
from keras_transformer.decoding.constraints import NoUnknownToken, WordPenalty
from keras_transformer.errors import UserError
from keras_transformer.export.exported_folder import (
    exported_folder,
    validate_tokenizers,
)
from keras_transformer.models.quantization import is_quantized
from keras_transformer.models.transformer import Transformer
from keras_transformer.presets.format import Preset

logger = logging.getLogger(__name__)

_MODEL, _DECODER = "model.npz", "decoder.yml"
_FILES = [_MODEL, _DECODER, "vocab.spm", "source.spm", "target.spm"]
# Ours -> the only value that Marian has, and why another is refused.
_FIXED = {
    "zero_start": (True, "Marian has no start token. Train, or continue a training, with it"),
    "position_encoding": ("sine", "its Transformer ignores trained positions"),
    "attention_window": (None, "it has no restricted self-attention"),
    "first_position": (0, "its first position is 0"),
    "scale_embeddings": (True, "it multiplies embeddings by sqrt(d_model)"),
    "layer_norm_epsilon": (1e-6, "it adds this number"),
    "leaf_ids": (None, "it has no deterministic attention"),
}


def export_marian_npz(preset: Preset, path: str | Path) -> None:
    """Write a folder that Marian runs: `marian-decoder -c FOLDER/decoder.yml` (float32).

    The folder has `model.npz`, `decoder.yml`, and `vocab.spm` or `source.spm` and `target.spm`.
    `kt.convert.marian` reads it with the same weights. Biases that the model lacks are written as
    zeros. Marian's search drops a finished hypothesis from the beam, so that its beam narrows; it
    has the length penalty `"power"`, and of the constraints `NoUnknownToken` and `WordPenalty`. It
    limits an output to 3 times its source, or to the `max_length_factor`, but not by
    `extra_length`. A warning names such parts of the search. A source prefix is not written:
    the text must begin with it.

    Args:
        preset: the `Preset`, on any backend. Its model was trained with `zero_start`, or
            converted from Marian.
        path: the folder to write, completely or not at all.

    Raises:
        UserError: if Marian cannot compute the model: with another start embedding, other positions
            or norms; or if it is quantized, or `path` contains other files.
    """
    _check(preset)
    model = preset.model
    names = _vocabulary_names(preset)
    with exported_folder(path, "marian_npz", _FILES) as folder:
        folder.mkdir()
        _write_npz(folder / _MODEL, _arrays(model), _yaml(_options(model)))
        for name, tokenizer in zip(names, (preset.source_tokenizer, preset.tokenizer)):
            tokenizer.save(folder / name)
        (folder / _DECODER).write_text(_yaml(_search(preset, names)), "utf-8")


def _check(preset):
    config = ForeignConfig.from_config(preset.model.config)
    for name, (value, reason) in _FIXED.items():
        actual = getattr(preset.model.config, name, getattr(config, name, value))
        if actual != value:
            _refuse(name, actual, value, reason)
    wavelength = marian_wavelength(config.hidden_dim)
    if not np.isclose(config.max_wavelength, wavelength):
        _refuse("max_wavelength", config.max_wavelength, wavelength, "`zero_start` trains with it")
    for name in ("key_dim", "value_dim"):
        size = config.hidden_dim // config.num_heads
        if getattr(config, name) not in (None, size):
            _refuse(name, getattr(config, name), size, "its heads share d_model")
    before, _ = config.steps.split("s")
    if config.normalize_keys and "n" in before and config.decoder_type == "attention":
        reason = "its decoder does not normalize the keys and values of pre-norm self-attention"
        _refuse("normalize_keys", True, False, reason)
    if config.activation not in ("relu", "silu", "gelu"):
        _refuse("activation", config.activation, "relu", "it also has silu and gelu")
    if is_quantized(preset.model):
        raise UserError("Cannot export a quantized model to Marian. Export the model in floats.")
    if not preset.preprocessor.source_end or preset.preprocessor.target_prefix:
        raise UserError(
            "Marian ends every source with the end token, and begins outputs without a prefix. "
            f"Received: source_end={preset.preprocessor.source_end}, "
            f"target_prefix={preset.preprocessor.target_prefix!r}"
        )
    validate_tokenizers(preset)


def _refuse(name, value, expected, reason):
    raise UserError(
        f"Marian only supports {name}={expected!r}: {reason}. "
        f"Received a model with {name}={value!r}"
    )


def _arrays(model: Transformer) -> dict[str, np.ndarray]:
    """Return the arrays by Marian's names, matrices as (inputs, outputs)."""
    config = ForeignConfig.from_config(model.config)
    order = halves_to_interleaved(config.hidden_dim)
    arrays = {}
    for mapping in stack_mappings(model):
        name, is_matrix = marian_name(mapping.name, config)
        values = foreign_layout(mapping, order)
        arrays[name] = values.T if is_matrix else values[None]
        bias = name.replace("_W", "_b")
        if bias.endswith(("_bq", "_bk", "_bv", "_bo")):
            arrays.setdefault(bias, np.zeros((1, arrays[name].shape[1]), "float32"))
    inverse = np.argsort(order)
    layer, source = model.decoder.token_embedding, model.encoder.token_embedding
    is_shared = source is layer
    arrays["Wemb" if is_shared else "decoder_Wemb"] = _array(layer.embeddings)[:, inverse]
    if not is_shared:
        arrays["encoder_Wemb"] = _array(source.embeddings)[:, inverse]
    if not config.tie_weights:
        arrays["decoder_ff_logit_out_Wt"] = _array(layer.reverse_embeddings).T[:, inverse]
    if (bias := output_bias(model)) is not None:
        arrays["decoder_ff_logit_out_b"] = _array(bias)[None]
    return arrays


def _array(x):
    return np.asarray(ops.convert_to_numpy(x), "float32")


def _options(model: Transformer) -> dict[str, Any]:
    """Return the options inside the model."""
    config = ForeignConfig.from_config(model.config)
    before, after = config.steps.split("s")
    activations = {keras_name: name for name, keras_name in ACTIVATIONS.items() if name != "silu"}
    is_shared = model.encoder.token_embedding is model.decoder.token_embedding
    is_ssru = config.decoder_type == "ssru"
    return {
        "type": "transformer",
        "dim-emb": config.hidden_dim,
        "dim-vocabs": [
            config.source_vocabulary_size or config.vocabulary_size,
            config.vocabulary_size,
        ],
        "enc-depth": config.num_layers,
        "dec-depth": config.decoder_layers,
        "dec-cell": "ssru" if is_ssru else "gru",
        "layer-normalization": False,
        "right-left": False,
        "input-types": [],
        "tied-embeddings": config.tie_weights and not is_shared,
        "tied-embeddings-src": is_shared and not config.tie_weights,
        "tied-embeddings-all": config.tie_weights and is_shared,
        "output-omit-bias": not config.output_bias,
        "lemma-dim-emb": 0,
        "ulr": False,
        "transformer-heads": config.num_heads,
        "transformer-no-projection": False,
        "transformer-rnn-projection": False,
        "transformer-pool": False,
        "transformer-dim-ffn": config.intermediate_dim,
        "transformer-ffn-depth": config.feed_forward_depth,
        "transformer-ffn-activation": activations[str(config.activation)],
        "transformer-decoder-dim-ffn": config.decoder_intermediate_dim or 0,
        "transformer-decoder-ffn-depth": config.decoder_feed_forward_depth or 0,
        "transformer-decoder-autoreg": "rnn" if is_ssru else "self-attention",
        "transformer-tied-layers": config.tied_decoder_layers or [],
        "transformer-preprocess": before,
        "transformer-postprocess": after,
        "transformer-postprocess-emb": config.embedding_steps,
        "transformer-postprocess-top": config.steps_at_the_end,
        "transformer-train-position-embeddings": False,
        "transformer-guided-alignment-layer": "last",
        "version": "v1.12.0",
    }


def _vocabulary_names(preset):
    if preset.source_tokenizer is preset.tokenizer:
        return "vocab.spm", "vocab.spm"
    return "source.spm", "target.spm"


def _search(preset, names):
    """Return the options of `decoder.yml`."""
    search = preset.search or BeamSearch()
    options: dict[str, Any] = {
        "relative-paths": True,
        "models": [_MODEL],
        "vocabs": [*names],
        "beam-size": 1,
        "normalize": 0.0,
        "word-penalty": 0.0,
        "allow-unk": not any(isinstance(x, NoUnknownToken) for x in search.constraints),
    }
    known = (NoUnknownToken, WordPenalty)
    others = [str(x) for x in search.constraints if not isinstance(x, known)]
    options["word-penalty"] = sum(
        x.penalty for x in search.constraints if isinstance(x, WordPenalty)
    )
    if isinstance(search, BeamSearch):
        options |= {"beam-size": search.beam_size, "normalize": float(search.alpha)}
        # Marian only limits an output by a multiple of its source, which is 3 by default.
        others.append(f"extra_length={search.extra_length}")
        if search.max_length_factor is None:
            others.append("max_length_factor=None")
        else:
            options["max-length-factor"] = search.max_length_factor
        if search.alpha and search.length_penalty != "power":
            others.append(f"length_penalty={search.length_penalty}")
        if search.coverage_penalty:
            others.append(f"coverage_penalty={search.coverage_penalty}")
    else:
        others.append(str(search))
    if others:
        logger.warning(
            "Outputs may differ, because Marian does not have these parts of the search: %s",
            ", ".join(others),
        )
    return options


def _yaml(options):
    """Return options as YAML of one line each, of which JSON is a part."""
    return "".join(f"{name}: {json.dumps(value)}\n" for name, value in options.items())


def _write_npz(path, arrays, options):
    """Write an `.npz` as Marian reads it: not compressed, and with the sizes before the data."""
    arrays = {**arrays, "special:model.yml": np.frombuffer(options.encode() + b"\0", "int8")}
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in sorted(arrays.items()):
            file = io.BytesIO()
            np.lib.format.write_array(file, np.ascontiguousarray(array), version=(1, 0))
            archive.writestr(f"{name}.npy", file.getvalue())
