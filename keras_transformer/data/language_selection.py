"""The languages of a model, and the tokens that select them."""

import dataclasses
import difflib
import re
import reprlib
from collections.abc import Iterable, Mapping
from typing import Any

from keras_transformer.data.preprocessor import TranslationPreprocessor
from keras_transformer.errors import UserError
from keras_transformer.language_codes import language_code

# The entry of a model's metadata: option -> [attribute of the preprocessor, {language: token}].
_TOKENS = "language_tokens"
_OPTIONS = {"source_lang": "source", "target_lang": "target"}
_TARGET_TAG = re.compile(r"<2(.+)>")
_NUM_NEAREST = 3
# The scripts of Chinese in some regions.
_SCRIPTS = {"tw": "hant", "hk": "hant", "mo": "hant", "cn": "hans", "sg": "hans"}


def language_tokens(**tokens: tuple[str, Mapping[str, str]]) -> dict[str, Any]:
    """Return the entry of a model's metadata that describes how its languages are selected.

    Args:
        **tokens: for `source_lang` and `target_lang`, the attribute of the preprocessor that holds
            the token, `"source_prefix"` or `"target_prefix"`, and a dict of languages and tokens.
            An empty dict is left out.

    Returns:
        A dict with one entry, or without any if there are no tokens.
    """
    found = {option: [side, dict(names)] for option, (side, names) in tokens.items() if names}
    return {_TOKENS: found} if found else {}


def language_tokens_in(metadata: Mapping[str, Any]) -> dict[str, tuple[str, dict[str, str]]]:
    """Return the tokens that select the languages of a model.

    Args:
        metadata: the metadata of a `Translator`. If it has no `language_tokens`, tags such as
            `<2de>` select the target language.

    Returns:
        A dict of `source_lang` and `target_lang`, as far as they can be selected: see
        `language_tokens`.
    """
    if _TOKENS in metadata:
        return {option: (side, names) for option, (side, names) in metadata[_TOKENS].items()}
    matches = map(_TARGET_TAG.fullmatch, metadata.get("tags", ()))
    tags = {match[1]: match[0] for match in matches if match}
    return {"target_lang": ("source_prefix", tags)} if tags else {}


def selectable_languages(metadata: Mapping[str, Any], option: str) -> list[str]:
    """Return the languages of a model that can be selected.

    Args:
        metadata: the metadata of a `Translator`.
        option: `"source_lang"` or `"target_lang"`.

    Returns:
        A list of codes, which is empty if the model has only one language on that side.
    """
    return list(language_tokens_in(metadata).get(option, ("", ()))[1])


def select(
    preprocessor: TranslationPreprocessor, metadata: Mapping[str, Any], **languages: str | None
) -> tuple[TranslationPreprocessor, dict[str, Any]]:
    """Return the preprocessor and the metadata for other languages.

    Args:
        preprocessor: the `TranslationPreprocessor`.
        metadata: the metadata of the `Translator`.
        **languages: `source_lang` and `target_lang`, by a code that `matching_language` finds.
            None keeps the language.

    Returns:
        A tuple of both.

    Raises:
        UserError: if the model does not have a language.
    """
    tokens, metadata = language_tokens_in(metadata), dict(metadata)
    for option, language in languages.items():
        if language is None:
            continue
        if not isinstance(language, str):
            raise UserError(
                f"`{option}` must be a string, the language of all texts. Received: "
                f"{option}={reprlib.repr(language)}"
            )
        if option not in tokens:
            _validate_only_language(option, language, metadata)
            continue
        side, names = tokens[option]
        found = matching_language(language, names)
        if found is None:
            raise UserError(
                f"`{option}` must be one of the model's {len(names)} languages. Received: "
                f"{option}={language!r}. The most similar are {most_similar(language, names)}."
            )
        language = found
        if side == "source_prefix":
            preprocessor = preprocessor.tagged(names[language])
        else:
            preprocessor = dataclasses.replace(preprocessor, target_prefix=(names[language],))
        metadata[_OPTIONS[option]] = language
    return preprocessor, metadata


def validate_selected(preprocessor: TranslationPreprocessor, metadata: Mapping[str, Any]) -> None:
    """Raise a `UserError` if a model that was converted needs a language, and none is selected."""
    for option, (side, names) in metadata.get(_TOKENS, {}).items():
        if not getattr(preprocessor, side):
            raise UserError(
                f"`{option}` must be given, because the model has several languages. Expected one "
                f"of: {', '.join(names)}."
            )


def matching_language(code: str, codes: Iterable[str]) -> str | None:
    """Return the one of some codes that a code stands for.

    `"EN"`, `"en-US"` and `"eng"` stand for `"en"`, and `"en"` for `"eng_Latn"`. A script or region
    counts only if several of the codes name the language: `"zh-Hant"` and `"zh_TW"` stand for
    `"zho_Hant"`, and `"zh"` for none of several.

    Args:
        code: a code, as somebody wrote it.
        codes: the model's codes.

    Returns:
        One of `codes`, or None if none is the same language, or several are.
    """
    codes = [*codes]
    if code in codes:
        return code
    wanted = code.strip().replace("-", "_").lower()
    found = [x for x in codes if x.replace("-", "_").lower() == wanted]
    if not found:
        found = [x for x in codes if _language(x) == _language(wanted)]
    if len(found) > 1:
        parts = {_SCRIPTS.get(part, part) for part in wanted.split("_")[1:]}
        found = [x for x in found if parts & {*x.replace("-", "_").lower().split("_")[1:]}]
    return found[0] if len(found) == 1 else None


def _language(code: str) -> str:
    # Cantonese is written like Chinese, and is another language.
    return "yue" if code.lower().startswith("yue") else language_code(code)


def _validate_only_language(option: str, language: str, metadata: Mapping[str, Any]) -> None:
    known = metadata.get(_OPTIONS[option])
    if known is None or matching_language(language, [known]):
        return
    raise UserError(
        f"`{option}` must be {known!r}, the only one of the model. Received: {option}={language!r}"
    )


def most_similar(language: str, languages: Iterable[str]) -> str:
    """Return the three languages with the most similar codes, separated by commas.

    Args:
        language: a code.
        languages: the codes to choose from.
    """
    language = str(language).lower()

    def distance(code: str) -> tuple[bool, float]:
        ratio = difflib.SequenceMatcher(None, language, code.lower()).ratio()
        return not code.lower().startswith(language[:2]), -ratio

    return ", ".join(sorted(languages, key=distance)[:_NUM_NEAREST])
