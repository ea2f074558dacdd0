"""Texts are prepared once: parts are taken out, the rest is split and converted to ids."""

import collections

import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.protection.spans import MarkedText, Span
from keras_transformer.translation import preparation, prepared_text
from keras_transformer.translation.prepared_text import with_same_end
from keras_transformer.untranslated import SYMBOLS
from keras_transformer.visualization import explain_translation
from tests.small_corpus import new_model, sentence_pairs, tokenizer
from tests.translation.word_links_test import MODEL

TEXTS = ["the dog sees {x}. the <b>cat</b> runs\n\nthe cat", "a dog", " ", "%s"]


class Echo(kt.Translator):
    """Its translations are its sources."""

    def search_batch(self, token_ids, num_results, *_, **__):
        ids = np.array(token_ids)
        return ids[:, None], np.zeros((len(ids), 1))


def echo(metadata=(), symbols=False, text=None):
    preprocessor = kt.data.TranslationPreprocessor(text or tokenizer())
    preprocessor = preprocessor.with_symbols() if symbols else preprocessor
    size = preprocessor.tokenizer.vocabulary_size
    return Echo(new_model(vocabulary_size=size), preprocessor, {"source": "en", **dict(metadata)})


@pytest.fixture
def counts(monkeypatch):
    """Counts how often each text is protected, split, and converted to ids."""
    found = collections.Counter()

    def count(owner, name, key):
        function = getattr(owner, name)

        def counted(*args, **options):
            found.update((name, text) for text in key(args))
            return function(*args, **options)

        monkeypatch.setattr(owner, name, counted)

    count(preparation, "protect", lambda args: [str(args[0])])
    count(preparation, "split_text", lambda args: [args[0]])
    count(Tokenizer, "encode", lambda args: args[1])
    return found


@pytest.mark.parametrize(
    "method",
    [
        lambda translator: translator(TEXTS),
        lambda translator: translator.translate_units([MarkedText(text) for text in TEXTS]),
        lambda translator: list(translator.translate_windows([translator.prepare(TEXTS)])),
        lambda translator: translator.score(TEXTS[:2], ["ein Hund", "eine Katze"]),
        lambda translator: translator.check_translations(TEXTS[:2], ["ein Hund", "eine Katze"]),
        lambda translator: explain_translation(translator, "a dog sees %s", "ein Hund"),
    ],
    ids=["call", "units", "windows", "score", "check", "explain"],
)
@pytest.mark.parametrize("symbols", [False, True])
def test_each_text_is_protected_split_and_tokenized_once(counts, method, symbols):
    translator = echo(symbols=symbols)
    translator.preprocessor.unknown_characters("".join(TEXTS) + "{}")  # once for all calls
    counts.clear()
    method(translator)
    sources = [*TEXTS, "a dog sees %s"]
    assert all(counts["protect", text] <= 1 for text in sources)
    assert all(counts["split_text", text] <= 1 for text in sources)
    assert {name for name, _ in counts} >= {"encode"}
    # A sentence without a part that is put back by links is not read again.
    assert counts["encode", "a dog"] <= (2 if "a dog" == translator(["a dog"])[0] else 1)


@pytest.mark.once
def test_a_prepared_text_holds_the_tokens_of_the_model():
    translator = echo()
    (text,) = translator.prepare(["the dog sees {x}. the ж cat"])
    assert text.sentences == ["the dog sees.", "the ж cat"]
    assert text.token_ids == translator.preprocessor.encode_sources(text.sentences)
    assert (len(text.sentences), text.is_cut, text.is_divided) == (2, False, False)
    assert text.has_unknown and text.unknown == ".ж"
    assert translator.prepare([text]) == [text]
    assert text.join(["A.", "B"]) == "A {x}. B"


@pytest.mark.once
def test_units_keep_their_spans():
    first, last = Span("<b>", "open"), Span("</b>", "close")
    first.partner, last.partner = last, first
    line = Span("<br>", "separator")
    unit = MarkedText("the dog {x} runs", ((4, first), (7, last), (11, line)))
    (found,) = echo().translate_units([unit])
    assert str(found) == str(unit) and found.spans == unit.spans


