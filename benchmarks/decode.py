"""Time beam search next to CTranslate2 and HuggingFace's transformers.

All systems have the same weights and sentences, use all cores, and take turns.
"""

import functools
import os
import platform
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import keras
import numpy as np
from systems import CTranslate2, KerasTransformer, Search, Transformers
from timing import matrix_product_speed, ratios, spread, take_turns

import keras_transformer as kt
from keras_transformer.command_line import run
from keras_transformer.data.corpora import load_parallel_text

VOCABULARY_SIZES = {"tiny": 10_000, "base": 32_000}
RESERVED = ["<pad>", "<s>", "</s>", "<unk>"]


@dataclass
class Options:
    size: Literal["tiny", "base"] = "tiny"
    """Size of a model with random weights. Its outputs are forced to one length."""
    preset: Path | None = None
    """Trained model to time instead, on its own test set, with outputs of any length."""
    data_dir: Path | None = None
    """Folder that holds the preset's corpus. Without it, the corpus is fetched if it can be."""
    peers: tuple[Literal["ctranslate2", "transformers"], ...] = ("ctranslate2", "transformers")
    """Systems to compare with."""
    sentences: int | None = None
    """Number of sentences. Defaults to two batches, or to the preset's whole test set."""
    source_length: int = 20
    """Tokens per source, with random weights."""
    output_length: int = 30
    """Tokens per output, with random weights."""
    batch_size: int = 64
    """Sentences per batch."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Dtype of our and transformers' model with random weights. CTranslate2 takes float32."""
    beam_size: int = 4
    """Beam size."""
    alpha: float = 0.6
    """Strength of the length penalty |y|^alpha."""
    repeats: int = 5
    """Number of rounds. In each round every system translates all sentences once."""


@dataclass
class Work:
    """A model, and the sentences to translate."""

    name: str
    model: kt.Transformer
    pieces: list[str]
    sentences: list[list[int]]  # token ids, without the end token
    search: Search


def main(options):
    work = trained_work(options) if options.preset else random_work(options)
    threads = os.cpu_count()
    ours = KerasTransformer(work.model, work.search)
    peers = []
    if "ctranslate2" in options.peers:
        peers.append(CTranslate2(work.model, work.pieces, work.search, threads))
    if "transformers" in options.peers:
        peers.append(Transformers(work.model, work.search, threads, options.precision))

    batches = batches_by_length(work.sentences, options.batch_size)
    print(
        f"{work.name}: {len(work.sentences)} sentences in batches of {options.batch_size}, beam "
        f"{options.beam_size}, alpha {options.alpha}; keras {keras.__version__}, {threads} threads"
        f" ({platform.machine()}), matrix products {matrix_product_speed():.0f} GFLOP/s before",
        flush=True,
    )
    results = measure([ours, *peers], batches, options.repeats)
    print(f"and {matrix_product_speed():.0f} GFLOP/s after; medians of {options.repeats} rounds\n")
    print_table(work.name, results)


def random_work(options):
    """Create random weights, random sentences of one length, and outputs of one length."""
    extra_length = options.output_length - options.source_length
    if extra_length < 1:
        raise ValueError(
            "`output_length` must be more than `source_length`. Received: "
            f"output_length={options.output_length}, source_length={options.source_length}"
        )
    keras.config.set_dtype_policy(options.precision)
    keras.utils.set_random_seed(1)
    size = VOCABULARY_SIZES[options.size]
    shape = (options.sentences or 2 * options.batch_size, options.source_length)
    return Work(
        name=f"{options.size}, {options.source_length} to {options.output_length} tokens",
        model=kt.Transformer.from_variant(options.size, vocabulary_size=size),
        pieces=RESERVED + [str(i) for i in range(len(RESERVED), size)],
        sentences=np.random.default_rng(1).integers(len(RESERVED), size, shape).tolist(),
        search=Search(options.beam_size, options.alpha, extra_length, options.output_length),
    )


def trained_work(options):
    """Load a trained model and the sentences of its test set."""
    import sentencepiece

    translator = kt.Translator.from_preset(options.preset)
    dataset, *languages = (translator.metadata[key] for key in ("dataset", "source", "target"))
    text = load_parallel_text(dataset, "test", *languages, options.data_dir)
    sources = [source for source, _ in text][: options.sentences]
    processor = sentencepiece.SentencePieceProcessor(model_proto=translator.tokenizer.proto)
    return Work(
        name=f"{options.preset.name}, test set",
        model=translator.model,
        pieces=[processor.id_to_piece(i) for i in range(processor.get_piece_size())],
        sentences=translator.tokenizer.encode(sources),
        search=Search(options.beam_size, options.alpha, translator.extra_length),
    )


def batches_by_length(sentences, batch_size):
    sentences = sorted(sentences, key=len, reverse=True)
    return [sentences[i : i + batch_size] for i in range(0, len(sentences), batch_size)]


@dataclass
class Result:
    """The result of one system."""

    name: str
    seconds: list[float]  # of each round
    outputs: list[list[int]]  # token ids, including end tokens
    steps: int  # of the decoder, over all batches


def measure(systems, batches, repeats):
    """Run the systems in turns, so that other load on the machine affects all of them alike."""
    prepared = [[system.prepare(batch) for batch in batches] for system in systems]
    results = []
    for system, inputs in zip(systems, prepared):
        # This also compiles and warms up.
        outputs = [ids for batch in inputs for ids in system.token_ids(system.run(batch))]
        steps = sum(system.count_steps(batch) for batch in inputs)
        results.append(Result(system.name, [], outputs, steps))
    seconds = take_turns(
        {
            system.name: functools.partial(run_all, system, inputs)
            for system, inputs in zip(systems, prepared)
        },
        repeats,
    )
    for result in results:
        result.seconds = seconds[result.name]
    return results


def run_all(system, inputs):
    for batch in inputs:
        system.run(batch)


def print_table(work, results):
    """Print a Markdown table with one row per system, ours first."""
    ours = results[0]
    print("| Work | System | Ours / system | Same tokens | Steps |")
    print("|---|---|---|---|---|")
    for result in results:
        same = np.mean([own == theirs for own, theirs in zip(ours.outputs, result.outputs)])
        faster = spread(ratios(ours.seconds, result.seconds), ".2f")
        print(f"| {work} | {speed(result)} | {faster} | {same:.1%} | {result.steps} |")


def speed(result):
    """Return sentences and tokens per second, including end tokens."""
    rates = [len(result.outputs) / seconds for seconds in result.seconds]
    tokens = statistics.median(rates) * np.mean([len(ids) for ids in result.outputs])
    return f"{result.name}: {spread(rates, '.3g')} sentences/s, {tokens:,.0f} tokens/s"


if __name__ == "__main__":
    run(main, Options)
