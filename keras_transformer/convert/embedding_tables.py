"""Vocabularies and embeddings of other models in our order of tokens.

Our order is 0 padding, 1 start, 2 end, 3 unknown, and then the other tokens. Embeddings and
SentencePiece models are permuted once, at conversion, so that the model, the tokenizer and the
SavedModel need no code for the other order.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np

from keras_transformer.convert.foreign_transformer import make_transformer, output_bias
from keras_transformer.convert.weight_mapping import (
    assign,
    assign_embeddings,
    halves_to_interleaved,
    stack_mappings,
    validate_size,
)
from keras_transformer.data.sentencepiece_model import RESERVED, reordered_proto
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.errors import UserError, brief
from keras_transformer.models.encoder_decoder import zero_embeddings
from keras_transformer.models.transformer import Transformer

COPY_BIAS = -1e4
"""The output bias of a token that is a copy, which removes it from the softmax. It fits float16."""


class VocabPermutation(NamedTuple):
    """Our order of the tokens of another vocabulary."""

    rows: np.ndarray
    """Int array: the foreign id of each of our tokens."""
    copies: np.ndarray
    """Int array: our ids that are copies of tokens which have another id of their own."""

    def new_ids(self) -> np.ndarray:
        """Return an int array: our id of each foreign token, which is not a copy's."""
        own = np.delete(np.arange(len(self.rows)), self.copies)
        return own[np.argsort(self.rows[own])]

    def pieces(self, pieces: Sequence[str]) -> list[str]:
        """Return the names of the tokens in our order, without duplicates.

        Args:
            pieces: list of strings, the foreign vocabulary in the order of its ids. If it is
                shorter than the embeddings, the other tokens are named by their ids.

        Returns:
            A list of strings. The first four are `RESERVED`.
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

    def bias(self, bias: np.ndarray | None = None) -> np.ndarray:
        """Return the output bias in our order, a float32 array; for copies it is `COPY_BIAS`.

        Args:
            bias: float array, the foreign bias. Defaults to zeros.
        """
        bias = np.zeros(len(self.rows), "float32") if bias is None else bias[self.rows]
        bias[self.copies] = COPY_BIAS
        return bias


def reserve(size: int, start: int, end: int, unknown: int, pad: int) -> VocabPermutation:
    """Put the four reserved tokens first, and keep the order of the other tokens.

    If one foreign token fills two of our reserved roles, as in a model whose decoder starts with
    the end token, the second role gets a copy of its row.

    Args:
        size: the number of foreign embeddings.
        start: the foreign id of the token that the decoder starts with.
        end: the foreign id of the end token.
        unknown: the foreign id of the unknown token.
        pad: the foreign id of padding.

    Returns:
        A `VocabPermutation`.

    Raises:
        UserError: if one of them is not an id of such a vocabulary.
    """
    reserved = {"pad": pad, "start": start, "end": end, "unknown": unknown}
    for name, token in reserved.items():
        if type(token) is not int or not 0 <= token < size:
            raise UserError(
                f"The id of the {name} token must be an integer from 0 to {size - 1}. "
                f"Received: {brief(token)}"
            )
    first = np.array([*reserved.values()])
    # Tokens that the decoder predicts keep their row; tokens that are only its input can be copies.
    originals, copies = set(), []
    for index in (2, 3, 0, 1):
        if first[index] in originals:
            copies.append(index)
        originals.add(first[index])
    others = np.setdiff1d(np.arange(size), first)
    return VocabPermutation(np.concatenate([first, others]), np.array(sorted(copies), int))


class Tables(NamedTuple):
    """The names of another model's matrices around the stacks, and the order of our tokens.

    A matrix is read when it is assigned, so that only one large matrix is in memory at a time.
    """

    tensor: Callable[[str], np.ndarray]
    """Function from a name to a matrix."""
    target: str
    """Name of the target's embeddings `(foreign tokens, hidden_dim)`."""
    order: VocabPermutation
    """Order of the target's tokens, and of logits."""
    source: str | None = None
    """Name of the source's embeddings, if they differ from the target's."""
    source_order: VocabPermutation | None = None
    """Order of the source's tokens, if the source has its own embeddings."""
    output: str | None = None
    """Name of the projection to logits `(foreign tokens, hidden_dim)`, if it differs from the
    target's embeddings."""
    bias: np.ndarray | None = None
    """Bias of the logits `(foreign tokens,)`, if there is one."""

    @classmethod
    def from_names(
        cls,
        tensor: Callable[[str], np.ndarray],
        names: tuple[str, str, str],
        order: VocabPermutation,
        source_order: VocabPermutation,
        bias: np.ndarray | None = None,
    ) -> "Tables":
        """Create tables from the names of all three matrices. Equal matrices are shared.

        Args:
            tensor: function from a name to an array.
            names: the names of the source's, the target's and the projection's matrix, which may be
                the same.
            order: `VocabPermutation` of the target.
            source_order: `VocabPermutation` of the source. Embeddings in another order are not
                shared.
            bias: float array, the bias of the logits.

        Returns:
            `Tables`.
        """
        source, target, output = names
        is_shared = np.array_equal(source_order.rows, order.rows)
        if is_shared and _are_equal(tensor, source, target):
            own_source = own_order = None
        else:
            own_source, own_order = source, source_order
        own_output = None if _are_equal(tensor, output, target) else output
        return cls(tensor, target, order, own_source, own_order, own_output, bias)

    def hyperparameters(self) -> dict[str, Any]:
        """Return the arguments of a `Transformer` that the tables decide."""
        return {
            "vocabulary_size": len(self.order.rows),
            "source_vocabulary_size": self.source_order and len(self.source_order.rows),
            "tie_weights": self.output is None,
            "output_bias": self.bias is not None or len(self.order.copies) > 0,
        }

    def assign(self, model: Transformer, hidden_order: np.ndarray | None = None) -> None:
        """Assign the tables to a `Transformer` that has these hyperparameters.

        Args:
            model: a `Transformer`.
            hidden_order: int array `(hidden_dim,)`: see `weight_mapping.assign`.
        """

        def give(
            variable: keras.Variable, name: str, order: VocabPermutation, transposed: bool = False
        ) -> None:
            # No name is bound to the matrix here, so that it is freed once its rows are taken.
            assign_embeddings(variable, self.tensor(name), order.rows, hidden_order, transposed)

        embedding = model.decoder.token_embedding
        give(embedding.embeddings, self.target, self.order)
        if self.source is not None and self.source_order is not None:
            give(model.encoder.token_embedding.embeddings, self.source, self.source_order)
        if self.output is not None:
            give(embedding.reverse_embeddings, self.output, self.order, transposed=True)
        if (bias := output_bias(model)) is not None:
            bias.assign(self.order.bias(self.bias))


