import errno
import resource

import pytest

from keras_transformer.files import atomic_write
from keras_transformer.weights.weights_file import validate_room

pytestmark = pytest.mark.once


def test_the_check_of_room_leaves_no_file(tmp_path):
    validate_room(tmp_path / "file", 10_000)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_names_the_path(tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2048, hard))
    try:
        with pytest.raises(OSError) as error, atomic_write(tmp_path / "file") as new:
            validate_room(new, 10_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (error.value.errno, error.value.filename) == (errno.EFBIG, f"{tmp_path}/file")
    assert list(tmp_path.iterdir()) == []


def test_the_check_of_room_keeps_a_file(tmp_path):
    (tmp_path / "file").write_text("old")
    with pytest.raises(FileExistsError):
        validate_room(tmp_path / "file", 10_000)
    assert (tmp_path / "file").read_text() == "old"
