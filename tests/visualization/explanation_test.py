"""`explain`: all pictures of a sentence in one page, in a notebook and in a file."""

from html import unescape

import pytest

import keras_transformer as kt
from keras_transformer.visualization import explain_parse, explain_translation
from tests.parsing.small_trees import new_parser, trees
from tests.small_corpus import new_model, tokenizer


def test_explain_draws_a_translation_on_a_page_and_in_a_file(tmp_path):
    translator = kt.Translator(new_model(), tokenizer(), beam_size=2, extra_length=3)
    explanation = explain_translation(translator, "the & dog runs")
    assert explanation.output == translator("the & dog runs", split=None)
    page = explanation.html()
    assert page.count('<section class="attention">') == 1 and page.count("<svg") == 2
    assert "the &amp; dog runs</h1>" in page and 'table class="alignment"' in page
    assert unescape(explanation._repr_html_()).count(page) == 1  # a frame around the page
    explanation.save(tmp_path / "new" / "page.html")
    assert (tmp_path / "new" / "page.html").read_text("utf-8") == page
    explanation.save(tmp_path / "page.txt")
    text = (tmp_path / "page.txt").read_text("utf-8")
    assert str(explanation.alignment) in text and str(explanation.beam) in text


@pytest.mark.parametrize("name", ["x.png", "x.svg", "x"])
def test_an_explanation_is_only_written_under_the_name_of_its_format(tmp_path, name):
    translator = kt.Translator(new_model(), tokenizer(), beam_size=2, extra_length=3)
    explanation = explain_translation(translator, "the dog")
    with pytest.raises(kt.UserError, match="`path` must end with .html or .txt"):
        explanation.save(tmp_path / name)
    with pytest.raises(kt.UserError, match="`path` must end with .html. "):
        explanation.attention.save(tmp_path / name)
    assert not any(tmp_path.iterdir())


def test_another_translation_and_a_search_without_a_beam():
    translator = kt.Translator(new_model(), tokenizer(), search=kt.Sampling(extra_length=3))
    explanation = explain_translation(translator, "the dog", "a cat")
    assert explanation.output == "a cat" and explanation.beam is None
    drawn = explain_translation(translator, "the dog")
    assert [drawn.output] == translator(["the dog"]) and "Beam" not in drawn.html()
    with pytest.raises(kt.UserError, match="must be a string"):
        explain_translation(translator, ["the dog"])


def test_a_sentence_is_explained_as_the_model_reads_it():
    translator = kt.Translator(new_model(), tokenizer(), beam_size=2, extra_length=3)
    explanation = explain_translation(
        translator, "the <b>dog</b> sees {name}", "a <b>cat</b> {name}"
    )
    assert explanation.source == "the dog sees" and explanation.output == "a cat"
    assert explain_translation(translator, "the dog sees {name}").output == translator(
        "the dog sees"
    )


def test_explain_parse_shows_the_gold_tree():
    parser, gold = new_parser(counts_words=True), trees()[1]
    explanation = explain_parse(parser, gold.leaves(), gold)
    assert [explanation.tree] == parser([gold.leaves()])
    assert "Comparison with the gold tree" in explanation.html()
    assert str(explanation.comparison) in str(explanation)
    alone = explain_parse(parser, gold.leaves())
    assert alone.comparison is None and "<h2>Tree</h2>" in alone.html()
