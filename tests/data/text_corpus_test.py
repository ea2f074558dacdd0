"""Pairs of any texts in a folder: how they are found, read, and held out."""

import bz2
import gzip
import hashlib
import itertools
import lzma
import tracemalloc
from functools import partial

import pytest

from keras_transformer.data import text_corpus
from keras_transformer.data.corpora import load_parallel_text
from keras_transformer.data.parallel_text import ParallelText
from keras_transformer.errors import UserError
from tests.helpers import error_of

pytestmark = pytest.mark.once

PAIRS = [("one", "eins"), ("two words", "zwei Wörter")]
SPLITS = ("train", "val", "test")


COMPRESS = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}


def lines(side):
    return "".join(f"{pair[side]}\n" for pair in PAIRS)


TSV = "".join("\t".join(pair) + "\n" for pair in PAIRS)


def tmx(pairs=PAIRS, languages=("en", "de"), head=""):
    segments = "</tuv>\n<tuv xml:lang='{}'><seg>{}</seg>"
    units = "".join(
        "<tu>" + "".join(map(segments.format, languages, pair)).replace("</tuv>\n", "", 1)
        + "</tuv></tu>\n"
        for pair in pairs
    )  # fmt: skip
    return f"<?xml version='1.0'?>{head}<tmx version='1.4'><header/><body>{units}</body></tmx>"


def write(folder, **texts):
    """`__` in a name stands for the dot, `_to_` for the dash; what ends as compressed is so."""
    folder.mkdir(exist_ok=True)
    for name, text in texts.items():
        path = folder / name.replace("__", ".").replace("_to_", "-")
        path.write_bytes(COMPRESS.get(path.suffix, bytes)(text.encode()))
    return folder


@pytest.mark.parametrize(
    "files",
    [
        {"train__en__gz": lines(0), "train__de": lines(1)},
        {"train__en_to_de__en": lines(0), "train__en_to_de__de__gz": lines(1)},
        {"train__de_to_en__en": lines(0), "train__de_to_en__de": lines(1)},
        {"corpus__en_to_de__en": lines(0), "corpus__en_to_de__de": lines(1), "notes__txt": "x"},
        {"train__tsv": TSV},
        {"train__en_to_de__tsv__gz": TSV},
        {"train__en__xz": lines(0), "train__de__bz2": lines(1)},
        {"train__de_to_en__tsv": "".join(f"{german}\t{english}\n" for english, german in PAIRS)},
        {"train__tmx": tmx()},
        {"memory__tmx__gz": tmx()},
        # Two lines are the first that is found; so are they beside others.
        {"train__en": lines(0), "train__de": lines(1), "other__tsv": "a\tb\n"},
    ],
    ids=lambda files: "+".join(files),
)
def test_files_of_all_forms(tmp_path, files):
    # In the folder, or in one that is named as the corpus.
    for folder in (tmp_path / "a", tmp_path / "b" / "text"):
        folder.parent.mkdir(exist_ok=True)
        write(folder, **files)
    for folder in (tmp_path / "a", tmp_path / "b"):
        assert list(load_parallel_text("text", "train", "en", "de", folder)) == PAIRS


def test_compressed_files_of_a_corpus_with_a_name(tmp_path):
    write(tmp_path, val__en__gz=lines(0), val__de=lines(1), dev__tsv__gz=TSV, train__tsv=TSV)
    assert list(load_parallel_text("multi30k", "val", data_dir=tmp_path)) == PAIRS
    assert len(load_parallel_text("tatoeba", "val", data_dir=tmp_path)) == 1


def test_several_possible_training_texts_are_refused(tmp_path):
    several = write(tmp_path, a__tsv=TSV, b__tsv=TSV)
    message = error_of(load_parallel_text, "text", "train", "en", "de", several)
    assert "files of only one name. Received: a, b" in message
    # A file whose other half is missing is not passed over for another corpus.
    write(tmp_path, train__en=lines(0))
    message = error_of(load_parallel_text, "text", "train", "en", "de", tmp_path)
    assert "train.de not found" in message


