"""Inputs of EVALB: parameter files, and trees as words, tags and labelled spans.

COLLINS.prm, new.prm and nk.prm lie next to this module as they were published: the first two with
EVALB (Satoshi Sekine, Michael Collins, David Ellis), the third with Nikita Kitaev's copy of it. All
are in the public domain (the Unlicense).
"""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

from keras_transformer.errors import UserError

if TYPE_CHECKING:
    from nltk import Tree

_FOLDER = Path(__file__).parent

# Keyword of a file -> field.
_INTEGERS = {"DEBUG": "debug", "MAX_ERROR": "max_error", "CUTOFF_LEN": "cutoff_length"}
_LABELS = {
    "DELETE_LABEL": "delete_labels",
    "DELETE_LABEL_FOR_LENGTH": "delete_labels_for_length",
    "QUOTE_LABEL": "quote_labels",
}
_PAIRS = {"EQ_LABEL": "equal_labels", "EQ_WORD": "equal_words"}
_KEYWORDS = (*_INTEGERS, "LABELED", *_LABELS, *_PAIRS)


@dataclass(frozen=True)
class Parameters:
    """EVALB's options. The defaults are the defaults of the C program without a file.

    Most published figures were computed with `Parameters.named("COLLINS")`.

    Attributes:
        max_error: the C program stops at error number `max_error + 2`. Here every sentence is
            scored; the command line reports where the C program would have stopped.
        cutoff_length: the largest length of the sentences of the second summary.
        labeled: whether brackets must agree in label, not only in span.
        delete_labels: tags whose words are ignored, and labels whose brackets are ignored without
            their content.
        delete_labels_for_length: tags whose words do not count in a sentence's length. All other
            words count, including the words of `delete_labels`.
        quote_labels: tags of quotes (`'`, `"` or `/`) that are put back if one tree's quote was
            deleted for its tag and the other tree's was not. Both tags must be in this set.
        equal_labels: pairs of labels or tags that count as equal, in both directions.
        equal_words: pairs of words that count as equal, in both directions.
        debug: the C program's level of debugging output, which has no effect here.
    """

    max_error: int = 10
    cutoff_length: int = 40
    labeled: bool = True
    delete_labels: frozenset[str] = frozenset()
    delete_labels_for_length: frozenset[str] = frozenset()
    quote_labels: frozenset[str] = frozenset()
    equal_labels: frozenset[tuple[str, str]] = frozenset()
    equal_words: frozenset[tuple[str, str]] = frozenset()
    debug: int = 0

    @classmethod
    def from_file(cls, path: str | Path) -> "Parameters":
        """Read a parameter file.

        Args:
            path: the file, in the form of EVALB's `.prm` files.

        Returns:
            A `Parameters`.

        Raises:
            UserError: if the file cannot be read, or a line is not valid (the C program ignores
                such a line).
        """
        fields: dict[str, Any] = {name: set() for name in (*_LABELS.values(), *_PAIRS.values())}
        for number, line in enumerate(read_lines(path), start=1):
            line = line.rstrip(" \t\n\r\f\v")
            if line.startswith("#") or len(line) < 3:  # the C program's rule
                continue
            keyword, *values = re.split(r"\s+", line, flags=re.ASCII)
            try:
                _set(fields, keyword, values)
            except ValueError as error:
                raise UserError(f"{path}, line {number}: {error} Received: {line!r}") from None
        for name in (*_LABELS.values(), *_PAIRS.values()):
            fields[name] = frozenset(fields[name])
        return cls(**fields)

    @classmethod
    def named(cls, name: str) -> "Parameters":
        """Return parameters that are in wide use.

        Args:
            name: `"COLLINS"`; `"new"`, which also ignores `S1`, `?` and `!` and puts quotes back;
                or `"nk"`, which is `"new"` with a `max_error` of 10,000.

        Returns:
            A `Parameters`.

        Raises:
            UserError: if the name is unknown.
        """
        if name not in named_parameters():
            raise UserError(
                f"`name` must be one of {', '.join(named_parameters())}. Received: name={name!r}"
            )
        return cls.from_file(_FOLDER / f"{name}.prm")

    def same_label(self, label: str, other: str) -> bool:
        """Return whether two labels or tags count as equal."""
        return _same(label, other, self.equal_labels)

    def same_word(self, word: str, other: str) -> bool:
        """Return whether two words count as equal."""
        return _same(word, other, self.equal_words)

    def deletes_bracket(self, label: str) -> bool:
        """Return whether brackets with a label are ignored."""
        # EVALB deletes brackets by equal labels, but words only by the exact tag.
        return any(self.same_label(label, deleted) for deleted in self.delete_labels)


def named_parameters() -> list[str]:
    """Return the names that `Parameters.named` accepts."""
    return sorted(path.stem for path in _FOLDER.glob("*.prm"))


def read_lines(path: str | Path) -> list[str]:
    """Return the lines of a file, split only at "\\n", as the C program splits them.

    Bytes that are not UTF-8 are kept: EVALB compares bytes, in any encoding.
    """
    try:
        with open(path, encoding="utf-8-sig", errors="surrogateescape", newline="\n") as file:
            return [line.removesuffix("\n") for line in file]
    except FileNotFoundError:
        raise UserError(f"Cannot read the file {path}: it does not exist.") from None
    except OSError as error:
        raise UserError(f"Cannot read the file {path}: {error.strerror}.") from None


def _set(fields: dict[str, Any], keyword: str, values: list[str]) -> None:
    if keyword not in _KEYWORDS:
        raise UserError(f"a line must begin with one of {', '.join(_KEYWORDS)}, or with #.")
    expected = 2 if keyword in _PAIRS else 1
    if len(values) != expected:
        raise UserError(f"{keyword} takes {expected} value{'s' * (expected > 1)}.")
    if keyword in _LABELS:
        fields[_LABELS[keyword]].add(values[0])
    elif keyword in _PAIRS:
        fields[_PAIRS[keyword]].add((values[0], values[1]))
    else:
        if not re.fullmatch(r"[+-]?[0-9]+", values[0]):
            raise UserError(f"{keyword} takes an integer.")
        if keyword == "LABELED":
            fields["labeled"] = int(values[0]) != 0
        else:
            fields[_INTEGERS[keyword]] = int(values[0])


def _same(first: str, second: str, pairs: frozenset[tuple[str, str]]) -> bool:
    return first == second or (first, second) in pairs or (second, first) in pairs


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
