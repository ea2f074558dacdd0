"""List and describe presets without loading their weights: `python -m keras_transformer`."""

import logging
import re
from pathlib import Path

from keras_transformer.errors import UserError
from keras_transformer.files import read_json
from keras_transformer.presets.format import CARD, CONFIG, METADATA
from keras_transformer.presets.location import saved_models
from keras_transformer.presets.storage import read_preset

logger = logging.getLogger(__name__)

_MOST_LISTED = 8  # entries of a list that are shown
_SCORE = re.compile(r"\b(?:BLEU|F1) \d+(?:\.\d+)?")
# In the front matter of a card, as hubs read it, or among the lines of one.
_LICENCES = (
    *(r"^license_name: *(.+)$", r"^license: *(.+)$"),
    r"^- licence: *([^\n]+)$",
)
_LANGUAGE = re.compile(r"^language: *([\w-]+) *$", re.MULTILINE)


def preset_folders(folder=None):
    """The folders of presets in a folder.

    Args:
        folder: the folder. Defaults to `saved_models` beside the package.

    Returns:
        A sorted list of paths.

    Raises:
        UserError: if there is no such folder, or no preset in it.
    """
    if folder is None and not saved_models().is_dir():
        raise UserError(
            "There are no presets beside the package: `saved_models` is in a checkout, and not in "
            "what pip installs. Name a `folder` of presets."
        )
    folder = Path(folder or saved_models())
    found = sorted(path.parent for path in folder.glob(f"*/{CONFIG}"))
    if not found:
        raise UserError(f"There are no presets in {folder}.")
    return found


def summaries(paths):
    """Each preset in a line: dicts of strings. What is no whole preset is logged as a warning."""
    for path in paths:
        try:
            yield summary(path)
        except UserError as error:
            logger.warning("%s", error)


def summary(path):
    """A preset in a line: a dict of strings."""
    contents, card = read_preset(path), card_of(path)
    metadata = contents.metadata
    languages = [metadata[side] for side in ("source", "target") if side in metadata]
    size = sum(file.stat().st_size for file in Path(path).rglob("*") if file.is_file())
    return {
        "name": Path(path).name,
        "task": contents.task or "",
        "languages": "-".join(map(str, languages)) or "".join(_LANGUAGE.findall(card)[:1]),
        "parameters": f"{count:,}" if (count := _parameter_count(path)) else "",
        "size": f"{size / 1e6:.1f} MB",
        "score": score_in(card),
        "licence": licence_in(card),
    }


def details(path):
    """What a preset is made of: a dict of strings."""
    contents = read_preset(path)
    search = contents.search or {}
    prefixes = {
        f"{side} prefix": " ".join(tokens)
        for side, tokens in (("source", contents.source_prefix), ("target", contents.target_prefix))
    }
    sizes = {
        "tokens": contents.tokenizer and contents.tokenizer.vocabulary_size,
        "source tokens": contents.source_tokenizer and contents.source_tokenizer.vocabulary_size,
    }
    values = {
        **{**summary(path), "folder": path},
        **{name: size for name, size in sizes.items() if size},
        **{name: tokens for name, tokens in prefixes.items() if tokens},
        "model": listed(contents.hyperparameters),
        "metadata": listed(contents.metadata),
        "search": f"{search.get('class_name', '')} {listed(search.get('config') or {})}".strip(),
    }
    return {name: str(value) for name, value in values.items() if value}


def card_of(path):
    """The text of a preset's card, or an empty one."""
    card = Path(path) / CARD
    return card.read_text("utf-8", errors="replace") if card.is_file() else ""


def score_in(card):
    """The score that a card gives last of the test set, or first of any, such as "BLEU 40.51"."""
    of_test = _SCORE.findall("\n".join(re.findall(r"^- test\b.*$", card, re.MULTILINE)))
    return (of_test[-1:] or _SCORE.findall(card)[:1] or [""])[0]


def licence_in(card):
    for pattern in _LICENCES:
        if found := re.search(pattern, card, re.MULTILINE):
            return found[1].strip()
    return ""


def _parameter_count(path):
    file = Path(path) / METADATA
    values = read_json(file) if file.is_file() else None
    return values.get("parameter_count") if isinstance(values, dict) else None


def listed(values):
    """Return the entries of a dict that are not empty in one line, long lists cut short."""
    return ", ".join(
        f"{name}={_short(value)}" for name, value in values.items() if value not in (None, [], ())
    )


def _short(value):
    if isinstance(value, list | tuple) and len(value) > _MOST_LISTED:
        return f"[{', '.join(map(repr, value[:_MOST_LISTED]))}, ... {len(value)} in all]"
    return repr(value)
