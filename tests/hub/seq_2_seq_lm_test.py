"""Presets in KerasHub's hands: loaded, searched, trained on strings, saved, and back again."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer.data.text_lines import BREAKS
from keras_transformer.data.tokenizer import Tokenizer
from tests.helpers import assert_close, logits_of, to_numpy
from tests.small_corpus import WORDS, new_model, sentence_pairs, tokenizer
from tests.translation import two_vocabularies_test as two

keras_hub = pytest.importorskip("keras_hub")
hub = pytest.importorskip("keras_transformer.hub")

ROOT = Path(__file__).parents[2]
TEXTS = ["the dog", "", "a small cat sees the dog", "東京"]
INPUTS = {
    "encoder_token_ids": np.array([[5, 9, 8, 30, 2], [41, 2, 0, 0, 0]], "int32"),
    "decoder_token_ids": np.array([[1, 6, 12], [1, 33, 0]], "int32"),
}
SEARCH = kt.BeamSearch(2, 0.5, extra_length=4, constraints=(kt.constraints.NoUnknownToken(),))


@pytest.fixture(scope="module")
def translator():
    return kt.Translator(new_model(), tokenizer(), {"source": "en", "sizes": [1]}, search=SEARCH)


@pytest.fixture(scope="module")
def preset(translator, tmp_path_factory):
    path = tmp_path_factory.mktemp("hub") / "preset"
    translator.save_to_preset(path)
    return str(path)


@pytest.fixture(scope="module")
def loaded(preset):
    return keras_hub.models.Seq2SeqLM.from_preset(preset)


@pytest.fixture
def lm(loaded):
    loaded.compile()
    return loaded


def read(path):
    return json.loads(Path(path).read_text("utf-8"))


def without_modules(values):
    """Return serialized objects without the modules of their classes."""
    if not isinstance(values, dict):
        return values
    return {name: without_modules(x) for name, x in values.items() if name != "module"}


def assert_is_part(part, whole):
    """Assert that every entry of nested dicts is in other dicts."""
    for name, value in part.items():
        if isinstance(value, dict):
            assert_is_part(value, whole[name])
        else:
            assert name in whole and whole[name] == value, name


# There and back


@pytest.mark.each_backend_long
def test_keras_hub_loads_our_presets(preset, translator, lm):
    assert type(lm) is hub.TransformerSeq2SeqLM and lm.sampler == SEARCH
    assert (lm.metadata, lm.task) == (translator.metadata, "Translator")
    backbone = keras_hub.models.Backbone.from_preset(preset)
    assert type(backbone) is hub.TransformerBackbone
    assert backbone.hyperparameters == translator.model.hyperparameters
    expected = logits_of(translator.model, INPUTS)
    for model in (backbone, lm.backbone):
        assert_close(logits_of(model, INPUTS), expected, atol=1e-6)
    texts = TEXTS[:2]  # one batch, one program
    assert lm.generate(texts) == translator(texts)


def test_logits_and_texts_of_several_lengths_are_the_translator_s(translator, lm):
    assert_close(lm(INPUTS), translator.model(INPUTS), atol=1e-6)
    assert lm.generate(TEXTS) == translator(TEXTS)


def test_one_text_is_generated_as_one_of_a_list(translator, lm):
    assert lm.generate(TEXTS[0]) == translator(TEXTS[:1])[0]


def test_we_load_presets_of_keras_hub(translator, lm, tmp_path):
    lm.compile(sampler=kt.BeamSearch(3, 1.0, extra_length=5))
    lm.save_to_preset(str(tmp_path / "preset"))
    again = kt.Translator.from_preset(tmp_path / "preset")
    assert again.search == lm.sampler and again.metadata == translator.metadata
    assert again.tokenizer.proto == tokenizer().proto
    assert again.model.hyperparameters == translator.model.hyperparameters
    assert_close(again.model(INPUTS), translator.model(INPUTS), atol=1e-6)
    assert again(TEXTS) == lm.generate(TEXTS)
    # And of its parts alone.
    lm.backbone.save_to_preset(str(tmp_path / "backbone"))
    model = kt.Transformer.from_preset(tmp_path / "backbone")
    assert_close(model(INPUTS), translator.model(INPUTS), atol=1e-6)
    with pytest.raises(kt.UserError, match="tokenizer.json is missing"):
        kt.Translator.from_preset(tmp_path / "backbone")


@pytest.mark.once
def test_weights_split_into_several_files_load(translator, lm, tmp_path):
    lm.save_to_preset(str(tmp_path), max_shard_size=1e-5)
    assert len([*tmp_path.glob("model_*.weights.h5")]) > 1
    assert not (tmp_path / "model.weights.h5").exists()
    model = kt.Translator.from_preset(tmp_path).model
    assert_close(model(INPUTS), translator.model(INPUTS), atol=1e-6)


@pytest.mark.once
def test_keras_hub_writes_the_files_that_we_write(translator, preset, lm, tmp_path):
    lm.save_to_preset(str(tmp_path))
    ours, theirs = Path(preset), tmp_path
    for part in ("config.json", "tokenizer.json", "preprocessor.json", "task.json"):
        expected = without_modules(read(theirs / part))
        assert_is_part(without_modules(read(ours / part)), expected)
    assert read(ours / "metadata.json").keys() >= {"parameter_count", "tasks", "date_saved"}
    assert read(ours / "metadata.json")["tasks"] == read(theirs / "metadata.json")["tasks"]
    assert read(ours / "metadata.json")["parameter_count"] == translator.model.count_params()
    files = {file.relative_to(ours) for file in ours.rglob("*")}
    assert files == {file.relative_to(theirs) for file in theirs.rglob("*")}


@pytest.mark.slow
@pytest.mark.once
def test_our_half_needs_no_keras_hub(preset, tmp_path):
    script = f"""
