"""Translate lines from standard input to standard output on many machines, with Ray Data."""

import sys
from dataclasses import dataclass

import keras_transformer as kt
from keras_transformer.command_line import StreamOptions, given, run
from keras_transformer.data.windows import line_windows
from keras_transformer.tasks.preset import read_preset
from keras_transformer.tasks.preset_location import locate


@dataclass(kw_only=True)
class Options(StreamOptions):
    model: str
    """Model folder, such as runs/x/model, which all machines have."""
    workers: int = 2
    """Workers, each with a model, in the cluster RAY_ADDRESS or on this machine."""
    gpus: float = 0
    """GPUs of a worker."""
    beam_size: int | None = None
    """Live hypotheses of a sentence. Defaults, as alpha, to what the model was saved with."""
    alpha: float | None = None
    """Strength of the length penalty."""


class Worker:
    def __init__(self, model, options):
        self.translator = kt.Translator.from_preset(model, **options)

    def __call__(self, block):
        return {"translation": self.translator(block["line"].tolist())}


def main(options):
    try:
        import pyarrow
        import ray
    except ImportError as error:
        raise kt.UserError('Ray is missing: pip install "keras-transformer[ray]".') from error

    read_preset(locate(options.model))  # What is none is said in one line, and not by Ray.
    windows = line_windows(sys.stdin.buffer, "standard input", options.buffer_size)
    blocks = [pyarrow.table({"line": lines}) for lines in windows]
    search = given(options, "beam_size", "alpha", "max_source_length")
    answers, sys.stdout = sys.stdout, sys.stderr  # Ray prints what becomes of its workers.
    ray.init(log_to_driver=False)
    ray.data.DataContext.get_current().execution_options.preserve_order = True
    # What a worker that dies has begun, another does again: a block.
    translations = ray.data.from_arrow(blocks).map_batches(
        Worker,
        batch_size=None,
        compute=ray.data.ActorPoolStrategy(size=options.workers),
        fn_constructor_args=(options.model, search),
        num_gpus=options.gpus,
    )
    for block in translations.iter_batches(batch_size=None):
        answers.writelines(f"{translation}\n" for translation in block["translation"])


if __name__ == "__main__":
    run(main, Options)
