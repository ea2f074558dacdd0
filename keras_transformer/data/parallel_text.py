"""Parallel corpora: pairs of a sentence and its translation, streamed from text files."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from os import PathLike
from pathlib import Path
from types import MappingProxyType

from keras_transformer.data.download import fetch_multi30k, fetch_newstest
from keras_transformer.data.tatoeba import DEV, TRAIN, open_tatoeba
from keras_transformer.data.text_files import (
    Pair,
    aligned_lines,
    check_choice,
    find_files,
    missing_files,
)
from keras_transformer.errors import UserError

_Pairs = Callable[[], Iterable[Pair]]  # Starts a pass over a corpus.

SYNTHETIC_SIZES = MappingProxyType({"train": 40_000, "val": 1_000, "test": 1_000})
SYNTHETIC_SEED = 0


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

    Raises:
        UserError: if there are no pairs, or by `pairs` where it finds bad input.

    Example:

    >>> text = load_parallel_text("synthetic", "val", source="en", target="de")
    >>> len(text)
    1000
    >>> for source, target in text: ...
    """

    def __init__(
        self,
        name: str,
        split: str,
        source_language: str,
        target_language: str,
        pairs: _Pairs,
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


def load_parallel_text(
    dataset: str,
    split: str,
    source: str = "en",
    target: str = "de",
    data_dir: str | PathLike | None = None,
) -> ParallelText:
    """Loads one split of a corpus by name.

    | Name | Corpus | Files in `data_dir` | Without them |
    |---|---|---|---|
    | `multi30k` | captions, cased | `train.en`, `val.en`, `test_2016_flickr.en`, … | fetched |
    | `multi30k.lc.norm.tok` | lowercased, tokenised | `train.lc.norm.tok.en`, … | fetched |
    | `tatoeba` | short sentences | `train.tsv`, `dev.tsv` (English TAB German) | an error |
    | `wmt14` | news and more | `train.en`, `train.de`, … | test sets by sacreBLEU |
    | `text` | any pair of files | `{split}.{language}` | an error |
    | `synthetic` | the built-in grammar | none | always generated |

    The files may lie in `data_dir` or in a folder `multi30k`, `tatoeba`, `wmt14` or `text` in it.
    Multi30k's `test` is test_2016_flickr. Tatoeba's `dev.tsv` is cut into `val` and `test`, and
    what shares a sentence with it is left out of `train`, so that no sentence is on two sides.
    WMT's `val` is newstest2013 and its `test` the whole newstest2014: files named `val.en` or
    `newstest2013.en` and so on if there are any, else sacreBLEU's.

    Args:
        dataset: a name from the table (the keys of `DATASETS`).
        split: `"train"`, `"val"` or `"test"`; for `text` the stem of any pair of files.
        source: language code of the source.
        target: language code of the target.
        data_dir: folder that holds the corpora.

    Returns:
        A `ParallelText`.

    Raises:
        UserError: if an argument or a file is wrong, or a download fails.
    """
    corpus = _corpus(dataset)
    check_choice("split", split, corpus.splits)
    check_choice("source", source, corpus.languages)
    check_choice("target", target, corpus.languages)
    if source == target:
        raise UserError(
            f"`source` and `target` must be two languages. Received: source=target={source!r}"
        )
    folder = None if data_dir is None else Path(data_dir)
    pairs = corpus.open(_Request(split, source, target, folder))
    return ParallelText(dataset, split, source, target, pairs, corpus.bleu_tokenize)


def bleu_tokenize(dataset: str) -> str | None:
    """Returns sacreBLEU's `tokenize` option for a corpus: `"none"` where it is tokenised already,
    and None for the one that fits the language.

    Args:
        dataset: a key of `DATASETS`.

    Returns:
        The name of a tokenizer or None, as `score_translations` takes it.

    Raises:
        UserError: if the corpus is unknown.
    """
    return _corpus(dataset).bleu_tokenize


@dataclass(frozen=True)
class _Request:
    split: str
    source: str
    target: str
    data_dir: Path | None

    def files(self, stem: str) -> list[str]:
        return [f"{stem}.{self.source}", f"{stem}.{self.target}"]


def _open_multi30k(form: str, wanted: _Request) -> _Pairs:
    stem = "test_2016_flickr" if wanted.split == "test" else wanted.split
    names = wanted.files(stem + form)
    paths = find_files(wanted.data_dir, "multi30k", names) or [
        fetch_multi30k(name) for name in names
    ]
    return partial(aligned_lines, *paths)


def _open_tatoeba(wanted: _Request) -> _Pairs:
    needed = TRAIN if wanted.split == "train" else DEV
    paths = {name: find_files(wanted.data_dir, "tatoeba", [name]) for name in (TRAIN, DEV)}
    if not paths[needed]:
        raise missing_files(
            wanted.data_dir,
            "tatoeba",
            [needed],
            "Expected lines of English TAB German. The sentences are at "
            "https://www.manythings.org/anki/deu-eng.zip (keep the first two columns).",
        )
    train, dev = (found[0] if found else None for found in paths.values())
    pairs = open_tatoeba(wanted.split, train, dev)
    return pairs if wanted.source == "en" else lambda: ((de, en) for en, de in pairs())


def _open_wmt14(wanted: _Request) -> _Pairs:
    stems = {"val": ["val", "newstest2013"], "test": ["test", "newstest2014"]}
    for stem in stems.get(wanted.split, [wanted.split]):
        if paths := find_files(wanted.data_dir, "wmt14", wanted.files(stem)):
            return partial(aligned_lines, *paths)
    if wanted.split == "train":
        raise missing_files(
            wanted.data_dir,
            "wmt14",
            wanted.files("train"),
            "Expected the training text, one sentence a line; its parts are at "
            "https://www.statmt.org/wmt14/translation-task.html.",
        )
    return partial(aligned_lines, *fetch_newstest(wanted.split, wanted.source, wanted.target))


def _open_text(wanted: _Request) -> _Pairs:
    names = wanted.files(wanted.split)
    paths = find_files(wanted.data_dir, "text", names)
    if not paths:
        raise missing_files(wanted.data_dir, "text", names, "Expected one sentence a line.")
    return partial(aligned_lines, *paths)


def _open_synthetic(wanted: _Request) -> _Pairs:
    return partial(_synthetic_pairs, wanted.split, wanted.source)


@dataclass(frozen=True)
class _Corpus:
    """What is fixed about a corpus; None allows any language or split."""

    open: Callable[[_Request], _Pairs]
    languages: tuple[str, ...] | None = None
    splits: tuple[str, ...] | None = ("train", "val", "test")
    bleu_tokenize: str | None = None


DATASETS: Mapping[str, _Corpus] = MappingProxyType(
    {
        "multi30k": _Corpus(partial(_open_multi30k, ""), ("en", "de", "fr")),
        "multi30k.lc.norm.tok": _Corpus(
            partial(_open_multi30k, ".lc.norm.tok"), ("en", "de", "fr"), bleu_tokenize="none"
        ),
        "tatoeba": _Corpus(_open_tatoeba, ("en", "de")),
        "wmt14": _Corpus(_open_wmt14),
        "text": _Corpus(_open_text, splits=None),
        "synthetic": _Corpus(_open_synthetic, ("en", "de")),
    }
)


def _corpus(dataset: str) -> _Corpus:
    check_choice("dataset", dataset, DATASETS)
    return DATASETS[dataset]


def _language(path: Path) -> str:
    return path.with_suffix("").suffix[1:] if path.suffix == ".gz" else path.suffix[1:]


def _count_and_digest(pairs: Iterable[Pair]) -> tuple[int, str]:
    count, digest = 0, hashlib.sha256()
    for source, target in pairs:
        count += 1
        digest.update(f"{source}\n{target}\n".encode())
    return count, digest.hexdigest()


@cache  # Drawing sentences takes longer than reading them, and they are few.
def _english_german(split: str) -> tuple[Pair, ...]:
    from keras_transformer.data import synthetic

    examples = synthetic.generate(split, SYNTHETIC_SIZES[split], seed=SYNTHETIC_SEED)
    return tuple((example.english, example.german) for example in examples)


def _synthetic_pairs(split: str, source: str) -> Iterator[Pair]:
    for english, german in _english_german(split):
        yield (english, german) if source == "en" else (german, english)
