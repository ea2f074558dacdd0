"""A translator whose source has a vocabulary of its own, and tokens before those of each text."""

import functools

import keras
import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.reserved_ids import END_ID, START_ID
from tests.helpers import assert_close, to_numpy
from tests.small_corpus import WORDS, new_model, sentence_pairs, tokenizer

TEXTS = ["the dog", "", "a small cat sees the dog", "東京", "the red house and the man"]


@functools.cache
def source_tokenizer():
    """Of other pieces, in another order, with two tokens of languages."""
    sentences = [sentence for sentence, _ in sentence_pairs(200, seed=3)]
    return Tokenizer.train(sentences, 66, user_defined_symbols=["<de>", "<fr>"])


@functools.cache
def target_tokenizer():
    return Tokenizer.train([" ".join(WORDS)] * 9, 60, user_defined_symbols=["<a>", "<b>"])


@functools.cache
def model():
    sizes = {"vocabulary_size": 60, "source_vocabulary_size": 66, "normalize_first": True}
    return new_model(**sizes)


PREFIXES = {"source_prefix": ["<fr>"], "target_prefix": ["<b>", "<a>"]}


def new_translator(**options):
    common = {"model": model(), "source_tokenizer": source_tokenizer(), **PREFIXES}
    options = {"extra_length": 4, "batch_tokens": 64, **common, **options}
    return kt.Translator(preprocessor=target_tokenizer(), **options)


def searched(translator, text, search):
    """The ids and the score of a text, by a search without a translator."""
    (ids,) = source_tokenizer().encode([text])
    source = np.zeros((1, 16), "int32")  # one shape: few programs
    source_ids = [
        *source_tokenizer().tokens_to_ids(translator.preprocessor.source_prefix),
        *ids,
        END_ID,
    ]
    source[0, : len(source_ids)] = source_ids
    prefix = target_tokenizer().tokens_to_ids(translator.preprocessor.target_prefix)
    constraints = (kt.constraints.ForcedPrefix([prefix]),) if prefix else ()
    token_ids, scores = search(translator.model, source, constraints=constraints)
    return source_ids, to_numpy(token_ids)[0, 0], float(scores[0, 0])


@pytest.mark.parametrize("prefixes", [PREFIXES, {"source_prefix": (), "target_prefix": ()}])
def test_two_vocabularies_and_prefixes_give_the_results_of_the_search(prefixes):
    translator = new_translator(search=kt.BeamSearch(2, 0.0), **prefixes)
    count = len(translator.preprocessor.target_prefix)
    for text, (translation, score) in zip(TEXTS, translator.translate(TEXTS)):
        if not text:
            assert (translation, score) == ("", 0.0)
            continue
        source_ids, output, expected = searched(translator, text, translator.search)
        assert target_tokenizer().decode([output[count:]]) == [translation]
        assert "<b>" not in translation and "<a>" not in translation
        # With alpha 0, the score is the sum of log-probabilities; but for those of the prefix.
        inputs = np.array([source_ids]), np.array([[START_ID, *output[: count - 1]]])
        logits = translator.model(dict(zip(("encoder_token_ids", "decoder_token_ids"), inputs)))
        log_probs = to_numpy(keras.ops.log_softmax(logits))[0]
        of_prefix = sum(log_probs[i, output[i]] for i in range(count))
        assert score == pytest.approx(expected - of_prefix, abs=1e-4)


def test_a_length_penalty_counts_the_prefix():
    plain, penalised = (
        new_translator(search=kt.BeamSearch(1, alpha, length_penalty="power"))
        for alpha in (0.0, 1.0)
    )
    _, output, _ = searched(plain, TEXTS[0], plain.search)
    (_, score), (_, other) = (next(x.translate(TEXTS[:1])) for x in (plain, penalised))
    assert other == pytest.approx(score / np.count_nonzero(output), abs=1e-4)


def test_n_best_and_samples_begin_with_the_prefix():
    for search, count in ((kt.BeamSearch(3), 3), (kt.Sampling(), 4)):
        translator = new_translator(search=search)
        batch = np.array([[7, 8, END_ID], [9, END_ID, 0], [0, 0, 0]], "int32")
        token_ids, _ = translator.search_batch(batch, count)
        prefix = target_tokenizer().tokens_to_ids(PREFIXES["target_prefix"])
        assert (to_numpy(token_ids)[:2, :, :2] == prefix).all()
        assert not to_numpy(token_ids)[2].any()
        _, (token_ids, _) = translator.search_sentence("the dog", count)
        texts = [text for text, _ in next(translator.n_best(["the dog"], count))]
        assert texts == target_tokenizer().decode([row[2:] for row in to_numpy(token_ids)[0]])


@pytest.mark.once
def test_the_source_vocabulary_defines_unknown_characters():
    translator = new_translator(max_source_length=6)  # the prefix and the end token among them
    lengths = [len(ids) for ids in source_tokenizer().encode(["a " * n for n in range(1, 8)])]
    checks = translator.prepare(["a " * n for n in range(1, 8)], split=None)
    assert [check.is_cut for check in checks] == [length > 4 for length in lengths]
    assert {check.is_cut for check in checks} == {True, False}
    assert translator.prepare(["中文"])[0].is_unknown


def test_a_long_source_keeps_its_prefix():
    cut, whole = new_translator(max_source_length=5), new_translator()
    ids = source_tokenizer().encode(["the man the man the man"])[0]
    # What three tokens are of, without another text in between.
    text = source_tokenizer().decode([ids[:3]])[0]
    assert source_tokenizer().encode([text])[0] == ids[:3]
    expected, actual = (
        next(whole.translate([text])),
        next(cut.translate(["the man " * 3], split=None)),
    )
    assert actual[0] == expected[0]
    assert actual[1] == pytest.approx(expected[1], abs=1e-4)


@pytest.mark.once
def test_a_single_tokenizer_serves_both_sides():
    translator = kt.Translator(new_model(), tokenizer())
    assert translator.source_tokenizer is translator.tokenizer is tokenizer()
    assert translator.preprocessor.source_prefix == translator.preprocessor.target_prefix == ()


on_tensorflow = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="a SavedModel is made by TensorFlow"
)


@pytest.fixture
def saved_model(tmp_path):
    import tensorflow as tf

    translator = new_translator(max_source_length=8, beam_size=2)
    translator.export(tmp_path / "saved_model", num_results=2)
    return translator, tf.saved_model.load(str(tmp_path / "saved_model"))


@on_tensorflow
def test_a_saved_model_gives_the_results_of_python(saved_model):
    import tensorflow as tf

    translator, loaded = saved_model
    texts = [*TEXTS, "the man " * 9]
    served = loaded.signatures["n_best"](text=tf.constant(texts))
    for strings, scores, expected in zip(
        served["translation"].numpy(), served["score"].numpy(), translator.n_best(texts, 2)
    ):
        assert [text.decode() for text in strings] == [text for text, _ in expected]
        assert_close(scores, np.array([score for _, score in expected]), atol=1e-4)


@on_tensorflow
def test_a_tokenizer_without_a_proto_is_not_exported(tmp_path):
    class Words:
        def tokens_to_ids(self, symbols):
            return []

    with pytest.raises(kt.UserError, match="needs a SentencePiece tokenizer.*Words"):
        kt.Translator(new_model(), Words()).export(tmp_path / "saved_model")
