import keras
from keras import ops

from keras_transformer.errors import UserError


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

    def __init__(self, hidden_dim, warmup_steps=4000, scale=1.0):
        super().__init__()
        arguments = {"hidden_dim": hidden_dim, "warmup_steps": warmup_steps, "scale": scale}
        for name, value in arguments.items():
            if not value > 0:
                raise UserError(f"`{name}` must be positive. Received: {name}={value}")
        self.hidden_dim = hidden_dim
        self.warmup_steps = warmup_steps
        self.scale = scale

    @classmethod
    def from_peak(cls, peak_learning_rate, hidden_dim, warmup_steps):
        """The schedule of the same form that peaks at `peak_learning_rate`."""
        scale = peak_learning_rate * (hidden_dim * warmup_steps) ** 0.5
        return cls(hidden_dim, warmup_steps, scale)

    def __call__(self, step):
        step = ops.cast(step, "float32") + 1
        rate = ops.minimum(step**-0.5, step * self.warmup_steps**-1.5)
        return self.scale * self.hidden_dim**-0.5 * rate

    def get_config(self):
        return {
            "hidden_dim": self.hidden_dim,
            "warmup_steps": self.warmup_steps,
            "scale": self.scale,
        }
