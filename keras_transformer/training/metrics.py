"""Token-level metrics. Padding (id 0) is left out when no sample weights are given."""

import keras
from keras import ops

from keras_transformer.training.losses import logit_of


class _TokenMean(keras.metrics.Mean):
    def update_state(self, y_true, y_pred, sample_weight=None):
        y_true = ops.convert_to_tensor(y_true)
        if sample_weight is None:
            sample_weight = ops.not_equal(y_true, 0)
        # Flat, or Keras would take the mean of each row first: batches of long and of short rows
        # would count alike.
        values = ops.reshape(self.values(y_true, y_pred), (-1,))
        weights = ops.broadcast_to(ops.cast(sample_weight, "float32"), ops.shape(y_true))
        return super().update_state(values, ops.reshape(weights, (-1,)))


@keras.saving.register_keras_serializable(package="keras_transformer")
class TokenAccuracy(_TokenMean):
    """The share of tokens whose logit is the largest.

    Call arguments:
        y_true: int tensor `(batch, target)`.
        y_pred: float tensor `(batch, target, vocabulary_size)`, logits.
        sample_weight: float tensor `(batch, target)`. Defaults to 1 for a token and 0 for padding.
    """

    def __init__(self, name="accuracy", dtype=None):
        super().__init__(name=name, dtype=dtype)

    def values(self, y_true, y_pred):
        # Not by argmax, which XLA makes a slow loop of on a CPU: a tenth of a training step. The
        # maximum is part of the loss's logsumexp, and XLA takes it once for both.
        return ops.equal(logit_of(y_true, y_pred), ops.max(y_pred, axis=-1))


@keras.saving.register_keras_serializable(package="keras_transformer")
class Perplexity(_TokenMean):
    """The exponential of the mean cross-entropy of a token, without label smoothing.

    (KerasHub has such a metric too; importing it loads TensorFlow on every backend.)

    Call arguments:
        y_true: int tensor `(batch, target)`.
        y_pred: float tensor `(batch, target, vocabulary_size)`, logits.
        sample_weight: float tensor `(batch, target)`. Defaults to 1 for a token and 0 for padding.
    """

    def __init__(self, name="perplexity", dtype=None):
        super().__init__(name=name, dtype=dtype)

    def values(self, y_true, y_pred):
        logits = ops.cast(y_pred, "float32")
        return ops.logsumexp(logits, axis=-1) - logit_of(y_true, logits)

    def result(self):
        return ops.exp(super().result())