import sys
sys.modules["keras_hub"] = None
import keras_transformer as kt
kt.Translator.from_preset({preset!r}).save_to_preset({str(tmp_path / "again")!r})
kt.Transformer.from_preset({str(tmp_path / "again")!r})
try:
    import keras_transformer.hub
except kt.UserError as error:
    assert "pip install keras-hub" in str(error)
else:
    raise AssertionError
"""
    subprocess.run([sys.executable, "-c", script], check=True, cwd=ROOT)


@pytest.mark.slow
@pytest.mark.parametrize("filters", [None, "query|intermediate"])
def test_a_quantized_preset_loads_and_saves(tmp_path, filters):
    model = new_model()
    model.quantize("int8", filters=filters)
    path = str(tmp_path / "preset")
    kt.Translator(model, tokenizer(), search=SEARCH).save_to_preset(path)
    lm = keras_hub.models.Seq2SeqLM.from_preset(path)
    backbone = keras_hub.models.Backbone.from_preset(path)
    for loaded in (lm.backbone, backbone):
        assert loaded.get_config()["dtype"] == model.get_config()["dtype"]
        assert_close(loaded(INPUTS), model(INPUTS), atol=1e-5)
    lm.save_to_preset(str(tmp_path / "again"))
    again = kt.Transformer.from_preset(tmp_path / "again")
    assert again.get_config()["dtype"] == model.get_config()["dtype"]
    assert_close(again(INPUTS), model(INPUTS), atol=1e-5)


@pytest.mark.once
def test_a_preset_loads_in_another_dtype_or_without_weights(preset, lm):
    half = keras_hub.models.Seq2SeqLM.from_preset(preset, dtype="bfloat16")
    assert half.backbone.dtype_policy.name == "bfloat16"
    assert {weight.dtype for weight in half.weights} <= {"bfloat16", "float32"}
    assert_close(half(INPUTS), lm(INPUTS), atol=0.3)
    fresh = keras_hub.models.Seq2SeqLM.from_preset(preset, load_weights=False)
    assert np.abs(to_numpy(fresh(INPUTS)) - to_numpy(lm(INPUTS))).max() > 0.1


def test_two_tokenizers_and_prefixes_are_kept(tmp_path):
    translator = two.new_translator(beam_size=2)
    path = str(tmp_path / "preset")
    translator.save_to_preset(path)
    lm = keras_hub.models.Seq2SeqLM.from_preset(path)
    assert lm.generate(two.TEXTS[0]) == translator(two.TEXTS[:1])[0]
    texts = [text for text in two.TEXTS if text]
    assert lm.generate(texts) == translator(texts)
    lm.save_to_preset(str(tmp_path / "again"))
    again = kt.Translator.from_preset(tmp_path / "again")
    assert again.source_tokenizer.proto == two.source_tokenizer().proto
    assert (again.preprocessor.source_prefix, again.preprocessor.target_prefix) == (
        ("<fr>",),
        ("<b>", "<a>"),
    )
    assert again(texts) == translator(texts)
    assert lm.generate(["", texts[0]]) == ["", translator(texts[:1])[0]]


def test_a_source_of_one_token_without_an_end_is_translated(tmp_path, translator):
    translator = kt.Translator(
        translator.model, translator.tokenizer, source_end=False, beam_size=2, extra_length=4
    )
    translator.save_to_preset(tmp_path / "preset")
    lm = keras_hub.models.Seq2SeqLM.from_preset(str(tmp_path / "preset"))
    (word,) = [
        x
        for x in ("the", "dog", "cat", "a")
        if len(translator.preprocessor.encode_sources([x])[0]) == 1
    ][:1]
    assert lm.generate(["", word]) == translator(["", word]) and translator([word]) != [""]


def test_a_model_with_foreign_options_is_loaded_and_saved(tmp_path):
    model = new_model(output_bias=True, decoder_type="ssru", final_norm=True)
    translator = kt.Translator(model, tokenizer(), search=SEARCH)
    translator.save_to_preset(tmp_path / "preset")
    lm = keras_hub.models.Seq2SeqLM.from_preset(str(tmp_path / "preset"))
    assert type(lm) is hub.ForeignTransformerSeq2SeqLM
    assert type(lm.backbone) is hub.ForeignTransformerBackbone
    assert lm.generate(TEXTS) == translator(TEXTS)
    lm.save_to_preset(str(tmp_path / "again"))
    assert kt.Translator.from_preset(tmp_path / "again")(TEXTS) == translator(TEXTS)


@pytest.mark.once
def test_a_parser_s_preset_gives_symbols():
    lm = keras_hub.models.Seq2SeqLM.from_preset(str(ROOT / "saved_models" / "craft_parser"))
    assert lm.task == "ConstituencyParser" and lm.metadata["dataset"] == "craft"


@pytest.mark.once
@pytest.mark.slow
def test_kerashub_loads_each_part_of_a_parser_s_preset():
    # In a process of its own: the models made before decide which classes Keras finds.
    script = """
