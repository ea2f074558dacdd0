"""The files of each split of the Penn Treebank."""

import os
from pathlib import Path

import pytest

from keras_transformer.parsing.treebanks import find_penn_treebank

pytestmark = pytest.mark.once

SPLITS = ("train", "val", "test")


def lay_out(folder: Path, sections=(), sample=range(0), name="wsj_{:04}.mrg") -> Path:
    """Create empty files, two per section."""
    for section in sections:
        (folder / f"{section:02}").mkdir(parents=True, exist_ok=True)
        for number in (100 * section, 100 * section + 1):
            (folder / f"{section:02}" / name.format(number)).touch()
    folder.mkdir(exist_ok=True, parents=True)
    for number in sample:
        (folder / name.format(number)).touch()
    return folder


def names(split: str, data_dir: Path) -> list[str]:
    return [path.name for path in find_penn_treebank(split, data_dir)]


def error_of(*args) -> str:
    with pytest.raises(ValueError) as error:
        find_penn_treebank(*args)
    return str(error.value)


@pytest.mark.parametrize("below", ["", "wsj", "treebank_3/parsed/mrg/wsj"])
def test_sections_2_to_21_train_22_validates_and_23_tests(tmp_path, below):
    lay_out(tmp_path / below, sections=range(25))
    train, val, test = (names(split, tmp_path) for split in SPLITS)
    assert train == sorted(train) and len(train) == 2 * 20
    assert (train[0], train[-1]) == ("wsj_0200.mrg", "wsj_2101.mrg")
    assert val == ["wsj_2200.mrg", "wsj_2201.mrg"]
    assert test == ["wsj_2300.mrg", "wsj_2301.mrg"]


def test_file_names_may_be_in_capitals(tmp_path):
    lay_out(tmp_path / "WSJ", sections=range(25), name="WSJ_{:04}.MRG")
    assert names("val", tmp_path) == ["WSJ_2200.MRG", "WSJ_2201.MRG"]


@pytest.mark.parametrize("below", ["", "mrg", "ptb_sample/mrg"])
def test_the_sample_is_split_into_159_20_and_20_files(tmp_path, below):
    lay_out(tmp_path / below, sample=range(1, 200))
    train, val, test = (names(split, tmp_path) for split in SPLITS)
    assert [len(train), len(val), len(test)] == [159, 20, 20]
    assert [*train, *val, *test] == [f"wsj_{number:04}.mrg" for number in range(1, 200)]


def test_other_files_are_ignored(tmp_path):
    lay_out(tmp_path, sections=range(25))
    for other in ("wsj_2202.pos", "README.mrg", "wsj_220.mrg", "xwsj_2202.mrg"):
        (tmp_path / "22" / other).touch()
    assert len(names("val", tmp_path)) == 2


def test_circular_links_are_followed_once(tmp_path):
    corpus = lay_out(tmp_path / "corpus", sections=range(25))
    (corpus / "22" / "up").symlink_to(corpus)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "ptb").symlink_to(corpus)
    assert len(names("train", tmp_path / "data")) == 40


def test_the_whole_treebank_is_used_next_to_the_sample(tmp_path):
    lay_out(tmp_path / "wsj", sections=range(25))
    lay_out(tmp_path / "mrg", sample=range(1, 200))
    assert len(names("train", tmp_path)) == 40


def test_two_copies_of_a_file_are_an_error_with_both_paths(tmp_path):
    for copy in ("a", "b"):
        lay_out(tmp_path / copy, sections=range(25))
    message = error_of("val", tmp_path)
    for copy in ("a", "b"):
        assert str(tmp_path / copy / "22" / "wsj_2200.mrg") in message
    assert "`data_dir`" in message


def test_error_counts_and_names_missing_files(tmp_path):
    assert "ptb needs `data_dir`" in error_of("train", None)
    assert "must be an existing folder" in error_of("train", tmp_path / "nowhere")
    message = error_of("train", tmp_path)
    assert f"159 of the 159 files of 'train' not found in {tmp_path}" in message
    assert "wsj_0001.mrg, wsj_0002.mrg, wsj_0003.mrg, …" in message and "LDC99T42" in message


def test_error_names_missing_sections_and_files(tmp_path):
    lay_out(tmp_path / "ldc", sections=[2, 3, 5, *range(7, 23)])
    message = error_of("train", tmp_path / "ldc")
    assert "2 of the 20 sections of 'train'" in message
    assert "wsj/04/wsj_04*.mrg, wsj/06/wsj_06*.mrg." in message
    assert len(names("val", tmp_path / "ldc")) == 2
    lay_out(tmp_path / "sample", sample=range(1, 199))
    assert "1 of the 20 files of 'test'" in error_of("test", tmp_path / "sample")
    assert "wsj_0199.mrg" in error_of("test", tmp_path / "sample")


@pytest.mark.skipif(
    not os.environ.get("KERAS_TRANSFORMER_DATA"),
    reason="set KERAS_TRANSFORMER_DATA to the folder that holds ptb_sample/",
)
def test_the_real_sample_has_159_20_and_20_files():
    data_dir = Path(os.environ["KERAS_TRANSFORMER_DATA"])
    assert [len(names(split, data_dir)) for split in SPLITS] == [159, 20, 20]
