import subprocess
import sys

import pytest

from keras_transformer.parsing.brackets import parse_trees, to_bracketed
from tests.parsing.small_trees import new_parser

spacy = pytest.importorskip("spacy", reason="spaCy is not installed")
from keras_transformer.parsing.spacy_component import NAME, ParserComponent  # noqa: E402

TEXTS = ["The dog runs. He  sees (it)!", "", "\n ", "A cat sleeps."]
TREE = "(S (NP (DT The) (NN dog)) (VP (VBZ runs) (NP (NP (PRP it)))) (. .))"
SHORT = "(S (NP (PRP He)) (VP (VBZ sleeps)) (. .))"


class _Parser:
    """A parser that returns the same tree over any five words, and over any three."""

    word_tokenizer = "treebank"

    def parse(self, sentences):
        from keras_transformer.parsing.parser_tokens import Parse

        trees = {len(tree.leaves()): tree for tree in parse_trees([TREE, SHORT])}
        return iter([Parse(trees.get(len(x)), 0.0, {}) for x in sentences])


@pytest.fixture
def doc():
    """Return two sentences with trees; the second begins with a line break."""
    words = ["The", "dog", "runs", "it", ".", "\n", "He", "sleeps", "."]
    spaces = [True, True, True, False, False, False, True, False, False]
    starts = [i in (0, 5) for i in range(len(words))]
    doc = spacy.tokens.Doc(spacy.blank("en").vocab, words, spaces, sent_starts=starts)
    return ParserComponent(_Parser())(doc)


def strings(doc):
    return [sentence._.parse_string for sentence in doc.sents]


@pytest.fixture(scope="module")
def nlp(tmp_path_factory):
    preset = tmp_path_factory.mktemp("spacy") / "preset"
    new_parser().save_to_preset(preset)
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.add_pipe(NAME, config={"preset": str(preset), "beam_size": 2, "batch_tokens": 256})
    return nlp


def test_trees_equal_the_parsers_over_the_tokens_of_spacy(nlp):
    parser = nlp.get_pipe(NAME).parser
    assert parser.search.beam_size == 2 and parser.batch_tokens == 256
    sentences = list(nlp(TEXTS[0]).sents)
    for sentence in sentences:
        words = [token.text for token in sentence if not token.is_space]
        assert sentence._.parse_string == to_bracketed(parser([words])[0])
    assert sentences[1]._.parse_string.count("-LRB- it") == 0
    assert "-LRB-" in sentences[1]._.parse_string


def test_batches_give_the_trees_of_single_docs(nlp):
    piped = list(nlp.pipe(TEXTS, batch_size=3))
    assert [doc.text for doc in piped] == TEXTS
    assert list(map(strings, piped)) == [strings(nlp(text)) for text in TEXTS]
    assert strings(piped[1]) == [] and strings(piped[2]) in ([], [None])
    stored = spacy.tokens.Doc(nlp.vocab).from_bytes(piped[0].to_bytes())
    assert strings(stored) == strings(piped[0])


def test_spans_have_the_labels_children_and_parents_of_the_tree():
    doc = spacy.tokens.Doc(spacy.blank("en").vocab, ["The", "dog", " ", "runs", "it", "."])
    for token in doc:
        token.is_sent_start = token.i == 0
    doc = ParserComponent(_Parser())(doc)
    sentence = doc[0:6]
    assert sentence._.labels == ("S",) and sentence._.parse_string == TREE
    assert [x.text.split() for x in sentence._.children] == [["The", "dog"], ["runs", "it"], ["."]]
    assert [(x.start, x.end) for x in sentence._.constituents] == [
        *((0, 6), (0, 2), (0, 1), (1, 2), (3, 5), (3, 4), (4, 5), (5, 6)),
    ]
    assert sentence._.parent is None
    # A chain of constituents is one span of several labels.
    assert doc[4]._.labels == ("NP", "NP") and doc[4]._.parse_string == "(NP (NP (PRP it)))"
    assert doc[4]._.parent.text == "runs it" and doc[4]._.children == ()
    assert doc[0]._.labels == () and doc[0]._.parse_string == "(DT The)"
    assert doc[1:4]._.labels == () and doc[1:4]._.parse_string is None
    assert doc[2]._.parse_string is None


