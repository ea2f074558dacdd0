"""The files of a preset folder, and what is said of one that is missing or damaged."""

import json

from keras_transformer.errors import UserError

CONFIG, METADATA, WEIGHTS = "config.json", "metadata.json", "model.weights.h5"
TASK, PREPROCESSOR = "task.json", "preprocessor.json"
TAG_DICTIONARY, CARD = "tag_dictionary.json", "README.md"
# In place of the weights, if there are more than 10 GB of them: a list of several files.
SHARDS = "model.weights.json"
# All that a preset has, or had in an earlier version, and what may have been made of it in it.
PARTS = (CONFIG, METADATA, TASK, PREPROCESSOR, TAG_DICTIONARY, CARD, SHARDS, "*.weights.h5")
PARTS += ("*tokenizer.json", "tokenizer.spm", "assets", "saved_model")


def check_is_there(path, part):
    if not (path / part).is_file():
        raise UserError(
            f"The model folder {path} is not whole: {part} is missing. Copy it anew, or train "
            "the model again."
        )


def write_json(path, values):
    path.write_text(json.dumps(values, indent=2) + "\n", "utf-8")


def check_objects(path, config, *names):
    """Raise a `UserError` if an entry of a configuration is there, and no object of JSON."""
    for name in names:
        if not isinstance(config.get(name), dict | None):
            raise UserError(f'{path} is damaged: its "{name}" is no object of JSON.')
