"""The format of a preset: its contents, and KerasHub's JSON files that describe them.

The files are JSON objects of Keras, each with the name of its class. They are read and written here
without KerasHub, and no class that a file names is instantiated. The classes themselves are in
`keras_transformer.hub`.
"""

import dataclasses
import datetime
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import keras

from keras_transformer.data.language_selection import select
from keras_transformer.data.preprocessor import TranslationPreprocessor
from keras_transformer.data.shortlist import Shortlist
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.decoding.search import Search
from keras_transformer.decoding.static_fields import deserialize, serialize
from keras_transformer.errors import UserError
from keras_transformer.models.quantization import get_dtype_policy, is_quantized
from keras_transformer.presets.location import (
    CONFIG,
    METADATA,
    PREPROCESSOR,
    SHORTLIST,
    TAG_DICTIONARY,
    TASK,
)
from keras_transformer.version import __version__

if TYPE_CHECKING:
    from keras_transformer.models.transformer import Transformer

PACKAGE = "keras_transformer"
BACKBONE = "TransformerBackbone"
# The default lengths to which KerasHub's preprocessing pads.
SEQUENCE_LENGTH = 256
# The dtype of a quantized model, stored a second time: see `hub.TransformerBackbone`.
QUANTIZATION = "quantization"
_OF_EVERY_MODEL = ("name", "trainable", "dtype", QUANTIZATION)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Preset:
    """A trained model and everything needed to use it.

    `load_preset` reads one from a folder, the converters of `kt.convert` make one of another
    library's model, and `kt.Translator.from_preset` accepts either.

    Attributes:
        model: the `Transformer`.
        preprocessor: the `TranslationPreprocessor`.
        search: the `Search`, or None for the task's default.
        metadata: dict of JSON values, such as the languages.
        task: name of the class that uses the preset, such as `"Translator"`.
        tag_dictionary: a parser's tag dictionary as JSON values, or None.
        shortlist: the `kt.data.Shortlist` of a converted model, or None.
        card: text of the model card in Markdown, or None.
        path: the folder from which the preset was read, or None.
    """

    model: "Transformer"
    preprocessor: TranslationPreprocessor
    search: Search | None = None
    metadata: dict[str, Any] = dataclasses.field(default_factory=dict)
    task: str | None = "Translator"
    tag_dictionary: Any = None
    shortlist: Shortlist | None = None
    card: str | None = None
    path: Path | None = None

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of outputs, and of sources if they have no other."""
        return self.preprocessor.tokenizer

    @property
    def source_tokenizer(self) -> Tokenizer:
        """The tokenizer of sources."""
        return self.preprocessor.source_tokenizer

    def in_languages(
        self, source_lang: str | None = None, target_lang: str | None = None
    ) -> "Preset":
        """Return a preset of other languages, with the same model.

        Args:
            source_lang: the language to translate from, by the model's own code. None keeps it.
            target_lang: the language to translate into. None keeps it.

        Raises:
            UserError: if the model does not have the language.
        """
        preprocessor, metadata = select(
            self.preprocessor, self.metadata, source_lang=source_lang, target_lang=target_lang
        )
        return dataclasses.replace(self, preprocessor=preprocessor, metadata=metadata)

    def to_files(self, tokenizers: Mapping[str, Any]) -> dict[str, Any]:
        """Return the JSON files of the preset, except the tokenizers' own.

        Args:
            tokenizers: dict from `TOKENIZER` and `SOURCE_TOKENIZER` to the JSON of each tokenizer.

        Returns:
            A dict from the names of the files to JSON values.
        """
        model = self.model
        config = {"name": "transformer_backbone", "trainable": True}
        config["dtype"] = _serialized_policy(get_dtype_policy(model))
        if is_quantized(model):
            config[QUANTIZATION] = config["dtype"]
        backbone = serialized(model.backbone_name, {**config, **model.hyperparameters})
        preprocessor = _preprocessor(model, tokenizers, self.preprocessor)
        files = {
            CONFIG: backbone,
            PREPROCESSOR: preprocessor,
            TASK: _task(backbone, preprocessor, self),
            METADATA: _metadata(model),
        }
        if self.tag_dictionary is not None:
            files[TAG_DICTIONARY] = self.tag_dictionary
        return files


@dataclasses.dataclass(frozen=True, kw_only=True)
class PresetConfig:
    """The contents of a preset's files, except the weights and the model card.

    Attributes:
        path: the folder from which the preset was read.
        task: name of the class that uses the preset, such as `"Translator"`, or None.
        backbone: name of the model's class in `keras_transformer.hub`.
        hyperparameters: the arguments of that class.
        dtype: the serialized dtype policy of the model, or None.
        metadata: dict of JSON values, such as the languages.
        search: dict of JSON values that describe the task's search, or None.
        preprocessor: the `TranslationPreprocessor`, or None if the folder has no tokenizer.
        tag_dictionary: a parser's tag dictionary as JSON values, or None.
        has_shortlist: whether the folder has a shortlist.
    """

    path: Path
    task: str | None = None
    backbone: str = BACKBONE
    hyperparameters: dict[str, Any] = dataclasses.field(default_factory=dict)
    dtype: Any = None
    metadata: dict[str, Any] = dataclasses.field(default_factory=dict)
    search: dict[str, Any] | None = None
    preprocessor: TranslationPreprocessor | None = None
    tag_dictionary: Any = None
    has_shortlist: bool = False

    def make_search(self) -> Search | None:
        """Return the search of the preset, or None if it has none.

        Raises:
            UserError: if an option of the search is wrong.
        """
        if self.search is None:
            return None
        try:
            return search_from_config(self.search)
        except (UserError, TypeError) as error:  # a value of another kind than the option's
            raise UserError(f"Cannot make the search of {self.path}: {error}") from error


def search_from_config(config: Any) -> Search:
    """Return the search that a preset describes.

    Args:
        config: the JSON values that `serialize` returned for a `Search`.

    Raises:
        UserError: if they do not describe a search.
    """
    search = deserialize(config)
    if not isinstance(search, Search):
        raise UserError(f"Expected a search. Received: {config['class_name']}")
    return search


def class_next_to(backbone: str, kind: str) -> str:
    """Return the name of the class of a kind that belongs to a backbone.

    Args:
        backbone: name of the backbone, such as `"TransformerBackbone"`.
        kind: the end of the other name, such as `"Seq2SeqLM"`; `""` for the model itself.
    """
    return backbone.removesuffix("Backbone") + kind


def select_hyperparameters(config: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of `Transformer` among the entries of a backbone's configuration."""
    return {name: value for name, value in config.items() if name not in _OF_EVERY_MODEL}


