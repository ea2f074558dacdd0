"""Corpora that have a name: their files, and their downloads."""

import gzip
import hashlib
import logging
import shutil
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from keras_transformer.data.gettext_corpus import open_catalogs
from keras_transformer.data.languages import read_table
from keras_transformer.data.parallel_text import ParallelText
from keras_transformer.data.text_corpus import DisjointPairs, component_numbers, open_text
from keras_transformer.data.text_files import (
    FilePairs,
    Pair,
    Pairs,
    aligned_lines,
    find_files,
    missing_files,
    open_bytes,
    swap_sides,
    tab_separated_pairs,
)
from keras_transformer.errors import UserError
from keras_transformer.validation import check_choice

if TYPE_CHECKING:
    from keras_transformer.data.synthetic import SyntheticExample

SYNTHETIC_SIZES = MappingProxyType({"train": 40_000, "val": 1_000, "test": 1_000})
SYNTHETIC_SEED = 0

TRAIN, DEV = "train.tsv", "dev.tsv"

MULTI30K_URL = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1"

MULTI30K_SHA256 = dict(read_table(Path(__file__).with_name("multi30k_sha256.tsv")))

# The names of newstest2013 and newstest2014 in sacreBLEU. Its plain "wmt14" is the filtered set of
# 2,737 sentences; the paper, like most since, reports on all 3,003.
NEWSTEST = {"val": "wmt13", "test": "wmt14/full"}


def load_parallel_text(
    dataset: str,
    split: str,
    source: str = "en",
    target: str = "de",
    data_dir: str | PathLike | None = None,
    hold_out: bool = True,
    validate: bool = True,
) -> ParallelText:
    """Load one split of a corpus by name.

    | Name | Corpus | Files in `data_dir` | Without them |
    |---|---|---|---|
    | `multi30k` | captions, cased | `train.en`, `val.en`, `test_2016_flickr.en`, … | downloaded |
    | `multi30k.lc.norm.tok` | lowercased, tokenized | `train.lc.norm.tok.en`, … | downloaded |
    | `tatoeba` | short sentences | `train.tsv`, `dev.tsv` (English TAB German) | an error |
    | `wmt14` | news and more | `train.en`, `train.de`, … | test sets by sacreBLEU |
    | `text` | any pair of files | `{split}.{language}` and more: see below | an error |
    | `catalogs` | program messages | any `.mo` and `.po`: see below | this machine's |
    | `synthetic` | the built-in grammar | none | always generated |

    Files may be plain or compressed (`train.en.gz`, `.bz2`, `.xz`), in `data_dir` or in its
    subfolder with the name of the corpus.

    - Multi30k's `test` is test_2016_flickr.
    - Tatoeba's `dev.tsv` is divided into `val` and `test`, and `train` excludes all pairs that
      share a sentence with it. So no sentence occurs in two splits.
    - WMT's `val` is newstest2013 and its `test` is all of newstest2014: files such as `val.en` or
      `newstest2013.en` if there are any, otherwise sacreBLEU's.
    - `text` reads two files with aligned lines, `train.en` and `train.de`; a `train.tsv` with lines
      source TAB target (English TAB German if it is named `train.en-de.tsv`); or a translation
      memory `train.tmx`. All names may have `.en-de` after `train`. Without a file named `train`,
      the only other pair of files is used, such as `corpus.en-de.en`. If `val` or `test` has no
      file, up to 1,000 pairs (and at most 1 pair in 50) are held out of `train`, which then shares
      no sentence with them.
    - `catalogs` reads `train.tsv`, `dev.tsv` and `test.tsv` with lines English TAB German in
      `data_dir/catalogs/en-de/`, if they exist. Otherwise it reads all catalogs in `data_dir`, or
      in /usr/share/locale if no folder is given: see `catalog_pairs`. Splits without files are held
      out as for `text`.

    Args:
        dataset: a name from the table (the keys of `DATASETS`).
        split: `"train"`, `"val"` or `"test"`; for `text`, the stem of any pair of files.
        source: language code of the source.
        target: language code of the target.
        data_dir: folder of the corpora.
        hold_out: whether splits of `text` or `catalogs` without files are held out of `"train"`.
            Otherwise `"train"` has all pairs, and such splits are an error.
        validate: as for `ParallelText`.

    Returns:
        A `ParallelText`.

    Raises:
        UserError: if an argument is not valid, a file is missing or damaged, or a download fails.
    """
    corpus = _corpus(dataset)
    check_choice("split", split, corpus.splits)
    check_choice("source", source, corpus.languages)
    check_choice("target", target, corpus.languages)
    if source == target:
        raise UserError(
            f"`source` and `target` must be different languages. Received: source=target={source!r}"
        )
    folder = None if data_dir is None else Path(data_dir)
    pairs = corpus.open(_Request(split, source, target, folder, hold_out))
    return ParallelText(dataset, split, source, target, pairs, corpus.bleu_tokenize, validate)


