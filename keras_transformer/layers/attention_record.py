"""What attention layers attend to, noted while they do it."""

import contextlib
from contextvars import ContextVar

_record = ContextVar("attention_record", default=None)


@contextlib.contextmanager
def recorded_attention():
    """Within the block, each `MultiHeadAttention` that is called leaves its attention weights.

    Returns:
        A dict of layer -> weights `(batch, num_heads, target, source)`, those of its last call.
    """
    record = {}
    token = _record.set(record)
    try:
        yield record
    finally:
        _record.reset(token)


def note_attention(layer, weights):
    """Leave a layer's weights where somebody asked for them.

    Args:
        layer: the layer.
        weights: function without arguments that makes them.
    """
    record = _record.get()
    if record is not None:
        record[layer] = weights()
