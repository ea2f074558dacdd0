import ast
import bz2
import gzip
import hashlib
import itertools
import lzma
import os
import re
import shutil
import sys
import threading
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace

import keras
import pytest

from keras_transformer.data import corpora, parallel_text, text_files
from keras_transformer.data.corpora import (
    DATASETS,
    bleu_tokenize,
    load_parallel_text,
)
from keras_transformer.data.parallel_text import ParallelText
from tests.helpers import error_of as error_in

pytestmark = pytest.mark.once

SPLITS = ("train", "val", "test")


def write(folder: Path, **texts: str | bytes) -> Path:
    """Writes files; `__` in a name stands for the dot."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        data = text if isinstance(text, bytes) else text.encode()
        (folder / name.replace("__", ".")).write_bytes(data)
    return folder


def error_of(*args, **kwargs) -> str:
    with pytest.raises(ValueError) as error:
        load_parallel_text(*args, **kwargs)
    message = str(error.value)
    assert "\n" not in message
    # Nothing of what went on inside is printed with it.
    assert error.value.__cause__ is None
    assert error.value.__context__ is None or error.value.__suppress_context__
    return message


# Reading lines.


def test_pairs_length_and_repeated_passes(tmp_path):
    write(tmp_path, train__en="A dog.\nA cat.\n", train__de="Ein Hund.\nEine Katze.\n")
    text = load_parallel_text("text", "train", data_dir=tmp_path)
    pairs = [("A dog.", "Ein Hund."), ("A cat.", "Eine Katze.")]
    assert list(text) == pairs
    assert list(text) == pairs
    first, second = iter(text), iter(text)
    assert next(first) == next(second) == pairs[0]
    assert len(text) == 2
    assert (text.name, text.split) == ("text", "train")
    assert (text.source_language, text.target_language) == ("en", "de")


def test_source_and_target_set_the_direction_of_pairs(tmp_path):
    write(tmp_path, dev__fr="un\n", dev__en="one\n")
    assert list(load_parallel_text("text", "dev", "fr", "en", tmp_path)) == [("un", "one")]
    assert list(load_parallel_text("text", "dev", "en", "fr", str(tmp_path))) == [("one", "un")]


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        # Only a newline ends a line.
        *((f"a{x}b\nc\n", [f"a{x}b", "c"]) for x in "\u2028\u2029\x85\x0b\x0c\x1c\r"),
        (b"\xef\xbb\xbfa\r\nb\r\n", ["a", "b"]),
        ("a\nb", ["a", "b"]),
        (" a \n\n", [" a ", ""]),
        ("\u063c\x01\0\nb", ["\u063c\x01\0", "b"]),  # a short line may have controls
        ("BZh is not a magic number\nb", ["BZh is not a magic number", "b"]),
        (gzip.compress(b"a\nb\n", mtime=0), ["a", "b"]),
        (bz2.compress(b"a\nb\n"), ["a", "b"]),
        (lzma.compress(b"a\nb\n"), ["a", "b"]),
    ],
)
@pytest.mark.parametrize("name", ["train", "train.en", "train.gz"])
def test_lines_are_read_from_files_of_all_forms(tmp_path, data, lines, name):
    (tmp_path / name).write_bytes(data if isinstance(data, bytes) else data.encode())
    write(tmp_path, train__de="x\ny\n")
    text = ParallelText.from_files(tmp_path / name, str(tmp_path / "train.de"), "en", "de")
    assert list(text) == list(text) == [*zip(lines, "xy")]
    assert repr(text) == "<ParallelText text train en-de: 2 pairs>"


def test_a_pipe_is_read_once(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=[gzip.compress(b"one\ntwo\n")])
    writer.start()
    assert list(text_files.read_lines(path)) == ["one", "two"]
    writer.join()


# Languages by the names of files.


@pytest.mark.parametrize(
    ("names", "languages"),
    [
        (("x.en.txt", "x.zh.txt"), ("en", "zh")),
        (("train.en.tok", "train.de.tok"), ("en", "de")),
        (("train.lc.norm.tok.de", "train.lc.norm.tok.en.gz"), ("de", "en")),
        (("a.en-de.en", "a.en-de.de"), ("en", "de")),
        (("en.txt", "zh_CN.txt.xz"), ("en", "zh_CN")),
        (("x.pt-BR.txt", "x.zh-Hans-CN.txt"), ("pt-BR", "zh-Hans-CN")),
        (("x.eng_Latn.txt", "x.zho_Hans.txt"), ("eng_Latn", "zho_Hans")),
        (("it.train.en", "it.train.DE"), ("en", "DE")),
        (("train.src", "train.tgt"), ("src", "tgt")),
        (("source", "target"), ("source", "target")),
    ],
    ids=" ".join,
)
def test_the_last_known_code_in_a_name_is_the_language(tmp_path, names, languages):
    paths = [tmp_path / name for name in names]
    for path in paths:
        path.write_text("a\n")
    text = ParallelText.from_files(*paths)
    assert (text.source_language, text.target_language) == languages


def test_two_equal_languages_of_names_are_refused(tmp_path):
    write(tmp_path, a__en="a\n", b__en="b\n", a__txt="a\n", b__txt="b\n")
    files = tmp_path / "a.en", tmp_path / "b.en"
    message = "a.en and b.en. Expected two languages. Received: 'en' for both. Pass"
    assert message in error_in(ParallelText.from_files, *files)
    assert message in error_in(ParallelText.from_files, *files, "en")
    text = ParallelText.from_files(*files, "en", "en")
    assert (text.source_language, text.target_language) == ("en", "en")
    texts = tmp_path / "a.txt", tmp_path / "b.txt"
    assert "'txt' for both" in error_in(ParallelText.from_files, *texts)


# Rows that are no files' lines.


def of_rows(rows):
    return ParallelText("rows", "train", "en", "de", rows)


PAIR = ("A dog.", "Ein Hund.")


@pytest.mark.parametrize(
    "row",
    [
        PAIR,
        [*PAIR],
        {"de": PAIR[1], "id": 7, "en": PAIR[0]},
        {"translation": {"en": PAIR[0], "de": PAIR[1], "fr": "Un chien."}},
    ],
)
@pytest.mark.parametrize("form", [lambda x: x, iter, lambda x: lambda: iter(x), tuple])
def test_rows_of_all_forms(row, form):
    text = of_rows(form([row, row]))
    assert len(text) == 2 and list(text) == list(text) == [PAIR, PAIR]


@pytest.mark.parametrize(
    "row",
    [
        *("ab", b"ab", None, float("nan"), (), ("a",), ("a", "b", "c"), ("a", None), {"a", "b"}),
        *(("a", float("nan")), (1, 2), ("a", ["b"]), (b"a", b"b"), {"en": "a", "de": None}),
    ],
    ids=lambda row: type(row).__name__,  # the order within a set depends on the process
)
def test_a_row_that_is_not_a_pair_is_refused_by_number(row):
    message = error_in(of_rows, [PAIR, row])
    assert message.startswith("Row 2 of rows must be a pair of strings") and repr(row) in message


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([{"en": "a", "fr": "b"}], "Row 1 .* must have the language codes .* 'en' and 'de'"),
        ([{"translation": "a"}], "must have the language codes"),
        ([("\ud800", "b")], "Row 1 of rows must be valid Unicode"),
        (iter([]), "is empty"),
        *((x, "`pairs` must be pairs of strings") for x in (None, 3, "text", {"en": ["a"]})),
    ],
)
def test_rows_of_other_languages_and_invalid_unicode_are_refused(rows, expected):
    assert re.search(expected, error_in(of_rows, rows))


def test_a_function_whose_second_pass_is_empty_is_refused():
    rows = iter([PAIR])
    assert "a function whose second pass is empty" in error_in(of_rows, lambda: rows)


def test_texts_with_other_contents_have_other_fingerprints(tmp_path):
    texts = [("a\nb\n", "x\ny\n"), ("a\nb\n", "x\nz\n"), ("b\na\n", "x\ny\n"), ("ab\n", "xy\n")]
    prints = []
    for number, (english, german) in enumerate(texts):
        folder = write(tmp_path / str(number), train__en=english, train__de=german)
        text = load_parallel_text("text", "train", data_dir=folder)
        assert text.fingerprint() == text.fingerprint()
        prints.append(text.fingerprint())
    prints.append(load_parallel_text("text", "train", "de", "en", data_dir=folder).fingerprint())
    assert len(set(prints)) == 5
    assert prints[3] == hashlib.sha256(b"ab\nxy\n").hexdigest()


# Named corpora from local files.


def test_multi30k_file_names(tmp_path):
    write(
        tmp_path,
        train__en="Train.\n",
        train__fr="Entraîner.\n",
        val__en="Val.\n",
        val__fr="Valider.\n",
        test_2016_flickr__en="Test.\n",
        test_2016_flickr__fr="Tester.\n",
        test_2016_flickr__lc__norm__tok__en="test .\n",
        test_2016_flickr__lc__norm__tok__fr="tester .\n",
    )

    def pairs(dataset, split, source, target):
        return list(load_parallel_text(dataset, split, source, target, tmp_path))

    assert pairs("multi30k", "train", "en", "fr") == [("Train.", "Entraîner.")]
    assert pairs("multi30k", "val", "fr", "en") == [("Valider.", "Val.")]
    assert pairs("multi30k", "test", "en", "fr") == [("Test.", "Tester.")]
    assert pairs("multi30k.lc.norm.tok", "test", "en", "fr") == [("test .", "tester .")]


def test_the_folder_of_the_corpus_goes_first(tmp_path):
    write(tmp_path, val__en="other\n", val__de="anders\n")
    write(tmp_path / "multi30k", val__en="caption\n", val__de="Bild\n")
    assert list(load_parallel_text("multi30k", "val", data_dir=tmp_path)) == [("caption", "Bild")]
    assert list(load_parallel_text("text", "val", data_dir=tmp_path)) == [("other", "anders")]


def test_tatoeba_splits_share_no_sentence(tmp_path):
    write(
        tmp_path / "tatoeba",
        # Hi. has one translation that stands in dev, c itself stands there.
        train__tsv="Hi.\tHallo!\nHi.\td1\nc\tc2\nHi.\tGrüß Gott!\n",
        # f is connected with b through e.
        dev__tsv="a\ta1\na\ta2\nb\tb1\nc\tc1\nd\td1\na\ta3\ne\tb1\ne\tf1\nf\tf1\n",
    )
    load = load_parallel_text
    assert list(load("tatoeba", "train", data_dir=tmp_path)) == [
        ("Hi.", "Hallo!"),
        ("Hi.", "Grüß Gott!"),
    ]
    val = load("tatoeba", "val", data_dir=tmp_path)
    test = load("tatoeba", "test", "de", "en", data_dir=tmp_path)
    assert list(val) == [("a", "a1"), ("a", "a2"), ("c", "c1"), ("a", "a3")]
    assert list(test) == [("b1", "b"), ("d1", "d"), ("b1", "e"), ("f1", "e"), ("f1", "f")]
    assert (len(val), len(test)) == (4, 5)
    assert val.fingerprint() != test.fingerprint()


def test_tatoeba_without_dev(tmp_path):
    write(tmp_path, train__tsv="Hi.\tHallo!\n")
    assert list(load_parallel_text("tatoeba", "train", data_dir=tmp_path)) == [("Hi.", "Hallo!")]


def test_wmt14_local_test_sets(tmp_path):
    write(
        tmp_path / "wmt14",
        train__en="a\n",
        train__de="b\n",
        newstest2013__en="c\n",
        newstest2013__de="d\n",
        test__en="e\n",
        test__de="f\n",
    )
    pairs = [list(load_parallel_text("wmt14", s, data_dir=tmp_path)) for s in SPLITS]
    assert pairs == [[("a", "b")], [("c", "d")], [("e", "f")]]


def test_synthetic_both_directions(monkeypatch):
    monkeypatch.setattr(corpora, "SYNTHETIC_SIZES", {"train": 30, "val": 20, "test": 10})
    # The whole corpus, if another test has sampled it, is for others.
    monkeypatch.setattr(corpora, "built_in_corpus", cache(corpora.built_in_corpus.__wrapped__))
    english_german = load_parallel_text("synthetic", "val")
    german_english = load_parallel_text("synthetic", "val", "de", "en", data_dir="/no/such/folder")
    assert len(english_german) == 20
    assert [len(load_parallel_text("synthetic", split)) for split in SPLITS] == [30, 20, 10]
    assert [(t, s) for s, t in english_german] == list(german_english)
    again = load_parallel_text("synthetic", "val")
    assert english_german.fingerprint() == again.fingerprint() != german_english.fingerprint()


def test_only_tokenized_corpora_are_scored_without_tokenization():
    assert bleu_tokenize("multi30k.lc.norm.tok") == "none"
    assert {bleu_tokenize(name) for name in DATASETS if name != "multi30k.lc.norm.tok"} == {None}
    with pytest.raises(ValueError, match="`dataset` must be one of"):
        bleu_tokenize("multi31k")


# Bad input.


@pytest.mark.parametrize(
    "arguments, parts",
    [
        (("multi31k", "train"), ["`dataset` must be one of multi30k,", "dataset='multi31k'"]),
        (("multi30k", "dev"), ["`split` must be one of train, val, test", "split='dev'"]),
        (("multi30k", "val", "cs"), ["`source` must be one of en, de, fr", "source='cs'"]),
        (("tatoeba", "val", "en", "fr"), ["`target` must be one of en, de", "target='fr'"]),
        (("synthetic", "val", "fr", "de"), ["`source` must be one of en, de"]),
        (("text", "val", "en", "en"), ["must be different languages", "'en'"]),
        (("text", "val"), ["text needs `data_dir`", "val.en and val.de"]),
        (("tatoeba", "val"), ["tatoeba needs `data_dir`", "dev.tsv", "deu-eng.zip", "TAB"]),
        (("wmt14", "train", "en", "fr"), ["wmt14 needs", "train.en and train.fr", "statmt.org"]),
        (("wmt14", "test", "en", "it"), ["no language pair en-it", "en-de", "`data_dir`"]),
        (("wmt14", "val", "fr", "de"), ["'wmt13' has no language pair fr-de"]),
    ],
)
def test_wrong_names_of_corpora_splits_and_languages_are_refused(arguments, parts):
    message = error_of(*arguments)
    for part in parts:
        assert part in message


@pytest.mark.parametrize("dataset", ["multi30k", "tatoeba", "wmt14", "text"])
def test_a_missing_data_dir_is_refused_by_path(tmp_path, dataset):
    message = error_of(dataset, "train", data_dir=tmp_path / "nowhere")
    assert "`data_dir`" in message and str(tmp_path / "nowhere") in message


@pytest.mark.parametrize(
    ("dataset", "split", "expected"),
    [
        ("wmt14", "train", "train.de not found in {folder}/wmt14."),
        ("text", "train", "train.en and train.de not found in {folder}."),
        ("tatoeba", "test", "dev.tsv not found.*deu-eng.zip"),
    ],
)
def test_missing_files_are_named_with_their_folder(tmp_path, dataset, split, expected):
    write(tmp_path / "wmt14", train__en="a\n")
    message = error_of(dataset, split, data_dir=tmp_path)
    assert re.search(expected.format(folder=re.escape(str(tmp_path))), message)


def wide(encoding):
    texts = ("Собака бежит.\nКот.\n", "A dog.\r\n", "мир\n", "да\n", "狗在雪地里奔跑。\n狗\n")
    return [({"train__en": text.encode(encoding), "train__de": "x\ny\n"}, WIDE) for text in texts]


WIDE = r"train\.en, line \d: .*Convert the text to UTF-8"
CUT_OFF = {
    "gzip": gzip.compress(b"text" * 1000, mtime=0)[:-9],
    "bzip2": bz2.compress(b"text" * 1000)[:-9],
    "xz": lzma.compress(b"text" * 1000)[:-9],
}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"train__en": "", "train__de": "x\n"}, r"/train\.en is empty"),
        ({"train__en": "a\n", "train__de": ""}, r"/train\.de is empty"),
        ({"train__en": "", "train__de": ""}, r"/train\.en is empty"),
        ({"train__en": b"\xef\xbb\xbf", "train__de": "x\n"}, r"/train\.en is empty"),
        ({"train__en": "a\n" * 1200, "train__de": "x\n" * 3},
         r"/train\.en with 1,200 lines and .*/train\.de with 3"),
        ({"train__en": "a\n" * 3, "train__de": "x\n" * 1200},
         r"/train\.en with 3 lines and .*/train\.de with 1,200"),
        ({"train__en": "a\nb\nc\n", "train__de": b"x\n\xfcber\nz\n"},
         r"/train\.de, line 2: cannot decode byte"),
        *(case for x in ("utf-16-le", "utf-16-be", "utf-32-le", "utf-16") for case in wide(x)),
        *(
            (
                {"train__en": start + b"\0\xff\n", "train__de": "x\n"},
                rf"train\.en is compressed with {name}\. Decompress it first\.",
            )
            for start, name in ((b"\x28\xb5\x2f\xfd", "zstd"), (b"PK\x03\x04", "zip"))
        ),
        *(
            ({"train__en": data, "train__de": "x\n"}, r"Cannot read the file .*train\.en: ")
            for data in CUT_OFF.values()
        ),
    ],
)  # fmt: skip
def test_a_damaged_file_is_refused_by_path(tmp_path, files, expected):
    write(tmp_path, **files)
    assert re.search(expected, error_of("text", "train", data_dir=tmp_path))


def test_from_files_without_the_file(tmp_path):
    with pytest.raises(ValueError, match=r"Cannot read the file .*nothing\.en: it does not exist"):
        ParallelText.from_files(tmp_path / "nothing.en", tmp_path / "nothing.de")
    with pytest.raises(ValueError, match="Cannot read the file .*: Is a directory"):
        ParallelText.from_files(tmp_path, tmp_path)


@pytest.mark.parametrize("line, columns", [("no tab", 1), ("a\tb\tCC BY 2.0", 3), ("", 1)])
def test_a_tatoeba_line_with_other_columns_is_refused_by_number(tmp_path, line, columns):
    write(tmp_path, train__tsv=f"Hi.\tHallo!\n{line}\n", dev__tsv=f"Hi.\tHallo!\n{line}\n")
    for split in SPLITS:
        message = error_of("tatoeba", split, data_dir=tmp_path)
        assert "line 2: cannot read" in message and f"a line with {columns} columns" in message


def test_tatoeba_too_small_to_split(tmp_path):
    write(tmp_path, dev__tsv="Hi.\tHallo!\n")
    assert "'test' of tatoeba is empty" in error_of("tatoeba", "test", data_dir=tmp_path)


# Downloads. No test touches the network.


class PublicSite:
    """A folder in the place of Multi30k's public address, and a cache folder for Keras."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch):
        self.folder, self.cache, self.monkeypatch = folder / "site", folder / "cache", monkeypatch
        self.cache.mkdir()
        get_file = partial(keras.utils.get_file, cache_dir=str(self.cache))
        monkeypatch.setattr(keras.utils, "get_file", get_file)
        monkeypatch.setattr(corpora, "MULTI30K_URL", self.folder.as_uri())

    def publish(self, name: str, text: str) -> Path:
        digest = hashlib.sha256(text.encode()).hexdigest()
        self.monkeypatch.setitem(corpora.MULTI30K_SHA256, name, digest)
        if ".lc.norm.tok." in name:
            path, data = self.folder / "tok" / name, text.encode()
        else:
            path, data = self.folder / "raw" / f"{name}.gz", gzip.compress(text.encode())
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return path

    def cached(self) -> list[str]:
        return sorted(path.name for path in self.cache.rglob("*") if path.is_file())


