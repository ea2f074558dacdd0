"""Message catalogs as a parallel corpus: what programs say, and how it was translated."""

import logging
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from keras_transformer.data.gettext_files import read_catalog
from keras_transformer.data.gettext_messages import clean_message
from keras_transformer.data.text_files import (
    Pair,
    Pairs,
    check_folder,
    find_files,
    tab_separated_pairs,
)
from keras_transformer.data.train_val_split import with_held_out
from keras_transformer.errors import UserError

logger = logging.getLogger(__name__)

SYSTEM = Path("/usr/share/locale")
ENGLISH = "en"  # what programs are written in: the language of the keys

_FILES = {"train": "train.tsv", "val": "dev.tsv", "test": "test.tsv"}
# Which catalogs are of a language whose name says no script.
_SAME = {"zh": ("zh_cn", "zh_hans")}


def open_catalogs(
    split: str, source: str, target: str, data_dir: Path | None, hold_out: bool
) -> Pairs:
    """Returns the function that starts a pass over the pairs of a split.

    Files `en-XX/train.tsv`, `dev.tsv` and `test.tsv` of lines English TAB XX go before catalogs.
    With `hold_out`, `"train"` lacks what is held out for splits that have no files.

    Raises:
        UserError: if there is no message in both languages, or a catalog is damaged.
    """
    files = {name: _prepared(data_dir, name, source, target) for name in _FILES}
    if files[split] and split != "train":
        return files[split]
    whole = files["train"]
    if whole is None:
        pairs = catalog_pairs(_folder(data_dir), source, target)
        whole = partial(iter, pairs)
    missing = [name for name in ("val", "test") if not files[name]]
    if not missing or (split == "train" and not hold_out):
        return whole
    # By the English messages; or those of one language, in both directions the same.
    languages = [source, target]
    key = languages.index(ENGLISH if ENGLISH in languages else min(languages))
    return with_held_out(whole, split, missing, key)


def catalog_pairs(folder: Path, source: str, target: str) -> list[Pair]:
    """The distinct pairs of messages in the catalogs of a folder.

    A catalog is a `.mo` or `.po` of which the name, or that of a folder that holds it, is its
    language: `de/LC_MESSAGES/git.mo`, `po/de.po`. Messages are those of English with their
    translations; of two other languages, what both translate the same message to.

    Args:
        folder: the folder, whose subfolders are read too.
        source: language code of the first side, such as `"en"`, `"de"`, `"zh_CN"`; `"zh"` is the
            latter, and a language finds its own country, as `"fr"` does `fr_FR`.
        target: language code of the second.

    Raises:
        UserError: if there are no catalogs of a language, no messages in both, or one is damaged.
    """
    sides = [_messages(folder, language) for language in (source, target)]
    if source == ENGLISH:
        pairs = sides[1].values()
    elif target == ENGLISH:
        pairs = (pair[::-1] for pair in sides[0].values())
    else:
        pairs = ((text, sides[1][key][1]) for key, (_, text) in sides[0].items() if key in sides[1])
    pairs = list(dict.fromkeys(pairs))
    if not pairs:
        raise UserError(f"The catalogs in {folder} have no message in both {source} and {target}.")
    logger.info("%s messages in %s and %s", f"{len(pairs):,}", source, target)
    return pairs


def _messages(folder: Path, language: str) -> dict[tuple, Pair]:
    """(English, translation) by the catalog's place, whatever its language, and the key there."""
    messages = {}
    if language == ENGLISH:
        return messages
    catalogs = [path for path in _all_catalogs(folder) if _is_of(path, folder, language)]
    if not catalogs:
        raise UserError(
            f"There are no catalogs of {language} in {folder}. Expected files such as "
            f"{language}/LC_MESSAGES/NAME.mo or {language}.po." + _hint(folder, language)
        )
    for path in catalogs:
        place = tuple(name for name in _names(path, folder) if not _is_same(name, language))
        for message in read_catalog(path):
            if pair := clean_message(message.english, message.translation):
                messages[place, message.key] = pair
    return messages


def _hint(folder: Path, language: str) -> str:
    begins = _code(language).partition("_")[0] + "_"
    names = {name for path in _all_catalogs(folder) for name in _names(path, folder)}
    near = sorted(name for name in names if _code(name).startswith(begins))
    return f" There are: {', '.join(near)}." if near else ""


def _all_catalogs(folder: Path) -> Iterator[Path]:
    return iter(sorted(path for end in ("mo", "po") for path in folder.rglob(f"*.{end}")))


def _names(path: Path, folder: Path) -> list[str]:
    """The names that may say of which language a catalog is."""
    *folders, name = path.relative_to(folder).parts
    return [*folders, *Path(name).stem.split(".")]


def _is_of(path: Path, folder: Path, language: str) -> bool:
    return any(_is_same(name, language) for name in _names(path, folder))


def _is_same(name: str, language: str) -> bool:
    name, wanted = _code(name), _code(language)
    return name in (wanted, f"{wanted}_{wanted}", *_SAME.get(wanted, ()))


def _code(language: str) -> str:
    return language.lower().replace("-", "_")


def _folder(data_dir: Path | None) -> Path:
    if data_dir is None:
        data_dir = SYSTEM
    check_folder(data_dir)
    own = data_dir / "catalogs"
    return own if own.is_dir() else data_dir


def _prepared(data_dir: Path | None, split: str, source: str, target: str) -> Pairs | None:
    other = source if target == ENGLISH else target
    paths = find_files(data_dir, "catalogs", [f"{ENGLISH}-{other}/{_FILES[split]}"])
    if not paths or ENGLISH not in (source, target):
        return None
    pairs = partial(tab_separated_pairs, *paths, expected=f"English TAB {other}")
    return pairs if source == ENGLISH else lambda: (pair[::-1] for pair in pairs())
