import os
from pathlib import Path

import pytest

from keras_transformer.parsing.brackets import unescape
from keras_transformer.parsing.treebanks import load_treebank
from keras_transformer.parsing.words import tokenize_words

CORPORA = Path(os.environ.get("KERAS_TRANSFORMER_DATA", "/nowhere"))

pytestmark = pytest.mark.once


def test_treebank_rules_split_text_as_the_penn_treebank():
    assert tokenize_words('He can\'t (really) say "no" to well-known men.') == [
        *("He", "ca", "n't", "-LRB-", "really", "-RRB-", "say", "``", "no", "''"),
        *("to", "well-known", "men", "."),
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        # Hyphens, slashes and dashes, with words that keep theirs.
        ("p53-dependent", "p53 - dependent"),
        ("anti-Sam68-treated non-BC X-ray 10-fold", "anti-Sam68 - treated non-BC X-ray 10-fold"),
        ("Fgf9+/− and/or 5'-GGT", "Fgf9 + / − and / or 5 ' - GGT"),
        ("days 12–14, 0.5±0.1 mm", "days 12 – 14 , 0.5 ± 0.1 mm"),
        # Brackets
        ("cells [51,52].", "cells [ 51 , 52 ] ."),
        ("(see Fig. 2A)", "-LRB- see Fig. 2A -RRB-"),
        # Numbers, units, ions
        ("1,000 of 4,100,000; 2.5%", "1,000 of 4,100,000 ; 2.5 %"),
        ("p<0.05, at 37 °C, Ca2+-dependent", "p < 0.05 , at 37 °C , Ca2+ - dependent"),
        ("3×10−4 ~50 ratio 1:100", "3 × 10 − 4 ~ 50 ratio 1 : 100"),
        # Full stops of abbreviations, initials and the sentence
        ("Li et al. [5] saw E. coli, e.g. two.", "Li et al. [ 5 ] saw E. coli , e.g. two ."),
        ("By Smith et al.", "By Smith et al ."),
        ("(It ran.)", "-LRB- It ran . -RRB-"),
        ("See http://x.org/a-b_c.html.", "See http://x.org/a-b_c.html ."),
        # Quotes and contractions
        ('a "dark" and a "light" one', "a `` dark '' and a `` light '' one"),
        ("the “rod-like” cell", "the “ rod - like ” cell"),
        ("It cannot, it doesn’t fit O'Brien's", "It can not , it does n't fit O'Brien 's"),
        # Other scripts, combining accents, and joined emoji
        ("nai\u0308ve 中文 👩\u200d🔬 ok", "nai\u0308ve 中文 👩\u200d🔬 ok"),
        (" \u2009\n", ""),
    ],
)  # fmt: skip
def test_craft_rules_split_text_as_craft(text, words):
    assert tokenize_words(text, "craft") == words.split(" ") * bool(words)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("It isn't $5 or US$5, it's 50% off.", "It is n't $ 5 or US$ 5 , it 's 50 % off ."),
        ("I cannot, I'm gonna, dont, Im", "I can not , I 'm gon na , do nt , I m"),
        ("a 12-year-old pro-India e-mail", "a 12 - year - old pro-India e-mail"),
        ("at 7:30 on 9/11 or 12-20-2000", "at 7:30 on 9/11 or 12-20-2000"),
        ("call 713-853-1696 or 345-8702", "call 713-853-1696 or 345-8702"),
        ("the 60's, '72, Shi'ite Qa'ida's", "the 60's , '72 , Shi'ite Qa'ida 's"),
        ("Great!!! Really?! Well....", "Great !!! Really ?! Well ...."),
        ("ok :-) :( :D ^_^ (see: (a))", "ok :--RRB- :-LRB- :D ^_^ -LRB- see : -LRB- a -RRB- -RRB-"),
        ('He said "no" -- <<really>>', 'He said " no " -- << really >>'),
        ("Mr. Bush of PG&E came w/o Dr. A.", "Mr. Bush of PG&E came w/o Dr. A ."),
        ("See http://x.org/a-b_c. To a.b-c@d.com.", "See http://x.org/a-b_c . To a.b-c@d.com ."),
        ("and/or I.D.s; *****", "and / or I.D. s ; *****"),
    ],
)  # fmt: skip
def test_ewt_rules_split_text_as_the_english_web_treebank(text, words):
    assert tokenize_words(text, "ewt") == words.split(" ")


@pytest.mark.parametrize("name", ["craft", "ewt"])
@pytest.mark.parametrize(
    "character", ["a", "1", ".", "-", "1,000,", "a.", "'", "can", "Fig. ", "1-", "!"]
)
def test_splitting_takes_linear_time(character, name):
    text = character * (10_000 // len(character))
    assert "".join(map(unescape, tokenize_words(text, name))) == text.replace(" ", "")


@pytest.mark.slow
@pytest.mark.skipif(not (CORPORA / "craft").is_dir(), reason="no CRAFT")
def test_craft_rules_restore_the_words_of_craft():
    """More than 95 % of sentences get their words back after spaces are removed by rule."""
    num, num_same = 0, 0
    for tree in load_treebank("craft", "val", CORPORA):
        words = [unescape(word) for word in tree.leaves()]
        text = " ".join(words)
        for mark in (" .", " ,", " ;", " :", " )", " ]", " %", " 's"):
            text = text.replace(mark, mark[1:])
        for mark in ("( ", "[ "):
            text = text.replace(mark, mark[0])
        for mark in (" - ", " – ", " / "):
            text = text.replace(mark, mark.strip())
        num += 1
        num_same += tokenize_words(text, "craft") == tree.leaves()
    assert num == 980 and num_same / num > 0.95


def test_unknown_rules_are_an_error():
    with pytest.raises(ValueError, match="`word_tokenizer` must be one of .*Received: .*'alien'"):
        tokenize_words("He runs.", "alien")
