"""Linearizations: trees as sequences of symbols, the form in which a sequence model predicts them.

Each linearization is a subclass of `Linearization`. All other code that handles symbols
(training pairs, the grammar of the search, the SavedModel) calls only the methods of the base
class.
"""

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import keras

from keras_transformer.errors import UserError
from keras_transformer.parsing.brackets import text_around
from keras_transformer.parsing.traversal import (
    CLOSE,
    IN_ORDER,
    LEAF,
    OPEN,
    TOP_DOWN,
    UNKNOWN_TAG,
    LabelledStep,
    Order,
    Step,
    TreeBuilder,
    walk,
)

if TYPE_CHECKING:
    from nltk import Tree

_PACKAGE = "keras_transformer"


class SymbolsByLabel(NamedTuple):
    """Symbols grouped by their step, from which the grammar of a search is made."""

    opening: dict[str, str]  # label -> the symbol that opens a constituent
    closing: dict[str, str]  # the same labels in the same order -> the symbol that closes it
    leaves: dict[str, str]  # tag -> the symbol of a leaf


class Linearization(ABC):
    """A way to write trees as sequences of symbols, and to read them back; a base class.

    Each symbol is one step around a tree: it opens a constituent, is a leaf, or closes a
    constituent. Symbols do not repeat the words: leaf number n stands for word number n. A subclass
    defines the symbols, which contain no white space, with `write_step` and `read_symbol`, and the
    order of the steps with `order`. A preset stores the class and its configuration: register your
    own class with `keras.saving.register_keras_serializable` to load such a preset.

    Attributes:
        order: `"top-down"` if a constituent is opened before its first child, `"in-order"` if it is
            opened after it.
    """

    order: ClassVar[Order] = TOP_DOWN

    def __repr__(self) -> str:
        config = ", ".join(f"{name}={value!r}" for name, value in self.get_config().items())
        return f"{type(self).__name__}({config})"

    @abstractmethod
    def write_step(self, step: Step, label: str) -> str:
        """Write a step as a symbol.

        Args:
            step: `"open"`, `"leaf"` or `"close"`.
            label: the label of the constituent, or the tag of the leaf.

        Returns:
            The symbol.

        Raises:
            UserError: if the label cannot be written.
        """

    @abstractmethod
    def read_symbol(self, symbol: str) -> LabelledStep:
        """Read a symbol as a step.

        Args:
            symbol: any string.

        Returns:
            `("open", label)`, `("leaf", tag)` or `("close", label)`; `("close", None)` if the
            symbol closes the innermost constituent of any label; `(None, None)` if it is
            not a symbol of a tree.
        """

    def get_config(self) -> dict[str, Any]:
        """Return the constructor arguments of this linearization, as JSON values."""
        return {}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "Linearization":
        """Create a linearization from the dict that `get_config` returned."""
        return cls(**config)

    def serialize(self) -> dict[str, Any]:
        """Return the class and its configuration as JSON values, for `deserialize`."""
        name = keras.saving.get_registered_name(type(self)).removeprefix(f"{_PACKAGE}>")
        return {"class_name": name, "config": self.get_config()}

    @staticmethod
    def deserialize(serialized: dict[str, Any]) -> "Linearization":
        """Create a linearization from the dict that `serialize` returned.

        Args:
            serialized: a dict with the keys `"class_name"` and `"config"`.

        Returns:
            A `Linearization`.

        Raises:
            UserError: if the dict is damaged, or the class is not registered.
        """
        try:
            name, config = str(serialized["class_name"]), dict(serialized["config"])
        except (KeyError, TypeError, ValueError):
            raise UserError(
                'A serialized linearization must have a "class_name" and a "config". '
                f"Received: {serialized!r}"
            ) from None
        registered = keras.saving.get_registered_object
        linearization_class = registered(f"{_PACKAGE}>{name}") or registered(name)
        if linearization_class is None:
            raise UserError(
                f"Unknown linearization {name!r}. Import the module that defines the class and "
                "registers it with `keras.saving.register_keras_serializable` first."
            )
        try:
            return linearization_class.from_config(config)
        except TypeError as error:
            raise UserError(f"Cannot create {name} from the config {config!r}: {error}") from error

    def linearize(self, tree: "Tree") -> tuple[list[str], list[str]]:
        """Split a tree into its words and its symbols.

        Args:
            tree: a tree, clean or not.

        Returns:
            The words and the symbols, from which `rebuild` makes the tree again.

        Raises:
            UserError: if a label cannot be written, a word has no tag, or a constituent is empty.
        """
        words, symbols = [], []
        for step, node in walk(tree, self.order):
            if step == LEAF:
                words.append(node[0])
            symbols.append(self.write_step(step, node.label()))
        return words, symbols

    def rebuild(self, words: Sequence[str], symbols: Sequence[str]) -> "Tree":
        """Build the tree that `linearize` split.

        Args:
            words: the words of the sentence.
            symbols: the symbols of the tree. For other symbols see `repair`.

        Returns:
            The tree.

        Raises:
            UserError: if the symbols do not form exactly one tree over exactly these words.
        """
        tree, repairs = self.repair(words, symbols)
        if repairs:
            raise UserError(
                f"The symbols must form one tree over the {len(words)} words; `repair` builds a "
                f"tree from any symbols. Received: symbols that need the repairs {dict(repairs)}"
            )
        return tree

    def repair(self, words: Sequence[str], symbols: Sequence[str]) -> tuple["Tree", Counter[str]]:
        """Build a tree over the words from any symbols, and count the repairs.

        Args:
            words: the words of the sentence, at least one.
            symbols: any strings.

        Returns:
            A tree whose leaves are exactly the words and whose constituents all have words, and the
            number of repairs by kind: see `TreeBuilder`, and `"unknown_symbol"` for a string that
            is not a symbol and is left out. There are none for the symbols of a tree.

        Raises:
            UserError: if there are no words.
        """
        builder = TreeBuilder(words, self.order)
        for symbol in symbols:
            step, label = self.read_symbol(symbol)
            if step:
                builder.add(step, label)
            else:
                builder.repairs["unknown_symbol"] += 1
        return builder.tree(), builder.repairs

    def by_label(self, symbols: Iterable[str]) -> SymbolsByLabel:
        """Group symbols by their step.

        Args:
            symbols: the symbols of a vocabulary.

        Returns:
            `SymbolsByLabel`, without the labels that no symbol closes.
        """
        opening: dict[str, str] = {}
        leaves: dict[str, str] = {}
        closing: dict[str | None, str] = {}
        for symbol in symbols:
            step, label = self.read_symbol(symbol)
            if step == CLOSE:
                closing[label] = symbol
            elif step == OPEN and label is not None:
                opening[label] = symbol
            elif step == LEAF and label is not None:
                leaves[label] = symbol
        closers = {label: closing.get(label, closing.get(None)) for label in opening}
        closed = {label: symbol for label, symbol in closers.items() if symbol is not None}
        return SymbolsByLabel({label: opening[label] for label in closed}, closed, leaves)

    def text_around(self, symbol: str) -> tuple[str, str]:
        """Return the text that a symbol adds to a bracketed tree, before and after its word.

        Args:
            symbol: a symbol. If it is not a leaf, it has no word between the two texts.

        Returns:
            Two strings, such as `(" (NN ", ")")` for a leaf with the tag NN.

        Raises:
            UserError: if it is not a symbol of a tree.
        """
        step, label = self.read_symbol(symbol)
        if step is None:
            raise UserError(f"Expected a symbol of {self}. Received: {symbol!r}")
        return text_around(step, label or "")


