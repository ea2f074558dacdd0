"""A preset: a folder with a trained model and all it takes to use it, on any backend.

- `config.json`: the task that the model is for, the model's hyperparameters, the metadata of the
  task, and perhaps its search;
- `tokenizer.spm`: the SentencePiece model;
- `model.weights.h5`: the weights;
- `tag_dictionary.json`: a parser's tag dictionary, if it has one;
- `README.md`: the model card, if there is one.
"""

import json
import shutil
from pathlib import Path
from typing import Any, NamedTuple

from keras_transformer.data.tag_dictionary import TagDictionary
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.errors import UserError
from keras_transformer.files import whole
from keras_transformer.models.quantization import is_quantized, with_default_policy
from keras_transformer.models.transformer import Transformer
from keras_transformer.training.checkpoints import load_weights, save_weights

_FORMAT = 2
_CONFIG, _TOKENIZER, _WEIGHTS, _TAG_DICTIONARY, _CARD = (
    "config.json",
    "tokenizer.spm",
    "model.weights.h5",
    "tag_dictionary.json",
    "README.md",
)


class Preset(NamedTuple):
    """What a preset folder holds."""

    model: Transformer
    tokenizer: Tokenizer
    metadata: dict[str, Any]  # JSON values
    search: dict[str, Any] | None  # JSON values
    tag_dictionary: TagDictionary | None


def save_preset(
    path, task, model, tokenizer, metadata, card=None, search=None, tag_dictionary=None
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
    """
    config = {
        "format": _FORMAT,
        "task": task,
        "model": _hyperparameters(model),
        "metadata": metadata,
    }
    if search is not None:
        config["search"] = search
    if tag_dictionary is not None:
        config["has_tag_dictionary"] = True
    old_card = Path(path) / _CARD
    with whole(path) as folder:
        folder.mkdir()
        _write_json(folder / _CONFIG, config)
        if tag_dictionary is not None:
            _write_json(folder / _TAG_DICTIONARY, tag_dictionary.to_dict())
        if card:
            (folder / _CARD).write_text(card, "utf-8")
        elif card is None and old_card.is_file():
            shutil.copyfile(old_card, folder / _CARD)
        tokenizer.save(folder / _TOKENIZER)
        save_weights(model, folder / _WEIGHTS)


def load_preset(path, task, dtype=None):
    """Load what `save_preset` wrote, now or in the earlier format.

    Args:
        path: the folder.
        task: name of the class that wants to use it.
        dtype: dtype or dtype policy of the model.

    Returns:
        A `Preset`.

    Raises:
        UserError: if the folder or a part of it is missing or damaged, or is of another task.
    """
    path = Path(path)
    if not path.is_dir():
        raise UserError(f"There is no model folder {path}.")
    for part in (_CONFIG, _TOKENIZER, _WEIGHTS):
        _check_is_there(path, part)
    config = _read_config(path / _CONFIG)
    if config["task"] != task:
        raise UserError(f"{path} does not hold a model for {task}.")
    tag_dictionary = _tag_dictionary(path, config)
    tokenizer = Tokenizer.from_file(path / _TOKENIZER)
    model = _new_model(path, config["model"], tokenizer, dtype)
    load_weights(model, path / _WEIGHTS)
    return Preset(model, tokenizer, config["metadata"], config.get("search"), tag_dictionary)


def _check_is_there(path, part):
    if not (path / part).is_file():
        raise UserError(
            f"The model folder {path} is not whole: {part} is missing. Copy it anew, or train "
            "the model again."
        )


def _read_config(path):
    """The entries of `config.json`, as the present format has them."""
    config = _read_json(path)
    if not isinstance(config, dict) or not {"task", "model"} <= config.keys():
        raise UserError(f'{path} is damaged: it has no "task" or no "model".')
    if config.get("format") == 1:
        config = _from_format_1(config)
    elif config.get("format") != _FORMAT:
        raise UserError(
            f"{path} is of another version of keras_transformer. Expected format 1 or {_FORMAT}."
        )
    for entry in ("model", "metadata", "search"):
        if not isinstance(config.get(entry, {}), dict):
            raise UserError(f'{path} is damaged: its "{entry}" is no object of JSON.')
    if "metadata" not in config:
        raise UserError(f'{path} is damaged: it has no "metadata".')
    return config


def _from_format_1(config):
    """In the first format, metadata stood beside the task, and held the tag dictionary."""
    config = dict(config)
    entries = {name: config.pop(name) for name in ("format", "task", "model")}
    return {**entries, "tag_dictionary": config.pop("tag_dictionary", None), "metadata": config}


def _tag_dictionary(path, config):
    """The dictionary in its own file, or in a configuration of the first format."""
    part, values = _CONFIG, config.get("tag_dictionary")
    if config.get("has_tag_dictionary"):
        _check_is_there(path, _TAG_DICTIONARY)
        part, values = _TAG_DICTIONARY, _read_json(path / _TAG_DICTIONARY)
    elif values is None:
        return None
    try:
        return TagDictionary.from_dict(values)
    except UserError as error:
        raise UserError(f"{path / part} is damaged: {error}") from error


def _hyperparameters(model):
    """Those that it is made with; its dtype among them only if it says what is quantised."""
    if not is_quantized(model):
        return dict(model.hyperparameters)
    return {**model.hyperparameters, "dtype": model.get_config()["dtype"]}


def _policy(path, saved, dtype):
    """The policy that says what is quantised, with the dtype that is asked for."""
    try:
        return with_default_policy(saved, dtype)
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise UserError(
            f"{path / _CONFIG} is damaged: its model's dtype is no policy of Keras: {saved!r}"
        ) from error


def _new_model(path, hyperparameters, tokenizer, dtype):
    if "dtype" in hyperparameters:
        dtype = _policy(path, hyperparameters["dtype"], dtype)
    try:
        model = Transformer(**{**hyperparameters, "dtype": dtype})
    except (TypeError, ValueError) as error:
        raise UserError(f"{path / _CONFIG} describes no model: {error}") from error
    vocabulary_size = model.hyperparameters["vocabulary_size"]
    if vocabulary_size != tokenizer.vocabulary_size:
        raise UserError(
            f"{path}: {_CONFIG} and {_TOKENIZER} do not belong together: {vocabulary_size} and "
            f"{tokenizer.vocabulary_size} tokens."
        )
    return model


def _read_json(path):
    try:
        return json.loads(path.read_text("utf-8"))
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is damaged: {error}") from error


def _write_json(path, values):
    path.write_text(json.dumps(values, indent=2) + "\n", "utf-8")
