"""Linearisations: trees as sequences of symbols, the form in which a sequence model predicts them.

Another linearisation is another subclass of `Linearization`. What else has to do with symbols (the
readers, `repair`, the pairs that a model learns from, the grammar of its search, the writer of
the SavedModel) knows them by what the subclass says of them.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from keras_transformer.errors import UserError
from keras_transformer.parsing.trees.brackets import text_around
from keras_transformer.parsing.trees.traversal import (
    CLOSE,
    IN_ORDER,
    LEAF,
    OPEN,
    TOP_DOWN,
    LabelledStep,
    Order,
    Step,
    walk,
)
from keras_transformer.parsing.trees.tree_builder import new_reader, not_a_tree

if TYPE_CHECKING:
    from nltk import Tree

# The tag in the place of all tags where they are not kept (Vinyals et al. 2015), and the tag of a
# word for which none was predicted.
UNKNOWN_TAG = "XX"


class SymbolsByLabel(NamedTuple):
    """Some symbols by what they do: what the grammar of a search is made from."""

    opening: dict[str, str]  # label -> the symbol that opens a constituent
    closing: dict[str, str]  # the same labels in the same order -> the symbol that closes it
    leaves: dict[str, str]  # tag -> the symbol of a leaf


class Linearization(ABC):
    """Trees as sequences of symbols, and back; a base class.

    Each symbol is one step around a tree: it opens a constituent, is a leaf, or closes
    a constituent. The words are not repeated in the symbols: the n-th leaf stands for the n-th
    word. A subclass says with `symbol_of` and `step_of` how the steps are written, without white
    space, and with `order` which step comes first; the rest follows. A preset names the subclass
    and its configuration.

    Attributes:
        order: `"top-down"` if a constituent is opened before its first child, `"in-order"` if it is
            opened after it.
    """

    order: ClassVar[Order] = TOP_DOWN
    _subclasses: ClassVar[dict[str, type["Linearization"]]] = {}

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        Linearization._subclasses[cls.__name__] = cls

    def __repr__(self) -> str:
        config = ", ".join(f"{name}={value!r}" for name, value in self.get_config().items())
        return f"{type(self).__name__}({config})"

    @abstractmethod
    def symbol_of(self, step: Step, label: str) -> str:
        """Writes a step.

        Args:
            step: `"open"`, `"leaf"` or `"close"`.
            label: the label of the constituent, or the tag of the leaf.

        Returns:
            The symbol.

        Raises:
            UserError: if the label cannot be written.
        """

    @abstractmethod
    def step_of(self, symbol: str) -> LabelledStep:
        """Tells what a symbol does.

        Args:
            symbol: any string.

        Returns:
            `("open", label)`, `("leaf", tag)` or `("close", label)`; `("close", None)` if the
            symbol closes the innermost constituent, whatever its label; `(None, None)` if it is no
            symbol of a tree.
        """

    def get_config(self) -> dict[str, Any]:
        """The arguments that make the same linearisation, as JSON values."""
        return {}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "Linearization":
        """Makes what `get_config` is of."""
        return cls(**config)

    def serialize(self) -> dict[str, Any]:
        """The class and its arguments, as JSON values: see `deserialize`."""
        return {"class_name": type(self).__name__, "config": self.get_config()}

    @staticmethod
    def deserialize(serialized: dict[str, Any]) -> "Linearization":
        """Makes what `serialize` wrote.

        Raises:
            UserError: if it is damaged, or there is no such class.
        """
        try:
            name, config = str(serialized["class_name"]), dict(serialized["config"])
        except (KeyError, TypeError, ValueError):
            raise UserError(
                'A linearization is described by its "class_name" and its "config". '
                f"Received: {serialized!r}"
            ) from None
        if name not in Linearization._subclasses:
            raise UserError(
                f"There is no linearization {name!r}, only {', '.join(Linearization._subclasses)}. "
                "If it is a class of your own, import its module first."
            )
        try:
            return Linearization._subclasses[name].from_config(config)
        except TypeError as error:
            raise UserError(f"No {name} has the configuration {config!r}: {error}") from error

    def linearize(self, tree: "Tree") -> tuple[list[str], list[str]]:
        """Takes a tree apart into its words and its structure.

        Args:
            tree: a tree, clean or not.

        Returns:
            The words and the symbols. `rebuild` makes the tree of them again.

        Raises:
            UserError: if a label cannot be written, if a word has no tag, or if a constituent is
                empty.
        """
        words, symbols = [], []
        for step, node in walk(tree, self.order):
            if step == LEAF:
                words.append(node[0])
            symbols.append(self.symbol_of(step, node.label()))
        return words, symbols

    def rebuild(self, words: Sequence[str], symbols: Sequence[str]) -> "Tree":
        """Puts a tree together that `linearize` took apart.

        Args:
            words: the words of the sentence.
            symbols: the symbols of the tree. For any others see `repair`.

        Returns:
            The tree.

        Raises:
            UserError: if the symbols do not form exactly one tree over exactly these words.
        """
        reader = new_reader(self.order, words)
        for position, symbol in enumerate(symbols):
            step, label = self.step_of(symbol)
            problem = reader.take(step, label) if step else f"is none of {self._examples()}"
            if problem:
                raise not_a_tree(f"symbol {position}, {symbol!r}, {problem}")
        return reader.tree()

    def inventory(self, trees: Iterable["Tree"]) -> list[str]:
        """The distinct symbols of some trees, for the vocabulary of a model.

        Args:
            trees: the trees.

        Returns:
            The symbols, sorted.

        Raises:
            UserError: as `linearize`.
        """
        return sorted({symbol for tree in trees for symbol in self.linearize(tree)[1]})

    def by_label(self, symbols: Iterable[str]) -> SymbolsByLabel:
        """Sorts symbols by what they do.

        Args:
            symbols: the symbols of a vocabulary.

        Returns:
            `SymbolsByLabel`, without the labels of which there is no symbol that closes them.
        """
        of_step: dict[Step, dict[str | None, str]] = {OPEN: {}, LEAF: {}, CLOSE: {}}
        for symbol in symbols:
            step, label = self.step_of(symbol)
            if step:
                of_step[step][label] = symbol
        closing = of_step[CLOSE]
        pairs = {
            label: (opening, closing.get(label, closing.get(None)))
            for label, opening in of_step[OPEN].items()
            if label in closing or None in closing
        }
        return SymbolsByLabel(
            {label: opening for label, (opening, _) in pairs.items()},
            {label: closing for label, (_, closing) in pairs.items()},
            of_step[LEAF],
        )

    def text_around(self, symbol: str) -> tuple[str, str]:
        """What a symbol writes into a bracketed tree: before its word, and after it.

        Args:
            symbol: a symbol. One that is no leaf has no word: both texts stand together.

        Returns:
            Such as `(" (NN ", ")")` for a leaf tagged NN.
        """
        step, label = self.step_of(symbol)
        return text_around(step, label or "")

    def _examples(self) -> str:
        opening, leaf, closing = (
            repr(self.symbol_of(step, label))
            for step, label in ((OPEN, "NP"), (LEAF, "NN"), (CLOSE, "NP"))
        )
        return f"{opening}, {leaf} and {closing}"


_LABEL = r"[^()\s]+"
_PATTERNS = {
    OPEN: re.compile(rf"\(({_LABEL})", re.ASCII),
    LEAF: re.compile(rf"\(({_LABEL})\)", re.ASCII),
    CLOSE: re.compile(rf"\)({_LABEL})", re.ASCII),
}
_FORMS = {OPEN: "({}", LEAF: "({})", CLOSE: "){}"}


@dataclass(frozen=True)
class LabelledBrackets(Linearization):
    """Opening and closing brackets that both bear the label, and leaves that are tags.

    `(NP` opens a constituent, `)NP` closes it, and `(NN)` is a leaf with its tag. So
    `(S (NP (DT The) (NN dog)) (VP (VBZ runs)))` becomes

        ["The", "dog", "runs"]
        ["(S", "(NP", "(DT)", "(NN)", ")NP", "(VP", "(VBZ)", ")VP", ")S"]

    Args:
        keep_tags: whether a leaf bears its own tag. Otherwise each leaf is `(XX)`.
    """

    keep_tags: bool = True

    def symbol_of(self, step: Step, label: str) -> str:
        return _write_symbol(step, UNKNOWN_TAG if step == LEAF and not self.keep_tags else label)

    def step_of(self, symbol: str) -> LabelledStep:
        return _read_symbol(symbol)

    def get_config(self) -> dict[str, Any]:
        return {"keep_tags": self.keep_tags}


@dataclass(frozen=True)
class InOrderBrackets(LabelledBrackets):
    """The symbols of `LabelledBrackets`, with each constituent opened after its first child.

    That is the order of in-order transitions (Liu and Zhang, 2017), written by a sequence model as
    Fernández-González and Gómez-Rodríguez (2020) do: what a constituent begins with is known when
    its label is to be told. `(S (NP (DT The) (NN dog)) (VP (VBZ runs)))` becomes

        ["The", "dog", "runs"]
        ["(DT)", "(NP", "(NN)", ")NP", "(S", "(VBZ)", "(VP", ")VP", ")S"]

    Args:
        keep_tags: whether a leaf bears its own tag. Otherwise each leaf is `(XX)`.
    """

    order: ClassVar[Order] = IN_ORDER


LABELLED_BRACKETS = LabelledBrackets()


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
            "A label in a tree must be free of brackets and white space, and not empty. "
            f"Received: label={label!r}"
        )
    return symbol
