"""Presets: folders with a trained model and everything needed to use it, on any backend.

A preset is in KerasHub's format, with its file names and its JSON: see `keras_transformer.hub`.

- `config.json`: the model's hyperparameters and dtype
- `model.weights.h5`: the weights. If KerasHub wrote more than 10 GB of them,
  `model.weights.json` and the files that it names.
- `tokenizer.json`, `assets/tokenizer/vocabulary.spm`: the SentencePiece model. If the source has
  its own, also `source_tokenizer.json` and `assets/source_tokenizer/`.
- `preprocessor.json`: the `TranslationPreprocessor`
- `task.json`: the task that the model is for, its metadata, and its search if it has one
- `metadata.json`: the date and the versions with which the preset was written
- `tag_dictionary.json`: a parser's tag dictionary, if it has one
- `shortlist.npz`: a converted model's `kt.data.Shortlist`, if it has one
- `README.md`: the model card, if there is one
"""

import math
import os
import re
import shutil
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import keras

from keras_transformer.annotations import DType
from keras_transformer.data.moses_tokenizer import MosesTokenizer
from keras_transformer.data.preprocessor import TranslationPreprocessor
from keras_transformer.data.shortlist import Shortlist
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.errors import UserError
from keras_transformer.files import atomic_write_folder, read_json
from keras_transformer.models.quantization import as_policy_map, with_default_policy
from keras_transformer.presets.format import (
    BACKBONE,
    PACKAGE,
    Preset,
    PresetConfig,
    class_next_to,
    get_object_config,
    select_hyperparameters,
    serialized,
    validate_objects,
    write_json,
)
from keras_transformer.presets.location import (
    CARD,
    CONFIG,
    PREPROCESSOR,
    PRESET,
    SHORTLIST,
    SOURCE_TOKENIZER,
    TAG_DICTIONARY,
    TASK,
    TOKENIZER,
    locate,
)
from keras_transformer.weights.model_shapes import weight_shapes
from keras_transformer.weights.shards import (
    WEIGHTS,
    folder_shapes,
    load_folder_weights,
    require_file,
    weights_files,
)
from keras_transformer.weights.weights_file import narrow_weights, save_weights

if TYPE_CHECKING:
    from keras_transformer.models.transformer import Transformer

_BACKBONES = re.compile(r"\w*TransformerBackbone")
# The backbone of the models that have more hyperparameters than a `Transformer`.
_FOREIGN = "ForeignTransformerBackbone"
# The classes of dtype policies that the JSON of a preset may name.
_POLICIES = ("DTypePolicy", "FloatDTypePolicy", "QuantizedDTypePolicy", "DTypePolicyMap")
# The tokenizers that a preset may have, by the names of their classes in it.
_TOKENIZERS = {kind.preset_class: kind for kind in (Tokenizer, MosesTokenizer)}


def save_preset(path: str | Path, preset: Preset, weights_dtype: str | None = None) -> None:
    """Write a preset folder: completely, or not at all.

    Args:
        path: the folder. An existing preset is replaced.
        preset: the `Preset`. If its card is None, the card of the folder that is replaced is kept;
            an empty card leaves none.
        weights_dtype: `"float16"` for a file of half the size. Defaults to the weights' own.

    Raises:
        UserError: if a tokenizer's class cannot be stored in a preset, the weights cannot be stored
            in that dtype, or `path` holds more than a preset.
    """
    tokenizers = {TOKENIZER: preset.tokenizer}
    if preset.source_tokenizer is not preset.tokenizer:
        tokenizers[SOURCE_TOKENIZER] = preset.source_tokenizer
    old_card = Path(path) / CARD
    with atomic_write_folder(path, PRESET) as folder:
        folder.mkdir()
        written = {
            name: _write_tokenizer(folder, name, tokenizer)
            for name, tokenizer in tokenizers.items()
        }
        for name, values in preset.to_files(written).items():
            write_json(folder / name, values)
        if preset.card:
            (folder / CARD).write_text(preset.card, "utf-8")
        elif preset.card is None and old_card.is_file():
            shutil.copyfile(old_card, folder / CARD)
        if preset.shortlist is not None:
            preset.shortlist.save(folder / SHORTLIST)
        save_weights(preset.model, folder / WEIGHTS)
        if weights_dtype is not None:
            narrow_weights(folder / WEIGHTS, weights_dtype)


