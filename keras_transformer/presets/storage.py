"""A preset: a folder with a trained model and all it takes to use it, on any backend.

It is a preset of KerasHub, with its file names and its JSON: see `keras_transformer.hub`.

- `config.json`: the model's hyperparameters and dtype;
- `model.weights.h5`: the weights; of KerasHub's, if there are more than 10 GB of them,
  `model.weights.json` and the files that it names;
- `tokenizer.json`, `assets/tokenizer/vocabulary.spm`: the SentencePiece model; where the source has
  one of its own, `source_tokenizer.json` and `assets/source_tokenizer/` too;
- `preprocessor.json`: the tokens that are put before source and target;
- `task.json`: the task that the model is for, its metadata, and perhaps its search;
- `metadata.json`: when and by what the preset was written;
- `tag_dictionary.json`: a parser's tag dictionary, if it has one;
- `README.md`: the model card, if there is one.
"""

import inspect
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import keras

from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.errors import UserError
from keras_transformer.files import atomic_write_folder, read_json
from keras_transformer.models.quantization import as_policy_map, with_default_policy
from keras_transformer.models.transformer import Transformer
from keras_transformer.parsing.tag_dictionary import TagDictionary
from keras_transformer.presets.earlier_presets import read_earlier_contents
from keras_transformer.presets.format import Contents, read_contents, write_contents
from keras_transformer.presets.location import locate
from keras_transformer.presets.preset_files import (
    CARD,
    CONFIG,
    PARTS,
    WEIGHTS,
    check_is_there,
)
from keras_transformer.presets.preset_tokenizers import TOKENIZER
from keras_transformer.presets.preset_weights import check_size, load_preset_weights, weights_files
from keras_transformer.training.checkpoints import narrow_weights, save_weights

# The classes of dtype policies that the JSON of a preset may name.
_POLICIES = ("DTypePolicy", "FloatDTypePolicy", "QuantizedDTypePolicy", "DTypePolicyMap")


class Preset(NamedTuple):
    """What a preset folder holds."""

    model: Transformer
    tokenizer: Tokenizer
    metadata: dict[str, Any]  # JSON values
    search: dict[str, Any] | None  # JSON values
    tag_dictionary: TagDictionary | None
    source_tokenizer: Tokenizer | None  # None if it is the same
    source_prefix: tuple[str, ...]
    target_prefix: tuple[str, ...]
    source_end: bool


def save_preset(
    path,
    task,
    model,
    tokenizer,
    metadata,
    card=None,
    search=None,
    tag_dictionary=None,
    source_tokenizer=None,
    source_prefix=(),
    target_prefix=(),
    source_end=True,
    weights_dtype=None,
):
    """Write a preset folder: whole, or not at all.

    Args:
        path: the folder; one that stands there already is replaced.
        task: name of the class that uses the preset, such as `"Translator"`.
        model: a `Transformer`.
        tokenizer: a `Tokenizer`.
        metadata: dict of JSON values, such as the languages.
        card: text of the model card, in Markdown. None keeps the card of the folder that is
            replaced, if it has one; an empty string leaves none.
        search: dict of JSON values that describe the task's search, if the preset is to have one.
        tag_dictionary: `TagDictionary` of a parser.
        source_tokenizer: the source's `Tokenizer`, if it is another.
        source_prefix: tokens before each source, as strings.
        target_prefix: tokens before each target, as strings.
        source_end: whether sources end with the end token.
        weights_dtype: `"float16"` for a file of half the size. Defaults to the weights' own.

    Raises:
        UserError: if a tokenizer is of a class that presets do not hold, weights cannot be kept in
            that dtype, or what stands at `path` is not only a preset.
    """
    contents = Contents(
        task,
        model.hyperparameters,
        None,
        metadata,
        search,
        tokenizer,
        None if source_tokenizer is tokenizer else source_tokenizer,
        source_prefix,
        target_prefix,
        source_end,
        None if tag_dictionary is None else tag_dictionary.to_dict(),
    )
    old_card = Path(path) / CARD
    with atomic_write_folder(path, PARTS) as folder:
        folder.mkdir()
        write_contents(folder, model, contents)
        if card:
            (folder / CARD).write_text(card, "utf-8")
        elif card is None and old_card.is_file():
            shutil.copyfile(old_card, folder / CARD)
        save_weights(model, folder / WEIGHTS)
        if weights_dtype is not None:
            narrow_weights(folder / WEIGHTS, weights_dtype)


def load_preset(path, task, dtype=None):
    """Load what `save_preset`, an earlier version of it, or KerasHub wrote.

    Args:
        path: the folder, or a name that `preset_location.locate` knows.
        task: name of the class that wants to use it.
        dtype: dtype or dtype policy of the model.

    Returns:
        A `Preset`.

    Raises:
        UserError: if the folder or a part of it is missing or damaged, or is of another task; if
            there is no such repository, or no network.
    """
    path = locate(path)
    contents = read_preset(path)
    if contents.task not in (None, task):
        raise UserError(f"{path} does not hold a model for {task}, but for {contents.task}.")
    if contents.tokenizer is None:
        check_is_there(path, f"{TOKENIZER}.json")
    tag_dictionary = _tag_dictionary(path, contents)
    model = new_model(Transformer, path, contents, dtype)
    check_vocabularies(path, contents)
    load_preset_weights(model, path)
    return Preset(
        model,
        contents.tokenizer,
        contents.metadata,
        contents.search,
        tag_dictionary,
        contents.source_tokenizer,
        contents.source_prefix,
        contents.target_prefix,
        contents.source_end,
    )


