"""Scripts of a user of KerasHub, which import it and `keras_transformer.hub`."""

import os
import subprocess
import sys
from pathlib import Path

import keras
import pytest

pytest.importorskip("keras_hub")

ROOT = Path(__file__).parents[2]
SCRIPT = """
import sys
import keras_hub
import keras_transformer.hub

preset = "saved_models/multi30k_en_de"
translator = keras_hub.models.Seq2SeqLM.from_preset(preset)
assert translator.generate("A dog runs through the snow.") == "Ein Hund rennt durch den Schnee."

pairs = {"encoder_text": ["A dog runs."] * 8, "decoder_text": ["Eine Katze schläft."] * 8}
translator.preprocessor.encoder_sequence_length = 16
translator.preprocessor.decoder_sequence_length = 16
translator.compile(optimizer="adam")
history = translator.fit(pairs, batch_size=4, epochs=10, verbose=0)  # 20 steps
assert history.epoch == list(range(10))
translator.save_to_preset(sys.argv[1])

again = keras_hub.models.Seq2SeqLM.from_preset(sys.argv[1])
assert again.generate(["A dog runs."]) == translator.generate(["A dog runs."])
print(again.generate("A dog runs."))
"""
WITHOUT_TENSORFLOW = """
import sys
sys.modules.update(dict.fromkeys(["tensorflow", "tensorflow_text"]))
import keras_hub
import keras_transformer.hub

translator = keras_hub.models.Seq2SeqLM.from_preset("saved_models/multi30k_en_de")
assert translator.generate(["A dog runs."]) == ["Ein Hund rennt."]
assert translator.generate({"encoder_text": ["A dog runs."], "decoder_text": ["Der"]})
"""


def run(script, *arguments):
    process = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        env={**os.environ, "KERAS_BACKEND": keras.backend.backend()},
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stderr
    return process.stdout


@pytest.mark.slow
def test_load_generate_train_save_and_load(tmp_path):
    output = run(SCRIPT, tmp_path / "tuned")
    assert output.splitlines()[-1] == "Eine Katze schläft."


@pytest.mark.skipif(keras.backend.backend() == "tensorflow", reason="TensorFlow is the backend")
@pytest.mark.slow
def test_the_classes_work_when_tensorflow_cannot_be_imported():
    run(WITHOUT_TENSORFLOW)
