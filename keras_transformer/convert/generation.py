"""Converter of HuggingFace's options of `generate` to a search."""

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_transformer.convert.embedding_tables import VocabPermutation
from keras_transformer.convert.hf_checkpoint import HFCheckpoint
from keras_transformer.convert.weight_mapping import is_finite
from keras_transformer.decoding.beam_search import BeamSearch
from keras_transformer.decoding.constraints import (
    BannedTokens,
    MaxLength,
    MinLength,
    NoRepeatedNgrams,
    RepetitionPenalty,
)
from keras_transformer.decoding.sampling import Sampling
from keras_transformer.errors import UserError, brief
from keras_transformer.reserved_ids import UNKNOWN_ID

logger = logging.getLogger(__name__)

_OWN_FILE = "generation_config.json"
# The default of `top_k` in `generate`.
_TOP_K = 50
# Unsupported options, and the values that have no effect. (An unset option has no effect.)
_WITHOUT_COUNTERPART = {
    "begin_suppress_tokens": ([],),
    "constraints": ([],),
    "dola_layers": (),
    "encoder_no_repeat_ngram_size": (0,),
    "encoder_repetition_penalty": (1,),
    "exponential_decay_length_penalty": (),
    "force_words_ids": ([],),
    "guidance_scale": (1,),
    "max_time": (),
    "sequence_bias": ({}, []),
    "stop_strings": ([],),
    "watermarking_config": (),
}
_OF_BEAMS = {"early_stopping": (False, "never"), "num_beam_groups": (1,), "do_sample": (False,)}
_OF_SAMPLING = {
    "epsilon_cutoff": (0,),
    "eta_cutoff": (0,),
    "min_p": (0,),
    "top_h": (),
    "typical_p": (1,),
}
_OF_GREEDY_SEARCH = {"penalty_alpha": (0,)}


def generation_option(folder: HFCheckpoint, name: str, default: Any = None) -> Any:
    """Return an option of `generate`: its own file has it, or else the model's configuration.

    Args:
        folder: an `HFCheckpoint`.
        name: name of the option.
        default: the value if neither file has the option.
    """
    own = folder.json(_OWN_FILE) if folder.has(_OWN_FILE) else {}
    value = own.get(name)
    value = folder.config.get(name) if value is None else value
    value = default if value is None else value
    # Several end tokens are a list.
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def renormalizes_without_padding(folder: HFCheckpoint) -> bool:
    """Return whether `generate` takes its softmax over all tokens except padding."""
    options = _Options(folder)
    padding = generation_option(folder, "pad_token_id")
    return options.value("renormalize_logits") is True and [padding] in options.bad_words()


def forced_prefix(
    folder: HFCheckpoint, order: VocabPermutation, pieces: Sequence[str]
) -> tuple[str, ...]:
    """Return the tokens that outputs begin with: a tuple of the `forced_bos_token_id`, or empty.

    Args:
        folder: an `HFCheckpoint`.
        order: `VocabPermutation` of the target's tokens.
        pieces: list of strings, the target's vocabulary in our order.

    Raises:
        UserError: if it is not the id of a token.
    """
    forced = generation_option(folder, "forced_bos_token_id")
    if forced is None:
        return ()
    places = np.flatnonzero(order.rows == forced)
    if not len(places):
        raise UserError(
            f"{folder.path}: forced_bos_token_id must be the id of a token. "
            f"Received: {brief(forced)}"
        )
    return (pieces[int(places[0])],)


def generation_search(folder: HFCheckpoint, rows: np.ndarray) -> BeamSearch | Sampling:
    """Return the search of a folder's options: a `BeamSearch` or a `Sampling`.

    As in `generate`, options come from `generation_config.json`, or from `config.json` if that
    file is missing. A missing option has its default in `generate`: `num_beams` is 1.
    Options that become constraints: `min_length`, `min_new_tokens`, `max_length` and
    `max_new_tokens` below the number of positions, `no_repeat_ngram_size`, `repetition_penalty`,
    `bad_words_ids` of one token each and `suppress_tokens`. One warning names all other options
    that would change an output.

    Args:
        folder: an `HFCheckpoint`.
        rows: int array: the foreign id of each of our tokens of the target.

    Raises:
        UserError: if an option has a value that `generate` does not accept either.
    """
    options = _Options(folder)
    num_beams = options.number("num_beams", 1, int)
    is_beam = num_beams != 1
    is_sampled = not is_beam and options.value("do_sample") is True
    constraints = _constraints(options, rows, is_beam)
    if is_beam:
        options.warn_about(_OF_BEAMS)
        alpha = float(options.number("length_penalty", 1.0))
        search = BeamSearch(num_beams, alpha=alpha, length_penalty="power", constraints=constraints)
    elif is_sampled:
        options.warn_about(_OF_SAMPLING)
        top_k, top_p = options.number("top_k", _TOP_K, int), options.number("top_p", 1.0)
        search = Sampling(
            temperature=float(options.number("temperature", 1.0)),
            top_k=top_k or None,
            top_p=top_p if top_p < 1 else None,
            constraints=constraints,
        )
    else:
        if options.number("top_k", _TOP_K, int) > 1:
            options.warn_about(_OF_GREEDY_SEARCH)
        search = BeamSearch.greedy(constraints=constraints)
    options.warn_about(_WITHOUT_COUNTERPART)
    options.log_warnings()
    return search


