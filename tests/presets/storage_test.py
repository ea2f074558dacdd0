import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import h5py
import keras
import numpy as np
import pytest

from keras_transformer.convert.foreign_transformer import ForeignConfig, ForeignTransformer
from keras_transformer.data.preprocessor import as_preprocessor
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.decoding.beam_search import BeamSearch
from keras_transformer.errors import UserError
from keras_transformer.files import check_replaceable
from keras_transformer.models.transformer import Transformer
from keras_transformer.parsing.constituency_parser import ConstituencyParser
from keras_transformer.parsing.word_tags import TagDictionary
from keras_transformer.presets import location, storage
from keras_transformer.presets.format import Preset
from keras_transformer.presets.location import saved_models
from keras_transformer.presets.storage import load_preset
from keras_transformer.translation.translator import Translator
from keras_transformer.weights.weights_file import datasets
from tests.decoding.search_functions import greedy_search
from tests.helpers import assert_close, error_of, logits_of, normal, randomize, to_numpy
from tests.small_corpus import WORDS, new_model, tokenizer

_HDF5_OF_A_TENSOR = 3000  # bytes besides its values
VOCABULARY = "assets/tokenizer/vocabulary.spm"
JSON = ["config.json", "metadata.json", "preprocessor.json", "task.json", "tokenizer.json"]
PARTS = ["README.md", VOCABULARY, *JSON, "model.weights.h5"]
NEEDED = [VOCABULARY, "config.json", "tokenizer.json", "model.weights.h5"]
INPUTS = {
    "encoder_token_ids": np.array([[5, 9, 8, 30, 2], [41, 2, 0, 0, 0]], "int32"),
    "decoder_token_ids": np.array([[1, 6, 12], [1, 33, 0]], "int32"),
}


@pytest.fixture(scope="module")
def model():
    return new_model(num_layers=2, key_dim=3, normalize_first=True)


def save_preset(path, task, model, tokenizer, metadata, card=None, weights_dtype=None, **parts):
    further = {name: parts.pop(name) for name in ("search", "tag_dictionary") if name in parts}
    preprocessor = as_preprocessor(tokenizer, **parts)
    preset = Preset(
        model=model, preprocessor=preprocessor, metadata=metadata, task=task, card=card, **further
    )
    storage.save_preset(path, preset, weights_dtype)


def save(path, model, **metadata):
    save_preset(path, "Test", model, tokenizer(), metadata, "# A card: größer\n")
    return path


def parts_of(path):
    files = [file for file in path.rglob("*") if file.is_file()]
    return sorted(file.relative_to(path).as_posix() for file in files)


def test_a_saved_preset_loads_with_all_its_parts(tmp_path, model):
    # Metadata may have the names of other parts.
    metadata = {"task": "summaries", "format": 1, "search": "deep", "metadata": [], "sizes": [1, 2]}
    path, search = tmp_path / "preset", BeamSearch(8)
    save_preset(path, "Test", model, tokenizer(), metadata, "# A card: größer\n", search=search)
    assert parts_of(path) == sorted(PARTS)
    preset = load_preset(str(path), "Test")
    assert preset.metadata == metadata and preset.search == search
    assert preset.card == (path / "README.md").read_text("utf-8") == "# A card: größer\n"
    assert preset.tokenizer.proto == tokenizer().proto
    assert preset.model.hyperparameters == model.hyperparameters
    assert_close(preset.model(INPUTS), model(INPUTS), atol=1e-6)


@pytest.mark.once
def test_a_model_with_foreign_options_keeps_its_class(tmp_path):
    model = new_model(zero_start=True, decoder_type="ssru", output_bias=True)
    path = save(tmp_path / "preset", model)
    assert "ForeignTransformerSeq2SeqLM" in (path / "task.json").read_text()
    for loaded in (load_preset(path, "Test").model, Transformer.from_preset(path)):
        assert type(loaded) is ForeignTransformer
        assert loaded.hyperparameters == model.hyperparameters
        assert_close(loaded(INPUTS), model(INPUTS), atol=1e-6)


