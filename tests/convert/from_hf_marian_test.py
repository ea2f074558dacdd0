"""Marian's models in HuggingFace's form, compared with transformers."""

import importlib.util
import json
import logging
import os
from pathlib import Path

import numpy as np
import pytest
import sentencepiece
from keras import ops

import keras_transformer as kt
from keras_transformer.data.preprocessor import validate_tags
from keras_transformer.reserved_ids import END_ID, PAD_ID, START_ID, UNKNOWN_ID
from tests.convert.hf_marian_folder import (
    pieces_of,
    random_config,
    spm,
    train_spm,
    vocabulary,
    write_folder,
)
from tests.decoding.search_functions import beam_search, greedy_search
from tests.helpers import assert_close
from tests.small_corpus import sentence_pairs

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("transformers") is None, reason="transformers is not installed"
)

SHORT, LONG = range(3), range(3, 36)
FEW, MANY = range(6), range(6, 36)
LENGTH, NEW_TOKENS = 7, 12
TEXT = [
    *(source for source, _ in sentence_pairs(30, seed=5)),
    *("The DOG, a  cat; über—alles!", "東京 x ﬁne ½ é", "", "   ", "a\tb", "naïve Ångström"),
]


class Both:
    """A random model of transformers and its conversion."""

    def __init__(self, folder, seed, **config):
        self.seed = seed
        self.theirs = write_folder(folder, seed, **config)
        self.ours = kt.Translator.from_preset(kt.convert.marian(folder))
        self.source = self._our_ids(folder / "vocab.json", self.ours.source_tokenizer)
        target = folder / "target_vocab.json"
        target = target if target.is_file() else folder / "vocab.json"
        self.target = self._our_ids(target, self.ours.tokenizer)
        self.target[self.theirs.config.decoder_start_token_id] = START_ID

    @staticmethod
    def _our_ids(path, tokenizer):
        """Return our id of each of their ids, by the names of the tokens."""
        special = {"<pad>": PAD_ID, "</s>": END_ID, "<unk>": UNKNOWN_ID}
        names = [*json.loads(path.read_text("utf-8"))]
        return np.array([special[x] if x in special else _id(tokenizer, x) for x in names])

    def sources(self):
        """Return three random sources, and the same with one cut and padded."""
        pad = len(self.source) - 1
        ids = np.random.default_rng(self.seed).integers(2, pad - 1, (3, LENGTH))
        ids[:, -1] = 0
        padded = ids.copy()
        padded[1, 3], padded[1, 4:] = 0, pad
        return ids, padded


def _id(tokenizer, piece):
    try:
        return tokenizer.tokens_to_ids([piece])[0]
    except ValueError:  # the start token, which has a name of ours
        return START_ID


def check_logits(both):
    torch = pytest.importorskip("torch")

    _, sources = both.sources()
    targets = np.random.default_rng(1).integers(2, len(both.target) - 3, (3, 6))
    targets[:, 0] = both.theirs.config.decoder_start_token_id
    pad = len(both.source) - 1
    with torch.no_grad():
        expected = both.theirs(
            input_ids=torch.tensor(sources),
            attention_mask=torch.tensor(sources != pad),
            decoder_input_ids=torch.tensor(targets),
        ).logits.numpy()
    inputs = {
        "encoder_token_ids": both.source[sources],
        "decoder_token_ids": both.target[targets],
    }
    # Where padding is the start token too, its row is padding's.
    columns = both.target.copy()
    start = both.theirs.config.decoder_start_token_id
    if start == both.theirs.config.pad_token_id:
        columns[start] = PAD_ID
    actual = ops.convert_to_numpy(both.ours.model(inputs, training=False))
    assert_close(actual[:, :, columns], expected, atol=1e-4)
    assert actual.shape[-1] - expected.shape[-1] == (start == both.theirs.config.pad_token_id)


