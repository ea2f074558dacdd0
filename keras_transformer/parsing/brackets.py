"""Reader, writer and cleaner of trees in the Penn Treebank's brackets.

The tree type is `nltk.Tree`. A leaf is a tree with one string, the word, and its label is the
part-of-speech tag. Every other tree is a constituent and holds trees. No function of this and the
other modules of trees recurses, so trees may be thousands of brackets deep. nltk is loaded by the
first call, not by the import.
"""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from keras_transformer.data.text_files import read_lines
from keras_transformer.errors import UserError
from keras_transformer.parsing.traversal import CLOSE, LEAF, OPEN, TOP, Step, is_leaf, walk

if TYPE_CHECKING:
    from nltk import Tree

# Words end only at ASCII white space, because some treebanks have a thin space inside a word.
# A leaf on one line is one token, for speed: most of a file is leaves.
_TOKEN = re.compile(r"\(([^()\s]+)\s+([^()\s]+)\)|[()]|[^()\s]+", re.ASCII)
_UNSAFE = re.compile(r"[()\s]", re.ASCII)
_TEXTS: dict[Step, tuple[str, str]] = {OPEN: (" ({}", ""), LEAF: (" ({} ", ")"), CLOSE: (")", "")}
_ESCAPES = {"(": "-LRB-", ")": "-RRB-"}
_ALL_ESCAPES = {**_ESCAPES, "[": "-LSB-", "]": "-RSB-", "{": "-LCB-", "}": "-RCB-"}


def read_trees(path: str | PathLike) -> Iterator["Tree"]:
    """Read the trees of a UTF-8 file, plain or compressed (`.gz`, `.bz2`, `.xz`), without changes.

    A tree may span one or more lines, with or without an empty outer bracket `( (S …) )`. The file
    is streamed: only one tree is in memory at a time. Tags and words such as `-LRB-` are not
    unescaped.

    Args:
        path: the file.

    Returns:
        An iterator over the trees; the label of an empty outer bracket is `""`.

    Raises:
        UserError: while iterating, if the file is missing, empty or not UTF-8, if its brackets are
            not balanced, if there is text outside the trees, or if a tree has an empty bracket or
            a word without a tag. The message names the file and the line.
    """
    path = Path(path)
    return parse_trees(read_lines(path, "trees in Penn-style brackets"), str(path))


def parse_trees(lines: Iterable[str], name: str = "text") -> Iterator["Tree"]:
    """Read trees from lines of text, as `read_trees` reads them from a file.

    Args:
        lines: the lines; a tree may span one or more of them.
        name: name of the text in error messages.

    Returns:
        An iterator over the trees.

    Raises:
        UserError: while iterating, as `read_trees`.
    """
    builder = _TreeBuilder()
    start, first_line, is_empty = 0, "", True
    for number, line in enumerate(lines, start=1):
        for match in _TOKEN.finditer(line):
            if builder.is_between_trees:
                start, first_line = number, line
            try:
                tree = builder.add(*match.group(0, 1, 2))
            except _BadTree as error:
                begin = "" if start == number else f" (the tree begins on line {start})"
                raise UserError(
                    f"{name}, line {number}{begin}: {error} Found: {_beginning(line)}"
                ) from None
            if tree is not None:
                is_empty = False
                yield tree
    if not builder.is_between_trees:
        raise UserError(
            f"{name}, line {start}: the tree that begins here is not closed at the end of the "
            f"text. Expected a ')' for each '('. Found: {_beginning(first_line)}"
        )
    if is_empty:
        raise UserError(f"{name} contains no tree. Expected trees in Penn-style brackets.")


class _BadTree(Exception):
    """A problem of a tree, without its position in the text."""


class _TreeBuilder:
    """Builds trees from a stream of brackets, labels and words."""

    def __init__(self):
        from nltk import Tree

        self._tree = Tree
        # Label (None before it is read) and children of each open bracket, from the root down.
        self._open: list[tuple[str | None, list]] = []

    @property
    def is_between_trees(self) -> bool:
        return not self._open

    def add(self, token: str, tag: str | None, word: str | None) -> "Tree | None":
        """Add the next bracket, label, word or leaf; return a tree when it is complete."""
        if tag is not None:
            return self._put(self._tree(tag, [word]))
        if token == "(":
            self._validate_label()
            self._open.append((None, []))
        elif not self._open:
            problem = "')' without its '('." if token == ")" else "text outside the trees."
            raise _BadTree(f"{problem} Expected trees such as (S (NP (PRP I)) (VP (VBP do))).")
        elif token == ")":
            return self._end()
        elif self._open[-1][0] is None:
            self._open[-1] = (token, self._open[-1][1])
        else:
            self._open[-1][1].append(token)
        return None

    def _validate_label(self) -> None:
        """Require a label of all brackets around a new tree, except the outermost."""
        if self._open and self._open[-1][0] is None:
            # This is where an unclosed tree is noticed: the next tree begins inside it.
            if len(self._open) > 1:
                raise _BadTree(
                    "a bracket without a label inside a tree. Expected (LABEL …); is a ')' missing?"
                )
            self._open[-1] = ("", self._open[-1][1])

    def _end(self) -> "Tree | None":
        label, children = self._open.pop()
        if not children:
            raise _BadTree(f"an empty bracket: ({label or ''}). Expected (TAG word) or (LABEL …).")
        words = [child for child in children if isinstance(child, str)]
        if words and len(children) > 1:
            raise _BadTree(
                f"the word {words[0]!r} has no tag of its own in a bracket of {len(children)} "
                "parts. Expected (TAG word)."
            )
        return self._put(self._tree(label, children))

    def _put(self, tree: "Tree") -> "Tree | None":
        if not self._open:
            return tree
        self._validate_label()
        self._open[-1][1].append(tree)
        return None