@pytest.mark.once
@pytest.mark.parametrize("options", [{}, {"decoder_type": "ssru", "final_norm": True}])
def test_an_earlier_form_with_all_options_in_one_class_is_read(tmp_path, options):
    model = new_model(**options)
    path = save(tmp_path / "preset", model)
    for name in ("config.json", "task.json", "preprocessor.json"):
        text = (path / name).read_text().replace("ForeignTransformer", "Transformer")
        (path / name).write_text(text)

    def add_all(values):
        values["config"] |= {**ForeignConfig.defaults(), **values["config"], "leaf_ids": None}

    change_json(path / "config.json", add_all)
    loaded = load_preset(path, "Test").model
    assert type(loaded) is type(model) and loaded.hyperparameters == model.hyperparameters
    assert_close(loaded(INPUTS), model(INPUTS), atol=1e-6)
    change_json(path / "config.json", lambda values: values["config"].update(new_option=3))
    with pytest.raises(UserError, match="does not describe a valid model.*new_option"):
        load_preset(path, "Test")


@pytest.mark.once
def test_a_preset_has_no_optimizer(tmp_path):
    model = new_model()
    model.compile("adam")
    model.optimizer.build(model.trainable_variables)
    path = save(tmp_path / "preset", model)
    floats = sum(int(np.prod(weight.shape)) for weight in model.weights)
    size = (path / "model.weights.h5").stat().st_size
    assert 4 * floats < size < 1.5 * 4 * floats + 100_000
    load_preset(path, "Test")
    assert model.optimizer.built  # and the model itself still has it


def test_a_preset_loads_in_another_precision(tmp_path, model):
    save(tmp_path / "preset", model)
    loaded = load_preset(tmp_path / "preset", "Test", dtype="mixed_bfloat16").model
    assert loaded.dtype_policy.name == "mixed_bfloat16"
    assert_close(loaded(INPUTS), model(INPUTS), atol=0.3)
    # The weights are kept in float32, so nothing is lost on the way back.
    save(tmp_path / "again", loaded)
    again = load_preset(tmp_path / "again", "Test").model
    assert_close(again(INPUTS), model(INPUTS), atol=1e-6)


@pytest.mark.slow
def test_a_quantized_model_is_saved_quantized(tmp_path):
    model = new_model()
    floats = save(tmp_path / "floats", model)
    model.quantize("int8")
    path = save(tmp_path / "preset", model)
    loaded = load_preset(path, "Test").model
    assert loaded.hyperparameters == model.hyperparameters
    assert loaded.get_config()["dtype"] == model.get_config()["dtype"]
    assert_close(loaded(INPUTS), model(INPUTS), atol=1e-6)
    weights = [folder / "model.weights.h5" for folder in (floats, path)]
    integers = sum(int(np.prod(x.shape)) for x in model.weights if x.dtype == "int8")
    saved = weights[0].stat().st_size - weights[1].stat().st_size
    assert integers > 4000 and saved > 3 * integers - 2 * _HDF5_OF_A_TENSOR * len(model.weights)


@pytest.mark.slow
@pytest.mark.once
def test_some_layers_quantized_in_another_precision(tmp_path):
    model = new_model(dtype="mixed_bfloat16")
    model.quantize("int8", filters="query|intermediate")
    path = save(tmp_path / "preset", model)
    loaded = load_preset(path, "Test").model
    assert loaded.dtype_policy.name == "float32"  # as of any preset, unless another is asked for
    assert len([x for x in loaded.weights if x.dtype == "int8"]) == 3 + 2
    again = load_preset(path, "Test", dtype="mixed_bfloat16").model
    assert again.get_config()["dtype"] == model.get_config()["dtype"]
    assert_close(again(INPUTS), model(INPUTS), atol=1e-6)
    with pytest.raises(ValueError, match="int8.*float16"):
        load_preset(path, "Test", dtype="mixed_float16")


@pytest.mark.once
def test_floats_are_quantized_after_they_are_loaded(tmp_path, model):
    path = save(tmp_path / "preset", model)
    with pytest.raises(ValueError, match="holds floats.*quantize.*dtype='int8_from_float32'"):
        load_preset(path, "Test", dtype="int8_from_float32")
    with pytest.raises(UserError, match="`dtype` must be a dtype policy of Keras.*'float99'"):
        load_preset(path, "Test", dtype="float99")


def test_a_model_adapted_by_lora_is_saved_plain(tmp_path):
    model = new_model()
    model.enable_lora(2)
    for weight in model.trainable_weights:
        weight.assign(0.3 * normal(*weight.shape))
    loaded = load_preset(save(tmp_path / "preset", model), "Test").model
    assert_close(loaded(INPUTS), model(INPUTS))
    assert len(loaded.weights) == len(loaded.trainable_weights) == len(model.weights) - 12


