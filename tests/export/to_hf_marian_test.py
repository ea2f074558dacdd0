"""Our models in transformers, and back."""

import importlib.util
import io
import json
import logging

import keras
import numpy as np
import pytest
import sentencepiece
from keras import ops

import keras_transformer as kt
from keras_transformer.convert.generation import generation_search
from keras_transformer.convert.hf_checkpoint import open_checkpoint
from keras_transformer.data.sentencepiece_model import RESERVED, reordered_proto
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.export.to_hf_marian import _generation
from keras_transformer.reserved_ids import END_ID, PAD_ID, START_ID, UNKNOWN_ID
from tests.convert.hf_marian_folder import pieces_of, random_config, spm, vocabulary, write_folder
from tests.helpers import assert_close, some_slow
from tests.small_corpus import new_model, sentence_pairs, tokenizer

pytestmark = [
    pytest.mark.once,
    pytest.mark.skipif(
        importlib.util.find_spec("transformers") is None, reason="transformers is not installed"
    ),
]

SENTENCES = [source for source, _ in sentence_pairs(8)]
SOURCE_SIZE = 47
MODELS = {
    "the paper's": {"layer_norm_epsilon": 1e-5},
    "several layers": {"num_layers": 2, "num_decoder_layers": 1, "decoder_intermediate_dim": 24},
    "biases": {"use_bias": True, "output_bias": True, "activation": "silu"},
    "gelu": {"activation": "gelu", "scale_embeddings": False},
    "apart": {"source_vocabulary_size": SOURCE_SIZE},
    "all apart": {"source_vocabulary_size": SOURCE_SIZE, "tie_weights": False},
    "untied": {"tie_weights": False, "activation": "tanh"},
}


def source_tokenizer():
    """Another vocabulary than the target's."""
    names = [name for name in pieces_of(spm(0)) if name not in RESERVED]
    return Tokenizer(reordered_proto(spm(0), [*RESERVED, *names][:SOURCE_SIZE]))


def new_translator(search=None, **options):
    model = new_model(**options)
    apart = options.get("source_vocabulary_size")
    own = {"source_tokenizer": source_tokenizer()} if apart else {}
    search = search or kt.BeamSearch(4, 1.0, "power", extra_length=8)
    return kt.Translator(model, tokenizer(), search=search, **own)


def load(folder):
    pytest.importorskip("torch")
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    model = AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    return model, AutoTokenizer.from_pretrained(folder)


@pytest.mark.parametrize("options", some_slow(MODELS, fast=("the paper's", "all apart")))
def test_transformers_gives_the_same_outputs(options, tmp_path):
    torch = pytest.importorskip("torch")

    translator = new_translator(**options)
    translator.export(tmp_path / "marian", format="marian")
    model, theirs = load(tmp_path / "marian")
    assert theirs(SENTENCES)["input_ids"] == translator.preprocessor.encode_sources(SENTENCES)

    sources = ops.convert_to_numpy(
        keras.utils.pad_sequences(translator.preprocessor.encode_sources(SENTENCES), padding="post")
    )
    targets = np.random.default_rng(0).integers(4, 60, (len(sources), 5))
    targets[:, 0] = START_ID
    inputs = {"encoder_token_ids": sources, "decoder_token_ids": targets}
    with torch.no_grad():
        logits = model(
            input_ids=torch.tensor(sources),
            attention_mask=torch.tensor(sources != PAD_ID),
            decoder_input_ids=torch.tensor(targets),
        ).logits
    # Their layer normalizations add 1e-5, and ours 1e-6 by default.
    atol = 1e-4 if "layer_norm_epsilon" in options else 2e-3
    assert_close(translator.model(inputs, training=False), logits, atol=atol)

    for sentence, (translation, score) in zip(SENTENCES, translator.translate(SENTENCES)):
        batch = theirs([sentence], return_tensors="pt")
        found = model.generate(
            **batch,
            max_new_tokens=batch["input_ids"].shape[1] - 1 + translator.extra_length,
            early_stopping="never",
            output_scores=True,
            return_dict_in_generate=True,
        )
        (expected,) = theirs.batch_decode(found.sequences, skip_special_tokens=True)
        assert translation.strip() == expected
        assert_close(score, found.sequences_scores[0], atol=1e-3)


@pytest.mark.parametrize("options", MODELS.values(), ids=MODELS)
def test_export_and_conversion_keep_the_weights(options, tmp_path):
    translator = new_translator(**options)
    translator.export(tmp_path / "marian", format="marian")
    back = kt.Translator.from_preset(kt.convert.marian(tmp_path / "marian"))
    assert [w.path.split("/", 1)[-1] for w in back.model.weights] == [
        w.path.split("/", 1)[-1] for w in translator.model.weights
    ]
    for before, after in zip(translator.model.get_weights(), back.model.get_weights()):
        np.testing.assert_array_equal(before, after)
    assert back.preprocessor.encode_sources(SENTENCES) == translator.preprocessor.encode_sources(
        SENTENCES
    )
    assert back.search.length_penalty == "power" and back.search.beam_size == 4