def test_columns_of_a_table_are_selected_by_index(tmp_path):
    write(tmp_path, scores__tsv="0.5\teins\tone\n0.1\tzwei\ttwo\n", bad__tsv="a\tb\nc\n")
    text = ParallelText.from_tsv(tmp_path / "scores.tsv", "en", "de", columns=(2, 1))
    assert list(text) == [("one", "eins"), ("two", "zwei")]
    assert (text.source_language, text.target_language) == ("en", "de")
    message = error_of(ParallelText.from_tsv, tmp_path / "scores.tsv", "en", "de")
    assert "Expected two columns" in message and "line with 3 columns" in message
    message = error_of(ParallelText.from_tsv, tmp_path / "bad.tsv", "en", "de", (0, 1))
    assert "Expected columns 0 and 1. Received: a line with 1 columns" in message


# Translation memories.


def test_segments_are_read_without_their_codes(tmp_path):
    units = [
        ("Press <bpt i='1'>&lt;b&gt;</bpt>OK<ept i='1'>&lt;/b&gt;</ept>.", "<hi>OK</hi> drücken."),
        ("a <ph>%s<sub>x</sub>y</ph> b", "\n  one\n\tline \n"),
        ("&lt;b&gt; &amp;", "<![CDATA[<b> &]]>"),
        ("", "empty"),
    ]
    write(tmp_path, memory__tmx=tmx(units, ("EN-us", "de-DE")))
    assert list(ParallelText.from_tmx(tmp_path / "memory.tmx", "en", "de")) == [
        ("Press OK.", "OK drücken."),
        ("a %sy b", "one line"),
        ("<b> &", "<b> &"),
        ("", "empty"),
    ]


BREAKS = (
    *("<ph x='1' type='lb'/>", "<ph>&lt;br/&gt;</ph>", "<ph>&lt;BR class='x'&gt;</ph>"),
    *("<ph>&#10;</ph>", "<ph>&#9;</ph>", "<ph>\\r\\n</ph>", " <it pos='begin' type='lb'/>"),
    *("<bpt i='1'>&lt;p&gt;</bpt>", "<it pos='end'>&lt;/li&gt;</it> ", "<ut>&lt;br&gt;</ut>"),
)


@pytest.mark.parametrize("code", BREAKS)
def test_a_break_in_a_code_parts_the_words(tmp_path, code):
    write(tmp_path, memory__tmx=tmx([(f"First line{code}second line", "x")]))
    ((source, _),) = ParallelText.from_tmx(tmp_path / "memory.tmx", "en", "de")
    assert source == "First line second line"


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("<ph x='1'>%s</ph>", "%s"),
        ("<ph>{0}</ph>", "{0}"),
        ("<ph>%s&lt;br&gt;</ph>", "%s "),
        ("<ph>&lt;img src='x'/&gt;</ph>", ""),
        ("<ph>{\\f23 }</ph>", ""),
        ("<bpt i='1'>&lt;b&gt;</bpt>", ""),
        ("<ut>{\\cs6 }</ut>", ""),
        ("<ph/>", ""),
    ],
)
def test_placeholders_of_codes_are_kept(tmp_path, code, text):
    write(tmp_path, memory__tmx=tmx([(f"Delete {code}files?", "x")]))
    ((source, _),) = ParallelText.from_tmx(tmp_path / "memory.tmx", "en", "de")
    assert source == f"Delete {text}files?"


def test_a_memory_with_a_prefix_of_its_namespace(tmp_path):
    units = tmx([("A<ph type='lb'/>dog", "Ein Hund")]).replace("<", "<t:").replace("<t:/", "</t:")
    units = units.replace("<t:?", "<?").replace(
        "<t:tmx", "<t:tmx xmlns:t='http://www.lisa.org/tmx14'"
    )
    write(tmp_path, memory__tmx=units)
    assert list(ParallelText.from_tmx(tmp_path / "memory.tmx", "en", "de")) == [
        ("A dog", "Ein Hund")
    ]


