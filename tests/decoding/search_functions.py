"""Searches as functions of a model and token ids, whose options are short in tests."""

from keras_transformer import BeamSearch, Sampling
from keras_transformer.decoding.constraints import BannedTokens, ForcedPrefix, MinLength
from keras_transformer.decoding.search_policy import validate_constraints


def beam_search(model, encoder_token_ids, beam_size=4, alpha=0.6, extra_length=50, **options):
    return _call(BeamSearch, model, encoder_token_ids, options, beam_size=beam_size, alpha=alpha,
                 extra_length=extra_length)  # fmt: skip


def greedy_search(model, encoder_token_ids, extra_length=50):
    search = BeamSearch.greedy(extra_length=extra_length)
    token_ids, scores = search(model, encoder_token_ids)
    return token_ids[:, 0], scores[:, 0]


def sample(model, encoder_token_ids, **options):
    return _call(Sampling, model, encoder_token_ids, options)


def _call(search_class, model, encoder_token_ids, options, **fields):
    num_results = options.pop("num_results", 1)
    constraints = [*validate_constraints(options.pop("constraints", ()))]
    if options.get("min_length", 0) != 0:
        constraints.append(MinLength(options["min_length"]))
    if options.get("prefix_token_ids") is not None:
        constraints.append(ForcedPrefix(options["prefix_token_ids"]))
    banned = BannedTokens(options.get("banned_token_ids", ()))
    if banned.banned_token_ids:
        constraints.append(banned)
    for name in ("min_length", "prefix_token_ids", "banned_token_ids"):
        options.pop(name, None)
    search = search_class(**fields, **options)
    return search(model, encoder_token_ids, constraints=tuple(constraints), num_results=num_results)
