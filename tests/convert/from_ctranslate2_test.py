import importlib.util
import os
import struct
from pathlib import Path

import numpy as np
import pytest
from keras import ops

import keras_transformer as kt
from keras_transformer.convert.ctranslate2_files import _read_binary
from keras_transformer.reserved_ids import END_ID
from keras_transformer.translation.scoring import teacher_forced
from tests.convert.ctranslate2_models import (
    HIDDEN_DIM,
    SPECIAL,
    TARGET_WORDS,
    WORDS,
    new_spec,
    save,
    save_second_version,
)
from tests.helpers import assert_close
from tests.small_corpus import new_model, tokenizer

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("ctranslate2") is None, reason="ctranslate2 is not installed"
)

DATA = Path(os.environ.get("KERAS_TRANSFORMER_DATA", "no data")) / "ctranslate2_aren"
needs_data = pytest.mark.skipif(
    not DATA.is_dir(), reason="KERAS_TRANSFORMER_DATA has no such model"
)


# A real model


@needs_data
@pytest.mark.parametrize("beam_size", [1, 4])
def test_the_real_transliterator_gives_ctranslate2s_output_and_score(beam_size):
    import ctranslate2

    source = "آ ت ز م و ن"
    translator = kt.Translator.from_preset(kt.convert.ctranslate2(DATA))
    translator.search = kt.BeamSearch(beam_size=beam_size, alpha=0.0, extra_length=10)
    (result,) = ctranslate2.Translator(str(DATA), intra_threads=1).translate_batch(
        [source.split()], beam_size=beam_size, length_penalty=0, return_scores=True
    )
    ((text, score),) = translator.translate([source])
    assert text == " ".join(result.hypotheses[0]) == "a t z m o n"
    assert score == pytest.approx(result.scores[0], abs=1e-3)


@needs_data
def test_a_repetition_penalty_gives_ctranslate2s_outputs():
    # The outputs of CTranslate2 4.8.5, float32, greedy.
    expected = {
        1.2: "n n n n n e n",
        1.5: "n e n n n i n",
        5: "n e h a i g o u n",
        100: "n e h a i g o u r",
    }
    translator = kt.Translator.from_preset(kt.convert.ctranslate2(DATA))
    for penalty, output in expected.items():
        constraints = (kt.constraints.RepetitionPenalty(penalty),)
        translator.search = kt.BeamSearch(1, 0.0, constraints=constraints)
        assert translator(["ن ن ن ن ن"]) == [output]


@needs_data
def test_the_real_transliterator_gives_ctranslate2s_probabilities():
    assert_same_scores(
        kt.Translator.from_preset(kt.convert.ctranslate2(DATA)),
        DATA,
        ["آ ت ز م و ن", "ل ن د ن", "ب"],
        ["a t z m o n", "l o n d o n", "b"],
    )


@needs_data
def test_a_preset_of_the_transliterator_translates(tmp_path):
    kt.Translator.from_preset(kt.convert.ctranslate2(DATA)).save_to_preset(tmp_path / "preset")
    assert kt.Translator.from_preset(tmp_path / "preset")(["آ ت ز م و ن"]) == ["a t z m o n"]


# Models of every kind


def tokens_first(*tokens):
    """Return vocabularies that begin with other tokens."""
    return {"source": (*tokens, *WORDS), "target": (*tokens, *TARGET_WORDS)}


def set_activation(name):
    def change(spec):
        from ctranslate2.specs import common_spec

        spec.encoder.activation = spec.decoder.activation = np.int8(common_spec.Activation[name])

    return change


def set_attributes(**values):
    def change(spec):
        for stack in (spec.encoder, spec.decoder):
            for name, value in values.items():
                setattr(stack, name, value)

    return change


def set_positions(*tables):
    def change(spec):
        for stack, table in zip((spec.encoder, spec.decoder), tables):
            if table is not None:
                stack.position_encodings.encodings = table

    return change


def set_config(**values):
    def change(spec):
        for name, value in values.items():
            setattr(spec.config, name, value)

    return change


def scale_queries(spec):
    spec.encoder.layer[0].self_attention.queries_scale = np.float32(0.7)


def post_norm_with_final_norm(spec):
    set_attributes(pre_norm=False)(spec)


def start_from_zeros(spec):
    spec.decoder.start_from_zero_embedding = True
    spec.config.decoder_start_token = "</s>"


