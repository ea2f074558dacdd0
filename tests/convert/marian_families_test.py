"""Folders as Helsinki-NLP published them from 2020 on, with the keys and files of their time.

The models are random and tiny: transformers and `kt.convert.marian` must find the same outputs.
"""

import dataclasses
import importlib.util
import json

import pytest

import keras_transformer as kt
from tests.convert.hf_marian_folder import random_config, spm, vocabulary, write_folder
from tests.helpers import assert_close
from tests.small_corpus import sentence_pairs

pytestmark = [
    pytest.mark.once,
    pytest.mark.skipif(
        importlib.util.find_spec("transformers") is None, reason="transformers is not installed"
    ),
]

SENTENCES = [source for source, _ in sentence_pairs(2, seed=9)]
# Keys of BART in a configuration of 2020; {pad} is the id of padding.
OF_2020 = {
    **{"add_bias_logits": False, "add_final_layer_norm": False, "classif_dropout": 0.0},
    **{"classifier_dropout": 0.0, "do_blenderbot_90_layernorm": False, "init_std": 0.02},
    **{"force_bos_token_to_be_generated": False, "normalize_before": False},
    **{"normalize_embedding": False, "static_position_embeddings": True},
    **{
        "encoder_layerdrop": 0.0,
        "decoder_layerdrop": 0.0,
        "num_hidden_layers": 1,
    },  # as many as encoder_layers
    **{"id2label": {"0": "LABEL_0"}, "bos_token_id": 0, "save_step": 5},
}
TC_BIG = {"activation_function": "relu", "max_position_embeddings": 128, "bos_token_id": 0}
TODAY = {"max_length": 64, "num_beams": 4, "renormalize_logits": True, "bos_token_id": 0}
FAMILIES = {
    "opus-mt-en-vi": {
        "keys": {**OF_2020, "extra_pos_embeddings": "pad + 1"},
        "options": {"max_length": 64, "num_beams": 6},
        "half": True,
    },
    # The first of all, of May 2020, when it was a BART with more options.
    "opus-mt-en-ROMANCE": {
        "keys": {**OF_2020, "add_bias_logits": True, "extra_pos_embeddings": 2},
        "options": {"max_length": 64, "num_beams": 6},
        "languages": ("fr", "pt_BR", "es_MX"),
    },
    "opus-mt-en-mul": {
        "keys": {"decoder_vocab_size": None},
        "options": {"max_length": 64, "num_beams": 4},
        "languages": ("aav", "cmn_Hans", "zza"),
    },
    "opus-mt-en-de": {"generation": {**TODAY, "forced_eos_token_id": 0}},
    "opus-mt-tc-big-fr-en": {"keys": TC_BIG, "generation": TODAY, "end": 21, "half": True},
    "opus-mt-tc-big-en-zle": {
        **{"keys": TC_BIG, "generation": TODAY, "end": 21, "languages": ("bel", "rus", "ukr")},
    },
    "separate vocabularies": {"keys": TC_BIG, "generation": TODAY, "is_separate": True},
}


