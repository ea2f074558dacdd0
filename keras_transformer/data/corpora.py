"""Corpora that have a name: where their files are, and what is fetched."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import astuple, dataclass
from functools import cache, partial
from itertools import chain
from os import PathLike
from pathlib import Path
from types import MappingProxyType

from keras_transformer.data.download import fetch_multi30k, fetch_newstest
from keras_transformer.data.gettext_corpus import open_catalogs
from keras_transformer.data.parallel_text import ParallelText
from keras_transformer.data.tatoeba import DEV, TRAIN, Unconnected, open_tatoeba
from keras_transformer.data.text_corpus import open_text
from keras_transformer.data.text_files import Pair, Pairs, aligned_lines, find_files, missing_files
from keras_transformer.errors import UserError
from keras_transformer.validation import check_choice

SYNTHETIC_SIZES = MappingProxyType({"train": 40_000, "val": 1_000, "test": 1_000})
SYNTHETIC_SEED = 0


def load_parallel_text(
    dataset: str,
    split: str,
    source: str = "en",
    target: str = "de",
    data_dir: str | PathLike | None = None,
    hold_out: bool = True,
) -> ParallelText:
    """Loads one split of a corpus by name.

    | Name | Corpus | Files in `data_dir` | Without them |
    |---|---|---|---|
    | `multi30k` | captions, cased | `train.en`, `val.en`, `test_2016_flickr.en`, … | fetched |
    | `multi30k.lc.norm.tok` | lowercased, tokenised | `train.lc.norm.tok.en`, … | fetched |
    | `tatoeba` | short sentences | `train.tsv`, `dev.tsv` (English TAB German) | an error |
    | `wmt14` | news and more | `train.en`, `train.de`, … | test sets by sacreBLEU |
    | `text` | any pair of files | `{split}.{language}` and more: below | an error |
    | `catalogs` | messages of programs | any `.mo` and `.po`: below | this machine's |
    | `synthetic` | the built-in grammar | none | always generated |

    The files, plain or compressed (`train.en.gz`, `.bz2`, `.xz`), may lie in `data_dir` or in a
    folder in it that is named after the corpus.
    Multi30k's `test` is test_2016_flickr. Tatoeba's `dev.tsv` is cut into `val` and `test`, and
    what shares a sentence with it is left out of `train`, so that no sentence is on two sides.
    WMT's `val` is newstest2013 and its `test` the whole newstest2014: files named `val.en` or
    `newstest2013.en` and so on if there are any, else sacreBLEU's.

    The pairs of `text` are, with or without `.en-de` after `train`: two files of lines `train.en`
    and `train.de`; a `train.tsv` of lines source TAB target (English TAB German where it is named
    `train.en-de.tsv`); or a translation memory `train.tmx`. Without any file named `train`, the
    only other pair that there is counts: `corpus.en-de.en`. Where `val` or `test` has no file, up
    to 1,000 pairs (and one in 50) are held out of `train`, of sentences that it does not have.

    Of `catalogs`, files in `data_dir/catalogs/en-de/`, `train.tsv`, `dev.tsv` and `test.tsv` of
    lines English TAB German, go before catalogs; else all in `data_dir`, and without one those in
    /usr/share/locale, are read: see `catalog_pairs`. Splits without files are held out likewise.

    Args:
        dataset: a name from the table (the keys of `DATASETS`).
        split: `"train"`, `"val"` or `"test"`; for `text` the stem of any pair of files.
        source: language code of the source.
        target: language code of the target.
        data_dir: folder that holds the corpora.
        hold_out: whether `"train"` of `text` or `catalogs` lacks what is held out for splits that
            have no files.

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
    pairs = corpus.open(_Request(split, source, target, folder, hold_out))
    text = ParallelText(dataset, split, source, target, pairs, corpus.bleu_tokenize)
    if isinstance(pairs, Unconnected):
        text.held_out = frozenset(chain.from_iterable(pairs.held_out))
    return text


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
    hold_out: bool

    def files(self, stem: str) -> list[str]:
        return [f"{stem}.{self.source}", f"{stem}.{self.target}"]


def _open_multi30k(form: str, wanted: _Request) -> Pairs:
    stem = "test_2016_flickr" if wanted.split == "test" else wanted.split
    names = wanted.files(stem + form)
    paths = find_files(wanted.data_dir, "multi30k", names) or [
        fetch_multi30k(name) for name in names
    ]
    return partial(aligned_lines, *paths)


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
    train, dev = (found[0] if found else None for found in paths.values())
    return open_tatoeba(wanted.split, train, dev, is_swapped=wanted.source == "de")


def _open_wmt14(wanted: _Request) -> Pairs:
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


def _open_text(wanted: _Request) -> Pairs:
    return open_text(*astuple(wanted))


def _open_catalogs(wanted: _Request) -> Pairs:
    return open_catalogs(*astuple(wanted))


def _open_synthetic(wanted: _Request) -> Pairs:
    return partial(_synthetic_pairs, wanted.split, wanted.source)


@dataclass(frozen=True)
class _Corpus:
    """What is fixed about a corpus; None allows any language or split."""

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
        "text": _Corpus(_open_text, splits=None),
        "catalogs": _Corpus(_open_catalogs),
        "synthetic": _Corpus(_open_synthetic, ("en", "de")),
    }
)


def _corpus(dataset: str) -> _Corpus:
    check_choice("dataset", dataset, DATASETS)
    return DATASETS[dataset]


@cache  # Drawing sentences takes longer than reading them, and they are few.
def _english_german(split: str) -> tuple[Pair, ...]:
    from keras_transformer.data import synthetic

    examples = synthetic.generate(split, SYNTHETIC_SIZES[split], seed=SYNTHETIC_SEED)
    return tuple((example.english, example.german) for example in examples)


def _synthetic_pairs(split: str, source: str) -> Iterator[Pair]:
    for english, german in _english_german(split):
        yield (english, german) if source == "en" else (german, english)
