"""The loss (section 5.4 of the paper), and the weights and scores that metrics share with it.

`fit` usually computes the same values without logits in memory: see `fused_crossentropy.py`.
"""

import math
from dataclasses import dataclass
from typing import Any

import keras
from keras import ops

from keras_transformer.annotations import DType, Tensor
from keras_transformer.errors import UserError
from keras_transformer.layers.tensor_ops import where
from keras_transformer.models.replication import replica_context

# The name scope of operations that fail if targets and logits differ in shape.
OTHER_SHAPE = "targets_of_another_shape"


@dataclass
class TokenScores:
    """The values of each true token that loss and metrics need, instead of the logits.

    It is not a tuple, so that Keras treats it as one tensor, like logits, and not as three outputs.
    """

    losses: Tensor  # float32 (batch, target): the smoothed cross-entropies
    log_probs: Tensor  # float32 (batch, target): the log-probabilities
    is_predicted: Tensor  # float32 (batch, target): 1 where argmax of the logits is this token


@keras.saving.register_keras_serializable(package="keras_transformer")
class LabelSmoothedCrossentropy(keras.losses.Loss):
    """Cross-entropy against smoothed targets (section 5.4), the mean over the tokens.

    The target distribution assigns `1 - ε_ls` to the true token and distributes `ε_ls` evenly over
    the whole vocabulary (Szegedy et al. 2015). With logits z and V tokens, the loss of a token y is

    ```
    log Σ_v exp(z_v) - (1 - ε_ls) z_y - ε_ls/V Σ_v z_v
    ```

    computed in float32 in this form: neither one-hot targets nor log-probabilities of the size of
    the logits are created.

    The mean covers the whole batch, even if the replicas of a `tf.distribute` strategy share it and
    have different numbers of tokens.

    Padding is ignored: id 0 and all negative ids. The loss of an id outside the vocabulary is NaN.

    Args:
        label_smoothing: ε_ls, from 0 up to 1.
        reduction: `"mean_with_sample_weight"`, the mean over the tokens, weighted; or `"sum"`, the
            weighted sum, for weights that are already divided by their sum over the whole batch.
        name: name of the loss.
        dtype: dtype of the computation. Defaults to float32.

    Call arguments:
        y_true: int tensor `(batch, target)`, the true token ids.
        y_pred: float tensor `(batch, target, vocabulary_size)`, logits; or their `TokenScores`.
        sample_weight: float tensor `(batch,)`, weights of rows, or one that broadcasts to `(batch,
            target)`, weights of tokens. Defaults to 1. Padding always has weight 0.

    Returns:
        A float32 scalar.

    Raises:
        UserError: if `label_smoothing` is not in [0, 1), or the shapes of `y_true` and `y_pred`
            differ.
    """

    def __init__(
        self,
        label_smoothing: float = 0.1,
        reduction: str | None = "mean_with_sample_weight",
        name: str = "label_smoothed_crossentropy",
        dtype: DType = "float32",
    ):
        super().__init__(name=name, reduction=reduction, dtype=dtype)
        if not 0 <= label_smoothing < 1:
            raise UserError(
                "`label_smoothing` must be at least 0 and less than 1. "
                f"Received: label_smoothing={label_smoothing!r}"
            )
        self.label_smoothing = label_smoothing

    def __call__(
        self, y_true: Tensor, y_pred: Tensor | TokenScores, sample_weight: Tensor | None = None
    ) -> Tensor:
        y_true = prepare_targets(y_true, y_pred)
        weights = token_weights(y_true, sample_weight)
        if isinstance(y_pred, TokenScores):
            losses = y_pred.losses
        else:
            losses = self.call(y_true, ops.cast(y_pred, self.dtype))
        # Not `super().__call__`, which would also ignore tokens that the mask of `y_pred` excludes.
        reduce = Reduction(reduction=self.reduction, dtype=self.dtype)
        loss = reduce(y_true, losses, weights)
        if self.reduction != "mean_with_sample_weight":
            return loss
        return _mean_of_all_replicas(loss, weights)

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        true_logit, log_normalizer = true_logits(y_true, y_pred), ops.logsumexp(y_pred, axis=-1)
        smoothing = self.label_smoothing
        if not smoothing:
            return log_normalizer - true_logit
        return log_normalizer - (1 - smoothing) * true_logit - smoothing * ops.mean(y_pred, axis=-1)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "label_smoothing": self.label_smoothing}


class Reduction(keras.losses.Loss):
    """A loss whose values per token are already computed."""

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        return y_pred


def true_logits(y_true: Tensor, logits: Tensor) -> Tensor:
    """Return the logit of each token of `y_true`, `(batch, target)`; NaN outside the vocabulary."""
    # Backends differ in the values they return outside of an array.
    last = logits.shape[-1] - 1
    is_known = y_true <= last
    index = ops.expand_dims(where(is_known, y_true, last), -1)
    values = ops.squeeze(ops.take_along_axis(logits, index, axis=-1), -1)
    return where(is_known, values, math.nan)


