"""Choose the devices that share a training step."""

import contextlib
from dataclasses import dataclass

import keras


@dataclass(frozen=True)
class Devices:
    """Where to train: `with devices.scope():` around building the model."""

    num_replicas: int
    strategy: object = None

    def scope(self):
        return contextlib.nullcontext() if self.strategy is None else self.strategy.scope()

    @property
    def jit_compile(self):
        """XLA, where the backend compiles training and can do so with these devices."""
        return keras.backend.backend() != "torch" and self.num_replicas == 1


def choose_devices(num_replicas=None):
    """Choose devices for this backend. Call it before anything else uses the devices.

    On TensorFlow, several GPUs share each batch under a `MirroredStrategy`; without a GPU,
    `num_replicas` logical CPU devices do. The other backends train on one device.

    Args:
        num_replicas: how many devices. Defaults to all GPUs, or to one device.

    Returns:
        A `Devices`.

    Raises:
        ValueError: if there are not so many devices, or this backend cannot use them.
    """
    if num_replicas is not None and num_replicas < 1:
        raise ValueError(f"`num_replicas` must be at least 1. Received: {num_replicas}")
    if keras.backend.backend() != "tensorflow":
        if num_replicas not in (None, 1):
            raise ValueError(
                f"{num_replicas} replicas need the tensorflow backend; this is "
                f"{keras.backend.backend()}, which trains on one device here. Set "
                "KERAS_BACKEND=tensorflow."
            )
        return Devices(1)
    names = _tensorflow_devices(num_replicas)
    if len(names) == 1:
        return Devices(1)
    import tensorflow as tf

    return Devices(len(names), tf.distribute.MirroredStrategy(names))


def _tensorflow_devices(num_replicas):
    import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        if num_replicas is not None and num_replicas > len(gpus):
            raise ValueError(f"{num_replicas} replicas were asked for; there are {len(gpus)} GPUs.")
        return [f"GPU:{i}" for i in range(num_replicas or len(gpus))]
    num_replicas = num_replicas or 1
    if num_replicas > 1:
        cpu = tf.config.list_physical_devices("CPU")[0]
        logical = [tf.config.LogicalDeviceConfiguration()] * num_replicas
        tf.config.set_logical_device_configuration(cpu, logical)
    return [f"CPU:{i}" for i in range(num_replicas)]
