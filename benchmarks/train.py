"""Time a training step beside PyTorch's nn.Transformer, HuggingFace's Marian and KerasHub: the same
weights, the same batch, all cores for each, taking turns.
"""

import functools
import os
import platform
import statistics
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Literal

import keras
import numpy as np
from timing import matrix_product_speed, ratios, spread, take_turns
from training_systems import make_system

import keras_transformer as kt
from keras_transformer.command_line import run
from keras_transformer.memory import keep_freed_memory
from keras_transformer.training.cost import training_flops

# Vocabulary, source tokens and target tokens of a batch.
WORK = {"tiny": (10_000, 4096), "base": (32_000, 2048), "big": (32_000, 2048)}

Peer = Literal["nn_transformer", "nn_transformer_compiled", "marian", "keras_hub"]


@dataclass
class Options:
    size: Literal["tiny", "base", "big"] = "tiny"
    """Size of the model."""
    tokens: int | None = None
    """Source tokens of a batch, and as many target tokens. Defaults to 4,096 for tiny, else
    2,048."""
    length: int = 32
    """Tokens of each source and each target: there is no padding."""
    precision: Literal["float32", "mixed_bfloat16"] = "float32"
    """What ours and KerasHub's layers compute in; PyTorch's peers follow with autocast."""
    peers: tuple[Peer, ...] = ("nn_transformer", "nn_transformer_compiled", "marian", "keras_hub")
    """Whom to run beside."""
    steps: int = 3
    """Training steps of a round."""
    repeats: int = 5
    """Rounds."""
    memory: bool = False
    """Measure each system's memory too, each in a process of its own (Linux)."""


def main(options):
    batch = random_batch(options)
    names = ("ours", *options.peers)
    model = build_model(options)
    systems = [make_system(name, model, os.cpu_count()) for name in names]
    before = matrix_product_speed()
    losses = [system.evaluate(batch) for system in systems]
    for system in systems:
        for _ in range(2):  # compiles and warms up
            system.step(batch)
    seconds = take_turns(
        {system.name: functools.partial(train, system, batch, options.steps) for system in systems},
        options.repeats,
    )
    after = matrix_product_speed()
    tokens = batch[0].size
    print(
        f"{options.size}, {tokens} + {tokens} tokens in sequences of {options.length}, "
        f"{options.precision}; keras {keras.__version__}, {os.cpu_count()} threads "
        f"({platform.machine()}), matrix products {before:.0f} GFLOP/s before and {after:.0f} "
        f"after; {options.repeats} rounds of {options.steps} steps\n"
    )
    memory = [memory_of(name, options) for name in names] if options.memory else None
    print_table(systems, seconds, losses, memory, options, flops_of(model, batch), after)


def build_model(options):
    keras.config.set_dtype_policy(options.precision)
    keras.utils.set_random_seed(1)
    return kt.Transformer.from_variant(options.size, vocabulary_size=WORK[options.size][0])


def random_batch(options):
    vocabulary_size, tokens = WORK[options.size]
    rows = (options.tokens or tokens) // options.length
    generator = np.random.default_rng(1)
    source, target = (
        generator.integers(4, vocabulary_size, (rows, options.length + extra), "int32")
        for extra in (0, 1)
    )
    return source, target


def train(system, batch, steps):
    for _ in range(steps):
        system.step(batch)


def flops_of(model, batch):
    """Operations of a step: matrix products, forward and backward."""
    lengths = np.full(len(batch[0]), batch[0].shape[1])
    config = model.hyperparameters
    return training_flops(config, config["vocabulary_size"], lengths, lengths)


def memory_of(name, options):
    """MiB that a training step of a system needs, weights and optimizer included."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(_memory_in_this_process, name, options).result()


def _memory_in_this_process(name, options):
    keep_freed_memory()
    # What the libraries take for themselves does not count.
    small = kt.Transformer.from_variant("tiny", vocabulary_size=100, hidden_dim=16)
    make_system(name, small, os.cpu_count()).step((np.ones((2, 4), "int32"),) * 2)
    before = _status("VmRSS")
    batch = random_batch(options)
    system = make_system(name, build_model(options), os.cpu_count())
    train(system, batch, 2)
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    train(system, batch, options.steps)
    return _status("VmHWM") - before


def _status(name):
    """A line of Linux's account of this process, in MiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) // 1024


def print_table(systems, seconds, losses, memory, options, flops, product_speed):
    """Print a Markdown table: one row a system."""
    tokens = options.tokens or WORK[options.size][1]
    ours = systems[0].name
    columns = ["System", "tokens/s", "Ours / system", "of matrix products", "Loss before"]
    columns += ["MiB of a step"] if memory else []
    print("| " + " | ".join(columns) + " |\n" + "|---" * len(columns) + "|")
    for index, (system, loss) in enumerate(zip(systems, losses)):
        own = seconds[system.name]
        share = flops * options.steps / statistics.median(own) / (product_speed * 1e9)
        cells = [
            system.name,
            spread([options.steps * tokens / value for value in own], ",.0f"),
            spread(ratios(seconds[ours], own), ".2f"),
            f"{share:.0%}",
            f"{loss:.5f}",
        ]
        cells += [f"{memory[index]:,}"] if memory else []
        print("| " + " | ".join(cells) + " |")


if __name__ == "__main__":
    run(main, Options)