def sinusoids(length, first_position, max_wavelength, in_halves):
    rates = max_wavelength ** (-np.arange(0, HIDDEN_DIM, 2) / HIDDEN_DIM)
    angles = (np.arange(length)[:, None] + first_position) * rates
    parts = [np.sin(angles), np.cos(angles)]
    table = np.concatenate(parts, 1) if in_halves else np.stack(parts, -1).reshape(length, -1)
    return table.astype("float32")


SHARED = (*SPECIAL, *WORDS)
LEARNED = np.random.default_rng(1).normal(size=(2, 100, HIDDEN_DIM)).astype("float32")
FAIRSEQ = 10000 ** (8 / 7)
# Arguments of the specification, changes of it, and the expected hyperparameters.
SPECS = {
    "pre-norm": ({}, (), {"normalize_first": True, "max_wavelength": FAIRSEQ, "first_position": 1}),
    "post-norm": ({"pre_norm": False}, (), {"normalize_first": False, "final_norm": None}),
    "no final norm": ({"no_final_norm": True}, (), {"final_norm": False}),
    "both norms": ({}, (post_norm_with_final_norm,), {"final_norm": True}),
    "silu": ({}, (set_activation("SWISH"),), {"activation": "silu"}),
    "gelu": ({}, (set_activation("GELU"),), {"activation": "gelu"}),
    "tanh": ({}, (set_activation("Tanh"),), {"activation": "tanh"}),
    "sigmoid": ({}, (set_activation("Sigmoid"),), {"activation": "sigmoid"}),
    "no biases": ({"biases": False, "output_bias": False}, (), {"use_bias": False}),
    "wide heads": ({"head_dim": 12}, (), {"key_dim": 12}),
    "a scale of its own": ({}, (scale_queries,), {}),
    "stacks that differ": (
        {"num_layers": (1, 3), "inner": (24, 32)},
        (),
        {"num_decoder_layers": 3, "decoder_intermediate_dim": 32},
    ),
    "no scale": ({}, (set_attributes(scale_embeddings=False),), {"scale_embeddings": False}),
    "scaled by a number": (
        {},
        (set_attributes(scale_embeddings=np.float32(4.0)),),
        {"scale_embeddings": True},
    ),
    "epsilon": ({}, (set_config(layer_norm_epsilon=0.1),), {"layer_norm_epsilon": 0.1}),
    "one vocabulary, tied": (
        {"source": SHARED, "target": SHARED, "tied": True, "output_bias": False},
        (),
        {"source_vocabulary_size": None, "tie_weights": True, "output_bias": False},
    ),
    "one vocabulary, a matrix of its own for logits": (
        {"source": SHARED, "target": SHARED},
        (),
        {"source_vocabulary_size": None, "tie_weights": False, "output_bias": True},
    ),
    "interleaved table": (
        {},
        (set_positions(*[sinusoids(50, 0, 10000, False)] * 2),),
        {"max_wavelength": 10000, "first_position": 0},
    ),
    "table in halves": (
        {},
        (set_positions(*[sinusoids(50, 0, 10000, True)] * 2),),
        {"max_wavelength": 10000, "first_position": 0},
    ),
    "fairseq's table": (
        {},
        (set_positions(*[sinusoids(50, 2, FAIRSEQ, True)] * 2),),
        {"max_wavelength": FAIRSEQ, "first_position": 2},
    ),
    "learned tables": (
        {},
        (set_positions(*LEARNED),),
        {"position_encoding": "learned", "max_length": 100},
    ),
    "learned in the source alone": (
        {},
        (set_positions(LEARNED[0]),),
        {"position_encoding": "learned", "max_length": 100},
    ),
    "starts with the end": (
        tokens_first("<pad>", "</s>", "<s>"),
        (set_config(decoder_start_token="</s>"),),
        {"output_bias": True},
    ),
    "starts with padding, which is last": (
        {"source": (*WORDS, "</s>", "<pad>"), "target": (*TARGET_WORDS, "</s>", "<pad>")},
        (set_config(decoder_start_token="<pad>"),),
        {},
    ),
    "starts with zeros, without padding": (tokens_first("</s>"), (start_from_zeros,), {}),
    "no end of the source": ({}, (set_config(add_source_eos=False),), {}),
    "start of the source": ({}, (set_config(add_source_bos=True),), {}),
}


