"""Wrong options, sources, prefixes and constraints of searches are refused in words."""

import keras
import numpy as np
import pytest
from keras import ops

import keras_transformer as kt
from keras_transformer.decoding.beam_trace import replay
from keras_transformer.decoding.constraints import (
    BannedTokens,
    ForcedPrefix,
    MaxLength,
    MinLength,
    NoRepeatedNgrams,
    RepetitionPenalty,
)
from keras_transformer.decoding.resolve_search import resolve_search
from keras_transformer.decoding.static_fields import deserialize, serialize
from tests.decoding.comparison import PREFIX, START, model_of
from tests.decoding.search_functions import beam_search, greedy_search, sample
from tests.decoding.sentences import EXTRA_LENGTH, SOURCE

FLOATS = np.array([[5.0, 2.0]], "float32")
ONE_SENTENCE = "must be one sentence"


def beam(**options):
    return lambda: beam_search(model_of(), SOURCE, extra_length=EXTRA_LENGTH, **options)


def constrained(*constraints, source=SOURCE):
    return lambda: kt.BeamSearch(extra_length=EXTRA_LENGTH)(
        model_of(), source, constraints=constraints
    )


def with_source(source):
    return lambda: greedy_search(model_of(), source)


def with_id(token_id):
    source = SOURCE.copy()
    source[3, 1] = token_id
    return with_source(source)


def with_prefix(row, tokens):
    prefix = PREFIX.tolist()
    prefix[row] = tokens
    return beam(prefix_token_ids=prefix)


def learned_positions():
    return model_of(num_layers=1, position_encoding="learned", max_length=10)


