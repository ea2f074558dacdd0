"""Parallel corpora: pairs of a sentence and its translation, streamed from text files."""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import Any
from uuid import uuid4

from keras_transformer.data.languages import LANGUAGES
from keras_transformer.data.text_cache import RESULTS, cache_key
from keras_transformer.data.text_files import (
    FilePairs,
    Pair,
    Pairs,
    aligned_lines,
    tab_separated_pairs,
    translation_units,
    uncompressed_name,
)
from keras_transformer.errors import UserError
from keras_transformer.progress import bar

# A region, a script or both may follow, as in `pt_BR` and `zh-Hans`; NLLB uses `eng_Latn`.
_REGION = re.compile(r"(?:[-_](?:[A-Z]{2}|[A-Z][a-z]{3}|\d{3}))+")
_WITH_SCRIPT = re.compile(r"[a-z]{3}_[A-Z][a-z]{3}")


class ParallelText:
    """The sentence pairs of one split of a corpus.

    Each `iter()` starts a new pass over the corpus. Files are streamed and never held in memory.
    The constructor makes one complete pass, unless `validate` is false, so that bad input is
    reported immediately and not in the middle of an epoch. Sentences are returned without their
    line end and are otherwise unchanged; blank sentences are included.

    Args:
        name: name of the corpus.
        split: name of the split, such as `"train"`.
        source_language: language code of the first sentence of each pair.
        target_language: language code of the second sentence.
        pairs: function without arguments that starts a pass by returning an iterator of rows. Or
            the rows themselves, such as a list or a Hugging Face data set; the rows of an iterator
            are held in memory. A row is a pair of strings, or a dict of strings by language code,
            alone or under `"translation"`.
        bleu_tokenize: sacreBLEU's `tokenize` option for the text: `"none"` for tokenized text, None
            for the default of the language.
        validate: whether the constructor makes a complete pass. Otherwise the first complete pass
            reports bad input and counts the pairs, which saves a pass over a large corpus.

    Attributes:
        prefix: the tags before each source, if the text is a `TaggedText`.
        tags: all tags before any source, which must be tokens of the vocabulary.
        key: a digest of all that determines the pairs, such as the state of files. Pairs that are
            not read from files have a random key.
        left_out: the number of pairs that filters removed per reason, after a complete pass.

    Raises:
        UserError: if there are no rows, a row is not a pair of strings, a pass cannot be repeated,
            or `pairs` finds bad input.

    Example:

    >>> text = load_parallel_text("synthetic", "val", source="en", target="de")
    >>> len(text)
    1000
    >>> for source, target in text: ...
    """

    prefix: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()

    def __init__(
        self,
        name: str,
        split: str,
        source_language: str,
        target_language: str,
        pairs: Pairs | Iterable[Any],
        bleu_tokenize: str | None = None,
        validate: bool = True,
    ):
        self.name = name
        self.split = split
        self.source_language = source_language
        self.target_language = target_language
        self.bleu_tokenize = bleu_tokenize
        self._pairs = _passes(pairs)
        self.key: str = getattr(pairs, "key", "") or uuid4().hex
        self.left_out: dict[str, int] = {}
        if validate and len(self) and next(iter(self), None) is None:
            raise UserError(
                f"`pairs` of {name} must start a new pass at each call. Received: a function whose "
                "second pass is empty. Return a new iterator from it, or pass the rows themselves."
            )

    @property
    def held_out(self) -> frozenset[str]:
        """The sentences of both sides that were held out of the text for other splits."""
        return frozenset(chain.from_iterable(getattr(self._pairs, "draw", tuple)()))

    @property
    def is_tagged(self) -> bool:
        """True if each source begins with a tag."""
        return bool(self.prefix)

    @classmethod
    def from_files(
        cls,
        source_path: str | PathLike,
        target_path: str | PathLike,
        source_language: str | None = None,
        target_language: str | None = None,
        name: str = "text",
        split: str | None = None,
    ) -> "ParallelText":
        """Pair the lines of two UTF-8 text files, plain or compressed by gzip, bzip2 or xz.

        Args:
            source_path: file of the source sentences, one per line.
            target_path: file of their translations.
            source_language: language code of the source. Defaults to the last part of the file name
                that is a known code, as in `train.en`, `train.en.gz` and `train.en.tok`, or else to
                the ending of the name.
            target_language: language code of the target. The default is derived in the same way.
            name: name of the corpus.
            split: name of the split. Defaults to the first part of the (source's) file name.

        Returns:
            A `ParallelText`.

        Raises:
            UserError: if a file is missing, empty or not UTF-8, if the numbers of lines differ, or
                if both file names yield the same language.
        """
        paths = Path(source_path), Path(target_path)
        languages = (
            source_language or _language(paths[0]) or "source",
            target_language or _language(paths[1]) or "target",
        )
        if languages[0] == languages[1] and not (source_language and target_language):
            raise UserError(
                f"Cannot tell the languages by the names {paths[0].name} and {paths[1].name}. "
                f"Expected two languages. Received: {languages[0]!r} for both. Pass "
                "`source_language` and `target_language`."
            )
        split = split or _stem(paths[0])
        return cls(name, split, *languages, FilePairs(aligned_lines, *paths))

    @classmethod
    def from_tsv(
        cls,
        path: str | PathLike,
        source_language: str,
        target_language: str,
        columns: tuple[int, int] | None = None,
        name: str = "text",
        split: str | None = None,
    ) -> "ParallelText":
        """Read pairs from lines of source TAB target in a UTF-8 file, plain or compressed.

        Args:
            path: the file.
            source_language: language code of the source.
            target_language: language code of the target.
            columns: indices of the columns with source and target, counted from 0. Defaults to the
                first two columns, and then a third column is an error.
            name: name of the corpus.
            split: name of the split. Defaults to the first part of the (source's) file name.

        Returns:
            A `ParallelText`.

        Raises:
            UserError: if the file is missing, empty or not UTF-8, or a line lacks a column.
        """
        pairs = FilePairs(tab_separated_pairs, Path(path), columns)
        return cls(name, split or _stem(path), source_language, target_language, pairs)

    @classmethod
    def from_tmx(
        cls,
        path: str | PathLike,
        source_language: str,
        target_language: str,
        name: str = "text",
        split: str | None = None,
    ) -> "ParallelText":
        """Read pairs from a translation memory (`.tmx`, plain or compressed), one unit at a time.

        Args:
            path: the file. Entity declarations are not supported.
            source_language: language code of the source. `"en"` also matches `en-US`.
            target_language: language code of the target.
            name: name of the corpus.
            split: name of the split. Defaults to the first part of the (source's) file name.

        Returns:
            A `ParallelText`. Units without one of the languages are skipped.

        Raises:
            UserError: if the file is missing, is not a complete TMX file, or contains no pair.
        """
        languages = source_language, target_language
        pairs = FilePairs(translation_units, Path(path), *languages)
        return cls(name, split or _stem(path), *languages, pairs)

    def __iter__(self) -> Iterator[Pair]:
        languages = self.source_language, self.target_language
        is_known, count, digest = self.key in RESULTS, 0, hashlib.sha256()
        for count, row in enumerate(self._pairs(), start=1):
            where = f"Row {count} of {self.name}"
            pair = _pair(row, languages, where)
            if not is_known:
                digest.update(_encoded(pair, where))
            yield pair
        if not is_known:
            if not count:
                raise UserError(
                    f"The split {self.split!r} of {self.name} is empty. Expected sentence pairs."
                )
            found = {"pairs": count, "sha256": digest.hexdigest(), "left_out": self.left_out}
            RESULTS[self.key] = found

    def facts(self) -> dict[str, Any]:
        """Return the number of pairs, their digest, and `left_out`, by a pass if need be."""
        if self.key not in RESULTS:
            for _ in bar("reading", "pairs", None, self):
                pass
        return RESULTS[self.key]

    def derived(self, pairs: Pairs, *how: Any) -> "ParallelText":
        """Return a text that is made from this one. Nothing is read yet.

        Args:
            pairs: function that starts a pass over its pairs.
            *how: JSON values that determine the pairs, given this text: a name and options.
        """
        text = copy(self)
        text._pairs, text.left_out = pairs, {}
        text.key = cache_key(*how, self.source_language, self.target_language, self.key)
        return text

    def __len__(self) -> int:
        return self.facts()["pairs"]

    def __repr__(self) -> str:
        direction = f"{self.source_language}-{self.target_language}"
        return f"<ParallelText {self.name} {self.split} {direction}: {len(self):,} pairs>"

    def fingerprint(self) -> str:
        """Return the SHA-256 (hex) of all sentences in order, which identifies the pairs."""
        return self.facts()["sha256"]