def load_model(path, model_class, dtype=None):
    """Load the model of a preset alone, which needs no tokenizer.

    Args:
        path: as for `load_preset`.
        model_class: `Transformer`, or a class derived from it.
        dtype: dtype or dtype policy of the model.

    Returns:
        A model of the class.

    Raises:
        UserError: as `load_preset`, of any task.
    """
    path = locate(path)
    model = new_model(model_class, path, read_preset(path), dtype)
    load_preset_weights(model, path)
    return model


def read_preset(path):
    """The `Contents` of a preset folder, in the present form or an earlier one.

    Raises:
        UserError: if the folder or a part of it is missing or damaged.
    """
    path = Path(path)
    check_is_there(path, CONFIG)
    config = read_json(path / CONFIG)
    if isinstance(config, dict) and "model_type" in config:
        raise UserError(
            f"{path} is no preset, but a model of transformers (model_type={config['model_type']!r}"
            "). Some of those are made one by `keras_transformer.convert`."
        )
    weights_files(path)
    is_of_keras_hub = isinstance(config, dict) and "registered_name" in config
    return (read_contents if is_of_keras_hub else read_earlier_contents)(path, config)


def upgrade_preset(path):
    """Write a preset of an earlier version in the present form, in its place.

    Weights and card stay as they are, byte for byte.

    Args:
        path: the folder, which is replaced whole, or not at all.

    Raises:
        UserError: if the folder or a part of it is missing or damaged, or there is more in it than
            a preset.
    """
    path = Path(path)
    contents = read_preset(path)
    model = new_model(Transformer, path, contents, None)
    with atomic_write_folder(path, PARTS) as folder:
        folder.mkdir()
        write_contents(folder, model, contents)
        card = [CARD] if (path / CARD).is_file() else []
        for name in (*card, *weights_files(path)):
            shutil.copyfile(path / name, folder / name)


def _tag_dictionary(path, contents):
    if contents.tag_dictionary is None:
        return None
    try:
        return TagDictionary.from_dict(contents.tag_dictionary)
    except UserError as error:
        raise UserError(f"{path / contents.tag_dictionary_file} is damaged: {error}") from error


def new_model(model_class, path, contents, dtype):
    """The model of a preset's `Contents`, with random weights.

    Raises:
        UserError: if they describe none, one with what is not known here, or one of more weights
            than the preset has.
    """
    hyperparameters = contents.hyperparameters
    _check_activation(path, hyperparameters.get("activation"))
    if contents.dtype is not None:
        dtype = _policy(path, contents.dtype, dtype)
    parameters = inspect.signature(Transformer).parameters.values()
    check_size(Path(path), {**{x.name: x.default for x in parameters}, **hyperparameters})
    try:
        return model_class(**{**hyperparameters, "dtype": dtype})
    except (TypeError, ValueError) as error:
        raise UserError(f"{path / CONFIG} describes no model: {error}") from error


def _policy(path, saved, dtype):
    """The dtype that is asked for; or the policy that says what is quantised, with that dtype."""
    try:
        if not _is_policy(saved):
            raise TypeError
        if isinstance(saved, dict) and saved["class_name"] == "DTypePolicy":
            saved = saved["config"]["name"]  # to import no TensorFlow: see `preset_form`
        policies = as_policy_map(saved)
        if len(policies):
            return with_default_policy(policies, dtype)
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise UserError(
            f"{path / CONFIG} is damaged: its model's dtype is no policy of Keras: {saved!r}"
        ) from error
    if dtype is not None and _quantizes(dtype):
        raise UserError(
            f"{path} holds floats: load it without this `dtype`, and quantise the model by "
            f'`quantize("int8")`. Received: dtype={dtype!r}'
        )
    return dtype


def _quantizes(dtype):
    try:
        return len(as_policy_map(dtype)) > 0
    except (TypeError, ValueError) as error:
        raise UserError(f"`dtype` is no policy of Keras: {error}") from error


def _is_policy(saved):
    """Whether JSON values name policies alone: no other class is to be made of them."""
    if isinstance(saved, str):
        return True
    config = saved["config"]
    policies = config.get("policy_map", {}).values()
    return saved["class_name"] in _POLICIES and all(map(_is_policy, policies))


def _check_activation(path, activation):
    """Raise a `UserError` if a function is neither Keras's nor one that is registered here."""
    if not isinstance(activation, dict):
        return
    name = activation.get("config")
    is_function = activation.get("class_name") == "function" and isinstance(name, str)
    if not is_function or keras.saving.get_registered_object(name) is None:
        raise UserError(
            f"{path / CONFIG} has an activation that is not known here: {activation!r}. Import the "
            "module that registers it with `keras.saving.register_keras_serializable` first."
        )


def check_vocabularies(path, contents):
    """Hold the tokenizers of a preset to the model's vocabularies.

    Args:
        path: the folder.
        contents: its `Contents`, with a tokenizer.

    Raises:
        UserError: if they are not of as many tokens.
    """
    sizes = contents.hyperparameters
    target_size = sizes.get("vocabulary_size")
    source_size = sizes.get("source_vocabulary_size") or target_size
    if contents.metadata.get("symbols"):
        target_size = source_size  # A parser's targets are some of the tokens: it checks which.
    for name, size, tokenizer in (
        ("tokenizer", target_size, contents.tokenizer),
        ("source's tokenizer", source_size, contents.source_tokenizer or contents.tokenizer),
    ):
        if size != tokenizer.vocabulary_size:
            raise UserError(
                f"{path}: {CONFIG} and the {name} do not belong together: {size} and "
                f"{tokenizer.vocabulary_size} tokens."
            )
