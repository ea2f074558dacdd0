"""Time a training step next to PyTorch's nn.Transformer, HuggingFace's Marian and KerasHub.

All systems have the same weights and batch, use all cores, and take turns. Each system has its own
process, so that threads and memory do not affect the others and memory can be measured. Ours keeps
freed memory, as in the recipes.
"""

import contextlib
import ctypes
import os
import platform
import statistics
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Literal

import keras
import numpy as np
from timing import gpu_product_speed, matrix_product_speed, ratios, spread, take_turns
from training_systems import make_system

import keras_transformer as kt
from keras_transformer.command_line import keep_freed_memory, run
from keras_transformer.training.cost import training_flops

# Vocabulary, source tokens and target tokens of a batch.
WORK = {"tiny": (10_000, 4096), "base": (32_000, 2048), "big": (32_000, 2048)}

# Writing 5 to this file resets the peak of memory.
LINUX_PEAK = Path("/proc/self/clear_refs")

Peer = Literal["nn_transformer", "nn_transformer_compiled", "marian", "keras_hub"]


@dataclass
class Options:
    size: Literal["tiny", "base", "big"] = "tiny"
    """Size of the model."""
    tokens: int | None = None
    """Source tokens and target tokens per batch. Defaults to 4,096 for tiny, else 2,048."""
    length: int = 32
    """Tokens of each source and each target, without padding."""
    precision: Literal["float32", "mixed_bfloat16"] = "float32"
    """Dtype policy of our and KerasHub's layers; PyTorch's peers use autocast."""
    peers: tuple[Peer, ...] = ("nn_transformer", "nn_transformer_compiled", "marian", "keras_hub")
    """Systems to compare with."""
    steps: int = 3
    """Training steps per round."""
    repeats: int = 5
    """Number of rounds."""


def main(options):
    names = ("ours", *options.peers)
    before = product_speed(options)
    with contextlib.ExitStack() as stack:
        processes = {}
        for name in names:
            process = ProcessPoolExecutor(1, mp_context=get_context("spawn"))
            processes[name] = stack.enter_context(process)
        # One after another, because compiling uses all cores.
        facts = {
            name: process.submit(start, name, options).result()
            for name, process in processes.items()
        }
        seconds = take_turns(
            {
                name: lambda process=process: process.submit(train, options.steps).result()
                for name, process in processes.items()
            },
            options.repeats,
        )
        memory = {name: process.submit(memory_used).result() for name, process in processes.items()}
    after = product_speed(options)
    rows, length = facts["ours"]["shape"]
    print(
        f"{options.size}, {rows} pairs of {length} + {length} tokens, {options.precision}; keras "
        f"{keras.__version__}, {os.cpu_count()} threads ({platform.machine()}), matrix products "
        f"{before:.0f} GFLOP/s before and {after:.0f} after; {options.repeats} rounds of "
        f"{options.steps} steps\n"
    )
    print_table(names, facts, seconds, memory, options, max(before, after))


def product_speed(options):
    """Return the GFLOP/s of matrix products, the upper limit."""
    import torch

    if torch.cuda.is_available():
        return gpu_product_speed("bfloat16" if "bfloat16" in options.precision else "float32")
    return matrix_product_speed()


# In the process of a system

_running = None


@dataclass
class Running:
    """The system of this process."""

    system: object
    batch: tuple
    memory_before: int  # MiB, before the model was created


def start(name, options):
    """Create a system and warm it up; return facts about it."""
    global _running
    if name == "ours":
        keep_freed_memory()
    # Exclude the memory of the libraries themselves.
    small = kt.Transformer.from_variant("tiny", vocabulary_size=100, hidden_dim=16)
    make_system(name, small, os.cpu_count()).train((np.ones((2, 4), "int32"),) * 2, 1)
    memory_before = memory_status("VmRSS")
    batch, model = random_batch(options), build_model(options)
    flops = flops_of(model, batch)
    system = make_system(name, model, os.cpu_count())
    del model
    loss = system.evaluate(batch)
    _running = Running(system, batch, memory_before)
    train(2)  # compiles
    if LINUX_PEAK.exists():
        ctypes.CDLL(None).malloc_trim(0)  # return the memory of the compilation
        LINUX_PEAK.write_text("5")  # reset the peak
    return {"name": system.name, "loss": loss, "flops": flops, "shape": batch[0].shape}


def train(steps):
    _running.system.train(_running.batch, steps)


def memory_used():
    """Return the peak memory of a step in MiB: weights, optimizer, activations."""
    if (peak := gpu_memory_peak()) is not None:
        return peak
    return memory_status("VmHWM") - _running.memory_before


def gpu_memory_peak():
    """Return the peak of the memory that this process's library took of a GPU, in MiB, or None."""
    peaks = []
    if "torch" in sys.modules and sys.modules["torch"].cuda.is_available():
        peaks.append(sys.modules["torch"].cuda.max_memory_allocated())
    if "jax" in sys.modules and sys.modules["jax"].default_backend() == "gpu":
        peaks.append(sys.modules["jax"].devices()[0].memory_stats()["peak_bytes_in_use"])
    return max(peaks) // 2**20 if peaks else None


def memory_status(name):
    """Return a line of this process's memory status in Linux, in MiB."""
    if not LINUX_PEAK.exists():
        return 0
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) // 1024


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


def flops_of(model, batch):
    """Return the operations of a step: matrix products, forward and backward."""
    lengths = np.full(len(batch[0]), batch[0].shape[1])
    return training_flops(model.hyperparameters, model.config.vocabulary_size, lengths, lengths)


# The table


def print_table(names, facts, seconds, memory, options, product_speed):
    """Print a Markdown table with one row per system."""
    print(
        "| System | tokens/s | Ours / system | Of matrix products | MiB of a step | Loss before |"
    )
    print("|---|---|---|---|---|---|")
    for name in names:
        rows, length = facts[name]["shape"]
        tokens = options.steps * rows * length
        rate = facts[name]["flops"] * options.steps / statistics.median(seconds[name])
        cells = [
            facts[name]["name"],
            spread([tokens / value for value in seconds[name]], ",.0f"),
            spread(ratios(seconds["ours"], seconds[name]), ".2f"),
            f"{rate / (product_speed * 1e9):.0%}",
            f"{memory[name]:,}",
            f"{facts[name]['loss']:.5f}",
        ]
        print("| " + " | ".join(cells) + " |")


if __name__ == "__main__":
    run(main, Options)
