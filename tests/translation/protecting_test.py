"""Texts with placeholders and markup, translated."""

import re

import pytest

import keras_transformer as kt
from keras_transformer.evaluation import placeholders
from keras_transformer.untranslated import SYMBOLS
from keras_transformer.visualization import explain_translation
from tests.translation.word_links_test import MODEL

# Texts, and words that each translation encloses or ends with.
TEXTS = {
    "A <b>black dog</b> runs through the snow.": "<b>schwarzer Hund</b>",
    "A man pays %s for {name}.": "%s",
    'Two <i>men</i> <img/> sit on <a href="https://example.org/a?b=c&d">a bench</a>.': (
        '<a href="https://example.org/a?b=c&d">einer Bank</a>'
    ),
    "A girl eats %1$d apples and ${count} pears.": "Mädchen",
    "See https://example.org/x_y(z). A dog runs.": "https://example.org/x_y(z)",
    "Write to someone@example.org; a man waits.": "someone@example.org",
    'A {{ animal }} runs <ph id="1"/>through the snow.': "{{ animal }}",
    "<p><b>A <i>red</i> car</b></p>": "<p><b>Ein <i>rotes</i> Auto",
    "A dog\trun\ts 100% fast, {0} of {1}.": "{0}",
    "{count, plural, one {# dog} other {# dogs}} run.": "one {# dog} other {# dogs}} laufen",
    "%s": "%s",
}
PAGE = (
    "<h1>Two men</h1>\n<p>A dog runs. A <b>girl</b> eats\nan apple &amp; a pear.</p>"
    "<ul><li>A man</li><li>A <a href='x'>red car</a></li></ul>"
)


@pytest.fixture(scope="module")
def translator():
    return kt.Translator.from_preset(MODEL)


def test_placeholders_and_tags_are_kept_exactly_once(translator):
    for (text, words), found in zip(TEXTS.items(), translator(list(TEXTS))):
        assert placeholders(found) == placeholders(text) and words in found


def test_the_sentences_of_a_page_of_html_are_translated_one_by_one(translator):
    found = translator(PAGE, markup="html")
    assert re.findall("<[^<>]+>", found) == re.findall("<[^<>]+>", PAGE)
    sentence = translator("A dog runs.")
    assert f"<p>{sentence} Ein <b>Mädchen</b> isst" in found
    assert f"<li>{translator('A man')}</li><li>Ein <a href='x'>rotes Auto</a>" in found


def test_texts_of_attributes_are_translated_in_html(translator):
    page = '<p><img alt="A dog" src="a dog.png"> A <b title="Two men">cat</b></p>'
    names = '<input placeholder="A man" name="a man"><a aria-label="A girl"></a>'
    found = translator(page + names, markup="html")
    for name, source in (("alt", "A dog"), ("title", "Two men"), ("placeholder", "A man")):
        assert f'{name}="{translator(source)}"' in found
    assert f'aria-label="{translator("A girl")}"' in found
    assert 'src="a dog.png"' in found and 'name="a man"' in found


def test_line_breaks_of_markup_do_not_end_sentences(translator):
    for markup in ("html", "markdown"):
        (text,) = translator.protecting(markup).prepare(["A dog\nruns *fast*\nhome. A cat."])
        assert len(text.sentences) == 2


def test_markdown_and_patterns_of_the_caller_are_kept(translator):
    found = translator("# Two men\n\nA **dog** runs.\n\n- A `x` woman\n", markup="markdown")
    assert found.startswith("# Zwei Männer") and "\n\nEin **Hund** rennt.\n\n- Eine `x`" in found
    acme = translator.protecting(patterns=["Acme [A-Z]+"])
    assert acme("<i>Acme XL</i>", markup="html") == "<i>Acme XL</i>"
    assert "Acme XL" in translator("A man buys an Acme XL.", protect=["Acme [A-Z]+"])


def test_every_alternative_has_all_placeholders(translator):
    (results,) = translator.n_best(["A <b>dog</b> runs. Two %s sit."], 3)
    assert len(results) == 3
    assert all("<b>Hund</b>" in text and text.count("%s") == 1 for text, _ in results)


@pytest.fixture(scope="module")
def without_symbols():
    return kt.Translator.from_preset(MODEL.with_name("multi30k_en_fr"), beam_size=1)


def test_unsplit_texts_are_read_with_their_tags_by_models_without_symbols(without_symbols):
    (parts,) = without_symbols.prepare(["A <b>dog</b>."], split=None)
    assert parts.sentences == ["A <b>dog</b>."] and parts.units[0].protected is None
    (parts,) = without_symbols.protecting(None, ["x"]).prepare(["A <b>dog</b>."], split=None)
    assert parts.sentences == ["A dog."]


def test_a_model_without_symbols_keeps_placeholders_too(without_symbols):
    (text,) = without_symbols(["A man pays %s for <b>{name}</b>."])
    assert all(text.count(part) == 1 for part in ("%s", "{name}", "<b>", "</b>"))


def test_symbols_are_numbers_on_the_page_of_an_explanation(translator):
    explanation = explain_translation(translator, "A man pays {name}.")
    for shown in (explanation.html(), str(explanation)):
        assert "pays ①" in shown and SYMBOLS[0] not in shown and "\\uee10" not in shown
