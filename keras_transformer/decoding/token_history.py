"""The tokens of each hypothesis, the last first, for constraints that look back."""

import numpy as np
from keras import ops

from keras_transformer.decoding.top_k import gather_rows
from keras_transformer.reserved_ids import PAD_ID


def longer(history, parents, tokens):
    """The histories of the hypotheses `parents`, each with one token more.

    Args:
        history: int32 tensor `(batch, beam, length)`, the last token first, 0 where there is none.
        parents: int32 tensor `(batch, beam)`.
        tokens: int32 tensor `(batch, beam)`, 0 where there is no more token.

    Returns:
        Int32 tensor `(batch, beam, length)`.
    """
    history, tokens = gather_rows(history, parents), ops.expand_dims(tokens, -1)
    more = ops.concatenate([tokens, history[..., :-1]], axis=-1)
    return ops.where(tokens == PAD_ID, history, more)


def followers(history, count):
    """The tokens that have come after what the last `count` tokens are, 0 for none.

    Args:
        history: int32 tensor `(batch, beam, length)`.
        count: how many tokens must be the same.

    Returns:
        Int32 tensor `(batch, beam, length)`.
    """
    # follower[i] came after history[i + 1], history[i + 2], ...
    is_same = history != 0
    for i in range(count):
        earlier = _shifted(history, i + 1)
        is_same = is_same & (earlier == history[..., i : i + 1]) & (earlier != 0)
    return ops.where(is_same, history, 0)


def mark(tokens, token_ids):
    """Which tokens are among some.

    Args:
        tokens: int32 tensor `(..., n)`; 0 stands for none, and is marked too.
        token_ids: sorted int array `(m,)`.

    Returns:
        Boolean tensor `(..., m)`.
    """
    size = int(token_ids[-1]) + 1
    shape = ops.shape(tokens)
    flat = ops.reshape(ops.minimum(tokens, size), (-1, shape[-1]))
    row = ops.expand_dims(ops.arange(ops.shape(flat)[0], dtype="int32") * (size + 1), 1)
    indices = ops.reshape(flat + row, (-1, 1))
    # One column more for tokens beyond the last.
    marks = ops.zeros((ops.shape(flat)[0] * (size + 1),), "int32")
    marks = ops.scatter_update(marks, indices, ops.ones(ops.shape(indices)[:1], "int32"))
    marks = ops.reshape(marks, (*shape[:-1], size + 1))
    columns = marks[..., :size]
    if len(token_ids) < size:
        columns = ops.take(columns, np.asarray(token_ids, "int32"), axis=-1)
    return columns > 0


def _shifted(history, count):
    """What was so many tokens before: `(batch, beam, length)`, 0 where there is none."""
    return ops.pad(history[..., count:], ((0, 0), (0, 0), (0, count)))
