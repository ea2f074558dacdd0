"""The pairs of languages that a translator translates, and detection of a text's language."""

import functools
import itertools
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from iso639 import Lang
from iso639.exceptions import DeprecatedLanguageValue, InvalidLanguageValue

from keras_transformer.data.language_selection import matching_language, most_similar
from keras_transformer.errors import UserError
from keras_transformer.language_codes import language_code
from keras_transformer.translation.translator import Translator

# More of a text would not change the result, but its time.
_MOST_CHARACTERS = 10_000
_LEAST_PROBABILITY = 0.01
_MOST_LISTED = 10
# A text is in the target language, and comes back as it is, from this confidence on, in percent.
# "Berlin" has 73, and "Ein Hund rennt" 98.5 between English and German.
_CLEAR = 99.0


class Detected(NamedTuple):
    """A language of a text. Its fields have LibreTranslate's names.

    Attributes:
        language: its code.
        confidence: its probability among the languages that were considered, in percent.
    """

    language: str
    confidence: float


class Directions:
    """The pairs of languages that a translator translates, by their codes.

    Args:
        translator: a `Translator`.

    Attributes:
        targets: dict of source code -> list of the codes it is translated into.
    """

    def __init__(self, translator: Translator) -> None:
        self._translator = translator
        self._others: dict[tuple[str, str], Translator] = {}
        self._detector = functools.cache(LanguageDetector)
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

    def code(self, name: str, code: str) -> str:
        """Return the model's code of a language.

        Args:
            name: `"source"` or `"target"`.
            code: the code, such as "EN" or "en-US" for "en".

        Raises:
            UserError: if it does not stand for exactly one of the model's languages.
        """
        found = matching_language(code, self.codes)
        if found is None:
            targets = itertools.chain(*self.targets.values())
            raise UserError(_unknown(name, code, self.targets if name == "source" else targets))
        return found

    def translator(self, source: str, target: str) -> Translator:
        """Return the translator of a direction, by the model's codes. All share one model.

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

    def detected(self, text: str) -> list[Detected]:
        """Return the languages of the model that a text may be in, the most probable first."""
        return self._detector(tuple(self.codes))(text)

    def source_of(self, text: str, target: str) -> Detected:
        """Return the language of a text to translate.

        It is the most probable one of those that the model translates into the target, and the
        target's own if the text clearly has it. A doubtful detection is not an error.

        Args:
            text: a string.
            target: the language to translate into, by the model's code.

        Raises:
            UserError: if no language is translated into the target, or several are and py3langid
                is not installed.
        """
        sources = [code for code, targets in self.targets.items() if target in targets]
        if not sources:
            raise UserError(_unknown("target", target, itertools.chain(*self.targets.values())))
        try:
            # In this order, so that all targets have one detector where all languages have.
            found = self._detector(tuple(x for x in self.codes if x in {*sources, target}))(text)
        except UserError:
            if len(sources) > 1:
                raise
            found = []
        likely = (x for x in found if x.language != target or x.confidence >= _CLEAR)
        return next(likely, Detected(sources[0], 0.0))


def _unknown(name: str, code: str, codes: Iterable[str]) -> str:
    expected = list(dict.fromkeys(codes))
    if len(expected) > _MOST_LISTED:
        nearest = most_similar(code, expected)
        listed = f"a code that GET /languages lists; the nearest are {nearest}"
    else:
        listed = " or ".join(expected)
    return f"`{name}` must be {listed}. Received: {name}={code[:60]}"


def iso_language(code: str) -> Any:
    """Return the `iso639.Lang` of a code such as "de", "zh_CN" or "deu_Latn"; None if unknown."""
    first = re.split("[-_]", code.lower())[0]
    for name in (first, language_code(code)):
        try:
            return Lang(name)
        except DeprecatedLanguageValue as error:
            if error.change_to:
                return Lang(error.change_to)
        except InvalidLanguageValue:
            pass
    return None


def language_names(codes: Iterable[str]) -> dict[str, str]:
    """Return the English names of languages by their codes.

    Equal names get the rest of their codes. An unknown language has its code as its name.
    """
    languages = {code: iso_language(code) for code in codes}
    names = {code: x.name.split(" (")[0] if x else code for code, x in languages.items()}
    found = [*names.values()]
    return {
        code: name if found.count(name) == 1 or name == code else f"{name} ({code})"
        for code, name in names.items()
    }


class LanguageDetector:
    """A detector that chooses among some languages.

    Args:
        codes: iterable of their codes. Languages that py3langid does not know are never found.

    Raises:
        UserError: if py3langid is not installed.
    """

    def __init__(self, codes: Iterable[str]) -> None:
        try:
            from py3langid.langid import MODEL_FILE, LanguageIdentifier
        except ImportError as error:
            raise UserError(
                "Cannot detect languages without py3langid (pip install py3langid). Expected the "
                "code of the language as `source`"
            ) from error
        self._identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
        self._codes = _codes_by_label([*codes], {*self._identifier.labels})
        if self._codes:
            self._identifier.set_languages([*self._codes])

    def __call__(self, text: str) -> list[Detected]:
        """Return the languages of a text, the most probable first.

        The list is empty for a text without letters, in which there is nothing to detect.
        """
        text = text[:_MOST_CHARACTERS]
        if not self._codes or not any(map(str.isalpha, text)):
            return []
        return [
            Detected(self._codes[label], round(100 * float(probability), 1))
            for label, probability in self._identifier.rank(text)
            if probability > _LEAST_PROBABILITY
        ]


def _codes_by_label(codes: list[str], labels: set[str]) -> dict[str, str]:
    """Return the code that stands for each label of the detector.

    A code that names the language itself comes before one of a language that is part of it: for
    "zh", Chinese ("zho_Hans") before Cantonese ("yue_Hant").
    """
    found: dict[str, str] = {}
    languages = [(code, iso_language(code)) for code in codes]
    for names in (
        lambda code, language: (language.pt1, language.pt3),
        lambda code, language: (language_code(code),),
        lambda code, language: ((macro := language.macro()) and macro.pt1,),
    ):
        for code, language in languages:
            for name in names(code, language) if language else ():
                if name in labels and code not in found.values():
                    found.setdefault(name, code)
    return found
