"""Several corpora as one: ratios, tags, and what the tokenizer makes of them."""

from collections import Counter

import pytest

import keras_transformer as kt
from keras_transformer.data import FilterOptions, Mixture, MixtureOptions, TaggedText
from keras_transformer.data.tokenizer import Tokenizer

pytestmark = pytest.mark.once


def text(name, count, source="en", target="de"):
    pairs = [(f"{name} {i}", f"{target} {i}") for i in range(count)]
    return kt.data.ParallelText(name, "train", source, target, lambda: iter(pairs))


def test_as_they_are():
    mixture = Mixture([text("a", 3), text("b", 2)])
    assert list(mixture) == list(mixture) == [*text("a", 3), *text("b", 2)]
    assert (len(mixture), mixture.name, mixture.counts) == (5, "a+b", [3, 2])
    assert (mixture.source_language, mixture.target_language) == ("en", "de")
    assert Mixture([text("a", 1), text("b", 1, "fr", "de")]).source_language == "mul"


@pytest.mark.parametrize(
    ("lengths", "ratios", "counts"),
    [
        ((10, 4), (1, 1), [10, 10]),
        ((4, 10), (1, 1), [10, 10]),
        ((10, 4), (2, 1), [10, 5]),
        ((10, 4), (4, 1), [16, 4]),
        ((10, 3, 5), (1, 0.5, 2), [10, 5, 20]),
        ((7,), (3,), [7]),
    ],
)
def test_ratios(lengths, ratios, counts):
    texts = [text(name, length) for name, length in zip("abc", lengths)]
    mixture = Mixture(texts, ratios)
    assert mixture.counts == counts and len(mixture) == sum(counts)
    times = Counter(mixture)
    for part, count in zip(texts, counts):
        # Each pair as often as any other, or once more: these are spread over the text.
        found = [times[pair] for pair in part]
        low, more = divmod(count, len(part))
        assert sum(found) == count and {*found} <= {low, low + 1}
        half = sum(number > low for number in found[: len(part) // 2])
        assert abs(half - more / 2) <= 1
    again = Mixture(texts, ratios)
    assert again.fingerprint() == mixture.fingerprint()
    assert Mixture(texts).fingerprint() != mixture.fingerprint() or counts == list(lengths)


def test_tags():
    tagged = TaggedText(TaggedText(text("a", 2), "<bt>"), "<2de>")
    assert list(tagged) == [("<2de> <bt> a 0", "de 0"), ("<2de> <bt> a 1", "de 1")]
    assert tagged.prefix == tagged.tags == ("<2de>", "<bt>")
    filtered, _ = kt.data.filter_pairs(tagged, FilterOptions(max_characters=9))
    assert list(filtered) == list(tagged) and filtered.prefix == tagged.prefix
    mixture = Mixture([tagged, TaggedText(text("b", 1), "<2fr>", "<2de>"), text("c", 1)])
    assert (mixture.prefix, mixture.tags) == ((), ("<2de>", "<bt>", "<2fr>"))
    assert tagged.is_tagged and Mixture([tagged, tagged]).is_tagged
    assert not mixture.is_tagged and not text("c", 1).is_tagged
    assert text("a", 1).tags == ()


@pytest.mark.parametrize("model_type", ["bpe", "unigram"])
@pytest.mark.parametrize("normalization", ["nmt_nfkc", "identity"])
def test_a_tag_is_one_token_before_those_of_the_sentence(model_type, normalization):
    mixture = Mixture([TaggedText(text("dog", 20), "<2de>"), TaggedText(text("cat", 9), "<bt>")])
    tokenizer = Tokenizer.train(
        (sentence for pair in mixture for sentence in pair),
        26,
        model_type,
        user_defined_symbols=mixture.tags,
        normalization=normalization,
    )
    tagged, plain = tokenizer.encode(["<2de> <bt> dog 7", "dog 7"])
    prefix = tokenizer.ids_of(tokenizer.tokens("<2de> <bt>"))
    assert tagged == [*prefix, *plain]
    assert {*tokenizer.ids_of(["<2de>", "<bt>"])} < {*prefix}


def test_parts_are_filtered_each_by_its_own_languages():
    russian = [("<no tag>", "собака"), ("OK", "OK"), ("", "x"), ("word", "dog")]
    parts = [
        TaggedText(text("a", 40), "<2de>"),
        TaggedText(kt.data.ParallelText("b", "train", "en", "ru", lambda: iter(russian)), "<2ru>"),
    ]
    options = FilterOptions(drop_identical=True, check_scripts=True)
    kept, left_out = kt.data.filter_pairs(Mixture(parts, (1, 1)), options)
    assert left_out == {"blank": 1, "identical": 1, "script": 1}
    assert kept.counts == [40, 40] and kept.tags == ("<2de>", "<2ru>")
    assert [*kept][-1] == ("<2ru> <no tag>", "собака")


def write(folder, **texts):
    folder.mkdir()
    for name, lines in texts.items():
        (folder / name.replace("__", ".")).write_text("".join(f"{line}\n" for line in lines))
    return folder


def test_corpora_by_their_names(tmp_path):
    sizes = {"train": 2, "val": 1}
    files = {f"{k}__{x}": [f"{x}{i}" for i in range(n)] for k, n in sizes.items() for x in "ab"}
    folder = write(tmp_path / "one", **files)
    back = write(tmp_path / "two", train__a=["made"], train__b=["real"])
    options = MixtureOptions(
        also=("source=b,target=a", f"data_dir={back},tag=<bt>,ratio=4"), tag_target=True
    )
    train, val = (
        kt.data.load_mixture("text", split, "a", "b", folder, options) for split in ("train", "val")
    )
    assert list(train) == [
        *(("<2b> a0", "b0"), ("<2b> a1", "b1"), ("<2a> b0", "a0"), ("<2a> b1", "a1")),
        *[("<2b> <bt> made", "real")] * 8,
    ]
    assert list(val) == [("<2b> a0", "b0")] and val.prefix == ("<2b>",)
    plain = kt.data.load_mixture("text", "train", "a", "b", folder, MixtureOptions())
    assert list(plain) == [("a0", "b0"), ("a1", "b1")] and plain.tags == ()


def test_only_of_the_first_corpus_something_is_held_out(tmp_path):
    pairs = {"train__a": [f"a{i}" for i in range(100)], "train__b": [f"b{i}" for i in range(100)]}
    folder, other = write(tmp_path / "one", **pairs), write(tmp_path / "two", **pairs)
    options = MixtureOptions(also=("source=b,target=a", f"data_dir={other}"))
    train = kt.data.load_mixture("text", "train", "a", "b", folder, options)
    assert train.counts == [96, 96, 100]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Mixture([]), "at least one text"),
        (lambda: Mixture([text("a", 1)], (1, 2)), "`ratios` must be 1 positive numbers"),
        (lambda: Mixture([text("a", 1)], (0,)), "positive numbers.*ratios=.0."),
        (lambda: TaggedText(text("a", 1)), "A tag must be a word"),
        (lambda: TaggedText(text("a", 1), "a b"), "A tag must be a word.*'a b'"),
        (lambda: TaggedText(text("a", 1), " "), "A tag must be a word"),
        *(
            (lambda spec=spec: load(spec), "`also` must be NAME=VALUE.*ratio is a number. Received")
            for spec in ("bt", "folder=bt", "ratio=much", "")
        ),
        (lambda: Mixture([text("a", 1)], (float("inf"),)), "positive numbers.*ratios=.inf."),
    ],
)
def test_wrong_mixtures(make, message):
    with pytest.raises(kt.UserError, match=message):
        make()


def load(spec):
    options = MixtureOptions(also=(spec,))
    return kt.data.load_mixture("synthetic", "train", "en", "de", None, options)
