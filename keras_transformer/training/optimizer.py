"""The paper's optimizer (section 5.3), for batches that replicas and several steps share."""

from dataclasses import dataclass

import keras
from keras import ops

from keras_transformer.errors import UserError
from keras_transformer.training.schedules import NoamSchedule


@dataclass(kw_only=True)
class OptimizerOptions:
    """The optimizer (section 5.3)."""

    warmup_steps: int = 2000
    """Updates over which the learning rate grows (section 5.3)."""
    peak_learning_rate: float | None = 0.003
    """Learning rate at the end of the warm-up; "None" for the paper's, 1 / sqrt(hidden_dim *
    warmup_steps)."""
    ema: float | None = None
    """Momentum (0.999, say) of a moving average of the weights, used in place of checkpoints."""
    accumulate: int = 1
    """Batches that share an update, as one batch so many times as large."""
    clip_norm: float | None = None
    """Largest global norm of an update's gradient. Defaults to no clipping."""
    skip_nonfinite: bool = False
    """Leave out, and count, updates whose gradient is infinite or not a number."""


def make_optimizer(options, hidden_dim, loss_scaling=None):
    """The paper's optimizer with its schedule (section 5.3), as `OptimizerOptions` say.

    A moving average of the weights is left to `average_weights`: a training may take several `fit`.

    Args:
        options: `OptimizerOptions`.
        hidden_dim: d_model.
        loss_scaling: as for `WholeBatchOptimizer`.

    Returns:
        A `WholeBatchOptimizer`.

    Raises:
        UserError: if an option is out of its range.
    """
    peak, warmup_steps = options.peak_learning_rate, options.warmup_steps
    return paper_optimizer(
        NoamSchedule(hidden_dim, warmup_steps)
        if peak is None
        else NoamSchedule.from_peak(peak, hidden_dim, warmup_steps),
        options.accumulate,
        options.clip_norm,
        options.ema,
        options.skip_nonfinite,
        loss_scaling=loss_scaling,
        average_at_end=False,
    )


