"""Time a parser on the sentences of a treebank, from words to trees, next to SuPar's chart parser.

SuPar runs in its own process, with a Python that has it installed. Its speed does not depend on
its training, so a few trees are enough to create a model of the same size.
"""

import functools
import itertools
import json
import os
import statistics
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import keras
from timing import ratios, spread, take_turns

import keras_transformer as kt
from keras_transformer.command_line import run

_PEER = Path(__file__).with_name("supar_peer.py")


@dataclass
class Options:
    data_dir: Path
    """Folder that holds the treebank."""
    dataset: str = "craft"
    """Treebank whose test sentences are parsed."""
    model: str = "craft_parser"
    """Trained parser, a folder or a name."""
    sentences: int = 500
    """Number of sentences."""
    beam_sizes: tuple[int, ...] = (1, 4)
    """Beam sizes to time."""
    repeats: int = 3
    """Number of rounds. In each round every parser parses all sentences once."""
    supar_python: Path | None = None
    """Python with SuPar installed. Without it, only our parser is timed."""
    supar_trees: int = 2000
    """Number of trees on which SuPar is trained first, for one epoch."""


def main(options):
    threads = len(os.sched_getaffinity(0))
    trees = load(options, "test", options.sentences)
    words = [tree.leaves() for tree in trees]
    functions = {
        f"ours on {keras.backend.backend()}, beam {size}": functools.partial(
            kt.ConstituencyParser.from_preset(options.model, beam_size=size), words
        )
        for size in options.beam_sizes
    }
    with tempfile.TemporaryDirectory() as folder:
        if options.supar_python is not None:
            supar = SuPar(options, Path(folder), threads)
            functions["SuPar"] = functools.partial(supar, [tree.pos() for tree in trees])
        for function in functions.values():
            function()  # Compile and fill caches.
        seconds = take_turns(functions, options.repeats)
    print_table(seconds, options, threads, words)


def load(options, split, count):
    treebank = kt.parsing.load_treebank(options.dataset, split, options.data_dir)
    return list(itertools.islice(treebank, count))


class SuPar:
    """A process that parses on demand."""

    def __init__(self, options, folder, threads):
        for split, count in (("train", options.supar_trees), ("val", 100)):
            # SuPar expects the treebank's outer bracket; without it, it reads only the first child.
            lines = (f"({kt.parsing.to_bracketed(tree)})\n" for tree in load(options, split, count))
            (folder / f"{split}.pid").write_text("".join(lines), "utf-8")
        model = folder / "supar.model"
        peer = [str(options.supar_python), str(_PEER)]
        trees = [str(folder / f"{split}.pid") for split in ("train", "val")]
        subprocess.run([*peer, "train", *trees, str(model), "1"], check=True, cwd=folder)
        self.process = subprocess.Popen(
            [*peer, "parse", str(model), str(threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=folder,
        )

    def __call__(self, sentences):
        self.process.stdin.write(json.dumps(sentences) + "\n")
        self.process.stdin.flush()
        expected = f"parsed {len(sentences)}\n"
        if expected not in iter(self.process.stdout.readline, ""):
            raise RuntimeError("SuPar did not return the expected parses.")


def print_table(seconds, options, threads, sentences):
    num_words = sum(map(len, sentences))
    print(
        f"\n{len(sentences)} sentences of {options.dataset}, {num_words:,} words, "
        f"{threads} threads, {options.repeats} rounds\n\n"
        "| Parser | sentences/s | words/s | SuPar's time / ours |\n|---|---|---|---|"
    )
    for name, times in seconds.items():
        beside = ""
        if "SuPar" in seconds and name != "SuPar":
            beside = spread(ratios(times, seconds["SuPar"]), ".2f")
        speeds = [len(sentences) / value for value in times]
        words = num_words / statistics.median(times)
        print(f"| {name} | {spread(speeds, '.1f')} | {words:,.0f} | {beside} |")


if __name__ == "__main__":
    run(main, Options)