def serialized(class_name: str, config: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON of an object of `keras_transformer.hub`, as Keras serializes it."""
    return {
        "module": f"{PACKAGE}.hub",
        "class_name": class_name,
        "config": config,
        "registered_name": f"{PACKAGE}>{class_name}",
    }


def _serialized_policy(policy: Any) -> dict[str, Any]:
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


def _preprocessor(
    model: "Transformer", tokenizers: Mapping[str, Any], preprocessor: TranslationPreprocessor
) -> dict[str, Any]:
    length = min(SEQUENCE_LENGTH, model.config.max_length or SEQUENCE_LENGTH)
    config = {
        **tokenizers,
        "config_file": PREPROCESSOR,
        "encoder_sequence_length": length,
        "decoder_sequence_length": length,
        **preprocessor.get_config(),
    }
    return serialized(class_next_to(model.backbone_name, "Seq2SeqLMPreprocessor"), config)


def _task(backbone: dict[str, Any], preprocessor: dict[str, Any], preset: Preset) -> dict[str, Any]:
    config = {
        "backbone": backbone,
        "preprocessor": preprocessor,
        "name": "transformer_seq_2_seq_lm",
        "task": preset.task,
        "metadata": preset.metadata,
    }
    if preset.search is not None:
        config["search"] = serialize(preset.search)
    if preset.tag_dictionary is not None:
        config["has_tag_dictionary"] = True
    if preset.shortlist is not None:
        config["shortlist"] = SHORTLIST
    return serialized(class_next_to(backbone["class_name"], "Seq2SeqLM"), config)


def _metadata(model: "Transformer") -> dict[str, Any]:
    """Return the values that KerasHub records and shows on the pages of models."""
    return {
        "keras_version": keras.__version__,
        "keras_transformer_version": __version__,
        "parameter_count": model.count_params(),
        "date_saved": datetime.datetime.now().strftime("%Y-%m-%d@%H:%M:%S"),
        "tasks": ["Seq2SeqLM"],
    }


def write_json(path: Path, values: Any) -> None:
    """Write JSON values to a file."""
    path.write_text(json.dumps(values, indent=2) + "\n", "utf-8")


def validate_objects(path: Path, config: dict[str, Any], *names: str) -> None:
    """Raise a `UserError` if an entry of a configuration is neither null nor a JSON object."""
    for name in names:
        if not isinstance(config.get(name), dict | None):
            raise UserError(f'{path} is damaged: "{name}" must be a JSON object.')


def get_object_config(path: Path, values: Any, class_name: str) -> dict[str, Any]:
    """Return the configuration of a serialized object.

    Raises:
        UserError: if the values are not such an object, or its class is another.
    """
    if not isinstance(values, dict) or not isinstance(values.get("config"), dict):
        raise UserError(f'{path} is damaged: expected a serialized Keras object with "config".')
    expected = f"{PACKAGE}>{class_name}"
    if values.get("registered_name") != expected:
        raise UserError(
            f"{path} must describe a {expected!r}. Received: {values.get('registered_name')!r}. "
            "KerasHub loads presets of other classes."
        )
    return values["config"]
