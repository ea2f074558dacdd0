"""List and describe presets without loading their weights: `keras-transformer list`."""

import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from keras_transformer.errors import UserError
from keras_transformer.files import read_json
from keras_transformer.presets.location import CARD, CONFIG, METADATA
from keras_transformer.presets.storage import read_preset

logger = logging.getLogger(__name__)

_MOST_LISTED = 8  # the largest number of entries of a list to show
_SCORE = re.compile(r"\b(?:BLEU|F1) \d+(?:\.\d+)?")
# Front matter, which hubs read: its fields, each with a value or a list of values.
_FRONT = re.compile(r"---[ \t]*\n(.*?\n)---[ \t]*(?:\n|$)", re.DOTALL)
_LICENSE_FIELD = re.compile(r"^(license_name|license):(.*(?:\n *- .*)*)$", re.MULTILINE)
_LICENSE_LINE = re.compile(r"^- license: *(.+)$", re.MULTILINE | re.IGNORECASE)
_LANGUAGE = re.compile(r"^language: *([\w-]+) *$", re.MULTILINE)


def preset_folders(folder: str | Path) -> list[Path]:
    """Return a sorted list of the paths of the presets in a folder."""
    return sorted(path.parent for path in Path(folder).glob(f"*/{CONFIG}"))


def summaries(paths: Iterable[str | Path]) -> Iterator[dict[str, str]]:
    """Yield one `summary` per preset, and log a warning for each incomplete preset."""
    for path in paths:
        try:
            yield summary(path)
        except UserError as error:
            logger.warning("%s", error)


def summary(path: str | Path) -> dict[str, str]:
    """Return a short description of a preset, as a dict of strings."""
    contents, card = read_preset(path), read_card(path)
    metadata = contents.metadata
    languages = [metadata[side] for side in ("source", "target") if side in metadata]
    return {
        "name": metadata.get("converted_from") or Path(path).name,
        "task": contents.task or "",
        "languages": "-".join(map(str, languages)) or "".join(_LANGUAGE.findall(card)[:1]),
        "parameters": f"{count:,}" if (count := _parameter_count(path)) else "",
        "size": format_size(path),
        "score": score_in(card),
        "license": license_in(card),
    }


def format_size(folder: str | Path) -> str:
    """Return the size of all files in a folder, such as "4.9 MB"."""
    size = sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file())
    return f"{size / 1e6:.1f} MB"


def details(path: str | Path) -> dict[str, str]:
    """Return a full description of a preset, as a dict of strings."""
    contents = read_preset(path)
    search, preprocessor = contents.search or {}, contents.preprocessor
    text_side = {}
    if preprocessor is not None:
        text_side["tokens"] = preprocessor.tokenizer.vocabulary_size
        if preprocessor.source_tokenizer is not preprocessor.tokenizer:
            text_side["source tokens"] = preprocessor.source_tokenizer.vocabulary_size
        text_side["source prefix"] = " ".join(preprocessor.source_prefix)
        text_side["target prefix"] = " ".join(preprocessor.target_prefix)
    values = {
        **{**summary(path), "folder": path},
        **text_side,
        "model": listed(contents.hyperparameters),
        "metadata": listed(contents.metadata),
        "search": f"{search.get('class_name', '')} {listed(search.get('config') or {})}".strip(),
    }
    return {name: str(value) for name, value in values.items() if value}


def read_card(path: str | Path) -> str:
    """Return the text of a preset's card, or an empty string."""
    card = Path(path) / CARD
    return card.read_text("utf-8", errors="replace") if card.is_file() else ""


def score_in(card: str) -> str:
    """Return the score of a model from its card, such as "BLEU 40.51".

    It is the last score of the test set, or else the first score of any set.
    """
    of_test = _SCORE.findall("\n".join(re.findall(r"^- test\b.*$", card, re.MULTILINE)))
    return (of_test[-1:] or _SCORE.findall(card)[:1] or [""])[0]


def license_in(card: str) -> str:
    """Return the license that a card names, in its front matter or in a line, or an empty string.

    The name of a license that hubs do not know (`license: other`) is its `license_name`.
    """
    front = _FRONT.match(card)
    fields = dict(_LICENSE_FIELD.findall(front[1] if front else ""))
    for name in ("license_name", "license"):
        values = re.split(r"[,\n]", fields.get(name, "").strip(" []"))
        values = [re.sub(r"\s#.*", "", value).strip("-'\" \t") for value in values]
        if found := ", ".join(filter(None, values)):
            return found
    line = _LICENSE_LINE.search(card)
    return line[1].strip() if line else ""


def _parameter_count(path: str | Path) -> int | None:
    file = Path(path) / METADATA
    values = read_json(file) if file.is_file() else None
    return values.get("parameter_count") if isinstance(values, dict) else None


def listed(values: Mapping[str, Any]) -> str:
    """Return the entries of a dict that are not empty in one line, long lists cut short."""
    return ", ".join(
        f"{name}={_short(value)}" for name, value in values.items() if value not in (None, [], ())
    )


def _short(value: Any) -> str:
    if isinstance(value, list | tuple) and len(value) > _MOST_LISTED:
        return f"[{', '.join(map(repr, value[:_MOST_LISTED]))}, ... {len(value)} in all]"
    return repr(value)
