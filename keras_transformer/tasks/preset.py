"""A preset: a folder with a trained model and all it takes to use it, on any backend.

- `config.json`: what the model is for, and its hyperparameters;
- `tokenizer.spm`: the SentencePiece model;
- `model.weights.h5`: the weights;
- `README.md`: the model card.
"""

import json
from pathlib import Path

from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.files import whole
from keras_transformer.models.transformer import Transformer
from keras_transformer.training.checkpoints import load_weights, save_weights

_FORMAT = 1
_CONFIG, _TOKENIZER, _WEIGHTS, _CARD = (
    "config.json",
    "tokenizer.spm",
    "model.weights.h5",
    "README.md",
)


def save_preset(path, task, model, tokenizer, metadata, card):
    """Write a preset folder: whole, or not at all.

    Args:
        path: the folder; one that stands there already is replaced.
        task: name of the class that uses the preset, such as `"Translator"`.
        model: a `Transformer`.
        tokenizer: a `Tokenizer`.
        metadata: dict of JSON values, such as the languages.
        card: text of the model card, in Markdown.
    """
    hyperparameters = dict(model.hyperparameters)
    config = {"format": _FORMAT, "task": task, **metadata, "model": hyperparameters}
    with whole(path) as folder:
        folder.mkdir()
        (folder / _CONFIG).write_text(json.dumps(config, indent=2) + "\n", "utf-8")
        (folder / _CARD).write_text(card, "utf-8")
        tokenizer.save(folder / _TOKENIZER)
        save_weights(model, folder / _WEIGHTS)


def load_preset(path, task, dtype=None):
    """Load what `save_preset` wrote.

    Args:
        path: the folder.
        task: name of the class that wants to use it.
        dtype: dtype or dtype policy of the model.

    Returns:
        The tuple `(model, tokenizer, metadata)`.

    Raises:
        ValueError: if the folder or a part of it is missing or damaged, or is of another task.
    """
    path = Path(path)
    if not path.is_dir():
        raise ValueError(f"There is no model folder {path}.")
    for part in (_CONFIG, _TOKENIZER, _WEIGHTS):
        if not (path / part).is_file():
            raise ValueError(
                f"The model folder {path} is not whole: {part} is missing. Copy it anew, or train "
                "the model again."
            )
    config = _read_config(path / _CONFIG)
    if config.pop("task") != task:
        raise ValueError(f"{path} does not hold a model for {task}.")
    tokenizer = Tokenizer.from_file(path / _TOKENIZER)
    try:
        model = Transformer(**config.pop("model"), dtype=dtype)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path / _CONFIG} describes no model: {error}") from error
    vocabulary_size = model.hyperparameters["vocabulary_size"]
    if vocabulary_size != tokenizer.vocabulary_size:
        raise ValueError(
            f"{path}: {_CONFIG} and {_TOKENIZER} do not belong together: {vocabulary_size} and "
            f"{tokenizer.vocabulary_size} tokens."
        )
    load_weights(model, path / _WEIGHTS)
    return model, tokenizer, config


def _read_config(path):
    try:
        config = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is damaged: {error}") from error
    if not isinstance(config, dict) or not {"task", "model"} <= config.keys():
        raise ValueError(f'{path} is damaged: it has no "task" or no "model".')
    if config.pop("format", None) != _FORMAT:
        raise ValueError(
            f"{path} is of another version of keras_transformer. Expected format {_FORMAT}."
        )
    return config