@pytest.mark.once
@pytest.mark.parametrize("name", SPECS)
def test_each_kind_of_model_gives_ctranslate2s_probabilities(name, tmp_path):
    options, changes, expected = SPECS[name]
    spec = new_spec(**options)
    for change in changes:
        change(spec)
    save(spec, tmp_path / "model")
    translator = kt.Translator.from_preset(kt.convert.ctranslate2(tmp_path / "model"))
    hyperparameters = translator.model.hyperparameters
    assert {name: hyperparameters[name] for name in expected} == pytest.approx(expected)
    is_shared = options.get("source") == SHARED
    generator = np.random.default_rng(2)
    sources, targets = (
        [" ".join(generator.choice(words, length)) for length in (5, 9, 2)]
        for words in (WORDS, WORDS if is_shared else TARGET_WORDS)
    )
    assert_same_scores(translator, tmp_path / "model", sources, targets)


@pytest.mark.once
@pytest.mark.parametrize("quantization", ["float16", "bfloat16", "int16", "int8", "int8_bfloat16"])
def test_quantized_models_give_ctranslate2s_probabilities(quantization, tmp_path):
    if "bfloat16" in quantization:
        pytest.importorskip("torch")  # CTranslate2 converts with it
    save(new_spec(tied=True, output_bias=False), tmp_path / "model", quantization)
    translator = kt.Translator.from_preset(kt.convert.ctranslate2(tmp_path / "model"))
    assert translator.model.config.tie_weights
    sources, targets = ["w1 w2 w3 w4", "w5"], ["t1 t2", "t3 t4 t5"]
    assert_same_scores(translator, tmp_path / "model", sources, targets)


def assert_same_scores(translator, folder, sources, targets, prefixes=("", "")):
    """Compare each token's log-probability with CTranslate2's in float32, which needs the prefixes
    of sources and targets.
    """
    import ctranslate2

    theirs = ctranslate2.Translator(str(folder), compute_type="float32", intra_threads=1)
    words = [
        [f"{prefix}{text}".split() for text in texts]
        for prefix, texts in zip(prefixes, (sources, targets))
    ]
    target_ids = [[*ids, END_ID] for ids in translator.tokenizer.encode(targets)]
    outputs = teacher_forced(
        translator.model, translator.preprocessor.encode_sources(sources), target_ids, 256
    )
    for result, output in zip(theirs.score_batch(*words), outputs):
        assert_close(output.log_probs, result.log_probs, atol=1e-4)


# Models that went out


ROUND_TRIPS = {
    "post-norm": {},
    "pre-norm": {"normalize_first": True, "layer_norm_epsilon": 1e-5},
    "biases": {"use_bias": True, "activation": "gelu"},
    "learned": {"position_encoding": "learned", "max_length": 100},
    "apart": {"source_vocabulary_size": 60, "tie_weights": False, "output_bias": True},
    "fairseq": {"max_wavelength": FAIRSEQ, "first_position": 2, "scale_embeddings": False},
    "norms": {"final_norm": True},
    "no norm": {"normalize_first": True, "final_norm": False},
    "stacks": {"num_layers": 2, "num_decoder_layers": 1, "decoder_intermediate_dim": 24},
}


@pytest.mark.once
@pytest.mark.parametrize("name", ROUND_TRIPS)
def test_export_and_conversion_keep_the_weights(name, tmp_path):
    before = kt.Translator(new_model(dropout=0.1, **ROUND_TRIPS[name]), tokenizer())
    before.export(tmp_path / "model", format="ctranslate2")
    after = kt.Translator.from_preset(kt.convert.ctranslate2(tmp_path / "model"))
    assert after.model.hyperparameters == pytest.approx(before.model.hyperparameters)
    for old, new in zip(before.model.weights, after.model.weights, strict=True):
        assert old.name == new.name
        np.testing.assert_array_equal(*map(ops.convert_to_numpy, (old, new)))
    sentences = ["the dog sees a cat", "über 東京"]
    assert after.preprocessor.encode_sources(sentences) == before.preprocessor.encode_sources(
        sentences
    )


# Old files


@pytest.mark.once
def test_the_second_version_of_the_format_gives_the_same_scores(tmp_path):
    spec = new_spec()
    folder = tmp_path / "model"
    save_second_version(spec, folder)
    translator = kt.Translator.from_preset(kt.convert.ctranslate2(folder))
    assert translator.model.config.num_heads == 8  # it names no number
    assert not translator.preprocessor.source_end
    assert_same_scores(translator, folder, ["w1 w2 w3 w4", "w5"], ["t1 t2", "t3 t4 t5"])
    binary = (folder / "model.bin").read_bytes()
    (folder / "model.bin").write_bytes(binary[:-1])
    with pytest.raises(kt.UserError, match="cut short"):
        kt.convert.ctranslate2(folder)


