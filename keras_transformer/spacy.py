"""A parser as a component of spaCy's pipelines. Importing this module makes it known to spaCy.

```python
import spacy
import keras_transformer.spacy

nlp = spacy.blank("en")
nlp.add_pipe("sentencizer")
nlp.add_pipe("keras_transformer_parser", config={"preset": "saved_models/craft_parser"})
(sentence,) = nlp("The dog runs.").sents
sentence._.parse_string  # "(S (NP (DT The) (NN dog)) (VP (VBZ runs)) (. .))"
[(span.text, span._.labels) for span in sentence._.constituents]
```

Extensions of spans, and of tokens as spans of one token:

- `labels`: tuple of the labels of the constituents that are exactly the span, the outermost first.
  Empty where there is none.
- `parse_string`: its tree in brackets, or None for a span that is neither a constituent nor a word.
- `constituents`: tuple of spans: those of all constituents inside, itself included, and of words.
- `children`: tuple of the spans of the largest of them that are smaller than the span.
- `parent`: the span of the smallest constituent around, or None.

spaCy's tokens are the words, but for straight quotation marks, which the parser reads as two
backquotes or two apostrophes, as in treebanks. A token of white space is in no tree, neither is a
sentence that is longer than `max_source_length`. (This is no entry point of spaCy: it loads those
wherever it makes a pipeline, and each would load Keras.)
"""

import itertools
import re

from keras_transformer.data.trees.walk import CLOSE, LEAF, walk
from keras_transformer.errors import UserError

try:
    from spacy.language import Language
    from spacy.tokens import Span, Token
    from spacy.util import minibatch
except ImportError as error:
    raise UserError('spaCy is missing: pip install "keras-transformer[spacy]".') from error

NAME = "keras_transformer_parser"
_DOCS = 64  # docs parsed together, where `nlp.pipe` does not say


class ParserComponent:
    """Writes the trees of a doc's sentences into it.

    Args:
        parser: a `ConstituencyParser`.
    """

    def __init__(self, parser):
        self.parser = parser

    def __call__(self, doc):
        return next(self.pipe([doc]))

    def pipe(self, stream, batch_size=_DOCS):
        """The docs of a stream with their trees; the sentences of `batch_size` of them together."""
        for docs in minibatch(stream, batch_size):
            tokens = [[_words_of(sentence) for sentence in doc.sents] for doc in docs]
            words = [[*map(_spelling, sentence)] for doc in tokens for sentence in doc]
            parses = self.parser.parse(words)
            for doc, sentences in zip(docs, tokens):
                trees = [parse.tree for parse in itertools.islice(parses, len(sentences))]
                # Lists of plain values: a doc is written to disk with them.
                doc.user_data[NAME] = [
                    list(node)
                    for sentence, tree in zip(sentences, trees)
                    if tree is not None
                    for node in _nodes(tree, [token.i for token in sentence])
                ]
                yield doc


@Language.factory(
    NAME,
    default_config={"beam_size": None, "batch_tokens": 1024, "dtype": None},
    requires=["doc.sents"],
)
def make_component(
    nlp, name, preset: str, beam_size: int | None, batch_tokens: int, dtype: str | None
):
    """The component of a preset: see `ConstituencyParser.from_preset`."""
    from keras_transformer.tasks.constituency_parser import ConstituencyParser

    options = {} if beam_size is None else {"beam_size": beam_size}
    parser = ConstituencyParser.from_preset(
        preset, dtype=dtype, batch_tokens=batch_tokens, **options
    )
    return ParserComponent(parser)


def _words_of(sentence):
    return [token for token in sentence if not token.is_space]


def _spelling(token):
    """A word as treebanks spell it: a straight quotation mark opens or closes there."""
    if token.text != '"':
        return _one_word(token.text)
    before = token.nbor(-1) if token.i else None
    opens = before is None or before.is_space or before.whitespace_ or before.text in "([{"
    return "``" if opens else "''"


def _one_word(text):
    """Tokens that were merged have a space in them; a word of a tree may have one of Unicode's."""
    return re.sub(r"\s", "\u00a0", text, flags=re.ASCII)


def _nodes(tree, numbers):
    """The nodes of a tree in the order of a walk: (first token, token after the last, label or tag,
    whether it is a word).

    Args:
        tree: the tree.
        numbers: the number of each of its words in the doc.
    """
    nodes, around, position = [], [], 0
    for step, node in walk(tree):
        if step == CLOSE:
            nodes[around.pop()][1] = numbers[position - 1] + 1
            continue
        nodes.append([numbers[position], None, node.label(), step == LEAF])
        if step == LEAF:
            nodes[-1][1] = numbers[position] + 1
            position += 1
        else:
            around.append(len(nodes) - 1)
    return nodes


def _nodes_of(span):
    if NAME not in span.doc.user_data:
        raise UserError(f"The doc has no trees: the pipeline has no component {NAME!r} that ran.")
    return span.doc.user_data[NAME]


def _inside(span):
    """The nodes inside a span in the order of a walk, without those around it."""
    return [node for node in _nodes_of(span) if span.start <= node[0] and node[1] <= span.end]


def _spans(span, nodes):
    """The nodes' spans, each once."""
    return tuple(span.doc[start:end] for start, end in dict.fromkeys((x[0], x[1]) for x in nodes))


def _labels(span):
    return tuple(
        label
        for start, end, label, is_word in _inside(span)
        if (start, end) == (span.start, span.end) and not is_word
    )


def _parse_string(span):
    from keras_transformer.data.trees import escape

    nodes = _inside(span)
    if not nodes or (nodes[0][0], nodes[0][1]) != (span.start, span.end):
        return None
    parts, ends = [], []
    for i, (start, end, label, is_word) in enumerate(nodes):
        text = f"({label} {escape(_one_word(span.doc[start].text))})" if is_word else f"({label}"
        parts.append(f" {text}" if i else text)
        if not is_word:
            ends.append(end)
            continue
        # A constituent ends with its last word.
        while ends and ends[-1] == end:
            ends.pop()
            parts.append(")")
    return "".join(parts)


def _constituents(span):
    return _spans(span, _inside(span))


def _children(span):
    children, end = [], span.start
    for node in _inside(span):
        if node[0] >= end and (node[0], node[1]) != (span.start, span.end):
            children.append(node)
            end = node[1]
    return _spans(span, children)


def _parent(span):
    around = [
        (end - start, start, end)
        for start, end, *_ in _nodes_of(span)
        if start <= span.start and span.end <= end and end - start > span.end - span.start
    ]
    return span.doc[slice(*min(around)[1:])] if around else None


def _of_token(get):
    return lambda token: get(token.doc[token.i : token.i + 1])


for _name, _get in {
    "labels": _labels,
    "parse_string": _parse_string,
    "constituents": _constituents,
    "children": _children,
    "parent": _parent,
}.items():
    Span.set_extension(_name, getter=_get, force=True)
    Token.set_extension(_name, getter=_of_token(_get), force=True)