@pytest.mark.once
def test_a_line_break_ends_a_sentence_unless_the_text_is_wrapped():
    text = "the dog\nruns"
    units = MarkedText(text), MarkedText(text, is_wrapped=True)
    sizes = [len(x.sentences) for x in echo().prepare(units)]
    assert sizes == [2, 1]


@pytest.mark.once
def test_tags_at_the_beginning_of_a_text_stand_before_each_sentence():
    sentences = [sentence for pair in sentence_pairs(40) for sentence in pair]
    text = Tokenizer.train(sentences, 200, user_defined_symbols=["<2fr>", "<fr>"])
    for tag, metadata in (("<2fr>", {"tags": ["<2fr>"]}), ("<fr>", {})):
        translator = echo(metadata, text=text)
        (found,) = translator.prepare([f"{tag} the dog sleeps. a cat\n\nthe {{x}} runs"])
        assert found.sentences == [
            f"{tag} the dog sleeps.", f"{tag} a cat", f"{tag} the runs"
        ]  # fmt: skip
        assert found.join(["A.", "B", "C D"]) == "A. B\n\nC {x} D"
    # A tag that the vocabulary does not know is a part of the text.
    assert translator.prepare(["<b>a dog. a cat</b>"])[0].sentences == ["a dog.", "a cat"]


@pytest.mark.once
def test_tags_before_a_page_stand_before_each_sentence_of_its_texts():
    translator = echo({"tags": ["<2fr>"]})
    for markup, page in (("html", "<p>the dog</p><p>a cat</p>"), ("markdown", "the dog\n\na cat")):
        reader = translator.protecting(markup)
        (text,) = reader.prepare([f"<2fr> {page}"])
        assert text.sentences == ["<2fr> the dog", "<2fr> a cat"]
        assert text.join(["the dog", "a cat"]) == page
        read, _ = reader.texts_read([f"<2fr> {page}"], [page])
        assert read == ["<2fr> the dog\n\na cat"]


def test_half_of_a_surrogate_pair_is_the_replacement_character():
    translator, text = echo(), "the \ud83d dog"
    for split in ("sentences", None):
        assert translator(text, split=split) == translator("the \ufffd dog", split=split)
        assert translator.prepare([text], split)[0].sentences == ["the \ufffd dog"]
    (score,) = translator.score([text], [text])
    assert score == translator.score(["the \ufffd dog"], ["the \ufffd dog"])[0]
    assert len(translator.check_translations([text], [text])) == 1
    assert "the" in explain_translation(translator, text, text).html().encode().decode()
    assert translator.tokenizer.encode([text]) == translator.tokenizer.encode(["the \ufffd dog"])
    assert translator.tokenizer.tokens(text) == translator.tokenizer.tokens("the \ufffd dog")


@pytest.mark.once
def test_a_vocabulary_is_trained_on_texts_with_halves_of_surrogate_pairs():
    sentences = [sentence for pair in sentence_pairs(40) for sentence in pair]
    with_halves = [f"{sentence}\ud800" for sentence in sentences]
    assert Tokenizer.train(with_halves, 100).proto == Tokenizer.train(sentences, 100).proto


@pytest.mark.once
def test_symbols_that_the_vocabulary_lacks_are_copied_and_letters_are_named():
    translator = echo()
    with pytest.warns(UserWarning, match=r"vocabulary lacks \(ж\) in sentences\[0\]"):
        (found,) = translator(["the \N{DOG FACE} dog ж runs \N{CHECK MARK}"])
    assert found.startswith("the \N{DOG FACE} dog") and found.endswith("runs \N{CHECK MARK}")
    check, other = translator.prepare(["the \N{DOG FACE} dog ж", "the ~ dog"])
    assert (check.has_unknown, check.unknown) == (True, "ж")
    assert (other.has_unknown, other.unknown) == (False, "")
    (check,) = translator.check_translations(["the \N{DOG FACE} dog ж"], ["the \N{DOG FACE} dog"])
    assert "The vocabulary lacks: ж." in [finding.message for finding in check.findings]
    # In a placeholder, they are not read.
    assert not translator.prepare(["the {ж} dog"])[0].has_unknown


