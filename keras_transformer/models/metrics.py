"""Token-level metrics. Padding is ignored: id 0 and all negative ids."""

import keras
from keras import ops

from keras_transformer.annotations import DType, Tensor
from keras_transformer.models.losses import (
    TokenScores,
    is_argmax,
    prepare_targets,
    token_weights,
    true_logits,
)


class TokenMean(keras.metrics.Mean):
    """The mean over all tokens of a value that a subclass computes per token."""

    def update_state(
        self, y_true: Tensor, y_pred: Tensor | TokenScores, sample_weight: Tensor | None = None
    ) -> None:
        y_true = prepare_targets(y_true, y_pred)
        if isinstance(y_pred, TokenScores):
            values = self.values_of_scores(y_pred)
        else:
            values = self.values(y_true, y_pred)
        weights = token_weights(y_true, sample_weight)
        # Flatten, because Keras would average over each row first, and long rows would count as
        # much as short rows.
        super().update_state(ops.reshape(values, (-1,)), ops.reshape(weights, (-1,)))


@keras.saving.register_keras_serializable(package="keras_transformer")
class TokenAccuracy(TokenMean):
    """The share of tokens that equal the argmax of the logits.

    If logits are equal, which is frequent in bfloat16, argmax returns the first.

    Args:
        name: the metric's name in logs.
        dtype: dtype of the computation.

    Call arguments:
        y_true: int tensor `(batch, target)`.
        y_pred: float tensor `(batch, target, vocabulary_size)`, logits; or their `TokenScores`.
        sample_weight: float tensor `(batch,)`, weights of rows, or one that broadcasts to `(batch,
            target)`, weights of tokens. Defaults to 1. Padding always has weight 0.
    """

    def __init__(self, name: str = "accuracy", dtype: DType = None):
        super().__init__(name=name, dtype=dtype)

    def values(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        """Compute each token's value from logits.

        Args:
            y_true: int tensor `(batch, target)`.
            y_pred: float tensor `(batch, target, vocabulary_size)`, logits.

        Returns:
            Float32 tensor `(batch, target)`.
        """
        # The loss's logsumexp needs the maximum too, and XLA computes it once for both.
        return is_argmax(y_true, y_pred, ops.max(y_pred, axis=-1))

    def values_of_scores(self, scores: TokenScores) -> Tensor:
        """Return each token's value from scores that were computed with the loss.

        Args:
            scores: the tokens' `TokenScores`.

        Returns:
            Float32 tensor `(batch, target)`.
        """
        return scores.is_predicted


@keras.saving.register_keras_serializable(package="keras_transformer")
class Perplexity(TokenMean):
    """The exponential of the mean cross-entropy per token, without label smoothing.

    (KerasHub has such a metric too, but importing it loads TensorFlow on every backend.)

    Args:
        name: the metric's name in logs.
        dtype: dtype of the computation.

    Call arguments:
        y_true: int tensor `(batch, target)`.
        y_pred: float tensor `(batch, target, vocabulary_size)`, logits; or their `TokenScores`.
        sample_weight: float tensor `(batch,)`, weights of rows, or one that broadcasts to `(batch,
            target)`, weights of tokens. Defaults to 1. Padding always has weight 0.
    """

    def __init__(self, name: str = "perplexity", dtype: DType = None):
        super().__init__(name=name, dtype=dtype)

    def values(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        """Compute each token's value from logits.

        Args:
            y_true: int tensor `(batch, target)`.
            y_pred: float tensor `(batch, target, vocabulary_size)`, logits.

        Returns:
            Float32 tensor `(batch, target)`.
        """
        logits = ops.cast(y_pred, "float32")
        return ops.logsumexp(logits, axis=-1) - true_logits(y_true, logits)

    def values_of_scores(self, scores: TokenScores) -> Tensor:
        """Return each token's value from scores that were computed with the loss.

        Args:
            scores: the tokens' `TokenScores`.

        Returns:
            Float32 tensor `(batch, target)`.
        """
        return -scores.log_probs

    def result(self) -> Tensor:
        return ops.exp(super().result())
