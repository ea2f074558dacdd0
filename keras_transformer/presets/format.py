"""A preset's files in KerasHub's form: objects of Keras as JSON, each with its class's name.

They are written and read here as what they are, JSON, without KerasHub, and no class is made that a
file names. The classes of those names are in `keras_transformer.hub`.
"""

import datetime
from typing import Any, NamedTuple

import keras

from keras_transformer.errors import UserError
from keras_transformer.files import read_json
from keras_transformer.models.quantization import is_quantized, policy_of
from keras_transformer.presets.preset_files import (
    CONFIG,
    METADATA,
    PREPROCESSOR,
    TAG_DICTIONARY,
    TASK,
    check_is_there,
    check_objects,
    write_json,
)
from keras_transformer.presets.preset_tokenizers import (
    SOURCE_TOKENIZER,
    TOKENIZER,
    read_tokenizer,
    write_tokenizer,
)
from keras_transformer.version import __version__

PACKAGE = "keras_transformer"
BACKBONE = "TransformerBackbone"
# The lengths that KerasHub's preprocessing pads to, unless it is told others.
SEQUENCE_LENGTH = 256
# Of a quantised model, its dtype once more: see `hub.TransformerBackbone`.
QUANTIZATION = "quantization"
_OF_EVERY_MODEL = ("name", "trainable", "dtype", QUANTIZATION)


class Contents(NamedTuple):
    """What a preset holds beside its weights."""

    task: str | None  # the name of the class that it is for; None if it does not say
    hyperparameters: dict[str, Any]
    dtype: Any  # as Keras serialises a policy, or None
    metadata: dict[str, Any]
    search: dict[str, Any] | None
    tokenizer: Any  # None if there is none
    source_tokenizer: Any  # None if there is no other
    source_prefix: tuple = ()
    target_prefix: tuple = ()
    source_end: bool = True
    tag_dictionary: Any = None  # JSON values
    tag_dictionary_file: str = TAG_DICTIONARY


def serialized(class_name, config):
    """An object of `keras_transformer.hub`, as `keras.saving.serialize_keras_object` gives it."""
    return {
        "module": f"{PACKAGE}.hub",
        "class_name": class_name,
        "config": config,
        "registered_name": f"{PACKAGE}>{class_name}",
    }


def write_contents(folder, model, contents):
    """Write all files but weights and card.

    Args:
        folder: path of a folder.
        model: the `Transformer`.
        contents: `Contents`; hyperparameters and dtype are the model's.
    """
    config = {"name": "transformer_backbone", "trainable": True}
    config["dtype"] = _serialized_policy(policy_of(model))
    if is_quantized(model):
        config[QUANTIZATION] = config["dtype"]
    backbone = serialized(BACKBONE, {**config, **model.hyperparameters})
    tokenizers = {TOKENIZER: write_tokenizer(folder, TOKENIZER, contents.tokenizer)}
    if contents.source_tokenizer is not None:
        source = write_tokenizer(folder, SOURCE_TOKENIZER, contents.source_tokenizer)
        tokenizers[SOURCE_TOKENIZER] = source
    preprocessor = _preprocessor(model, tokenizers, contents)
    write_json(folder / CONFIG, backbone)
    write_json(folder / PREPROCESSOR, preprocessor)
    write_json(folder / TASK, _task(backbone, preprocessor, contents))
    write_json(folder / METADATA, _metadata(model))
    if contents.tag_dictionary is not None:
        write_json(folder / TAG_DICTIONARY, contents.tag_dictionary)


def _serialized_policy(policy):
    if type(policy) is not keras.DTypePolicy:
        return keras.dtype_policies.serialize(policy)
    # The same, without TensorFlow, which Keras would import wherever it is installed.
    config = {"name": policy.name}
    return {
        "module": "keras",
        "class_name": "DTypePolicy",
        "config": config,
        "registered_name": None,
    }