@pytest.fixture
def public_site(tmp_path, monkeypatch):
    return PublicSite(tmp_path, monkeypatch)


@pytest.mark.parametrize(
    "dataset, form", [("multi30k", ""), ("multi30k.lc.norm.tok", ".lc.norm.tok")]
)
def test_multi30k_is_fetched_once(tmp_path, public_site, dataset, form):
    english = public_site.publish(f"val{form}.en", "A dog.\n")
    german = public_site.publish(f"val{form}.de", "Ein Hund.\n")
    assert list(load_parallel_text(dataset, "val")) == [("A dog.", "Ein Hund.")]
    assert public_site.cached() == [german.name, english.name]
    # From now on the cache serves; a folder that lacks the files is as good as none.
    shutil.rmtree(public_site.folder)
    assert len(load_parallel_text(dataset, "val", data_dir=tmp_path)) == 1


@pytest.mark.parametrize("harm", [lambda data: data[:-3], lambda data: b"<html></html>"])
@pytest.mark.parametrize(
    "dataset, form", [("multi30k", ""), ("multi30k.lc.norm.tok", ".lc.norm.tok")]
)
def test_broken_download_is_deleted(public_site, dataset, form, harm):
    english = public_site.publish(f"val{form}.en", "A dog.\n")
    german = public_site.publish(f"val{form}.de", "Ein Hund.\n")
    whole = german.read_bytes()
    german.write_bytes(harm(whole))
    message = error_of(dataset, "val")
    assert german.as_uri() in message and "SHA-256" in message and "`data_dir`" in message
    assert public_site.cached() == [english.name]
    # The next run fetches it anew.
    german.write_bytes(whole)
    assert len(load_parallel_text(dataset, "val")) == 1


