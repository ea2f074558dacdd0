"""Presets of before they were KerasHub's: `config.json` of format 1 or 2, and `tokenizer.spm`.

In format 2, `metadata` and `search` are entries of their own in `config.json`, beside `task` and
`model`. In format 1, metadata stood beside them, and held a parser's tag dictionary.
"""

from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.errors import UserError
from keras_transformer.files import read_json
from keras_transformer.presets.format import Contents
from keras_transformer.presets.preset_files import (
    CONFIG,
    TAG_DICTIONARY,
    check_is_there,
    check_objects,
)

_FORMATS = (1, 2)
_TOKENIZER = "tokenizer.spm"


def read_earlier_contents(path, config):
    """What an earlier version of the package wrote.

    Args:
        path: the folder.
        config: what is in its `config.json`.

    Raises:
        UserError: if a file is damaged or missing.
    """
    config = _checked(path / CONFIG, config)
    check_is_there(path, _TOKENIZER)
    hyperparameters = dict(config["model"])
    dtype = hyperparameters.pop("dtype", None)
    tokenizer = Tokenizer.from_file(path / _TOKENIZER)
    contents = Contents(
        config["task"],
        hyperparameters,
        dtype,
        config["metadata"],
        config.get("search"),
        tokenizer,
        source_tokenizer=None,
    )
    if config.get("has_tag_dictionary"):
        check_is_there(path, TAG_DICTIONARY)
        return contents._replace(tag_dictionary=read_json(path / TAG_DICTIONARY))
    return contents._replace(
        tag_dictionary=config.get("tag_dictionary"), tag_dictionary_file=CONFIG
    )


def _checked(path, config):
    """The entries of `config.json`, as format 2 has them."""
    if not isinstance(config, dict) or not {"task", "model"} <= config.keys():
        raise UserError(
            f"{path} is damaged, or of no model of keras_transformer: it has neither a "
            '"registered_name" nor a "task" and a "model".'
        )
    if config.get("format") not in _FORMATS:
        raise UserError(
            f"{path} is of another version of keras_transformer. Expected format 1 or 2, or "
            "KerasHub's form."
        )
    if config["format"] == 1:
        config = _from_format_1(config)
    check_objects(path, config, "model", "metadata", "search")
    if "metadata" not in config:
        raise UserError(f'{path} is damaged: it has no "metadata".')
    return config


def _from_format_1(config):
    config = dict(config)
    entries = {name: config.pop(name) for name in ("format", "task", "model")}
    return {**entries, "tag_dictionary": config.pop("tag_dictionary", None), "metadata": config}