@pytest.mark.once
def test_words_are_tokens_of_the_tokenizer_of_an_export(tmp_path):
    save(new_spec(), tmp_path / "model")
    translator = kt.Translator.from_preset(kt.convert.ctranslate2(tmp_path / "model"))
    translator.export(tmp_path / "again", format="ctranslate2")
    again = kt.Translator.from_preset(kt.convert.ctranslate2(tmp_path / "again"))
    assert again.preprocessor.encode_sources(
        ["w1 w2 w9"]
    ) == translator.preprocessor.encode_sources(["w1 w2 w9"])
    assert_same_scores(translator, tmp_path / "model", ["w1 w2"], ["t1"])
    for old, new in zip(translator.model.weights, again.model.weights, strict=True):
        np.testing.assert_array_equal(*map(ops.convert_to_numpy, (old, new)))


# Bad input


def extra(scope, name, value=None):
    """Return a function that adds a variable of another kind of model."""

    def change(spec):
        from ctranslate2.specs import model_spec

        part = model_spec.index_spec(spec, scope) if scope else spec
        part.__dict__[name] = np.ones((2, 2), "float32") if value is None else value

    return change


def norm_of(stack):
    def change(spec):
        from ctranslate2.specs import common_spec

        norm = common_spec.LayerNormSpec()
        norm.gamma = norm.beta = np.ones(HIDDEN_DIM, "float32")
        getattr(spec, stack).__dict__["layernorm_embedding"] = norm

    return change


def drop_beta(spec):
    spec.encoder.layer_norm.__dict__["beta"] = "__optional"


REFUSED = {
    "relative_position_keys": extra("encoder/layer_0/self_attention", "relative_position_keys"),
    "rotary_dim": extra("encoder/layer_0/self_attention", "rotary_dim", np.int32(4)),
    "alibi": extra("decoder", "alibi", np.int8(1)),
    "layernorm_embedding": norm_of("encoder"),
    "embeddings_1": extra("encoder", "embeddings_1"),
    "linear_0_noact": extra("encoder/layer_1/ffn", "linear_0_noact"),
    "num_heads_kv": extra("decoder/layer_0/attention", "num_heads_kv", np.int32(1)),
    "scale_outputs": extra("decoder", "scale_outputs", np.float32(0.5)),
    "weight_zero": extra("encoder/layer_1/ffn/linear_0", "weight_zero"),
    "without 'encoder/layer_norm/beta'": drop_beta,
    "the activation 1": set_activation("GELUTanh"),
    "the activation 4": set_activation("GELUSigmoid"),
    "multiplied by 2 and 2": set_attributes(scale_embeddings=np.float32(2.0)),
    "a different pre_norm in the encoder": extra("encoder", "pre_norm", np.int8(0)),
}


@pytest.mark.once
@pytest.mark.parametrize("message", REFUSED)
def test_unsupported_parts_are_refused_by_their_names(message, tmp_path):
    spec = new_spec()
    REFUSED[message](spec)
    save(spec, tmp_path / "model")
    with pytest.raises(kt.UserError, match=message) as error:
        kt.convert.ctranslate2(tmp_path / "model")
    assert "\n" not in str(error.value)


