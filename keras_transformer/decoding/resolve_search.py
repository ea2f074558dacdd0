"""Turn what users pass as `search=` and search options into a `Search`."""

import dataclasses
from typing import Any

from keras_transformer.decoding.beam_search import BeamSearch
from keras_transformer.decoding.constraints import BannedTokens, MinLength
from keras_transformer.decoding.sampling import Sampling
from keras_transformer.decoding.search import Search
from keras_transformer.decoding.static_fields import check_names
from keras_transformer.errors import UserError

# KerasHub's names of samplers -> searches. `k` and `p` are the defaults of KerasHub's samplers.
NAMED_SEARCHES = {
    "greedy": BeamSearch.greedy(),
    "beam": BeamSearch(),
    "random": Sampling(),
    "top_k": Sampling(top_k=5),
    "top_p": Sampling(top_p=0.1),
}
# Options that add constraints.
_CONSTRAINT_OPTIONS = ("min_length", "banned_token_ids")


def resolve_search(
    search: Search | type[Search] | str | None, default: Search, **options: Any
) -> Search:
    """Return a search with options.

    Args:
        search: a `Search`; or, for a search with the `extra_length` and the constraints of
            `default`, one of the names `"greedy"`, `"beam"`, `"random"`, `"top_k"` and `"top_p"`
            or a class of searches; or None for `default`.
        default: a `Search`.
        **options: values for fields of the search; `min_length` and `banned_token_ids` add
            constraints.

    Returns:
        A `Search`.

    Raises:
        UserError: if `search` is not supported, or the search has no such option.
    """
    if search is None:
        found = default
    elif isinstance(search, Search):
        found = search
    else:
        length, constraints = default.extra_length, default.constraints
        kept = {"extra_length": length, "constraints": constraints}
        found = dataclasses.replace(_find_search(search), **kept)
    check_names(options, type(found), also=_CONSTRAINT_OPTIONS)
    added = {name: options.pop(name) for name in _CONSTRAINT_OPTIONS if name in options}
    found = dataclasses.replace(found, **options)
    constraints = [*found.constraints]
    if added.get("min_length", 0) != 0:
        constraints.append(MinLength(added["min_length"]))
    banned = BannedTokens(added.get("banned_token_ids", ()))
    if banned.banned_token_ids:
        constraints.append(banned)
    return dataclasses.replace(found, constraints=tuple(constraints))


def _find_search(search) -> Search:
    if isinstance(search, str) and search in NAMED_SEARCHES:
        return NAMED_SEARCHES[search]
    if isinstance(search, type) and issubclass(search, Search):
        return search()
    names = ", ".join(f'"{name}"' for name in NAMED_SEARCHES)
    raise UserError(
        f"`search` must be a `kt.BeamSearch`, a `kt.Sampling` or one of the names {names}. "
        f"Received: search={search!r}"
    )