def test_a_converted_model_is_exported_again(tmp_path):
    """With the row of its start token, which was padding's."""
    torch = pytest.importorskip("torch")

    names = vocabulary((spm(0), spm(1)), more=(">>deu<<",))
    config = {**random_config(2), "has_start": False, "share_encoder_decoder_embeddings": True}
    theirs = write_folder(
        tmp_path / "a", vocabularies=[names], **{**config, "vocab_size": len(names)}
    )
    translator = kt.Translator.from_preset(kt.convert.marian(tmp_path / "a", target_language="deu"))
    translator.metadata["source"] = "eng"
    translator.export(tmp_path / "b", format="marian")
    again, their_tokenizer = load(tmp_path / "b")
    assert again.config.vocab_size == theirs.config.vocab_size + 1
    assert (their_tokenizer.source_lang, their_tokenizer.target_lang) == ("eng", "deu")
    text = ">>deu<< the dog"
    ids = their_tokenizer([text], return_tensors="pt")
    assert ids["input_ids"].tolist() == translator.preprocessor.encode_sources(["the dog"])
    old = load(tmp_path / "a")[1]([text], return_tensors="pt")
    for model, batch, start in ((theirs, old, len(names) - 1), (again, ids, START_ID)):
        with torch.no_grad():
            logits = model(**batch, decoder_input_ids=torch.tensor([[start]])).logits
        log_probs = torch.log_softmax(logits[0, 0], -1).sort().values
        if model is theirs:
            expected = log_probs
    assert_close(log_probs[1:], expected, atol=1e-4)  # the copy is the least likely


def test_a_target_prefix_is_the_first_generated_token(tmp_path):
    translator = kt.Translator(
        new_model(), tokenizer(), target_prefix=("▁dog",), beam_size=1, alpha=0.0, extra_length=5
    )
    translator.export(tmp_path / "marian", format="marian")
    model, theirs = load(tmp_path / "marian")
    output = model.generate(**theirs(["the cat"], return_tensors="pt"), max_new_tokens=9)
    assert output[0, 1] == tokenizer().tokens_to_ids(["▁dog"])[0]


def test_reserved_pieces_may_have_other_names(tmp_path):
    names = ("pad", "bos", "eos", "unk")
    proto = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES * 9),
        model_writer=proto,
        vocab_size=60,
        hard_vocab_limit=False,
        **{f"{name}_id": i for i, name in enumerate(names)},
        **{f"{name}_piece": f"[{name.upper()}]" for name in names},
    )
    named = Tokenizer(proto.getvalue())
    model = new_model(vocabulary_size=named.vocabulary_size)
    translator = kt.Translator(model, named, extra_length=8)
    translator.export(tmp_path / "model", format="marian")
    _, theirs = load(tmp_path / "model")
    assert (
        theirs(SENTENCES[0])["input_ids"]
        == translator.preprocessor.encode_sources(SENTENCES[:1])[0]
    )
    again = kt.Translator.from_preset(kt.convert.marian(tmp_path / "model"))
    assert again.preprocessor.encode_sources(SENTENCES) == translator.preprocessor.encode_sources(
        SENTENCES
    )


def test_another_length_penalty_is_exported_with_a_warning(tmp_path, caplog):
    with caplog.at_level(logging.WARNING):
        new_translator(kt.BeamSearch(2, 0.6)).export(tmp_path / "gnmt", format="marian")
    assert "length penalty 'gnmt'" in caplog.text
    written = json.loads((tmp_path / "gnmt" / "generation_config.json").read_text())
    assert written["num_beams"] == 2 and written["eos_token_id"] == END_ID


def test_searches_are_exported_and_converted(tmp_path, caplog):
    """With the constraints that transformers has; a warning names the others."""
    rules = kt.constraints
    translator = new_translator()
    translator.export(tmp_path / "model", format="marian")
    assert f"extra_length={translator.search.extra_length}" in caplog.text
    caplog.clear()
    folder = open_checkpoint(tmp_path / "model")

    def there_and_back(search):
        translator.search = search
        options = _generation(translator.to_preset())
        (folder.path / "generation_config.json").write_text(json.dumps(options))
        return generation_search(folder, np.arange(60))

    limits = (rules.NoRepeatedNgrams(2), rules.BannedTokens((5, 7)), rules.MinLength(2))
    of_beams = (rules.RepetitionPenalty(1.5, "log_probs"), *limits, rules.MaxLength(9))
    for search in (
        kt.BeamSearch(4, 1.0, "power"),
        kt.BeamSearch(1, 0.0),
        kt.BeamSearch(3, 0.5, "power", constraints=of_beams),
        kt.Sampling(0.5, 4, 0.75, constraints=(rules.RepetitionPenalty(1.5), *limits)),
        kt.Sampling(),
    ):
        assert there_and_back(search) == search
    assert not caplog.records
    others = (rules.ForcedPrefix([[5]]), rules.RepetitionPenalty(2.0), rules.NoUnknownToken())
    with caplog.at_level(logging.WARNING):
        _, banned = there_and_back(
            kt.BeamSearch(2, 0, "power", 0.2, constraints=others)
        ).constraints
    assert banned == rules.BannedTokens((UNKNOWN_ID,))
    (record,) = caplog.records
    for name in ("ForcedPrefix", "RepetitionPenalty", "coverage_penalty=0.2"):
        assert name in record.getMessage()
    assert "NoUnknownToken" not in record.getMessage()