def _preprocessor(model, tokenizers, contents):
    length = min(SEQUENCE_LENGTH, model.hyperparameters["max_length"] or SEQUENCE_LENGTH)
    config = {
        **tokenizers,
        "config_file": PREPROCESSOR,
        "encoder_sequence_length": length,
        "decoder_sequence_length": length,
        "source_prefix": list(contents.source_prefix),
        "target_prefix": list(contents.target_prefix),
    }
    if not contents.source_end:
        config["source_end"] = False
    return serialized("TransformerSeq2SeqLMPreprocessor", config)


def _task(backbone, preprocessor, contents):
    config = {
        "backbone": backbone,
        "preprocessor": preprocessor,
        "name": "transformer_seq_2_seq_lm",
        "task": contents.task,
        "metadata": contents.metadata,
    }
    if contents.search is not None:
        config["search"] = contents.search
    if contents.tag_dictionary is not None:
        config["has_tag_dictionary"] = True
    return serialized("TransformerSeq2SeqLM", config)


def _metadata(model):
    """What KerasHub notes, and shows on pages of models."""
    return {
        "keras_version": keras.__version__,
        "keras_transformer_version": __version__,
        "parameter_count": model.count_params(),
        "date_saved": datetime.datetime.now().strftime("%Y-%m-%d@%H:%M:%S"),
        "tasks": ["Seq2SeqLM"],
    }


def read_contents(path, config):
    """What `write_contents`, or KerasHub, wrote.

    Args:
        path: the folder.
        config: what is in its `config.json`.

    Raises:
        UserError: if a file is damaged or missing, or of a class that is none of ours.
    """
    hyperparameters = dict(_config_of(path / CONFIG, config, BACKBONE))
    hyperparameters = {x: y for x, y in hyperparameters.items() if x not in _OF_EVERY_MODEL}
    preprocessor = _optional(path, PREPROCESSOR, "TransformerSeq2SeqLMPreprocessor")
    task = _optional(path, TASK, "TransformerSeq2SeqLM")
    check_objects(path / TASK, task, "metadata", "search")
    has_source = preprocessor.get(SOURCE_TOKENIZER) is not None
    return Contents(
        task.get("task"),
        hyperparameters,
        config["config"].get("dtype"),
        task.get("metadata") or {},
        task.get("search"),
        read_tokenizer(path, TOKENIZER) if (path / f"{TOKENIZER}.json").is_file() else None,
        read_tokenizer(path, SOURCE_TOKENIZER) if has_source else None,
        *(_strings(path, preprocessor, f"{side}_prefix") for side in ("source", "target")),
        source_end=bool(preprocessor.get("source_end", True)),
        tag_dictionary=_tag_dictionary(path, task),
    )


def _optional(path, part, class_name):
    """The configuration of an object, or nothing where its file is not there."""
    if not (path / part).is_file():
        return {}
    return _config_of(path / part, read_json(path / part), class_name)


def _config_of(path, values, class_name):
    """The configuration of a serialised object.

    Raises:
        UserError: if it is none, or its class is another.
    """
    if not isinstance(values, dict) or not isinstance(values.get("config"), dict):
        raise UserError(f'{path} is damaged: it has no "config", as an object of Keras has.')
    expected = f"{PACKAGE}>{class_name}"
    if values.get("registered_name") != expected:
        raise UserError(
            f"{path} is of the class {values.get('registered_name')!r}. Expected {expected!r}: "
            "presets of other classes are loaded by KerasHub."
        )
    return values["config"]


def _strings(path, config, name):
    tokens = config.get(name) or []
    if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
        raise UserError(f'{path / PREPROCESSOR} is damaged: its "{name}" are no strings.')
    return tuple(tokens)


def _tag_dictionary(path, task):
    if not task.get("has_tag_dictionary"):
        return None
    check_is_there(path, TAG_DICTIONARY)
    return read_json(path / TAG_DICTIONARY)
