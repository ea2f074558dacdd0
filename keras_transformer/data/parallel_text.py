"""Parallel corpora: pairs of a sentence and its translation, streamed from text files."""

import hashlib
from collections.abc import Iterable, Iterator
from functools import partial
from os import PathLike
from pathlib import Path

from keras_transformer.data.text_files import (
    Pair,
    Pairs,
    aligned_lines,
    tab_separated_pairs,
)
from keras_transformer.data.tmx import translation_units
from keras_transformer.errors import UserError


class ParallelText:
    """The sentence pairs of one split of a corpus.

    Every `iter()` starts a new pass over the corpus; files are streamed, never held in memory.
    Creating the object makes one whole pass, so that bad input is reported at once and not in the
    middle of an epoch. Sentences come without their line end and are otherwise as they are in the
    corpus: blank ones are not left out.

    Args:
        name: name of the corpus.
        split: name of the split, such as `"train"`.
        source_language: language code of the first sentence of each pair.
        target_language: language code of the second.
        pairs: function without arguments that starts a pass: returns an iterator of pairs.
        bleu_tokenize: sacreBLEU's `tokenize` option for the text: `"none"` where it is tokenised
            already, None for the one that fits the language.

    Attributes:
        prefix: the tags that are before each source: of a `TaggedText`.
        tags: all tags that are before any source: symbols that a vocabulary must have.

    Raises:
        UserError: if there are no pairs, or by `pairs` where it finds bad input.

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
        pairs: Pairs,
        bleu_tokenize: str | None = None,
    ):
        self.name = name
        self.split = split
        self.source_language = source_language
        self.target_language = target_language
        self.bleu_tokenize = bleu_tokenize
        self._pairs = pairs
        self._length, self._fingerprint = _count_and_digest(pairs())
        if self._length == 0:
            raise UserError(f"The split {split!r} of {name} is empty: it holds no sentence pair.")

    @property
    def is_tagged(self) -> bool:
        """Whether each source has a tag."""
        return bool(self.prefix)

    @classmethod
    def from_files(
        cls,
        source_path: str | PathLike,
        target_path: str | PathLike,
        source_language: str | None = None,
        target_language: str | None = None,
        name: str = "text",
        split: str = "train",
    ) -> "ParallelText":
        """Pairs the lines of two UTF-8 text files, plain or gzip (`.gz`).

        Args:
            source_path: file of the source sentences, one a line.
            target_path: file of their translations.
            source_language: language code of the source. Defaults to the ending of the file's name:
                `"en"` of `train.en` or `train.en.gz`.
            target_language: language code of the target, likewise.
            name: name of the corpus.
            split: name of the split.

        Returns:
            A `ParallelText`.

        Raises:
            UserError: if a file is missing, empty or not UTF-8, or if their line counts differ.
        """
        source_path, target_path = Path(source_path), Path(target_path)
        return cls(
            name,
            split,
            source_language or _language(source_path) or "source",
            target_language or _language(target_path) or "target",
            partial(aligned_lines, source_path, target_path),
        )

    @classmethod
    def from_tsv(
        cls,
        path: str | PathLike,
        source_language: str,
        target_language: str,
        columns: tuple[int, int] | None = None,
        name: str = "text",
        split: str = "train",
    ) -> "ParallelText":
        """Reads pairs from a file of lines source TAB target, UTF-8, plain or gzip (`.gz`).

        Args:
            path: the file.
            source_language: language code of the source.
            target_language: language code of the target.
            columns: which columns hold source and target, counted from 0. None: the first and the
                second, and there must be no third.
            name: name of the corpus.
            split: name of the split.

        Returns:
            A `ParallelText`.

        Raises:
            UserError: if the file is missing, empty or not UTF-8, or a line lacks a column.
        """
        pairs = partial(tab_separated_pairs, Path(path), columns)
        return cls(name, split, source_language, target_language, pairs)

    @classmethod
    def from_tmx(
        cls,
        path: str | PathLike,
        source_language: str,
        target_language: str,
        name: str = "text",
        split: str = "train",
    ) -> "ParallelText":
        """Reads pairs from a translation memory (`.tmx`, `.tmx.gz`), unit by unit.

        Args:
            path: the file. One that declares entities is refused.
            source_language: language code of the source: `"en"` finds `en-US` too.
            target_language: language code of the target.
            name: name of the corpus.
            split: name of the split.

        Returns:
            A `ParallelText`. Units that lack one of the languages are no pairs.

        Raises:
            UserError: if the file is missing, no whole TMX file, or without a pair.
        """
        languages = source_language, target_language
        pairs = partial(translation_units, Path(path), *languages)
        return cls(name, split, *languages, pairs)

    def __iter__(self) -> Iterator[Pair]:
        return iter(self._pairs())

    def __len__(self) -> int:
        return self._length

    def __repr__(self) -> str:
        direction = f"{self.source_language}-{self.target_language}"
        return f"<ParallelText {self.name} {self.split} {direction}: {len(self):,} pairs>"

    def fingerprint(self) -> str:
        """SHA-256 (hex) of all sentences in order: equal exactly where the pairs are equal."""
        return self._fingerprint


def _language(path: Path) -> str:
    return path.with_suffix("").suffix[1:] if path.suffix == ".gz" else path.suffix[1:]


def _count_and_digest(pairs: Iterable[Pair]) -> tuple[int, str]:
    count, digest = 0, hashlib.sha256()
    for source, target in pairs:
        count += 1
        digest.update(f"{source}\n{target}\n".encode())
    return count, digest.hexdigest()
