import errno
import json
import resource

import numpy as np
import pytest

from keras_transformer.data import token_store
from keras_transformer.data.parallel_text import ParallelText
from keras_transformer.data.token_store import TokenStore
from tests.helpers import error_of
from tests.small_corpus import Numbers, sentence_pairs, tokenizer

pytestmark = pytest.mark.once

PAIRS = [("5 6 7", "8"), ("", "9 10"), ("11", ""), ("", ""), ("4999", "4 4 4 4")]
PARTS = ["source.tokens", "source.lengths", "target.tokens", "target.lengths", "store.json"]


def pairs_of(store):
    return [
        tuple(" ".join(map(str, sequences[i])) for sequences in (store.source, store.target))
        for i in range(len(store))
    ]


def text_of(pairs):
    return ParallelText("made up", "train", "en", "de", lambda: iter(pairs))


def test_round_trip_with_empty_sentences(tmp_path):
    built = TokenStore.build(tmp_path / "tokens", iter(PAIRS), Numbers())
    for store in (built, TokenStore(tmp_path / "tokens"), TokenStore(str(tmp_path / "tokens"))):
        assert len(store) == 5
        assert pairs_of(store) == PAIRS
        assert store.source.lengths.tolist() == [3, 0, 1, 0, 1]
        assert store.target.lengths.tolist() == [1, 2, 0, 0, 4]
        assert store.source[0].dtype == "int32"
    assert sorted(path.name for path in (tmp_path / "tokens").iterdir()) == sorted(PARTS)
    assert [path.name for path in tmp_path.iterdir()] == ["tokens"]


def test_a_full_disk_is_named_as_such(tmp_path):
    # As a full disk does, a limit on the size of files cuts writing short.
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2048, hard))
    try:
        with pytest.raises(OSError) as error:
            TokenStore.build(tmp_path / "tokens", [("5 " * 9999, "6")], Numbers())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (error.value.errno, error.value.filename) == (errno.EFBIG, str(tmp_path / "tokens"))
    assert [*tmp_path.iterdir()] == []


def test_padded_rows_are_in_the_order_of_indices(tmp_path):
    store = TokenStore.build(tmp_path / "tokens", PAIRS, Numbers())
    padded = store.source.padded(np.array([4, 1, 0]), 4)
    assert padded.dtype == "int32"
    assert padded.tolist() == [[4999, 0, 0, 0], [0, 0, 0, 0], [5, 6, 7, 0]]


@pytest.mark.parametrize("pairs", [[], [("", "")] * 3], ids=["no pairs", "empty pairs"])
def test_stores_may_hold_no_pairs_or_empty_pairs(tmp_path, pairs):
    store = TokenStore.build(tmp_path / "tokens", pairs, Numbers())
    assert len(store) == len(pairs)
    assert pairs_of(store) == pairs
    rows = np.arange(len(pairs))
    assert store.target.padded(rows, 2).tolist() == [[0, 0]] * len(pairs)


@pytest.mark.parametrize(
    "vocabulary_size, size", [(65536, 2), (65537, 4)], ids=["uint16", "uint32"]
)
def test_ids_are_as_wide_as_the_vocabulary_needs(tmp_path, vocabulary_size, size):
    largest = vocabulary_size - 1
    store = TokenStore.build(tmp_path / "tokens", [(f"{largest} 3", "")], Numbers(vocabulary_size))
    assert store.source[0].tolist() == [largest, 3]
    assert store.source.padded(np.array([0]), 3).tolist() == [[largest, 3, 0]]
    assert (tmp_path / "tokens" / "source.tokens").stat().st_size == 2 * size


@pytest.mark.parametrize("count", [9, 10, 11, 35])
def test_a_store_holds_more_pairs_than_a_chunk(tmp_path, monkeypatch, count):
    monkeypatch.setattr(token_store, "_CHUNK", 10)
    pairs = [(f"{4 + i}", f"{5 + i} 6") for i in range(count)]
    assert pairs_of(TokenStore.build(tmp_path / "tokens", iter(pairs), Numbers())) == pairs


def test_reads_the_text_no_further_than_a_chunk_ahead(tmp_path, monkeypatch):
    # A corpus is never held in memory.
    monkeypatch.setattr(token_store, "_CHUNK", 10)
    read = []

    class Watching(Numbers):
        def encode(self, sentences):
            assert len(sentences) <= 10
            assert len(read) - self.encoded <= 10
            self.encoded += len(sentences) / 2
            return super().encode(sentences)

    def pairs():
        for i in range(35):
            read.append(i)
            yield "4", "5"

    numbers = Watching()
    numbers.encoded = 0
    TokenStore.build(tmp_path / "tokens", pairs(), numbers)
    assert numbers.encoded == 35


def test_a_store_decodes_to_its_sentences(tmp_path):
    pairs = sentence_pairs(30)
    store = TokenStore.build(tmp_path / "tokens", pairs, tokenizer())
    for sequences, sentences in zip((store.source, store.target), zip(*pairs)):
        assert tokenizer().decode(sequences) == list(sentences)


