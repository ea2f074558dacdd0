"""The tagger of a parser's words, which shares its weights with the projection to logits."""

from collections.abc import Iterable
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_transformer.annotations import Shape, Tensor
from keras_transformer.errors import UserError
from keras_transformer.layers.tensor_ops import is_one_of
from keras_transformer.validation import positive_number


@keras.saving.register_keras_serializable(package="keras_transformer")
class WordTagger(keras.layers.Layer):
    """Predict a word's tag from the encoder's output for the word.

    If each leaf of the output stands for one word of the source, and has its tag, the tag is
    predicted by a softmax over the leaves, from the vector c of the word that
    `DeterministicAttention` attends to. The projection of the decoder's output to logits (section
    3.4) also projects c, so there are no weights.

    ```
    log q_v = c · E_v - log Σ_u exp(c · E_u)    for leaves u, v
    ```

    With an untagged leaf l, the decoder reads and writes l for all leaves, and only the tagger
    predicts the tag. The logits of both together are:

    ```
    z'_v = z_l + log q_v    for leaves v
    z'_v = z_v              for other tokens
    ```

    So the probability of a leaf is P(leaf) P(tag | leaf), and its cross-entropy is the sum of both
    cross-entropies.

    Args:
        leaf_ids: ids of the target tokens that stand for a word.
        untagged_leaf_id: l, one of `leaf_ids`. With None, the decoder predicts tags itself, and the
            tagger only has its own loss, `losses`.
        loss_weight: weight of the tagger's cross-entropy in gradients.
        **kwargs: `name`, `dtype` and the other arguments of `keras.layers.Layer`.

    Call arguments:
        logits: float tensor `(batch, target, vocabulary_size)`: z, the decoder's logits.
        log_probs: float tensor `(batch, target, leaves)`: log q, the result of `log_probs`.

    Returns:
        Float tensor `(batch, target, vocabulary_size)`: z'.

    Raises:
        UserError: if the untagged leaf is not a leaf, or the weight is not positive.
    """

    def __init__(
        self,
        leaf_ids: Iterable[int],
        untagged_leaf_id: int | None = None,
        loss_weight: float = 1.0,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.leaf_ids = sorted({int(leaf_id) for leaf_id in leaf_ids})
        if untagged_leaf_id is not None and untagged_leaf_id not in self.leaf_ids:
            raise UserError(
                "`untagged_leaf_id` must be one of `leaf_ids`. "
                f"Received: untagged_leaf_id={untagged_leaf_id}"
            )
        positive_number("loss_weight", loss_weight)
        self.untagged_leaf_id = untagged_leaf_id
        self.loss_weight = loss_weight

    def call(self, logits: Tensor, log_probs: Tensor) -> Tensor:
        is_leaf, place = self._places(logits.shape[-1])
        leaf = logits[..., self.untagged_leaf_id][..., None]
        of_tags = leaf + ops.take(ops.cast(self._weighed(log_probs), logits.dtype), place, axis=-1)
        return ops.where(is_leaf, of_tags, logits)

    def factors(
        self, sequence: Tensor, embeddings: Tensor, log_probs: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return two factors of z' from two factors of z.

        Args:
            sequence: float tensor `(batch, target, hidden_dim)`, the decoder's output.
            embeddings: float tensor `(vocabulary_size, hidden_dim)`, E.
            log_probs: float tensor `(batch, target, leaves)`.

        Returns:
            Float tensors `(batch, target, hidden_dim + leaves)` and `(vocabulary_size, hidden_dim +
            leaves)`.
        """
        if self.untagged_leaf_id is None:
            return sequence, embeddings
        is_leaf, place = self._places(embeddings.shape[0])
        rows = np.where(is_leaf, self.untagged_leaf_id, np.arange(len(is_leaf)))
        table = ops.take(ops.convert_to_tensor(embeddings), rows, axis=0)
        one_hot = np.eye(len(self.leaf_ids), dtype="float32")[place] * is_leaf[:, None]
        log_probs = ops.cast(self._weighed(log_probs), sequence.dtype)
        return (
            ops.concatenate([sequence, log_probs], axis=-1),
            ops.concatenate([table, ops.cast(one_hot, table.dtype)], axis=-1),
        )

    def log_probs(self, logits: Tensor) -> Tensor:
        """Return log q for the projections of words.

        Args:
            logits: float tensor `(..., vocabulary_size)`.

        Returns:
            Float tensor `(..., leaves)`.
        """
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

    def untagged(self, token_ids: Tensor) -> Tensor:
        """Return target tokens as the decoder reads them: each leaf becomes the untagged leaf.

        Args:
            token_ids: int tensor `(batch, target)`.

        Returns:
            Int tensor `(batch, target)`.
        """
        if self.untagged_leaf_id is None:
            return token_ids
        return ops.where(is_one_of(token_ids, self.leaf_ids), self.untagged_leaf_id, token_ids)

    def without_tags(self, logits: Tensor) -> Tensor:
        """Return z, with minus infinity for all leaves except the untagged one.

        Args:
            logits: float tensor `(batch, target, vocabulary_size)`.

        Returns:
            Float tensor `(batch, target, vocabulary_size)`.
        """
        if self.untagged_leaf_id is None:
            return logits
        others = [leaf_id for leaf_id in self.leaf_ids if leaf_id != self.untagged_leaf_id]
        return ops.where(np.isin(np.arange(logits.shape[-1]), others), -np.inf, logits)

    def compute_output_shape(self, logits_shape: Shape, log_probs_shape: Shape) -> Shape:
        return logits_shape

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "leaf_ids": self.leaf_ids,
            "untagged_leaf_id": self.untagged_leaf_id,
            "loss_weight": self.loss_weight,
        }

    def _places(self, vocabulary_size: int) -> tuple[np.ndarray, np.ndarray]:
        """Return two arrays `(vocabulary_size,)`: whether each token is a leaf, and its index among
        the leaves, which is 0 for other tokens.
        """
        token_ids = np.arange(vocabulary_size)
        is_leaf = np.isin(token_ids, self.leaf_ids)
        return is_leaf, np.where(is_leaf, np.searchsorted(self.leaf_ids, token_ids), 0)

    def _weighed(self, log_probs: Tensor) -> Tensor:
        """Return the same values, with the weight in their gradient."""
        if self.loss_weight == 1:
            return log_probs
        constant = ops.stop_gradient(log_probs)
        return constant + self.loss_weight * (log_probs - constant)
