"""The choice of the devices that share a training step."""

import contextlib
import os
import re
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import keras

from keras_transformer.errors import UserError
from keras_transformer.training.processes import Processes, exit_at_once_on_error
from keras_transformer.validation import positive_integer


@dataclass(frozen=True)
class Devices:
    """The devices of a training: build the model inside `with devices.scope():`.

    Attributes:
        num_replicas: the number of devices that share a batch, in all processes together. It must
            divide the rows of a batch.
        shard: `(process_id, num_processes)`: the part of each batch that this process reads.
        strategy: the `tf.distribute.Strategy`, if there is one.
    """

    num_replicas: int
    shard: tuple[int, int] = (0, 1)
    strategy: Any = None

    def scope(self) -> AbstractContextManager[Any]:
        """Return a context manager in which new variables belong to all replicas."""
        return contextlib.nullcontext() if self.strategy is None else self.strategy.scope()

    @property
    def processes(self) -> Processes:
        """The `Processes` that train together."""
        return Processes(*self.shard)

    @property
    def jit_compile(self) -> bool:
        """Whether the backend compiles training with XLA, and supports it with these devices.

        TensorFlow does not support it for several replicas, on CPUs or GPUs: Keras compiles the
        work of all replicas as one program, and a program reads the variables of one device.
        (Keras's own `jit_compile="auto"` makes the same choice.)
        """
        backend = keras.backend.backend()
        return backend == "jax" or (backend == "tensorflow" and self.num_replicas == 1)


def choose_devices(
    num_replicas: int | None = None,
    coordinator: str | None = None,
    num_processes: int = 1,
    process_id: int = 0,
) -> Devices:
    """Choose devices for this backend. Call it before anything else uses the devices.

    On TensorFlow, several GPUs share each batch under a `MirroredStrategy`; without a GPU,
    `num_replicas` logical CPU devices do. On JAX, `keras.distribution.DataParallel` distributes
    each batch over the devices of all processes, and is set globally. The processes run the same
    program, each with its own `process_id`, on one machine or several. PyTorch trains on one
    device.

    Args:
        num_replicas: the number of devices in each process. Defaults to all GPUs, or to one CPU.
        coordinator: `"HOST:PORT"`, where process 0 listens and the others connect.
        num_processes: the number of processes that train together.
        process_id: the index of this process, from 0.

    Returns:
        A `Devices`.

    Raises:
        UserError: if there are too few devices, this backend cannot use them, or the arguments for
            the processes are inconsistent.
    """
    if num_replicas is not None:
        positive_integer("num_replicas", num_replicas)
    _validate_processes(coordinator, num_processes, process_id)
    backend = keras.backend.backend()
    if backend == "jax":
        return _choose_jax(num_replicas, coordinator, num_processes, process_id)
    if num_processes > 1:
        raise UserError(
            f"Several processes need the backend jax. Received: num_processes={num_processes} "
            f"with the backend {backend}. (TensorFlow's MultiWorkerMirroredStrategy does not work "
            "with the `fit` of Keras 3.) Set KERAS_BACKEND=jax."
        )
    if backend == "torch":
        if num_replicas not in (None, 1):
            raise UserError(
                "Keras trains on one device with PyTorch. Received: "
                f"num_replicas={num_replicas}. Set KERAS_BACKEND=tensorflow or jax."
            )
        return Devices(1)
    return _choose_tensorflow(num_replicas)


def make_deterministic() -> None:
    """Make the backend produce bit-for-bit the same results in each run, at some cost in speed.

    The caller must still set seeds (`keras.utils.set_random_seed`). Call it before anything
    computes: JAX, which is deterministic on a CPU, reads its setting for GPUs when it starts.
    """
    backend = keras.backend.backend()
    if backend == "tensorflow":
        import tensorflow as tf

        tf.config.experimental.enable_op_determinism()
    elif backend == "torch":
        import torch

        # cuBLAS reads it when it starts; without it, PyTorch rejects its matrix products.
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True)
    else:
        flag = "--xla_gpu_deterministic_ops=true"
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flag}".strip()