@pytest.mark.once
def test_a_text_without_a_final_mark_has_none_in_its_translation():
    sources = ["A day", "A day.", "A day…", "Hi!", "What", "“A day.”", "一天", "{x} day:", "etc"]
    translations = ["Ein Tag.", "Ein Tag.", "Ein Tag", "Hi", "Was ?", "Ein Tag.", "。", "x.", "..."]
    found = [with_same_end(*pair) for pair in zip(translations, sources)]
    assert found == ["Ein Tag", "Ein Tag.", "Ein Tag", "Hi", "Was", "Ein Tag.", "。", "x.", "..."]


@pytest.fixture(scope="module")
def translator():
    return kt.Translator.from_preset(MODEL, beam_size=1)


def test_headings_of_files_get_no_full_stop(translator):
    text = "A man reads a book\n\nTwo men sit on a bench."
    assert translator(text).startswith("Ein Mann liest ein Buch.")
    (found,) = translator.translate_units([MarkedText(text)])
    assert found.text == "Ein Mann liest ein Buch\n\nZwei Männer sitzen auf einer Bank."
    ((((other, _),),),) = translator.translate_windows([[text]], same_ends=True)
    assert other == found.text


def test_emoji_stand_where_their_neighbors_stand(translator):
    found = translator("A dog \N{DOG FACE} runs \N{CHECK MARK}.")
    assert found == "Ein Hund \N{DOG FACE} rennt \N{CHECK MARK}."
    assert translator("\N{CHECK MARK}") == "\N{CHECK MARK}"


def test_escaped_tags_of_a_unit_enclose_their_words(translator):
    unit = MarkedText('Two men sit on <a href="x.html">a bench</a>.')
    (found,) = translator.translate_units([unit])
    assert found.text == 'Zwei Männer sitzen auf <a href="x.html">einer Bank</a>.'
    quoted = translator(r"A man gives <b class=\"x\">red balls</b> to a girl.")
    assert r"<b class=\"x\">" in quoted and quoted.index("<b ") < quoted.index("</b>")


def test_the_language_that_a_text_of_html_declares_becomes_the_target():
    translator = echo({"target": "deu_Latn"})
    page = '<p lang="en-US" xml:lang="en">the dog</p><p lang="fr">the cat</p>'
    found = page.replace("en-US", "de").replace('"en"', '"de"')
    assert translator(page, markup="html") == found
    assert echo({"target": "target"})(page, markup="html") == page


@pytest.mark.once
def test_no_white_space_is_left_where_a_model_writes_symbols_that_its_source_lacks():
    class Symbols(Echo):
        def search_batch(self, token_ids, num_results, *_, **__):
            (output,) = self.tokenizer.encode([self.output])
            return np.array([[output]]), np.zeros((1, 1))

    translator = echo(symbols=True)
    translator.__class__ = Symbols
    first, second = SYMBOLS[:2]
    for output in (f"{first} the dog", f"the {first} {second} dog", f"the dog {first}{second}"):
        translator.output = output
        assert translator("the cat") == "the dog"
    translator.output = f"the {first} dog {second}"
    assert translator("the {x} cat") == "the {x} dog"


def test_symbols_are_read_and_written_without_a_pass_for_links(monkeypatch):
    translator = echo(symbols=True)
    monkeypatch.setattr(prepared_text, "word_links", None)  # would raise an error
    texts = ["a dog sees %s and {name}\n\n  the cat runs", "%d", "a https://a.b/c tree", "a cat"]
    for split in ("sentences", "lines"):
        assert translator(texts, split=split) == texts
    assert translator(texts[1:], split=None) == texts[1:]
    (page,) = translator.prepare(["<p>the {x}</p>"])
    assert page.sentences == [f"the {SYMBOLS[0]}"]
    many = " and ".join(f"{{x{i}}}" for i in range(13))
    assert translator(many) == many