def load_preset(path: str | Path, task: str, dtype: DType = None) -> Preset:
    """Load a preset that `save_preset` or KerasHub wrote.

    Args:
        path: the folder, or a name that `location.locate` accepts.
        task: name of the class that uses the preset.
        dtype: dtype or dtype policy of the model.

    Returns:
        A `Preset`.

    Raises:
        UserError: if the folder or a part of it is missing or damaged, or the preset is for another
            task; if the repository does not exist or cannot be reached.
    """
    path = locate(path)
    config = read_preset(path)
    validate_task(path, config.task, task)
    if config.preprocessor is None:
        require_file(path, f"{TOKENIZER}.json")
    preprocessor: Any = config.preprocessor  # there is one if there is a tokenizer
    model = new_model(object, config, dtype)
    validate_vocabularies(config)
    load_folder_weights(model, path)
    card = path / CARD
    return Preset(
        model=model,
        preprocessor=preprocessor,
        search=config.make_search(),
        metadata=config.metadata,
        task=config.task,
        tag_dictionary=config.tag_dictionary,
        shortlist=_read_shortlist(config),
        card=card.read_text("utf-8", errors="replace") if card.is_file() else None,
        path=path,
    )


def validate_task(name: Any, found: str | None, task: str) -> None:
    """Raise a `UserError` if a preset is for another class than the one that uses it.

    Args:
        name: the preset, for the error.
        found: the name of the class that the preset is for, or None for any.
        task: the name of the class that uses it.
    """
    if found not in (None, task):
        raise UserError(f"{name} must be a preset for {task}. Received: one for {found}")


def load_model(
    path: str | os.PathLike, model_class: "type[Transformer]", dtype: DType = None
) -> "Transformer":
    """Load only the model of a preset, which needs no tokenizer.

    Args:
        path: as for `load_preset`.
        model_class: `Transformer`, or a class derived from it.
        dtype: dtype or dtype policy of the model.

    Returns:
        A model of the class.

    Raises:
        UserError: as `load_preset`, but for presets of any task.
    """
    path = locate(path)
    model = new_model(model_class, read_preset(path), dtype)
    load_folder_weights(model, path)
    return model


def read_preset(path: str | Path) -> PresetConfig:
    """Read the contents of a preset folder, except its weights.

    Args:
        path: the folder.

    Raises:
        UserError: if the folder or a part of it is missing or damaged, or of a class that is not
            from this package.
    """
    path = Path(path)
    require_file(path, CONFIG)
    config = read_json(path / CONFIG)
    _validate_form(path, config)
    weights_files(path)
    name = config.get("registered_name") if isinstance(config, dict) else None
    name = str(name).removeprefix(f"{PACKAGE}>")
    name = name if _BACKBONES.fullmatch(name) else BACKBONE
    backbone = get_object_config(path / CONFIG, config, name)
    task = _optional(path, TASK, class_next_to(name, "Seq2SeqLM"))
    validate_objects(path / TASK, task, "metadata", "search")
    return PresetConfig(
        path=path,
        task=task.get("task"),
        backbone=name,
        hyperparameters=select_hyperparameters(backbone),
        dtype=backbone.get("dtype"),
        metadata=task.get("metadata") or {},
        search=task.get("search"),
        preprocessor=_read_preprocessor(path, class_next_to(name, "Seq2SeqLMPreprocessor")),
        tag_dictionary=_tag_dictionary(path, task),
        has_shortlist="shortlist" in task,
    )


def _validate_form(path: Path, config: Any) -> None:
    if not isinstance(config, dict) or "registered_name" in config:
        return
    if "model_type" in config:
        raise UserError(
            f"{path} is not a preset, but a model of transformers "
            f"(model_type={config['model_type']!r}). `kt.Translator.from_preset` opens some."
        )


def _optional(path: Path, part: str, class_name: str) -> dict[str, Any]:
    """Return the configuration of an object, or an empty dict if its file is missing."""
    if not (path / part).is_file():
        return {}
    return get_object_config(path / part, read_json(path / part), class_name)


def _read_preprocessor(path: Path, class_name: str) -> TranslationPreprocessor | None:
    config = _optional(path, PREPROCESSOR, class_name)
    if not (path / f"{TOKENIZER}.json").is_file():
        return None
    tokenizers = {TOKENIZER: _read_tokenizer(path, TOKENIZER)}
    if config.get(SOURCE_TOKENIZER) is not None:
        tokenizers[SOURCE_TOKENIZER] = _read_tokenizer(path, SOURCE_TOKENIZER)
    try:
        return TranslationPreprocessor.from_config(config, **tokenizers)
    except UserError as error:
        raise UserError(f"{path / PREPROCESSOR} is damaged: {error}") from error