def test_a_language_matches_its_code_or_its_regions(tmp_path):
    units = tmx([("color", "colour", "Farbe"), ("x", "y", "z")], ("en-US", "en-GB", "de"))
    units = units.replace("<body>", "<body><tu><tuv xml:lang='en'><seg>alone</seg></tuv></tu>")
    path = write(tmp_path, memory__tmx=units) / "memory.tmx"
    again = tmx([("first", "second", "eins")], ("en", "en", "de"))
    twice = write(tmp_path, twice__tmx=again) / "twice.tmx"
    assert list(ParallelText.from_tmx(twice, "en", "de")) == [("first", "eins")]
    assert next(iter(ParallelText.from_tmx(path, "en_GB", "de"))) == ("colour", "Farbe")
    assert list(ParallelText.from_tmx(path, "de", "en")) == [("Farbe", "color"), ("z", "x")]
    message = error_of(ParallelText.from_tmx, path, "en", "fr")
    assert "Expected: en and fr. Received: de, en, en-GB, en-US" in message


def test_a_bomb_of_entities_is_refused(tmp_path):
    bomb = "".join(f'<!ENTITY a{i + 1} "{f"&a{i};" * 10}">' for i in range(9))
    head = f'<!DOCTYPE tmx [<!ENTITY a0 "ha">{bomb}]>'
    path = write(tmp_path, bomb__tmx=tmx([("&a9;", "x")], head=head)) / "bomb.tmx"
    assert "the entity 'a0'" in error_of(ParallelText.from_tmx, path, "en", "de")
    # Nor is another file read, or the usual declaration an obstacle.
    (tmp_path / "secret").write_text("secret")
    head = f'<!DOCTYPE tmx [<!ENTITY x SYSTEM "{tmp_path}/secret">]>'
    path = write(tmp_path, reach__tmx=tmx([("&x;", "x")], head=head)) / "reach.tmx"
    assert "the entity 'x'" in error_of(ParallelText.from_tmx, path, "en", "de")
    plain = write(tmp_path, plain__tmx=tmx(head="<!DOCTYPE tmx SYSTEM 'tmx14.dtd'>"))
    assert list(ParallelText.from_tmx(plain / "plain.tmx", "en", "de")) == PAIRS


@pytest.mark.parametrize("harm", [lambda text: text[:-9], lambda text: "no XML", lambda text: ""])
def test_a_damaged_memory(tmp_path, harm):
    path = write(tmp_path, memory__tmx=harm(tmx())) / "memory.tmx"
    message = error_of(ParallelText.from_tmx, path, "en", "de")
    assert "memory.tmx is not a complete TMX file" in message


@pytest.mark.parametrize("encoding", ["Shift_JIS", "GB2312", "alien"])
def test_a_memory_in_an_encoding_that_expat_lacks(tmp_path, encoding):
    text = tmp_path / "memory.tmx"
    text.write_bytes(tmx().replace("?>", f" encoding='{encoding}'?>", 1).encode())
    message = error_of(ParallelText.from_tmx, text, "en", "de")
    assert "memory.tmx is not a complete TMX file" in message and "\n" not in message


def test_a_memory_is_never_held_as_a_whole(tmp_path):
    pairs = [(f"sentence {i} " * 9, f"Satz {i} " * 9) for i in range(6_000)]
    path = write(tmp_path, memory__tmx=tmx(pairs)) / "memory.tmx"
    text = ParallelText.from_tmx(path, "en", "de")
    tracemalloc.start()
    count = sum(1 for _ in text)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 6_000 and path.stat().st_size > 1.2e6 and most < 0.6e6


# What is held out where splits have no files.


def numbered(count):
    return [(f"sentence {i % (count - 5)}", f"Satz {i // 2}") for i in range(count)]


def write_pairs(folder, pairs, stem="train"):
    tsv = "".join("\t".join(pair) + "\n" for pair in pairs)
    return write(folder, **{f"{stem}__tsv": tsv})


