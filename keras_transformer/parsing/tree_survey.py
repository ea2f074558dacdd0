"""What a parser has to know of all trees that it learns from, found out in one pass."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from keras_transformer.parsing.tag_dictionary import count_tags
from keras_transformer.parsing.trees import Linearization, most_openings

if TYPE_CHECKING:
    from nltk import Tree


class TreeSurvey(NamedTuple):
    """What `survey_trees` finds."""

    symbols: list[str]  # of all trees, sorted
    max_openings: int  # of all trees, as `most_openings` counts them
    tag_counts: dict[str, Counter[str]]  # of the treebank alone, as `count_tags` has them


def survey_trees(
    treebank: Iterable["Tree"], linearization: Linearization, extra: Iterable["Tree"] = ()
) -> TreeSurvey:
    """Reads trees once, for their symbols, openings and tags.

    Args:
        treebank: the trees of a treebank.
        linearization: how they are written as symbols.
        extra: further trees, such as another parser's output. Its tags are not counted: a tag
            dictionary is of what people have tagged.

    Returns:
        A `TreeSurvey`.

    Raises:
        UserError: if a label cannot be written as a symbol.
    """
    openings, tag_counts = 0, defaultdict(Counter)

    def with_tags() -> Iterator["Tree"]:
        for tree in treebank:
            count_tags([tree], tag_counts)
            yield tree

    def watched() -> Iterator["Tree"]:
        nonlocal openings
        for tree in chain(with_tags(), extra):
            openings = max(openings, most_openings([tree], linearization))
            yield tree

    symbols = linearization.inventory(watched())
    return TreeSurvey(symbols, openings, tag_counts)