def _tag_dictionary(path: Path, task: dict[str, Any]) -> Any:
    if not task.get("has_tag_dictionary"):
        return None
    require_file(path, TAG_DICTIONARY)
    return read_json(path / TAG_DICTIONARY)


def _read_shortlist(config: PresetConfig) -> Shortlist | None:
    if not config.has_shortlist or config.preprocessor is None:
        return None
    tokenizers = config.preprocessor.source_tokenizer, config.preprocessor.tokenizer
    return Shortlist.load(
        config.path / SHORTLIST, *(tokenizer.vocabulary_size for tokenizer in tokenizers)
    )


def new_model(model_class: type, config: PresetConfig, dtype: DType = None) -> "Transformer":
    """Return the model of a preset with random weights.

    Args:
        model_class: `Transformer`, or a class derived from it; `object` for the preset's own class.
        config: the result of `read_preset`.
        dtype: dtype or dtype policy of the model.

    Raises:
        UserError: if the arguments do not describe a model, name an unknown object, or describe a
            model with more weights than the preset has.
    """
    path = config.path
    model_class, hyperparameters = _class_and_arguments(config, model_class)
    _validate_activation(path, hyperparameters.get("activation"))
    if config.dtype is not None:
        dtype = _policy(path, config.dtype, dtype)
    try:
        arguments = model_class.config_class(**hyperparameters)
        _validate_shapes(path, model_class, arguments)
        return model_class(**arguments.to_dict(), dtype=dtype)
    except (TypeError, ValueError) as error:
        raise UserError(f"{path / CONFIG} does not describe a valid model: {error}") from error


def _class_and_arguments(
    config: PresetConfig, requested: type
) -> tuple["type[Transformer]", dict[str, Any]]:
    """Return the class of the preset's model, or `requested` if that is another kind, and its
    arguments.

    A preset of an earlier form has the arguments of all classes: the defaults of other classes are
    left out, and other values select the class that has them.
    """
    found, hyperparameters = _registered(config, config.backbone), dict(config.hyperparameters)
    if others := hyperparameters.keys() - {*found.config_class.names()}:
        foreign = _registered(config, _FOREIGN)
        defaults = foreign.config_class.defaults()
        for name in others:
            if hyperparameters[name] == defaults.get(name):
                del hyperparameters[name]
            elif config.backbone == BACKBONE:
                found = foreign
    return found if issubclass(found, requested) else requested, hyperparameters


def _registered(config: PresetConfig, backbone: str) -> "type[Transformer]":
    """Return the class of the model that a backbone is derived from."""
    name = class_next_to(backbone, "")
    found = keras.saving.get_registered_object(f"{PACKAGE}>{name}")
    if not hasattr(found, "config_class"):
        raise UserError(
            f"{config.path / CONFIG} describes a model of the class {name}, which Keras has not "
            "registered. Import the module that defines it first."
        )
    return found


def _policy(path: Path, saved: Any, dtype: DType) -> DType:
    """Return the requested dtype, or a quantized model's policy with that dtype as its default."""
    try:
        if not _is_policy(saved):
            raise TypeError
        if isinstance(saved, dict) and saved["class_name"] == "DTypePolicy":
            saved = saved["config"]["name"]  # without importing TensorFlow: see `format.py`
        policies = as_policy_map(saved)
        if len(policies):
            return with_default_policy(policies, dtype)
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise UserError(
            f"{path / CONFIG} is damaged: its dtype must be a policy of Keras. Received: {saved!r}"
        ) from error
    if dtype is not None and _quantizes(dtype):
        raise UserError(
            f"`dtype` must not quantize, because {path} holds floats. Load it without `dtype`, and "
            f'call `quantize("int8")`. Received: dtype={dtype!r}'
        )
    return dtype


def _quantizes(dtype: DType) -> bool:
    try:
        return len(as_policy_map(dtype)) > 0
    except (TypeError, ValueError) as error:
        raise UserError(f"`dtype` must be a dtype policy of Keras: {error}") from error


def _is_policy(saved: Any) -> bool:
    """Return whether JSON values name only dtype policies, which alone may be instantiated."""
    if isinstance(saved, str):
        return True
    config = saved["config"]
    policies = config.get("policy_map", {}).values()
    return saved["class_name"] in _POLICIES and all(map(_is_policy, policies))


