"""The languages of a translator, and the translator of each direction."""

import copy
import dataclasses
import difflib
import itertools
import re
from collections.abc import Iterable

from keras_transformer.errors import UserError
from keras_transformer.translation.translator import Translator

# Tokens that select a language: of M2M-100, OPUS-MT, `Mixture` and NLLB-200.
_TOKEN = re.compile(r"__([a-z]{2,3})__|>>(\S+)<<|<2(\S+)>|([a-z]{3}_[A-Z][a-z]{3})")
_MOST_LISTED, _MOST_NEAREST = 10, 3


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
        self._tokens: dict[str, str] = {}
        side = translator.preprocessor
        self._has_target_token = _has_language(side.target_prefix)
        source, target = (translator.metadata.get(x) for x in ("source", "target"))
        if self._has_target_token or _has_language(side.source_prefix):
            tokens = translator.source_tokenizer
            self._tokens = _language_tokens(tokens.tokens_of(range(tokens.vocabulary_size)))
        codes = list(self._tokens)
        if not codes:
            self.targets = {source or "source": [target or "target"]}
        elif self._has_target_token or self._tokens[codes[0]].startswith("<2"):
            both = sorted({*codes, source, target} - {None})
            self.targets = {code: [x for x in codes if x != code] for code in both}
        else:  # OPUS-MT selects the target alone
            self.targets = {source or "source": codes}

    @property
    def codes(self) -> list[str]:
        """The codes of all languages, of sources first."""
        targets = itertools.chain.from_iterable(self.targets.values())
        return list(dict.fromkeys([*self.targets, *targets]))

    def translator(self, source: str, target: str) -> Translator:
        """Return the translator of a direction. All of them share one model.

        Raises:
            UserError: if the model does not have the direction.
        """
        if source not in self.targets:
            raise UserError(_unknown("source", source, self.targets))
        if target not in self.targets[source]:
            raise UserError(_unknown("target", target, self.targets[source]))
        if not self._tokens:
            return self._translator
        if (source, target) not in self._others:
            self._others[source, target] = self._tagged(source, target)
        return self._others[source, target]

    def _tagged(self, source, target):
        if not self._has_target_token:
            return self._translator.tagged(self._tokens[target])
        other = copy.copy(self._translator)
        other.preprocessor = dataclasses.replace(
            other.preprocessor,
            source_prefix=(self._tokens[source],),
            target_prefix=(self._tokens[target],),
        )
        return other


def _has_language(prefix: Iterable[str]) -> bool:
    return bool(_language_tokens(prefix))


def _language_tokens(tokens: Iterable[str]) -> dict[str, str]:
    """Return the tokens that select a language: code -> token."""
    found = ((_TOKEN.fullmatch(token.strip("▁")), token.strip("▁")) for token in tokens)
    return {next(filter(None, match.groups())): token for match, token in found if match}


def _unknown(name: str, code: str, codes: Iterable[str]) -> str:
    expected = list(codes)
    if len(expected) > _MOST_LISTED:
        nearest = difflib.get_close_matches(code, expected, _MOST_NEAREST, cutoff=0)
        listed = f"a code that GET /languages lists; the nearest are {', '.join(nearest)}"
    else:
        listed = " or ".join(expected)
    return f"`{name}` must be {listed}. Received: {name}={code[:60]}"
