"""Marian folders: the same weights in the format that HuggingFace's transformers reads."""

import logging
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from keras import ops

from keras_transformer.convert.foreign_transformer import ForeignConfig, output_bias
from keras_transformer.convert.weight_mapping import (
    ACTIVATIONS,
    TORCH_NORM_EPSILON,
    foreign_layout,
    halves_to_interleaved,
    stack_mappings,
    to_float32,
)
from keras_transformer.decoding.beam_search import BeamSearch
from keras_transformer.decoding.constraints import (
    BannedTokens,
    Constraint,
    MaxLength,
    MinLength,
    NoRepeatedNgrams,
    NoUnknownToken,
    RepetitionPenalty,
)
from keras_transformer.decoding.sampling import Sampling
from keras_transformer.decoding.search import Search
from keras_transformer.errors import UserError
from keras_transformer.export.exported_folder import (
    exported_folder,
    token_pieces,
    validate_foreign_values,
    validate_tokenizers,
)
from keras_transformer.models.quantization import is_quantized
from keras_transformer.models.transformer import Transformer
from keras_transformer.presets.format import Preset, write_json
from keras_transformer.reserved_ids import END_ID, PAD_ID, START_ID, UNKNOWN_ID

logger = logging.getLogger(__name__)

_FILES = [
    *("config.json", "generation_config.json", "tokenizer_config.json", "model.safetensors"),
    *("vocab.json", "target_vocab.json", "source.spm", "target.spm"),
]
# The size of transformers' table of positions, which ours have no end of.
_POSITIONS = 1024
_IDS = {
    "pad_token_id": PAD_ID,
    "decoder_start_token_id": START_ID,
    "eos_token_id": END_ID,
    "forced_eos_token_id": None,
}
_SPECIAL_TOKENS = {"eos": END_ID, "unk": UNKNOWN_ID, "pad": PAD_ID}
# Ours -> why Marian has none but this.
_FIXED = {
    "normalize_first": False,
    "position_encoding": "sine",
    "attention_window": None,
    "leaf_ids": None,
}
# Hyperparameters of a `ForeignTransformer`.
_SUPPORTED = (
    *("attention_dropout", "output_bias", "final_norm", "decoder_intermediate_dim"),
    "tied_decoder_layers",
)


def export_marian(preset: Preset, path: str | Path) -> None:
    """Write a Marian folder for HuggingFace's transformers (float32).

    ```python
    tokenizer = transformers.AutoTokenizer.from_pretrained("FOLDER")
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained("FOLDER")
    batch = tokenizer(["A dog runs."], return_tensors="pt", padding=True)
    tokenizer.batch_decode(model.generate(**batch), skip_special_tokens=True)
    ```

    The folder has `config.json`, `generation_config.json`, `model.safetensors`, `source.spm`,
    `target.spm`, `vocab.json` (and `target_vocab.json`, if there are two vocabularies) and
    `tokenizer_config.json`. `kt.convert.marian` reads it with the same weights.

    Biases that the model lacks are written as zeros. Marian's layer normalization adds 1e-5 to the
    variance. Ours adds 1e-6 by default, which changes logits in their fifth digit. A source may
    have up to 1,024 tokens. `generate` searches with the beam of the translator's search, and with
    its `alpha` for the length penalty of the form `"power"`, which is the only one it has. With
    `early_stopping="never"` it stops exactly where our search does. A `kt.Sampling` is written too,
    and each constraint that transformers has. A warning names the other constraints and limits. A
    source prefix is not written: the text must begin with it, as in `">>deu<< A dog runs."`.

    Args:
        preset: the `Preset`, on any backend.
        path: the folder to write, completely or not at all.

    Raises:
        UserError: if the model differs from Marian's (pre-norm, learned positions and others) or is
            quantized, the package `safetensors` is not installed, or `path` contains other files.
    """
    try:
        from safetensors.numpy import save_file
    except ImportError as error:
        raise UserError(
            "A Marian folder is written with the package `safetensors`, which cannot be imported "
            f"here ({error}). Install it: pip install safetensors"
        ) from error
    _validate(preset)
    with exported_folder(path, "marian", _FILES) as folder:
        folder.mkdir()
        # PyTorch's: transformers asks where a file comes from.
        save_file(_weights(preset.model), folder / "model.safetensors", {"format": "pt"})
        _write_tokenizers(folder, preset)
        write_json(folder / "config.json", _config(preset.model))
        write_json(folder / "generation_config.json", _generation(preset))


