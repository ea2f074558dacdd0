"""Scores by sacreBLEU, and its tokenizers of languages."""

import json
import math
import re

import pytest

from keras_transformer.errors import UserError
from keras_transformer.evaluation.bleu import (
    check_tokenizer,
    score_translations,
    tokenizer_of,
)
from keras_transformer.evaluation.comparison import compare_translations

pytestmark = pytest.mark.once


def test_bleu_by_hand():
    # 6 of 7 words, 4 of 6 pairs, 2 of 5 triples and 1 of 4 quadruples ("the cat sat on") match.
    scores = score_translations(["the cat sat on a red mat"], ["the cat sat on the red mat"])
    assert scores.precisions == pytest.approx((600 / 7, 400 / 6, 200 / 5, 100 / 4))
    assert scores.brevity_penalty == 1.0
    assert scores.bleu == pytest.approx(100 * (6 / 7 * 4 / 6 * 2 / 5 * 1 / 4) ** 0.25)


def test_brevity_penalty_by_hand():
    # Every n-gram matches; 4 words stand for 5.
    scores = score_translations(["a b c d"], ["a b c d e"])
    assert (scores.hypothesis_length, scores.reference_length) == (4, 5)
    assert scores.bleu == pytest.approx(100 * math.exp(1 - 5 / 4))


def test_identity_is_perfect():
    sentences = ["A dog runs in the park.", "Two men are playing football."]
    scores = score_translations(sentences, sentences)
    assert scores.bleu == pytest.approx(100)
    assert scores.chrf == pytest.approx(100)
    assert scores.num_sentences == 2


def test_nothing_in_common_scores_zero():
    scores = score_translations(["x x x x"], ["a b c d"])
    assert (scores.bleu, scores.chrf, scores.chrf_plus_plus, scores.ter) == (0, 0, 0, 100)
    assert score_translations([""], ["a b c d"]).bleu == 0


def test_signatures_name_the_settings():
    scores = score_translations(["a b c d"], ["a b c d"])
    assert "tok:13a" in scores.bleu_signature
    assert "nrefs:1" in scores.bleu_signature
    assert "version:" in scores.chrf_signature
    assert "tok:none" in score_translations(["a"], ["a"], tokenize="none").bleu_signature


def test_the_tokenizer_changes_the_precision_of_words():
    # 13a cuts the full stop off: 5 tokens instead of 4, the last of which differs.
    hypotheses, references = ["one two three four!"], ["one two three four."]
    assert score_translations(hypotheses, references).precisions[0] == pytest.approx(80)
    assert score_translations(hypotheses, references, "none").precisions[0] == pytest.approx(75)


def test_each_hypothesis_may_match_any_of_its_references():
    hypotheses = ["a b c d", "e f g h"]
    scores = score_translations(hypotheses, [["a b c d", "w"], ["v", "e f g h"]])
    assert "nrefs:2" in scores.bleu_signature
    assert scores.bleu == pytest.approx(100)


def test_no_warning_about_tokenised_text(caplog):
    tokenised = ["a dog runs ."] * 200
    score_translations(tokenised, tokenised, tokenize="none")
    assert not caplog.records


def test_lines_in_sacrebleus_form():
    from sacrebleu.metrics import BLEU, CHRF, TER

    hypotheses, references = ["a b c d e"], ["a b c d f g"]
    lines = []
    for metric in (BLEU(), CHRF(), CHRF(word_order=2), TER()):
        score = metric.corpus_score(hypotheses, [references])
        lines.append(score.format(signature=str(metric.get_signature())))
    assert str(score_translations(hypotheses, references)) == "\n".join(lines)


def test_edits_of_words_by_hand():
    # One word taken out and one put in, to make five; 3 characters of 4 are right in Chinese.
    assert score_translations(["a b x c d"], ["a b c d e"]).ter == pytest.approx(100 * 2 / 5)
    assert score_translations(["我爱你们"], ["我爱他们"], language="zh").ter == pytest.approx(25)


def test_text_without_spaces_is_not_one_word():
    hypotheses, references = ["我爱你们。"], ["我爱他们。"]
    scores = score_translations(hypotheses, references, language="zh_CN")
    assert "tok:zh" in scores.bleu_signature
    assert scores.precisions[:2] == pytest.approx((80, 50))
    assert score_translations(hypotheses, references).precisions[0] == 0


def test_json_round_trip():
    scores = score_translations(["a b c d"], ["a b c e"])
    assert json.loads(json.dumps(scores.to_dict())) == scores.to_dict()
    assert scores.to_dict()["bleu"] == scores.bleu


@pytest.mark.parametrize(
    "hypotheses, references, tokenize, message",
    [
        (["a", "b"], ["a"], "13a", "2 hypotheses and 1 references"),
        (["a", "b"], [["a", "b"], ["a"]], "13a", "2 hypotheses and 1 references"),
        (["a"], [], "13a", "1 hypotheses and 0 references"),
        ([], [], "13a", "`hypotheses` must hold at least one sentence"),
        (["a"], ["a"], "ko-mecab", "ko-mecab is not installed.*sacrebleu.ko"),
        (["a"], ["a"], "14b", "`tokenize` must be one of .*13a.*Received: tokenize='14b'"),
    ],
)
def test_unequal_counts_and_unknown_tokenizers_are_refused(
    hypotheses, references, tokenize, message
):
    with pytest.raises(ValueError, match=message) as error:
        score_translations(hypotheses, references, tokenize)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("hypotheses", "references", "received"),
    [
        ("a b", ["a b"], "hypotheses='a b'"),
        (["a b", None], ["a b", "c"], "hypotheses[1]=None"),
        (["a b"], "a b", "references='a b'"),
        (["a b", "c"], ["a b", None], "references[1]=None"),
        (["a b", "c"], ["a b", math.nan], "references[1]=nan"),
        (["a b", "c"], [["a b", "c"], ["a b", None]], "references[1][1]=None"),
        (["a b", "c"], [["a b", "c"], None], "references[1]=None"),
        (["a b", "c"], [["a b", "c"], "a b"], "references[1]='a b'"),
    ],
    ids=lambda x: None if isinstance(x, str) else str(x),
)
def test_what_is_not_a_list_of_strings_is_named(hypotheses, references, received):
    with pytest.raises(UserError, match=re.escape(f"Received: {received}")):
        score_translations(hypotheses, references)


def test_another_system_s_translations_are_strings_too():
    with pytest.raises(UserError, match=re.escape("Received: others[1]=None")):
        compare_translations(["a", "b"], ["a", None], ["a", "b"])


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
    with pytest.raises(
        ValueError, match=f"must fit the language '{language}'.*tokenize='{tokenize}'"
    ):
        check_tokenizer(tokenize, language)


@pytest.mark.parametrize(
    ("tokenize", "language"),
    [("char", "zh"), ("none", "ja"), ("flores200", "de"), ("intl", "de"), ("zh", None)],
)
def test_what_fits_is_not(tokenize, language):
    check_tokenizer(tokenize, language)
