"""The tokenizers that a preset may hold: `NAME.json` says which class it is, `assets/NAME/` has it.

NAME is "tokenizer", and "source_tokenizer" for that of the source, where it has its own.
"""

import importlib
from pathlib import PurePosixPath

from keras_transformer.errors import UserError
from keras_transformer.files import read_json
from keras_transformer.presets.preset_files import check_is_there, write_json

TOKENIZER, SOURCE_TOKENIZER = "tokenizer", "source_tokenizer"

# A class's name in a preset -> where the class is, and the file that it `save`s and is made
# `from_file`. A preset is of these alone: no other class is looked for.
_CLASSES = {
    "TransformerTokenizer": ("data.tokenizer", "Tokenizer", "vocabulary.spm"),
    "MosesTokenizer": ("data.moses_tokenizer", "MosesTokenizer", "vocabulary.json"),
}


def write_tokenizer(folder, name, tokenizer):
    """Write one tokenizer of a preset.

    Args:
        folder: path of the preset folder.
        name: `TOKENIZER` or `SOURCE_TOKENIZER`.
        tokenizer: a `Tokenizer`, or another of the classes above.

    Returns:
        What its JSON file holds.

    Raises:
        UserError: if it is of no such class.
    """
    class_name, file_name = _name_of(tokenizer)
    values = {
        "module": "keras_transformer.hub",
        "class_name": class_name,
        "config": {"config_file": f"{name}.json"},
        "registered_name": f"keras_transformer>{class_name}",
    }
    write_json(folder / f"{name}.json", values)
    tokenizer.save(folder / "assets" / name / file_name)
    return values


def _name_of(tokenizer):
    bases = {f"{base.__module__}.{base.__name__}" for base in type(tokenizer).__mro__}
    for class_name, (module, python_name, file_name) in _CLASSES.items():
        if f"keras_transformer.{module}.{python_name}" in bases:
            return class_name, file_name
    raise UserError(
        f"A preset can hold no {type(tokenizer).__name__}. Expected a tokenizer of one of the "
        f"classes {', '.join(name for _, name, _ in _CLASSES.values())}."
    )


def read_tokenizer(path, name):
    """Read one tokenizer of a preset.

    Args:
        path: the preset folder.
        name: `TOKENIZER` or `SOURCE_TOKENIZER`.

    Raises:
        UserError: if a file is missing or damaged, or of another class.
    """
    check_is_there(path, f"{name}.json")
    values = read_json(path / f"{name}.json")
    registered_name = values.get("registered_name") if isinstance(values, dict) else None
    _, _, class_name = str(registered_name).rpartition("keras_transformer>")
    if class_name not in _CLASSES:
        known = ", ".join(f"'keras_transformer>{x}'" for x in _CLASSES)
        raise UserError(
            f"{path / name}.json is of the class {registered_name!r}. Expected one of {known}."
        )
    module, python_name, file_name = _CLASSES[class_name]
    asset = str(PurePosixPath("assets", name, file_name))
    check_is_there(path, asset)
    tokenizer_class = getattr(importlib.import_module(f"keras_transformer.{module}"), python_name)
    return tokenizer_class.from_file(path / asset)