_LABEL = r"[^()\s]+"
_PATTERNS: dict[Step, re.Pattern[str]] = {
    OPEN: re.compile(rf"\(({_LABEL})", re.ASCII),
    LEAF: re.compile(rf"\(({_LABEL})\)", re.ASCII),
    CLOSE: re.compile(rf"\)({_LABEL})", re.ASCII),
}
_FORMS = {OPEN: "({}", LEAF: "({})", CLOSE: "){}"}


@keras.saving.register_keras_serializable(package=_PACKAGE)
@dataclass(frozen=True)
class LabelledBrackets(Linearization):
    """Opening and closing brackets that both have the label, and leaves that are tags.

    `(NP` opens a constituent, `)NP` closes it, and `(NN)` is a leaf with its tag. So
    `(S (NP (DT The) (NN dog)) (VP (VBZ runs)))` becomes

        ["The", "dog", "runs"]
        ["(S", "(NP", "(DT)", "(NN)", ")NP", "(VP", "(VBZ)", ")VP", ")S"]

    Args:
        keep_tags: whether a leaf has its own tag. Otherwise each leaf is `(XX)`.
    """

    keep_tags: bool = True

    def write_step(self, step: Step, label: str) -> str:
        return _write_symbol(step, UNKNOWN_TAG if step == LEAF and not self.keep_tags else label)

    def read_symbol(self, symbol: str) -> LabelledStep:
        return _read_symbol(symbol)

    def get_config(self) -> dict[str, Any]:
        return {"keep_tags": self.keep_tags}


@keras.saving.register_keras_serializable(package=_PACKAGE)
@dataclass(frozen=True)
class InOrderBrackets(LabelledBrackets):
    """The symbols of `LabelledBrackets`, with each constituent opened after its first child.

    This is the order of in-order transitions (Liu and Zhang, 2017), which Fernández-González and
    Gómez-Rodríguez (2020) write with a sequence model. When the model predicts a label, it already
    knows the first child of the constituent. `(S (NP (DT The) (NN dog)) (VP (VBZ runs)))` becomes

        ["The", "dog", "runs"]
        ["(DT)", "(NP", "(NN)", ")NP", "(S", "(VBZ)", "(VP", ")VP", ")S"]

    Args:
        keep_tags: whether a leaf has its own tag. Otherwise each leaf is `(XX)`.
    """

    order: ClassVar[Order] = IN_ORDER


LABELLED_BRACKETS = LabelledBrackets()


def most_openings(tree: "Tree", linearization: Linearization = LABELLED_BRACKETS) -> int:
    """Return the largest number of constituents that are opened between two words of a tree.

    Args:
        tree: a tree.
        linearization: the `Linearization` that orders the steps. Top-down, constituents that begin
            before the same word are opened together; in-order, constituents whose first child ends
            with the same word.

    Returns:
        An integer.
    """
    most = openings = 0
    for step, _ in walk(tree, linearization.order):
        openings = 0 if step == LEAF else openings + (step == OPEN)
        most = max(most, openings)
    return most


@lru_cache(maxsize=4096)
def _read_symbol(symbol: str) -> LabelledStep:
    for step, pattern in _PATTERNS.items():
        if match := pattern.fullmatch(symbol):
            return step, match.group(1)
    return None, None


@lru_cache(maxsize=4096)
def _write_symbol(step: Step, label: str) -> str:
    symbol = _FORMS[step].format(label)
    if _read_symbol(symbol) != (step, label):
        raise UserError(
            "A label in a tree must not be empty, and must not contain brackets or white space. "
            f"Received: label={label!r}"
        )
    return symbol