import keras_hub, keras_transformer.hub
for kind in ("Backbone", "Seq2SeqLMPreprocessor", "Tokenizer"):
    part = getattr(keras_hub.models, kind).from_preset("saved_models/craft_parser")
    assert type(part).__module__.startswith("keras_transformer.hub"), type(part)
"""
    process = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True)
    assert process.returncode == 0, process.stderr.decode()


@pytest.mark.once
def test_upload_sends_all_parts_of_a_preset(preset, monkeypatch):
    from types import SimpleNamespace

    huggingface_hub = pytest.importorskip("huggingface_hub")
    sent = []
    repository = SimpleNamespace(repo_id="user/model")
    monkeypatch.setattr(huggingface_hub, "create_repo", lambda **_: repository)
    monkeypatch.setattr(huggingface_hub, "file_exists", lambda **_: False)
    monkeypatch.setattr(
        huggingface_hub,
        "upload_folder",
        lambda folder_path, **_: sent.extend(x.name for x in Path(folder_path).iterdir()),
    )
    keras_hub.upload_preset("hf://user/model", preset)
    assert {"config.json", "task.json", "model.weights.h5", "assets", "README.md"} <= {*sent}


# Search


SAMPLERS = {
    "greedy": kt.BeamSearch(1, 0.0),
    "beam": kt.BeamSearch(5, 0.0),
    "random": kt.Sampling(seed=None),
    "top_k": kt.Sampling(top_k=5, seed=None),
    "top_p": kt.Sampling(top_p=0.1, seed=None),
}


@pytest.mark.once
@pytest.mark.parametrize("name", SAMPLERS)
def test_sampler_names_become_searches(lm, name):
    kept = {"extra_length": SEARCH.extra_length, "constraints": SEARCH.constraints}
    expected = type(SAMPLERS[name])(**{**vars(SAMPLERS[name]), **kept})
    for sampler in (name, keras_hub.samplers.serialize(keras_hub.samplers.get(name))):
        lm.compile(sampler=sampler)
        assert lm.sampler == expected
    lm.compile()
    assert lm.sampler == SEARCH


@pytest.mark.once
def test_sampler_objects_become_searches(lm):
    lm.compile(sampler=keras_hub.samplers.TopPSampler(0.3, k=7, temperature=0.5, seed=4))
    assert (lm.sampler.top_p, lm.sampler.top_k, lm.sampler.seed) == (0.3, 7, 4)
    assert lm.sampler.temperature == 0.5
    search = kt.BeamSearch(8, 1.0)
    lm.compile(sampler=search)
    assert lm.sampler is not None and lm.sampler == search
    lm.compile(sampler=kt.BeamSearch.greedy())
    assert lm.sampler.beam_size == 1


class Mine(keras_hub.samplers.GreedySampler):
    pass


@pytest.mark.once
@pytest.mark.parametrize(
    "sampler",
    ["contrastive", "none such", 3, Mine(), keras_hub.samplers.BeamSampler(return_all_beams=True)],
    ids=lambda x: type(x).__name__,
)
def test_unsupported_samplers_are_refused(lm, sampler):
    with pytest.raises(kt.UserError, match="search|sampler"):
        lm.compile(sampler=sampler)


@pytest.mark.parametrize("name", SAMPLERS)
def test_searches_by_name_translate(lm, name):
    lm.compile(sampler=name)
    outputs = lm.generate(TEXTS)
    assert len(outputs) == len(TEXTS) and outputs[1] == ""
    if name in ("greedy", "beam"):
        other = kt.Translator(lm.backbone, tokenizer(), search=lm.sampler)
        assert outputs == other(TEXTS)


def test_learned_positions_limit_sources_and_outputs(tmp_path):
    translator = kt.Translator(
        new_model(position_encoding="learned", max_length=24), tokenizer(), beam_size=2
    )
    translator.save_to_preset(tmp_path / "preset")
    lm = keras_hub.models.Seq2SeqLM.from_preset(str(tmp_path / "preset"))
    texts = ["the dog", "a small cat sees the dog"]
    outputs = lm.generate(texts)  # with the default `extra_length` of 50
    for text, output in zip(texts, outputs):
        (ids,) = ([*ids, 2] for ids in tokenizer().encode([text]))
        search = kt.BeamSearch(2, extra_length=24 - len(ids))
        token_ids, _ = search(translator.model, np.array([ids]))
        assert output == tokenizer().decode(to_numpy(token_ids)[:, 0])[0]
    with pytest.raises(kt.UserError, match="only max_length=24. Shorten the source"):
        lm.generate(["the dog sees a cat " * 9])


@pytest.mark.once
@pytest.mark.parametrize("empty", [[], (), np.array([], "str"), {"encoder_text": []}])
def test_no_sentences_have_no_translations(lm, empty):
    assert lm.generate(empty) == []


@pytest.mark.once
def test_a_prompt_is_not_stripped(lm):
    with pytest.raises(kt.UserError, match="`strip_prompt` must be False"):
        lm.generate("the dog", strip_prompt=True)


@pytest.mark.once
def test_a_quantization_that_no_preset_can_hold_is_refused(preset, tmp_path):
    lm = keras_hub.models.Seq2SeqLM.from_preset(preset)
    with pytest.raises(kt.UserError, match="quantized to 'int8'.* mode='int4'"):
        lm.quantize("int4")
    lm.backbone.decoder.layers[0].feed_forward.output_dense.quantize("int4")
    for part in (lm, lm.backbone):
        with pytest.raises(kt.UserError, match="layers that are quantized to 'int4'"):
            part.save_to_preset(str(tmp_path / "preset"))


def test_max_length_and_stop_tokens_limit_outputs(lm):
    def token_ids(length, stop_token_ids=(2,)):
        inputs = lm.preprocessor.generate_preprocess(TEXTS, sequence_length=length)
        return lm.generate_step(inputs, stop_token_ids)["decoder_token_ids"]

    whole = token_ids(20)
    assert (whole[:, 0] == 1).all() and not whole[1, 1:].any()
    assert (token_ids(4) == whole[:, :4]).all() and whole[:, 4].any()
    assert lm.generate(TEXTS, max_length=4) == tokenizer().decode(whole[:, 1:4])
    # Without a token to stop at, an output is as long as the search lets it be.
    endless = token_ids(8, None)
    sources = [len(ids) for ids in tokenizer().encode(TEXTS)]
    limits = [min(7, n + SEARCH.extra_length) if n else 0 for n in sources]
    assert [np.count_nonzero(row[1:]) for row in endless] == limits
    with pytest.raises(kt.UserError, match="stop_token_ids="):
        lm.generate(TEXTS, stop_token_ids=(5,))


def test_equal_sentences_of_one_call_have_different_samples(lm):
    tf = pytest.importorskip("tensorflow")
    lm.compile(sampler=kt.Sampling(extra_length=4))
    texts = ["the dog", "", "a cat", "the dog"] * 2
    whole = lm.generate(texts)
    assert len({*whole[::4], *whole[3::4]}) > 2
    # The second batch of one call continues the numbers of the first.
    assert lm.generate(tf.data.Dataset.from_tensor_slices(texts).batch(5)) == whole
    other = kt.Translator(lm.backbone, tokenizer(), search=lm.sampler)
    assert other(texts) == whole


def test_generated_text_begins_with_its_prompt(lm):
    texts = {"encoder_text": TEXTS, "decoder_text": ["red", "", "the man", "a"]}
    for prompt, output in zip(texts["decoder_text"], lm.generate(texts)):
        assert output.startswith(prompt)


def test_ids_are_searched_without_a_preprocessor(preset, translator):
    lm = keras_hub.models.Seq2SeqLM.from_preset(preset, preprocessor=None)
    assert lm.preprocessor is None
    prompt = np.array([[1, 0, 0, 0, 0, 0, 0, 0, 0]] * 2)
    inputs = {"encoder_token_ids": INPUTS["encoder_token_ids"], "decoder_token_ids": prompt}
    outputs = lm.generate(inputs, stop_token_ids=(2,))
    expected, _ = translator.search_batch(INPUTS["encoder_token_ids"], 1)
    expected = to_numpy(expected)[:, 0]
    width = min(8, expected.shape[1])
    assert outputs["decoder_token_ids"][:, 1 : 1 + width].tolist() == expected[:, :width].tolist()
    assert (outputs["decoder_padding_mask"] == (outputs["decoder_token_ids"] != 0)).all()


def test_line_breaks_in_outputs_become_spaces():
    with_bytes = Tokenizer.train(["the dog"], 280, byte_fallback=True, normalization="identity")
    (output,) = with_bytes.encode([f"the{BREAKS}dog"])
    preprocessor = hub.TransformerSeq2SeqLMPreprocessor(
        hub.TransformerTokenizer(with_bytes.proto), encoder_sequence_length=9
    )
    texts = preprocessor.generate_postprocess({"decoder_token_ids": np.array([[1, *output, 2]])})
    assert texts == [f"the{' ' * len(BREAKS)}dog"]


@pytest.mark.parametrize("row", [[0, 0, 0, 41, 2], [41, 0, 8, 30, 2]])
def test_padding_before_a_token_is_refused(lm, row):
    inputs = {"encoder_token_ids": np.array([INPUTS["encoder_token_ids"][0], row])}
    inputs["decoder_token_ids"] = np.array([[1, 0, 0, 0]] * 2)
    with pytest.raises(kt.UserError, match="`encoder_token_ids` must be padded with 0 at the end"):
        lm.generate_step(inputs, (2,))


# Training


PAIRS = sentence_pairs(16, longest=6)
STRINGS = {
    "encoder_text": [source for source, _ in PAIRS],
    "decoder_text": [source for source, _ in PAIRS],  # to copy
}


def test_learns_from_strings(preset, tmp_path):
    lm = keras_hub.models.Seq2SeqLM.from_preset(preset)
    lm.preprocessor.encoder_sequence_length = lm.preprocessor.decoder_sequence_length = 12
    lm.compile(optimizer=keras.optimizers.Adam(0.01))
    history = lm.fit(STRINGS, batch_size=8, epochs=10, verbose=0).history
    assert history["loss"][-1] < 0.8 * history["loss"][0]
    lm.save_to_preset(str(tmp_path / "again"))
    again = kt.Transformer.from_preset(tmp_path / "again")
    assert_close(again(INPUTS), lm(INPUTS), atol=1e-5)


@pytest.mark.once
def test_the_preprocessor_returns_padded_ids_and_weights(lm):
    x, y, weight = lm.preprocessor(STRINGS, decoder_sequence_length=20)
    for row, (text, _) in enumerate(PAIRS):
        (ids,) = tokenizer().encode([text])
        source, target, labels, weights = (
            to_numpy(part)[row].tolist()
            for part in (x["encoder_token_ids"], x["decoder_token_ids"], y, weight)
        )
        assert source == [*ids, 2] + [0] * (256 - len(ids) - 1)
        # A target without its end fills the length.
        assert target[: len(ids) + 1] == [1, *ids][:20]
        assert labels[: len(ids) + 1] == [*ids, 2] and weights[: len(ids) + 1] == [1] * len(
            source[: len(ids) + 1]
        )
        assert not any(labels[len(ids) + 1 :]) and not any(weights[len(ids) + 1 :])


@pytest.mark.once
@pytest.mark.parametrize("part", ["tokenizer.json", "preprocessor.json", "task.json"])
def test_a_preset_cannot_name_the_files_to_write(preset, tmp_path, part):
    shutil.copytree(preset, tmp_path / "preset")
    file = tmp_path / "preset" / part
    names = ("tokenizer.json", "preprocessor.json")
    text = file.read_text("utf-8")
    for name in names:
        config_file = f'"config_file": "{name}"'
        text = text.replace(config_file, f'"config_file": "{tmp_path}/outside.json"')
    file.write_text(text, "utf-8")
    kind = {
        "tokenizer.json": keras_hub.tokenizers.Tokenizer,
        "preprocessor.json": keras_hub.models.Seq2SeqLMPreprocessor,
        "task.json": keras_hub.models.Seq2SeqLM,
    }[part]
    with pytest.raises((kt.UserError, TypeError), match="config_file"):
        kind.from_preset(str(tmp_path / "preset"))


@pytest.mark.once
def test_a_tokenizer_with_other_first_ids_is_refused():
    import io

    import sentencepiece

    proto = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([" ".join(WORDS)] * 9),
        model_writer=proto,
        vocab_size=38,
        minloglevel=2,
    )
    with pytest.raises(kt.UserError, match="pad=0, start=1"):
        hub.TransformerTokenizer(proto.getvalue())
