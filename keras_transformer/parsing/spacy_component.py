"""Parser as a component of spaCy's pipelines. Importing this module registers it with spaCy.

```python
import spacy
import keras_transformer.parsing.spacy_component

nlp = spacy.blank("en")
nlp.add_pipe("sentencizer")
nlp.add_pipe("keras_transformer_parser", config={"preset": "saved_models/craft_parser"})
(sentence,) = nlp("The dog runs.").sents
sentence._.parse_string  # "(S (NP (DT The) (NN dog)) (VP (VBZ runs)) (. .))"
[(span.text, span._.labels) for span in sentence._.constituents]
```

Extensions of spans, and of tokens as spans of one token:

- `labels`: tuple of the labels of the constituents that cover exactly the span, the outermost
  first. Empty if there are none.
- `parse_string`: the tree of the span in brackets, or None if it is neither a constituent nor a
  word.
- `constituents`: tuple of the spans of all constituents and words inside, including the span
  itself.
- `children`: tuple of the largest of these spans that are smaller than the span.
- `parent`: the span of the smallest constituent around the span, or None.

The words are spaCy's tokens, except that the parser reads straight quotation marks as two
backquotes or two apostrophes, unless its treebank keeps them (the rules `ewt`). Tokens of white
space and sentences longer than `max_source_length` have no tree. White space at the ends of a span
is ignored.

Trees are stored by the characters that they cover, so `span.as_doc(copy_user_data=True)`,
`Doc.from_docs` and the retokenizer keep them. If tokens are merged, `parse_string` still returns
the words that were parsed, and a constituent that begins or ends within a token is not a span.

(This module is not registered as an entry point of spaCy, because spaCy loads all entry points with
every pipeline, and this one would load Keras.)
"""

import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

from keras_transformer.errors import UserError
from keras_transformer.parsing.traversal import CLOSE, LEAF, walk

try:
    from spacy.language import Language
    from spacy.tokens import Doc, Span, Token
    from spacy.util import minibatch
except ImportError as error:
    raise UserError("spaCy is missing: pip install spacy.") from error

if TYPE_CHECKING:
    from nltk import Tree

    from keras_transformer.parsing.constituency_parser import ConstituencyParser

NAME = "keras_transformer_parser"
# spaCy moves an entry of `user_data` together with its text if the key has this form: ("._.", name,
# first character, character after the last). The name does not need to be an extension.
_KEY = f"{NAME}_nodes"
# First character, character after the last, labels, and tag of a word or None.
_Node: TypeAlias = tuple[int, int, list[str], str | None]
_DOCS = 64  # docs parsed together by default


class ParserComponent:
    """Component that adds trees to the sentences of a doc.

    Args:
        parser: a `ConstituencyParser`.
    """

    def __init__(self, parser: "ConstituencyParser"):
        self.parser = parser

    def __call__(self, doc: Doc) -> Doc:
        """Return a doc with its trees."""
        return next(self.pipe([doc]))

    def pipe(self, stream: Iterable[Doc], batch_size: int = _DOCS) -> Iterator[Doc]:
        """Yield the docs of a stream with their trees, parsing `batch_size` docs together."""
        for docs in minibatch(stream, batch_size):
            tokens = [[_sentence_words(sentence) for sentence in doc.sents] for doc in docs]
            # The English Web Treebank keeps straight quotation marks.
            spelling = _text if self.parser.word_tokenizer == "ewt" else _spelling
            words = [[*map(spelling, sentence)] for doc in tokens for sentence in doc]
            parses = self.parser.parse(words)
            for doc, sentences in zip(docs, tokens):
                trees = [parse.tree for parse in itertools.islice(parses, len(sentences))]
                _remove_trees(doc)
                for span, words, tree in zip(doc.sents, sentences, trees):
                    # A sentence without a tree has an entry too, as a sign that the component ran.
                    nodes = {_characters(span): [[], None]}
                    if tree is not None:
                        nodes |= _nodes(tree, words)
                    for (start, end), node in nodes.items():
                        doc.user_data["._.", _KEY, start, end] = node
                yield doc


@Language.factory(
    NAME,
    default_config={"beam_size": None, "batch_tokens": 1024, "dtype": None},
    requires=["doc.sents"],
)
def make_component(
    nlp: Language,
    name: str,
    preset: str,
    beam_size: int | None,
    batch_tokens: int,
    dtype: str | None,
) -> ParserComponent:
    """Create the component of a preset: see `ConstituencyParser.from_preset`."""
    from keras_transformer.parsing.constituency_parser import ConstituencyParser

    options: dict[str, Any] = {} if beam_size is None else {"beam_size": beam_size}
    parser = ConstituencyParser.from_preset(
        preset, dtype=dtype, batch_tokens=batch_tokens, **options
    )
    return ParserComponent(parser)


def _sentence_words(sentence: Span) -> list[Token]:
    return [token for token in sentence if not token.is_space]


def _text(token: Token) -> str:
    return _one_word(token.text)