def check_searches(both, alpha):
    """Greedy and beam 4, tokens and scores. (Of one length, since theirs has one limit for all.)"""
    torch = pytest.importorskip("torch")

    sources, _ = both.sources()
    options = {"max_new_tokens": NEW_TOKENS, "return_dict_in_generate": True}
    # All of it: a token of the source can have the number of the target's padding.
    mask = torch.ones(sources.shape, dtype=torch.int64)
    batch = {"input_ids": torch.tensor(sources), "attention_mask": mask}
    greedy = both.theirs.generate(**batch, **options, num_beams=1, output_logits=True)
    log_probs = torch.log_softmax(torch.stack(greedy.logits, 1), -1)
    tokens = greedy.sequences[:, 1:]
    scores = torch.gather(log_probs, 2, tokens[..., None])[..., 0]
    pad = both.theirs.config.pad_token_id
    scores = torch.where(tokens == pad, 0.0, scores).sum(1)
    extra_length = NEW_TOKENS - (LENGTH - 1)  # beyond a source's tokens, its end token aside
    found = greedy_search(both.ours.model, both.source[sources], extra_length)
    check_same(both, tokens, scores, *found)

    beam = both.theirs.generate(
        **batch,
        **options,
        num_beams=4,
        num_return_sequences=1,
        output_scores=True,
        length_penalty=alpha,
        early_stopping="never",
    )
    found = beam_search(
        both.ours.model,
        both.source[sources],
        beam_size=4,
        alpha=alpha,
        length_penalty="power",
        extra_length=extra_length,
    )
    found = [ops.convert_to_numpy(x)[:, 0] for x in found]
    check_same(both, beam.sequences[:, 1:], beam.sequences_scores, *found)


def check_same(both, tokens, scores, our_tokens, our_scores):
    pad = both.theirs.config.pad_token_id
    expected = [[both.target[i] for i in row if i != pad] for row in tokens.tolist()]
    actual = [[i for i in row if i] for row in ops.convert_to_numpy(our_tokens).tolist()]
    assert actual == expected
    assert_close(our_scores, scores.numpy(), atol=1e-4)


@pytest.mark.parametrize("seed", [*FEW, *(pytest.param(i, marks=pytest.mark.slow) for i in MANY)])
def test_logits_equal_transformers(seed, tmp_path):
    check_logits(Both(tmp_path, seed, **random_config(seed)))


@pytest.mark.parametrize("seed", [*SHORT, *(pytest.param(i, marks=pytest.mark.slow) for i in LONG)])
def test_searches_give_the_outputs_and_scores_of_generate(seed, tmp_path):
    both = Both(tmp_path, seed, **random_config(seed))
    check_searches(both, alpha=(1.0, 0.0, 0.6)[seed % 3])


# Text


@pytest.mark.once
def test_tokens_equal_transformers(tmp_path):
    check_tokens(tmp_path, (spm(0), spm(1)), TEXT)


@pytest.mark.once
@pytest.mark.parametrize("is_separate", [False, True])
def test_tokens_of_real_text_equal_transformers(is_separate, tmp_path):
    folder = os.environ.get("KERAS_TRANSFORMER_DATA")
    if folder is None:
        pytest.skip("KERAS_TRANSFORMER_DATA is not set")
    files = [Path(folder) / "multi30k" / f"train.{language}" for language in ("en", "de")]
    sides = [file.read_text("utf-8").splitlines() for file in files]
    protos = [train_spm(sentences[:2000], 1500) for sentences in sides]
    # An English model does not know many characters of German text.
    check_tokens(tmp_path, protos, [*sides[0][2000:4000], *sides[1][2000:2200]], is_separate)


def check_tokens(folder, protos, sentences, is_separate=False):
    """All tokens of both sides, and the text of the target's."""
    from transformers import AutoTokenizer

    vocabularies = [vocabulary([proto]) for proto in protos]
    if not is_separate:
        vocabularies = [vocabulary(protos)]
    sizes = {"vocab_size": len(vocabularies[0]), "decoder_vocab_size": len(vocabularies[-1])}
    config = {**random_config(0), **sizes, "share_encoder_decoder_embeddings": not is_separate}
    config["has_start"] = False  # which would be one of the tokens
    both = Both(folder, 0, protos=protos, vocabularies=vocabularies, **config)
    theirs = AutoTokenizer.from_pretrained(folder)

    sources = without_rows(protos[0], sentences)
    expected = [both.source[ids[:-1]].tolist() for ids in theirs(sources)["input_ids"]]
    assert both.ours.source_tokenizer.encode(sources) == expected
    targets = without_rows(protos[1], sentences)
    expected = theirs(text_target=targets)["input_ids"]
    actual = both.ours.tokenizer.encode(targets)
    assert actual == [both.target[ids[:-1]].tolist() for ids in expected]

    known = [i for i, ids in enumerate(actual) if UNKNOWN_ID not in ids]
    assert len(known) > len(sentences) / 2
    texts = theirs.batch_decode([expected[i] for i in known], skip_special_tokens=True)
    assert both.ours.tokenizer.decode([actual[i] for i in known]) == texts