def bleu_tokenize(dataset: str) -> str | None:
    """Return sacreBLEU's `tokenize` option for a corpus.

    Args:
        dataset: a key of `DATASETS`.

    Returns:
        `"none"` if the corpus is tokenized, and otherwise None, which stands for the default of the
        language. `score_translations` takes both.

    Raises:
        UserError: if the corpus is unknown.
    """
    return _corpus(dataset).bleu_tokenize


class _Request(NamedTuple):
    split: str
    source: str
    target: str
    data_dir: Path | None
    hold_out: bool

    def files(self, stem: str) -> list[str]:
        return [f"{stem}.{self.source}", f"{stem}.{self.target}"]


def _open_multi30k(form: str, wanted: _Request) -> Pairs:
    stem = "test_2016_flickr" if wanted.split == "test" else wanted.split
    names = wanted.files(stem + form)
    paths = find_files(wanted.data_dir, "multi30k", names) or [
        fetch_multi30k(name) for name in names
    ]
    return FilePairs(aligned_lines, *paths)


def _open_tatoeba(wanted: _Request) -> Pairs:
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

    def pairs(name: str) -> Iterable[Pair]:
        if not (found := paths[name]):
            return ()
        pairs = tab_separated_pairs(found[0], expected="English TAB German")
        return swap_sides(pairs) if wanted.source == "de" else pairs

    held_out = list(pairs(DEV))
    if wanted.split == "train":
        return DisjointPairs(partial(pairs, TRAIN), lambda: held_out)
    numbers = component_numbers(held_out)
    # Take every second component, so that both splits are alike even if the file is sorted.
    is_test = wanted.split == "test"
    kept = [pair for pair, number in zip(held_out, numbers) if number % 2 == is_test]
    return lambda: iter(kept)


def _open_wmt14(wanted: _Request) -> Pairs:
    stems = {"val": ["val", "newstest2013"], "test": ["test", "newstest2014"]}
    for stem in stems.get(wanted.split, [wanted.split]):
        if paths := find_files(wanted.data_dir, "wmt14", wanted.files(stem)):
            return FilePairs(aligned_lines, *paths)
    if wanted.split == "train":
        raise missing_files(
            wanted.data_dir,
            "wmt14",
            wanted.files("train"),
            "Expected the training text, one sentence per line. Its parts are at "
            "https://www.statmt.org/wmt14/translation-task.html.",
        )
    return FilePairs(aligned_lines, *fetch_newstest(wanted.split, wanted.source, wanted.target))


@dataclass(frozen=True)
class _Corpus:
    """The properties of a corpus. None allows any language or split."""

    open: Callable[[_Request], Pairs]
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
        "text": _Corpus(lambda wanted: open_text(*wanted), splits=None),
        "catalogs": _Corpus(lambda wanted: open_catalogs(*wanted)),
        "synthetic": _Corpus(
            lambda wanted: partial(_synthetic_pairs, wanted.split, wanted.source), ("en", "de")
        ),
    }
)


def _corpus(dataset: str) -> _Corpus:
    check_choice("dataset", dataset, DATASETS)
    return DATASETS[dataset]


@cache  # Sampling sentences takes longer than reading them, and there are few.
def built_in_corpus() -> "dict[str, tuple[SyntheticExample, ...]]":
    """Return the examples of each split of the dataset `synthetic`."""
    from keras_transformer.data import synthetic

    return synthetic.generate_splits(SYNTHETIC_SIZES, SYNTHETIC_SEED)