# A call -> the words that its error must contain, in their order.
CASES = {
    # Options of a search
    **{
        f"{name}={value!r}": (
            beam(**{name: value}) if name != "extra_length" else
            lambda value=value: greedy_search(model_of(), SOURCE, value),
            f"`{name}`.*Received: .*{name}=.*{str(value).strip('(),')}",
        )
        for name, values in {
            "beam_size": (0, -1, 2.5, True, None, "4"),
            "num_results": (0, -1, 5, 1.5, None),
            "alpha": (-0.1, None, "0.6", 10.1, 50, np.inf, np.nan),
            "length_penalty": ("google", None, 1),
            "coverage_penalty": (-0.5, None),
            "min_length": (-1, 1.5, None),
            "extra_length": (0, -1, 2.5, None, "5"),
            "banned_token_ids": ((12,), (-1,), (5, 99), (5.5,), None),
        }.items()
        for value in values
    },
    **{
        f"sampling {name}={value!r}": (
            lambda name=name, value=value: sample(model_of(), SOURCE, **{name: value}),
            f"{name}.*Received: .*{name}={value!r}",
        )
        for name, value in [
            *[("num_results", 0), ("temperature", 0), ("temperature", "hot"), ("seed", 0.5)],
            *[("temperature", np.inf), ("top_k", 0), ("top_p", 0), ("top_p", 1.1)],
        ]
    },
    "no constraint": (lambda: kt.BeamSearch(constraints=("x",)), "`constraints`.*'x'"),
    "no constraint of a call": (constrained("no unknown"), "`constraints` must be"),
    "no class": (lambda: deserialize({"class_name": "mine>No", "config": {}}), "'mine>No'"),
    "no JSON of a search": (lambda: deserialize(["x"]), "class_name"),
    "unknown option of a preset": (
        lambda: deserialize({**serialize(kt.BeamSearch()), "config": {"beam": 4}}),
        "no option `beam`.*`beam_size`",
    ),
    "unknown search": (lambda: resolve_search("bean", kt.BeamSearch()), "search='bean'"),
    "a class": (lambda: resolve_search(kt.Sampling, kt.BeamSearch()), "one of the names"),
    "misspelled option": (
        lambda: resolve_search(None, kt.BeamSearch(), beam_sise=8), "Did you mean `beam_size`",
    ),
    "option of the other search": (
        lambda: resolve_search("random", kt.BeamSearch(), beam_size=8), "Sampling has no option",
    ),
    # Sources
    **{
        f"source of shape {shape}": (
            with_source(np.ones(shape, "int32")),
            rf"\(batch, source\), with one column.*Received: shape=\({shape[0] if shape else ''}",
        )
        for shape in [(6,), (1, 2, 6), (), (1, 0), (0, 0)]
    },
    **{f"id {i}": (with_id(i), f"from 0 to 11.*the id {i}") for i in (12, -1, 2**31 - 1)},
    **{
        f"{kind} of padding before a token in {row}": (
            lambda row=row, search=search: search(model_of(), [[5, 6, 7, 2], row]),
            rf"`encoder_token_ids` must be padded with 0 at the end.*row 1=\[{row[0]}, ",
        )
        for row in ([0, 5, 6, 2], [0, 0, 0, 2], [5, 0, 6, 2])
        for kind, search in {
            "beam": kt.BeamSearch(),
            "sampling": kt.Sampling(),
            "trace": lambda *args: replay(kt.BeamSearch(), *args),
        }.items()
    },
    "too few learned positions": (
        lambda: greedy_search(learned_positions(), SOURCE, extra_length=5), "max_length=10",
    ),
    **{
        f"sentence numbers {numbers}": (
            lambda numbers=numbers: kt.Sampling()(model_of(), SOURCE, sentence_numbers=numbers),
            "`sentence_numbers` must have the shape",
        )
        for numbers in ([0], [[i] for i in range(6)], 3)
    },
    # Traces
    "trace of samples": (lambda: replay(kt.Sampling(), model_of(), SOURCE[:1]), "has no beam"),
    "trace of two": (lambda: replay(kt.BeamSearch(), model_of(), SOURCE[:2]), ONE_SENTENCE),
    "trace of padding": (lambda: replay(kt.BeamSearch(), model_of(), SOURCE[5:]), ONE_SENTENCE),
    # Prefixes
    "prefix above the vocabulary": (with_prefix(0, [12, 0, 0, 0]), "`prefix_tok.*the id 12"),
    "prefix below the vocabulary": (with_prefix(0, [-1, 0, 0, 0]), "`prefix_tok.*the id -1"),
    "prefix with a start token": (with_prefix(0, [START, 4, 0, 0]), "`prefix_tok.*start token"),
    "prefix with padding inside": (with_prefix(0, [3, 0, 4, 0]), "`prefix_tok.*row 0=.3, 0, 4"),
    "prefix with padding first": (with_prefix(4, [0, 4, 0, 0]), "`prefix_tok.*row 4=.0, 4"),
    "prefix longer than a limit": (
        beam(prefix_token_ids=[[4] * 5] * 6), "`prefix_tok.*row 2 of 5 tokens",
    ),
    **{
        f"prefix of shape {np.shape(prefix)}": (
            beam(prefix_token_ids=prefix), "`prefix_tok.*shape .batch, prefix.*Received: shape=",
        )
        for prefix in (PREFIX[:5], PREFIX[0], PREFIX[None], [], np.zeros((5, 0)))
    },
    "ragged prefix": (lambda: ForcedPrefix([[4, 5], [4]]), "`prefix_token_ids` must be an array"),
    "prefix of floats": (lambda: ForcedPrefix([[4.5]]), "`prefix_token_ids` must be an array"),
    # Other constraints
    "min_length": (lambda: MinLength(1.5), "`min_length`.*min_length=1.5"),
    "max_length": (lambda: MaxLength(0), "`max_length`.*max_length=0"),
    "ban of the end": (lambda: BannedTokens((2,)), "`banned_token_ids`"),
    "ban of all": (lambda: BannedTokens(tuple(range(12))), "`banned_token_ids`"),
    "n of n-grams": (lambda: NoRepeatedNgrams(0), "`size`.*size=0"),
    "penalty": (lambda: RepetitionPenalty(0.9), "`penalty`.*penalty=0.9"),
    "penalty as text": (lambda: RepetitionPenalty("2"), "`penalty`"),
    "penalty of scores": (lambda: RepetitionPenalty(2, "scores"), "`applies_to`.*'scores'"),
    "min_length above a limit": (
        constrained(MinLength(6), source=[[4, 5, 2], [4, 2, 0]]),
        "`min_length` must be at most 5, .* row 1. Received: min_length=6.*`extra_length`",
    ),
    "min_length above max_length": (
        constrained(MinLength(3), MaxLength(2), source=SOURCE[:1]),
        "`min_length` must be at most 2.*min_length=3",
    ),
}  # fmt: skip


@pytest.mark.once
@pytest.mark.parametrize("name", CASES)
def test_wrong_arguments_of_searches_are_refused(name):
    call, words = CASES[name]
    with pytest.raises(kt.UserError, match=words):
        call()


@pytest.mark.each_backend
def test_sources_that_are_not_integers_are_refused():
    wrong = [
        *([[5, 6, 2], [5, 2]], FLOATS, FLOATS.tolist(), ops.convert_to_tensor(FLOATS)),
        *([["the", "dog"]], [[True, False]], [[2**32 + 5, 2]], None),
    ]
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        wrong.append(tf.ragged.constant([[5, 6, 2], [5, 2]]))
    for source in wrong:
        with pytest.raises(kt.UserError, match="`encoder_token_ids` must be an array of 32-bit"):
            kt.BeamSearch()(None, source)  # before any model is needed
