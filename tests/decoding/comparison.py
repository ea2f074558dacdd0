"""Models whose outputs are worth a search, and what `beam_search` gives of them held against the
search in plain Python.

Compiling costs most: a program is compiled for each model, set of options and, on JAX, shape. So
tests share models and shapes, and give one model many weights, by NumPy's random numbers.
"""

import functools

import numpy as np

from keras_transformer import Transformer
from keras_transformer.parsing import ParserTransformer
from tests.decoding.reference_search import NumpyTransformer, reference_search
from tests.decoding.search_functions import beam_search
from tests.decoding.sentences import EXTRA_LENGTH, SOURCE
from tests.helpers import assert_close, class_for, randomize, to_numpy

PAD, START, END = 0, 1, 2
VOCABULARY_SIZE = 12
LIMITS = [9, 5, 4, 7, 8, 0]
# Where the reference decides by less, float32 may rightly decide otherwise.
MARGIN = 3e-5
# Of weights whose outputs are of many kinds: see `test_narrow_beam_equals_reference`.
SEEDS = (5, 9, 11, 12, 22)
SEED = SEEDS[0]
# Some outputs begin as they are told, one is as long as it may be, one ends in its prefix.
PREFIX = np.array(
    [
        [3, 4, 0, 0],
        [5, 0, 0, 0],
        [6, 7, 8, 9],  # as long as the output may be
        [9, 9, 2, 0],  # ends it
        [0, 0, 0, 0],
        [0, 0, 0, 0],
    ],
    "int32",
)
# With everything a search can return.
FULL = {
    "beam_size": 4,
    "alpha": 1.0,
    "num_results": 4,
    "coverage_penalty": 0.5,
}
# With everything it can be told.
EVERYTHING = {
    "beam_size": 3,
    "alpha": 0.8,
    "num_results": 3,
    "length_penalty": "power",
    "coverage_penalty": 0.3,
    "min_length": 4,
    "prefix_token_ids": [[5, 3, 0], [7, 0, 0], [0, 0, 0], [7, 3, 7], [0, 0, 0], [0, 0, 0]],
    "banned_token_ids": (3, 7),
}


class CountsTraces:
    """Counts how often the Python code of a search runs, that is, how often it is traced."""

    traces = 0

    def encode(self, encoder_token_ids, training=False):
        self.traces += 1
        return super().encode(encoder_token_ids, training)


class CountingTransformer(CountsTraces, Transformer):
    pass


class CountingParserTransformer(CountsTraces, ParserTransformer):
    pass


@functools.cache
def model_of(**options):
    sizes = {"num_layers": 2, "hidden_dim": 8, "intermediate_dim": 16, "num_heads": 2}
    is_parser = class_for(options) is ParserTransformer
    model_class = CountingParserTransformer if is_parser else CountingTransformer
    return model_class(**{"vocabulary_size": VOCABULARY_SIZE, **sizes, **options})


def new_model():
    """One that has compiled no search yet, and counts its traces from none."""
    return model_of.__wrapped__(num_layers=1)


def reweight(model, seed):
    """Random weights whose outputs are worth a search.

    With plain random weights a model repeats itself up to the limit: the residual path carries a
    token's embedding to where the same embeddings make the logits. So the feed-forward layers are
    made strong, the last norm turns half of the directions round, and its offset likes the end.
    """
    randomize(model, seed)
    for variable in model.weights:
        if "feed_forward" in variable.path and variable.name == "kernel":
            variable.assign(3 * to_numpy(variable))
    embeddings = 1.5 * to_numpy(model.encoder.token_embedding.embeddings)
    model.encoder.token_embedding.embeddings.assign(embeddings)
    norm = last_norm(model)
    norm.gamma.assign(5 * (to_numpy(norm.gamma) - 1))
    norm.beta.assign(to_numpy(norm.beta) + 0.3 * embeddings[END])
    return model


def last_norm(model):
    return model.decoder.layer_norm or model.decoder.layers[-1].feed_forward_norm


def narrow_model(seed, **options):
    return reweight(model_of(**options), seed)


def note_calls(monkeypatch, *places):
    """The names of those of some functions, `(module, name)` each, that are called from now on."""
    called = set()
    for module, name in places:
        function = getattr(module, name)

        def noted(*args, name=name, function=function, **options):
            called.add(name)
            return function(*args, **options)

        monkeypatch.setattr(module, name, noted)
    return called


# Comparison with the reference


def search(model, source=SOURCE, extra_length=EXTRA_LENGTH, **options):
    return [to_numpy(x) for x in beam_search(model, source, extra_length=extra_length, **options)]


def without_padding(row):
    return [int(token) for token in row if token != PAD]


def output_lengths(token_ids):
    return (token_ids != PAD).sum(axis=-1)


def reference(model, source=SOURCE, extra_length=EXTRA_LENGTH, prefix_token_ids=None, **options):
    """A `Search` a row."""
    predict = NumpyTransformer(model)
    prefixes = [()] * len(source) if prefix_token_ids is None else prefix_token_ids
    options["extra_length"] = extra_length
    return [
        reference_search(predict, without_padding(row), prefix=without_padding(prefix), **options)
        for row, prefix in zip(source, prefixes)
    ]


def assert_equals_reference(model, source=SOURCE, extra_length=EXTRA_LENGTH, **options):
    """Compare everything the search returns, and give the `Search` of each row compared."""
    actual = search(model, source, extra_length, **options)
    length = source.shape[1] + extra_length
    compared = []
    for row, expected in enumerate(reference(model, source, extra_length, **options)):
        if expected.margin < MARGIN:
            continue
        num_results = options.get("num_results", 1)
        token_ids = np.zeros((num_results, length), int)
        scores = np.full(num_results, -np.inf)
        for i, hypothesis in enumerate(expected.results):
            token_ids[i, : len(hypothesis.tokens)] = hypothesis.tokens
            scores[i] = hypothesis.score
        assert actual[0][row].tolist() == token_ids.tolist()
        assert_close(actual[1][row], scores, atol=1e-4)
        compared.append(expected)
    assert len(compared) >= 0.6 * len(source)  # close decisions are rare
    return compared
