"""Token-level metrics. Padding is left out: id 0 and every negative id."""

import keras
from keras import ops

from keras_transformer.training.losses import (
    TokenScores,
    is_argmax,
    logit_of,
    prepare_targets,
    token_weights,
)
from keras_transformer.typing import DType, Tensor


class TokenMean(keras.metrics.Mean):
    """The mean over the tokens of what a subclass computes for each."""

    def update_state(
        self, y_true: Tensor, y_pred: Tensor | TokenScores, sample_weight: Tensor | None = None
    ) -> None:
        y_true = prepare_targets(y_true, y_pred)
        if isinstance(y_pred, TokenScores):
            values = self.values_of_scores(y_pred)
        else:
            values = self.values(y_true, y_pred)
        weights = token_weights(y_true, sample_weight)
        # Flat, or Keras would take the mean of each row first: batches of long and of short rows
        # would count alike.
        super().update_state(ops.reshape(values, (-1,)), ops.reshape(weights, (-1,)))


@keras.saving.register_keras_serializable(package="keras_transformer")
class TokenAccuracy(TokenMean):
    """The share of tokens that argmax of the logits gives.

    Of equal logits, which bfloat16 has many of, argmax takes the first.

    Args:
        name: the metric's name in logs.
        dtype: what it is computed in.

    Call arguments:
        y_true: int tensor `(batch, target)`.
        y_pred: float tensor `(batch, target, vocabulary_size)`, logits; or their `TokenScores`.
        sample_weight: float tensor `(batch,)`, of rows, or one that broadcasts to `(batch,
            target)`, of tokens. Defaults to 1. Padding has weight 0, whatever is passed.
    """

    def __init__(self, name: str = "accuracy", dtype: DType = None):
        super().__init__(name=name, dtype=dtype)

    def values(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        """Each token's value, of logits.

        Args:
            y_true: int tensor `(batch, target)`.
            y_pred: float tensor `(batch, target, vocabulary_size)`, logits.

        Returns:
            Float32 tensor `(batch, target)`.
        """
        # The maximum is part of the loss's logsumexp, and XLA takes it once for both.
        return is_argmax(y_true, y_pred, ops.max(y_pred, axis=-1))

    def values_of_scores(self, scores: TokenScores) -> Tensor:
        """Each token's value, where loss and scores were computed together.

        Args:
            scores: the tokens' `TokenScores`.

        Returns:
            Float32 tensor `(batch, target)`.
        """
        return scores.is_predicted


@keras.saving.register_keras_serializable(package="keras_transformer")
class Perplexity(TokenMean):
    """The exponential of the mean cross-entropy of a token, without label smoothing.

    (KerasHub has such a metric too; importing it loads TensorFlow on every backend.)

    Args:
        name: the metric's name in logs.
        dtype: what it is computed in.

    Call arguments:
        y_true: int tensor `(batch, target)`.
        y_pred: float tensor `(batch, target, vocabulary_size)`, logits; or their `TokenScores`.
        sample_weight: float tensor `(batch,)`, of rows, or one that broadcasts to `(batch,
            target)`, of tokens. Defaults to 1. Padding has weight 0, whatever is passed.
    """

    def __init__(self, name: str = "perplexity", dtype: DType = None):
        super().__init__(name=name, dtype=dtype)

    def values(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        """Each token's value, of logits.

        Args:
            y_true: int tensor `(batch, target)`.
            y_pred: float tensor `(batch, target, vocabulary_size)`, logits.

        Returns:
            Float32 tensor `(batch, target)`.
        """
        logits = ops.cast(y_pred, "float32")
        return ops.logsumexp(logits, axis=-1) - logit_of(y_true, logits)

    def values_of_scores(self, scores: TokenScores) -> Tensor:
        """Each token's value, where loss and scores were computed together.

        Args:
            scores: the tokens' `TokenScores`.

        Returns:
            Float32 tensor `(batch, target)`.
        """
        return -scores.log_probs

    def result(self) -> Tensor:
        return ops.exp(super().result())
