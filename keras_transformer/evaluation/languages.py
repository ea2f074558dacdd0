"""Which of sacreBLEU's tokenizers fits a language."""

from types import MappingProxyType

from keras_transformer.errors import UserError

_USUAL = "13a"
_PIECES = "flores200"

# Those of languages that sacreBLEU itself chooses another tokenizer for. Their text has no spaces
# between words, or, in Korean, too few.
EAST_ASIAN = MappingProxyType({"zh": "zh", "ja-mecab": "ja", "ko-mecab": "ko"})
_OF_LANGUAGE = {language: tokenizer for tokenizer, language in EAST_ASIAN.items()}

# Other languages whose text has no spaces between words: spBLEU, of the pieces of FLORES-200's
# vocabulary (NLLB Team 2022). Thai, Lao, Khmer, Burmese, Shan, Tibetan, Dzongkha.
_WITHOUT_SPACES = ("th", "lo", "km", "my", "shn", "bo", "dz")

# ISO 639-3 and macrolanguages, as NLLB-200 and OPUS-MT call them, by those of two letters.
_SAME = {
    **{"zho": "zh", "cmn": "zh", "yue": "zh", "cn": "zh", "jpn": "ja", "kor": "ko"},
    **{"tha": "th", "lao": "lo", "khm": "km", "mya": "my", "bod": "bo", "dzo": "dz"},
}

# Of words between spaces: with text that has none, a sentence is one word.
_OF_WORDS = (_USUAL, "intl")


def tokenizer_of(language: str | None) -> str:
    """Returns the name of the tokenizer that fits text of a language as people write it.

    It is sacreBLEU's own choice for Chinese, Japanese and Korean, `"flores200"` for the languages
    that have no spaces between words, and `"13a"` for all others.

    Args:
        language: its code, such as `"zh"`, `"zh_CN"` or `"zho_Hans"`; None for one of the others.
    """
    code = _code(language)
    if code in _WITHOUT_SPACES:
        return _PIECES
    return _OF_LANGUAGE.get(code, _USUAL)


def check_tokenizer(tokenize: str, language: str | None) -> None:
    """Raises an error if sacreBLEU has no such tokenizer, or it does not fit the language; one that
    is None fits any.
    """
    from sacrebleu.metrics import BLEU

    if tokenize not in BLEU.TOKENIZERS:
        raise UserError(
            f"`tokenize` must be one of {', '.join(BLEU.TOKENIZERS)}. "
            f"Received: tokenize={tokenize!r}"
        )
    if language is None:
        return
    fitting = tokenizer_of(language)
    of_another = tokenize in EAST_ASIAN and tokenize != fitting
    if of_another or (tokenize in _OF_WORDS and fitting != _USUAL):
        raise UserError(
            f"The tokenizer {tokenize!r} does not fit the language {language!r}: scores would say "
            f"nothing. Leave `tokenize` out for {fitting!r}. Received: tokenize={tokenize!r}"
        )


def _code(language: str | None) -> str:
    code = (language or "").lower().replace("_", "-").partition("-")[0]
    return _SAME.get(code, code)