def write_family(
    folder, keys=None, options=None, generation=None, languages=(), end=0, half=False, is_separate=0
):
    """Write a folder of one family with transformers.

    Args:
        folder: its path.
        keys: dict of further keys of `config.json`.
        options: dict of options of `generate` in `config.json`, as before `generation_config.json`.
        generation: dict of options in `generation_config.json`.
        languages: the codes of its target languages.
        end: the id of the end token.
        half: whether weights are a `pytorch_model.bin` in float16, with the tables of positions.
        is_separate: whether the vocabularies are two.
    """
    torch = pytest.importorskip("torch")
    from transformers import MarianMTModel

    more = [f">>{code}<<" for code in languages]
    protos = (spm(0), spm(1))
    sides = [vocabulary([proto], 60) for proto in protos] if is_separate else [vocabulary(protos)]
    if more:
        sides = [vocabulary(protos, more=more)]
    sides = [_with_end_at(names, end) for names in sides]
    size = len(sides[0])
    config = {
        **{**random_config(5), "encoder_layers": 1},
        **{"vocab_size": size, "decoder_vocab_size": size, "has_start": False, "has_bias": True},
        **{"share_encoder_decoder_embeddings": not is_separate, "tie_word_embeddings": True},
        **{"scale_embedding": True, "activation_function": "swish"},
        **{name: value for name, value in (keys or {}).items() if name in TC_BIG},
    }
    pad = size - 1
    banned = {"bad_words_ids": [[pad]]}
    write_folder(
        folder, 3, vocabularies=sides, generation={**(generation or {}), **banned}, **config
    )
    if half:
        model = MarianMTModel.from_pretrained(folder).half()
        torch.save(model.state_dict(), folder / "pytorch_model.bin")
        (folder / "model.safetensors").unlink()
    path = folder / "config.json"
    values = {**json.loads(path.read_text()), **(keys or {})}
    if values.get("extra_pos_embeddings") == "pad + 1":
        values["extra_pos_embeddings"] = pad + 1
    if options:
        (folder / "generation_config.json").unlink()
        values |= {**options, **banned, "length_penalty": 1.0}
        (folder / "tokenizer_config.json").write_text('{"source_lang": "en", "target_lang": "x"}')
    path.write_text(json.dumps({k: v for k, v in values.items() if v is not None}))


def _with_end_at(names, place):
    others = [name for name in names if name != "</s>"]
    return {name: i for i, name in enumerate([*others[:place], "</s>", *others[place:]])}


QUICK = ("opus-mt-en-vi", "opus-mt-tc-big-fr-en")


@pytest.mark.parametrize(
    "name",
    [*QUICK, *(pytest.param(x, marks=pytest.mark.slow) for x in FAMILIES if x not in QUICK)],
)
def test_translations_equal_transformers(name, tmp_path, caplog):
    torch = pytest.importorskip("torch")
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    family = FAMILIES[name]
    write_family(tmp_path, **family)
    theirs = AutoModelForSeq2SeqLM.from_pretrained(tmp_path, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    caplog.clear()
    language = family.get("languages", [None])[-1]
    ours = kt.Translator.from_preset(kt.convert.marian(tmp_path, target_language=language))
    assert not [record for record in caplog.records if "keras_transformer" in record.name]
    assert ours.search.beam_size == (family.get("options") or family["generation"])["num_beams"]
    ours.search = dataclasses.replace(ours.search, extra_length=6)
    before = f">>{language}<< " if language else ""
    for sentence, (translation, score) in zip(SENTENCES, ours.translate(SENTENCES)):
        batch = tokenizer([before + sentence], return_tensors="pt")
        (ids,) = ours.preprocessor.encode_sources([sentence])
        names = {i: name for name, i in tokenizer.encoder.items()}
        expected = [names[i] for i in batch["input_ids"][0].tolist()]
        assert ours.source_tokenizer.ids_to_tokens(ids) == expected
        found = theirs.generate(
            **batch,
            max_new_tokens=len(ids) - 1 + ours.extra_length,
            forced_eos_token_id=None,
            early_stopping="never",
            output_scores=True,
            return_dict_in_generate=True,
        )
        (expected,) = tokenizer.batch_decode(found.sequences, skip_special_tokens=True)
        assert translation.strip() == expected and expected
        assert_close(score, found.sequences_scores[0], atol=1e-3)


def test_options_that_contradict_the_weights_are_refused(tmp_path):
    """A key of BART is ignored, but not the weights that it stands for."""
    from safetensors.numpy import load_file, save_file

    write_family(tmp_path, keys={"normalize_embedding": True}, generation=TODAY)
    kt.convert.marian(tmp_path)
    path = tmp_path / "model.safetensors"
    weights = load_file(path)
    norm = weights["model.encoder.layers.0.final_layer_norm.weight"]
    save_file({**weights, "model.encoder.layernorm_embedding.weight": norm}, path)
    with pytest.raises(kt.UserError, match="not supported: 'model.encoder.layernorm_emb"):
        kt.convert.marian(tmp_path)
