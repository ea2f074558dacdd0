"""Codes of languages."""

import re
from typing import Any

# The codes of ISO 639-3, and some macrolanguages, as in NLLB-200 and OPUS-MT.
_TWO_LETTERS = {
    three: two
    for three, two in (
        pair.split("-")
        for pair in (
            "afr-af amh-am ara-ar arb-ar aze-az azj-az bel-be ben-bn bod-bo bul-bg cat-ca ces-cs "
            "cmn-zh cn-zh cym-cy dan-da deu-de dzo-dz ell-el eng-en epo-eo est-et eus-eu fas-fa "
            "fin-fi fra-fr gle-ga glg-gl guj-gu heb-he hin-hi hrv-hr hun-hu hye-hy ind-id isl-is "
            "ita-it jpn-ja kan-kn kat-ka kaz-kk khk-mn khm-km kor-ko kir-ky lao-lo lav-lv lit-lt "
            "lvs-lv mal-ml mar-mr mkd-mk mlt-mt mya-my nld-nl nob-nb nno-nn nor-no npi-ne ory-or "
            "pan-pa pbt-ps pes-fa pol-pl por-pt ron-ro rus-ru sin-si slk-sk slv-sl spa-es sqi-sq "
            "srp-sr swe-sv swh-sw tam-ta tel-te tgk-tg tgl-tl tha-th tir-ti tur-tr uig-ug ukr-uk "
            "urd-ur vie-vi ydd-yi yue-zh zho-zh zsm-ms"
        ).split()
    )
}

# Codes that were replaced by others.
_REPLACED = {"iw": "he", "in": "id", "ji": "yi", "jw": "jv", "mo": "ro"}

# The scripts that a tag names: those in which a language is less common, or one of several.
_SCRIPTS = {
    *("ace-Arab ar-Latn az-Arab az-Cyrl bjn-Arab bs-Cyrl hi-Latn ja-Latn kk-Arab knc-Arab").split(),
    *("ks-Deva ku-Arab ky-Arab min-Arab mn-Mong ms-Arab pa-Arab ru-Latn sd-Deva sr-Cyrl").split(),
    *("sr-Latn taq-Tfng tg-Arab uz-Arab uz-Cyrl zh-Hans zh-Hant").split(),
}
_CODE = re.compile(
    r"([A-Za-z]{2,3})(?:[-_]([A-Za-z]{4}))?(?:[-_]([A-Za-z]{2}|\d{3}))?(?:@(latin|cyrillic))?"
)


def language_code(language: str) -> str:
    """Return the language without its region or script, in two letters if it has such a code.

    `"zh"` stands for `"zh_CN"`, `"zh-Hans"` and `"zho_Hans"`.
    """
    code = re.split("[-_@.]", language.strip().lower())[0]
    return _REPLACED.get(code) or _TWO_LETTERS.get(code, code)


def is_language_code(code: Any) -> bool:
    """Return whether a value has the form of the code of a language, such as `"de"`."""
    return isinstance(code, str) and bool(_CODE.fullmatch(code.strip()))


def language_tag(code: str) -> str:
    """Return the tag of BCP 47 for a language, as files declare it.

    `"deu_Latn"` becomes `"de"`, `"pt_BR"` becomes `"pt-BR"` and `"zho_Hant"` becomes `"zh-Hant"`.
    A code of another form stays as it is.
    """
    found = _CODE.fullmatch(code.strip())
    if not found:
        return code
    name, script, region, modifier = found.groups(default="")
    language = language_code(name)
    script = script.title() or {"latin": "Latn", "cyrillic": "Cyrl"}.get(modifier, "")
    is_named = f"{language}-{script}" in _SCRIPTS
    is_region = region and region.upper() != "XX"  # as in mBART's "en_XX"
    return "-".join([language, *[script] * is_named, *[region.upper()] * bool(is_region)])


def is_same_language(code: str, other: str) -> bool:
    """Return whether two codes stand for one language. Bokmål is written as `"no"` too."""
    return _without_synonyms(code) == _without_synonyms(other)


def may_be_same_language(code: str, other: str) -> bool:
    """Return whether two codes can stand for one language.

    A code of two letters and one of three letters can, if this module does not have both.
    """
    sizes = {len(_without_synonyms(x)) for x in (code, other)}
    return len(sizes) > 1 or is_same_language(code, other)


def _without_synonyms(code: str) -> str:
    code = language_code(code)
    return "no" if code == "nb" else code