@pytest.fixture
def folder(tmp_path):
    save(new_spec(), tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.once
@pytest.mark.parametrize("size", [0, 3, 10, 40, 1000, -1])
def test_a_file_that_is_cut_short_is_named(size, folder):
    binary = (folder / "model.bin").read_bytes()
    (folder / "model.bin").write_bytes(binary[:size])
    with pytest.raises(kt.UserError, match=r"model\.bin is cut short"):
        kt.convert.ctranslate2(folder)


@pytest.mark.once
@pytest.mark.parametrize(
    "old, new, message",
    [
        (b"\x06\0\0\0", b"\x09\0\0\0", "Expected version 2 to 6. Received: 9"),
        (b"\x10\0TransformerSpec", b"\x0c\0WhisperSpec", "a WhisperSpec of CTranslate2"),
        (b"TransformerSpec", b"\xff\xffansformerSpec", "damaged"),
    ],
)
def test_a_file_of_another_kind_is_refused(old, new, message, folder):
    binary = (folder / "model.bin").read_bytes()
    (folder / "model.bin").write_bytes(binary.replace(old, new, 1))
    with pytest.raises(kt.UserError, match=message):
        kt.convert.ctranslate2(folder)


def change_variables(folder, **changes):
    """Write a model in which variables have other values. `__` in a name stands for `/`."""
    version, arrays = _read_binary(folder / "model.bin")
    arrays |= {name.replace("__", "/"): np.asarray(x) for name, x in changes.items()}
    parts = [struct.pack("<I", version), as_string("TransformerSpec"), struct.pack("<I", 8)]
    parts.append(struct.pack("<I", len(arrays)))
    for name, array in arrays.items():
        sizes = struct.pack(f"<B{array.ndim}I", array.ndim, *array.shape)
        kind = {"f4": 0, "i1": 1, "i2": 2, "i4": 3}[array.dtype.str[1:]]
        parts += [as_string(name), sizes, struct.pack("<BI", kind, array.nbytes), array.tobytes()]
    (folder / "model.bin").write_bytes(b"".join([*parts, struct.pack("<I", 0)]))


def as_string(text):
    return struct.pack("<H", len(text) + 1) + text.encode() + b"\0"


ONE = np.ones(1, "f4")


@pytest.mark.once
@pytest.mark.parametrize(
    "changes",
    [
        {"decoder__embeddings__weight": ONE},
        {"decoder__layer_0__ffn__linear_0__weight": ONE[0]},
        {"decoder__layer_0__self_attention__linear_1__weight": ONE},
        {"encoder__layer_0__ffn__layer_norm__gamma": ONE[0]},
        {"decoder__projection__weight": ONE[None]},
        {"decoder__projection__bias": ONE},
        {"encoder__num_heads": np.int32(0), "decoder__num_heads": np.int32(0)},
        {"encoder__num_heads": np.zeros(2, "i4")},
        {"encoder__layer_999999999__ffn__linear_0__weight": ONE[None]},
        {
            f"{stack}__layer_{i}__self_attention__head_dim": np.int32(10**9)
            for stack in ("encoder", "decoder")
            for i in range(2)
        },
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_variables_that_contradict_the_arrays_are_refused(changes, folder):
    change_variables(folder)
    kt.convert.ctranslate2(folder)
    change_variables(folder, **changes)
    with pytest.raises(kt.UserError) as error:
        kt.convert.ctranslate2(folder)
    assert "\n" not in str(error.value) and len(str(error.value)) < 500


@pytest.mark.once
def test_incomplete_folders_are_refused(folder, tmp_path):
    def refuse(message, **options):
        with pytest.raises(kt.UserError, match=message):
            kt.convert.ctranslate2(folder, **options)

    refuse("no token 'xx'", target_prefix=("xx",))
    (folder / "target_vocabulary.json").write_text('["<s>", "</s>", "<unk>"]')
    refuse("3 tokens; `decoder/embeddings/weight` has 29 rows")
    (folder / "target_vocabulary.json").write_text('["<s>",')
    refuse("target_vocabulary.json is damaged")
    (folder / "target_vocabulary.json").unlink()
    refuse("no target_vocabulary.json")
    (folder / "config.json").unlink()
    refuse("config.json is missing")
    (folder / "model.bin").unlink()
    refuse("model.bin is missing")
    folder.rename(tmp_path / "elsewhere")
    refuse("no folder")


@pytest.mark.once
def test_pieces_need_their_sentencepiece_model(tmp_path):
    path = tmp_path / "model"
    kt.Translator(new_model(), tokenizer()).export(path, format="ctranslate2")
    (path / "tokenizer.spm").unlink()
    with pytest.raises(kt.UserError, match=r"Add it as tokenizer\.spm"):
        kt.convert.ctranslate2(path)


@pytest.mark.once
def test_a_missing_start_token_comes_from_the_target_prefix(tmp_path):
    spec = new_spec()
    set_config(decoder_start_token=None)(spec)
    save(spec, tmp_path / "model")
    with pytest.raises(kt.UserError, match="`target_prefix`"):
        kt.convert.ctranslate2(tmp_path / "model")
    translator = kt.Translator.from_preset(
        kt.convert.ctranslate2(tmp_path / "model", ("w3",), ("t1", "t2"))
    )
    assert translator.preprocessor.source_prefix == ("▁w3",)
    assert translator.preprocessor.target_prefix == ("▁t2",)
    # "t2" is scored here: only in a search it is given.
    assert_same_scores(translator, tmp_path / "model", ["w1 w2"], ["t2 t5"], ("w3 ", "t1 "))
