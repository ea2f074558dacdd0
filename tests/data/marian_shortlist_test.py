"""Marian's files of shortlists, as text and binary."""

import gzip

import numpy as np
import pytest

import keras_transformer as kt

pytestmark = pytest.mark.once

SOURCE = ["<pad>", "<s>", "</s>", "<unk>", "a", "b", "c"]
TARGET = ["<pad>", "<s>", "</s>", "<unk>", "x", "y", "z", "ü"]
TEXT = """\
y a 0.3
x\ta\t0.5
NULL a 0.9
z a 0.3
y a 0.4
ü b 1e-3
x NULL 1
other b 0.25
ü </s> 0.75
z c 0
"""


def lists(shortlist):
    return [ids.tolist() for ids in np.split(shortlist.token_ids, shortlist.offsets[1:-1])]


@pytest.mark.parametrize("form", ["plain", "gzip"])
def test_text_has_the_target_before_the_source(form, tmp_path):
    path = tmp_path / "lex.s2t"
    path.write_bytes(gzip.compress(TEXT.encode()) if form == "gzip" else TEXT.encode())
    shortlist = kt.data.Shortlist.from_marian_text(path, SOURCE, TARGET)
    assert lists(shortlist) == [[], [], [7], [], [4, 5, 6], [7], []]
    assert shortlist.frequent.tolist() == [*range(8)] and shortlist.name == "lex.s2t"
    few = kt.data.Shortlist.from_marian_text(path, SOURCE, TARGET, 5, 2, 0.1)
    assert lists(few) == [[], [], [7], [], [4, 5], [], []]
    assert few.frequent.tolist() == [*range(5)]


@pytest.mark.parametrize("line", ["x a", "x a b 0.5", "x a 0,5", ""])
def test_other_lines_are_refused(line, tmp_path):
    path = tmp_path / "lex.s2t"
    path.write_text(f"x a 0.5\n{line}\ny a 0.5\n", "utf-8")
    with pytest.raises(kt.UserError, match="line 2: expected `target source probability`"):
        kt.data.Shortlist.from_marian_text(path, SOURCE, TARGET)
    with pytest.raises(kt.UserError, match="does not exist"):
        kt.data.Shortlist.from_marian_text(tmp_path / "lex", SOURCE, TARGET)


def test_a_binary_file_keeps_the_candidates_of_each_source(tmp_path):
    """Of sources that end with the end token; and each offset but the last is in the file."""
    shortlist = kt.data.Shortlist(
        np.array([0, 0, 0, 1, 1, 3, 3, 3]), np.array([4, 5, 7]), np.array([3, 6])
    )
    shortlist.save_as_marian(tmp_path / "lex.s2t.bin")
    again = kt.data.Shortlist.from_marian(tmp_path / "lex.s2t.bin", 7, 8)
    assert again.frequent.tolist() == [0, 1, 2, 3]
    assert lists(again) == [[], [], [4, 6], [], [5, 7], [], [0]]
    for token in range(4, 7):
        sources = np.array([[token, 2]])
        expected = shortlist.candidates(sources, 8)
        expected[:, :3] = True  # as in each search
        assert np.array_equal(again.candidates(sources, 8), expected)
    again.save_as_marian(tmp_path / "again.bin")
    assert (tmp_path / "again.bin").read_bytes() == (tmp_path / "lex.s2t.bin").read_bytes()
