"""Searches from what users pass: an object, a function, or options alone."""

import dataclasses

from keras_transformer.decoding.beam_search import (
    BeamSearch,
    beam_search,
    greedy,
    greedy_search,
    with_constraints,
)
from keras_transformer.decoding.sampling import Sampling, sample
from keras_transformer.decoding.search import Search
from keras_transformer.decoding.static_fields import check_names
from keras_transformer.errors import UserError
from keras_transformer.parsing.word_sync_search import WordSynchronousBeamSearch

_MAKERS = {
    beam_search: BeamSearch,
    greedy_search: greedy,
    sample: Sampling,
    WordSynchronousBeamSearch: WordSynchronousBeamSearch,
}
# Options that stand for constraints.
_CONSTRAINTS = ("min_length", "banned_token_ids")


def make_search(search, default, **options):
    """A search with options.

    Args:
        search: a `Search`; or one of the functions `beam_search`, `greedy_search` and `sample`, or
            the class `WordSynchronousBeamSearch`, for a search of that kind, which is as long and
            as constrained as the default; or None for the default.
        default: a `Search`.
        **options: fields of the search that are to be others; `min_length` and `banned_token_ids`,
            which add constraints.

    Returns:
        A `Search`.

    Raises:
        UserError: if `search` is nothing of the kind, or has no such option.
    """
    if search is None:
        search = default
    elif not isinstance(search, Search):
        length, constraints = default.extra_length, default.constraints
        search = _maker(search)(extra_length=length, constraints=constraints)
    check_names(options, type(search), also=_CONSTRAINTS)
    more = {name: options.pop(name) for name in _CONSTRAINTS if name in options}
    search = dataclasses.replace(search, **options)
    constraints = with_constraints(search.constraints, **more)
    return dataclasses.replace(search, constraints=constraints)


def _maker(function):
    for known, maker in _MAKERS.items():
        if function is known:
            return maker
    raise UserError(
        "`search` must be a `BeamSearch`, a `Sampling`, a `WordSynchronousBeamSearch` or this "
        "class, or one of the functions `beam_search`, `greedy_search` and `sample`. "
        f"Received: search={function!r}"
    )
