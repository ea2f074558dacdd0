"""Logits and loss computed for parts of the tokens, so that all logits never exist at once.

Logits are the largest tensor of a training step. If they are written to memory as a whole, they are
read and written again for their maximum, for the sum of their exponentials, for the loss and for
its gradient. The logits of a part of the tokens stay in the processor's cache until all of this is
done.
"""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_transformer.annotations import Tensor
from keras_transformer.models.losses import TokenScores, is_argmax, true_logits

# Some hundred tokens per part in a usual batch: enough for fast matrix products.
_NUM_PARTS = 8


def fused_crossentropy(
    sequence: Tensor, embeddings: Tensor, y_true: Tensor, weights: Tensor, label_smoothing: float
) -> TokenScores:
    """Compute `LabelSmoothedCrossentropy` of the logits `sequence E^T` without storing all logits.

    With logits z, their softmax p, the true token y and the weight w of a token, the gradient of
    the sum of all `w loss` with respect to z is

    ```
    w (p_v - (1 - ε_ls) [v = y] - ε_ls/V)
    ```

    It is computed together with the loss, and multiplied by E and by the sequence while it is in
    the cache. So the gradient is correct for any loss that is proportional to the weighted sum of
    the `losses` with these weights, such as their mean. `log_probs` have no gradient.

    Args:
        sequence: float tensor `(batch, target, hidden_dim)`, the decoder's output.
        embeddings: float tensor `(vocabulary_size, hidden_dim)`, E (section 3.4).
        y_true: int32 tensor `(batch, target)`, the true token ids from `prepare_targets`.
        weights: float32 tensor `(batch, target)`.
        label_smoothing: ε_ls.

    Returns:
        `TokenScores`.
    """
    embeddings = ops.cast(embeddings, sequence.dtype)
    constant, table = ops.stop_gradient(sequence), ops.stop_gradient(embeddings)
    # Relative to the largest weight, because a token's share of a batch is too small for float16.
    largest = ops.max(ops.abs(weights))
    relative = weights / ops.where(largest > 0, largest, 1.0)

    def of_rows(sequence: Tensor, y_true: Tensor, weights: Tensor) -> tuple[Any, Tensor]:
        return _score_and_derive(sequence, y_true, weights, table, label_smoothing)

    (*scores, sequence_gradient), table_gradient = _on_each_device(
        of_rows, constant, y_true, relative
    )
    # A zero whose gradients are these gradients.
    zero = _zero_with_gradient(sequence, constant, sequence_gradient)
    zero = zero + _zero_with_gradient(embeddings, table, table_gradient)
    # A loss `c Σ w losses` gives it a gradient of c, for any signs of the weights.
    squares = ops.sum(ops.square(relative))
    shares = relative / ops.where(squares > 0, squares, 1.0)
    losses, log_probs, is_predicted = scores
    return TokenScores(losses + zero * shares, log_probs, is_predicted)


def score_tokens(
    sequence: Tensor, embeddings: Tensor, y_true: Tensor, label_smoothing: float
) -> TokenScores:
    """Compute the values of `fused_crossentropy` without gradients."""
    table = ops.cast(embeddings, sequence.dtype)

    def of_rows(sequence: Tensor, y_true: Tensor) -> tuple[Any, Tensor]:
        return _score(sequence, y_true, table, label_smoothing)

    scores, _ = _on_each_device(of_rows, sequence, y_true)
    return TokenScores(*scores)


def _on_each_device(
    function: Callable[..., tuple[Any, Tensor]], *arrays: Tensor
) -> tuple[Any, Tensor]:
    """Call a function of the rows of a batch on each device separately.

    It returns values per token, and a sum over all tokens, which is then added over the devices.
    (If the devices processed the parts together, they would add their sums after each part.)
    """
    num_devices = _num_devices(arrays[0].shape[0])
    if num_devices == 1:
        return function(*arrays)
    rows = [ops.reshape(x, (num_devices, -1, *x.shape[1:])) for x in arrays]
    values, total = ops.vectorized_map(lambda rows: function(*rows), rows)
    values = [ops.reshape(x, (-1, *x.shape[2:])) for x in values]
    return values, ops.sum(total, axis=0)


def _num_devices(batch_size: int | None) -> int:
    """Return how many devices of a `keras.distribution` that share a batch in one program."""
    distribution = keras.distribution.distribution()
    if distribution is None or batch_size is None:
        return 1
    mesh = distribution.device_mesh
    num_devices = mesh.shape[mesh.axis_names.index(distribution.batch_dim_name)]
    return 1 if batch_size % num_devices else num_devices


def _score_and_derive(
    sequence: Tensor, y_true: Tensor, weights: Tensor, table: Tensor, label_smoothing: float
) -> tuple[Any, Tensor]:
    """Return scores of some rows, the gradient of their sequence, and the gradient of the table."""
    table_transposed, table_mean = ops.transpose(table), _mean_embedding(table)
    split = [_split(x) for x in (sequence, y_true, weights)]
    token_ids = ops.arange(table.shape[0], dtype="int32")
    share = label_smoothing / table.shape[0]

    def of_part(part: Tensor) -> tuple[Any, Any]:
        x, y, w = (ops.take(parts, part, axis=0) for parts in split)
        logits = ops.cast(ops.matmul(x, table_transposed), "float32")
        values, exponentials, total = _token_scores(logits, x, y, table_mean, label_smoothing)
        is_true = token_ids == y[:, None]
        targets = ops.where(
            is_true, (w * (1 - label_smoothing + share))[:, None], w[:, None] * share
        )
        gradient = exponentials * (w / total)[:, None] - targets
        gradient = ops.cast(gradient, table.dtype)
        x_gradient = ops.cast(ops.matmul(gradient, table), "float32")
        product = ops.matmul(ops.transpose(gradient), x)
        return (*values, x_gradient), ops.cast(product, "float32")

    sequence_zeros = ops.zeros_like(split[0], dtype="float32")
    zeros = (*_zero_scores(split[1]), sequence_zeros)
    values, table_gradient = _add_parts(of_part, zeros, ops.zeros_like(table, dtype="float32"))
    shapes = [ops.shape(y_true)] * 3 + [ops.shape(sequence)]
    return tuple(map(_join, values, shapes)), table_gradient


