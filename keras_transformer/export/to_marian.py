"""Marian's own files: the same weights in the format that Marian itself runs."""

import io
import json
import logging
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from keras_transformer.convert.foreign_transformer import (
    ForeignConfig,
    marian_wavelength,
    output_bias,
)
from keras_transformer.convert.marian_files import DECODER, MODEL
from keras_transformer.convert.marian_options import (
    BIAS,
    EPSILON,
    OUTPUT,
    marian_name,
    write_options,
    write_search,
)
from keras_transformer.convert.weight_mapping import (
    foreign_layout,
    halves_to_interleaved,
    stack_mappings,
    to_float32,
)
from keras_transformer.decoding.beam_search import BeamSearch
from keras_transformer.errors import UserError
from keras_transformer.export.exported_folder import (
    exported_folder,
    validate_tokenizers,
)
from keras_transformer.models.quantization import is_quantized
from keras_transformer.models.transformer import Transformer
from keras_transformer.presets.format import Preset

logger = logging.getLogger(__name__)

_SHORTLIST = "lex.s2t.bin"
_FILES = [MODEL, DECODER, _SHORTLIST, "vocab.spm", "source.spm", "target.spm"]
# Ours -> the only value that Marian has, and why another is refused.
_FIXED = {
    "zero_start": (True, "Marian has no start token. Train, or continue a training, with it"),
    "position_encoding": ("sine", "its Transformer ignores trained positions"),
    "attention_window": (None, "it has no restricted self-attention"),
    "first_position": (0, "its first position is 0"),
    "scale_embeddings": (True, "it multiplies embeddings by sqrt(d_model)"),
    "layer_norm_epsilon": (EPSILON, "it adds this number"),
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
    the text must begin with it. A shortlist is written as `lex.s2t.bin`.

    Args:
        preset: the `Preset`, on any backend. Its model was trained with `zero_start`, or
            converted from Marian.
        path: the folder to write, completely or not at all.

    Raises:
        UserError: if Marian cannot compute the model: with another start embedding, other positions
            or norms; or if it is quantized, or `path` contains other files.
    """
    _validate(preset)
    model = preset.model
    tokenizers = preset.source_tokenizer, preset.tokenizer
    is_one = preset.source_tokenizer is preset.tokenizer
    names = ("vocab.spm", "vocab.spm") if is_one else ("source.spm", "target.spm")
    search = write_search(preset.search or BeamSearch(), names)
    with exported_folder(path, "marian_npz", _FILES) as folder:
        folder.mkdir()
        if preset.shortlist is not None:
            preset.shortlist.save_as_marian(folder / _SHORTLIST)
            search["shortlist"] = [_SHORTLIST]
        _write_npz(folder / MODEL, _arrays(model), _yaml(write_options(model)))
        for name, tokenizer in zip(names, tokenizers):
            tokenizer.save(folder / name)
        (folder / DECODER).write_text(_yaml(search), "utf-8")


def _validate(preset: Preset) -> None:
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


def _refuse(name: str, value: Any, expected: Any, reason: str) -> NoReturn:
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
    arrays["Wemb" if is_shared else "decoder_Wemb"] = to_float32(layer.embeddings)[:, inverse]
    if not is_shared:
        arrays["encoder_Wemb"] = to_float32(source.embeddings)[:, inverse]
    if not config.tie_weights:
        arrays[OUTPUT] = to_float32(layer.reverse_embeddings).T[:, inverse]
    if (bias := output_bias(model)) is not None:
        arrays[BIAS] = to_float32(bias)[None]
    return arrays


def _yaml(options: Mapping[str, Any]) -> str:
    """Return options as YAML of one line each, of which JSON is a part."""
    return "".join(f"{name}: {json.dumps(value)}\n" for name, value in options.items())


def _write_npz(path: Path, arrays: Mapping[str, np.ndarray], options: str) -> None:
    """Write an `.npz` as Marian reads it: not compressed, and with the sizes before the data."""
    arrays = {**arrays, "special:model.yml": np.frombuffer(options.encode() + b"\0", "int8")}
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in sorted(arrays.items()):
            file = io.BytesIO()
            np.lib.format.write_array(file, np.ascontiguousarray(array), version=(1, 0))
            archive.writestr(f"{name}.npy", file.getvalue())
