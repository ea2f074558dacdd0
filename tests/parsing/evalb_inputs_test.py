"""EVALB's parameter files."""

import pytest

from keras_transformer.parsing.evalb import Parameters

pytestmark = pytest.mark.once

PUNCTUATION = {",", ":", "``", "''", "."}
FILE = """\
# DELETE_LABEL IN-A-COMMENT
##------------------------------------------##
DEBUG 1
MAX_ERROR 7
CUTOFF_LEN 50   
LABELED 0

X
DELETE_LABEL TOP
DELETE_LABEL   .
DELETE_LABEL_FOR_LENGTH\t-NONE-
QUOTE_LABEL POS
EQ_LABEL ADVP PRT
EQ_WORD  This this  
EQ_WORD That that
"""


def write(tmp_path, text):
    path = tmp_path / "test.prm"
    path.write_text(text)
    return path


def test_each_keyword_of_a_parameter_file_is_read(tmp_path):
    assert Parameters.from_file(write(tmp_path, FILE)) == Parameters(
        max_error=7,
        cutoff_length=50,
        labeled=False,
        delete_labels=frozenset({"TOP", "."}),
        delete_labels_for_length=frozenset({"-NONE-"}),
        quote_labels=frozenset({"POS"}),
        equal_labels=frozenset({("ADVP", "PRT")}),
        equal_words=frozenset({("This", "this"), ("That", "that")}),
        debug=1,
    )


def test_a_parameter_file_may_have_windows_line_ends(tmp_path):
    windows = write(tmp_path, FILE.replace("\n", "\r\n"))
    assert Parameters.from_file(windows) == Parameters.from_file(write(tmp_path, FILE))


def test_an_empty_parameter_file_gives_the_defaults(tmp_path):
    assert Parameters.from_file(write(tmp_path, "")) == Parameters()
    assert (Parameters().max_error, Parameters().cutoff_length, Parameters().labeled) == (
        10,
        40,
        True,
    )


def test_the_last_of_repeated_numbers_is_used(tmp_path):
    path = write(tmp_path, "CUTOFF_LEN 10\nCUTOFF_LEN 20\n")
    assert Parameters.from_file(path).cutoff_length == 20


def test_named_parameters_equal_the_published_files():
    collins, new, nk = (Parameters.named(name) for name in ("COLLINS", "new", "nk"))
    assert collins == Parameters(
        delete_labels=frozenset({"TOP", "-NONE-"} | PUNCTUATION),
        delete_labels_for_length=frozenset({"-NONE-"}),
        equal_labels=frozenset({("ADVP", "PRT")}),
    )
    assert new.delete_labels == collins.delete_labels | {"S1", "?", "!"}
    assert new.quote_labels == {"``", "''", "POS", "NN", "CD", "VBZ", ":"}
    assert (new.max_error, nk.max_error) == (10, 10_000)
    assert (nk.delete_labels, nk.quote_labels) == (new.delete_labels, new.quote_labels)


@pytest.mark.parametrize(
    "line, message",
    [
        (
            "DELETE_LABLE TOP",
            "a line must begin with one of DEBUG, .* Received: 'DELETE_LABLE TOP'",
        ),
        (" DELETE_LABEL TOP", "a line must begin with one of"),
        ("LABELED1", "a line must begin with one of"),
        ("CUTOFF_LEN", "CUTOFF_LEN takes 1 value\\."),
        ("CUTOFF_LEN forty", "CUTOFF_LEN takes an integer"),
        ("DELETE_LABEL TOP # a comment", "DELETE_LABEL takes 1 value\\."),
        ("EQ_LABEL ADVP", "EQ_LABEL takes 2 values"),
        ("EQ_WORD a b c", "EQ_WORD takes 2 values"),
    ],
)
def test_error_names_the_invalid_line(tmp_path, line, message):
    path = write(tmp_path, f"# first\n{line}\n")
    with pytest.raises(ValueError, match=f"test.prm, line 2: {message}") as error:
        Parameters.from_file(path)
    assert "\n" not in str(error.value)


def test_error_names_a_file_that_cannot_be_read(tmp_path):
    with pytest.raises(ValueError, match="Cannot read the file .*none.prm: it does not exist"):
        Parameters.from_file(tmp_path / "none.prm")
    with pytest.raises(ValueError, match="Cannot read the file .*: Is a directory"):
        Parameters.from_file(tmp_path)


def test_error_of_an_unknown_name_lists_the_names():
    with pytest.raises(ValueError, match="one of COLLINS, new, nk. Received: name='collins'"):
        Parameters.named("collins")
