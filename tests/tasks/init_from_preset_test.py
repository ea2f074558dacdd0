"""A training that begins with a converted model: two tokenizers, and tokens before sentences."""

import json

import numpy as np
import pytest
from scipy.special import log_softmax

import keras_transformer as kt
from keras_transformer.data.preprocessor import PrefixedTokenizer
from keras_transformer.models.variants import ModelOptions
from keras_transformer.reserved_ids import START_ID
from keras_transformer.tasks.init_from_preset import make_initial_model
from keras_transformer.training.processes import Processes
from keras_transformer.untranslated import SYMBOLS
from tests.convert import from_fsmt_test, from_m2m100_test
from tests.convert.fairseq_folders import text
from tests.convert.hf_marian_folder import random_config, spm, vocabulary, write_folder
from tests.helpers import to_numpy
from tests.parsing.small_trees import new_parser
from tests.small_corpus import sentence_pairs, tokenizer

pytestmark = pytest.mark.usefixtures("cheap_trainings")


def marian(folder):
    """Two tokenizers of one vocabulary, and the name of the target's language before sources."""
    names = vocabulary((spm(0), spm(1)), more=(">>deu<<", ">>fra<<"))
    config = {**random_config(2), "share_encoder_decoder_embeddings": True}
    write_folder(folder, vocabularies=[names], **{**config, "vocab_size": len(names)})
    return kt.Translator.from_preset(kt.convert.marian(folder, target_language="fra"))


def m2m100(folder):
    """One tokenizer, and languages before both sides."""
    from_m2m100_test.make_folder(folder)
    return from_m2m100_test.convert(folder)


def fsmt(folder):
    """Words as Moses has them, and a vocabulary a side."""
    from_fsmt_test.make_folder(folder)
    return kt.Translator.from_preset(kt.convert.fsmt(folder))


def log_loss(translator, pairs):
    """The mean of -log p of all tokens that the model predicts, sentence by sentence."""
    losses = []
    for source, target in pairs:
        expected = translator.output_ids(target)
        inputs = {
            "encoder_token_ids": np.array([translator.source_ids(source)], "int32"),
            "decoder_token_ids": np.array([[START_ID, *expected[:-1]]], "int32"),
        }
        (logits,) = to_numpy(translator.model(inputs)).astype("float64")
        losses += [-row[i] for row, i in zip(log_softmax(logits, axis=-1), expected)]
    return np.mean(losses)


def test_a_parser_must_have_the_vocabulary_size_of_its_preset(tmp_path):
    parser = new_parser()
    parser.save_to_preset(tmp_path / "parser")
    size = parser.model.config.vocabulary_size + len(SYMBOLS)
    how = ModelOptions(), Processes(), kt.parsing.ParserTransformer
    with pytest.raises(kt.UserError, match="another `vocabulary_size`"):
        make_initial_model(tmp_path / "parser", size, *how)


@pytest.mark.parametrize(
    "convert", [pytest.param(x, marks=pytest.mark.slow) for x in (marian, m2m100, fsmt)]
)
def test_a_training_begins_with_a_converted_model(convert, tmp_path):
    translator = convert(tmp_path / "theirs")
    translator.save_to_preset(tmp_path / "preset")
    pairs = sentence_pairs(12) if convert is marian else [*zip(text(12), text(12, side=1))]
    train, val = (
        kt.data.ParallelText("made-up", "train", "en", "de", lambda x=x: x)
        for x in (pairs, pairs[:3])
    )
    options = {"dropout": 0.0, "peak_learning_rate": 1e-9, "num_shapes": 1, "average": 1}
    options |= {"init": str(tmp_path / "preset"), "output_dir": tmp_path / "run", "interval": 1}
    tuned = kt.Translator.train(train, val, steps=1, **options)
    for x, y in zip(tuned.model.get_weights(), translator.model.get_weights(), strict=True):
        np.testing.assert_allclose(x, y, atol=1e-6)
    # What it is trained and validated on is what it reads and predicts in a search.
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    expected = np.exp(log_loss(translator, pairs[:3]))
    assert results["validation"]["perplexity"] == pytest.approx(expected, rel=1e-3)
    again = kt.Translator.from_preset(tmp_path / "run" / "model", search="greedy")
    assert again.tokenizer.fingerprint() == translator.tokenizer.fingerprint()
    assert again.source_tokenizer.fingerprint() == translator.source_tokenizer.fingerprint()
    prefixes = translator.preprocessor.source_prefix, translator.preprocessor.target_prefix
    assert (again.preprocessor.source_prefix, again.preprocessor.target_prefix) == prefixes


@pytest.mark.once
def test_a_prefix_is_stored_with_each_sentence(tmp_path):
    plain = tokenizer()
    prefixed = PrefixedTokenizer(plain, ["▁the"])
    (first,) = plain.tokens_to_ids(["▁the"])
    sentences = [source for source, _ in sentence_pairs(20)]
    ids = prefixed.encode(sentences)
    assert ids == [[first, *rest] for rest in plain.encode(sentences)]
    text = kt.data.ParallelText("made-up", "train", "en", "de", lambda: sentence_pairs(5))
    store = kt.data.TokenStore.build_once(tmp_path, text, plain)
    again = kt.data.TokenStore.build_once(tmp_path, text, prefixed)
    assert store.fingerprint != again.fingerprint and again.source[0][0] == first
    with pytest.raises(kt.UserError, match="no token 'nothing'"):
        PrefixedTokenizer(plain, ["nothing"])
