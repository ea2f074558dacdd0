"""Translate lines from standard input to standard output on many machines, with Ray Data."""

import itertools
import sys
from dataclasses import dataclass

import keras_transformer as kt
from keras_transformer.command_line import StreamOptions, given, run
from keras_transformer.data.text_lines import in_windows, line_windows
from keras_transformer.presets.location import locate
from keras_transformer.presets.storage import read_preset
from keras_transformer.translation.translator import best_result


@dataclass(kw_only=True)
class Options(StreamOptions):
    model: str
    """Model folder, such as runs/x/model, that exists on all machines."""
    workers: int = 2
    """Number of workers, each with its own model, in the cluster RAY_ADDRESS or on this machine."""
    gpus: float = 0
    """GPUs per worker."""
    beam_size: int | None = None
    """Live hypotheses per sentence. Like alpha, it defaults to the model's saved search."""
    alpha: float | None = None
    """Strength of the length penalty."""
    blocks: int = 512
    """Number of blocks of --buffer-size lines that are read and translated at a time."""


class Worker:
    def __init__(self, model, options):
        self.translator = kt.Translator.from_preset(model, **options)

    def __call__(self, block):
        lines, first_number = block["line"].tolist(), int(block["number"][0])
        (results,) = self.translator.translate_windows([lines], first_number=first_number)
        return {"translation": [best_result(outputs)[0] for outputs in results]}


def main(options):
    try:
        import pyarrow
        import ray
    except ImportError as error:
        raise kt.UserError('Ray is missing: pip install "ray[data]".') from error

    if min(options.workers, options.blocks) < 1:
        raise kt.UserError(
            "`workers` and `blocks` must be positive integers. Received: "
            f"`workers={options.workers}` and `blocks={options.blocks}`"
        )
    read_preset(locate(options.model))  # A wrong model fails here in one line, and not inside Ray.
    windows = line_windows(sys.stdin.buffer, "standard input", options.buffer_size)
    search = given(options, "beam_size", "alpha")
    search["max_source_length"] = options.max_source_length  # None is a value: no limit
    answers, sys.stdout = sys.stdout, sys.stderr  # Ray prints the state of its workers.
    ray.init(log_to_driver=False)
    ray.data.DataContext.get_current().execution_options.preserve_order = True
    # Ray needs inputs that can be read again, unlike a pipe. So they are read here in parts.
    numbers = itertools.count()
    for part in in_windows(windows, options.blocks):
        # If a worker dies, another one repeats its block.
        blocks = ray.data.from_arrow(
            [
                pyarrow.table({"line": lines, "number": [next(numbers) for _ in lines]})
                for lines in part
            ]
        )
        translations = blocks.map_batches(
            Worker,
            batch_size=None,
            compute=ray.data.ActorPoolStrategy(size=options.workers),
            fn_constructor_args=(options.model, search),
            num_gpus=options.gpus,
        )
        for block in translations.iter_batches(batch_size=None):
            answers.writelines(f"{translation}\n" for translation in block["translation"])
        answers.flush()


if __name__ == "__main__":
    run(main, Options)
