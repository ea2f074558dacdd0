"""Several corpora as one: ratios, tags, and what the tokenizer makes of them."""

from collections import Counter

import pytest

import keras_transformer as kt
from keras_transformer.data import FilterOptions, Mixture, MixtureOptions, TaggedText
from keras_transformer.data.batching import TokenBatches
from keras_transformer.data.token_store import TokenStore
from keras_transformer.data.tokenizer import Tokenizer

pytestmark = pytest.mark.once


def text(name, count, source="en", target="de"):
    pairs = [(f"{name} {i}", f"{target} {i}") for i in range(count)]
    return kt.data.ParallelText(name, "train", source, target, lambda: iter(pairs))


def test_a_mixture_without_ratios_has_each_pair_once():
    mixture = Mixture([text("a", 3), text("b", 2)])
    assert list(mixture) == list(mixture) == [*text("a", 3), *text("b", 2)]
    assert (len(mixture), mixture.name, mixture.counts) == (5, "a+b", [3, 2])
    assert (mixture.source_language, mixture.target_language) == ("en", "de")
    assert Mixture([text("a", 1), text("b", 1, "fr", "de")]).source_language == "mul"


@pytest.mark.parametrize(
    ("lengths", "ratios", "counts"),
    [
        ((10, 4), (1, 1), [10, 10]),
        ((4, 10), (1, 1), [4, 4]),
        ((10, 4), (2, 1), [10, 5]),
        ((10, 4), (4, 1), [10, 2]),
        ((10, 50), (1, 0.1), [10, 1]),
        ((10, 50), (1, 0.01), [10, 1]),
        ((10, 4, 3), (1, None, 1), [10, 4, 10]),
        ((10, 4), (None, 2), [10, 20]),
        ((10, 3, 5), (1, 0.5, 2), [10, 5, 20]),
        ((7,), (3,), [7]),
    ],
)
def test_ratios_set_how_often_each_text_is_repeated(lengths, ratios, counts):
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


def test_tags_are_put_before_sources_and_listed_by_mixtures():
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
def test_a_tag_is_one_token_before_the_sentence(model_type, normalization):
    mixture = Mixture([TaggedText(text("dog", 20), "<2de>"), TaggedText(text("cat", 9), "<bt>")])
    tokenizer = Tokenizer.train(
        (sentence for pair in mixture for sentence in pair),
        26,
        model_type,
        user_defined_symbols=mixture.tags,
        normalization=normalization,
    )
    tagged, plain = tokenizer.encode(["<2de> <bt> dog 7", "dog 7"])
    prefix = tokenizer.tokens_to_ids(tokenizer.tokens("<2de> <bt>"))
    assert tagged == [*prefix, *plain]
    assert {*tokenizer.tokens_to_ids(["<2de>", "<bt>"])} < {*prefix}


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


def test_held_out_sentences_of_the_first_corpus_are_in_no_other(tmp_path, caplog):
    caplog.set_level("INFO")
    sides = {side: [f"{side}{i}" for i in range(100)] for side in "abc"}
    pairs = {f"train__{side}": lines for side, lines in sides.items()}
    folder, other = write(tmp_path / "one", **pairs), write(tmp_path / "two", **pairs)
    also = ("source=b,target=a", "source=b,target=c,ratio=2", f"data_dir={other},tag=<bt>")
    options = MixtureOptions(also=also, tag_target=True)
    train, val, test = (
        kt.data.load_mixture("text", split, "a", "b", folder, options)
        for split in ("train", "val", "test")
    )
    assert train.counts == [96, 96, 192, 96] and (len(val), len(test)) == (2, 2)
    held_out = {sentence.split()[-1] for pair in (*val, *test) for sentence in pair}
    trained_on = {sentence.split()[-1] for pair in train for sentence in pair}
    assert len(held_out) == 8 and held_out.isdisjoint(trained_on)
    # Nothing else is left out: of other corpora nothing is held out for splits of their own.
    assert trained_on | held_out == {*sides["a"], *sides["b"], *sides["c"]} - {
        f"c{sentence[1:]}" for sentence in held_out if sentence[0] == "b"
    }
    assert "4 pairs of <ParallelText text train b-c: 100 pairs> are skipped" in caplog.text


def test_tatoeba_s_held_out_sentences_are_in_no_other_corpus(tmp_path):
    write(tmp_path / "tatoeba", train__tsv=["Hi.\tHallo!", "c\tc1"], dev__tsv=["c\tc2", "d\td1"])
    more = write(tmp_path / "more", train__en=["c", "e", "f"], train__de=["x", "d1", "f1"])
    options = MixtureOptions(also=(f"dataset=text,data_dir={more}", "source=en,target=de"))
    train = kt.data.load_mixture("tatoeba", "train", "de", "en", tmp_path, options)
    assert list(train) == [("Hallo!", "Hi."), ("f1", "f"), ("Hi.", "Hallo!")]


class Words:
    """Tokens are numbers; the vocabulary has 4,000."""

    vocabulary_size = 4000

    def encode(self, sentences):
        return [[int(word) for word in sentence.split()] for sentence in sentences]

    def fingerprint(self):
        return "words"


