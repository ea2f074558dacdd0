"""Trees of the built-in corpus, a tokenizer of them, and a parser small enough for tests."""

import functools

from nltk import Tree

from keras_transformer.data.synthetic import generate
from keras_transformer.data.tag_dictionary import TagDictionary
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.data.trees import symbol_inventory
from keras_transformer.models.transformer import Transformer
from keras_transformer.tasks.constituency_parser import ConstituencyParser
from tests.helpers import randomize

VOCABULARY_SIZE = 300


@functools.cache
def trees():
    return [Tree.fromstring(example.tree) for example in generate("train", 200)]


@functools.cache
def symbols():
    return tuple(symbol_inventory(trees()))


@functools.cache
def tokenizer():
    sentences = [" ".join(tree.leaves()) for tree in trees()]
    return Tokenizer.train(sentences, VOCABULARY_SIZE, user_defined_symbols=symbols())


@functools.cache
def tag_dictionary():
    return TagDictionary.from_trees(trees())


def new_parser(**options):
    model = Transformer(VOCABULARY_SIZE, 1, 16, 32, 2, dropout=0.0)
    sizes = {"extra_length": 24, "batch_tokens": 1024, "beam_size": 3}
    metadata = {"symbols": list(symbols()), "tag_dictionary": tag_dictionary().to_dict()}
    return ConstituencyParser(randomize(model), tokenizer(), metadata, **{**sizes, **options})
