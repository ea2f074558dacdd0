"""Searches converted from a folder's options, compared with `generate` of transformers."""

import dataclasses
import json
import logging

import numpy as np
import pytest
from keras import ops

import keras_transformer as kt
from keras_transformer import constraints
from keras_transformer.convert.generation import generation_search
from keras_transformer.convert.hf_checkpoint import open_checkpoint

pytest.importorskip("torch")
pytest.importorskip("transformers")

from tests.convert.from_hf_marian_test import NEW_TOKENS, Both, check_same
from tests.convert.hf_marian_folder import random_config

CONFIG = {**random_config(1), "has_start": False, "has_bias": True}
PAD = CONFIG["vocab_size"] - 1
BEAMS = {"num_beams": 3, "length_penalty": 0.5, "early_stopping": "never"}
_BANNED = {"bad_words_ids": [[PAD], [15], [9], [0]], "suppress_tokens": [11, 37]}
_END = {"max_length": 5, "forced_eos_token_id": 0}
CASES = {
    "greedy, since there is no num_beams": {"max_length": 5},
    "greedy, penalized": {"repetition_penalty": 1.7, "min_new_tokens": 7, "max_new_tokens": 8},
    "beams": {
        **{**BEAMS, **_BANNED, "min_length": 6, "no_repeat_ngram_size": 2},
        **{"forced_bos_token_id": 8},
    },
    "beams, penalized": {**BEAMS, **_END, "repetition_penalty": 1.7},
    "a softmax without padding": {**BEAMS, "renormalize_logits": True, "bad_words_ids": [[PAD]]},
}
# Each option alone, since one may hide another's effect.
ALONE = {
    "greedy": {},
    "banned": {**BEAMS, **_BANNED},
    "no_repeat_ngram_size": {**BEAMS, "no_repeat_ngram_size": 2},
    "repetition_penalty": {**BEAMS, "repetition_penalty": 1.7},
    "max_length": {**BEAMS, **_END},
    "max_new_tokens": {"max_new_tokens": 8},
    "forced_bos_token_id": {**BEAMS, "forced_bos_token_id": 8},
}


@pytest.mark.once
@pytest.mark.parametrize(
    "name", [*CASES, *(pytest.param(name, marks=pytest.mark.slow) for name in ALONE)]
)
def test_outputs_equal_generate(name, tmp_path, caplog):
    torch = pytest.importorskip("torch")

    options = {**CASES, **ALONE}[name]
    both = Both(tmp_path, 1, generation=options, **CONFIG)
    assert not caplog.records
    sources, _ = both.sources()
    has_limit = "max_length" in options or "max_new_tokens" in options
    result = both.theirs.generate(
        torch.tensor(sources),
        **({} if has_limit else {"max_new_tokens": NEW_TOKENS}),
        return_dict_in_generate=True,
        output_scores=True,
    )
    ours, length = both.ours, NEW_TOKENS + 1 - sources.shape[1]
    ours.search = dataclasses.replace(ours.search, extra_length=length)
    token_ids, scores = found(both, sources)
    their_scores = result.sequences_scores if "num_beams" in options else torch.tensor(scores)
    if has_limit and "forced_eos_token_id" not in options:  # there, an output is cut
        is_cut = (result.sequences[:, -1] != 0).numpy()
        assert is_cut.any()
        token_ids[is_cut, result.sequences.shape[1] - 1] = 0
    check_same(both, result.sequences[:, 1:], their_scores, token_ids, scores)
    if ours.search.constraints:  # without them it is another output
        ours.search = dataclasses.replace(ours.search, constraints=())
        assert not np.array_equal(found(both, sources)[0], token_ids)


def found(both, sources):
    """Return the best outputs of our search, and their scores."""
    results = both.ours.search_batch(both.source[sources], 1)
    return [np.array(ops.convert_to_numpy(x)[:, 0]) for x in results]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("marian")
    Both(path, 1, **CONFIG)
    return path


def search(folder, config=None, **options):
    """Return the search for options in their own file or in the configuration."""
    own = folder / "generation_config.json"
    own.unlink(missing_ok=True)
    opened = open_checkpoint(folder)
    opened.config |= config or {}
    if config is None:
        own.write_text(json.dumps(options))
    return generation_search(opened, np.arange(50))