def test_pairs_with_too_many_tokens_are_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(token_store, "_CHUNK", 2)
    store = TokenStore.build(tmp_path / "tokens", iter(PAIRS), Numbers(), max_tokens=2)
    assert pairs_of(store) == PAIRS[1:4] and store.num_overlong_pairs == 2
    assert TokenStore(tmp_path / "tokens").num_overlong_pairs == 2
    nothing = TokenStore.build(tmp_path / "none", PAIRS[:1], Numbers(), max_tokens=2)
    assert (len(nothing), nothing.num_overlong_pairs) == (0, 1)
    assert TokenStore.build(tmp_path / "all", PAIRS, Numbers()).num_overlong_pairs == 0


def test_the_larger_vocabulary_decides_the_type(tmp_path):
    pairs = [("5", str(1 << 16))]
    args = tmp_path / "tokens", pairs, Numbers(10), "", Numbers((1 << 16) + 1)
    assert pairs_of(TokenStore.build(*args)) == pairs


# Making a store once


def count_encoded(tmp_path, pairs, numbers):
    calls = []

    class Counting(Numbers):
        def encode(self, sentences):
            calls.extend(sentences)
            return super().encode(sentences)

    counting = Counting(numbers.vocabulary_size)
    store = TokenStore.build_once(tmp_path / "tokens", text_of(pairs), counting)
    assert pairs_of(store) == pairs
    return len(calls)


def test_build_once_keeps_a_store_of_the_same_text_and_tokenizer(tmp_path):
    assert count_encoded(tmp_path, PAIRS, Numbers()) == 10
    assert count_encoded(tmp_path, PAIRS, Numbers()) == 0


@pytest.mark.parametrize(
    "pairs, numbers",
    [
        ([*PAIRS[:4], ("4998", "4 4 4 4")], Numbers()),
        (PAIRS[:4], Numbers()),
        (PAIRS[::-1], Numbers()),
        ([pair[::-1] for pair in PAIRS], Numbers()),
        (PAIRS, Numbers(6000)),
    ],
    ids=["a word", "fewer", "order", "direction", "tokenizer"],
)
def test_build_once_rebuilds_after_any_change(tmp_path, pairs, numbers):
    TokenStore.build_once(tmp_path / "tokens", text_of(PAIRS), Numbers())
    assert count_encoded(tmp_path, pairs, numbers) == 2 * len(pairs)
    assert count_encoded(tmp_path, pairs, numbers) == 0


def test_a_store_is_of_one_limit_and_one_target_vocabulary(tmp_path):
    path, text, numbers = tmp_path / "tokens", text_of(PAIRS), Numbers()
    found = []
    for how in ((None, None), (numbers, None), (Numbers(6000), None), (None, 2), (None, 3)):
        found.append(TokenStore.find(path, text, numbers, *how) is not None)
        TokenStore.build_once(path, text, numbers, *how)
        assert TokenStore.find(path, text, numbers, *how)
    # The same vocabulary for both is the one.
    assert found == [False, True, False, False, False]


def test_build_once_rebuilds_a_store_of_another_version(tmp_path):
    TokenStore.build_once(tmp_path / "tokens", text_of(PAIRS), Numbers())
    change_json(tmp_path / "tokens" / "store.json", format=0)
    error_of(TokenStore, tmp_path / "tokens")
    assert count_encoded(tmp_path, PAIRS, Numbers()) == 10


def change_json(path, **changes):
    info = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({name: value for name, value in info.items() if value is not None}))


# What is not a store


class Killed(BaseException):
    pass


def killed_after(count):
    for i in range(count):
        yield f"{4 + i}", "5"
    raise Killed


@pytest.mark.parametrize("count", [0, 25])
def test_a_build_that_was_killed_leaves_no_store(tmp_path, monkeypatch, count):
    monkeypatch.setattr(token_store, "_CHUNK", 10)
    path = tmp_path / "tokens"
    with pytest.raises(Killed):
        TokenStore.build(path, killed_after(count), Numbers())
    assert list(tmp_path.iterdir()) == []
    TokenStore.build(path, PAIRS, Numbers())
    with pytest.raises(Killed):
        TokenStore.build(path, killed_after(count), Numbers())
    assert pairs_of(TokenStore(path)) == PAIRS


def test_a_folder_that_is_not_a_store_is_refused_by_path(tmp_path):
    assert str(tmp_path / "none") in error_of(TokenStore, tmp_path / "none")
    assert str(tmp_path) in error_of(TokenStore, tmp_path)


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("bytes_lost", [1, 4, None])
def test_a_missing_or_truncated_part_is_refused_by_path(tmp_path, part, bytes_lost):
    path = tmp_path / "tokens"
    TokenStore.build(path, PAIRS, Numbers())
    if bytes_lost is None:
        (path / part).unlink()
    else:
        (path / part).write_bytes((path / part).read_bytes()[:-bytes_lost])
    assert str(path) in error_of(TokenStore, path)


@pytest.mark.parametrize("text", ["", "[]", "null", "\xff"])
def test_a_damaged_description_is_not_a_store(tmp_path, text):
    path = tmp_path / "tokens"
    TokenStore.build(path, PAIRS, Numbers())
    (path / "store.json").write_bytes(text.encode("latin-1"))
    assert str(path) in error_of(TokenStore, path)
