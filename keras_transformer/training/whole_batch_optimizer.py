"""An optimizer for batches that are divided among replicas and several steps."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import keras
from keras import ops

from keras_transformer.annotations import Tensor
from keras_transformer.errors import UserError
from keras_transformer.models.replication import call_if, replica_context, summed_over_replicas
from keras_transformer.validation import positive_integer, positive_number


@keras.saving.register_keras_serializable(package="keras_transformer")
class WholeBatchOptimizer(keras.optimizers.LossScaleOptimizer):
    """An optimizer for the gradient of a whole batch: all replicas and accumulated batches.

    Each replica adds the gradients of `accumulate` calls. Once per update, these sums are added
    over the replicas. Only the total is checked, clipped and passed to the inner optimizer's own
    `apply`. So an update equals that of a single device for one large batch, including the inner
    optimizer's weight decay, constraints and moving average.

    ```
    g = 1/accumulate Σ_replicas Σ_calls g_call,replica
    g = g * min(1, clip_norm / ||g||)
    ```

    Keras's own options apply to parts of the gradient. With `gradient_accumulation_steps`,
    schedules and moving averages count calls, and it does not support a `MirroredStrategy`;
    `global_clipnorm` clips each replica's gradient before the gradients are added.

    ```python
    model.compile(
        kt.WholeBatchOptimizer(keras.optimizers.AdamW(1e-3), accumulate=4, clip_norm=1.0),
        kt.LabelSmoothedCrossentropy(),
    )
    ```

    `iterations`, which schedules use, counts updates. `batches` counts calls, which is the position
    in the data, and `num_skipped` counts skipped updates.

    Under a `tf.distribute.MirroredStrategy`, the replicas exchange gradients only at the last call
    of an update: once, or twice with `clip_norm`, which needs the norm of their sum. On JAX,
    incoming gradients are already those of all devices, which exchange them at each call.

    Args:
        inner_optimizer: the `keras.optimizers.Optimizer` that makes the updates. It must not clip,
            accumulate or scale gradients itself.
        accumulate: the number of calls per update. Their mean gradient is used.
        clip_norm: largest global norm of the gradient. Defaults to no clipping.
        skip_nonfinite: whether to skip an update if the global norm of the gradient, in any
            replica, is infinite or NaN: weights and inner optimizer do not change, and
            `num_skipped` increases by one.
        loss_scaling: whether to scale the loss as `keras.optimizers.LossScaleOptimizer` does, so
            that gradients do not vanish in float16. Non-finite updates are then always skipped, and
            halve the scale. Defaults to true if the global dtype policy computes in float16.
        initial_scale: the initial scale.
        dynamic_growth_steps: the number of updates after which the scale doubles.
        average_at_end: whether `fit` writes the inner optimizer's moving average over the weights
            at its end, as Keras does. A training with several `fit` does this itself after the
            last.
        name: name of the optimizer.

    Raises:
        UserError: if `accumulate` or `clip_norm` is not positive, or the inner optimizer already
            does the work of this one; when it is used, if no variable has a gradient, or if an
            inner optimizer under a strategy has `ema_overwrite_frequency`.
    """

    def __init__(
        self,
        inner_optimizer: keras.optimizers.Optimizer,
        accumulate: int = 1,
        clip_norm: float | None = None,
        skip_nonfinite: bool = False,
        loss_scaling: bool | None = None,
        initial_scale: float = 2.0**15,
        dynamic_growth_steps: int = 2000,
        average_at_end: bool = True,
        name: str | None = None,
    ):
        _validate(inner_optimizer, accumulate, clip_norm)
        super().__init__(inner_optimizer, initial_scale, dynamic_growth_steps, name=name)
        if loss_scaling is None:
            loss_scaling = keras.config.dtype_policy().compute_dtype == "float16"
        self.accumulate = accumulate
        self.clip_norm = clip_norm
        self.skip_nonfinite = skip_nonfinite
        self.loss_scaling = loss_scaling
        self.average_at_end = average_at_end

    def build(self, variables: Sequence[keras.Variable]) -> None:
        # Without aggregation, each replica writes its own copy of a variable. All write the same
        # value.
        self.batches = self.add_variable((), dtype="int", name="batches")
        self.num_skipped = self.add_variable((), dtype="int", name="num_skipped")
        sums = {}
        if self.accumulate > 1:
            with summed_over_replicas():
                sums = {
                    id(v): self.add_variable_from_reference(v, "gradient_sum") for v in variables
                }
        self._trained = _Trained(list(variables), sums)
        self.step_counter = self.add_variable((), dtype="int", name="step_counter")
        self.dynamic_scale = self.add_variable(
            (), keras.initializers.Constant(self.initial_scale), "float32", name="dynamic_scale"
        )
        # Not in the parent's `build`, where Keras overlooks variables of some optimizers, such as
        # Nadam.
        self.inner_optimizer.build(variables)
        keras.optimizers.Optimizer.build(self, variables)

    def scale_loss(self, loss: Tensor) -> Tensor:
        return super().scale_loss(loss) if self.loss_scaling else loss

    def apply(
        self,
        grads: Iterable[Tensor | None],
        trainable_variables: Iterable[keras.Variable] | None = None,
    ) -> None:
        if not self.built:
            self.build(list(trainable_variables or ()))
        pairs = [
            (_dense(gradient), variable)
            for gradient, variable in zip(grads, trainable_variables or self._trained.variables)
            if gradient is not None
        ]
        if not pairs:
            raise UserError(
                "Expected a gradient for at least one variable. Received: none. Check that the "
                "loss depends on the weights."
            )
        grads, variables = zip(*pairs)
        if self.accumulate == 1:
            self._update(grads, variables)
        else:
            sums = [self._trained.sums[id(variable)] for variable in variables]
            for total, gradient in zip(sums, grads):
                self.assign_add(total, gradient)
            is_last = ops.equal((self.batches + 1) % self.accumulate, 0)
            self._call_if(is_last, lambda: self._update_with(sums, variables))
        self.batches.assign_add(1)

    def finalize_variable_values(self, var_list: Sequence[keras.Variable]) -> None:
        if self.average_at_end:
            super().finalize_variable_values(var_list)

    def overwrite_with_average(self, variables: Sequence[keras.Variable]) -> None:
        """Write the inner optimizer's moving average, if it has one, over the trained variables.

        Args:
            variables: the trained variables.
        """
        self.inner_optimizer.finalize_variable_values(variables)

    def stateless_apply(
        self,
        optimizer_variables: Sequence[Tensor],
        grads: Sequence[Tensor],
        trainable_variables: Sequence[Tensor],
    ) -> tuple[list[Tensor], list[Tensor]]:
        # Not the parent's method, which decides on its own which gradients are finite.
        return keras.optimizers.Optimizer.stateless_apply(
            self, optimizer_variables, grads, trainable_variables
        )

    def _update_with(
        self, sums: Sequence[keras.Variable], variables: Sequence[keras.Variable]
    ) -> None:
        """Update with the sums of the gradients, and reset the sums."""
        grads = [ops.convert_to_tensor(total) for total in sums]
        self._update(grads, variables)
        for total, gradient in zip(sums, grads):
            self.assign(total, ops.zeros_like(gradient))

    def _update(self, grads: Sequence[Tensor], variables: Sequence[keras.Variable]) -> None:
        """Update with the gradients that each replica has added over the calls."""
        replicas = replica_context()
        _validate_replicas(self.inner_optimizer, replicas)
        # The mean over the calls, without the loss scale.
        factor = 1 / self.accumulate
        if self.loss_scaling:
            factor = factor / ops.convert_to_tensor(self.dynamic_scale)
        norm = None
        if self.clip_norm is not None:
            if replicas:
                grads = replicas.all_reduce("SUM", list(grads))
            norm = _global_norm(grads) * factor
            factor = factor * self.clip_norm / ops.maximum(norm, self.clip_norm)
            if replicas:
                # The inner optimizer adds the replicas' gradients.
                factor = factor / replicas.num_replicas_in_sync
        if not isinstance(factor, float) or factor != 1:
            grads = [gradient * ops.cast(factor, gradient.dtype) for gradient in grads]
        if not (self.skip_nonfinite or self.loss_scaling):
            self.inner_optimizer.apply(grads, variables)
            return
        norm = _global_norm(grads) if norm is None else norm
        finite = ops.isfinite(replicas.all_reduce("SUM", norm) if replicas else norm)
        self._call_if(finite, lambda: self.inner_optimizer.apply(grads, variables))
        self._count(finite)

    def _call_if(self, condition: Tensor, function: Callable[[], None]) -> None:
        call_if(condition, function, self._trained.variables + self.variables)

    def _count(self, finite: Tensor) -> None:
        """Count skipped updates, and adapt the loss scale to them."""
        self.num_skipped.assign_add(ops.cast(ops.logical_not(finite), self.num_skipped.dtype))
        if not self.loss_scaling:
            return
        count = self.step_counter + ops.cast(finite, self.step_counter.dtype)
        grown = count >= self.dynamic_growth_steps
        change = ops.where(finite, ops.where(grown, 2.0, 1.0), 0.5)
        self.dynamic_scale.assign(self.dynamic_scale * change)
        go_on = ops.logical_and(finite, ops.logical_not(grown))
        self.step_counter.assign(ops.where(go_on, count, ops.zeros_like(count)))

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "accumulate": self.accumulate,
            "clip_norm": self.clip_norm,
            "skip_nonfinite": self.skip_nonfinite,
            "loss_scaling": self.loss_scaling,
            "average_at_end": self.average_at_end,
        }


@dataclass(frozen=True)
class _Trained:
    """The variables of a built optimizer, in an object so that Keras does not track them."""

    variables: list[keras.Variable]
    sums: dict[int, keras.Variable]
    """id of a variable -> the variable with the sum of its gradients, where there are sums."""


def _validate(
    inner_optimizer: keras.optimizers.Optimizer, accumulate: int, clip_norm: float | None
) -> None:
    positive_integer("accumulate", accumulate)
    if clip_norm is not None:
        positive_number("clip_norm", clip_norm)
    for name in ("clipnorm", "clipvalue", "global_clipnorm", "gradient_accumulation_steps"):
        if getattr(inner_optimizer, name, None):
            raise UserError(
                f"`inner_optimizer` must not have `{name}`, which would apply to parts of the "
                "batch. Use `clip_norm` and `accumulate` of the WholeBatchOptimizer."
            )
    if isinstance(inner_optimizer, keras.optimizers.LossScaleOptimizer):
        raise UserError(
            "`inner_optimizer` must not scale the loss. Pass the optimizer inside it, and "
            "`loss_scaling=True`."
        )


def _validate_replicas(inner_optimizer: keras.optimizers.Optimizer, replicas: Any) -> None:
    if replicas and inner_optimizer.ema_overwrite_frequency:
        # Keras writes the average in a branch in which replicas would have to communicate.
        raise UserError(
            "`ema_overwrite_frequency` is not supported with the replicas of a strategy. Omit it: "
            "`fit` writes the average at its end."
        )


def _dense(gradient: Tensor) -> Tensor:
    # TensorFlow returns the rows of an embedding's gradient, where several may belong to one token.
    if keras.backend.backend() != "tensorflow":
        return gradient
    import tensorflow as tf

    return tf.convert_to_tensor(gradient)


def _global_norm(tensors: Iterable[Tensor]) -> Tensor:
    squares = [ops.sum(ops.square(ops.cast(tensor, "float32"))) for tensor in tensors]
    return ops.sqrt(ops.sum(ops.stack(squares)))
