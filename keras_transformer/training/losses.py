"""The loss (section 5.4), and what loss and metrics share: a token's logit, weight and scores."""

import math
from dataclasses import dataclass

import keras
from keras import ops

from keras_transformer.errors import UserError
from keras_transformer.training.replication import replica_context


@dataclass
class TokenScores:
    """What loss and metrics need to know about each true token, in place of the logits.

    To Keras it is one tensor, as logits are: not a structure of three.
    """

    losses: object  # float32 (batch, target): the smoothed cross-entropies
    log_probs: object  # float32 (batch, target): the log-probabilities
    is_predicted: object  # bool (batch, target): whether argmax of the logits is this token


@keras.saving.register_keras_serializable(package="keras_transformer")
class LabelSmoothedCrossentropy(keras.losses.Loss):
    """Cross-entropy against smoothed targets (section 5.4), the mean over the tokens.

    The target distribution puts `1 - ε_ls` on the true token and spreads `ε_ls` evenly over the
    whole vocabulary (Szegedy et al. 2015). With logits z and V tokens, the loss of a token y is

    ```
    log Σ_v exp(z_v) - (1 - ε_ls) z_y - ε_ls/V Σ_v z_v
    ```

    computed in float32 as it stands: no one-hot targets and no log-probabilities of the size of the
    logits are built.

    The mean is that over the whole batch, also where the replicas of a `tf.distribute` strategy
    share it and have unequal numbers of tokens.

    Args:
        label_smoothing: ε_ls, from 0 up to 1.
        reduction: `"mean_with_sample_weight"`, the mean over the tokens by their weights; or
            `"sum"`, the weighted sum, for weights that are already divided by their sum over the
            whole batch.
        name: name of the loss.
        dtype: dtype of the computation. Defaults to float32.

    Call arguments:
        y_true: int tensor `(batch, target)`, the true token ids.
        y_pred: float tensor `(batch, target, vocabulary_size)`, logits; or their `TokenScores`.
        sample_weight: float tensor `(batch,)`, of rows, or one that broadcasts to `(batch,
            target)`, of tokens. Defaults to 1. Padding (id 0) has weight 0, whatever is passed.

    Returns:
        A float32 scalar.

    Raises:
        UserError: if `label_smoothing` is not in [0, 1).
    """

    def __init__(
        self,
        label_smoothing=0.1,
        reduction="mean_with_sample_weight",
        name="label_smoothed_crossentropy",
        dtype="float32",
    ):
        super().__init__(name=name, reduction=reduction, dtype=dtype)
        if not 0 <= label_smoothing < 1:
            raise UserError(
                "`label_smoothing` must be at least 0 and less than 1. "
                f"Received: label_smoothing={label_smoothing}"
            )
        self.label_smoothing = label_smoothing

    def __call__(self, y_true, y_pred, sample_weight=None):
        weights = token_weights(y_true, sample_weight)
        if isinstance(y_pred, TokenScores):
            reduce = Reduction(reduction=self.reduction, dtype=self.dtype)
            loss = reduce(y_true, y_pred.losses, weights)
        else:
            loss = super().__call__(y_true, y_pred, weights)
        if self.reduction != "mean_with_sample_weight":
            return loss
        return _mean_of_all_replicas(loss, weights)

    def call(self, y_true, y_pred):
        true_logit, log_normalizer = logit_of(y_true, y_pred), ops.logsumexp(y_pred, axis=-1)
        smoothing = self.label_smoothing
        if not smoothing:
            return log_normalizer - true_logit
        return log_normalizer - (1 - smoothing) * true_logit - smoothing * ops.mean(y_pred, axis=-1)

    def get_config(self):
        return {**super().get_config(), "label_smoothing": self.label_smoothing}


class Reduction(keras.losses.Loss):
    """A loss of what was computed for each token."""

    def call(self, y_true, y_pred):
        return y_pred


def logit_of(y_true, logits):
    """The logit of each token of `y_true`, `(batch, target)`."""
    # Keras casts targets to float.
    index = ops.expand_dims(ops.cast(y_true, "int32"), -1)
    return ops.squeeze(ops.take_along_axis(logits, index, axis=-1), -1)


def is_argmax(y_true, logits, maximum):
    """Whether argmax, which takes the first of equal logits, gives the tokens of `y_true`.

    `maximum` is the largest logit at each position.
    """
    # Not by argmax itself, which XLA makes a slow loop of on a CPU: a tenth of a training step.
    # Nor with integers, whose minimum takes longer than that of floats.
    token_ids = ops.arange(logits.shape[-1], dtype="float32")
    is_maximum = ops.equal(logits, ops.expand_dims(maximum, -1))
    first = ops.min(ops.where(is_maximum, token_ids, math.inf), axis=-1)
    return ops.equal(first, ops.cast(y_true, "float32"))


def check_targets(y_true):
    """Raise a `UserError` if there are none."""
    if y_true is None:
        raise UserError(
            "There are no targets. Pass the tokens that follow `decoder_token_ids` too: "
            "fit(inputs, targets)."
        )


def token_weights(y_true, sample_weight=None):
    """The weight of each token, float32 `(batch, target)`: that of its sample, 0 for padding."""
    check_targets(y_true)
    weights = ops.cast(ops.not_equal(y_true, 0), "float32")
    return weights if sample_weight is None else weights * align_weights(sample_weight, y_true)


def align_weights(sample_weight, y_true):
    """Weights as float32 that broadcasts to `(batch, target)`; those of rank 1 are of rows."""
    weights, rank = ops.cast(sample_weight, "float32"), len(y_true.shape)
    if len(weights.shape) == rank + 1 and weights.shape[-1] == 1:
        return ops.squeeze(weights, -1)
    while 0 < len(weights.shape) < rank:
        weights = ops.expand_dims(weights, -1)
    return weights


def _mean_of_all_replicas(loss, weights):
    """From a replica's weighted mean, as Keras scales it, to its share of the mean over all.

    Keras divides a replica's mean by their number R, and adds up the gradients of the replicas. So
    the gradient is made that of the weighted sum over the weights of all. The value is made 1/R of
    the mean over all: Keras reports the mean over the replicas of R times their losses.
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