def _validate(preset: Preset) -> None:
    model = preset.model
    config = ForeignConfig.from_config(model.config)
    validate_foreign_values(config, "Marian in transformers", _SUPPORTED)
    for name, value in _FIXED.items():
        if getattr(model.config, name, None) != value:
            _refuse(name, getattr(model.config, name, None), value)
    if config.final_norm:
        _refuse("final_norm", True, False)
    if config.layer_norm_epsilon > TORCH_NORM_EPSILON:
        _refuse("layer_norm_epsilon", config.layer_norm_epsilon, TORCH_NORM_EPSILON)
    # An activation that is not a string is the user's own function, serialized.
    if config.activation not in [*ACTIVATIONS.values()]:
        names = " or ".join(dict.fromkeys(ACTIVATIONS.values()))
        raise UserError(
            f"Marian's activation is {names}. Received a model with "
            f"activation={config.activation!r}"
        )
    size = config.hidden_dim // config.num_heads
    for name in ("key_dim", "value_dim"):
        actual = getattr(model.encoder.layers[0].self_attention, name)
        if actual * config.num_heads != config.hidden_dim:
            _refuse(name, actual, size)
    if is_quantized(model):
        raise UserError(
            "Cannot export a quantized model to transformers. Export the model in floats."
        )
    if not preset.preprocessor.source_end:
        raise UserError(
            "Marian's tokenizer in transformers ends every source with the end token. Received a "
            "translator with source_end=False"
        )
    if len(preset.preprocessor.target_prefix) > 1:
        raise UserError(
            "`generate` of transformers can force only one first token. Received a translator "
            f"with target_prefix={preset.preprocessor.target_prefix!r}"
        )
    validate_tokenizers(preset)


def _refuse(name: str, value: Any, expected: Any) -> NoReturn:
    raise UserError(
        f"Marian only supports {name}={expected!r}. Received a model with {name}={value!r}"
    )


# Weights


def _weights(model: Transformer) -> dict[str, np.ndarray]:
    """Return the float32 arrays by name."""
    order = halves_to_interleaved(model.config.hidden_dim)
    weights = {}
    for place in stack_mappings(model):
        name = f"model.{place.name}"
        weights[name] = foreign_layout(place, order)
        if name.endswith("_proj.weight") and not model.config.use_bias:
            weights[name.replace("weight", "bias")] = np.zeros(len(weights[name]), "float32")
    return {**weights, **_vocabulary_weights(model, order)}


def _vocabulary_weights(model: Transformer, order: np.ndarray) -> dict[str, np.ndarray]:
    layer = model.decoder.token_embedding
    tables = {"model.decoder.embed_tokens.weight": layer.embeddings}
    if not layer.tie_weights:
        tables["lm_head.weight"] = ops.transpose(layer.reverse_embeddings)
    if model.encoder.token_embedding is not layer:
        tables["model.encoder.embed_tokens.weight"] = model.encoder.token_embedding.embeddings
    elif layer.tie_weights:
        tables = {"model.shared.weight": layer.embeddings}
    else:  # since transformers 5 each has its own and ignores the configuration
        for name in ("model.encoder.embed_tokens.weight", "model.shared.weight"):
            tables[name] = layer.embeddings
    inverse = np.argsort(order)
    # `take`, since safetensors writes arrays as they lie in memory.
    weights = {name: np.take(to_float32(table), inverse, 1) for name, table in tables.items()}
    bias = np.zeros((1, layer.input_dim), "float32")
    if (variable := output_bias(model)) is not None:
        bias = to_float32(variable)[None]
    return {**weights, "final_logits_bias": bias}


# Configurations


def _config(model: Transformer) -> dict[str, Any]:
    config = ForeignConfig.from_config(model.config)
    names = {keras_name: name for name, keras_name in ACTIVATIONS.items()}
    size, num_layers = config.vocabulary_size, config.num_layers
    return {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        "is_encoder_decoder": True,
        "vocab_size": config.source_vocabulary_size or size,
        "decoder_vocab_size": size,
        "share_encoder_decoder_embeddings": config.source_vocabulary_size is None,
        "tie_word_embeddings": config.tie_weights,
        "d_model": config.hidden_dim,
        "encoder_layers": num_layers,
        "decoder_layers": config.decoder_layers,
        "encoder_ffn_dim": config.intermediate_dim,
        "decoder_ffn_dim": config.decoder_intermediate_dim or config.intermediate_dim,
        "encoder_attention_heads": config.num_heads,
        "decoder_attention_heads": config.num_heads,
        "activation_function": names[str(config.activation)],
        "dropout": config.dropout,
        "attention_dropout": config.attention_dropout,
        "scale_embedding": config.scale_embeddings,
        "max_position_embeddings": _POSITIONS,
        "dtype": "float32",
        **_IDS,
    }


