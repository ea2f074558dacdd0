import sys

import pytest

from keras_transformer.data.line_breaks import BREAKS, without_breaks

pytestmark = pytest.mark.once


def test_breaks_are_those_of_splitlines_and_the_tab():
    characters = map(chr, range(sys.maxunicode + 1))
    splitting = {x for x in characters if len(f"a{x}b".splitlines()) > 1}
    assert splitting | {"\t"} == set(BREAKS)


def test_a_text_is_one_line_and_keeps_what_its_source_has():
    text = f"a{BREAKS}b"
    assert without_breaks(text) == f"a{' ' * len(BREAKS)}b"
    assert without_breaks("a\n\tb\n", "x\ny") == "a\n b\n"
    assert without_breaks("a \xa0 b\x00") == "a \xa0 b\x00"
