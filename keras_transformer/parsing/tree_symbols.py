"""The symbols of linearised trees, as tokens of a vocabulary."""

from keras_transformer.errors import UserError
from keras_transformer.parsing.trees import LABELLED_BRACKETS
from keras_transformer.reserved_ids import END_ID, UNKNOWN_ID


class TreeSymbols:
    """Turns lines of symbols into ids and back; stands in for a `Tokenizer` of the target side.

    A line holds symbols with spaces between them; what each of them does, the linearisation says.

    Args:
        symbols: list of the symbols that occur in the training trees.
        tokenizer: a `Tokenizer` of which each of them is one token.
        linearization: the `Linearization` that they are of.

    Attributes:
        ids: the ids of the symbols, in their order.
        vocabulary_size: that of the target's vocabulary: the ids up to the last symbol's. Symbols
            are the first of the tokens, so that a decoder needs no logits of those that make words.

    Raises:
        UserError: if one of them is no token, or no symbol of the linearisation.
    """

    def __init__(self, symbols, tokenizer, linearization=LABELLED_BRACKETS):
        self.symbols = list(symbols)
        self.linearization = linearization
        for symbol in self.symbols:
            if linearization.step_of(symbol)[0] is None:
                raise UserError(f"{symbol!r} is no symbol of the linearization {linearization}.")
        self._by_label = linearization.by_label(self.symbols)
        self.ids = tokenizer.ids_of(self.symbols)
        self.vocabulary_size = max(self.ids, default=UNKNOWN_ID) + 1
        self._ids = dict(zip(self.symbols, self.ids))
        self._symbols = {token_id: symbol for symbol, token_id in self._ids.items()}

    def __repr__(self):
        return f"<TreeSymbols: {len(self.symbols)} symbols of {self.linearization}>"

    def encode(self, lines):
        """Lines of symbols to lists of ids; a symbol that training did not see is unknown.

        Args:
            lines: list of strings.
        """
        return [[self._ids.get(symbol, UNKNOWN_ID) for symbol in line.split()] for line in lines]

    def sampler(self, strength):
        """None, whatever the strength: symbols are never split.

        Args:
            strength: a number.
        """

    def decode(self, token_ids):
        """Ids to a list of symbols, up to the end token; an id of no symbol gives a `?`.

        Args:
            token_ids: the ids of one output.
        """
        symbols = []
        for token_id in map(int, token_ids):
            if token_id <= END_ID:
                break
            symbols.append(self._symbols.get(token_id, "?"))
        return symbols

    def brackets(self):
        """The ids of the symbols that open a constituent, and of those that close it: two tuples in
        the same order of labels. One that closes several labels is there for each of them.
        """
        opening, closing = map(self._ids_by_label, (self._by_label.opening, self._by_label.closing))
        return tuple(opening.values()), tuple(closing.values())

    def leaves(self):
        """The ids of the leaves: a dict of tag -> id."""
        return self._ids_by_label(self._by_label.leaves)

    def texts_around(self):
        """What each token writes into a bracketed tree, before its word and after it: a list of
        pairs of strings by id, empty ones for tokens that are no symbols.
        """
        texts = [("", "")] * self.vocabulary_size
        for symbol, token_id in self._ids.items():
            texts[token_id] = self.linearization.text_around(symbol)
        return texts

    def _ids_by_label(self, symbols):
        return {label: self._ids[symbol] for label, symbol in symbols.items()}