def _constraints(options, rows, is_beam):
    constraints = []
    penalty = options.number("repetition_penalty", 1.0)
    if penalty > 1:
        # `generate` searches beams by log-probabilities, and otherwise by logits.
        applies_to = "log_probs" if is_beam else "logits"
        constraints.append(RepetitionPenalty(penalty, applies_to))
        if options.token_id("decoder_start_token_id") == options.token_id("eos_token_id"):
            options.warn("repetition_penalty of the start token, which is the end token")
    elif penalty != 1:
        options.warn(f"repetition_penalty={penalty}")
    if size := options.number("no_repeat_ngram_size", 0, int):
        constraints.append(NoRepeatedNgrams(size))
    if banned := _banned_tokens(options, rows):
        constraints.append(BannedTokens(banned))
    if shortest := _shortest(options):
        constraints.append(MinLength(shortest))
    if is_beam and constraints and options.value("renormalize_logits") is True:
        options.warn("renormalize_logits=True")
    if longest := _longest(options):
        constraints.append(MaxLength(longest))
    return tuple(constraints)


def _shortest(options):
    """Return the fewest tokens, including the end token. `generate` also counts the start token."""
    more = options.number("min_new_tokens", 0, int)
    return more + 1 if more else options.number("min_length", 0, int)


def _longest(options):
    """Return the most tokens, including the end token; None for no limit."""
    more = options.number("max_new_tokens", 0, int)
    limit = more + 1 if more else options.number("max_length", 0, int)
    # A limit at the number of positions belongs to the model and not to the search.
    if not limit or limit >= options.folder.number("max_position_embeddings", limit + 1):
        return None
    # Without a forced end token, `generate` cuts an output at the limit.
    return limit - (options.value("forced_eos_token_id") is not None)


def _banned_tokens(options, rows):
    """Return our ids of the banned tokens."""
    (suppressed,) = options.lists("suppress_tokens", [options.value("suppress_tokens") or []])
    end = options.token_id("eos_token_id")
    if end in suppressed:
        options.warn("suppress_tokens of the end token")
    words = [word for word in options.bad_words() if word != [end]]
    if any(len(word) > 1 for word in words):
        options.warn("bad_words_ids of several tokens")
    banned = {*suppressed, *(word[0] for word in words if len(word) == 1)} - {end}
    token_ids = np.flatnonzero(np.isin(rows, sorted(banned)))
    return token_ids[token_ids >= UNKNOWN_ID].tolist()  # padding and the start are always banned


class _Options:
    """The options of `generate` in a folder, and the names of unsupported options."""

    def __init__(self, folder):
        self.folder = folder
        self._values = folder.json(_OWN_FILE) if folder.has(_OWN_FILE) else folder.config
        self._names = []

    def value(self, name):
        """Return the value of an option, or None."""
        return self._values.get(name)

    def number(self, name, default, *types):
        """Return a number that is not negative, or the default if it is not set."""
        value = self.value(name)
        value = default if value is None else value
        is_number = type(value) in (types or (int, float)) and is_finite(value)
        if not is_number or value < 0:
            expected = "a non-negative integer" if types else "a number, 0 or larger"
            raise UserError(
                f"{self.folder.path}: {name} must be {expected}. Received: {brief(value)}"
            )
        return value

    def token_id(self, name):
        return generation_option(self.folder, name)

    def bad_words(self):
        """Return `bad_words_ids`, a list of lists of ids."""
        return self.lists("bad_words_ids", self.value("bad_words_ids") or [])

    def lists(self, name, lists):
        """Return a value that must be a list of lists of ids."""
        is_list = isinstance(lists, list) and all(isinstance(ids, list) for ids in lists)
        if not is_list or not all(type(i) is int for ids in lists for i in ids):
            raise UserError(
                f"{self.folder.path}: {name} must be lists of ids. "
                f"Received: {brief(self.value(name))}"
            )
        return lists

    def warn(self, text):
        self._names.append(text)

    def warn_about(self, without_effect):
        """Record the options whose value has an effect."""
        for name, values in without_effect.items():
            value = self.value(name)
            if value is not None and value not in values:
                self.warn(f"{name}={brief(value)}")

    def log_warnings(self):
        if self._names:
            logger.warning(
                "%s: the search of the converted model does not support these options of "
                "`generate`, so its outputs may differ: %s",
                self.folder.path,
                ", ".join(self._names),
            )