class Killed(BaseException):
    pass


class KilledWhileSaving(Tokenizer):
    def __init__(self):
        super().__init__(tokenizer().proto)

    def save(self, path):
        raise Killed


@pytest.mark.once
def test_killed_while_saving_keeps_the_old_preset(tmp_path, model):
    path = tmp_path / "preset"
    with pytest.raises(Killed):
        save_preset(path, "Test", model, KilledWhileSaving(), {}, "")
    assert list(tmp_path.iterdir()) == []
    save(path, model, source="old")
    with pytest.raises(Killed):
        save_preset(path, "Test", model, KilledWhileSaving(), {"source": "new"}, "")
    assert [entry.name for entry in tmp_path.iterdir()] == ["preset"]
    assert load_preset(path, "Test").metadata == {"source": "old"}


@pytest.mark.once
def test_a_preset_replaces_an_older_one(tmp_path, model):
    path = save(tmp_path / "preset", model, source="old")
    (path / "saved_model" / "variables").mkdir(parents=True)  # made from the old weights
    for name in ("saved_model.pb", "variables/variables.index"):
        (path / "saved_model" / name).touch()
    other = randomize(new_model(), seed=1)
    save(path, other, source="new")
    preset = load_preset(path, "Test")
    assert preset.metadata == {"source": "new"}
    assert_close(preset.model(INPUTS), other(INPUTS), atol=1e-6)
    assert parts_of(path) == sorted(PARTS)


@pytest.mark.once
def test_only_presets_are_replaced(tmp_path, model):
    (tmp_path / "runs" / "important").mkdir(parents=True)
    with pytest.raises(ValueError, match="would be lost.*: a folder with important"):
        save(tmp_path / "runs", model)
    assert (tmp_path / "runs" / "important").is_dir()
    path = save(tmp_path / "preset", model)
    (path / ".git").mkdir()
    with pytest.raises(ValueError, match="would be lost.*: a folder that also has .git"):
        save(path, model)
    assert (path / ".git").is_dir() and parts_of(path) == sorted(PARTS)


@pytest.mark.once
@pytest.mark.parametrize(
    "name", ["assets/photos/wedding.jpg", "assets/tokenizer/a.jpg", "mine.weights.h5", "LICENSE"]
)
def test_files_of_others_in_a_preset_are_not_lost(tmp_path, model, name):
    path = save(tmp_path / "preset", model)
    (path / name).parent.mkdir(parents=True, exist_ok=True)
    (path / name).write_text("mine")
    with pytest.raises(UserError, match=f"would be lost.*: a folder that also has {name}"):
        save(path, model)
    assert (path / name).read_text() == "mine"


@pytest.mark.once
@pytest.mark.parametrize(
    "config", [None, "{", "[]", '{"model_type": "bert"}', '{"registered_name": "keras_hub>Bert"}']
)
def test_a_folder_with_only_the_names_of_a_preset_is_not_replaced(tmp_path, model, config):
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "README.md").write_text("# Years of work")
    (folder / "tokenizer.json").write_text("{}")
    if config is not None:
        (folder / "config.json").write_text(config)
    before = parts_of(folder)
    with pytest.raises(UserError, match="would be lost.*: a folder with .*README.md"):
        save(folder, model)
    assert parts_of(folder) == before and (folder / "README.md").read_text() == "# Years of work"


@pytest.mark.once
@pytest.mark.parametrize("name", sorted(x.name for x in saved_models().iterdir()))
def test_each_preset_of_a_checkout_can_be_replaced(tmp_path, name):
    shutil.copytree(saved_models() / name, tmp_path / name)
    check_replaceable(tmp_path / name, location.PRESET)


# What else a preset holds


def test_a_task_takes_a_preset_in_memory(model):
    preset = Translator(model, tokenizer(), {"source": "en"}, search=BeamSearch(2)).to_preset()
    translator = Translator.from_preset(preset, alpha=0.5)
    assert translator.model is model and translator.metadata == {"source": "en"}
    assert translator.search == BeamSearch(2, alpha=0.5)
    with pytest.raises(UserError, match="`dtype` must be None .* dtype='float16'"):
        Translator.from_preset(preset, dtype="float16")
    with pytest.raises(UserError, match="for ConstituencyParser. Received: one for Translator"):
        ConstituencyParser.from_preset(preset)


