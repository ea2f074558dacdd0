"""Detection of a text's language, by py3langid."""

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from iso639 import Lang
from iso639.exceptions import DeprecatedLanguageValue, InvalidLanguageValue

from keras_transformer.errors import UserError
from keras_transformer.language_codes import language_code

# More of a text would not change the result, but its time.
_MOST_CHARACTERS = 10_000
_LEAST_PROBABILITY = 0.01


class Detected(NamedTuple):
    """A language of a text. Its fields have LibreTranslate's names.

    Attributes:
        language: its code.
        confidence: its probability among the languages that were considered, in percent.
    """

    language: str
    confidence: float


def language_of(code: str) -> Any:
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
    languages = {code: language_of(code) for code in codes}
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

    def __init__(self, codes: Iterable[str]):
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
    languages = [(code, language_of(code)) for code in codes]
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
