"""A tree as EVALB reads it: words, tags and labelled spans, without deleted words."""

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeGuard

from keras_transformer.errors import UserError
from keras_transformer.parsing.evalb.parameters import Parameters

if TYPE_CHECKING:
    from nltk import Tree

# "(TAG word)", an opening bracket with its label, a closing bracket, or misplaced text.
# Only ASCII spaces separate: a no-break space belongs to its word.
_TOKEN = re.compile(r"\((?P<label>[^\s()]*)(?:\s+(?P<word>[^\s()]*)\))?|\)|[^\s()]+", re.ASCII)
_END = object()
_QUOTES = ("'", '"', "/")


@dataclass
class Bracket:
    """A label, and the range of its words; deleted words are not counted."""

    label: str
    start: int
    end: int


@dataclass
class Quote:
    """A quote that may be put back.

    Attributes:
        word: the quote.
        tag: its part of speech.
        position: number of kept words before it.
        num_opened: number of brackets opened before it.
        enclosing: the brackets that are open around it.
    """

    word: str
    tag: str
    position: int
    num_opened: int
    enclosing: tuple[Bracket, ...]


@dataclass
class Sentence:
    """The kept words of a tree, their tags, and the brackets in the order of their opening.

    `length` also counts deleted words; `open_brackets` is empty after reading.
    """

    parameters: Parameters
    words: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    brackets: list[Bracket] = field(default_factory=list)
    quotes: list[Quote] = field(default_factory=list)
    length: int = 0
    open_brackets: list[Bracket] = field(default_factory=list)

    def open(self, label: str) -> None:
        bracket = Bracket(label, len(self.words), len(self.words))
        self.brackets.append(bracket)
        self.open_brackets.append(bracket)

    def close(self) -> None:
        self.open_brackets.pop().end = len(self.words)

    def add_word(self, tag: str, word: str) -> None:
        if tag not in self.parameters.delete_labels_for_length:
            self.length += 1
        if tag in self.parameters.quote_labels and word in _QUOTES:
            enclosing = tuple(self.open_brackets)
            self.quotes.append(Quote(word, tag, len(self.words), len(self.brackets), enclosing))
        if tag not in self.parameters.delete_labels:
            self.words.append(word)
            self.tags.append(tag)

    def put_back(self, number: int) -> None:
        """Insert the deleted quote `number` among the words."""
        quote = self.quotes[number]
        self.words.insert(quote.position, quote.word)
        self.tags.insert(quote.position, quote.tag)
        for bracket in self.brackets[quote.num_opened :]:
            bracket.start += 1
            bracket.end += 1
        for bracket in quote.enclosing:
            bracket.end += 1
        for later in self.quotes[number:]:
            later.position += 1


def read_sentence(tree: "Tree | str", parameters: Parameters) -> Sentence:
    """Read a bracketed string or an `nltk.Tree`.

    Raises:
        UserError: if brackets are not balanced, or a word is not alone under its tag.
    """
    sentence = Sentence(parameters)
    if isinstance(tree, str):
        _read_string(tree, sentence)
    elif _is_tree(tree):
        _read_tree(tree, sentence)
    else:
        raise UserError(f"Expected an nltk Tree or a bracketed string, not {type(tree).__name__}.")
    return sentence


def _read_string(text: str, sentence: Sentence) -> None:
    for token in _TOKEN.finditer(text):
        label, word = token["label"], token["word"]
        if word is not None:
            sentence.add_word(label, word)
        elif label is not None:
            sentence.open(label)
        elif token[0] != ")":
            raise UserError(f"expected a bracket, not {token[0]!r}. Write words as (TAG word).")
        elif not sentence.open_brackets:
            raise UserError("a closing bracket has no opening bracket.")
        else:
            sentence.close()
    if sentence.open_brackets:
        raise UserError(f"{len(sentence.open_brackets)} brackets are not closed.")


def _read_tree(tree: "Tree", sentence: Sentence) -> None:
    """Walk without recursion, because a parser's output can nest deeper than Python's stack."""
    waiting = [iter([tree])]
    while waiting:
        node: Any = next(waiting[-1], _END)
        if node is _END:
            waiting.pop()
            if waiting:
                sentence.close()
        elif not _is_tree(node):
            raise UserError(f"the word {node!r} is not alone under its tag.")
        elif len(node) == 1 and not _is_tree(node[0]):
            sentence.add_word(node.label(), node[0])
        else:
            sentence.open(node.label())
            waiting.append(iter(node))


def _is_tree(node: Any) -> "TypeGuard[Tree]":
    return hasattr(node, "label")