TAG_DICTIONARY = TagDictionary([["NN", "DT"], ["DT"], ["."]], ["the a größer", ". 。"])


def save_with_tag_dictionary(path, model):
    save_preset(path, "Test", model, tokenizer(), {}, tag_dictionary=TAG_DICTIONARY.to_dict())
    return path


@pytest.mark.once
def test_tag_dictionary_has_a_file_of_its_own(tmp_path, model):
    path = save_with_tag_dictionary(tmp_path / "preset", model)
    assert not any("größer" in json.dumps(read(path / part)) for part in JSON)
    preset = load_preset(path, "Test")
    assert preset.tag_dictionary == TAG_DICTIONARY.to_dict()
    dictionary = TagDictionary.from_dict(preset.tag_dictionary)
    assert dictionary.word_kinds(["the", "größer", "。", "dog"]) == [1, 1, 2, 0]
    # A preset without one that takes its place leaves none.
    save(path, model)
    assert load_preset(path, "Test").tag_dictionary is None
    assert parts_of(path) == sorted(PARTS)


@pytest.mark.once
def test_card_stays_unless_another_is_given(tmp_path, model):
    path = tmp_path / "preset"

    def card_after(**card):
        save_preset(path, "Test", model, tokenizer(), {}, **card)
        return (path / "README.md").read_text("utf-8") if (path / "README.md").exists() else None

    assert card_after() is None
    assert card_after(card="# größer\n") == "# größer\n"
    assert card_after() == "# größer\n"
    assert card_after(card="# other\n") == "# other\n"
    assert card_after(card="") is None


@pytest.mark.once
def test_a_preset_saved_over_itself_keeps_its_card(tmp_path):
    path = tmp_path / "preset"
    Translator(new_model(), tokenizer()).save_to_preset(path, card="# Mine\n")
    Translator.from_preset(path).save_to_preset(path)
    assert (path / "README.md").read_text("utf-8") == "# Mine\n"


# Two tokenizers, and prefixes


@pytest.mark.once
def test_a_source_tokenizer_is_saved_and_loaded(tmp_path):
    source = Tokenizer.train([" ".join(WORDS)] * 3, 45)
    other = new_model(source_vocabulary_size=45)
    prefixes = {"source_prefix": ("the",), "target_prefix": ("a", "über")}
    path = tmp_path / "preset"
    save_preset(path, "Test", other, tokenizer(), {}, source_tokenizer=source, **prefixes)
    preset = load_preset(path, "Test")
    assert preset.preprocessor.source_tokenizer.proto == source.proto
    assert preset.preprocessor.tokenizer.proto == tokenizer().proto
    loaded = preset.preprocessor
    assert {name: getattr(loaded, name) for name in prefixes} == prefixes
    assert_close(preset.model(INPUTS), other(INPUTS), atol=1e-6)
    # Of two that are the same, one is kept.
    save_preset(path, "Test", other, tokenizer(), {}, source_tokenizer=tokenizer())
    assert not (path / "source_tokenizer.json").exists()
    assert "source's tokenizer" in message_of(path)


@pytest.mark.once
def test_a_tokenizer_of_another_class_is_refused(tmp_path, model):
    class Words:
        vocabulary_size = 60

    with pytest.raises(ValueError, match="Received: Words"):
        save_preset(tmp_path / "preset", "Test", model, Words(), {})
    assert list(tmp_path.iterdir()) == []


# The model alone


@pytest.mark.once
def test_a_model_loads_without_its_tokenizer(tmp_path, model):
    class Mine(Transformer):
        pass

    path = save(tmp_path / "preset", model)
    for part in ("tokenizer.json", "preprocessor.json", "task.json", "metadata.json", "README.md"):
        (path / part).unlink()
    loaded = Mine.from_preset(path, dtype="mixed_bfloat16")
    assert type(loaded) is Mine and loaded.dtype_policy.name == "mixed_bfloat16"
    assert_close(Transformer.from_preset(path)(INPUTS), model(INPUTS), atol=1e-6)
    assert "tokenizer.json is missing" in message_of(path)


