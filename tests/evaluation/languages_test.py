import pytest

from keras_transformer.evaluation.languages import check_tokenizer, tokenizer_of

pytestmark = pytest.mark.once


@pytest.mark.parametrize(
    ("languages", "expected"),
    [
        (("de", "en", "ru", "ar", "vi", "deu_Latn", None, ""), "13a"),
        (("zh", "zh_CN", "zh-Hant", "zho_Hans", "cmn", "ZH"), "zh"),
        (("ja", "jpn_Jpan"), "ja-mecab"),
        (("ko", "kor_Hang"), "ko-mecab"),
        (("th", "tha_Thai", "km", "my"), "flores200"),
    ],
)
def test_what_fits_a_language(languages, expected):
    assert {tokenizer_of(language) for language in languages} == {expected}


def test_sacrebleu_chooses_the_same():
    from sacrebleu.metrics import BLEU

    assert {language: tokenizer_of(language) for language in BLEU._TOKENIZER_MAP} == {
        **BLEU._TOKENIZER_MAP
    }


@pytest.mark.parametrize(
    ("tokenize", "language"),
    [("13a", "zh"), ("intl", "ja"), ("13a", "tha_Thai"), ("zh", "de"), ("ja-mecab", "zh")],
)
def test_what_does_not_fit_is_refused(tokenize, language):
    with pytest.raises(ValueError, match=f"'{tokenize}' does not fit the language '{language}'"):
        check_tokenizer(tokenize, language)


@pytest.mark.parametrize(
    ("tokenize", "language"),
    [("char", "zh"), ("none", "ja"), ("flores200", "de"), ("intl", "de"), ("zh", None)],
)
def test_what_fits_is_not(tokenize, language):
    check_tokenizer(tokenize, language)
