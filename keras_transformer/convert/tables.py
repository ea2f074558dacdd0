"""The matrices around the stacks: embeddings, and the projection to logits."""

from typing import NamedTuple

import numpy as np

from keras_transformer.convert.vocabulary import Order
from keras_transformer.convert.weights import assign_embeddings


class Tables(NamedTuple):
    """Another model's matrices, and the orders of their rows here."""

    target: np.ndarray
    """The target's embeddings `(their tokens, hidden_dim)`."""
    order: Order
    """Of the target's tokens, and of logits."""
    source: np.ndarray | None = None
    """The source's embeddings, if they are others than the target's."""
    source_order: Order | None = None
    """Of the source's tokens, if it has embeddings of its own."""
    output: np.ndarray | None = None
    """The projection to logits `(their tokens, hidden_dim)`, if it is another matrix than the
    target's embeddings."""
    bias: np.ndarray | None = None
    """That of logits, if there is one."""

    @classmethod
    def of_names(cls, tensor, names, order, source_order, bias=None):
        """Those of some names, each once, whether a file has it once or several times.

        Args:
            tensor: function from a name to an array.
            names: the names of the source's, the target's and the projection's matrix, which may be
                the same.
            order: `Order` of the target.
            source_order: `Order` of the source, should its matrix be another.
            bias: float array, that of logits.
        """
        target = tensor(names[1])
        source, output = (
            None if name == names[1] else _another(tensor(name), target)
            for name in (names[0], names[2])
        )
        return cls(target, order, source, source_order, output, bias)

    def hyperparameters(self):
        """What follows for a `Transformer`: a dict of its arguments."""
        sizes = {"vocabulary_size": len(self.order.rows)}
        if self.source is not None:
            sizes["source_vocabulary_size"] = len(self.source_order.rows)
        has_bias = self.bias is not None or len(self.order.copies) > 0
        return {**sizes, "tie_weights": self.output is None, "output_bias": has_bias}

    def assign(self, model, hidden_order=None):
        """Give them to a `Transformer` that has these hyperparameters.

        Args:
            model: a `Transformer`.
            hidden_order: int array `(hidden_dim,)`: see `weights.assign`.
        """
        rows, embedding = self.order.rows, model.decoder.token_embedding
        assign_embeddings(embedding.embeddings, self.target, rows, hidden_order)
        if self.source is not None:
            source_embeddings, source_rows = (
                model.encoder.token_embedding.embeddings,
                self.source_order.rows,
            )
            assign_embeddings(source_embeddings, self.source, source_rows, hidden_order)
        if self.output is not None:
            assign_embeddings(
                embedding.reverse_embeddings, self.output, rows, hidden_order, transposed=True
            )
        if model.decoder.output_bias is not None:
            model.decoder.output_bias.bias.assign(self.order.bias(self.bias))


def _another(matrix, target):
    """The matrix, or None if it is the target's again."""
    return None if np.array_equal(matrix, target) else matrix