def test_an_incomplete_download_is_fetched_again(public_site):
    public_site.publish("val.en", "A dog.\n")
    german = public_site.publish("val.de", "Ein Hund.\n")
    load_parallel_text("multi30k", "val")
    (cached,) = public_site.cache.rglob("val.de.gz")
    cached.write_bytes(german.read_bytes()[:-3])
    assert "deleted" in error_of("multi30k", "val")
    assert len(load_parallel_text("multi30k", "val")) == 1


def test_a_failed_download_is_one_line(public_site):
    message = error_of("multi30k", "train")
    address = f"{public_site.folder.as_uri()}/raw/train.en.gz"
    assert message.startswith(f"Multi30k: could not fetch {address} (")
    assert "No such file" in message and "`data_dir`" in message
    assert public_site.cached() == []


def test_every_multi30k_file_has_a_digest():
    names = {
        f"{stem}{form}.{language}"
        for stem in ("train", "val", "test_2016_flickr")
        for form in ("", ".lc.norm.tok")
        for language in ("en", "de", "fr")
    }
    assert set(corpora.MULTI30K_SHA256) == names
    assert all(len(digest) == 64 for digest in corpora.MULTI30K_SHA256.values())


@pytest.fixture
def newstest(tmp_path, monkeypatch):
    """Stands in for sacreBLEU's test sets; `fail` is raised in the place of a download."""
    from sacrebleu import utils
    from sacrebleu.dataset import DATASETS as TEST_SETS

    state = SimpleNamespace(fail=None, cache=tmp_path)

    def test_set(name: str) -> SimpleNamespace:
        def files(pair: str) -> list[str]:
            if state.fail:
                raise state.fail
            stem = name.replace("/", "_")
            write(tmp_path, **{f"{stem}__src": f"{name} source\n", f"{stem}__ref": "reference\n"})
            return [str(tmp_path / f"{stem}.{field}") for field in ("src", "ref")]

        return SimpleNamespace(
            langpairs={"en-de": []},
            get_source_file=lambda pair: files(pair)[0],
            get_reference_files=lambda pair: files(pair)[1:],
        )

    monkeypatch.setattr(utils, "SACREBLEU_DIR", str(tmp_path))
    for name in ("wmt13", "wmt14/full"):
        monkeypatch.setitem(TEST_SETS, name, test_set(name))
    return state


