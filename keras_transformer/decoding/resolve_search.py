"""Turn what users pass as `search=` and search options into a `Search`."""

import dataclasses
from typing import Any

from keras_transformer.decoding.beam_search import BeamSearch
from keras_transformer.decoding.constraints import MinLength
from keras_transformer.decoding.sampling import Sampling
from keras_transformer.decoding.search import Search
from keras_transformer.decoding.static_fields import validate_option_names
from keras_transformer.errors import UserError

# KerasHub's names of samplers -> searches. `k` and `p` are the defaults of KerasHub's samplers.
NAMED_SEARCHES = {
    "greedy": BeamSearch.greedy(),
    "beam": BeamSearch(),
    "random": Sampling(),
    "top_k": Sampling(top_k=5),
    "top_p": Sampling(top_p=0.1),
}


def resolve_search(search: Search | str | None, default: Search, **options: Any) -> Search:
    """Return a search with options.

    Args:
        search: a `Search`; or one of the names `"greedy"`, `"beam"`, `"random"`, `"top_k"` and
            `"top_p"`, for a search with the `extra_length` and the constraints of `default`; or
            None for `default`.
        default: a `Search`.
        **options: values for fields of the search; `min_length` adds the constraint `MinLength`.

    Returns:
        A `Search`.

    Raises:
        UserError: if `search` is not supported, or the search has no such option.
    """
    found = default if search is None else search
    if not isinstance(found, Search):
        found = dataclasses.replace(
            _named_search(found),
            extra_length=default.extra_length,
            constraints=default.constraints,
        )
    validate_option_names(options, type(found), also=("min_length",))
    min_length = options.pop("min_length", 0)
    found = dataclasses.replace(found, **options)
    if min_length == 0:
        return found
    return dataclasses.replace(found, constraints=(*found.constraints, MinLength(min_length)))


def _named_search(name: Any) -> Search:
    if isinstance(name, str) and name in NAMED_SEARCHES:
        return NAMED_SEARCHES[name]
    names = ", ".join(f'"{name}"' for name in NAMED_SEARCHES)
    raise UserError(
        f"`search` must be a `kt.BeamSearch`, a `kt.Sampling` or one of the names {names}. "
        f"Received: search={name!r}"
    )
