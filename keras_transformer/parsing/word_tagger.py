"""The tagger of a parser's words, which shares its weights with the projection to logits."""

from collections.abc import Iterable
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_transformer.annotations import Shape, Tensor
from keras_transformer.validation import positive_number


@keras.saving.register_keras_serializable(package="keras_transformer")
class WordTagger(keras.layers.Layer):
    """Predict a word's tag from the encoder's output for the word.

    If each leaf of the output stands for one word of the source, and has its tag, the tag is
    predicted by a softmax over the leaves, from the vector c of the word that
    `DeterministicAttention` attends to. The projection of the decoder's output to logits (section
    3.4) also projects c, so there are no weights. The decoder predicts tags too; the tagger adds a
    loss to its training, and predicts tags without a search.

    ```
    log q_v = c · E_v - log Σ_u exp(c · E_u)    for leaves u, v
    ```

    Args:
        leaf_ids: ids of the target tokens that stand for a word.
        loss_weight: weight of the tagger's cross-entropy in the loss.
        **kwargs: `name`, `dtype` and the other arguments of `keras.layers.Layer`.

    Call arguments:
        logits: float tensor `(..., vocabulary_size)`: the projections of words.

    Returns:
        Float tensor `(..., leaves)`: log q.

    Raises:
        UserError: if the weight is not positive.
    """

    def __init__(
        self,
        leaf_ids: Iterable[int],
        loss_weight: float = 1.0,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.leaf_ids = sorted({int(leaf_id) for leaf_id in leaf_ids})
        positive_number("loss_weight", loss_weight)
        self.loss_weight = loss_weight

    def call(self, logits: Tensor) -> Tensor:
        return ops.log_softmax(ops.take(logits, np.array(self.leaf_ids), axis=-1), axis=-1)

    def losses(self, log_probs: Tensor, y_true: Tensor) -> Tensor:
        """Return the tagger's weighted cross-entropy of each true token, 0 if it is not a leaf.

        Args:
            log_probs: float tensor `(batch, target, leaves)`.
            y_true: int tensor `(batch, target)`.

        Returns:
            Float tensor `(batch, target)`.
        """
        y_true = ops.cast(y_true, "int32")
        is_true = ops.equal(y_true[..., None], np.array(self.leaf_ids, "int32"))
        return -self.loss_weight * ops.sum(ops.where(is_true, log_probs, 0.0), axis=-1)

    def compute_output_shape(self, logits_shape: Shape) -> Shape:
        return (*logits_shape[:-1], len(self.leaf_ids))

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "leaf_ids": self.leaf_ids,
            "loss_weight": self.loss_weight,
        }
