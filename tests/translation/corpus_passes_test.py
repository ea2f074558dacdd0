"""How often a training reads its corpus: twice at first, and not at all when it resumes."""

import json
import os
from collections import Counter

import pytest

from keras_transformer.commands.train import TrainTranslationOptions, train_translation
from keras_transformer.data import languages, parallel_text, text_cache, text_files
from keras_transformer.data.synthetic import generate
from keras_transformer.errors import UserError
from keras_transformer.option_fields import from_keywords
from keras_transformer.training.context import TrainingContext
from keras_transformer.translation import train_translator

pytestmark = [pytest.mark.once, pytest.mark.usefixtures("cheap_trainings")]

NUM_PAIRS, NUM_VALIDATION = 1_200, 6
OPTIONS = {
    **{"dataset": "text", "vocabulary_size": 300, "num_layers": 1, "scale": 0.25},
    **{"batch_tokens": 512, "interval": 1, "average": 1, "max_characters": 40},
}


def write(folder, split, pairs):
    folder.mkdir(exist_ok=True)
    for name, side in zip(("en", "de"), zip(*pairs)):
        (folder / f"{split}.{name}").write_text("".join(f"{x}\n" for x in side), "utf-8")


PAIRS = [(x.english, x.german) for x in generate("train", NUM_PAIRS)]


@pytest.fixture
def corpus(tmp_path):
    """Return a folder of texts. `max_characters` leaves some of their pairs out."""
    for split in ("train", "val", "test"):
        write(tmp_path / "corpus", split, PAIRS[: None if split == "train" else NUM_VALIDATION])
    return tmp_path / "corpus"


class DataIsReady(Exception):
    pass


class Runs:
    """Runs of the command up to the model, or to the end, each as in a new process."""

    def __init__(self, monkeypatch):
        self.monkeypatch, self.lines, decode_lines = monkeypatch, Counter(), text_files.decode_lines

        def counting(file, name, *args):
            for line in decode_lines(file, name, *args):
                self.lines[name.rpartition("/")[2]] += 1
                yield line

        monkeypatch.setattr(text_files, "decode_lines", counting)
        # These pairs are read once more, to see whether the sides are swapped.
        monkeypatch.setattr(languages, "_SAMPLE", 10)

    def __call__(self, corpus, folder, is_whole=False, is_resumed=False, **options):
        """Return the number of complete passes over the training text."""
        self.lines.clear()
        given = {**OPTIONS, "data_dir": corpus, "output_dir": folder, "steps": 1, **options}
        results = {}
        with self.monkeypatch.context() as patch:
            for module in (text_cache, parallel_text):
                patch.setattr(module, "RESULTS", results)
            if is_resumed:
                patch.setattr(TrainingContext, "is_resumed", True)
            if is_whole:
                train_translation(from_keywords(TrainTranslationOptions, given))
            else:
                patch.setattr(train_translator, "make_model", self.stop)
                with pytest.raises(DataIsReady):
                    train_translation(from_keywords(TrainTranslationOptions, given))
        (passes,) = {self.lines[f"train.{x}"] // NUM_PAIRS for x in ("en", "de")}
        return passes

    def stop(self, *_, **__):
        raise DataIsReady


@pytest.fixture
def run(monkeypatch):
    return Runs(monkeypatch)


def test_a_training_reads_its_corpus_twice_and_a_resumed_one_never(corpus, tmp_path, run, caplog):
    caplog.set_level("INFO")
    folder = tmp_path / "run"
    assert run(corpus, folder, is_whole=True) == 2
    tokens = (folder / "tokens" / "train" / "source.tokens").read_bytes()
    first = json.loads((folder / "results.json").read_text("utf-8"))
    (removed,) = (x for x in caplog.messages if "are removed" in x)
    assert run(corpus, folder, is_whole=True, resume=True, steps=2) == 0
    assert run.lines["train.en"] == 0
    again = json.loads((folder / "results.json").read_text("utf-8"))
    assert again["left_out"] == first["left_out"]
    assert f"{first['left_out']['too long']} too long" in removed
    assert tokens == (folder / "tokens" / "train" / "source.tokens").read_bytes()


def test_a_changed_corpus_is_read_again_and_refused_if_its_pairs_differ(corpus, tmp_path, run):
    folder, path = tmp_path / "run", corpus / "train.de"
    run(corpus, folder, is_whole=True)
    text = path.read_bytes()
    times = path.stat().st_atime_ns, path.stat().st_mtime_ns
    path.write_bytes(text)  # an equal copy
    assert run(corpus, folder, resume=True, steps=2) == 1
    sentence = min(text.splitlines(), key=len)  # `max_characters` keeps it
    path.write_bytes(text.replace(sentence, sentence.swapcase()))
    os.utime(path, ns=times)
    assert path.stat().st_size == len(text) and path.stat().st_mtime_ns == times[1]
    with pytest.raises(UserError, match="Cannot resume .*training_text="):
        run(corpus, folder, resume=True, steps=3)


def test_damaged_files_are_made_again(corpus, tmp_path, run):
    folder = tmp_path / "run"
    assert run(corpus, folder) == 2
    # Without a checkpoint the vocabulary is trained again, and the store is found.
    assert run(corpus, folder, overwrite=True) == 1
    (folder / "tokens" / "train" / "source.tokens").write_bytes(b"")
    assert run(corpus, folder, is_resumed=True) == 1
    (folder / "tokens" / "cache.json").write_text("[1]")
    assert run(corpus, folder, is_resumed=True) == 1
    assert run(corpus, folder, is_resumed=True) == 0


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        # The translations of words are learned from the first 50,000 pairs.
        ({"protect": True}, 3),
        ({"source_vocabulary_size": 200}, 3),
        # Two corpora in the same files: a pass counts them first.
        ({"also": ("source=de,target=en,ratio=1",), "tag_target": True}, 6),
    ],
)
def test_other_trainings_do_not_read_again_either(corpus, tmp_path, run, options, expected):
    assert run(corpus, tmp_path / "run", **options) == expected
    assert run(corpus, tmp_path / "run", is_resumed=True, **options) == 0


def test_one_pass_holds_out_all_splits(corpus, tmp_path, run):
    for path in (*corpus.glob("val.*"), *corpus.glob("test.*")):
        path.unlink()
    assert run(corpus, tmp_path / "run") == 3
    assert run(corpus, tmp_path / "run", is_resumed=True) == 0