@pytest.mark.once
def test_old_folders_have_the_options_in_their_configuration(folder):
    assert search(folder, {"num_beams": 6, "max_length": 512, "max_position_embeddings": 512}) == (
        kt.BeamSearch(6, 1.0, "power")
    )
    # Where there is a file of options, `generate` does not look for them elsewhere.
    (folder / "generation_config.json").write_text("{}")
    opened = open_checkpoint(folder)
    opened.config["num_beams"] = 6
    assert generation_search(opened, np.arange(50)) == kt.BeamSearch(1, 0.0)


@pytest.mark.once
def test_do_sample_becomes_a_sampling(folder):
    assert search(folder, do_sample=True) == kt.Sampling(top_k=50)
    assert search(folder, do_sample=True, top_k=0, top_p=0.9, temperature=0.7, num_beams=1) == (
        kt.Sampling(temperature=0.7, top_p=0.9)
    )
    penalized = search(folder, do_sample=True, repetition_penalty=1.1)
    assert penalized.constraints == (constraints.RepetitionPenalty(1.1, "logits"),)


SILENT = {
    "today": {
        **{"bad_words_ids": [[PAD]], "max_length": 512, "num_beams": 4},
        **{"renormalize_logits": True, "forced_eos_token_id": 0, "transformers_version": "4.32.0"},
    },
    "values without effect": {
        **{"num_beams": 2, "early_stopping": False, "num_beam_groups": 1, "diversity_penalty": 0.0},
        **{"encoder_repetition_penalty": 1.0, "guidance_scale": None, "top_p": 0.5, "min_p": 0.1},
        **{"repetition_penalty": 1.0, "no_repeat_ngram_size": 0, "sequence_bias": None},
    },
}


@pytest.mark.once
@pytest.mark.parametrize("name", SILENT)
def test_options_without_effect_are_silent(name, folder, caplog):
    search(folder, {**SILENT[name], "max_position_embeddings": 512})
    search(folder, **SILENT[name])
    assert not caplog.records


@pytest.mark.once
def test_one_warning_names_all_other_options(folder, caplog):
    with caplog.at_level(logging.WARNING):
        search(
            folder,
            **{"num_beams": 4, "early_stopping": True, "do_sample": True, "num_beam_groups": 2},
            **{"bad_words_ids": [[3, 4], [5]], "suppress_tokens": [0], "max_time": 3.0},
            **{"repetition_penalty": 0.5, "renormalize_logits": True, "guidance_scale": 2},
            **{"eos_token_id": 0},
        )
    (record,) = caplog.records
    for text in (
        *("early_stopping=True", "do_sample=True", "num_beam_groups=2", "max_time=3.0"),
        *("bad_words_ids of several", "suppress_tokens of the end", "repetition_penalty=0.5"),
        *("renormalize_logits=True", "guidance_scale=2"),
    ):
        assert text in record.getMessage()
    for options, text in (
        ({"do_sample": True, "min_p": 0.1}, "min_p=0.1"),
        ({"penalty_alpha": 0.6, "top_k": 4}, "penalty_alpha=0.6"),
        ({"repetition_penalty": 2.0, "eos_token_id": 2, "decoder_start_token_id": 2}, "is the end"),
    ):
        caplog.clear()
        search(folder, **options)
        assert text in caplog.text


@pytest.mark.once
@pytest.mark.parametrize(
    "options, message",
    [
        ({"no_repeat_ngram_size": "2"}, "no_repeat_ngram_size must be a non-negative integer"),
        ({"min_length": -1}, "min_length must be a non-negative integer. Received: -1"),
        ({"repetition_penalty": "x"}, "repetition_penalty must be a number, 0 or larger"),
        ({"bad_words_ids": [7]}, "bad_words_ids must be lists of ids"),
        ({"suppress_tokens": ["a"]}, r"suppress_tokens must be lists of ids. Received: \['a'\]"),
        ({"do_sample": True, "temperature": 0}, "temperature"),
    ],
)
def test_invalid_values_are_refused(options, message, folder):
    with pytest.raises(kt.UserError, match=message):
        search(folder, **options)