def _validate_processes(coordinator: str | None, num_processes: int, process_id: int) -> None:
    positive_integer("num_processes", num_processes)
    if not 0 <= process_id < num_processes:
        raise UserError(
            f"`process_id` must be from 0 to {num_processes - 1} for {num_processes} processes. "
            f"Received: process_id={process_id}"
        )
    if num_processes == 1 and coordinator is not None:
        raise UserError(
            "`coordinator` must not be set for one process. Pass `num_processes` too, or omit "
            f"`coordinator`. Received: coordinator={coordinator}"
        )
    if num_processes > 1 and not re.fullmatch(r".+:\d+", coordinator or ""):
        raise UserError(
            f"`coordinator` must be the HOST:PORT at which process 0 listens, the same in all "
            f"{num_processes} processes. Received: coordinator={coordinator}"
        )


def _choose_jax(
    num_replicas: int | None, coordinator: str | None, num_processes: int, process_id: int
) -> Devices:
    import jax

    if num_replicas is not None:
        # Once JAX has started this cannot be changed, and the count below reports an error.
        with contextlib.suppress(RuntimeError):
            jax.config.update("jax_num_cpu_devices", num_replicas)
    if num_processes > 1:
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        # This service would catch SIGTERM and ignore it: see `stop_on_signals`.
        jax.config.update("jax_enable_preemption_service", False)
        keras.distribution.initialize(coordinator, num_processes, process_id)
        exit_at_once_on_error()
    names = _jax_device_names(num_replicas, num_processes, process_id)
    keras.distribution.set_distribution(
        # Batches are already read in shards.
        keras.distribution.DataParallel(devices=names, auto_shard_dataset=False)
        if len(names) > 1
        else None
    )
    return Devices(len(names), (process_id, num_processes))


def _jax_device_names(num_replicas: int | None, num_processes: int, process_id: int) -> list[str]:
    """Return the names of the devices to use: the same number from each process, in order."""
    import jax

    # In the order of the processes, so that a process's rows of a batch are on its own devices.
    of_processes = [
        [device for device in jax.devices() if device.process_index == i]
        for i in range(num_processes)
    ]
    if num_replicas is None:
        on_cpu = jax.devices()[0].platform == "cpu"
        num_replicas = 1 if on_cpu else len(of_processes[process_id])
    for devices in of_processes:
        if len(devices) < num_replicas:
            raise UserError(
                f"`num_replicas` must be at most {len(devices)}, the number of "
                f"{devices[0].platform} devices that JAX has in a process. Received: "
                f"num_replicas={num_replicas}. (On a CPU, JAX can have any number of devices, if "
                "it is set before JAX is first used.)"
            )
    return [
        f"{device.platform}:{device.id}"
        for devices in of_processes
        for device in devices[:num_replicas]
    ]


def _choose_tensorflow(num_replicas: int | None) -> Devices:
    names = _tensorflow_devices(num_replicas)
    if len(names) == 1:
        return Devices(1)
    import tensorflow as tf

    return Devices(len(names), strategy=tf.distribute.MirroredStrategy(names))


def _tensorflow_devices(num_replicas: int | None) -> list[str]:
    import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        if num_replicas is not None and num_replicas > len(gpus):
            raise UserError(
                f"`num_replicas` must be at most {len(gpus)}, the number of GPUs. Received: "
                f"num_replicas={num_replicas}"
            )
        return [f"GPU:{i}" for i in range(num_replicas or len(gpus))]
    num_replicas = num_replicas or 1
    if num_replicas > 1:
        cpu = tf.config.list_physical_devices("CPU")[0]
        logical = [tf.config.LogicalDeviceConfiguration()] * num_replicas
        tf.config.set_logical_device_configuration(cpu, logical)
    return [f"CPU:{i}" for i in range(num_replicas)]
