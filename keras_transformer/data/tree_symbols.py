"""The symbols of linearised trees, as tokens of a vocabulary."""

from keras_transformer.data.tokenizer import END_ID, UNKNOWN_ID
from keras_transformer.data.trees.linearizing import parse_symbol
from keras_transformer.data.trees.walk import CLOSE, LEAF, OPEN


class TreeSymbols:
    """Turns lines of symbols into ids and back; stands in for a `Tokenizer` of the target side.

    A symbol is `(NP`, which opens a constituent, `)NP`, which closes it, or a leaf, `(DT)`: see
    `keras_transformer.data.trees`. A line holds symbols with spaces between them.

    Args:
        symbols: list of the symbols that occur in the training trees.
        tokenizer: a `Tokenizer` of which each of them is one token.

    Attributes:
        ids: the ids of the symbols, in their order.

    Raises:
        ValueError: if one of them is not.
    """

    def __init__(self, symbols, tokenizer):
        self.symbols = list(symbols)
        self.vocabulary_size = tokenizer.vocabulary_size
        self.ids = tokenizer.ids_of(self.symbols)
        self._ids = dict(zip(self.symbols, self.ids))
        self._symbols = {token_id: symbol for symbol, token_id in self._ids.items()}

    def encode(self, lines):
        """Lines of symbols to lists of ids; a symbol that training did not see is unknown."""
        return [[self._ids.get(symbol, UNKNOWN_ID) for symbol in line.split()] for line in lines]

    def decode(self, token_ids):
        """Ids to a list of symbols, up to the end token; an id of no symbol gives a `?`."""
        symbols = []
        for token_id in map(int, token_ids):
            if token_id <= END_ID:
                break
            symbols.append(self._symbols.get(token_id, "?"))
        return symbols

    def brackets(self):
        """The ids of the symbols that open a constituent, and of those that close it: two tuples in
        the same order of labels.
        """
        opening, closing = self._by_step(OPEN), self._by_step(CLOSE)
        labels = [label for label in opening if label in closing]
        return tuple(opening[x] for x in labels), tuple(closing[x] for x in labels)

    def leaves(self):
        """The ids of the leaves: a dict of tag -> id."""
        return self._by_step(LEAF)

    def _by_step(self, step):
        """Label or tag -> id, of the symbols that do one thing."""
        steps = {symbol: parse_symbol(symbol) for symbol in self.symbols}
        return {label: self._ids[symbol] for symbol, (kind, label) in steps.items() if kind == step}
