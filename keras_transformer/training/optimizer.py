"""The paper's optimizer, and schedules of its learning rate (section 5.3)."""

from typing import Any

import keras
from keras import ops

from keras_transformer.annotations import Tensor
from keras_transformer.errors import UserError
from keras_transformer.training.stage_options import OptimizerOptions
from keras_transformer.training.whole_batch_optimizer import WholeBatchOptimizer
from keras_transformer.validation import positive_number, probability


@keras.saving.register_keras_serializable(package="keras_transformer")
class NoamSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """The paper's learning rate (section 5.3).

    ```
    lrate = scale * d_model^-0.5 * min(step^-0.5, step * warmup_steps^-1.5)
    ```

    Steps count from 1 in the formula and from 0 in Keras: the first update uses step 1. The rate
    peaks at step `warmup_steps` with `scale / sqrt(hidden_dim * warmup_steps)`.

    Args:
        hidden_dim: d_model.
        warmup_steps: the number of updates over which the rate grows.
        scale: factor on the whole. The paper's is 1.

    Raises:
        UserError: if an argument is not positive.
    """

    def __init__(self, hidden_dim: int, warmup_steps: int = 4000, scale: float = 1.0):
        super().__init__()
        arguments = {"hidden_dim": hidden_dim, "warmup_steps": warmup_steps, "scale": scale}
        for name, value in arguments.items():
            positive_number(name, value)
        self.hidden_dim = hidden_dim
        self.warmup_steps = warmup_steps
        self.scale = scale

    @classmethod
    def from_peak(
        cls, peak_learning_rate: float, hidden_dim: int, warmup_steps: int
    ) -> "NoamSchedule":
        """Return the schedule of this form that peaks at `peak_learning_rate`.

        Args:
            peak_learning_rate: the largest rate, at the end of the warm-up.
            hidden_dim: d_model.
            warmup_steps: the number of updates until the peak.

        Returns:
            A `NoamSchedule`.
        """
        peak_learning_rate = positive_number("peak_learning_rate", peak_learning_rate)
        scale = peak_learning_rate * (hidden_dim * warmup_steps) ** 0.5
        return cls(hidden_dim, warmup_steps, scale)

    def __call__(self, step: Tensor) -> Tensor:
        step = ops.cast(step, "float32") + 1
        rate = ops.minimum(step**-0.5, step * self.warmup_steps**-1.5)
        return self.scale * self.hidden_dim**-0.5 * rate

    def get_config(self) -> dict[str, Any]:
        return {
            "hidden_dim": self.hidden_dim,
            "warmup_steps": self.warmup_steps,
            "scale": self.scale,
        }


@keras.saving.register_keras_serializable(package="keras_transformer")
class CooldownSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """A schedule whose rate falls to zero in the last updates of a training.

    ```
    lrate = schedule(step) * min(1, (num_steps - step) / cooldown_steps)
    ```

    Steps count from 0, as in Keras: the last update has `1 / cooldown_steps` of the schedule's
    rate. The paper averages its last checkpoints instead (section 6.1); see Hägele et al. (2024),
    "Scaling Laws and Compute-Optimal Training Beyond Fixed Training Durations".

    Args:
        schedule: the schedule whose rate falls, such as a `NoamSchedule`.
        num_steps: the number of updates in the whole training.
        cooldown_steps: the number of last updates over which the rate falls.

    Raises:
        UserError: if `cooldown_steps` is not from 1 to `num_steps`.
    """

    def __init__(
        self,
        schedule: keras.optimizers.schedules.LearningRateSchedule,
        num_steps: int,
        cooldown_steps: int,
    ):
        super().__init__()
        if not 1 <= cooldown_steps <= num_steps:
            raise UserError(
                f"`cooldown_steps` must be from 1 to the number of updates, {num_steps}. Received: "
                f"cooldown_steps={cooldown_steps}"
            )
        self.schedule = schedule
        self.num_steps = num_steps
        self.cooldown_steps = cooldown_steps

    def __call__(self, step: Tensor) -> Tensor:
        left = self.num_steps - ops.cast(step, "float32")
        return self.schedule(step) * ops.clip(left / self.cooldown_steps, 0.0, 1.0)

    def get_config(self) -> dict[str, Any]:
        return {
            "schedule": keras.optimizers.schedules.serialize(self.schedule),
            "num_steps": self.num_steps,
            "cooldown_steps": self.cooldown_steps,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "CooldownSchedule":
        schedule = keras.optimizers.schedules.deserialize(config["schedule"])
        return cls(**{**config, "schedule": schedule})


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
        loss_scaling=loss_scaling,
        average_at_end=False,
    )


def make_schedule(
    options: OptimizerOptions, hidden_dim: int, num_steps: int
) -> NoamSchedule | CooldownSchedule:
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