def _beginning(line: str) -> str:
    return repr(line.strip()[:60])


def to_bracketed(tree: "Tree") -> str:
    """Write a tree in Penn brackets on one line, as EVALB and other tools read it.

    Args:
        tree: a tree.

    Returns:
        A string, such as `"(S (NP (PRP I)) (VP (VBP do)))"`.

    Raises:
        UserError: if a label or word is empty or has a bracket or white space in it, if a word has
            no tag, or if a constituent is empty.
    """
    parts: list[str] = []
    for step, node in walk(tree):
        label = node.label()
        if step != CLOSE and (label or step == LEAF or node is not tree):
            _safe("label", label)  # only the outermost bracket may lack one
        before, after = text_around(step, label)
        parts += (before, _safe("word", node[0]) if step == LEAF else "", after)
    return "".join(parts).lstrip()


def text_around(step: Step, label: str) -> tuple[str, str]:
    """Return the text that a step writes in brackets, before and after the word of a leaf.

    Args:
        step: `"open"`, `"leaf"` or `"close"`.
        label: the label of the constituent, or the tag of the leaf.

    Returns:
        Two strings. Joined for all steps, with the words between them and without the leading
        space, they are the tree as `to_bracketed` writes it.
    """
    before, after = _TEXTS[step]
    return before.format(label), after


def _safe(what: str, text: str) -> str:
    if not text or _UNSAFE.search(text):
        raise UserError(
            f"A {what} in a bracketed tree must not be empty or contain brackets or white space; "
            f"`escape` writes brackets as -LRB- and -RRB-. Received: {what}={text!r}"
        )
    return text


def escape(word: str) -> str:
    """Replace round brackets in a word as the Penn Treebank does: -LRB- and -RRB-.

    Square brackets and braces stay: they are safe in a tree, and some treebanks do not escape them.

    Args:
        word: a word of running text.

    Returns:
        The word in a form that is safe in a tree.
    """
    for mark, code in _ESCAPES.items():
        word = word.replace(mark, code)
    return word


def unescape(word: str) -> str:
    r"""Replace the Penn Treebank's escapes in a word by running text.

    Args:
        word: a word of a tree.

    Returns:
        The word with brackets for -LRB-, -RRB-, -LSB-, -RSB-, -LCB- and -RCB-, `/` for `\/` and
        `*` for `\*`.
    """
    for mark, code in _ALL_ESCAPES.items():
        word = word.replace(code, mark)
    return word.replace("\\/", "/").replace("\\*", "*")


TRACE = "-NONE-"
# The labels that treebanks and parsers put around a whole sentence.
ROOTS = frozenset({"", TOP, "ROOT", "S1"})

# A separator at the first position belongs to the label, as in the tags "-" and "=".
_BARE_LABEL = re.compile(r".[^-=|]*", re.DOTALL)


def clean_tree(tree: "Tree") -> "Tree | None":
    """Return a copy of a tree without traces, function tags, indices and outer bracket.

    - Traces (`-NONE-`) are removed, and so are the constituents that they leave empty.
    - Labels and tags are cut by `clean_label`.
    - Outer brackets that are empty or labelled TOP, ROOT or S1 are removed if one child is left in
      them. With more children the outer bracket stays, with the label TOP.

    Args:
        tree: a tree.

    Returns:
        The new tree, or None if the tree has only traces.

    Raises:
        UserError: if a word has no tag, or a constituent is empty to begin with.
    """
    from nltk import Tree

    # The kept children of the root and of each open constituent.
    done: list[list[Tree]] = [[]]
    for step, node in walk(tree):
        if step == OPEN:
            done.append([])
        elif step == CLOSE:
            children = done.pop()
            if children:
                done[-1].append(Tree(clean_label(node.label()), children))
        elif node.label() != TRACE:
            done[-1].append(Tree(clean_label(node.label()), [node[0]]))
    return _without_outer_brackets(*done[0]) if done[0] else None


def _without_outer_brackets(root: "Tree") -> "Tree":
    while root.label() in ROOTS and not is_leaf(root):
        if len(root) > 1:
            root.set_label(TOP)
            break
        root = root[0]
    return root


@lru_cache(maxsize=4096)
def clean_label(label: str) -> str:
    """Return a label or tag without function tags and indices.

    Args:
        label: a label or tag, such as `NP-SBJ-1`, `NP=2` or `ADVP|PRT`.

    Returns:
        The text before the first `-`, `=` or `|`: `NP`, `NP` and `ADVP`. Labels that begin with
        `-`, such as `-LRB-`, are returned unchanged.
    """
    match = _BARE_LABEL.match(label)
    return label if match is None or label.startswith("-") else match[0]