def _spelling(token: Token) -> str:
    """Return a word in the spelling of treebanks, with opening and closing quotation marks."""
    if token.text != '"':
        return _text(token)
    before = token.nbor(-1) if token.i else None
    opens = before is None or before.is_space or before.whitespace_ or before.text in "([{"
    return "``" if opens else "''"


def _one_word(text: str) -> str:
    """Replace ASCII spaces, which merged tokens contain, by a space that a word may contain."""
    return re.sub(r"\s", "\u00a0", text, flags=re.ASCII)


def _nodes(tree: "Tree", words: list[Token]) -> dict[tuple[int, int], list[Any]]:
    """Return the nodes of a tree, in the order of a walk.

    Args:
        tree: the tree.
        words: the token of each of its words.

    Returns:
        A dict of (first character, character after the last) -> the labels of the constituents of
        these characters, the outermost first, and the tag of a word or None. The values are plain
        lists, because they are written to disk with the doc.
    """
    nodes, around, position = [], [], 0
    for step, node in walk(tree):
        if step == CLOSE:
            nodes[around.pop()][1] = _end(words[position - 1])
            continue
        nodes.append([words[position].idx, None, node.label(), step == LEAF])
        if step == LEAF:
            nodes[-1][1] = _end(words[position])
            position += 1
        else:
            around.append(len(nodes) - 1)
    found = {}
    for start, end, label, is_word in nodes:
        node = found.setdefault((start, end), [[], None])
        if is_word:
            node[1] = label
        else:
            node[0].append(label)
    return found


def _end(token: Token) -> int:
    return token.idx + len(token.text)


def _characters(span: Span) -> tuple[int, int]:
    """Return the first character and the character after the last, without white space around."""
    words = _sentence_words(span)
    return (words[0].idx, _end(words[-1])) if words else (span.start_char, span.end_char)


def _is_tree_key(key: Any) -> bool:
    return isinstance(key, tuple) and len(key) == 4 and key[:2] == ("._.", _KEY)


def _remove_trees(doc: Doc) -> None:
    for key in [*filter(_is_tree_key, doc.user_data)]:
        del doc.user_data[key]


def _doc_nodes(doc: Doc) -> list[_Node]:
    """Return (first character, character after the last, labels, tag) of each node in the doc."""
    found: list[Any] = [
        (*key[2:], *node) for key, node in doc.user_data.items() if _is_tree_key(key)
    ]
    if not found and len(doc):
        raise UserError(f"The doc has no trees. Expected a pipeline with the component {NAME!r}.")
    # A doc created from a span also has entries of the text around the span.
    length = _end(doc[-1]) if len(doc) else 0
    return [
        (start, end, labels, tag)
        for start, end, labels, tag in found
        if 0 <= start and end <= length and (labels or tag is not None)
    ]


def _inside(span: Span) -> list[_Node]:
    """Return the nodes inside a span, in the order of a walk."""
    begin, stop = _characters(span)
    return [node for node in _doc_nodes(span.doc) if begin <= node[0] and node[1] <= stop]


def _spans(doc: Doc, nodes: Iterable[_Node]) -> tuple[Span, ...]:
    """Return the spans of nodes, without nodes that begin or end within a token."""
    spans = [doc.char_span(start, end) for start, end, *_ in nodes]
    return tuple(span for span in spans if span is not None)


def _labels(span: Span) -> tuple[str, ...]:
    nodes = _inside(span)
    return tuple(nodes[0][2]) if nodes and nodes[0][:2] == _characters(span) else ()


def _parse_string(span: Span) -> str | None:
    from keras_transformer.parsing.brackets import escape

    nodes = _inside(span)
    if not nodes or nodes[0][:2] != _characters(span):
        return None
    parts, ends = [], []
    for start, end, labels, tag in nodes:
        parts += [f"({label}" for label in labels]
        ends += [end] * len(labels)
        if tag is None:
            continue
        word = _one_word(span.doc.text[start:end])
        parts.append(f"({tag} {escape(word)})")
        # A constituent ends with its last word.
        while ends and ends[-1] == end:
            ends.pop()
            parts[-1] += ")"
    return " ".join(parts)


def _constituents(span: Span) -> tuple[Span, ...]:
    return _spans(span.doc, _inside(span))


def _children(span: Span) -> tuple[Span, ...]:
    children, end = [], 0
    for child in _constituents(span):
        if child.start_char >= end and _characters(child) != _characters(span):
            children.append(child)
            end = child.end_char
    return tuple(children)


def _parent(span: Span) -> Span | None:
    begin, stop = _characters(span)
    around = [
        node
        for node in _doc_nodes(span.doc)
        if node[0] <= begin and stop <= node[1] and node[1] - node[0] > stop - begin
    ]
    spans = _spans(span.doc, sorted(around, key=lambda node: node[1] - node[0]))
    return spans[0] if spans else None


def _of_token(get: Callable[[Span], Any]) -> Callable[[Token], Any]:
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