def test_newstest_through_sacrebleu(newstest):
    assert list(load_parallel_text("wmt14", "val")) == [("wmt13 source", "reference")]
    assert list(load_parallel_text("wmt14", "test")) == [("wmt14/full source", "reference")]


def test_newstest_without_network(newstest):
    newstest.fail = OSError("<urlopen error\nunknown host>")
    message = error_of("wmt14", "test")
    assert "could not fetch 'wmt14/full' (<urlopen error unknown host>)" in message
    assert "test.en and test.de" in message and "`data_dir`" in message


def test_newstest_with_wrong_checksum_is_deleted(newstest):
    raw = write(newstest.cache / "wmt13" / "raw", test__tgz="broken")
    newstest.fail = SystemExit(1)
    assert "broken download" in error_of("wmt14", "val")
    assert not raw.exists()


def test_sacrebleu_has_the_test_sets_of_the_paper():
    from sacrebleu.dataset import DATASETS as TEST_SETS

    for name in corpora.NEWSTEST.values():
        assert {"en-de", "de-en", "en-fr", "fr-en"} <= set(TEST_SETS[name].langpairs)


# The real corpora.

CORPORA = os.environ.get("KERAS_TRANSFORMER_DATA")
needs_corpora = pytest.mark.skipif(
    not CORPORA, reason="set KERAS_TRANSFORMER_DATA to the folder that holds multi30k/ and tatoeba/"
)


