"""Time the start of a program: importing, loading a model, translating one sentence.

Each figure is measured in processes of its own, which take turns. The user's cache is not used.
"""

import functools
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import keras
from timing import take_turns

from keras_transformer.command_line import run
from keras_transformer.compilation_cache import OFF, VARIABLE

IMPORTS = {
    "keras": "import keras",
    "keras_transformer": "import keras_transformer",
    "keras_hub": "import keras_hub",
    "torch": "import torch",
    "transformers (Marian)": "from transformers import MarianMTModel",
    "ctranslate2": "import ctranslate2",
}

TRANSLATE = """
import keras_transformer as kt
translator = kt.Translator.from_preset({preset!r})
translator(["a dog runs ."])
"""
SAVED_MODEL = """
import tensorflow as tf, tensorflow_text
model = tf.saved_model.load({path!r})
model.signatures["serving_default"](text=tf.constant(["a dog runs ."]))
"""


@dataclass
class Options:
    preset: Path = Path("saved_models/multi30k_tok_en_de")
    """Trained model to translate a sentence with."""
    repeats: int = 5
    """Number of rounds."""


def main(options):
    with tempfile.TemporaryDirectory() as folder:
        imports = {name: functools.partial(python, code) for name, code in IMPORTS.items()}
        calls = {**imports, **translations(options.preset, Path(folder))}
        for call in calls.values():
            call()  # Warm up the file cache and the compilation cache.
        seconds = take_turns(
            {"nothing": functools.partial(python, "pass"), **calls}, options.repeats
        )
    print_table({name: statistics.median(times) for name, times in seconds.items()})


def translations(preset, folder):
    translate = functools.partial(python, TRANSLATE.format(preset=str(preset)))
    calls = {
        "import, load, translate a sentence; nothing kept": translate,
        "the same in a second process": functools.partial(translate, cache=str(folder / "cache")),
    }
    if keras.backend.backend() == "tensorflow":
        import keras_transformer as kt

        kt.Translator.from_preset(preset).export(folder / "saved_model")
        code = SAVED_MODEL.format(path=str(folder / "saved_model"))
        calls["the same, SavedModel"] = functools.partial(python, code)
    return calls


def python(code, cache=OFF):
    subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, VARIABLE: cache},
        check=True,
        stderr=subprocess.DEVNULL,
    )


def print_table(seconds):
    print("| A process that runs | seconds | beyond `import keras` |\n|---|---|---|")
    for name, value in seconds.items():
        print(f"| {name} | {value:.2f} | {value - seconds['keras']:+.2f} |")


if __name__ == "__main__":
    run(main, Options)
