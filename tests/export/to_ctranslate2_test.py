import importlib.util
import json
import os
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from keras import ops

import keras_transformer as kt
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.presets.location import EXPORT_MARK
from keras_transformer.reserved_ids import END_ID, PAD_ID, START_ID
from tests.decoding.search_functions import greedy_search
from tests.helpers import assert_close, some_slow
from tests.small_corpus import new_model, sentence_pairs, tokenizer

pytestmark = pytest.mark.once

needs_ctranslate2 = pytest.mark.skipif(
    importlib.util.find_spec("ctranslate2") is None, reason="ctranslate2 is not installed"
)

PAIRS = sentence_pairs(12)
EXTRA_LENGTH = 8
MODELS = {
    "post-norm": {},
    "pre-norm": {"normalize_first": True},
    "several layers": {"num_layers": 3},
    "learned positions": {"position_encoding": "learned", "max_length": 100},
    "biases": {"use_bias": True},
    "smaller keys": {"key_dim": 4, "value_dim": 6, "use_bias": True},
    "smaller values": {"key_dim": 6, "value_dim": 4, "normalize_first": True},
    "heads wider than the model": {"key_dim": 12},
    "gelu": {"activation": "gelu"},
    "silu": {"activation": "silu"},
    "epsilon": {"layer_norm_epsilon": 0.1},
    "matrices apart": {"source_vocabulary_size": 60, "tie_weights": False, "output_bias": True},
    "other sinusoids": {"max_wavelength": 12345, "first_position": 2, "scale_embeddings": False},
    "post-norm with a norm after it": {"final_norm": True},
    "pre-norm without a norm after it": {"normalize_first": True, "final_norm": False},
    "stacks that differ": {
        "num_layers": 2,
        "num_decoder_layers": 1,
        "decoder_intermediate_dim": 24,
    },
}


@pytest.fixture(params=some_slow(MODELS, fast=("post-norm", "pre-norm", "learned positions")))
def translator(request):
    return kt.Translator(new_model(**request.param), tokenizer())


@pytest.fixture
def exported(translator, tmp_path):
    """The model, and the tokenizer, as someone without this package loads them."""
    import ctranslate2
    import sentencepiece

    translator.export(tmp_path / "model", format="ctranslate2")
    return (
        ctranslate2.Translator(str(tmp_path / "model"), compute_type="float32", intra_threads=1),
        sentencepiece.SentencePieceProcessor(str(tmp_path / "model" / "tokenizer.spm")),
    )


@needs_ctranslate2
def test_ctranslate2_gives_the_models_probabilities(translator, exported):
    model, processor = exported
    sources, targets = (translator.tokenizer.encode(sentences) for sentences in zip(*PAIRS))
    expected = log_probabilities(translator.model, sources, targets)
    # Longer and shorter sentences in one batch, so that the padding is looked at as well.
    pieces = [processor.encode(list(sentences), out_type=str) for sentences in zip(*PAIRS)]
    for result, log_probs in zip(model.score_batch(*pieces), expected):
        assert_close(result.log_probs, log_probs, atol=1e-4)


def log_probabilities(model, sources, targets):
    """Return the log-probabilities of each target's tokens and of its end, `(target + 1,)`."""
    inputs = {
        "encoder_token_ids": pad([[*source, END_ID] for source in sources]),
        "decoder_token_ids": pad([[START_ID, *target] for target in targets]),
    }
    log_probs = ops.convert_to_numpy(ops.log_softmax(model(inputs, training=False)))
    return [
        rows[range(len(target) + 1), [*target, END_ID]] for rows, target in zip(log_probs, targets)
    ]


def pad(token_ids):
    longest = max(map(len, token_ids))
    return np.array([ids + [PAD_ID] * (longest - len(ids)) for ids in token_ids])


@needs_ctranslate2
def test_greedy_translations_equal_ctranslate2s(translator, exported):
    model, processor = exported
    sources = [source for source, _ in PAIRS]
    batch = pad([[*ids, END_ID] for ids in translator.tokenizer.encode(sources)])
    outputs, _ = greedy_search(translator.model, batch, EXTRA_LENGTH)
    for source, expected in zip(sources, ops.convert_to_numpy(outputs)):
        tokens = processor.encode(source, out_type=str)
        # One at a time: CTranslate2 has one limit for a whole batch.
        result = model.translate_batch(
            [tokens],
            beam_size=1,
            min_decoding_length=0,
            suppress_sequences=[["<pad>"], ["<s>"]],
            max_decoding_length=len(tokens) + EXTRA_LENGTH,
            return_end_token=True,
        )
        ids = [processor.piece_to_id(piece) for piece in result[0].hypotheses[0]]
        assert ids == [i for i in expected if i != PAD_ID]