def is_argmax(y_true: Tensor, logits: Tensor, maximum: Tensor) -> Tensor:
    """Return 1 if argmax, which returns the first of equal logits, equals the token of `y_true`.

    `maximum` is the largest logit at each position. Otherwise the result is 0, and NaN for tokens
    outside the vocabulary.
    """
    # Not argmax itself, which XLA compiles to a slow loop on a CPU: a tenth of a training step. And
    # not integers, whose minimum is slower than that of floats.
    token_ids = ops.arange(logits.shape[-1], dtype="float32")
    is_maximum = ops.equal(logits, ops.expand_dims(maximum, -1))
    first = ops.min(where(is_maximum, token_ids, math.inf), axis=-1)
    is_first = ops.cast(ops.equal(first, ops.cast(y_true, "float32")), "float32")
    return where(y_true < logits.shape[-1], is_first, math.nan)


def prepare_targets(y_true: Tensor, y_pred: Tensor | TokenScores) -> Tensor:
    """Return the targets as int32 `(batch, target)`, with padding (id 0) instead of negative ids.

    Args:
        y_true: int or float tensor `(batch, target)`, the true token ids.
        y_pred: tensor `(batch, target, ...)` or `TokenScores`.

    Raises:
        UserError: if there are no targets, or they have another shape.
    """
    if y_true is None:
        raise UserError(
            "There are no targets. Pass the tokens that follow `decoder_token_ids` too: "
            "fit(inputs, targets)."
        )
    predicted: Tensor = y_pred.losses if isinstance(y_pred, TokenScores) else y_pred
    y_true = ops.convert_to_tensor(y_true)
    validate_shape_of_targets(y_true, predicted)
    y_true = ops.cast(y_true, "int32")
    if None not in (*y_true.shape, *predicted.shape[:2]):
        return ops.maximum(y_true, 0)
    # Some sizes are known only when the program runs. Tensors of different shapes cannot be
    # stacked, while `ops.maximum` would broadcast them.
    with keras.name_scope(OTHER_SHAPE):
        zeros = ops.zeros(ops.shape(predicted)[:2], "int32")
        return ops.max(ops.stack([y_true, zeros]), axis=0)


def validate_shape_of_targets(y_true: Tensor, y_pred: Tensor) -> None:
    """Raise a `UserError` if the shape of the targets differs from the first two axes of `y_pred`.

    Sizes that are None are not checked.
    """
    expected, received = tuple(y_pred.shape[:2]), tuple(y_true.shape)
    if len(received) != 2 or any(
        None not in pair and len({*pair}) > 1 for pair in zip(expected, received)
    ):
        raise UserError(
            "Targets must be token ids, one per token of the decoder's input. "
            f"Expected: targets of shape {expected}. Received: targets of shape {received}"
        )


def token_weights(y_true: Tensor, sample_weight: Tensor | None = None) -> Tensor:
    """Return each token's weight, float32 `(batch, target)`; padding has weight 0.

    `y_true` is a result of `prepare_targets`.
    """
    weights = ops.cast(ops.not_equal(y_true, 0), "float32")
    return weights if sample_weight is None else weights * align_weights(sample_weight, y_true)


def align_weights(sample_weight: Tensor, y_true: Tensor) -> Tensor:
    """Return weights as float32 that broadcasts to `(batch, target)`. Rank 1 weights rows."""
    weights, rank = ops.cast(sample_weight, "float32"), len(y_true.shape)
    if len(weights.shape) == rank + 1 and weights.shape[-1] == 1:
        return ops.squeeze(weights, -1)
    while 0 < len(weights.shape) < rank:
        weights = ops.expand_dims(weights, -1)
    return weights


def _mean_of_all_replicas(loss: Tensor, weights: Tensor) -> Tensor:
    """Convert a replica's weighted mean, as Keras scales it, to its share of the mean over all.

    Keras divides a replica's mean by the number R of replicas, and adds the replicas' gradients. So
    the gradient is changed to that of the weighted sum divided by the weights of all. The value is
    changed to 1/R of the mean over all: Keras reports the mean over the replicas of R times their
    losses.
    """
    replicas = replica_context()
    if replicas is None:
        return loss
    num_replicas, own = replicas.num_replicas_in_sync, ops.sum(weights)
    mean = loss * num_replicas
    total, whole = ops.unstack(
        replicas.all_reduce("SUM", ops.stop_gradient(ops.stack([mean * own, own])))
    )
    share = ops.divide_no_nan(mean * own, whole)
    value = ops.divide_no_nan(total, whole) / num_replicas
    return share + ops.stop_gradient(value - share)
