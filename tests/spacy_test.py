import subprocess
import sys

import pytest

from keras_transformer.data.trees import parse_trees, to_bracketed
from tests.small_trees import new_parser

spacy = pytest.importorskip("spacy", reason="spaCy is not installed")
from keras_transformer.spacy import NAME, ParserComponent  # noqa: E402

TEXTS = ["The dog runs. He  sees (it)!", "", "\n ", "A cat sleeps."]
TREE = "(S (NP (DT The) (NN dog)) (VP (VBZ runs) (NP (NP (PRP it)))) (. .))"


class _Parser:
    """One that gives the same tree over any five words."""

    def parse(self, sentences):
        from keras_transformer.tasks.parses import Parse

        (tree,) = parse_trees([TREE])
        return iter([Parse(tree if len(x) == 5 else None, 0.0, {}) for x in sentences])


@pytest.fixture(scope="module")
def nlp(tmp_path_factory):
    preset = tmp_path_factory.mktemp("spacy") / "preset"
    new_parser().save_to_preset(preset)
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.add_pipe(NAME, config={"preset": str(preset), "beam_size": 2, "batch_tokens": 256})
    return nlp


def test_trees_are_those_of_the_parser_over_spacy_s_tokens(nlp):
    parser = nlp.get_pipe(NAME).parser
    assert parser.search.beam_size == 2 and parser.batch_tokens == 256
    sentences = list(nlp(TEXTS[0]).sents)
    for sentence in sentences:
        words = [token.text for token in sentence if not token.is_space]
        assert sentence._.parse_string == to_bracketed(parser([words])[0])
    assert sentences[1]._.parse_string.count("-LRB- it") == 0
    assert "-LRB-" in sentences[1]._.parse_string


def test_batches_are_as_single_docs(nlp):
    def strings(doc):
        return [sentence._.parse_string for sentence in doc.sents]

    piped = list(nlp.pipe(TEXTS, batch_size=3))
    assert [doc.text for doc in piped] == TEXTS
    assert list(map(strings, piped)) == [strings(nlp(text)) for text in TEXTS]
    assert strings(piped[1]) == [] and strings(piped[2]) in ([], [None])
    stored = spacy.tokens.Doc(nlp.vocab).from_bytes(piped[0].to_bytes())
    assert strings(stored) == strings(piped[0])


def test_extensions():
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


def test_a_doc_without_trees():
    with pytest.raises(ValueError, match="The doc has no trees"):
        spacy.blank("en")("He runs.")[0:1]._.labels  # noqa: B018


@pytest.mark.slow
@pytest.mark.once
def test_without_spacy():
    program = "import sys; sys.modules['spacy'] = None; import keras_transformer.spacy"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "keras-transformer[spacy]" in ended.stderr.splitlines()[-1]


def test_tokens_that_were_merged(nlp):
    doc = spacy.tokens.Doc(nlp.vocab, ["New York", "runs", "."], sent_starts=[True, False, False])
    (sentence,) = nlp.get_pipe(NAME)(doc).sents
    (tree,) = parse_trees([sentence._.parse_string])
    assert tree.leaves() == ["New\u00a0York", "runs", "."]


def test_straight_quotation_marks_are_read_as_in_treebanks():
    read = []

    class Reader(_Parser):
        def parse(self, sentences):
            read.extend(sentences)
            return super().parse(sentences)

    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    (doc,) = ParserComponent(Reader()).pipe([nlp('"No", he said ("yes" ).')])
    words = ["``", "No", "''", ",", "he", "said", "(", "``", "yes", "''", ")", "."]
    assert read == [words] and doc[0].text == '"'
