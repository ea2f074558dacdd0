"""Other vocabularies in our order: 0 padding, 1 start, 2 end, 3 unknown, and then the others.

The order is put into embeddings and SentencePiece protos when a model is converted, so that neither
the model nor the tokenizer has to know of it (and tokenisation in the SavedModel does not either).
"""

from typing import NamedTuple

import numpy as np

from keras_transformer.data.sentencepiece_model import RESERVED
from keras_transformer.errors import UserError

COPY_BIAS = -1e4
"""The output bias of a token that is a copy: the softmax never sees it. Float16 holds it."""


class Order(NamedTuple):
    """Our order of another vocabulary."""

    rows: np.ndarray
    """Int array: the id there of each of our tokens."""
    copies: np.ndarray
    """Int array: those of our ids that are copies of tokens which have an id of their own."""

    def pieces(self, pieces):
        """Names in our order, each once; the first four are `RESERVED`.

        Args:
            pieces: list of strings, the vocabulary there in the order of its ids. Where it is
                shorter than the embeddings, the others are named after their ids.
        """
        pieces = [*pieces, *(f"<id{i}>" for i in range(len(pieces), self.rows.max() + 1))]
        names, taken = [*RESERVED], {*RESERVED}
        for row in self.rows[len(RESERVED) :]:
            name = pieces[row]
            while name in taken:  # SentencePiece loads no piece twice
                name += "_"
            names.append(name)
            taken.add(name)
        return names

    def bias(self, bias=None):
        """The output bias in our order, float32 array; of copies it is `COPY_BIAS`.

        Args:
            bias: float array, theirs. Defaults to zeros.
        """
        bias = np.zeros(len(self.rows), "float32") if bias is None else bias[self.rows]
        bias[self.copies] = COPY_BIAS
        return bias


def reserve(size, start, end, unknown, pad):
    """Put the four reserved tokens first, and leave the others as they are.

    Where one token there is two of ours, as in a model whose decoder starts with the end token,
    the second is a row more: a copy.

    Args:
        size: the number of embeddings there.
        start: the id there of the token that the decoder starts with.
        end: the id there of the end token.
        unknown: the id there of the unknown token.
        pad: the id there of padding.

    Returns:
        An `Order`.

    Raises:
        UserError: if one is no id of such a vocabulary.
    """
    reserved = {"pad": pad, "start": start, "end": end, "unknown": unknown}
    for name, token in reserved.items():
        if type(token) is not int or not 0 <= token < size:
            raise UserError(
                f"A vocabulary of {size} tokens needs a {name} token among them. "
                f"Received the id {token!r}"
            )
    first = np.array([*reserved.values()])
    # What the decoder gives is itself; what only it is given can be a copy.
    originals, copies = set(), []
    for index in (2, 3, 0, 1):
        if first[index] in originals:
            copies.append(index)
        originals.add(first[index])
    others = np.setdiff1d(np.arange(size), first)
    return Order(np.concatenate([first, others]), np.array(sorted(copies), int))
