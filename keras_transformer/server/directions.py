"""The pairs of languages that a translator translates."""

import itertools
from collections.abc import Iterable

from keras_transformer.errors import UserError
from keras_transformer.translation.languages import most_similar
from keras_transformer.translation.translator import Translator

_MOST_LISTED = 10


class Directions:
    """The pairs of languages that a translator translates, by their codes.

    Args:
        translator: a `Translator`.

    Attributes:
        targets: dict of source code -> list of the codes it is translated into.
    """

    def __init__(self, translator: Translator):
        self._translator = translator
        self._others: dict[tuple[str, str], Translator] = {}
        known = [translator.metadata.get(side) for side in ("source", "target")]
        self._sources = translator.languages("source_lang")
        self._targets = translator.languages("target_lang")
        targets = self._targets or [known[1] or "target"]
        sources = self._sources or [known[0] or "source"]
        if "tags" in translator.metadata:  # trained in several directions, without source tags
            sources = sorted({*targets, *filter(None, known)})
        self.targets = {code: [x for x in targets if x != code] for code in sources}

    @property
    def codes(self) -> list[str]:
        """The codes of all languages, sources first."""
        return list(dict.fromkeys([*self.targets, *itertools.chain(*self.targets.values())]))

    @property
    def first(self) -> tuple[str, str]:
        """The first source that has a target, and this target."""
        return next((source, found[0]) for source, found in self.targets.items() if found)

    def translator(self, source: str, target: str) -> Translator:
        """Return the translator of a direction. All of them share one model.

        Raises:
            UserError: if the model does not have the direction.
        """
        if source not in self.targets:
            raise UserError(_unknown("source", source, self.targets))
        if target not in self.targets[source]:
            raise UserError(_unknown("target", target, self.targets[source]))
        if (source, target) not in self._others:
            self._others[source, target] = self._translator.in_languages(
                source if self._sources else None, target if self._targets else None
            )
        return self._others[source, target]


def _unknown(name: str, code: str, codes: Iterable[str]) -> str:
    expected = list(codes)
    if len(expected) > _MOST_LISTED:
        nearest = most_similar(code, expected)
        listed = f"a code that GET /languages lists; the nearest are {nearest}"
    else:
        listed = " or ".join(expected)
    return f"`{name}` must be {listed}. Received: {name}={code[:60]}"
