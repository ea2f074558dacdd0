"""Scores of translations: sacreBLEU's, comparisons of two systems, copied placeholders."""

import json
import math
import random
import re

import pytest

from keras_transformer.errors import UserError
from keras_transformer.evaluation import (
    bleu_tokenizer,
    compare_translations,
    placeholders,
    score_placeholders,
    score_translations,
    validate_tokenizer,
)
from tests.small_corpus import sentence_pairs

pytestmark = pytest.mark.once


def test_bleu_equals_the_value_worked_out_by_hand():
    # 6 of 7 words, 4 of 6 pairs, 2 of 5 triples and 1 of 4 quadruples ("the cat sat on") match.
    scores = score_translations(["the cat sat on a red mat"], ["the cat sat on the red mat"])
    assert scores.precisions == pytest.approx((600 / 7, 400 / 6, 200 / 5, 100 / 4))
    assert scores.brevity_penalty == 1.0
    assert scores.bleu == pytest.approx(100 * (6 / 7 * 4 / 6 * 2 / 5 * 1 / 4) ** 0.25)


def test_brevity_penalty_equals_the_value_worked_out_by_hand():
    # Every n-gram matches; 4 words stand for 5.
    scores = score_translations(["a b c d"], ["a b c d e"])
    assert (scores.hypothesis_length, scores.reference_length) == (4, 5)
    assert scores.bleu == pytest.approx(100 * math.exp(1 - 5 / 4))


def test_equal_sentences_score_100():
    sentences = ["A dog runs in the park.", "Two men are playing football."]
    scores = score_translations(sentences, sentences)
    assert scores.bleu == pytest.approx(100)
    assert scores.chrf == pytest.approx(100)
    assert scores.num_sentences == 2


def test_sentences_without_a_common_word_score_0():
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


def test_tokenized_text_gives_no_warning(caplog):
    tokenized = ["a dog runs ."] * 200
    score_translations(tokenized, tokenized, tokenize="none")
    assert not caplog.records


def test_printed_scores_equal_sacrebleus_own_lines():
    from sacrebleu.metrics import BLEU, CHRF, TER

    hypotheses, references = ["a b c d e"], ["a b c d f g"]
    lines = []
    for metric in (BLEU(), CHRF(), CHRF(word_order=2), TER()):
        score = metric.corpus_score(hypotheses, [references])
        lines.append(score.format(signature=str(metric.get_signature())))
    assert str(score_translations(hypotheses, references)) == "\n".join(lines)


def test_ter_equals_the_value_worked_out_by_hand():
    # One word taken out and one put in, to make five; 3 characters of 4 are right in Chinese.
    assert score_translations(["a b x c d"], ["a b c d e"]).ter == pytest.approx(100 * 2 / 5)
    assert score_translations(["我爱你们"], ["我爱他们"], language="zh").ter == pytest.approx(25)


def test_chinese_text_is_divided_into_characters():
    hypotheses, references = ["我爱你们。"], ["我爱他们。"]
    scores = score_translations(hypotheses, references, language="zh_CN")
    assert "tok:zh" in scores.bleu_signature
    assert scores.precisions[:2] == pytest.approx((80, 50))
    assert score_translations(hypotheses, references).precisions[0] == 0


def test_scores_survive_json():
    scores = score_translations(["a b c d"], ["a b c e"])
    assert json.loads(json.dumps(scores.to_dict())) == scores.to_dict()
    assert scores.to_dict()["bleu"] == scores.bleu


@pytest.mark.parametrize(
    ("hypotheses", "references", "message"),
    [
        (["a", "b"], ["a"], "2 hypotheses and 1 references"),
        (["a", "b"], [["a", "b"], ["a"]], "2 hypotheses and 1 references"),
        (["a"], [], "1 hypotheses and 0 references"),
        ([], [], "`hypotheses` must hold at least one sentence"),
        ("a b", ["a b"], "Received: hypotheses='a b'"),
        (["a b", None], ["a b", "c"], "Received: hypotheses[1]=None"),
        (["a b"], "a b", "Received: references='a b'"),
        (["a b", "c"], ["a b", None], "Received: references[1]=None"),
        (["a b", "c"], ["a b", math.nan], "Received: references[1]=nan"),
        (["a b", "c"], [["a b", "c"], ["a b", None]], "Received: references[1][1]=None"),
        (["a b", "c"], [["a b", "c"], None], "Received: references[1]=None"),
        (["a b", "c"], [["a b", "c"], "a b"], "Received: references[1]='a b'"),
    ],
)
def test_sentences_that_are_not_strings_or_too_few_are_named(hypotheses, references, message):
    with pytest.raises(UserError, match=re.escape(message)) as error:
        score_translations(hypotheses, references)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("tokenize", "message"),
    [
        ("ko-mecab", "ko-mecab is not installed.*sacrebleu.ko"),
        ("14b", "`tokenize` must be one of .*13a.*Received: tokenize='14b'"),
    ],
)
def test_a_missing_tokenizer_is_named(tokenize, message):
    with pytest.raises(UserError, match=message):
        score_translations(["a"], ["a"], tokenize)


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
def test_each_language_gets_its_tokenizer(languages, expected):
    assert {bleu_tokenizer(language) for language in languages} == {expected}


