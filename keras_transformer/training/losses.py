import keras
from keras import ops

from keras_transformer.errors import UserError


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

    Args:
        label_smoothing: ε_ls, from 0 up to 1.
        reduction: `"mean_with_sample_weight"`, the mean over the tokens by their weights; or
            `"sum"`, the weighted sum, which several replicas can add up exactly when the weights
            are already divided by their sum over the whole batch.
        name: name of the loss.
        dtype: dtype of the computation. Defaults to float32.

    Call arguments:
        y_true: int tensor `(batch, target)`, the true token ids.
        y_pred: float tensor `(batch, target, vocabulary_size)`, logits.
        sample_weight: float tensor that broadcasts to `(batch, target)`. Defaults to 1 for a token
            and 0 for padding (id 0).

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
        return super().__call__(y_true, y_pred, token_weights(y_true, sample_weight))

    def call(self, y_true, y_pred):
        true_logit, log_normalizer = logit_of(y_true, y_pred), ops.logsumexp(y_pred, axis=-1)
        smoothing = self.label_smoothing
        if not smoothing:
            return log_normalizer - true_logit
        return log_normalizer - (1 - smoothing) * true_logit - smoothing * ops.mean(y_pred, axis=-1)

    def get_config(self):
        return {**super().get_config(), "label_smoothing": self.label_smoothing}


def logit_of(y_true, logits):
    """The logit of each token of `y_true`, `(batch, target)`."""
    # Keras casts targets to float.
    index = ops.expand_dims(ops.cast(y_true, "int32"), -1)
    return ops.squeeze(ops.take_along_axis(logits, index, axis=-1), -1)


def token_weights(y_true, sample_weight=None):
    """The weight of each token, float32 `(batch, target)`: without any, 0 for padding, else 1."""
    weights = ops.not_equal(y_true, 0) if sample_weight is None else sample_weight
    return ops.broadcast_to(ops.cast(weights, "float32"), ops.shape(y_true))
