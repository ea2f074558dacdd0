"""KerasHub's samplers as searches of this package."""

from typing import Any

import keras_hub
from keras_hub import samplers

from keras_transformer.decoding.beam_search import BeamSearch
from keras_transformer.decoding.resolve_search import resolve_search
from keras_transformer.decoding.sampling import Sampling
from keras_transformer.decoding.search import Search
from keras_transformer.errors import UserError

# A class of KerasHub -> the options of the corresponding search.
_OPTIONS = {
    samplers.GreedySampler: lambda x: {"beam_size": 1, "alpha": 0.0},
    samplers.BeamSampler: lambda x: {"beam_size": x.num_beams, "alpha": 0.0},
    samplers.RandomSampler: lambda x: {"temperature": x.temperature, "seed": x.seed},
    samplers.TopKSampler: lambda x: {"temperature": x.temperature, "seed": x.seed, "top_k": x.k},
    samplers.TopPSampler: lambda x: {
        **{"temperature": x.temperature, "seed": x.seed},
        **{"top_k": x.k, "top_p": x.p},
    },
}


def as_search(sampler: Any, default: Search) -> Search:
    """Return the search that corresponds to a sampler.

    Args:
        sampler: `"auto"` for the default; a name, a configuration or an object of one of KerasHub's
            samplers; or an argument of `resolve_search`.
        default: a `Search`, whose length and constraints are kept unless `sampler` has its own.

    Returns:
        A `Search`.

    Raises:
        UserError: if there is no such search.
    """
    if sampler == "auto":
        return default
    if isinstance(sampler, str | dict):
        sampler = _named(sampler)
    if not isinstance(sampler, samplers.Sampler):
        return resolve_search(sampler, default)
    if type(sampler) not in _OPTIONS or getattr(sampler, "return_all_beams", False):
        raise UserError(
            'Unsupported sampler. Expected "greedy", "beam", "random", "top_k", "top_p", a '
            f"`kt.BeamSearch` or a `kt.Sampling`. Received: {type(sampler).__name__} with these "
            "options"
        )
    options = _OPTIONS[type(sampler)](sampler)
    search_class = BeamSearch if "beam_size" in options else Sampling
    return search_class(
        **options, extra_length=default.extra_length, constraints=default.constraints
    )


def _named(sampler):
    try:
        return keras_hub.samplers.get(sampler)
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(
            'Unsupported sampler. Expected "greedy", "beam", "random", "top_k", "top_p", a '
            f"`kt.BeamSearch` or a `kt.Sampling`. Received: sampler={sampler!r}"
        ) from error
