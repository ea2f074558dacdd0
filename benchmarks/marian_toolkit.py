"""Time our search, and Marian's own, with one model: from lines of text to lines of text.

Each system runs in a process of its own. Marian runs with a Python that has pymarian installed.
"""

import functools
import json
import os
import statistics
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import sacrebleu
from timing import ratios, spread, take_turns

import keras_transformer as kt
from keras_transformer.command_line import run

_PEER = Path(__file__).with_name("marian_toolkit_peer.py")


@dataclass
class Options:
    model: str
    """Preset with `zero_start`, a folder or a name."""
    source: Path
    """File of the lines to translate."""
    reference: Path
    """File of their translations, for BLEU."""
    marian_python: Path
    """Python with pymarian installed."""
    python: Path = Path(".venv/bin/python")
    """Python with keras-transformer and the backends installed."""
    backends: tuple[str, ...] = ("jax", "tensorflow")
    """Backends of ours to time."""
    gemm: tuple[str, ...] = ("float32", "packed8")
    """Marian's kinds of matrix products to time (`--gemm-type`)."""
    beam_size: int = 5
    """Beam size."""
    batch_size: int = 64
    """Sentences per batch of Marian's. (Ours chooses its own.)"""
    repeats: int = 3
    """Number of rounds. In each round every system translates all lines once."""


class System:
    """A process that translates on demand."""

    def __init__(self, command, threads, **environment):
        limits = {name: str(threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
        self.outputs = None
        self.process = subprocess.Popen(
            [*map(str, command)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **limits, **environment},
        )

    def __call__(self, lines):
        self.process.stdin.write(json.dumps(lines) + "\n")
        self.process.stdin.flush()
        answers = (x for x in iter(self.process.stdout.readline, "") if x.startswith("["))
        self.outputs = json.loads(next(answers))


def main(options):
    threads = len(os.sched_getaffinity(0))
    lines = options.source.read_text("utf-8").splitlines()
    references = options.reference.read_text("utf-8").splitlines()
    search = kt.BeamSearch(options.beam_size, alpha=1.0, length_penalty="power")
    translator = kt.Translator.from_preset(options.model, search=search)
    with tempfile.TemporaryDirectory() as folder:
        translator.export(f"{folder}/marian", format="marian_npz")
        translator.save_to_preset(f"{folder}/ours")
        systems = {
            f"ours on {backend}": System(
                [options.python, _PEER, "ours", f"{folder}/ours"],
                threads,
                KERAS_BACKEND=backend,
            )
            for backend in options.backends
        } | {
            f"Marian, {gemm}": System(
                [options.marian_python, _PEER, "marian", f"{folder}/marian", options.batch_size]
                + [threads, gemm],
                threads,
            )
            for gemm in options.gemm
        }
        functions = {name: functools.partial(system, lines) for name, system in systems.items()}
        for function in functions.values():
            function()  # Compile and fill caches.
        seconds = take_turns(functions, options.repeats)
    print_table(systems, seconds, options, threads, references)


def print_table(systems, seconds, options, threads, references):
    first = next(iter(systems))
    expected = systems[first].outputs
    bleu = sacrebleu.BLEU()
    print(
        f"\n{len(references)} lines, {threads} threads, beam {options.beam_size}, batches of "
        f"{options.batch_size} (Marian), {options.repeats} rounds\n\n"
        f"| System | sentences/s | {first} / it | as {first} | BLEU |\n|---|---|---|---|---|"
    )
    for name, system in systems.items():
        equal = statistics.mean(x == y for x, y in zip(system.outputs, expected, strict=True))
        speeds = [len(references) / value for value in seconds[name]]
        beside = spread(ratios(seconds[first], seconds[name]), ".2f")
        score = bleu.corpus_score(system.outputs, [references]).score
        print(f"| {name} | {spread(speeds, '.1f')} | {beside} | {equal:.1%} | {score:.2f} |")
    print(f"\n{bleu.get_signature()}")


if __name__ == "__main__":
    run(main, Options)
