"""Detection of a text's language, by py3langid."""

from collections.abc import Iterable
from typing import Any

from iso639 import Lang
from iso639.exceptions import InvalidLanguageValue

from keras_transformer.errors import UserError
from keras_transformer.language_codes import language_code


def language_of(code: str) -> Any:
    """Return the `iso639.Lang` of a code such as "de", "zh_CN" or "deu_Latn"; None if unknown."""
    try:
        return Lang(language_code(code))
    except InvalidLanguageValue:
        return None


def language_name(code: str) -> str:
    """Return the English name of a language, or the code itself if it is not known."""
    language = language_of(code)
    return code if language is None else language.name.split(" (")[0]


class LanguageDetector:
    """A detector that chooses among some languages.

    Args:
        codes: iterable of their codes. Languages that py3langid does not know are never found.

    Raises:
        UserError: if py3langid is not installed, or it knows fewer than two of the languages.
    """

    def __init__(self, codes: Iterable[str]):
        try:
            from py3langid.langid import MODEL_FILE, LanguageIdentifier
        except ImportError as error:
            raise UserError(
                "Cannot detect languages without py3langid (pip install py3langid). Expected the "
                "code of the language as `source`"
            ) from error
        identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
        known = {*identifier.labels}
        self._codes = {}
        for code in codes:
            language = language_of(code)
            for name in (language.pt1, language.pt3) if language else ():
                if name in known:
                    self._codes.setdefault(name, code)
        if len(self._codes) < 2:
            raise UserError(
                "Cannot detect languages: fewer than two languages of the model are known to "
                "py3langid. Expected the code of the language as `source`"
            )
        identifier.set_languages([*self._codes])
        self._identifier = identifier

    def __call__(self, text: str) -> list[dict[str, Any]]:
        """Return the languages of a text, the most probable first, in LibreTranslate's form."""
        return [
            {"language": self._codes[name], "confidence": round(100 * float(probability), 1)}
            for name, probability in self._identifier.rank(text)
            if probability > 0.01
        ]