@needs_ctranslate2
def test_sentences_of_a_thousand_tokens_keep_their_probabilities(tmp_path):
    import ctranslate2

    translator = kt.Translator(new_model(), tokenizer())
    translator.export(tmp_path / "model", format="ctranslate2")
    model = ctranslate2.Translator(str(tmp_path / "model"), intra_threads=1)
    source, target = np.random.default_rng(0).integers(4, 60, (2, 1000)).tolist()
    pieces = json.loads((tmp_path / "model" / "shared_vocabulary.json").read_text())
    (result,) = model.score_batch([[pieces[i] for i in source]], [[pieces[i] for i in target]])
    (expected,) = log_probabilities(translator.model, [source], [target])
    # float32 rounds the angles of the sinusoids of far positions.
    assert_close(result.log_probs, expected, atol=1e-3)


@needs_ctranslate2
def test_a_bfloat16_policy_exports_the_float32_weights(tmp_path):
    import ctranslate2

    model = new_model(dtype="mixed_bfloat16")
    kt.Translator(model, tokenizer()).export(tmp_path / "mixed", format="ctranslate2")
    kt.Translator(new_model(), tokenizer()).export(tmp_path / "float32", format="ctranslate2")
    tokens = [["▁the", "▁dog"]], [["▁a", "▁cat"]]
    mixed, float32 = (
        ctranslate2.Translator(str(tmp_path / name), intra_threads=1).score_batch(*tokens)[0]
        for name in ("mixed", "float32")
    )
    # The weights are float32 under both policies, and CTranslate2 computes in float32.
    assert mixed.log_probs == float32.log_probs


@needs_ctranslate2
def test_an_export_is_written_completely_or_not_at_all(tmp_path, monkeypatch):
    translator = kt.Translator(new_model(), tokenizer())
    path = tmp_path / "model"
    translator.export(path, format="ctranslate2")
    before = {file.name: file.read_bytes() for file in path.iterdir()}
    names = {"model.bin", "config.json", "shared_vocabulary.json", "tokenizer.spm", EXPORT_MARK}
    assert names == set(before)

    def fail(path):
        raise OSError("no space left")

    monkeypatch.setattr(translator.tokenizer, "save", fail)
    translator.model.set_weights([weight + 1 for weight in translator.model.get_weights()])
    with pytest.raises(OSError, match="no space left"):
        translator.export(path, format="ctranslate2")
    assert before == {file.name: file.read_bytes() for file in path.iterdir()}
    assert [file.name for file in tmp_path.iterdir()] == ["model"]


# Options of its converter


@needs_ctranslate2
def test_int8_export_is_smaller_and_close_to_the_model(tmp_path):
    import ctranslate2

    translator, model = kt.Translator(new_model(), tokenizer()), tmp_path / "model"
    translator.export(model, format="ctranslate2", quantization="int8")
    small = ctranslate2.Translator(str(model), compute_type="float32", intra_threads=1)
    sizes = {}
    for quantization in (None, "int8"):
        translator.export(tmp_path / "other", quantization=quantization, format="ctranslate2")
        sizes[quantization] = (tmp_path / "other" / "model.bin").stat().st_size
    assert (model / "model.bin").stat().st_size == sizes["int8"] < sizes[None]
    sources, targets = [[5, 6, 7, 8]], [[9, 10]]
    pieces = json.loads((model / "shared_vocabulary.json").read_text())
    words = [[[pieces[i] for i in ids] for ids in batch] for batch in (sources, targets)]
    (expected,) = log_probabilities(translator.model, sources, targets)
    (result,) = small.score_batch(*words)
    assert_close(result.log_probs, expected, atol=0.1)
    assert not np.allclose(result.log_probs, expected, atol=1e-5)


# Two vocabularies


@needs_ctranslate2
def test_a_model_of_two_vocabularies_keeps_its_probabilities(tmp_path):
    import ctranslate2
    import sentencepiece

    source_tokenizer = Tokenizer.train([source for source, _ in sentence_pairs(100)], 50)
    model = new_model(source_vocabulary_size=50)
    translator = kt.Translator(
        model, tokenizer(), source_tokenizer=source_tokenizer, source_end=False
    )
    translator.export(tmp_path / "model", format="ctranslate2")
    source, target = (
        sentencepiece.SentencePieceProcessor(str(tmp_path / "model" / f"{side}.spm"))
        for side in ("source", "target")
    )
    theirs = ctranslate2.Translator(str(tmp_path / "model"), intra_threads=1)
    text, translation = PAIRS[0]
    (result,) = theirs.score_batch(
        [source.encode(text, out_type=str)], [target.encode(translation, out_type=str)]
    )
    ids = tokenizer().encode([translation])[0]
    inputs = {
        "encoder_token_ids": np.array(source_tokenizer.encode([text])),
        "decoder_token_ids": np.array([[START_ID, *ids]]),
    }
    log_probs = ops.convert_to_numpy(ops.log_softmax(model(inputs, training=False)))[0]
    assert_close(result.log_probs, log_probs[range(len(ids) + 1), [*ids, END_ID]], atol=1e-4)


