"""What is left out of a text, and why."""

import pytest

import keras_transformer as kt
from keras_transformer.data.filters import FilterOptions, filter_pairs

pytestmark = pytest.mark.once

LONG = "A long sentence " * 70


def text(pairs, source="en", target="de"):
    return kt.data.ParallelText("words", "train", source, target, lambda: iter(pairs))


def left_out(pairs, source="en", target="de", **options):
    kept, counts = filter_pairs(text(pairs, source, target), FilterOptions(**options))
    assert len(kept) == len(list(kept)) == len(list(kept))  # as often as one likes
    assert len(kept) + sum(counts.values()) == len(pairs)
    return list(kept), counts


def test_blank_and_long_pairs_are_removed():
    pairs = [("a dog", "ein Hund"), ("", "Nichts"), ("nothing", " \t"), ("long", LONG), (LONG, "x")]
    assert left_out(pairs) == (pairs[:1], {"blank": 2, "too long": 2})
    assert left_out(pairs, max_characters=None) == ([pairs[0], *pairs[3:]], {"blank": 2})


def test_a_text_without_removed_pairs_is_returned_unchanged():
    whole = text([("a dog", "ein Hund"), ("a dog", "ein Hund"), ("OK", "OK")])
    assert filter_pairs(whole, FilterOptions()) == (whole, {})


def test_pairs_over_the_length_ratio_are_left_out():
    pairs = [
        ("Yes.", "Selbstverständlich."),  # a word may be as long as it likes
        ("x" * 40, "y" * 120),
        ("x" * 40, "y" * 160),
        ("z" * 160, "x" * 40),
        ("The dog sees a very small cat there now.", "狗看见那里有一只小猫"),
    ]
    assert left_out(pairs, max_ratio=3.0) == ([*pairs[:2], pairs[4]], {"ratio": 2})


def test_duplicates_and_identical_sides_are_removed():
    pairs = [("OK", "OK "), ("a dog", "ein Hund"), ("a dog", "der Hund"), ("a dog", "ein Hund")]
    assert left_out(pairs, drop_identical=True) == (pairs[1:], {"identical": 1})
    assert left_out(pairs, drop_duplicates=True) == (pairs[:3], {"duplicate": 1})


def test_a_pair_in_several_texts_of_a_mixture_is_kept_once():
    def text(languages, *pairs):
        return kt.data.ParallelText("some", "train", *languages, lambda: iter(pairs))

    dog, cat, ok = ("a dog", "ein Hund"), ("a cat", "eine Katze"), ("OK", "OK")
    parts = [
        text(("en", "de"), dog, ok),
        kt.data.TaggedText(text(("en", "de"), cat, dog, cat), "<bt>"),
        text(("en", "fr"), ok),  # another translation
    ]
    options = kt.data.FilterOptions(drop_duplicates=True)
    filtered, left_out = kt.data.filter_pairs(kt.data.Mixture(parts), options)
    for _ in range(2):
        assert list(filtered) == [dog, ok, ("<bt> a cat", "eine Katze"), ok]
    assert left_out == {"duplicate": 2} and filtered.counts == [2, 1, 1]
    # The later part alone.
    assert list(filtered.texts[1]) == [("<bt> a cat", "eine Katze")]


@pytest.mark.parametrize(
    ("language", "right", "wrong"),
    [
        ("ru", "Собака бежит (x86).", "The dog runs."),
        ("zh_CN", "狗在跑，ＯＫ。", "ｏｋ ok"),
        ("ja", "いぬがはしる", "собака"),
        ("ko-KR", "개가 달린다", "いぬ"),
        ("de", "Größe", "Размер"),
    ],
)
def test_pairs_in_another_script_are_left_out(language, right, wrong):
    pairs = [("the dog runs", right), ("the dog runs", wrong), ("1 2 3 !", "1 2 3 !")]
    kept, counts = left_out(pairs, target=language, check_scripts=True)
    assert kept == [pairs[0], pairs[2]] and counts == {"script": 1}


def test_each_pair_has_one_reason(caplog):
    caplog.set_level("INFO", "keras_transformer")
    pairs = [("a", "b"), ("", ""), (LONG, LONG), ("c", "c")]
    _, counts = left_out(pairs, drop_identical=True)
    assert counts == {"blank": 1, "too long": 1, "identical": 1}
    assert (
        "3 of 4 pairs of words en-de are removed: 1 blank, 1 too long, 1 identical." in caplog.text
    )


@pytest.mark.parametrize(
    ("options", "language", "expected"),
    [
        ({"max_characters": 0}, "de", "`max_characters` must be a positive integer"),
        ({"max_ratio": 0.5}, "de", "`max_ratio` must be a number, 1 or larger"),
        ({"max_ratio": float("nan")}, "de", "`max_ratio` must be a number, 1 or larger"),
        ({"check_scripts": True}, "xx", "False for xx, whose script"),
        ({"drop_identical": True}, "de", "remove all pairs of .*: 1 blank, 1 identical"),
    ],
)  # fmt: skip
def test_filters_refuse_unknown_scripts_and_empty_results(options, language, expected):
    with pytest.raises(kt.UserError, match=expected):
        filter_pairs(text([("OK", "OK"), ("", "x")], "en", language), FilterOptions(**options))
