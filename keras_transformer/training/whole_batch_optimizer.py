"""An optimizer for batches that replicas and several steps share."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import keras
from keras import ops

from keras_transformer.errors import UserError
from keras_transformer.training.replication import call_if, replica_context, summed_over_replicas
from keras_transformer.typing import Tensor
from keras_transformer.validation import positive_integer, positive_number


@keras.saving.register_keras_serializable(package="keras_transformer")
class WholeBatchOptimizer(keras.optimizers.LossScaleOptimizer):
    """Give an optimizer the gradient of the whole batch: of all replicas and accumulated batches.

    Each replica adds up the gradients of `accumulate` calls; then, once an update, those of the
    replicas are added up. Only this sum is checked, clipped and given to the inner optimizer's own
    `apply`, so that an update is the one that a single device would make of the one large batch,
    with the inner optimizer's weight decay, constraints and moving average.

    ```
    g = 1/accumulate Σ_replicas Σ_calls g_call,replica
    g = g * min(1, clip_norm / ||g||)
    ```

    Keras's own options act on parts of it. With `gradient_accumulation_steps` schedules and moving
    averages count calls, and it does not run under a `MirroredStrategy`; `global_clipnorm` clips
    each replica's gradient before they are added up.

    ```python
    model.compile(
        kt.WholeBatchOptimizer(keras.optimizers.AdamW(1e-3), accumulate=4, clip_norm=1.0),
        kt.LabelSmoothedCrossentropy(),
    )
    ```

    `iterations`, which schedules see, counts updates. `batches` counts calls, which is the position
    in the data, and `num_skipped` the updates that were left out.

    Under a `tf.distribute.MirroredStrategy` the replicas exchange gradients at an update's last
    call alone: once, or twice with `clip_norm`, whose norm is of their sum. On JAX the gradients
    that come in are those of all devices already, and each call has exchanged them.

    Args:
        inner_optimizer: the `keras.optimizers.Optimizer` that makes the updates. It must not clip,
            accumulate or scale itself.
        accumulate: number of calls that share an update. Their mean gradient is used.
        clip_norm: largest global norm of the gradient. Defaults to no clipping.
        skip_nonfinite: whether to leave out an update whose gradient's global norm, in any replica,
            is infinite or NaN: weights and the inner optimizer stay as they are, and `num_skipped`
            grows by one.
        loss_scaling: whether to scale the loss as `keras.optimizers.LossScaleOptimizer` does, so
            that gradients do not vanish in float16; non-finite updates are then always skipped, and
            halve the scale. Defaults to true when the global dtype policy computes in float16.
        initial_scale: the first scale.
        dynamic_growth_steps: updates after which the scale doubles.
        average_at_end: whether `fit` writes the inner optimizer's moving average over the weights
            at its end, as Keras does. A training of several `fit` does so itself after the last.
        name: name of the optimizer.

    Raises:
        UserError: if `accumulate` or `clip_norm` is not positive, or the inner optimizer does what
            this one does; when it is used, if no variable has a gradient, or if an inner optimizer
            under a strategy has `ema_overwrite_frequency`.
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
        _check(inner_optimizer, accumulate, clip_norm)
        super().__init__(inner_optimizer, initial_scale, dynamic_growth_steps, name=name)
        if loss_scaling is None:
            loss_scaling = keras.config.dtype_policy().compute_dtype == "float16"
        self.accumulate = accumulate
        self.clip_norm = clip_norm
        self.skip_nonfinite = skip_nonfinite
        self.loss_scaling = loss_scaling
        self.average_at_end = average_at_end

    def build(self, variables: Sequence[keras.Variable]) -> None:
        # Without aggregation each replica writes its own copy of a variable. All write the same.
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
        # Not in the parent's `build`, where Keras overlooks variables of some, such as of Nadam.
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
            raise UserError("No variable has a gradient. Does the loss depend on the weights?")
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
        """Write the inner optimizer's moving average, if it has one, over trained variables.

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
        # Not the parent's, which decides for itself which gradients are finite.
        return keras.optimizers.Optimizer.stateless_apply(
            self, optimizer_variables, grads, trainable_variables
        )

    def _update_with(self, sums, variables):
        """An update with the sums of the gradients, which then begin anew."""
        grads = [ops.convert_to_tensor(total) for total in sums]
        self._update(grads, variables)
        for total, gradient in zip(sums, grads):
            self.assign(total, ops.zeros_like(gradient))

    def _update(self, grads, variables):
        """An update with gradients that each replica has added up over the calls."""
        replicas = replica_context()
        _check_replicas(self.inner_optimizer, replicas)
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
                # The inner optimizer adds up the replicas' gradients.
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

    def _call_if(self, condition, function):
        call_if(condition, function, self._trained.variables + self.variables)

    def _count(self, finite):
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
    """What an optimizer was built for: an object, or Keras would add the variables to its own."""

    variables: list[keras.Variable]
    sums: dict[int, keras.Variable]
    """id of a variable -> the variable with the sum of its gradients, where there are sums."""


def _check(inner_optimizer, accumulate, clip_norm):
    positive_integer("accumulate", accumulate)
    if clip_norm is not None:
        positive_number("clip_norm", clip_norm)
    for name in ("clipnorm", "clipvalue", "global_clipnorm", "gradient_accumulation_steps"):
        if getattr(inner_optimizer, name, None):
            raise UserError(
                f"The inner optimizer has `{name}`, which would act on parts of the batch. Use "
                "`clip_norm` and `accumulate` of the WholeBatchOptimizer."
            )
    if isinstance(inner_optimizer, keras.optimizers.LossScaleOptimizer):
        raise UserError(
            "The inner optimizer scales the loss already. Pass the optimizer inside it, and "
            "`loss_scaling=True`."
        )


def _check_replicas(inner_optimizer, replicas):
    if replicas and inner_optimizer.ema_overwrite_frequency:
        # Keras writes the average in a branch in which replicas would have to meet.
        raise UserError(
            "`ema_overwrite_frequency` is not supported with the replicas of a strategy. Leave it "
            "out: `fit` writes the average at its end."
        )


def _dense(gradient):
    # TensorFlow gives the rows of an embedding's gradient, of which several may be of one token.
    if keras.backend.backend() != "tensorflow":
        return gradient
    import tensorflow as tf

    return tf.convert_to_tensor(gradient)


def _global_norm(tensors):
    squares = [ops.sum(ops.square(ops.cast(tensor, "float32"))) for tensor in tensors]
    return ops.sqrt(ops.sum(ops.stack(squares)))