def read(path):
    return json.loads(path.read_text("utf-8"))


@pytest.mark.once
@pytest.mark.slow
@pytest.mark.parametrize(
    "folder", sorted((Path(__file__).parents[2] / "saved_models").iterdir()), ids=lambda x: x.name
)
def test_trained_presets_load_and_can_be_saved_again(tmp_path, folder):
    class_ = ConstituencyParser if "parser" in folder.name else Translator
    config = read(folder / "config.json")["config"]
    task = class_.from_preset(folder)
    task.save_to_preset(tmp_path / "again", card="# Again\n")
    again = class_.from_preset(tmp_path / "again")
    assert again.metadata == task.metadata
    # Most presets are named after their corpus.
    others = {"en_pt": "text", "english_parser": "ewt"}
    corpus = others.get(folder.name, folder.name.split("_")[0])
    assert again.metadata["dataset"].startswith(corpus)
    assert again.model.hyperparameters == task.model.hyperparameters
    # One that came later is as in a model that has it not.
    defaults = task.model.config.defaults()
    for name, value in task.model.hyperparameters.items():
        assert value == config.get(name, defaults.get(name))
    if class_ is ConstituencyParser:
        assert again.tag_dictionary.to_dict() == task.tag_dictionary.to_dict()
        assert task.tag_dictionary.word_kinds([","]) != [0]
        # A line for each id of a token that begins a word, where words are counted.
        num_ids = len(task.model.config.word_start_ids or ())
        assert (tmp_path / "again" / "config.json").stat().st_size < 5_000 + 20 * num_ids


# Presets that are not whole


@pytest.fixture(scope="module")
def good(tmp_path_factory, model):
    return save(tmp_path_factory.mktemp("presets") / "good", model)


@pytest.fixture
def preset(tmp_path, good):
    """A copy to damage."""
    path = tmp_path / "preset"
    path.mkdir()
    shutil.copytree(good, path, dirs_exist_ok=True)
    return path


def message_of(path, task="Test"):
    with pytest.raises(ValueError) as error:
        load_preset(path, task)
    message = str(error.value)
    assert message and "\n" not in message
    assert str(path) in message
    return message


@pytest.mark.once
def test_a_path_that_is_not_a_folder_is_refused(tmp_path):
    message_of(tmp_path / "none")
    (tmp_path / "file").touch()
    message_of(tmp_path / "file")


@pytest.mark.parametrize("name", ["file/preset", "n" * 256])
def test_a_path_that_cannot_be_written_is_an_error_of_one_line(tmp_path, model, name):
    (tmp_path / "file").touch()
    translator = Translator(model, tokenizer())
    message = error_of(translator.save_to_preset, tmp_path / name)
    assert message.startswith("Cannot write to ") and "`path`" in message and "\n" not in message


@pytest.mark.once
def test_a_folder_of_transformers_is_named(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "marian"}')
    message = message_of(tmp_path)
    assert "model_type='marian'" in message and "kt.Translator.from_preset" in message


@pytest.mark.once
@pytest.mark.parametrize("part", NEEDED)
def test_a_missing_part_is_named(preset, part):
    (preset / part).unlink()
    assert part in message_of(preset)


@pytest.mark.once
def test_card_is_not_needed(preset):
    (preset / "README.md").unlink()
    load_preset(preset, "Test")


@pytest.mark.once
def test_a_preset_of_another_task_is_refused(preset):
    assert "ConstituencyParser" in message_of(preset, "ConstituencyParser")


