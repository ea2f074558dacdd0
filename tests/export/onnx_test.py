import importlib.util
import re
from pathlib import Path

import keras
import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer.reserved_ids import END_ID, PAD_ID, START_ID
from tests.decoding.search_functions import greedy_search
from tests.helpers import assert_close, to_numpy
from tests.small_corpus import new_model, tokenizer

PAGE = Path(__file__).parents[2] / "docs" / "serving.md"
ON_TENSORFLOW = keras.backend.backend() == "tensorflow"
needs_packages = pytest.mark.skipif(
    not ON_TENSORFLOW or not all(map(importlib.util.find_spec, ("tf2onnx", "onnxruntime"))),
    reason="it is made by TensorFlow with tf2onnx, and run by onnxruntime",
)
MODELS = {
    "post-norm": {"num_layers": 2, "key_dim": 4, "value_dim": 6},
    "pre-norm, all apart": {
        "normalize_first": True,
        "use_bias": True,
        "source_vocabulary_size": 60,
        "tie_weights": False,
        "output_bias": True,
        "position_encoding": "learned",
        "max_length": 100,
    },
}
TEXTS = ["the dog sees a cat", "a house"]


@pytest.fixture(scope="module", params=MODELS.values(), ids=MODELS.keys())
def exported(request, tmp_path_factory):
    translator = kt.Translator(new_model(**request.param), tokenizer())
    path = tmp_path_factory.mktemp("export") / "model"
    translator.export(path, format="onnx")
    return translator, path


@needs_packages
@pytest.mark.slow
def test_onnxruntime_gives_the_models_logits_in_steps_of_any_size(exported):
    translator, path = exported
    source = np.array([[5, 6, 7, 8, END_ID], [9, END_ID, PAD_ID, PAD_ID, PAD_ID]], "int32")
    target = np.array([[START_ID, 5, 6, 7], [START_ID, 8, 9, 10]], "int32")
    expected = translator.model(
        {"encoder_token_ids": source, "decoder_token_ids": target}, training=False
    )
    encoder, step = sessions(path)
    fixed = {"encoder_token_ids": source, **named(encoder, {"encoder_token_ids": source})}
    for sizes in ((4,), (1, 1, 1, 1), (2, 1, 1)):
        past, logits = no_past(step, len(source)), []
        for part in np.split(target, np.cumsum(sizes)[:-1], axis=1):
            outputs = named(step, {"decoder_token_ids": part, **fixed, **past})
            past = {name: outputs[name.replace("past", "present")] for name in past}
            logits.append(outputs["logits"])
        assert_close(np.concatenate(logits, axis=1), expected, atol=1e-4)


def sessions(path):
    import onnxruntime

    return [
        onnxruntime.InferenceSession(str(path / name))
        for name in ("encoder.onnx", "decoder_step.onnx")
    ]


def named(session, inputs):
    return dict(zip([output.name for output in session.get_outputs()], session.run(None, inputs)))


def no_past(step, batch):
    shapes = {x.name: x.shape for x in step.get_inputs() if x.name.startswith("past_")}
    return {
        name: np.zeros([batch, *(n if isinstance(n, int) else 0 for n in shape[1:])], "float32")
        for name, shape in shapes.items()
    }


@needs_packages
@pytest.mark.slow
def test_the_search_of_the_page(exported):
    translator, path = exported
    script = re.search(
        r"```python\n(import numpy.*?onnxruntime.*?)```", PAGE.read_text("utf-8"), re.S
    )[1]
    names = {}
    exec(script.replace('"FOLDER', f'"{path}'), names)
    for text in TEXTS:
        ids = np.array([[*tokenizer().encode([text])[0], END_ID]])
        outputs, _ = greedy_search(translator.model, ids, 50)
        expected = tokenizer().decode([[i for i in to_numpy(outputs)[0] if i > END_ID]])[0]
        # The last place of ours is for the end token alone.
        assert names["translate"](text, limit=ids.shape[1] + 49) == expected


@pytest.mark.skipif(ON_TENSORFLOW, reason="it can export")
def test_names_the_backend_that_can(tmp_path):
    with pytest.raises(kt.UserError, match="KERAS_BACKEND=tensorflow"):
        kt.Translator(new_model(), tokenizer()).export(tmp_path / "model", format="onnx")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not ON_TENSORFLOW, reason="the backend comes first")
def test_a_missing_tf2onnx_is_reported_with_its_install_command(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "tf2onnx", None)
    with pytest.raises(kt.UserError, match="pip install tf2onnx"):
        kt.Translator(new_model(), tokenizer()).export(tmp_path / "model", format="onnx")


@needs_packages
def test_mixed_precision_cannot_be_exported(tmp_path):
    translator = kt.Translator(new_model(dtype="mixed_bfloat16"), tokenizer())
    with pytest.raises(kt.UserError, match="mixed_bfloat16"):
        translator.export(tmp_path / "model", format="onnx")


@needs_packages
def test_deterministic_attention_cannot_be_exported(tmp_path):
    translator = kt.Translator(new_model(word_start_ids=[4], leaf_ids=[5]), tokenizer())
    with pytest.raises(kt.UserError, match="Cannot export deterministic attention"):
        translator.export(tmp_path / "onnx", format="onnx")
    assert not [*tmp_path.iterdir()]
