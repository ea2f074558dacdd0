"""When XLA compiles a training on TensorFlow: when that has paid."""

import keras

# TensorFlow runs one graph with batches of all shapes, after seconds of tracing. XLA's program for
# one shape takes as long to compile as 40 batches of `tiny` take to train on two CPU cores, and
# then saves a fifth of a batch or less. So many batches a shape go first: what has been lost by
# then is what compiling costs, whenever the training ends (the rent-or-buy problem).
_BATCHES_PER_PROGRAM = 200


def xla_pays(model):
    """Whether XLA's programs are the faster ones in the end, on TensorFlow.

    Not in bfloat16 on a CPU: TensorFlow multiplies such matrices by the CPU's own instructions, and
    XLA by way of float32.

    Args:
        model: the model that is trained.
    """
    import tensorflow as tf

    in_bfloat16 = model.dtype_policy.compute_dtype == "bfloat16"
    return not in_bfloat16 or bool(tf.config.list_logical_devices("GPU"))


def first_compiled_batch(num_shapes, num_batches):
    """The batch from which on a training is to be compiled, or None if it is too short for that.

    Args:
        num_shapes: the number of shapes that batches have.
        num_batches: those of the whole training.
    """
    first = _BATCHES_PER_PROGRAM * num_shapes
    return first if num_batches >= 2 * first else None


class CompileLater(keras.callbacks.Callback):
    """Have XLA compile the rest of a training from some batch on.

    Which batch it is does not depend on where a training was stopped: the two programs round
    differently.

    Args:
        first_batch: the first of the whole training to be compiled.
        num_done: how many were trained on before.
    """

    async_safe = True

    def __init__(self, first_batch, num_done=0):
        super().__init__()
        self._left = first_batch - num_done

    def on_train_batch_begin(self, batch, logs=None):
        if self._left <= 0 and not self.model.jit_compile:
            self.model.jit_compile = True
            self.model.make_train_function(force=True)
        self._left -= self.model.steps_per_execution
