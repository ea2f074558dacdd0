"""The paper's optimizer (section 5.3)."""

import keras

from keras_transformer.training.options import OptimizerOptions
from keras_transformer.training.schedules import CooldownSchedule, NoamSchedule
from keras_transformer.training.whole_batch_optimizer import WholeBatchOptimizer
from keras_transformer.validation import (
    probability,
)


def make_optimizer(
    options: OptimizerOptions, hidden_dim: int, num_steps: int, loss_scaling: bool | None = None
) -> WholeBatchOptimizer:
    """Build the paper's optimizer with its schedule (section 5.3) from `OptimizerOptions`.

    `average_weights` applies the moving average of the weights, because a training may consist of
    several `fit`.

    Args:
        options: `OptimizerOptions`.
        hidden_dim: d_model.
        num_steps: the number of updates of the training, at whose end a cool-down ends.
        loss_scaling: as for `WholeBatchOptimizer`.

    Returns:
        A `WholeBatchOptimizer`.

    Raises:
        UserError: if an option is out of its range.
    """
    return paper_optimizer(
        make_schedule(options, hidden_dim, num_steps),
        options.accumulate,
        options.clip_norm,
        options.ema,
        options.skip_nonfinite,
        loss_scaling=loss_scaling,
        average_at_end=False,
    )


def make_schedule(
    options: OptimizerOptions, hidden_dim: int, num_steps: int
) -> "NoamSchedule | CooldownSchedule":
    """Build the learning rate schedule from `OptimizerOptions`: see `make_optimizer`."""
    peak, warmup_steps = options.peak_learning_rate, options.warmup_steps
    schedule = (
        NoamSchedule(hidden_dim, warmup_steps)
        if peak is None
        else NoamSchedule.from_peak(peak, hidden_dim, warmup_steps)
    )
    if not options.cooldown_steps:
        return schedule
    return CooldownSchedule(schedule, num_steps, options.cooldown_steps)


def paper_optimizer(
    learning_rate: float | keras.optimizers.schedules.LearningRateSchedule,
    accumulate: int = 1,
    clip_norm: float | None = None,
    ema_momentum: float | None = None,
    skip_nonfinite: bool = False,
    loss_scaling: bool | None = None,
    average_at_end: bool = True,
) -> WholeBatchOptimizer:
    """Build the paper's Adam (section 5.3): beta_1 0.9, beta_2 0.98, epsilon 1e-9.

    Args:
        learning_rate: a number, or a schedule such as `NoamSchedule`.
        accumulate: the number of batches per update.
        clip_norm: largest global norm of the gradient. Defaults to no clipping.
        ema_momentum: momentum of an exponential moving average of the weights. Defaults to no
            average.
        skip_nonfinite: whether to skip, and count, updates whose gradient is not finite.
        loss_scaling: as for `WholeBatchOptimizer`.
        average_at_end: as for `WholeBatchOptimizer`.

    Returns:
        A `WholeBatchOptimizer`.

    Raises:
        UserError: if an argument is out of its range.
    """
    ema = {}
    if ema_momentum is not None:
        ema = {"use_ema": True, "ema_momentum": probability("ema_momentum", ema_momentum)}
    adam = keras.optimizers.Adam(learning_rate, beta_1=0.9, beta_2=0.98, epsilon=1e-9, **ema)
    return WholeBatchOptimizer(
        adam, accumulate, clip_norm, skip_nonfinite, loss_scaling, average_at_end=average_at_end
    )