@pytest.mark.once
@pytest.mark.parametrize("part", [*NEEDED, "preprocessor.json", "task.json"])
@pytest.mark.parametrize("damage", ["empty", "half", "other"])
def test_a_damaged_part_is_named(preset, part, damage):
    data = (preset / part).read_bytes()
    damaged = {"empty": b"", "half": data[: len(data) // 2], "other": b"\xff\xfe other"}[damage]
    (preset / part).write_bytes(damaged)
    assert part in message_of(preset)


@pytest.mark.once
@pytest.mark.parametrize("place", [100, 0.3, 0.6, -9])
def test_a_flipped_bit_of_the_weights_is_found(preset, place):
    path = preset / "model.weights.h5"
    content = bytearray(path.read_bytes())
    content[int(place * len(content)) if isinstance(place, float) else place] ^= 1
    path.write_bytes(content)
    assert "model.weights.h5 is damaged: its content does not match" in message_of(preset)


@pytest.mark.once
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_are_not_finite_are_neither_loaded_nor_saved(preset, value, tmp_path):
    other = load_preset(preset, "Test").model
    bias = other.encoder.layers[0].feed_forward.output_dense.bias
    bias.assign(to_numpy(bias) * 0 + value)
    with pytest.raises(UserError, match="infinite or not a number"):
        save(tmp_path / "other", other)
    assert not (tmp_path / "other").exists()
    other.save_weights(preset / "model.weights.h5")  # Keras's own
    assert "infinite or not a number" in message_of(preset)


@pytest.mark.once
@pytest.mark.parametrize(
    "sizes",
    [
        {"vocabulary_size": 2**37},  # as many floats as take 512 GB
        {"hidden_dim": 2**19},
        {"num_layers": 10**9},
        {"num_decoder_layers": 2**37},
        {"position_encoding": "learned", "max_length": 2**37},
    ],
)
def test_a_model_of_more_weights_than_the_preset_has_takes_no_memory(preset, sizes):
    change_json(preset / "config.json", lambda values: values["config"].update(sizes))
    message = message_of(preset)
    assert "config.json and model.weights.h5 must describe the same model" in message


DAMAGED_DICTIONARIES = {
    "empty": b"",
    "half": json.dumps(TAG_DICTIONARY.to_dict()).encode()[:50],
    "other encoding": json.dumps(TAG_DICTIONARY.to_dict(), ensure_ascii=False).encode("utf-16"),
    "no JSON": b"tag_sets: NN",
    "a list": b"[]",
    "no words": b'{"tag_sets": [["NN"]]}',
    "words of another kind": b'{"tag_sets": [["NN"], ["DT"]], "words": [3]}',
    "a set of another kind": b'{"tag_sets": [["NN"], "DT"], "words": ["the"]}',
    "an empty set": b'{"tag_sets": [[]], "words": []}',
    "words without a set": b'{"tag_sets": [["NN"]], "words": ["the"]}',
}


@pytest.mark.once
def test_tag_dictionary_that_is_missing_or_damaged(tmp_path, model):
    path = tmp_path / "preset"
    dictionary = TAG_DICTIONARY.to_dict()
    save_preset(path, "ConstituencyParser", model, tokenizer(), {}, tag_dictionary=dictionary)
    for name, data in DAMAGED_DICTIONARIES.items():
        (path / "tag_dictionary.json").write_bytes(data)
        with pytest.raises(UserError, match="tag_dictionary.json is damaged") as error:
            ConstituencyParser.from_preset(path)
        assert "\n" not in str(error.value) and str(path) in str(error.value), name
    (path / "tag_dictionary.json").unlink()
    assert "tag_dictionary.json is missing" in message_of(path, "ConstituencyParser")


def change_json(path, change):
    values = read(path)
    change(values)
    path.write_text(json.dumps(values))


def set_in(part, **values):
    return part, lambda x: x["config"].update(values)


def set_class(part, name):
    return part, lambda x: x.update(registered_name=name)


CODE = {"class_name": "__lambda__", "config": {"code": "4wEA"}, "registered_name": None}
POLICY = {"module": "keras", "class_name": "DTypePolicy", "config": {"name": "float32"}}
CHANGES = {
    "no class": ("config.json", lambda x: x.pop("registered_name")),
    "no config": ("config.json", lambda x: x.pop("config")),
    "config is a list": ("config.json", lambda x: x.update(config=[])),
    "another backbone": set_class("config.json", "keras_hub>BartBackbone"),
    "another preprocessor": set_class("preprocessor.json", "keras>Lambda"),
    "another tokenizer": set_class("tokenizer.json", "keras_hub>BartTokenizer"),
    "another tokenizer of ours": set_class("tokenizer.json", "keras_transformer>Transformer"),
    "another task": set_class("task.json", "keras_hub>BartSeq2SeqLM"),
    "no vocabulary size": ("config.json", lambda x: x["config"].pop("vocabulary_size")),
    "unknown hyperparameter": set_in("config.json", new_thing=1),
    "impossible hyperparameter": set_in("config.json", num_heads=0),
    "hyperparameter of another kind": set_in("config.json", hidden_dim="16"),
    "unknown activation": set_in("config.json", activation="none such"),
    "activation with code": set_in("config.json", activation=CODE),
    "activation of a module": set_in(
        "config.json",
        activation={"module": "os", "class_name": "function", "config": "system"},
    ),
    **{
        f"dtype {dtype}": set_in("config.json", dtype=dtype)
        for dtype in (
            *("none such", 3, {"class_name": "QuantizedDTypePolicy"}, {"class_name": "A"}),
            {"class_name": "Lambda", "module": "keras.layers", "config": {"function": CODE}},
            {"class_name": "DTypePolicyMap", "config": {"policy_map": {"a": CODE}}},
        )
    },
    "metadata is a list": set_in("task.json", metadata=[1]),
    "search is a word": set_in("task.json", search="beam"),
    "prefix is a word": set_in("preprocessor.json", source_prefix="<de>"),
    "prefix of numbers": set_in("preprocessor.json", target_prefix=[3]),
    "a source's tokenizer that is not there": (
        "preprocessor.json",
        lambda x: x["config"].update(source_tokenizer={}),
    ),
}


@pytest.mark.once
@pytest.mark.parametrize("name", CHANGES)
def test_wrong_values_in_a_part_are_refused_by_its_name(preset, name):
    part, change = CHANGES[name]
    change_json(preset / part, change)
    assert ("source_tokenizer.json" if "source's" in name else part) in message_of(preset)


# Weights in several files, as KerasHub writes of a large model

SHARDS = [f"model_{i:05}.weights.h5" for i in range(3)]


@pytest.fixture
def sharded(preset, model):
    (preset / "model.weights.h5").unlink()
    whole = keras.Model(model.inputs, model.outputs)
    whole.save_weights(preset / "model.weights.json", max_shard_size=1e-5)
    assert [name for name in parts_of(preset) if name in SHARDS] == SHARDS
    return preset


def test_weights_in_several_files(sharded, model):
    for loaded in (load_preset(sharded, "Test").model, Transformer.from_preset(sharded)):
        assert all(map(np.array_equal, loaded.get_weights(), model.get_weights()))
    again = load_preset(sharded, "Test", dtype="float16").model
    assert_close(again(INPUTS), model(INPUTS), atol=1e-2)


@pytest.mark.once
def test_damaged_shards_are_refused(sharded, tmp_path):
    index = sharded / "model.weights.json"
    entries = json.loads(index.read_text())["weight_map"]
    first = next(iter(entries))
    kept = index.read_bytes()
    for changed in (
        *([], {}, {"weight_map": []}, {"weight_map": {}}, {"weight_map": {"/vars": 3}}),
        {"weight_map": {**entries, first: f"../{tmp_path.name}/model_00000.weights.h5"}},
        {"weight_map": {**entries, first: [SHARDS[0], "x.weights.h5"]}},
        {"weight_map": {name: x for name, x in entries.items() if name != first}},
        {"weight_map": {**entries, first: SHARDS[2]}},
    ):
        index.write_text(json.dumps(changed))
        assert index.name in message_of(sharded)
    index.write_bytes(kept[:100])
    assert index.name in message_of(sharded)
    index.write_bytes(kept)
    for damage in (b"", (sharded / SHARDS[1]).read_bytes()[:5000]):
        (sharded / SHARDS[1]).write_bytes(damage)
        assert SHARDS[1] in message_of(sharded)
    (sharded / SHARDS[1]).unlink()
    assert SHARDS[1] in message_of(sharded)


@pytest.mark.once
def test_shards_of_another_model_are_refused(sharded):
    change_json(sharded / "config.json", lambda config: config["config"].update(num_layers=1))
    assert "tensors, and the model" in message_of(sharded)


@pytest.mark.once
@pytest.mark.parametrize("text", ["[]", "null", "3", "[" * 100_000])
def test_a_config_that_is_not_an_object_is_refused(preset, text):
    (preset / "config.json").write_text(text)
    assert "config.json" in message_of(preset)


@pytest.mark.once
def test_a_tokenizer_of_another_model_is_refused(preset):
    Tokenizer.train([" ".join(WORDS)] * 3, 45).save(preset / VOCABULARY)
    message = message_of(preset)
    assert "tokenizer" in message and "config.json" in message
    assert "45" in message and "60" in message


@pytest.mark.once
@pytest.mark.parametrize(
    "options",
    [
        *({"hidden_dim": 32}, {"num_layers": 3}, {"use_bias": True}),
        *(pytest.param(x, marks=pytest.mark.slow) for x in ({"num_layers": 1}, {"key_dim": 4})),
    ],
    ids=str,
)
def test_weights_of_another_model_are_refused(tmp_path, preset, options):
    sizes = {"num_layers": 2, "key_dim": 3, "normalize_first": True}
    other = save(tmp_path / "other", new_model(**{**sizes, **options}))
    (preset / "model.weights.h5").write_bytes((other / "model.weights.h5").read_bytes())
    assert "model.weights.h5" in message_of(preset)


# Backends


PRESET = Path(__file__).parents[2] / "saved_models" / "multi30k_en_de"


@pytest.mark.each_backend_long
def test_a_trained_preset_gives_the_same_on_every_backend():
    translator = Translator.from_preset(PRESET)
    assert translator(["A dog runs through the snow."]) == ["Ein Hund rennt durch den Schnee."]
    logits = logits_of(translator.model, INPUTS)[0, 2, 4:10]
    assert_close(logits, [-0.05663, 0.99671, -1.79253, 1.3002, 5.48804, -0.40522], atol=1e-4)


OTHER_BACKEND = {"tensorflow": "jax", "jax": "torch", "torch": "jax"}[keras.backend.backend()]
SAVE = """
import sys
import keras, numpy as np
from tests.helpers import to_numpy
from tests.presets.storage_test import INPUTS, new_model, save
from tests.decoding.search_functions import greedy_search

assert keras.backend.backend() == sys.argv[2]
model = new_model(num_layers=2, key_dim=3, normalize_first=True)
token_ids, scores = greedy_search(model, INPUTS["encoder_token_ids"], extra_length=5)
save(sys.argv[1] + "/preset", model)
np.savez(
    sys.argv[1] + "/outputs.npz",
    logits=to_numpy(model(INPUTS)), token_ids=to_numpy(token_ids), scores=to_numpy(scores),
)
"""


@pytest.mark.slow
def test_saved_on_one_backend_loads_on_another(tmp_path):
    pytest.importorskip(OTHER_BACKEND)
    process = subprocess.run(
        [sys.executable, "-c", SAVE, str(tmp_path), OTHER_BACKEND],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "KERAS_BACKEND": OTHER_BACKEND},
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stderr
    theirs = np.load(tmp_path / "outputs.npz")
    model = load_preset(tmp_path / "preset", "Test").model
    assert_close(model(INPUTS), theirs["logits"], atol=1e-4)
    token_ids, scores = greedy_search(model, INPUTS["encoder_token_ids"], extra_length=5)
    assert to_numpy(token_ids).tolist() == theirs["token_ids"].tolist()
    assert_close(scores, theirs["scores"], atol=1e-4)


# Weights of fewer digits


def test_float16_halves_the_file(tmp_path, model):
    path = tmp_path / "preset"
    save_preset(path, "Test", model, tokenizer(), {}, weights_dtype="float16")
    with h5py.File(path / "model.weights.h5") as file:
        assert {item.dtype for item in datasets(file).values()} == {np.dtype("float16")}
    loaded = load_preset(path, "Test").model
    for ours, original in zip(loaded.weights, model.weights):
        assert (
            ours.path == original.path and keras.backend.standardize_dtype(ours.dtype) == "float32"
        )
        assert_close(ours, to_numpy(original).astype("float16").astype("float32"), atol=0)
    assert_close(loaded(INPUTS), model(INPUTS), atol=1e-2)


@pytest.mark.once
@pytest.mark.parametrize(
    ("dtype", "value", "expected"),
    [("int8", 0.0, "weights_dtype.*'int8'"), ("float16", 1e6, "too large for float16")],
)
def test_a_dtype_that_cannot_hold_the_weights_is_refused(tmp_path, dtype, value, expected):
    model = new_model()
    path = tmp_path / "preset"
    save_preset(path, "Test", model, tokenizer(), {"kept": 1})
    model.weights[0].assign(np.full(model.weights[0].shape, value, "float32"))
    with pytest.raises(ValueError, match=expected):
        save_preset(path, "Test", model, tokenizer(), {}, weights_dtype=dtype)
    assert load_preset(path, "Test").metadata == {"kept": 1}
