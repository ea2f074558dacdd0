"""The commands of `docs/serving.md` for a SavedModel, in processes without this package."""

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import keras
import pytest

import keras_transformer as kt
from tests.convert.ctranslate2_models import new_spec, save

pytestmark = [
    pytest.mark.skipif(
        keras.backend.backend() != "tensorflow", reason="a SavedModel is made by TensorFlow"
    ),
    pytest.mark.skipif(
        importlib.util.find_spec("ctranslate2") is None, reason="ctranslate2 is not installed"
    ),
]

PAGE = (Path(__file__).parents[2] / "docs" / "serving.md").read_text("utf-8")
TEXTS = ["w1 w2 w3", "w4"]
# This package cannot be imported there. (Keras is, by `tensorflow_text`.)
CLEAN = "import sys; sys.modules.update(keras_transformer=None); "


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A converted model of two vocabularies, and the folder of its SavedModel."""
    folder = tmp_path_factory.mktemp("serving")
    save(new_spec(num_layers=(1, 1)), folder / "ctranslate2")
    translator = kt.Translator.from_preset(
        kt.convert.ctranslate2(folder / "ctranslate2", ("w7",), ("t3",))
    )
    translator.search = kt.BeamSearch(beam_size=2, extra_length=3)
    translator.export(folder / "saved_model")
    return translator, folder / "saved_model"


@pytest.mark.slow
def test_the_requests_of_the_page_succeed(served):
    import tensorflow as tf

    signatures = tf.saved_model.load(str(served[1])).signatures
    requests = [json.loads(text) for text in re.findall(r"\{\"(?:instances|signature).*\}", PAGE)]
    names = {request.get("signature_name", "serving_default") for request in requests}
    assert names == {"serving_default", "n_best", "token_ids"}
    for request in requests:
        signature = signatures[request.get("signature_name", "serving_default")]
        _, expected = signature.structured_input_signature
        # Of one input, instances are its rows.
        inputs = request.get("inputs") or {next(iter(expected)): request["instances"]}
        assert inputs.keys() == expected.keys()
        outputs = signature(
            **{name: tf.constant(x, expected[name].dtype) for name, x in inputs.items()}
        )
        (rows,) = {len(x) for x in inputs.values()}
        assert all(len(values) == rows for values in outputs.values())


@pytest.mark.slow
def test_the_page_lists_the_signatures(served):
    import tensorflow as tf

    signatures = tf.saved_model.load(str(served[1])).signatures
    for name in ("serving_default", "n_best", "token_ids"):
        (row,) = re.findall(rf"\| `{name}` \| (.*) \| (.*) \|", PAGE)
        inputs, outputs = (re.findall(r"`(\w+)`: (\w+) `\((.*?)\)`", cell) for cell in row)
        signature = signatures[name]
        _, expected = signature.structured_input_signature
        for parts, specs in ((inputs, expected), (outputs, signature.structured_outputs)):
            found = {x: (s.dtype.name, len(s.shape)) for x, s in specs.items()}
            said = {x: (dtype, len(re.findall(r"\w+", shape))) for x, dtype, shape in parts}
            assert said == found


@pytest.mark.slow
@pytest.mark.parametrize("xla", [False, True])
def test_a_clean_process_serves_the_model(xla, served, tmp_path):
    translator, path = served
    if xla:
        path = tmp_path / "xla"
        translator.export(path, xla=True)
    script = f"""
{CLEAN}
import tensorflow as tf, tensorflow_text
signature = tf.saved_model.load({str(path)!r}).signatures["serving_default"]
for text in signature(text=tf.constant({TEXTS!r}))["translation"].numpy():
    print(text.decode())
"""
    process = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert process.stdout.splitlines() == translator(TEXTS)


@pytest.mark.slow
def test_tensorflows_command_line_runs_the_model(served):
    translator, path = served
    (script,) = re.findall(r'python -c "(.*?)"', PAGE)
    arguments = ["run", "--dir", path, "--tag_set", "serve", "--signature_def", "serving_default"]
    process = subprocess.run(
        [sys.executable, "-c", CLEAN + script, *arguments, "--input_exprs", f"text={TEXTS!r}"],
        capture_output=True,
        text=True,
        check=True,
    )
    for translation in translator(TEXTS):
        assert repr(translation.encode())[1:] in process.stdout