@keras.saving.register_keras_serializable(package="keras_transformer")
class WholeBatchOptimizer(keras.optimizers.LossScaleOptimizer):
    """Give an optimizer the gradient of the whole batch: of all replicas and accumulated batches.

    Each call adds up the gradients of the replicas, then those of `accumulate` calls. Only this sum
    is checked, clipped and given to the inner optimizer, so that an update is the one that a single
    device would make of the one large batch. (Keras clips each replica's gradients before it adds
    them up, cannot accumulate under a `MirroredStrategy`, and has schedules count calls.)

    ```
    g = 1/accumulate Σ_calls Σ_replicas g_call,replica
    g = g * min(1, clip_norm / ||g||)
    ```

    `iterations`, which schedules see, counts updates. `batches` counts calls, which is the position
    in the data, and `num_skipped` the updates that were left out.

    Args:
        inner_optimizer: the `keras.optimizers.Optimizer` that makes the updates. It must not clip,
            accumulate or scale itself.
        accumulate: number of calls that share an update. Their mean gradient is used.
        clip_norm: largest global norm of the gradient. Defaults to no clipping.
        skip_nonfinite: whether to leave out an update whose gradient's global norm is infinite or
            NaN: weights and the inner optimizer stay as they are, and `num_skipped` grows by one.
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
            this one does.
    """

    def __init__(
        self,
        inner_optimizer,
        accumulate=1,
        clip_norm=None,
        skip_nonfinite=False,
        loss_scaling=None,
        initial_scale=2.0**15,
        dynamic_growth_steps=2000,
        average_at_end=True,
        name=None,
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

    def build(self, variables):
        # Without aggregation each replica of a `MirroredStrategy` writes its own copy of a
        # variable; all write the same values.
        self.batches = self.add_variable((), dtype="int", name="batches")
        self.num_skipped = self.add_variable((), dtype="int", name="num_skipped")
        self._sums = []
        if self.accumulate > 1:
            self._sums = [self.add_variable_from_reference(v, "gradient_sum") for v in variables]
        super().build(variables)

    def scale_loss(self, loss):
        return super().scale_loss(loss) if self.loss_scaling else loss

    def apply(self, grads, trainable_variables=None):
        if not self.built:
            self.build(list(trainable_variables))
        replicas = _replica_context()
        sums, variables = self._add_up(grads, trainable_variables, replicas)
        factor, finite = self._factor(sums, replicas)
        is_last = ops.equal((self.batches + 1) % self.accumulate, 0)
        update = is_last if finite is None else ops.logical_and(is_last, finite)

        def step():
            scaled = sums if factor is None else [x * ops.cast(factor, x.dtype) for x in sums]
            self._step(scaled, variables, replicas)

        if self.accumulate == 1 and finite is None:
            step()
        else:
            self._call_if(update, step)
        if replicas:
            # Outside of the branch: replicas meet to write it.
            iterations = self.inner_optimizer.iterations
            iterations.assign_add(ops.cast(update, iterations.dtype))
        if self.accumulate > 1:
            for total, variable in zip(sums, variables):
                # Not a product with 0, which would keep a NaN.
                self._sum_of(variable).assign(ops.where(is_last, ops.zeros_like(total), total))
        if finite is not None:
            self._count(update, ops.logical_and(is_last, ops.logical_not(finite)))
        self.batches.assign_add(1)

    def finalize_variable_values(self, var_list):
        if self.average_at_end:
            super().finalize_variable_values(var_list)

    def overwrite_with_average(self, variables):
        """Write the inner optimizer's moving average, if it has one, over trained variables."""
        self.inner_optimizer.finalize_variable_values(variables)

    def stateless_apply(self, optimizer_variables, grads, trainable_variables):
        # Not the parent's, which decides for itself which gradients are finite.
        return keras.optimizers.Optimizer.stateless_apply(
            self, optimizer_variables, grads, trainable_variables
        )

    def _add_up(self, grads, trainable_variables, replicas):
        """The sums of the gradients over replicas and calls until now, and their variables."""
        pairs = [
            (_dense(gradient), variable)
            for gradient, variable in zip(grads, trainable_variables or self._trainable_variables)
            if gradient is not None
        ]
        sums, variables = (list(x) for x in zip(*pairs))
        if replicas:
            sums = replicas.all_reduce("SUM", sums)
        if self.accumulate > 1:
            sums = [
                self._sum_of(variable) + gradient for gradient, variable in zip(sums, variables)
            ]
        return sums, variables

    def _sum_of(self, variable):
        return self._sums[self._get_variable_index(variable)]

    def _factor(self, sums, replicas):
        """What to multiply the sums with, and whether they are finite; None for what is not needed.

        The factor holds the mean over the calls, the loss scale and the clipping.
        """
        factor = 1 / self.accumulate
        if self.loss_scaling:
            factor = factor / ops.convert_to_tensor(self.dynamic_scale)
        check = self.skip_nonfinite or self.loss_scaling
        finite = None
        if check or self.clip_norm is not None:
            norm = _global_norm(sums)
            if replicas:
                # The sums are the same; the order in which a device adds up need not be. Replicas
                # that disagree in the last digit would drift apart.
                norm = replicas.all_reduce("MEAN", norm)
            norm = norm * factor
            finite = ops.isfinite(norm) if check else None
            if self.clip_norm is not None:
                factor = factor * self.clip_norm / ops.maximum(norm, self.clip_norm)
        return (None if isinstance(factor, float) and factor == 1 else factor), finite

    def _step(self, grads, variables, replicas):
        inner = self.inner_optimizer
        if not replicas:
            inner.apply(grads, variables)
            return
        for name in ("weight_decay", "ema_overwrite_frequency"):
            if getattr(inner, name):
                raise UserError(f"`{name}` is not supported with several replicas.")
        # `apply` would add up the replicas' gradients once more. Every replica updates its copies.
        learning_rate = inner.learning_rate
        for gradient, variable in zip(grads, variables):
            inner.update_step(gradient, variable.value, learning_rate)
        if inner.use_ema:
            inner._update_model_variables_moving_average(self._trainable_variables)

    def _call_if(self, condition, function):
        """Call a function without results, which assigns to variables, if the condition is true."""
        if keras.backend.backend() != "jax":
            ops.cond(condition, function, lambda: None)
            return
        # What a branch assigns must be its result.
        variables = self._trainable_variables + self.inner_optimizer.variables
        before = [variable.value for variable in variables]

        def assigned():
            with keras.StatelessScope(list(zip(variables, before))) as scope:
                function()
            return [scope.get_current_value(variable) for variable in variables]

        for variable, value in zip(variables, ops.cond(condition, assigned, lambda: before)):
            variable.assign(value)

    def _count(self, updated, skipped):
        """Count skipped updates, and adapt the loss scale to them."""
        self.num_skipped.assign_add(ops.cast(skipped, self.num_skipped.dtype))
        if not self.loss_scaling:
            return
        count = self.step_counter + ops.cast(updated, self.step_counter.dtype)
        grown = count >= self.dynamic_growth_steps
        change = ops.where(skipped, 0.5, ops.where(grown, 2.0, 1.0))
        self.dynamic_scale.assign(self.dynamic_scale * change)
        start_again = ops.logical_or(skipped, grown)
        self.step_counter.assign(ops.where(start_again, ops.zeros_like(count), count))

    def get_config(self):
        return {
            **super().get_config(),
            "accumulate": self.accumulate,
            "clip_norm": self.clip_norm,
            "skip_nonfinite": self.skip_nonfinite,
            "loss_scaling": self.loss_scaling,
            "average_at_end": self.average_at_end,
        }


def paper_optimizer(
    learning_rate,
    accumulate=1,
    clip_norm=None,
    ema_momentum=None,
    skip_nonfinite=False,
    loss_scaling=None,
    average_at_end=True,
):
    """The paper's Adam (section 5.3): beta_1 0.9, beta_2 0.98, epsilon 1e-9.

    Args:
        learning_rate: a number, or a schedule such as `NoamSchedule`.
        accumulate: number of batches that share an update.
        clip_norm: largest global norm of the gradient. Defaults to no clipping.
        ema_momentum: momentum of an exponential moving average of the weights. Defaults to none.
        skip_nonfinite: whether to leave out, and count, updates whose gradient is not finite.
        loss_scaling: as for `WholeBatchOptimizer`.
        average_at_end: as for `WholeBatchOptimizer`.

    Returns:
        A `WholeBatchOptimizer`.

    Raises:
        UserError: if an argument is out of its range.
    """
    if ema_momentum is not None and not 0 <= ema_momentum < 1:
        raise UserError(
            f"`ema_momentum` must be at least 0 and less than 1. Received: {ema_momentum}"
        )
    ema = {} if ema_momentum is None else {"use_ema": True, "ema_momentum": ema_momentum}
    adam = keras.optimizers.Adam(learning_rate, beta_1=0.9, beta_2=0.98, epsilon=1e-9, **ema)
    return WholeBatchOptimizer(
        adam, accumulate, clip_norm, skip_nonfinite, loss_scaling, average_at_end=average_at_end
    )


def _check(inner_optimizer, accumulate, clip_norm):
    if not isinstance(accumulate, int) or accumulate < 1:
        raise UserError(f"`accumulate` must be a positive integer. Received: {accumulate}")
    if clip_norm is not None and not clip_norm > 0:
        raise UserError(f"`clip_norm` must be positive. Received: clip_norm={clip_norm}")
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


def _replica_context():
    """TensorFlow's replica context, if several replicas share the batch."""
    if keras.backend.backend() != "tensorflow":
        return None
    import tensorflow as tf

    context = tf.distribute.get_replica_context()
    return context if context is not None and context.num_replicas_in_sync > 1 else None


def _dense(gradient):
    # TensorFlow gives the rows of an embedding's gradient, of which several may be of one token.
    if keras.backend.backend() != "tensorflow":
        return gradient
    import tensorflow as tf

    return tf.convert_to_tensor(gradient)


def _global_norm(tensors):
    squares = [ops.sum(ops.square(ops.cast(tensor, "float32"))) for tensor in tensors]
    return ops.sqrt(ops.sum(ops.stack(squares)))
