"""Logits and loss at once, some of the tokens at a time: their logits are never there all together.

Logits are the largest tensor of a training step. Written to memory as a whole, they are read and
written again for their maximum, for the sum of their exponentials, for the loss and for its
gradient. Of a part of the tokens they stay in the processor's cache until all that is done.
"""

from typing import NamedTuple

from keras import ops

from keras_transformer.training.losses import logit_of

# Some hundred tokens of a usual batch each: enough for fast matrix products.
_NUM_PARTS = 8


class TokenScores(NamedTuple):
    """What loss and metrics need to know about each true token."""

    losses: object  # float32 (batch, target): the smoothed cross-entropies
    log_probs: object  # float32 (batch, target): the log-probabilities
    is_largest: object  # bool (batch, target): whether no other token has a larger logit


def fused_crossentropy(sequence, embeddings, y_true, weights, label_smoothing):
    """`LabelSmoothedCrossentropy` of the logits `sequence E^T`, without making them all at once.

    With logits z, their softmax p, the true token y and the weight w of a token, the gradient of
    the sum of all `w loss` with respect to z is

    ```
    w (p_v - (1 - ε_ls) [v = y] - ε_ls/V)
    ```

    It is computed with the loss, and multiplied with E and with the sequence while it is at hand.
    So the gradient is right for any loss that is proportional to the weighted sum of the `losses`
    with these weights, such as their mean; a gradient of `log_probs` there is none.

    Args:
        sequence: float tensor `(batch, target, hidden_dim)`, the decoder's output.
        embeddings: float tensor `(vocabulary_size, hidden_dim)`, E (section 3.4).
        y_true: int tensor `(batch, target)`, the true token ids.
        weights: float32 tensor `(batch, target)`, not negative.
        label_smoothing: ε_ls.

    Returns:
        `TokenScores`.
    """
    embeddings = ops.cast(embeddings, sequence.dtype)
    constant, table = ops.stop_gradient(sequence), ops.stop_gradient(embeddings)
    rows = ops.reshape(constant, (-1, sequence.shape[-1]))
    # In units of the largest weight, for float16 has no room for the share of a token in a batch.
    largest = ops.max(weights)
    relative = weights / ops.where(largest > 0, largest, 1.0)
    parts = tuple(map(_split, (rows, ops.reshape(y_true, (-1,)), ops.reshape(relative, (-1,)))))
    scores, rows_gradient, table_gradient = _by_parts(*parts, table, label_smoothing)

    count, shape = ops.shape(rows)[0], ops.shape(y_true)
    losses, log_probs, is_largest = (ops.reshape(_join(x)[:count], shape) for x in scores)
    sequence_gradient = ops.reshape(_join(rows_gradient)[:count], ops.shape(sequence))
    # Zero, with the gradients as its gradients.
    zero = _zero_with_gradient(sequence, constant, sequence_gradient)
    zero = zero + _zero_with_gradient(embeddings, table, table_gradient)
    total = ops.sum(weights)
    zero = zero * largest / ops.where(total > 0, total, 1.0)
    return TokenScores(losses + zero, log_probs, is_largest)


def _by_parts(rows, y_true, weights, table, label_smoothing):
    """The scores of the tokens, and the gradients of the rows and of the table.

    All but the table have the axes `(parts, tokens of a part)` first.
    """
    table_transposed = ops.transpose(table)

    def score(part, scores, rows_gradient, table_gradient):
        x, y, w = (ops.take(parts, part, axis=0) for parts in (rows, y_true, weights))
        logits = ops.cast(ops.matmul(x, table_transposed), "float32")
        values, logits_gradient = _score(logits, y, label_smoothing)
        logits_gradient = ops.cast(logits_gradient * w[:, None], table.dtype)
        x_gradient = ops.cast(ops.matmul(logits_gradient, table), "float32")
        product = ops.matmul(ops.transpose(logits_gradient), x)
        return (
            part + 1,
            TokenScores(*(_write(old, part, new) for old, new in zip(scores, values))),
            _write(rows_gradient, part, x_gradient),
            table_gradient + ops.cast(product, "float32"),
        )

    zeros = ops.zeros_like(weights)
    _, *results = ops.while_loop(
        lambda part, *_: part < _NUM_PARTS,
        score,
        (
            ops.convert_to_tensor(0, "int32"),
            TokenScores(zeros, zeros, ops.cast(zeros, "bool")),
            ops.zeros_like(rows, dtype="float32"),
            ops.zeros_like(table, dtype="float32"),
        ),
    )
    return results


def _score(logits, y_true, label_smoothing):
    """`TokenScores` of some tokens, and the gradients of their losses."""
    maximum = ops.max(logits, axis=-1)
    exponentials = ops.exp(logits - maximum[:, None])
    total = ops.sum(exponentials, axis=-1)
    log_normalizer, true_logit = maximum + ops.log(total), logit_of(y_true, logits)
    mean_logit = ops.mean(logits, axis=-1)
    losses = log_normalizer - (1 - label_smoothing) * true_logit - label_smoothing * mean_logit
    vocabulary_size = logits.shape[-1]
    is_true = ops.arange(vocabulary_size, dtype="int32") == ops.cast(y_true, "int32")[:, None]
    gradient = exponentials / total[:, None] - ops.where(is_true, 1.0 - label_smoothing, 0.0)
    gradient = gradient - label_smoothing / vocabulary_size
    return TokenScores(losses, true_logit - log_normalizer, true_logit == maximum), gradient


def _split(x):
    """`(tokens, ...)` as `(parts, tokens of a part, ...)`, zeros added.

    A part has every eighth token, so that devices which share the batch share each part.
    """
    size = ops.shape(x)[0]
    x = ops.pad(x, [(0, _NUM_PARTS - 1), *[(0, 0)] * (len(x.shape) - 1)])
    x = x[: (size + _NUM_PARTS - 1) // _NUM_PARTS * _NUM_PARTS]
    return ops.swapaxes(ops.reshape(x, (-1, _NUM_PARTS, *x.shape[1:])), 0, 1)


def _join(parts):
    """What `_split` splits, with the zeros."""
    x = ops.swapaxes(parts, 0, 1)
    return ops.reshape(x, (-1, *x.shape[2:]))


def _write(parts, part, values):
    """`parts` with one of them replaced. (Slices of unknown size are compiled one by one.)"""
    is_part = ops.reshape(
        ops.arange(_NUM_PARTS, dtype="int32") == part, (-1, *[1] * (len(parts.shape) - 1))
    )
    return ops.where(is_part, values[None], parts)


def _zero_with_gradient(x, constant, gradient):
    """0, whose gradient with respect to x is as given; `constant` is x without a gradient."""
    return ops.sum(ops.cast(x - constant, "float32") * gradient)