@needs_corpora
@pytest.mark.parametrize("name", corpora.MULTI30K_SHA256)
def test_digests_of_multi30k(name):
    data = (Path(CORPORA) / "multi30k" / name).read_bytes()
    assert hashlib.sha256(data).hexdigest() == corpora.MULTI30K_SHA256[name]


@needs_corpora
@pytest.mark.parametrize("split, size", [("train", 29_000), ("val", 1_014), ("test", 1_000)])
@pytest.mark.parametrize("dataset", ["multi30k", "multi30k.lc.norm.tok"])
def test_sizes_of_multi30k(dataset, split, size):
    for data_dir in (CORPORA, f"{CORPORA}/multi30k"):
        text = load_parallel_text(dataset, split, "en", "fr", data_dir)
        assert len(text) == sum(1 for _ in text) == size


@pytest.mark.slow
@needs_corpora
def test_splits_of_real_tatoeba_share_no_sentence():
    train, val, test = (load_parallel_text("tatoeba", x, data_dir=CORPORA) for x in SPLITS)
    assert len(val) + len(test) == 2_456 and 140_000 < len(train) < 164_910
    assert 1_000 < len(val) < 1_456
    sides = [[{*sentences} for sentences in zip(*text)] for text in (train, val, test)]
    for one, other in itertools.combinations(sides, 2):
        assert one[0].isdisjoint(other[0]) and one[1].isdisjoint(other[1])


@pytest.mark.parametrize("module", [corpora, parallel_text, text_files])
def test_importing_needs_only_the_standard_library(module):
    roots = set()
    for node in ast.parse(Path(module.__file__).read_text()).body:
        if isinstance(node, ast.Import):
            roots |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            roots.add(node.module.partition(".")[0])
    assert roots <= sys.stdlib_module_names | {"keras_transformer"}
