"""Made-up sentence pairs, a tokenizer of them, and a model small enough for tests."""

import functools

import keras
import numpy as np

from keras_transformer.data.token_store import TokenStore
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.layers.dropout import Dropout
from tests.helpers import class_for, randomize

WORDS = (
    "the a dog cat man house tree runs sees takes old small red and with über groß 東京 é".split()
)


def sentence_pairs(count, longest=12, seed=0):
    generator = np.random.default_rng(seed)
    return [
        tuple(
            " ".join(generator.choice(WORDS, generator.integers(1, longest, endpoint=True)))
            for _ in range(2)
        )
        for _ in range(count)
    ]


@functools.cache
def tokenizer():
    return Tokenizer.train([sentence for pair in sentence_pairs(200) for sentence in pair], 60)


def new_model(**options):
    sizes = {"num_layers": 1, "hidden_dim": 16, "intermediate_dim": 32, "num_heads": 2}
    vocabulary = {"vocabulary_size": tokenizer().vocabulary_size}
    return randomize(class_for(options)(**{**vocabulary, **sizes, **options}))


def quick_model(dropout=0.0):
    """Takes and gives what a `Transformer` does; quick to compile, and to run without."""
    size = tokenizer().vocabulary_size
    names = "encoder_token_ids", "decoder_token_ids"
    source, target = (keras.Input((None,), dtype="int32", name=name) for name in names)
    context = keras.layers.Embedding(size, 4, name="source_embedding")(source)
    context = keras.layers.GlobalAveragePooling1D(keepdims=True)(context)
    words = keras.layers.Embedding(size, 4, name="target_embedding")(target)
    mixed = Dropout(dropout)(words + context)
    logits = keras.layers.Dense(size, name="logits")(mixed)
    return randomize(keras.Model(dict(zip(names, (source, target))), logits))


class Numbers:
    """A stand-in for a tokenizer, whose text is the ids themselves: "5 7 4"."""

    def __init__(self, vocabulary_size=5000):
        self.vocabulary_size = vocabulary_size

    def fingerprint(self):
        return f"{self.vocabulary_size} numbers"

    def encode(self, sentences):
        return [[int(number) for number in sentence.split()] for sentence in sentences]


def store_of(path, lengths):
    """Pair number i is the token 4 + i again and again: a batch then shows which pairs it holds."""
    pairs = [
        tuple(" ".join([str(4 + i)] * length) for length in pair) for i, pair in enumerate(lengths)
    ]
    return TokenStore.build(path, pairs, Numbers())
