"""Placeholders that are copied, and those that are not."""

import pytest

import keras_transformer as kt
from keras_transformer.evaluation.placeholders import placeholders, score_placeholders

pytestmark = pytest.mark.once


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("%s has %d of %-5.2f and %ld, %zu, %m", ["%s", "%d", "%-5.2f", "%ld", "%zu", "%m"]),
        ('file "%2$s" at %1$u', ["%s", "%u"]),
        ("%1 of %2, %L3", ["%1", "%2", "%L3"]),
        ("%(name)s, {name}, {}, {0:d}, ${HOME}", ["%(name)s", "{name}", "{}", "{0:d}", "${HOME}"]),
        ("<b>bold</b> <a href='x y'> &lt;", ["<b>", "</b>", "<a href='x y'>", "&lt;"]),
        ("100 % sure, 5% discount, a < b > c, {not this}, R&D", []),
        ("%s:%s", ["%s", "%s"]),
    ],
)
def test_what_is_one(text, expected):
    assert sorted(placeholders(text).elements()) == sorted(expected)


def test_scores_worked_out_by_hand():
    pairs = [
        ("%s in %s", "in %2$s %1$s"),  # both, in another order
        ("%s in %s", "%s"),  # one is missing
        ("<b>a</b>", "<b>a</b> {x}"),  # one is added
        ("no placeholder", "%d"),  # here too
    ]
    scores = score_placeholders(*zip(*pairs))
    assert scores.to_dict() == {
        **{"num_placeholders": 6, "num_copied": 5, "num_added": 2},
        **{"num_sentences": 3, "num_right": 1},
    }
    assert "5 of 6 copied (83.3 %), 2 added; 1 of 3 sentences" in str(scores)
    assert "0 of 0 copied (0.0 %)" in str(score_placeholders(["a"], ["b"]))
    with pytest.raises(kt.UserError, match="1 sources and 2 hypotheses"):
        score_placeholders(["a"], ["b", "c"])