def test_white_space_around_a_sentence_is_ignored(doc):
    first, second = doc.sents
    assert second.text.startswith("\n") and strings(doc) == [TREE, SHORT]
    assert second._.labels == ("S",) and second._.parent is None
    assert [span.text for span in second._.children] == ["He", "sleeps", "."]
    assert [span.text for span in first._.children] == ["The dog", "runs it", "."]
    assert doc[5:6]._.labels == () and doc[5:6]._.parse_string is None
    assert doc[2:2]._.labels == () and doc[2:2]._.constituents == ()


def test_a_doc_of_a_span_keeps_its_trees(doc):
    first, second = doc.sents
    assert strings(first.as_doc(copy_user_data=True)) == [TREE]
    copy = second.as_doc(copy_user_data=True)
    assert strings(copy) == [SHORT]
    assert [(x.start, x.end) for x in copy[:]._.constituents] == [(1, 4), (1, 2), (2, 3), (3, 4)]
    phrase = doc[2:4].as_doc(copy_user_data=True)[:]
    assert phrase._.parse_string == "(VP (VBZ runs) (NP (NP (PRP it))))" and phrase._.parent is None
    assert doc[5:6].as_doc(copy_user_data=True)[:]._.labels == ()


def test_joined_docs_keep_their_trees(doc):
    (other,) = ParserComponent(_Parser()).pipe([doc[5:].as_doc()])
    joined = spacy.tokens.Doc.from_docs([doc, other])
    assert strings(joined) == [TREE, SHORT, SHORT]
    assert joined[len(doc) + 1]._.parent.text == "He sleeps."


def test_trees_survive_merged_and_split_tokens(doc):
    with doc.retokenize() as retokenizer:
        retokenizer.merge(doc[0:2])
        retokenizer.split(doc[7], ["sle", "eps"], [(doc[6], 0), (doc[6], 0)])
    assert [token.text for token in doc][:2] == ["The dog", "runs"]
    assert strings(doc) == [TREE, SHORT]
    sentence, second = doc.sents
    assert [x.text for x in sentence._.children] == ["The dog", "runs it", "."]
    assert doc[0]._.parse_string == "(NP (DT The) (NN dog))" and doc[0]._.labels == ("NP",)
    assert doc[0]._.children == () and doc[0]._.parent == sentence
    assert [x.text for x in second._.children] == ["He", "sleeps", "."]
    assert second[-2]._.labels == () and second[-2]._.parent.text == "sleeps"
    # The merged token spans the border of two constituents.
    with doc.retokenize() as retokenizer:
        retokenizer.merge(doc[0:2])
    assert strings(doc) == [TREE, SHORT]
    assert [x.text for x in doc[0:3]._.constituents] == ["The dog runs it.", "it", "."]
    assert doc[0]._.labels == () and doc[0]._.parse_string is None


def test_a_second_run_replaces_the_trees(doc):
    with doc.retokenize() as retokenizer:
        retokenizer.merge(doc[0:3])
    doc = ParserComponent(_Parser())(doc)
    words = "(S (NP (PRP The\u00a0dog\u00a0runs)) (VP (VBZ it)) (. .))"
    assert strings(doc) == [words, SHORT]


def test_a_doc_without_trees_is_an_error():
    with pytest.raises(ValueError, match="The doc has no trees"):
        spacy.blank("en")("He runs.")[0:1]._.labels  # noqa: B018


@pytest.mark.slow
@pytest.mark.once
def test_a_missing_spacy_is_reported_with_its_extra():
    program = (
        "import sys; sys.modules['spacy'] = None; import keras_transformer.parsing.spacy_component"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "pip install spacy" in ended.stderr.splitlines()[-1]


def test_a_merged_token_is_one_word(nlp):
    doc = spacy.tokens.Doc(nlp.vocab, ["New York", "runs", "."], sent_starts=[True, False, False])
    (sentence,) = nlp.get_pipe(NAME)(doc).sents
    (tree,) = parse_trees([sentence._.parse_string])
    assert tree.leaves() == ["New\u00a0York", "runs", "."]


QUOTED = ["``", "No", "''", ",", "he", "said", "(", "``", "yes", "''", ")", "."]


@pytest.mark.parametrize(
    ("rules", "words"),
    [("treebank", QUOTED), ("ewt", ['"' if word in "``''" else word for word in QUOTED])],
)
def test_straight_quotation_marks_are_read_as_in_the_treebank_of_the_parser(rules, words):
    read = []

    class Reader(_Parser):
        word_tokenizer = rules

        def parse(self, sentences):
            read.extend(sentences)
            return super().parse(sentences)

    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    (doc,) = ParserComponent(Reader()).pipe([nlp('"No", he said ("yes" ).')])
    assert read == [words] and doc[0].text == '"'
