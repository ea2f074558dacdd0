"""The steps of `fit` and `evaluate` for `Transformer`, with projection and loss fused."""

import contextlib
import inspect
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_transformer.annotations import Tensor
from keras_transformer.errors import UserError
from keras_transformer.models.fused_crossentropy import fused_crossentropy, score_tokens
from keras_transformer.models.losses import (
    OTHER_SHAPE,
    LabelSmoothedCrossentropy,
    TokenScores,
    align_weights,
    prepare_targets,
    token_weights,
    validate_shape_of_targets,
)
from keras_transformer.models.metrics import Perplexity, TokenAccuracy, TokenMean

# Further inputs of a fused step; the weights in training only.
_TARGETS, _WEIGHTS = "target_token_ids", "target_weights"
_QUANTIZED = "the embedding is quantized, and the loss needs it in floats"
# The methods of a step. A class that overrides one of them may expect logits there.
_METHODS = ("call", "compute_loss", "compute_metrics", "train_step", "test_step")


class FusedTrainingStep(keras.Model):
    """A model that trains and evaluates without the logits of a whole batch in memory.

    A fused step passes the true tokens to `call` with the inputs. `call` then returns the fields of
    `TokenScores` instead of logits, and Keras passes them to loss and metrics. In other steps, and
    in `predict`, the model's output is logits.

    A derived class has:

    - `logit_factors(inputs, training)`, which returns the tensor `(batch, target, hidden_dim)` and
      the matrix `(vocabulary_size, hidden_dim)` whose product is the logits, and a function of the
      true tokens that returns a further loss of each token, or None;
    - `token_embedding`, the layer of that matrix;
    - `with_mask`, a `PaddingMask`.
    """

    # A sentence on why steps must be fused, if `logit_factors` returns a further loss.
    fused_steps_reason: str | None = None

    # The argument of `compile`, and the reason why steps cannot be fused, or None.
    _fused, _obstacle = "auto", None
    _class_weight = None

    def compile(
        self,
        optimizer: str | dict | keras.optimizers.Optimizer = "rmsprop",
        loss: Any = None,
        loss_weights: Any = None,
        metrics: Any = None,
        weighted_metrics: Any = None,
        *args: Any,
        fused: bool | str = "auto",
        **kwargs: Any,
    ) -> None:
        """Configure the model for training, as `keras.Model.compile`.

        Args:
            optimizer: like all arguments except `fused`, an argument of `keras.Model.compile`.
            fused: whether `fit` and `evaluate` compute the loss together with the logits, for a
                part of the batch at a time, which is faster and takes less memory. `"auto"` does so
                if the loss and the metrics are `LabelSmoothedCrossentropy`, `TokenAccuracy` and
                `Perplexity` (not classes derived from them), the model's class overrides none of
                `call`, `compute_loss`, `compute_metrics`, `train_step` and `test_step`, and the
                embedding is not quantized. True requires fused steps; false always computes all
                logits.

        Raises:
            UserError: if `fused` is not one of these values, or is true and fused steps are not
                possible. (If the model is quantized later, its next step raises the error.)
        """
        if fused not in ("auto", True, False):
            raise UserError(f'`fused` must be "auto", True or False. Received: fused={fused!r}')
        obstacle = self._find_obstacle(loss, metrics, weighted_metrics)
        if self.fused_steps_reason and (fused is False or obstacle):
            raise UserError(
                f"{self.fused_steps_reason} Fused steps are not possible: "
                f"{obstacle or '`fused=False`'}."
            )
        if fused is True:
            _require_fused_steps(not obstacle, obstacle)
            _require_fused_steps(not self._embedding_is_quantized(), _QUANTIZED)
        _warn_of_padding(loss, metrics, weighted_metrics)
        super().compile(optimizer, loss, loss_weights, metrics, weighted_metrics, *args, **kwargs)
        self._fused, self._obstacle = fused, obstacle

    def get_compile_config(self) -> dict[str, Any] | None:
        config = super().get_compile_config()
        if not config:
            return config
        # Only values that differ from the default, because Keras passes them to the `compile` of
        # `keras.Model` when it clones a model.
        return {**config, **({"fused": False} if self._fused is False else {})}

    def compile_from_config(self, config: dict[str, Any]) -> None:
        # The parent's method does not call an overridden `compile`.
        self.compile(**keras.saving.deserialize_keras_object(config))
        if self.built:
            self.optimizer.build(self.trainable_variables)

    def fit(self, *args: Any, **kwargs: Any) -> keras.callbacks.History:
        """Train the model, as `keras.Model.fit`; `class_weight` maps token ids to weights."""
        arguments = self._keep_class_weight(super().fit, args, kwargs)
        self._validate_arrays(arguments.get("x"), arguments.get("y"))
        with _errors_of_targets():
            return super().fit(**arguments)

    def evaluate(
        self, x: Any = None, y: Any = None, *args: Any, **kwargs: Any
    ) -> float | list[float] | dict[str, float]:
        """Return loss and metrics, as `keras.Model.evaluate`."""
        self._validate_arrays(x, y)
        with _errors_of_targets():
            return super().evaluate(x, y, *args, **kwargs)

    def train_on_batch(self, *args: Any, **kwargs: Any) -> float | list[float] | dict[str, float]:
        """Train on one batch, as `keras.Model.train_on_batch`, with `class_weight` as in `fit`."""
        arguments = self._keep_class_weight(super().train_on_batch, args, kwargs)
        self._validate_arrays(arguments.get("x"), arguments.get("y"))
        with _errors_of_targets():
            return super().train_on_batch(**arguments)

    def test_on_batch(self, *args: Any, **kwargs: Any) -> float | list[float] | dict[str, float]:
        """Evaluate one batch, as `keras.Model.test_on_batch`."""
        with _errors_of_targets():
            return super().test_on_batch(*args, **kwargs)

    def train_step(self, *args: Any) -> Any:
        *state, data = args  # JAX has a state.
        inputs, y_true, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        if self._class_weight:
            sample_weight = _weigh_classes(self._class_weight, y_true, sample_weight)
        if self._is_fused(inputs):
            y_true = prepare_targets(y_true, inputs["decoder_token_ids"])
            weights = token_weights(y_true, sample_weight)
            inputs = _tensors({**inputs, _TARGETS: y_true, _WEIGHTS: weights})
        data = keras.utils.pack_x_y_sample_weight(inputs, y_true, sample_weight)
        return super().train_step(*state, data)

    def test_step(self, *args: Any) -> Any:
        *state, data = args
        inputs, y_true, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        if self._is_fused(inputs):
            y_true = prepare_targets(y_true, inputs["decoder_token_ids"])
            inputs = _tensors({**inputs, _TARGETS: y_true})
        data = keras.utils.pack_x_y_sample_weight(inputs, y_true, sample_weight)
        return super().test_step(*state, data)

    def call(self, inputs: Any, training: bool | None = None, mask: Any = None) -> Any:
        if not (isinstance(inputs, dict) and _TARGETS in inputs):
            return super().call(inputs, training=training, mask=mask)
        y_true, smoothing = inputs[_TARGETS], self.loss.label_smoothing
        sequence, embeddings, further_losses = self.logit_factors(inputs, training)
        if _WEIGHTS in inputs:
            scores = fused_crossentropy(sequence, embeddings, y_true, inputs[_WEIGHTS], smoothing)
        else:
            scores = score_tokens(sequence, embeddings, y_true, smoothing)
        losses = scores.losses
        if further_losses is not None:
            losses = losses + further_losses(y_true)
        # JAX requires a structure of tensors.
        return losses, scores.log_probs, scores.is_predicted

    def compute_loss(
        self,
        x: Any = None,
        y: Tensor = None,
        y_pred: Any = None,
        sample_weight: Tensor = None,
        training: bool = True,
    ) -> Tensor:
        sample_weight = _expand_row_weights(sample_weight, y)
        return super().compute_loss(x, y, _wrap_scores(y_pred), sample_weight, training)

    def compute_metrics(
        self, x: Any, y: Tensor, y_pred: Any, sample_weight: Tensor = None
    ) -> dict[str, Any]:
        y_pred = _wrap_scores(y_pred)
        if isinstance(x, dict) and not isinstance(y_pred, TokenScores):
            # On JAX the mask of the predictions is lost after the gradient's computation.
            y_pred = self.with_mask([y_pred, x["decoder_token_ids"]])
        return super().compute_metrics(x, y, y_pred, _expand_row_weights(sample_weight, y))

    def _is_fused(self, inputs: Any) -> bool:
        if self._fused is False or self._obstacle or not isinstance(inputs, dict):
            return False
        if self._embedding_is_quantized():
            _require_fused_steps(self._fused is not True, _QUANTIZED)
        return not self._embedding_is_quantized()

    def _embedding_is_quantized(self) -> bool:
        return self.token_embedding.quantization_mode is not None

    def _find_obstacle(self, loss: Any, metrics: Any, weighted_metrics: Any) -> str | None:
        """Return the reason why steps cannot be fused, or None."""
        for name in _METHODS:
            if getattr(type(self), name) is not getattr(FusedTrainingStep, name):
                return f"{type(self).__name__} overrides `{name}`, which may need logits"
        # Derived classes may use logits.
        if type(loss) is not LabelSmoothedCrossentropy:
            return f"`loss` is not a LabelSmoothedCrossentropy, but {loss!r}"
        for name, given in (("metrics", metrics), ("weighted_metrics", weighted_metrics)):
            if not isinstance(given or [], list | tuple):
                return f"`{name}` is not a list"
            for metric in given or []:
                if type(metric) not in (TokenAccuracy, Perplexity):
                    return f"`{name}` contains neither TokenAccuracy nor Perplexity, but {metric!r}"
        return None

    def _validate_arrays(self, inputs: Any, targets: Any) -> None:
        """Check arrays before the first step.

        On JAX, a model whose `fit` or `evaluate` fails within a step loses its weights. A compiled
        step cannot raise an error for an id outside the vocabulary; its loss is NaN.
        """
        if not isinstance(targets, np.ndarray) or not isinstance(
            getattr(self, "loss", None), LabelSmoothedCrossentropy
        ):
            return
        if isinstance(inputs, dict) and hasattr(inputs.get("decoder_token_ids"), "shape"):
            validate_shape_of_targets(targets, inputs["decoder_token_ids"])
        size = self.token_embedding.input_dim
        if targets.max(initial=0) >= size:
            raise UserError(
                f"`y` must contain token ids below {size}, the vocabulary size. "
                f"Received: the id {targets.max()}"
            )

    def _keep_class_weight(
        self, method: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> dict[str, Any]:
        """Keep `class_weight` for the steps, and return the other arguments by name."""
        arguments, class_weight = _take_class_weight(method, args, kwargs)
        if class_weight != self._class_weight:
            self._class_weight = class_weight
            self.train_function = None  # It contains the weights as constants.
        return arguments


def _warn_of_padding(loss: Any, metrics: Any, weighted_metrics: Any) -> None:
    """Warn about losses and metrics that do not read the padding mask of the logits."""
    for kind, given in (("loss", loss), ("metric", [metrics, weighted_metrics])):
        for x in keras.tree.flatten(given):
            if not _reads_mask(x):
                warnings.warn(
                    f"The {kind} {x.name!r} ({type(x).__name__}) does not read the padding mask of "
                    "the logits, so it counts padding wherever `sample_weight` does not exclude "
                    "it. `LabelSmoothedCrossentropy`, `TokenAccuracy`, `Perplexity` and Keras's "
                    "own losses and mean metrics leave padding out.",
                    stacklevel=3,
                )


def _reads_mask(x: Any) -> bool:
    """Return whether a loss or metric excludes padding by the mask of the predictions."""
    if isinstance(x, keras.losses.Loss):
        return type(x).__call__ in (keras.losses.Loss.__call__, LabelSmoothedCrossentropy.__call__)
    if not isinstance(x, keras.metrics.Metric):
        return True  # Keras turns names and functions into losses and mean metrics.
    # KerasHub's perplexity has the padding id as an argument.
    if isinstance(x, TokenMean) or getattr(x, "mask_token_id", None) is not None:
        return True
    return type(x).update_state is keras.metrics.MeanMetricWrapper.update_state


@contextlib.contextmanager
def _errors_of_targets() -> Iterator[None]:
    """Raise a `UserError` if a compiled program finds targets of a wrong shape."""
    try:
        yield
    except Exception as error:
        if OTHER_SHAPE not in str(error):
            raise
        found = re.search(r"Shapes of all inputs must match.*", str(error))
        raise UserError(
            "Targets must be token ids, one for each token of the decoder's input. "
            f"Received: targets of another shape: {found[0] if found else error}"
        ) from error


def _require_fused_steps(is_possible: bool, obstacle: str | None) -> None:
    """Raise a `UserError` if fused steps are required but not possible."""
    if not is_possible:
        raise UserError(f"`fused=True` is not possible: {obstacle}. Omit `fused`.")


def _tensors(inputs: Any) -> Any:
    return keras.tree.map_structure(ops.convert_to_tensor, inputs)


def _expand_row_weights(sample_weight: Any, y: Any) -> Any:
    """Expand weights of rows, `(batch,)` or `(batch, 1)`, to weights of tokens `(batch, target)`.

    Keras multiplies the weights by the mask of the predictions in place.
    """
    shape = tuple(getattr(sample_weight, "shape", ()))
    if y is None or not (len(shape) == 1 or shape[1:] == (1,)):
        return sample_weight
    column = ops.reshape(ops.cast(sample_weight, "float32"), (-1, 1))
    return column * ops.ones(ops.shape(y)[:2], "float32")


def _wrap_scores(y_pred: Any) -> Any:
    """Return the output of a fused step as one object, which Keras passes to loss and metrics."""
    return TokenScores(*y_pred) if isinstance(y_pred, tuple) else y_pred


def _take_class_weight(
    method: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[dict[str, Any], dict[int, float] | None]:
    """Return a method's arguments without `class_weight`, and `class_weight`: a dict or None.

    Keras would make one weight per row of it, and treat the targets as one-hot vectors.
    """
    arguments = inspect.signature(method).bind(*args, **kwargs).arguments
    class_weight = arguments.pop("class_weight", None)
    for token_id in class_weight or ():
        if not isinstance(token_id, int | np.integer) or token_id < 0:
            raise UserError(
                "`class_weight` must be a dict of token id -> weight, with integer ids, 0 or "
                f"larger. Received: the key {token_id!r}"
            )
    return arguments, class_weight


def _weigh_classes(
    class_weight: dict[int, float], y_true: Tensor, sample_weight: Tensor | None
) -> Tensor:
    """Return the weights of tokens: the weight of the token's id times the sample's weight.

    Args:
        class_weight: dict of token id -> weight; other ids have weight 1.
        y_true: int tensor `(batch, target)`.
        sample_weight: float tensor `(batch,)`, a float tensor that broadcasts to `(batch,
            target)`, or None.

    Returns:
        Float32 tensor `(batch, target)`.
    """
    table = np.ones(max(class_weight) + 2, "float32")
    table[list(class_weight)] = list(class_weight.values())
    # The last entry stands for all larger ids.
    index = ops.clip(ops.cast(y_true, "int32"), 0, len(table) - 1)
    weights = ops.take(table, index, axis=0)
    return weights if sample_weight is None else weights * align_weights(sample_weight, y_true)
