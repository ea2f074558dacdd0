import time

import pytest

from keras_transformer.errors import brief

pytestmark = pytest.mark.once


@pytest.mark.parametrize("value", ["a name", 7, None, [1, 2], {"a": True}, 1.5])
def test_short_values_are_shown_by_their_repr(value):
    assert brief(value) == repr(value)


def test_long_and_nested_values_are_cut_short():
    bomb = ["x"]
    for _ in range(30):
        bomb = [bomb] * 10
    began = time.monotonic()
    for value in ("x" * 10**6, [*range(10**5)], {i: i for i in range(10**5)}, bomb, 1 << 10**6):
        assert len(brief(value)) < 1000
    assert time.monotonic() - began < 5


def test_a_message_stays_one_line():
    class Lines:
        def __repr__(self):
            return "one\ntwo"

    assert brief(Lines()) == "one two"