def test_no_sentence_is_on_two_sides(tmp_path):
    pairs = numbered(400)
    folder = write_pairs(tmp_path, pairs)
    train, val, test = (list(load_parallel_text("text", x, "a", "b", folder)) for x in SPLITS)
    # One pair in 50, but for those whose translation the other has.
    assert 6 <= len(val) <= 8 and 6 <= len(test) <= 8
    for one, other in itertools.combinations((train, val, test), 2):
        for side in zip(zip(*one), zip(*other)):
            assert {*side[0]}.isdisjoint(side[1])
    sides = [{*side} for side in zip(*val, *test)]
    assert train == [pair for pair in pairs if not any(map(set.__contains__, sides, pair))]
    # The same ones in the other direction, and wherever they stand.
    lines = "".join(f"{source}\t{target}\n" for source, target in pairs)
    both = write(tmp_path / "both", train__a_to_b__tsv=lines)
    for split, expected in zip(SPLITS, (train, val, test)):
        swapped = load_parallel_text("text", split, "b", "a", both)
        assert [pair[::-1] for pair in swapped] == expected
    moved = write_pairs(tmp_path / "moved", [("new", "neu"), *reversed(pairs)])
    assert {*load_parallel_text("text", "val", "a", "b", moved)} <= {*val, *test, *pairs}
    assert len({*load_parallel_text("text", "val", "a", "b", moved)} & {*val}) >= 4


def test_only_splits_without_files_are_held_out(tmp_path):
    pairs = numbered(300)
    write_pairs(write_pairs(tmp_path, pairs), PAIRS, "val")
    train, val, test = (list(load_parallel_text("text", x, "a", "b", tmp_path)) for x in SPLITS)
    assert val == PAIRS and len(test) == 6 and len(train) < 300
    write_pairs(tmp_path, PAIRS, "test")
    assert list(load_parallel_text("text", "train", "a", "b", tmp_path)) == pairs


def test_no_sentence_is_held_out_for_two_splits(monkeypatch):
    monkeypatch.setattr(text_corpus, "SHARE", 4)
    pairs = numbered(400)
    val, test = (
        list(text_corpus.with_held_out(lambda: iter(pairs), split, SPLITS[1:])())
        for split in SPLITS[1:]
    )
    assert 50 < len(val) < 100 and 50 < len(test) < 100
    assert all({*one}.isdisjoint(other) for one, other in zip(zip(*val), zip(*test)))


@pytest.mark.parametrize("key", [0, 1])
def test_the_smallest_digests_are_drawn(monkeypatch, key):
    monkeypatch.setattr(text_corpus, "LARGEST", 5)
    pairs = [(f"a{i % 400}", f"b{i}") for i in range(500)]
    found = [
        list(text_corpus.with_held_out(lambda: iter(pairs), split, SPLITS[1:], key)())
        for split in SPLITS[1:]
    ]
    first = {}  # of each sentence
    for pair in pairs:
        digest = hashlib.blake2b(pair[key].encode(), digest_size=8).digest()
        first.setdefault(digest, pair)
    drawn = [pair for _, pair in sorted(first.items())[:10]]
    assert found == [drawn[::2], drawn[1::2]]


def test_blank_and_very_long_pairs_are_not_held_out(tmp_path):
    pairs = [("", "x"), ("y", " "), ("long " * 300, "z")] * 40
    write_pairs(tmp_path, [*pairs, *numbered(60)])
    assert len(load_parallel_text("text", "val", "a", "b", tmp_path)) == 3
    for pair in load_parallel_text("text", "val", "a", "b", tmp_path):
        assert pair not in pairs


def test_without_holding_out_a_split_is_asked_for_by_its_name(tmp_path):
    write_pairs(tmp_path, numbered(200), "test_2017")
    load = partial(load_parallel_text, "text", source="a", target="b", data_dir=tmp_path)
    with pytest.raises(UserError) as error:
        load("test", hold_out=False)
    message = str(error.value)
    assert "`split` must be" in message and "test_2017" in message and "split='test'" in message
    assert len(load("test_2017", hold_out=False)) == 200
    assert len(load("train", hold_out=False)) == 200


def test_nothing_is_held_out_of_a_small_text(tmp_path):
    write_pairs(tmp_path, numbered(49))
    assert len(load_parallel_text("text", "train", "a", "b", tmp_path)) == 49
    message = error_of(load_parallel_text, "text", "val", "a", "b", tmp_path)
    assert "Cannot hold the split 'val' out" in message and "at least 50" in message
