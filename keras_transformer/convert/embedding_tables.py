"""The matrices around the stacks: embeddings, and the projection to logits."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from keras_transformer.convert.vocabulary import Order
from keras_transformer.convert.weights import assign_embeddings


class Tables(NamedTuple):
    """The names of another model's matrices, and the orders of their rows here.

    A matrix is read when it is given to a model: of a large vocabulary, one is in memory at a time.
    """

    tensor: Callable[[str], np.ndarray]
    """From a name to the matrix."""
    target: str
    """The target's embeddings `(their tokens, hidden_dim)`."""
    order: Order
    """Of the target's tokens, and of logits."""
    source: str | None = None
    """The source's embeddings, if they are others than the target's."""
    source_order: Order | None = None
    """Of the source's tokens, if it has embeddings of its own."""
    output: str | None = None
    """The projection to logits `(their tokens, hidden_dim)`, if it is another matrix than the
    target's embeddings."""
    bias: np.ndarray | None = None
    """That of logits `(their tokens,)`, if there is one."""

    @classmethod
    def of_names(cls, tensor, names, order, source_order, bias=None):
        """Those of some names: a matrix that is there several times is one here.

        Args:
            tensor: function from a name to an array.
            names: the names of the source's, the target's and the projection's matrix, which may be
                the same.
            order: `Order` of the target.
            source_order: `Order` of the source. Embeddings in another order are others.
            bias: float array, that of logits.
        """
        source, target, output = names
        is_shared = np.array_equal(source_order.rows, order.rows)
        if is_shared and _are_equal(tensor, source, target):
            source = source_order = None
        if _are_equal(tensor, output, target):
            output = None
        return cls(tensor, target, order, source, source_order, output, bias)

    def hyperparameters(self):
        """What follows for a `Transformer`: a dict of its arguments."""
        return {
            "vocabulary_size": len(self.order.rows),
            "source_vocabulary_size": self.source and len(self.source_order.rows),
            "tie_weights": self.output is None,
            "output_bias": self.bias is not None or len(self.order.copies) > 0,
        }

    def assign(self, model, hidden_order=None):
        """Give them to a `Transformer` that has these hyperparameters.

        Args:
            model: a `Transformer`.
            hidden_order: int array `(hidden_dim,)`: see `weights.assign`.
        """

        def give(variable, name, order, transposed=False):
            # Named nowhere here, the matrix is gone when its rows have been taken.
            assign_embeddings(variable, self.tensor(name), order.rows, hidden_order, transposed)

        embedding = model.decoder.token_embedding
        give(embedding.embeddings, self.target, self.order)
        if self.source is not None:
            give(model.encoder.token_embedding.embeddings, self.source, self.source_order)
        if self.output is not None:
            give(embedding.reverse_embeddings, self.output, self.order, transposed=True)
        if model.decoder.output_bias is not None:
            model.decoder.output_bias.bias.assign(self.order.bias(self.bias))


def _are_equal(tensor, name, other):
    return name == other or np.array_equal(tensor(name), tensor(other))