# A shortlist


@needs_ctranslate2
def test_ctranslate2_translates_with_the_candidates_of_the_shortlist(tmp_path):
    import ctranslate2

    translator = kt.Translator(new_model(), tokenizer(), beam_size=1, alpha=0.0)
    size = translator.tokenizer.vocabulary_size
    rng = np.random.default_rng(0)
    lists = [np.sort(rng.choice(np.arange(4, size), 2, replace=False)) for _ in range(size)]
    shortlist = kt.data.Shortlist(np.arange(size + 1) * 2, np.concatenate(lists), np.array([7, 20]))
    translator.shortlist = shortlist
    translator.export(tmp_path / "model", format="ctranslate2")
    theirs = ctranslate2.Translator(str(tmp_path / "model"), intra_threads=1)
    names = translator.tokenizer.ids_to_tokens(range(size))
    outputs = {True: [], False: []}
    for ids in translator.tokenizer.encode([source for source, _ in PAIRS]):
        source = np.array([[*ids, END_ID]])
        expected, _ = translator.search_batch(source, 1)
        for use_vmap, found in outputs.items():
            (result,) = theirs.translate_batch(
                [[names[i] for i in ids]],
                use_vmap=use_vmap,
                disable_unk=True,
                beam_size=1,
                suppress_sequences=[["<pad>"], ["<s>"]],
                max_decoding_length=len(ids) + translator.extra_length,
                return_end_token=True,
            )
            found.append([names.index(piece) for piece in result.hypotheses[0]])
            if use_vmap:
                assert found[-1] == [i for i in ops.convert_to_numpy(expected)[0, 0] if i]
                allowed = shortlist.candidates(source, size)[0].nonzero()[0]
                assert {*found[-1]} <= {*allowed, *ids, END_ID}
    assert outputs[True] != outputs[False]


# A trained model


DATA = Path(os.environ.get("KERAS_TRANSFORMER_DATA", "no data")) / "multi30k"


@needs_ctranslate2
@pytest.mark.slow
@pytest.mark.skipif(not DATA.is_dir(), reason="KERAS_TRANSFORMER_DATA has no multi30k")
@pytest.mark.parametrize("beam_size", [1, 4])
def test_translations_of_multi30k_equal_ctranslate2s(beam_size, tmp_path):
    import ctranslate2

    preset = Path(__file__).parents[2] / "saved_models" / "multi30k_tok_en_de"
    search = kt.BeamSearch(beam_size, alpha=0.0)
    translator = kt.Translator.from_preset(preset, search=search)
    translator.export(tmp_path / "model", format="ctranslate2")
    theirs = ctranslate2.Translator(str(tmp_path / "model"), compute_type="float32")
    lines = (DATA / "test_2016_flickr.lc.norm.tok.en").read_text("utf-8").splitlines()
    assert len(lines) == 1000
    pieces = json.loads((tmp_path / "model" / "shared_vocabulary.json").read_text("utf-8"))
    batches = defaultdict(list)  # by length: CTranslate2 has one limit for a whole batch
    for index, ids in enumerate(translator.tokenizer.encode(lines)):
        batches[len(ids)].append((index, [pieces[i] for i in ids]))
    places = {piece: place for place, piece in enumerate(pieces)}
    expected = {}
    for length, batch in batches.items():
        results = theirs.translate_batch(
            [tokens for _, tokens in batch],
            beam_size=beam_size,
            length_penalty=0,
            suppress_sequences=[["<pad>"], ["<s>"]],
            max_decoding_length=length + search.extra_length,
        )
        for (index, _), result in zip(batch, results):
            expected[index] = [places[piece] for piece in result.hypotheses[0]]
    texts = translator.tokenizer.decode([expected[i] for i in range(len(lines))])
    assert translator(lines, split=None) == texts


def test_a_missing_ctranslate2_is_reported_with_its_install_command(tmp_path, monkeypatch):
    for module in ("ctranslate2", "ctranslate2.specs"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ValueError, match="pip install ctranslate2"):
        kt.Translator(new_model(), tokenizer()).export(tmp_path / "model", format="ctranslate2")
    assert list(tmp_path.iterdir()) == []
