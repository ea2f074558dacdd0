"""The training step of `Transformer`: projection and loss at once."""

import keras
from keras import ops

from keras_transformer.training.fused_crossentropy import TokenScores, fused_crossentropy
from keras_transformer.training.losses import LabelSmoothedCrossentropy, token_weights
from keras_transformer.training.metrics import Perplexity, TokenAccuracy

# What the inputs of a fused training step hold beside the token ids.
TARGETS, WEIGHTS = "target_token_ids", "target_weights"


class FusedTrainingStep(keras.Model):
    """A model that makes no logits of a whole batch while it trains.

    Where the loss is `LabelSmoothedCrossentropy` and all metrics are this package's, a training
    step gives the true tokens to `call` with the inputs; `call` returns their `TokenScores` instead
    of logits, and loss and metrics are made of these. With any other loss or metric, and in
    validation, there are logits as usual.
    """

    def train_step(self, *args):
        *state, data = args  # JAX has a state.
        inputs, y_true, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        if self._is_fused() and isinstance(inputs, dict):
            weights = token_weights(y_true, sample_weight)
            inputs = {**inputs, TARGETS: y_true, WEIGHTS: weights}
            inputs = keras.tree.map_structure(ops.convert_to_tensor, inputs)
            data = keras.utils.pack_x_y_sample_weight(inputs, y_true, sample_weight)
        return super().train_step(*state, data)

    def score_targets(self, sequence, embeddings, inputs):
        """The `TokenScores` of the targets among the inputs of a training step."""
        return fused_crossentropy(
            sequence,
            embeddings,
            inputs[TARGETS],
            inputs[WEIGHTS],
            self.loss.label_smoothing,
        )

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        if not isinstance(y_pred, TokenScores):
            return super().compute_loss(x, y, y_pred, sample_weight, training)
        reduce = Reduction(reduction=self.loss.reduction)
        return sum(self.losses, start=reduce(y, y_pred.losses, x[WEIGHTS]))

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        if not isinstance(y_pred, TokenScores):
            return super().compute_metrics(x, y, y_pred, sample_weight)
        compiled = self._compile_metrics
        if compiled is not None and not compiled.built:
            compiled.build(y, y_pred.losses)
        for metrics, weight in zip(self._lists_of_metrics(), (None, sample_weight)):
            for metric in metrics:
                metric.update_scores(y, y_pred, weight)
        return self.get_metrics_result()

    def _is_fused(self):
        # Not of classes derived from these, which may do otherwise with logits.
        return type(self.loss) is LabelSmoothedCrossentropy and all(
            isinstance(metrics, list | tuple)
            and all(type(metric) in (TokenAccuracy, Perplexity) for metric in metrics)
            for metrics in self._lists_of_metrics()
        )

    def _lists_of_metrics(self):
        """`metrics` and `weighted_metrics` as they were compiled."""
        # (Were `compile` overridden to see them, Keras would not call it when a model is loaded.)
        compiled = self._compile_metrics
        if compiled is None:
            return [], []
        return compiled._user_metrics or [], compiled._user_weighted_metrics or []


class Reduction(keras.losses.Loss):
    """A loss of what was computed for each token."""

    def call(self, y_true, y_pred):
        return y_pred
