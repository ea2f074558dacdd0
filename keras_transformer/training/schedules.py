"""Learning rate schedules (section 5.3)."""

from typing import Any

import keras
from keras import ops

from keras_transformer.annotations import Tensor
from keras_transformer.errors import UserError
from keras_transformer.validation import positive_number


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
