"""Time a converted Marian model next to the original.

The model has the size of OPUS-MT's models. It runs in transformers, converted by
`kt.convert.marian`, as a SavedModel, and in CTranslate2.
"""

import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from decode import RESERVED, batches_by_length, measure, print_table
from systems import CTranslate2, KerasTransformer, Search, Transformers, pad
from timing import matrix_product_speed

import keras_transformer as kt
from keras_transformer.command_line import run
from keras_transformer.data.corpora import load_parallel_text
from keras_transformer.export.exported_folder import token_pieces
from keras_transformer.export.to_hf_marian import export_marian

# A separate process, because only the tensorflow backend can write a SavedModel.
_EXPORT = """
import sys
import keras_transformer as kt
kt.Translator.from_preset(sys.argv[1]).export(sys.argv[2])
"""


@dataclass
class Options:
    vocabulary_size: int = 58_101
    """Size of the vocabulary, by default the size of opus-mt-en-de."""
    sentences: int = 64
    """Number of sentences, of random tokens."""
    source_length: int = 20
    """Tokens per source."""
    output_length: int = 30
    """Tokens per output."""
    batch_size: int = 64
    """Sentences per batch."""
    beam_size: int = 4
    """Beam size."""
    repeats: int = 3
    """Number of rounds. In each round every system translates all sentences once."""


class Original(Transformers):
    """A folder read by transformers."""

    def __init__(self, path, search, threads):
        import torch
        import transformers

        self.name = f"transformers {transformers.__version__} on torch {torch.__version__}"
        self.search = search
        self.model = transformers.MarianMTModel.from_pretrained(path).eval()
        torch.set_num_threads(threads)


class SavedModel:
    """The `token_ids` signature of a SavedModel, which includes the search."""

    def __init__(self, path):
        import tensorflow as tf
        import tensorflow_text  # noqa: F401  Its operations are part of the graph.

        self.name = f"SavedModel on tensorflow {tf.__version__}"
        self.loaded = tf.saved_model.load(str(path))
        self.search = self.loaded.signatures["token_ids"]

    def prepare(self, sentences):
        import tensorflow as tf

        return tf.constant(pad(sentences))

    def run(self, batch):
        return self.search(token_ids=batch)["token_ids"].numpy()

    def token_ids(self, outputs):
        return [[int(i) for i in row if i] for row in outputs]

    def count_steps(self, batch):
        return self.run(batch).shape[1]


def main(options):
    threads = os.cpu_count()
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        write_marian(folder / "marian", options.vocabulary_size)
        start = time.perf_counter()
        translator = kt.Translator.from_preset(kt.convert.marian(folder / "marian"))
        print(f"converted in {time.perf_counter() - start:.1f} s", flush=True)
        search = Search(
            options.beam_size,
            0.6,
            options.output_length - options.source_length,
            options.output_length,
        )
        translator.search = kt.BeamSearch(
            beam_size=search.beam_size,
            alpha=search.alpha,
            length_penalty="power",
            extra_length=search.extra_length,
            constraints=(kt.constraints.MinLength(search.length),),
        )
        translator.save_to_preset(folder / "preset")
        export_marian(translator.to_preset(), folder / "again")  # in our order of tokens
        subprocess.run(
            [sys.executable, "-c", _EXPORT, folder / "preset", folder / "saved_model"],
            env={**os.environ, "KERAS_BACKEND": "tensorflow"},
            check=True,
        )
        model = translator.model
        size = model.config.vocabulary_size
        pieces = [*RESERVED, *(str(i) for i in range(len(RESERVED), size))]
        systems = [
            KerasTransformer(model, search),
            SavedModel(folder / "saved_model"),
            Original(folder / "again", search, threads),
            CTranslate2(model, pieces, search, threads),
        ]
        shape = options.sentences, options.source_length
        sentences = np.random.default_rng(1).integers(len(RESERVED), size, shape).tolist()
        print(f"{threads} threads, {matrix_product_speed():.0f} GFLOP/s", flush=True)
        results = measure(
            systems, batches_by_length(sentences, options.batch_size), options.repeats
        )
        print_table(f"Marian, {size:,} tokens, beam {options.beam_size}", results)


def write_marian(path, vocabulary_size):
    """Write a Marian folder with the sizes of the paper's base model and random weights."""
    import json

    import torch
    from transformers import MarianConfig, MarianMTModel

    torch.manual_seed(1)
    pad_id = vocabulary_size - 1
    model = MarianMTModel(
        MarianConfig(
            vocab_size=vocabulary_size,
            d_model=512,
            encoder_layers=6,
            decoder_layers=6,
            encoder_ffn_dim=2048,
            decoder_ffn_dim=2048,
            encoder_attention_heads=8,
            decoder_attention_heads=8,
            activation_function="swish",
            scale_embedding=True,
            max_position_embeddings=512,
            pad_token_id=pad_id,
            eos_token_id=0,
            decoder_start_token_id=pad_id,
            forced_eos_token_id=None,
        )
    )
    for weight in model.parameters():
        if weight.ndim == 1:
            torch.nn.init.normal_(weight, 1.0 if weight.mean() > 0.5 else 0.0, 0.02)
    model.save_pretrained(path)
    text = load_parallel_text("synthetic", "val", "en", "de")
    names = {"</s>": None, "<unk>": None}
    for side, name in enumerate(("source", "target")):
        tokenizer = kt.data.Tokenizer.train([pair[side] for pair in text], 500)
        (path / f"{name}.spm").write_bytes(tokenizer.proto)
        names.update(dict.fromkeys(token_pieces(tokenizer)))
    names = [name for name in names if name not in ("<pad>", "<s>")]
    names += [f"more{i}" for i in range(vocabulary_size - 1 - len(names))] + ["<pad>"]
    ids = {name: i for i, name in enumerate(names)}
    (path / "vocab.json").write_text(json.dumps(ids), "utf-8")
    (path / "tokenizer_config.json").write_text(json.dumps({"separate_vocabs": False}), "utf-8")


if __name__ == "__main__":
    run(main, Options)
