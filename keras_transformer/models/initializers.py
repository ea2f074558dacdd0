"""The embeddings' initial values, and how to do without them."""

import contextlib
import contextvars

import keras

_IS_FILLED_LATER = contextvars.ContextVar("_IS_FILLED_LATER", default=False)


@contextlib.contextmanager
def filled_later():
    """Within this, embeddings of new models are zeros, since other values will be assigned to them.

    To draw random ones, TensorFlow takes three times their size, and never gives it back: its
    allocator for the CPU (oneDNN's) keeps what is freed.
    """
    token = _IS_FILLED_LATER.set(True)
    try:
        yield
    finally:
        _IS_FILLED_LATER.reset(token)


def embeddings_initializer(hidden_dim):
    """The initializer of embeddings `(tokens, hidden_dim)`.

    With it, embeddings times sqrt(d_model), and logits too, begin with variance 1.
    """
    if _IS_FILLED_LATER.get():
        return keras.initializers.Zeros()
    return keras.initializers.RandomNormal(stddev=hidden_dim**-0.5)
