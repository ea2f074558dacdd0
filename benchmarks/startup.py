"""Time what passes before the first result: importing, loading a model, translating one sentence.

Every figure is of processes of their own, taking turns.
"""

import functools
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from timing import take_turns

from keras_transformer.command_line import run

IMPORTS = {
    "keras": "import keras",
    "keras_transformer": "import keras_transformer",
    "keras_nlp": "import keras_nlp",
    "torch": "import torch",
    "transformers (Marian)": "from transformers import MarianMTModel",
    "ctranslate2": "import ctranslate2",
}

TRANSLATE = """
import keras_transformer as kt
{cache}
translator = kt.Translator.from_preset({preset!r})
translator(["a dog runs ."])
"""
CACHE = """
from keras_transformer.compilation_cache import keep_compiled_programs
keep_compiled_programs({folder!r})
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
    """Rounds."""


def main(options):
    with tempfile.TemporaryDirectory() as folder:
        programs = {**IMPORTS, **translations(options.preset, Path(folder))}
        calls = {name: functools.partial(python, code) for name, code in programs.items()}
        for call in calls.values():
            call()  # Files come from the disk only once, and the cache is filled.
        seconds = take_turns(
            {"nothing": functools.partial(python, "pass"), **calls}, options.repeats
        )
    print_table({name: statistics.median(times) for name, times in seconds.items()})


def translations(preset, folder):
    import keras_transformer as kt

    kt.Translator.from_preset(preset).export(folder / "saved_model")
    code = functools.partial(TRANSLATE.format, preset=str(preset))
    return {
        "import, load, translate a sentence": code(cache=""),
        "the same, compiled programs kept": code(cache=CACHE.format(folder=str(folder / "cache"))),
        "the same, SavedModel": SAVED_MODEL.format(path=str(folder / "saved_model")),
    }


def python(code):
    subprocess.run([sys.executable, "-c", code], check=True, stderr=subprocess.DEVNULL)


def print_table(seconds):
    print("| A process that runs | seconds | beyond `import keras` |\n|---|---|---|")
    for name, value in seconds.items():
        print(f"| {name} | {value:.2f} | {value - seconds['keras']:+.2f} |")


if __name__ == "__main__":
    run(main, Options)