def without_rows(proto, sentences):
    """Return the sentences without runs of unknown characters, which are one token there."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=proto)
    pieces = {*pieces_of(proto)}
    left = [
        sentence
        for sentence in sentences
        if all(x in pieces or len(x) == 1 for x in processor.encode(sentence, out_type=str))
    ]
    assert len(left) > 0.8 * len(sentences)
    return left


@pytest.mark.once
def test_translations_equal_generate(tmp_path):
    from transformers import AutoTokenizer

    config = {**random_config(4), "vocab_size": 71, "decoder_vocab_size": 71, "has_start": False}
    model = write_folder(tmp_path, 4, generation={"num_beams": 3, "length_penalty": 0.5}, **config)
    theirs = AutoTokenizer.from_pretrained(tmp_path)
    translator = kt.Translator.from_preset(kt.convert.marian(tmp_path))
    assert str(translator.search) == "beam 3, alpha 0.5"
    sentences = [source for source, _ in sentence_pairs(6, seed=9)]
    for sentence, translation in zip(sentences, translator(sentences)):
        batch = theirs([sentence], return_tensors="pt")
        length = batch["input_ids"].shape[1] - 1 + translator.extra_length
        output = model.generate(**batch, early_stopping="never", max_new_tokens=length)
        (expected,) = theirs.batch_decode(output, skip_special_tokens=True)
        assert translation.strip() == expected  # they strip it


# Several languages


@pytest.fixture
def several(tmp_path):
    """A folder with names of languages among the tokens."""
    names = vocabulary((spm(0), spm(1)), more=(">>deu<<", ">>fra<<"))
    config = {**random_config(2), "share_encoder_decoder_embeddings": True}
    write_folder(tmp_path, vocabularies=[names], **{**config, "vocab_size": len(names)})
    return tmp_path


@pytest.mark.once
def test_the_target_language_is_the_first_source_token(several, caplog):
    from transformers import AutoTokenizer

    theirs = AutoTokenizer.from_pretrained(several)
    translator = kt.Translator.from_preset(kt.convert.marian(several, target_language="fra"))
    assert translator.preprocessor.source_prefix == (">>fra<<",)
    assert translator.metadata["target"] == "fra"
    ((their_ids,),) = [theirs([">>fra<< the dog"])["input_ids"]]
    plain = theirs(["the dog"])["input_ids"][0]
    assert their_ids[1:] == plain
    (ids,) = translator.preprocessor.encode_sources(["the dog"])
    assert ids[0] == translator.source_tokenizer.tokens_to_ids([">>fra<<"])[0]
    plain = kt.convert.marian(several).preprocessor.encode_sources(["the dog"])
    assert ids[1:] == plain[0]
    with caplog.at_level(logging.WARNING):
        kt.convert.marian(several)
    assert "with `target_language`: deu, fra" in caplog.text
    with pytest.raises(
        ValueError, match="must be one of the model's 2 languages.*'eng'.* deu, fra"
    ):
        kt.convert.marian(several, target_language="eng")


@pytest.mark.once
def test_tags_of_a_converted_model_become_its_tokens(several):
    from transformers import AutoTokenizer

    theirs = AutoTokenizer.from_pretrained(several)
    translator = kt.Translator.from_preset(kt.convert.marian(several, "deu"))
    for tag in (">>deu<<", ">>fra<<"):
        (ids,) = translator.tagged(tag).preprocessor.encode_sources(["the dog"])
        (expected,) = theirs([f"{tag} the dog"])["input_ids"]
        assert translator.source_tokenizer.ids_to_tokens(ids) == theirs.convert_ids_to_tokens(
            expected
        )
    with pytest.raises(kt.UserError, match="no token '>>spa<<'"):
        translator.tagged(">>spa<<")


@pytest.mark.once
def test_training_refuses_tags_that_the_tokenizer_splits(several):
    tokenizer = kt.Translator.from_preset(kt.convert.marian(several, "deu")).source_tokenizer
    with pytest.raises(kt.UserError, match="'>>deu<<' is a token .* as ordinary text: ▁ <unk> d e"):
        validate_tags(tokenizer, [">>deu<<"])


# Wrong folders


def spoil_config(folder, **options):
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **options}))


@pytest.fixture
def folder(tmp_path):
    write_folder(tmp_path, **random_config(1))
    return tmp_path


@pytest.mark.once
@pytest.mark.parametrize(
    "options, message",
    [
        ({"model_type": "bart"}, "a model of type 'bart'. Expected marian"),
        ({"normalize_before": True}, "Unsupported normalize_before=True"),
        ({"decoder_attention_heads": 3}, "decoder_attention_heads=3"),
        ({"activation_function": "gelu_new"}, "activation_function='gelu_new'"),
        ({"encoder_layers": "two"}, "encoder_layers must be a positive integer"),
        ({"encoder_layers": 9}, "no weights 'model.encoder.layers.3.self_attn"),
        ({"encoder_ffn_dim": 9}, r"fc1.weight' do not match"),
        ({"d_model": 4}, "config.json do not match"),
        ({"d_model": 10**12}, "config.json do not match"),
        ({"encoder_layers": 10**12}, "at most .* weights. Received: at least"),
        ({"decoder_ffn_dim": 10**12}, "at most .* weights. Received: at least"),
        ({"dropout": 10**400}, "dropout must be a number"),
        ({"activation_function": "x" * 10**5}, "Unsupported activation_function='x"),
        ({"vocab_size": 999}, "vocab.json has .* tokens; config.json expects 999"),
        ({"decoder_start_token_id": 999}, "id of the start token must be"),
        ({"pad_token_id": None}, "different ids for the end token and padding"),
        ({"quantization_config": {"bits": 8}}, "quantization_config="),
        ({"attention_dropout": "no"}, "attention_dropout must be a number"),
        ({"num_beams": 2, "length_penalty": "none"}, "length_penalty must be a number"),
        ({"num_beams": 0}, "beam_size"),
    ],
)
def test_unsupported_configurations_are_refused(options, message, folder):
    spoil_config(folder, **options)
    (folder / "generation_config.json").unlink()
    with pytest.raises(kt.UserError, match=message) as caught:
        kt.convert.marian(folder)
    assert "\n" not in str(caught.value)


@pytest.mark.once
@pytest.mark.parametrize("name", ["eos_token", "unk_token", "pad_token"])
def test_special_tokens_that_are_not_strings_are_refused(name, folder):
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), name: [1]}))
    with pytest.raises(kt.UserError, match=r"has no token \[1\]"):
        kt.convert.marian(folder)


@pytest.mark.once
def test_files_that_contradict_each_other_are_refused(folder):
    from safetensors.numpy import load_file, save_file

    path = folder / "model.safetensors"
    weights = load_file(path)
    for name, values, message in (
        (
            "model.encoder.layers.0.gate.weight",
            np.zeros(3),
            "weights that are not supported: .*gate",
        ),
        ("final_logits_bias", np.zeros((1, 9)), "final_logits_bias has 9 tokens"),
        ("model.encoder.embed_positions.weight", np.ones((9, 12)), "Expected Marian's sinusoids"),
    ):
        save_file({**weights, name: values.astype("float32")}, path)
        with pytest.raises(kt.UserError, match=message):
            kt.convert.marian(folder)
    save_file(weights, path)
    vocabulary = json.loads((folder / "vocab.json").read_text())
    for changed, message in (
        ({**vocabulary, "one more": len(vocabulary)}, "tokens; config.json expects"),
        ({**vocabulary, "</s>": 9}, "Expected the ids 0, 1, 2"),
        ({f"{name}!": i for name, i in vocabulary.items()}, "no token '</s>'"),
    ):
        (folder / "vocab.json").write_text(json.dumps(changed))
        with pytest.raises(kt.UserError, match=message):
            kt.convert.marian(folder)
    # A vocabulary and a configuration of fewer tokens than there are embeddings.
    config = (folder / "config.json").read_bytes()
    *names, _, pad = vocabulary
    size = len(names) + 1
    (folder / "vocab.json").write_text(json.dumps({x: i for i, x in enumerate([*names, pad])}))
    ids = {"pad_token_id": size - 1, "decoder_start_token_id": size - 1}
    spoil_config(folder, vocab_size=size, decoder_vocab_size=size, **ids)
    (folder / "generation_config.json").unlink()
    with pytest.raises(kt.UserError, match="do not match"):
        kt.convert.marian(folder)
    (folder / "config.json").write_bytes(config)
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    (folder / "source.spm").write_bytes(b"no such thing")
    with pytest.raises(kt.UserError, match="source.spm: Expected a SentencePiece model"):
        kt.convert.marian(folder)
    (folder / "source.spm").unlink()
    with pytest.raises(kt.UserError, match="source.spm is missing"):
        kt.convert.marian(folder)


@pytest.mark.once
def test_an_older_file_gives_the_same_weights(folder):
    # A file from before safetensors has each matrix by all its names, and the positions.
    torch = pytest.importorskip("torch")
    from transformers import MarianMTModel

    before = kt.convert.marian(folder).model.get_weights()
    torch.save(MarianMTModel.from_pretrained(folder).state_dict(), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    after = kt.convert.marian(folder).model.get_weights()
    assert all(map(np.array_equal, before, after)) and len(before) == len(after)
    path = folder / "pytorch_model.bin"
    path.write_bytes(path.read_bytes()[:-999])
    with pytest.raises(kt.UserError, match=r"pytorch_model.bin is (cut short|damaged)"):
        kt.convert.marian(folder)
