"""Count the passes of a training over its corpus, with the time and memory until its model."""

import resource
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from keras_transformer.command_line import run
from keras_transformer.commands.train import TrainTranslationOptions, train_translation
from keras_transformer.data import text_files
from keras_transformer.option_fields import from_keywords
from keras_transformer.translation import train_translator

WORDS = 3_000
TRAINING = {
    **{"dataset": "text", "vocabulary_size": 2000, "vocabulary_sentences": 50_000},
    **{"num_layers": 1, "scale": 0.25, "batch_tokens": 4096, "interval": 1, "average": 1},
}


@dataclass
class Options:
    folder: Path = Path(tempfile.gettempdir()) / "corpus_passes"
    """Folder of the corpus, which is made if there is none, and of the training."""
    pairs: int = 2_000_000
    """Number of sentence pairs. One in 1,000 is left out: it is blank or too long."""
    resume: bool = False
    """Resume the training that an earlier call began, for one more update."""


def main(options):
    if not (options.folder / "test.de").exists():
        write_corpus(options.folder, options.pairs)
    lines, decode_lines = Counter(), text_files.decode_lines

    def counting(file, name, *args):
        for line in decode_lines(file, name, *args):
            lines[Path(name).name] += 1
            yield line

    start, make_model = time.process_time(), train_translator.make_model

    def report(*args, **kwargs):
        print(
            f"until the model: {lines['train.en'] / options.pairs:.2f} passes, "
            f"{time.process_time() - start:.1f} s of CPU time, {peak_memory()} MiB at most, "
            f"{before} of them before"
        )
        return make_model(*args, **kwargs)

    text_files.decode_lines, train_translator.make_model = counting, report
    given = {**TRAINING, "data_dir": options.folder, "output_dir": options.folder / "run"}
    given |= {"steps": 1 + options.resume, "resume": options.resume}
    before = peak_memory()
    train_translation(from_keywords(TrainTranslationOptions, given))


def write_corpus(folder, pairs):
    """Write texts of random words, with frequencies by Zipf's law."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    languages = [
        ["".join(rng.choice([*"aeioubdfgklmnprst"], size)) for size in rng.integers(2, 9, WORDS)]
        for _ in range(2)
    ]
    for split, size in (("train", pairs), ("val", 6), ("test", 6)):
        with (
            open(folder / f"{split}.en", "w") as source,
            open(folder / f"{split}.de", "w") as target,
        ):
            for number in range(size):
                if number % 1000 == 7 and split == "train":
                    length = 0 if number % 2000 == 7 else 1500
                else:
                    length = rng.integers(2, 16)
                ids = np.minimum(rng.zipf(1.3, length) - 1, WORDS - 1)
                for file, words in zip((source, target), languages):
                    file.write(" ".join(words[i] for i in ids) + "\n")


def peak_memory():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


if __name__ == "__main__":
    run(main, Options)
