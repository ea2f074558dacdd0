"""Codes of languages."""

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


def language_code(language: str) -> str:
    """Return the language without its region or script, in two letters if it has such a code.

    `"zh"` stands for `"zh_CN"`, `"zh-Hans"` and `"zho_Hans"`.
    """
    code = language.replace("-", "_").split("_")[0].lower()
    return _TWO_LETTERS.get(code, code)