def _generation(preset: Preset) -> dict[str, Any]:
    """Return the options of `generate`. A warning names the parts that it lacks."""
    options: dict[str, Any] = {
        **_IDS,
        "bad_words_ids": [[PAD_ID], [START_ID]],
        "max_length": _POSITIONS,
    }
    if preset.preprocessor.target_prefix:
        (options["forced_bos_token_id"],) = preset.preprocessor.target_prefix_ids
    search = preset.search or BeamSearch()
    options |= _strategy(search)
    left_out = [str(x) for x in search.constraints if not _add_constraint(options, x)]
    if search.extra_length != BeamSearch().extra_length:  # to which a converter sets it
        left_out.append(f"extra_length={search.extra_length}")
    for name in ("max_length_factor", "coverage_penalty"):
        if value := getattr(search, name, None):
            left_out.append(f"{name}={value}")
    if left_out:
        logger.warning(
            "Outputs may differ, because transformers does not support these parts of the search: "
            "%s",
            ", ".join(left_out),
        )
    return options


def _strategy(search: Search) -> dict[str, Any]:
    """Return the options of `generate` for a search without its constraints."""
    if isinstance(search, Sampling):
        return {
            "do_sample": True,
            "num_beams": 1,
            "temperature": float(search.temperature),
            "top_k": search.top_k or 0,
            "top_p": float(search.top_p or 1.0),
        }
    if not isinstance(search, BeamSearch):
        logger.warning("transformers does not support the search %s.", type(search).__name__)
        return {}
    if search.alpha and search.length_penalty != "power":
        logger.warning(
            "Beam search may rank outputs differently, because transformers does not support the "
            "length penalty %r.",
            search.length_penalty,
        )
    return {"num_beams": search.beam_size, "length_penalty": float(search.alpha)}


def _add_constraint(options: dict[str, Any], constraint: Constraint) -> bool:
    """Add the option of `generate` for a constraint, and return whether there is one."""
    is_beam = options.get("num_beams", 1) > 1
    if isinstance(constraint, MinLength):
        options["min_length"] = constraint.min_length
    elif isinstance(constraint, MaxLength):
        # The start token counts there.
        options |= {"max_length": constraint.max_length + 1, "forced_eos_token_id": END_ID}
    elif isinstance(constraint, NoRepeatedNgrams):
        options["no_repeat_ngram_size"] = constraint.size
    elif isinstance(constraint, BannedTokens):
        options["bad_words_ids"] += [[i] for i in constraint.banned_token_ids]
    elif isinstance(constraint, NoUnknownToken):
        options["bad_words_ids"] += [[UNKNOWN_ID]]
    elif isinstance(constraint, RepetitionPenalty):
        options["repetition_penalty"] = float(constraint.penalty)
        return constraint.applies_to == ("log_probs" if is_beam else "logits")
    else:
        return False
    return True


def _write_tokenizers(folder: Path, preset: Preset) -> None:
    sides = {"source": preset.source_tokenizer, "target": preset.tokenizer}
    for side, tokenizer in sides.items():
        tokenizer.save(folder / f"{side}.spm")
    is_separate = preset.model.config.source_vocabulary_size is not None
    files = {"vocab.json": "source"} | ({"target_vocab.json": "target"} if is_separate else {})
    for name, side in files.items():
        write_json(folder / name, {x: i for i, x in enumerate(token_pieces(sides[side]))})
    pieces = token_pieces(preset.tokenizer)
    languages = {f"{side}_lang": preset.metadata[side] for side in sides if side in preset.metadata}
    write_json(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "MarianTokenizer",
            "separate_vocabs": is_separate,
            "model_max_length": _POSITIONS,
            **{f"{name}_token": pieces[i] for name, i in _SPECIAL_TOKENS.items()},
            **languages,
        },
    )