def test_sacrebleu_chooses_the_same_tokenizers():
    from sacrebleu.metrics import BLEU

    assert {language: bleu_tokenizer(language) for language in BLEU._TOKENIZER_MAP} == {
        **BLEU._TOKENIZER_MAP
    }


@pytest.mark.parametrize(
    ("tokenize", "language"),
    [("13a", "zh"), ("intl", "ja"), ("13a", "tha_Thai"), ("zh", "de"), ("ja-mecab", "zh")],
)
def test_a_tokenizer_that_does_not_fit_the_language_is_refused(tokenize, language):
    with pytest.raises(
        ValueError, match=f"must fit the language '{language}'.*tokenize='{tokenize}'"
    ):
        validate_tokenizer(tokenize, language)


@pytest.mark.parametrize(
    ("tokenize", "language"),
    [("char", "zh"), ("none", "ja"), ("flores200", "de"), ("intl", "de"), ("zh", None)],
)
def test_a_tokenizer_that_fits_the_language_is_accepted(tokenize, language):
    validate_tokenizer(tokenize, language)


REFERENCES = [target for _, target in sentence_pairs(60)]


def with_faults(share, seed):
    generator = random.Random(seed)
    return [
        " ".join("x" if generator.random() < share else word for word in sentence.split())
        for sentence in REFERENCES
    ]


def test_only_a_better_system_has_a_small_p_value():
    good, as_good, worse = with_faults(0.2, 1), with_faults(0.2, 2), with_faults(0.5, 3)
    better = compare_translations(good, worse, REFERENCES, num_samples=200)
    assert [each.name for each in better] == ["BLEU", "chrF2++"]
    assert all(each.score > each.other and each.p_value < 0.01 for each in better)
    assert all("bs:200|seed:" in each.signature for each in better)
    assert str(better[0]).startswith(f"BLEU|{better[0].signature} = {better[0].score:.2f}, and ")
    for each in compare_translations(good, as_good, REFERENCES, num_samples=200):
        assert each.p_value > 0.05
    for each in compare_translations(good, good, REFERENCES, num_samples=20):
        assert (each.score, each.p_value) == (each.other, 1.0)


def test_two_systems_have_one_reference_per_sentence():
    with pytest.raises(UserError, match="59 hypotheses and 60 references"):
        compare_translations(REFERENCES, REFERENCES[1:], REFERENCES)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("%s has %d of %-5.2f and %ld, %zu, %m", ["%s", "%d", "%-5.2f", "%ld", "%zu", "%m"]),
        ('file "%2$s" at %1$u', ["%s", "%u"]),
        ("%1 of %2, %L3", ["%1", "%2", "%L3"]),
        ("%(name)s, {name}, {}, {0:d}, ${HOME}", ["%(name)s", "{name}", "{}", "{0:d}", "${HOME}"]),
        ("<b>bold</b> <a href='x y'> &lt;", ["<b>", "</b>", "<a href='x y'>", "&lt;"]),
        ("100 % sure, 5% discount, a < b > c, {not this}, R&D", []),
        ("%s:%s", ["%s", "%s"]),
    ],
)
def test_placeholders_are_found_and_plain_text_is_not(text, expected):
    assert sorted(placeholders(text).elements()) == sorted(expected)


def test_placeholder_scores_equal_the_values_worked_out_by_hand():
    pairs = [
        ("%s in %s", "in %2$s %1$s"),  # both, in another order
        ("%s in %s", "%s"),  # one is missing
        ("<b>a</b>", "<b>a</b> {x}"),  # one is added
        ("no placeholder", "%d"),  # here too
    ]
    scores = score_placeholders(*zip(*pairs))
    assert scores.to_dict() == {
        **{"num_placeholders": 6, "num_copied": 5, "num_added": 2},
        **{"num_sentences": 3, "num_right": 1},
    }
    assert "5 of 6 copied (83.3 %), 2 added; 1 of 3 sentences" in str(scores)
    assert "0 of 0 copied (0.0 %)" in str(score_placeholders(["a"], ["b"]))
    with pytest.raises(UserError, match="1 sources and 2 hypotheses"):
        score_placeholders(["a"], ["b", "c"])