def _are_equal(tensor: Callable[[str], np.ndarray], name: str, other: str) -> bool:
    return name == other or np.array_equal(tensor(name), tensor(other))


def build_model(
    tables: Tables,
    options: Mapping[str, Any],
    tensor: Callable[[str], np.ndarray],
    num_weights: int,
    in_halves: bool = True,
) -> Transformer:
    """Build a model with the weights of another library's model.

    Args:
        tables: `Tables` of the embeddings.
        options: dict of the arguments of `ForeignTransformer` that the tables do not decide.
        tensor: function from a name of `stack_mappings` to its array.
        num_weights: the number of weights in the file, which limits the model's size.
        in_halves: whether d_model is ordered for sinusoids in halves.

    Returns:
        A `Transformer`, or a `ForeignTransformer` where an option requires it.

    Raises:
        UserError: if the options or the arrays do not match.
    """
    arguments = {**tables.hyperparameters(), **options}
    validate_size(arguments, num_weights)
    with zero_embeddings():
        model = make_transformer(**arguments)
    order = halves_to_interleaved(model.config.hidden_dim) if in_halves else None
    tables.assign(model, order)
    assign(stack_mappings(model), tensor, order)
    return model


class Side(NamedTuple):
    """The vocabulary of source or target in our order."""

    order: VocabPermutation
    pieces: list[str]
    tokenizer: Tokenizer


def make_side(
    path: Path,
    order: VocabPermutation,
    tokens: Sequence[str],
    proto: bytes | None = None,
    unknown: str | None = "",
) -> Side:
    """Return the vocabulary of a side whose text a SentencePiece model splits.

    Args:
        path: the file of the vocabulary, for errors.
        order: our order of the tokens.
        tokens: the tokens in the model's order.
        proto: the SentencePiece model. Defaults to the file's content.
        unknown: the text of the unknown token, or None for the SentencePiece model's own. An empty
            string leaves it out.

    Raises:
        UserError: if the file is not a SentencePiece model.
    """
    pieces = order.pieces(tokens)
    proto = path.read_bytes() if proto is None else proto
    try:
        return Side(order, pieces, Tokenizer(reordered_proto(proto, pieces, unknown=unknown)))
    except UserError as error:
        raise UserError(f"{path}: {error}") from error
