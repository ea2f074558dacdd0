"""Train rows of Table 3 and print them in the paper's columns.

The options after `--` are passed to `keras-transformer train translation` for all rows:

    variations.py --rows base heads_1 layers_2 --output-dir runs/table3 -- --dataset synthetic \\
        --scale 0.125 --steps 2000
"""

import json
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import tyro

from keras_transformer.command_line import run
from keras_transformer.files import atomic_write, check_writable
from keras_transformer.models.variants import get_variant

TRAIN = [sys.executable, "-m", "keras_transformer", "train", "translation"]
# The paper's columns -> hyperparameters.
COLUMNS = {
    "N": "num_layers",
    "d_model": "hidden_dim",
    "d_ff": "intermediate_dim",
    "h": "num_heads",
    "d_k": "key_dim",
    "d_v": "value_dim",
    "P_drop": "dropout",
    "eps_ls": "label_smoothing",
}


@dataclass
class Options:
    train_options: tyro.conf.Positional[list[str]]
    """Options of the training for all rows, after `--`."""
    output_dir: Path
    """Folder for table.md and for the runs, each in a folder named after its row."""
    rows: list[str] = field(default_factory=lambda: ["base"])
    """Variants to train, one per row."""
    sustained_flops: float | None = None
    """Floating-point operations per second that the device sustains, for the paper's formula of the
    training cost (section 6.1). Defaults to the measured rate of matrix products."""


def main(options):
    for name in options.rows:
        get_variant(name)  # before hours of training, not after
    check_writable("output_dir", options.output_dir / "table.md")
    rate = options.sustained_flops or measured_flops()
    results = {}
    for name in options.rows:
        folder = options.output_dir / name
        # A finished row is only evaluated again, and a killed one resumes.
        command = [
            *TRAIN,
            *options.train_options,
            "--variant",
            name,
            "--output-dir",
            folder,
        ]
        subprocess.run([*command, "--resume"], check=True)
        results[name] = json.loads((folder / "results.json").read_text("utf-8"))
        table = "\n".join(lines(results, rate)) + "\n"
        with atomic_write(options.output_dir / "table.md") as path:
            path.write_text(table, "utf-8")
    print(table, end="")


def lines(results, rate):
    """Yield the lines of the table in Markdown.

    Perplexity is per token of the vocabulary. BLEU is of the validation split with greedy search.
    The cost is given by the paper's formula, and as counted.
    """
    scores = ["steps", "PPL (val)", "BLEU (val)", "params x10^6", "FLOPs (time)", "FLOPs (counted)"]
    header = ["", *COLUMNS, *scores]
    yield f"| {' | '.join(header)} |"
    yield "|" + "---|" * len(header)
    for name, result in results.items():
        cells = [
            name,
            *table_sizes(result["hyperparameters"]),
            result["steps"],
            f"{result['validation']['perplexity']:.2f}",
            f"{result['scores']['val']['bleu']:.1f}",
            f"{result['parameters'] / 1e6:.1f}",
            f"{result['seconds_of_fit'] * rate:.1e}",
            f"{result['training_flops']:.1e}",
        ]
        yield f"| {' | '.join(map(str, cells))} |"


def table_sizes(hyperparameters):
    """Return the values of `COLUMNS`, with the defaults of `key_dim` and `value_dim`."""
    sizes = dict(hyperparameters)
    sizes["key_dim"] = sizes["key_dim"] or sizes["hidden_dim"] // sizes["num_heads"]
    sizes["value_dim"] = sizes["value_dim"] or sizes["key_dim"]
    return [sizes[name] for name in COLUMNS.values()]


def measured_flops(size=1024, repeats=10):
    """Return the operations per second of float32 matrix products, the median of several."""
    import keras
    from keras import ops

    a = ops.convert_to_tensor(np.ones((size, size), "float32"))
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        ops.convert_to_numpy(ops.matmul(a, a))
        seconds.append(time.perf_counter() - start)
    rate = 2 * size**3 / float(np.median(seconds))
    print(f"{rate:.1e} operations a second on {keras.backend.backend()}")
    return rate


if __name__ == "__main__":
    run(main, Options)