def _synthetic_pairs(split: str, source: str) -> Iterator[Pair]:
    for english, german, _ in built_in_corpus()[split]:
        yield (english, german) if source == "en" else (german, english)


def fetch_multi30k(file_name: str) -> Path:
    """Return a file of Multi30k, which is downloaded into the Keras cache if it is not there yet.

    The raw texts are published compressed and are stored that way: read them with `open_bytes`.

    Args:
        file_name: name of the plain text, such as `"train.en"` or `"val.lc.norm.tok.de"`.

    Returns:
        Path of the file, plain or `.gz`.

    Raises:
        UserError: if the file cannot be downloaded, or is not the expected text.
    """
    if ".lc.norm.tok." in file_name:
        url = f"{MULTI30K_URL}/tok/{file_name}"
    else:
        url = f"{MULTI30K_URL}/raw/{file_name}.gz"
    return _fetch(url, MULTI30K_SHA256[file_name], corpus="Multi30k")


def fetch_newstest(split: str, source: str, target: str) -> tuple[Path, Path]:
    """Return newstest2013 (`"val"`) or newstest2014 (`"test"`) from sacreBLEU's own data sets.

    Args:
        split: `"val"` or `"test"`.
        source: language code of the source.
        target: language code of the target.

    Returns:
        Paths of the source text and its reference translation, in sacreBLEU's cache.

    Raises:
        UserError: if sacreBLEU does not have the language pair, or the download fails.
    """
    from sacrebleu.dataset import DATASETS
    from sacrebleu.utils import SACREBLEU_DIR

    name = NEWSTEST[split]
    test_set, pair = DATASETS[name], f"{source}-{target}"
    if pair not in test_set.langpairs:
        raise UserError(
            f"sacreBLEU's {name!r} has no language pair {pair}. Expected one of "
            f"{', '.join(sorted(test_set.langpairs))}, or `data_dir`, the folder that holds "
            f"{split}.{source} and {split}.{target}."
        )
    try:
        with _silenced(logging.getLogger("sacrebleu")):
            (reference,) = test_set.get_reference_files(pair)
            return Path(test_set.get_source_file(pair)), Path(reference)
    except (Exception, SystemExit) as error:
        cache = Path(SACREBLEU_DIR, name)
        if isinstance(error, SystemExit):
            # sacreBLEU exits if a checksum is wrong, but would use the file that it kept at the
            # next call.
            shutil.rmtree(cache / "raw", ignore_errors=True)
        raise UserError(
            f"wmt14: sacreBLEU could not fetch {name!r} ({_one_line(error)}). Check the network, "
            f"delete {cache} if an earlier download was interrupted, or pass `data_dir`, the "
            f"folder that holds {split}.{source} and {split}.{target}."
        ) from None


def _fetch(url: str, sha256: str, corpus: str) -> Path:
    # Import Keras here: reading local files does not need it.
    import keras

    advice = "pass the folder that holds the corpus with `data_dir`"
    file_name = url.rpartition("/")[2]
    subdirectory = f"datasets/{corpus.lower()}"
    try:
        path = Path(keras.utils.get_file(file_name, origin=url, cache_subdir=subdirectory))
    except Exception as error:  # Keras raises a bare Exception: "URL fetch failure on … -- reason".
        reason = _one_line(error).rpartition(" -- ")[2]
        raise UserError(
            f"{corpus}: could not fetch {url} ({reason}). Check the network, or {advice}."
        ) from None
    # Check at every use and not only after the download: a download that was killed leaves an
    # incomplete file under the final name.
    if _sha256(path) != sha256:
        path.unlink()
        raise UserError(
            f"{corpus}: the text fetched from {url} is not the expected one (its SHA-256 differs). "
            f"The file was deleted. Run again to download it again, or {advice}."
        )
    return path


def _sha256(path: Path) -> str | None:
    """Return the digest of a file's decompressed bytes, or None if its gzip is incomplete."""
    try:
        with open_bytes(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except (gzip.BadGzipFile, EOFError, zlib.error):
        return None


def _one_line(error: BaseException) -> str:
    if isinstance(error, SystemExit):
        return "broken download or refused certificate"
    return " ".join(str(error).split()) or type(error).__name__


@contextmanager
def _silenced(logger: logging.Logger) -> Iterator[None]:
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before
