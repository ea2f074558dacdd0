"""Files for Marian itself, computed with its formulas in NumPy."""

import numpy as np
import pytest
import sentencepiece
import yaml
from keras import ops

import keras_transformer as kt
from keras_transformer.convert.foreign_transformer import marian_wavelength
from keras_transformer.data.sentencepiece_model import in_our_order
from keras_transformer.decoding.constraints import WordPenalty
from keras_transformer.reserved_ids import START_ID
from tests.convert.marian_reference import HEADS, SIZE, WIDTH, Reference, sentencepiece_model
from tests.helpers import assert_close, class_for, randomize, some_slow

SIZES = {"num_layers": 2, "hidden_dim": SIZE, "intermediate_dim": WIDTH, "num_heads": HEADS}
SOURCE, TARGET = [5, 9, 6, 4, 2], [7, 4, 8, 2]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def translator(**options):
    tokenizer = kt.data.Tokenizer(in_our_order(sentencepiece_model()))
    source = options.get("source_vocabulary_size") and kt.data.Tokenizer(tokenizer.proto)
    options = {"zero_start": True, "max_wavelength": marian_wavelength(SIZE), **SIZES, **options}
    model = randomize(class_for(options)(tokenizer.vocabulary_size, **options))
    # A model that is not trained goes on to the limit.
    search = {"beam_size": 2, "alpha": 0.5, "length_penalty": "power", "extra_length": 5}
    return kt.Translator(model, tokenizer, source_tokenizer=source or None, **search)


MODELS = {
    "plain": {},
    "pre-norm": {"normalize_first": True, "normalize_keys": False, "use_bias": True},
    "ssru": {"decoder_type": "ssru", "tied_decoder_layers": [1, 1], "activation": "silu"},
    "own matrices": {"source_vocabulary_size": 13, "tie_weights": False, "output_bias": True},
    "tied output": {"source_vocabulary_size": 13, "num_decoder_layers": 1},
    "other steps": {"sublayer_steps": "nsdan", "normalize_keys": False, "final_steps": "an"},
    "depth": {"feed_forward_depth": 3, "decoder_intermediate_dim": 6, "embedding_steps": "dn"},
}


@pytest.mark.parametrize("options", some_slow(MODELS, fast=("plain", "ssru", "own matrices")))
def test_marians_formulas_give_the_models_log_probs(options, tmp_path):
    ours = translator(**options)
    ours.export(tmp_path / "model", format="marian_npz")
    arrays = dict(np.load(tmp_path / "model" / "model.npz", allow_pickle=False))
    written = yaml.safe_load(arrays.pop("special:model.yml").tobytes().partition(b"\0")[0])
    reference = Reference()
    reference.options, reference.arrays = written, dict(arrays)
    inputs = {"encoder_token_ids": [SOURCE], "decoder_token_ids": [[START_ID, *TARGET[:-1]]]}
    log_probs = ops.convert_to_numpy(
        ops.log_softmax(ours.model({name: np.array(x) for name, x in inputs.items()}))
    )[0, range(len(TARGET)), TARGET]
    assert_close(log_probs, reference.log_probs(SOURCE, TARGET), atol=1e-4)
    assert reference.arrays.keys() == arrays.keys()  # it needed no others
    again = kt.Translator.from_preset(kt.convert.marian(tmp_path / "model"))
    assert again.search.beam_size == 2 and again.search.alpha == 0.5
    weights = {weight.path: weight for weight in again.model.weights}
    for weight in ours.model.weights:  # `again` also has biases of zeros
        assert_close(weights[weight.path], weight)
    texts = ["abc", "hgfedcba"]
    assert ours(texts) == kt.Translator(again.model, again.preprocessor, search=ours.search)(texts)


def test_the_folder_holds_vocabularies_and_the_search(tmp_path, caplog):
    ours = translator(source_vocabulary_size=13)
    ours.search = kt.BeamSearch(3, alpha=1.0, constraints=(WordPenalty(0.5),))
    ours.export(tmp_path / "model", format="marian_npz")
    options = yaml.safe_load((tmp_path / "model" / "decoder.yml").read_text("utf-8"))
    assert options["beam-size"] == 3 and options["word-penalty"] == 0.5 and options["allow-unk"]
    assert "extra_length=50, max_length_factor=None, length_penalty=gnmt" in caplog.text
    for name in options["vocabs"]:
        processor = sentencepiece.SentencePieceProcessor(str(tmp_path / "model" / name))
        assert processor.encode("abc") == ours.tokenizer.encode(["abc"])[0]


@pytest.mark.parametrize("factor", [None, 2.0])
def test_a_warning_names_the_limits_that_marian_lacks(tmp_path, caplog, factor):
    ours = translator()
    ours.search = kt.BeamSearch(2, length_penalty="power", max_length_factor=factor)
    ours.export(tmp_path / "model", format="marian_npz")
    assert "extra_length=50" in caplog.text
    assert ("max_length_factor=None" in caplog.text) == (factor is None)
    assert kt.convert.marian(tmp_path / "model").search.max_length_factor == (factor or 3.0)


def test_a_shortlist_is_kept(tmp_path):
    ours = translator()
    size = ours.tokenizer.vocabulary_size
    offsets = np.concatenate([np.zeros(6, int), np.full(size - 5, 2)])
    ours.shortlist = kt.data.Shortlist(offsets, np.array([7, 9]), np.array([4, 11]))
    ours.export(tmp_path / "model", format="marian_npz")
    options = yaml.safe_load((tmp_path / "model" / "decoder.yml").read_text("utf-8"))
    assert options["shortlist"] == ["lex.s2t.bin"]
    again = kt.convert.marian(tmp_path / "model").shortlist
    source = np.array([[5, 6, 2]])
    found = (x.candidates(source, size)[0].nonzero()[0].tolist() for x in (ours.shortlist, again))
    assert next(found) == [4, 7, 9, 11] and next(found) == [0, 1, 2, 4, 7, 9, 11]
    ours.shortlist = None
    ours.export(tmp_path / "model", format="marian_npz")
    assert not (tmp_path / "model" / "lex.s2t.bin").exists()