def _score(
    sequence: Tensor, y_true: Tensor, table: Tensor, label_smoothing: float
) -> tuple[Any, Tensor]:
    """Return the scores of some rows, and zero."""
    table_transposed, table_mean = ops.transpose(table), _mean_embedding(table)
    rows, tokens = _split(sequence), _split(y_true)

    def of_part(part: Tensor) -> tuple[Any, Any]:
        x, y = (ops.take(parts, part, axis=0) for parts in (rows, tokens))
        logits = ops.cast(ops.matmul(x, table_transposed), "float32")
        values, *_ = _token_scores(logits, x, y, table_mean, label_smoothing)
        return values, 0.0

    values, zero = _add_parts(of_part, _zero_scores(tokens), ops.zeros(()))
    return tuple(_join(x, ops.shape(y_true)) for x in values), zero


def _mean_embedding(table: Tensor) -> Tensor:
    """Return the mean of the rows of E in float32. Its product with x is the mean of `x E^T`."""
    return ops.mean(ops.cast(table, "float32"), axis=0)


def _token_scores(
    logits: Tensor, x: Tensor, y_true: Tensor, table_mean: Tensor, label_smoothing: float
) -> tuple[tuple[Tensor, Tensor, Tensor], Tensor, Tensor]:
    """Return the values of `TokenScores` for some tokens, and the two parts of their softmax."""
    maximum = ops.max(logits, axis=-1)
    exponentials = ops.exp(logits - maximum[:, None])
    total = ops.sum(exponentials, axis=-1)
    log_normalizer, true_logit = maximum + ops.log(total), true_logits(y_true, logits)
    mean_logit = ops.matmul(ops.cast(x, "float32"), table_mean)
    losses = log_normalizer - (1 - label_smoothing) * true_logit - label_smoothing * mean_logit
    values = losses, true_logit - log_normalizer, is_argmax(y_true, logits, maximum)
    return values, exponentials, total


def _zero_scores(tokens: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return zeros for the values of `TokenScores`."""
    zeros = ops.zeros_like(tokens, dtype="float32")
    return zeros, zeros, zeros


def _add_parts(
    function: Callable[[Tensor], tuple[Any, Any]], values: Any, total: Tensor
) -> tuple[Any, Tensor]:
    """Call `function(part)`, which returns values and a summand of the total, for each part."""
    if keras.backend.backend() == "torch":
        # The condition of a loop would wait for the GPU at each part.
        parts = []
        for part in ops.arange(_NUM_PARTS, dtype="int32"):
            new_values, addend = function(part)
            parts.append(new_values)
            total = total + addend
        return tuple(map(ops.stack, zip(*parts))), total

    def step(part: Tensor, values: Any, total: Tensor) -> tuple[Tensor, Any, Tensor]:
        new_values, addend = function(part)
        values = tuple(_write(old, part, new) for old, new in zip(values, new_values))
        return part + 1, values, total + addend

    first = ops.convert_to_tensor(0, "int32")
    _, values, total = ops.while_loop(
        lambda part, *_: part < _NUM_PARTS, step, (first, values, total)
    )
    return values, total


def _split(x: Tensor) -> Tensor:
    """Split `(rows, target, ...)` into `(parts, tokens per part, ...)`, padded with zeros."""
    x = ops.reshape(x, (-1, *x.shape[2:]))
    size = ops.shape(x)[0]
    x = ops.pad(x, [(0, _NUM_PARTS - 1), *[(0, 0)] * (len(x.shape) - 1)])
    x = x[: (size + _NUM_PARTS - 1) // _NUM_PARTS * _NUM_PARTS]
    return ops.reshape(x, (_NUM_PARTS, -1, *x.shape[1:]))


def _join(parts: Tensor, shape: Any) -> Tensor:
    """Join the parts of `_split`, without the padding."""
    x = ops.reshape(parts, (-1, *parts.shape[2:]))
    return ops.reshape(x[: shape[0] * shape[1]], shape)


def _write(parts: Tensor, part: Tensor, values: Tensor) -> Tensor:
    """Return `parts` with one of them replaced. (Slices of unknown size compile one by one.)"""
    is_part = ops.reshape(
        ops.arange(_NUM_PARTS, dtype="int32") == part, (-1, *[1] * (len(parts.shape) - 1))
    )
    return ops.where(is_part, values[None], parts)


def _zero_with_gradient(x: Tensor, constant: Tensor, gradient: Tensor) -> Tensor:
    """Return 0 with the given gradient with respect to x; `constant` is x without a gradient."""
    return ops.sum(ops.cast(x - constant, "float32") * gradient)