def _validate_activation(path: Path, activation: Any) -> None:
    """Raise a `UserError` if an activation is neither Keras's nor registered."""
    if not isinstance(activation, dict):
        return
    name = activation.get("config")
    is_function = activation.get("class_name") == "function" and isinstance(name, str)
    if not is_function or keras.saving.get_registered_object(name) is None:
        raise UserError(
            f"{path / CONFIG} has an unknown activation: {activation!r}. Import the module that "
            "registers it with `keras.saving.register_keras_serializable` first."
        )


def validate_vocabularies(config: PresetConfig) -> None:
    """Check that the tokenizers of a preset fit the model's vocabularies.

    Args:
        config: what `read_preset` returned. Without a tokenizer there is nothing to check.

    Raises:
        UserError: if their sizes differ.
    """
    sizes, preprocessor = config.hyperparameters, config.preprocessor
    if preprocessor is None:
        return
    target_size = sizes.get("vocabulary_size")
    source_size = sizes.get("source_vocabulary_size") or target_size
    if config.metadata.get("symbols"):
        target_size = source_size  # A parser's targets are among the tokens, which it checks.
    for name, size, tokenizer in (
        ("tokenizer", target_size, preprocessor.tokenizer),
        ("source's tokenizer", source_size, preprocessor.source_tokenizer),
    ):
        if size != tokenizer.vocabulary_size:
            raise UserError(
                f"{config.path}: {CONFIG} and the {name} must have the same number of tokens. "
                f"Received: {size} and {tokenizer.vocabulary_size}"
            )


def _validate_shapes(path: Path, model_class: type, arguments: Any) -> None:
    """Compare the shapes of a model's matrices with those in its files, before it takes memory.

    Args:
        path: the preset folder.
        model_class: the class of the model.
        arguments: the model's configuration in the preset.

    Raises:
        UserError: if the files lack a matrix of the model, or a file is damaged.
    """
    found = folder_shapes(path)
    try:
        needed = Counter(weight_shapes(model_class, arguments, sum(map(math.prod, found))))
        # Quantized models have further vectors.
        missing = [shape for shape in needed - Counter(found) if len(shape) > 1]
        if missing:
            raise UserError(f"The files lack a matrix of shape {missing[0]}.")
    except UserError as error:
        raise UserError(
            f"{path / CONFIG} and {weights_files(path)[0].name} must describe the same model. "
            f"{error}"
        ) from error


def _write_tokenizer(folder: Path, name: str, tokenizer: Any) -> dict[str, Any]:
    """Write one tokenizer of a preset.

    Args:
        folder: path of the preset folder.
        name: `TOKENIZER` or `SOURCE_TOKENIZER`.
        tokenizer: a `Tokenizer` or a `MosesTokenizer`.

    Returns:
        The contents of its JSON file.

    Raises:
        UserError: if it is a tokenizer of another class.
    """
    if not isinstance(tokenizer, tuple(_TOKENIZERS.values())):
        raise UserError(
            "A preset's tokenizer must be of one of the classes "
            f"{', '.join(kind.__name__ for kind in _TOKENIZERS.values())}. "
            f"Received: {type(tokenizer).__name__}"
        )
    values = serialized(tokenizer.preset_class, {"config_file": f"{name}.json"})
    write_json(folder / f"{name}.json", values)
    tokenizer.save(folder / "assets" / name / tokenizer.preset_file)
    return values


def _read_tokenizer(path: Path, name: str) -> Tokenizer | MosesTokenizer:
    """Read one tokenizer of a preset.

    Args:
        path: the preset folder.
        name: `TOKENIZER` or `SOURCE_TOKENIZER`.

    Raises:
        UserError: if a file is missing or damaged, or of another class.
    """
    require_file(path, f"{name}.json")
    values = read_json(path / f"{name}.json")
    registered_name = values.get("registered_name") if isinstance(values, dict) else None
    kind = _TOKENIZERS.get(str(registered_name).removeprefix(f"{PACKAGE}>"))
    if kind is None:
        known = ", ".join(f"'{PACKAGE}>{x}'" for x in _TOKENIZERS)
        raise UserError(
            f"{path / name}.json must be of one of the classes {known}. "
            f"Received: {registered_name!r}"
        )
    asset = f"assets/{name}/{kind.preset_file}"
    require_file(path, asset)
    return kind.from_file(path / asset)
