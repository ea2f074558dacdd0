"""Trees of the built-in corpus, a tokenizer of them, and a parser small enough for tests."""

import functools

from nltk import Tree

from keras_transformer.data.synthetic import generate
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.parsing.constituency_parser import ConstituencyParser
from keras_transformer.parsing.linearization import LABELLED_BRACKETS
from keras_transformer.parsing.parser_options import TreeOptions
from keras_transformer.parsing.parser_tokens import TreeSymbols
from keras_transformer.parsing.parser_transformer import ParserTransformer
from keras_transformer.parsing.train_parser import parser_hyperparameters
from keras_transformer.parsing.word_tags import TagDictionary
from tests.helpers import randomize

VOCABULARY_SIZE = 300
# An untrained parser writes up to the length limit.
EXTRA_LENGTH = 12


@functools.cache
def trees():
    return [Tree.fromstring(example.tree) for example in generate("train", 200)]


def short_sentences(count):
    """Return the words of the shortest trees."""
    return sorted((tree.leaves() for tree in trees()), key=len)[:count]


def symbols_of(linearization):
    """Return all symbols of the trees, sorted."""
    return tuple(sorted({s for tree in trees() for s in linearization.linearize(tree)[1]}))


@functools.cache
def symbols():
    return symbols_of(LABELLED_BRACKETS)


@functools.cache
def tokenizer():
    return tokenizer_of(symbols())


def tokenizer_of(symbols):
    sentences = [" ".join(tree.leaves()) for tree in trees()]
    return Tokenizer.train(sentences, VOCABULARY_SIZE, user_defined_symbols=symbols)


@functools.cache
def tag_dictionary():
    return TagDictionary.from_trees(trees())


def new_parser(**options):
    metadata = {"symbols": list(symbols()), "tag_dictionary": tag_dictionary().to_dict()}
    return _new_parser(tokenizer(), metadata, **options)


def new_parser_of(linearization, **options):
    """Return a parser with another linearization and without a tag dictionary."""
    symbols = list(symbols_of(linearization))
    metadata = {"symbols": symbols, "linearization": linearization.serialize()}
    return _new_parser(tokenizer_of(tuple(symbols)), metadata, **options)


def new_tagging_parser(**options):
    """Return a parser with a tagger next to the decoder."""
    return new_parser(counts_words=TreeOptions(tag_loss_weight=1.0), **options)


def _new_parser(tokenizer, metadata, counts_words=False, **options):
    # Without deterministic attention, symbols and words share one vocabulary.
    target_size, sizes_of_parser = VOCABULARY_SIZE, {}
    if counts_words:
        symbols = TreeSymbols(metadata["symbols"], tokenizer)
        target_size = symbols.vocabulary_size
        tree_options = TreeOptions() if counts_words is True else counts_words
        sizes_of_parser = parser_hyperparameters(tokenizer, symbols, tree_options)
    model = ParserTransformer(target_size, 1, 16, 32, 2, dropout=0.0, **sizes_of_parser)
    sizes = {"extra_length": EXTRA_LENGTH, "batch_tokens": 1024}
    beam = {} if "search" in options else {"beam_size": 3}
    return ConstituencyParser(randomize(model), tokenizer, metadata, **{**sizes, **beam, **options})