def as_parallel_text(pairs: Any, split: str) -> ParallelText:
    """Return a `ParallelText` unchanged, or make one from rows.

    Args:
        pairs: a `ParallelText`, or rows such as a list of pairs of strings.
        split: name of the split of new texts.

    Returns:
        A `ParallelText`.

    Raises:
        UserError: if a row is not a pair of strings.
    """
    if isinstance(pairs, ParallelText):
        return pairs
    return ParallelText("text", split, "source", "target", _passes(pairs, split))


def _stem(path: str | PathLike) -> str:
    return Path(path).name.split(".")[0]


def _language(path: Path) -> str:
    """Return the language in a file's name, or "" if the name has neither a code nor an ending."""
    parts = uncompressed_name(path).split(".")
    ending = parts[-1] if len(parts) > 1 else ""
    return next(filter(_is_language, reversed(parts)), ending)


def _is_language(part: str) -> bool:
    base, region = part[:2].lower(), part[2:]
    is_code = base in LANGUAGES and (not region or _REGION.fullmatch(region))
    return bool(is_code or _WITH_SCRIPT.fullmatch(part))


def _passes(
    pairs: Callable[[], Iterable[Any]] | Iterable[Any], argument: str = "pairs"
) -> Callable[[], Iterable[Any]]:
    """Return the function that starts a pass over rows, given that function or the rows."""
    if callable(pairs):
        return pairs
    if isinstance(pairs, str | bytes | Mapping) or not isinstance(pairs, Iterable):
        raise UserError(
            f"`{argument}` must be pairs of strings: a `ParallelText`, a list of tuples or another "
            f"iterable of rows. Received: {argument}={_shown(pairs)}"
        )
    rows = list(pairs) if isinstance(pairs, Iterator) else pairs
    return lambda: iter(rows)


def _pair(row: Any, languages: tuple[str, str], where: str) -> Pair:
    """Return the two strings of a row."""
    pair = row
    if isinstance(row, Mapping):
        texts = row.get("translation", row)
        if not isinstance(texts, Mapping) or not {*languages} <= texts.keys():
            raise UserError(
                f"{where} must have the language codes of its `ParallelText` as keys, "
                f"{languages[0]!r} and {languages[1]!r}. Received: {_shown(row)}"
            )
        pair = tuple(texts[language] for language in languages)
    if (
        not isinstance(pair, tuple | list)
        or len(pair) != 2
        or not all(isinstance(sentence, str) for sentence in pair)
    ):
        raise UserError(
            f"{where} must be a pair of strings, or a dict of them by language. Received: "
            f"{_shown(row)}"
        )
    return pair[0], pair[1]


def _shown(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 200 else f"{text[:200]}..."


def _encoded(pair: Pair, where: str) -> bytes:
    try:
        return f"{pair[0]}\n{pair[1]}\n".encode()
    except UnicodeEncodeError as error:
        raise UserError(
            f"{where} must be valid Unicode ({error.reason}). Received: {_shown(pair)}"
        ) from None