def mixture_of_lengths(sizes, ratios):
    """Pairs of many lengths, whose first source token is their number."""
    texts, number = [], 4
    for size in sizes:
        pairs = []
        for _ in range(size):
            length = 1 + number * 7 % 19
            pairs.append((f"{number} " * length, f"{number} " * (1 + length // 2)))
            number += 1
        texts.append(kt.data.ParallelText("t", "train", "en", "de", pairs))
    return Mixture(texts, ratios)


def numbers_of(batches, epoch, index):
    inputs, _, _ = batches.batch(epoch, index)
    ids = inputs["encoder_token_ids"][:, 0]
    return [int(i) - 4 for i in ids if i > 3]


def numbers_of_epoch(batches, epoch):
    indices = range(batches.plans.num_batches(epoch))
    return [number for index in indices for number in numbers_of(batches, epoch, index)]


@pytest.mark.parametrize("num_shapes", [1, 4, 12])
def test_epochs_of_a_training_have_the_ratios(tmp_path, num_shapes):
    sizes, counts = (30, 7, 200), [30, 45, 60]
    mixture = mixture_of_lengths(sizes, (1, 1.5, 2))
    assert mixture.counts == counts
    store = TokenStore.build_once(tmp_path / "store", mixture, Words())
    assert len(store) == 237 and store.parts == [[30, 30], [7, 45], [200, 60]]
    batches, again = (
        TokenBatches(store, 200, num_shapes, seed=3, compile_batches=2) for _ in range(2)
    )
    epochs = range(6)
    found = [Counter(numbers_of_epoch(batches, epoch)) for epoch in epochs]
    ends = [0, 30, 37, 237]
    for times in found:
        parts = [[times[i] for i in range(*ends[k : k + 2])] for k in range(3)]
        assert [sum(part) for part in parts] == counts
        assert {*parts[0]} == {1} and {*parts[1]} <= {6, 7} and {*parts[2]} <= {0, 1}
    # Another sample in each epoch, until all pairs have come.
    samples = [{i for i in times if i >= 37} for times in found]
    assert samples[0].isdisjoint(samples[1]) and {*range(37, 237)} == set().union(*samples)
    # Each batch can be made by itself, whichever was made before.
    last = batches.plans.first_step(6) - 1
    for step in (last, 5, 0, last // 2):
        assert again.pairs_of_step(step).tolist() == batches.pairs_of_step(step).tolist()
    other_seed = TokenBatches(store, 200, num_shapes, seed=4, compile_batches=2)
    assert {*numbers_of(other_seed, 0, 0)} != {*numbers_of(batches, 0, 0)}


def test_counts_of_tokens_are_of_an_epoch_and_not_of_the_store(tmp_path):
    mixture = mixture_of_lengths((20, 500), (1, 0.25))
    store = TokenStore.build(tmp_path / "store", mixture, Words())
    training = TokenBatches(store, 500, 3)
    assert training.plans.counts.sum() == pytest.approx(25)
    assert training.epochs(len(training)) == 1
    # Those of validation, whose epochs are all the same, are exact.
    validation = TokenBatches(store, 500, 3, training=False)
    batches = [validation.batch(epoch, i) for epoch in (0, 5) for i in range(len(validation))]
    weights = sum(float(weights.sum()) for _, _, weights in batches)
    assert weights == pytest.approx(2 * len(validation))


def test_a_sample_that_is_smaller_than_the_number_of_shapes(tmp_path):
    store = TokenStore.build(tmp_path / "store", mixture_of_lengths((2, 300), (1, 1)), Words())
    batches = TokenBatches(store, 200, 12)
    numbers = sorted(numbers_of_epoch(batches, 0))
    assert numbers[:2] == [0, 1] and len({*numbers}) == 4


def test_pairs_that_are_too_long_count_for_no_ratio(tmp_path):
    mixture = mixture_of_lengths((19, 19), (1, 2))
    store = TokenStore.build(tmp_path / "store", mixture, Words(), max_tokens=9)
    assert store.parts == [[9, 9], [9, 18]] and store.num_overlong_pairs == 20
    with pytest.raises(kt.UserError, match="The first text must not be empty"):
        TokenStore.build(
            tmp_path / "none", mixture_of_lengths((1, 19), (1, 2)), Words(), max_tokens=1
        )


def test_the_fingerprint_of_ratios_is_of_all_pairs():
    def mixture(ratio, last="z"):
        rows = [[("a", "b")], [("c", "d")] * 9 + [(last, last)]]
        texts = [kt.data.ParallelText("t", "train", "en", "de", row) for row in rows]
        return Mixture(texts, ratio and (1, ratio)).fingerprint()

    assert len({mixture(1), mixture(1, "y"), mixture(2), mixture(None)}) == 4
    assert mixture(1) == mixture(1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Mixture([]), "at least one text"),
        (lambda: Mixture([text("a", 1)], (1, 2)), "`ratios` must be 1 positive numbers"),
        (lambda: Mixture([text("a", 1)], (0,)), "positive numbers.*ratios=.0."),
        (lambda: TaggedText(text("a", 1)), "Tags must be words"),
        (lambda: TaggedText(text("a", 1), "a b"), "Tags must be words.*'a b'"),
        (lambda: TaggedText(text("a", 1), " "), "Tags must be words"),
        *(
            (lambda spec=spec: load(spec), "`also` must be NAME=VALUE.*ratio is a number. Received")
            for spec in ("bt", "folder=bt", "ratio=much", "")
        ),
        (lambda: Mixture([text("a", 1)], (float("nan"),)), "positive numbers.*ratios=.nan."),
        (lambda: Mixture([text("a", 1)], (float("inf"),)), "positive numbers.*ratios=.inf."),
    ],
)
def test_wrong_ratios_tags_and_specifications_are_refused(make, message):
    with pytest.raises(kt.UserError, match=message):
        make()


def load(spec):
    options = MixtureOptions(also=(spec,))
    return kt.data.load_mixture("synthetic", "train", "en", "de", None, options)
