"""Search for the best translation, step by step, with a cache of keys and values."""

from keras import ops

from keras_transformer.data.tokenizer import END_ID, PAD_ID, START_ID
from keras_transformer.decoding.compilation import run_compiled


def greedy_search(model, encoder_token_ids, extra_length=50):
    """Take the likeliest token at each step (beam search with a beam of one).

    A sentence's output ends with the end token, or where it is `extra_length` tokens longer than
    its source (section 6.1), whatever else is in the batch.

    Args:
        model: a `Transformer`.
        encoder_token_ids: int array `(batch, source)`, each row ending with the end token, padded
            with 0. A row of padding alone gives an empty output.
        extra_length: how many tokens, the end token included, an output may have beyond the tokens
            of its source.

    Returns:
        The pair `(token_ids, scores)`:
        `token_ids`: int32 tensor `(batch, source + extra_length)`, without the start token, the end
        token included, 0 after it;
        `scores`: float32 tensor `(batch,)`, the log-probability of the output.

    Raises:
        ValueError: if `encoder_token_ids` has not two axes, `extra_length` is not a positive
            integer, or a learned position table is too short.
    """
    encoder_token_ids = ops.convert_to_tensor(encoder_token_ids, "int32")
    check_search(model, encoder_token_ids, extra_length)
    return run_compiled(greedy_loop, model, encoder_token_ids, extra_length=extra_length)


def check_search(model, encoder_token_ids, extra_length):
    """Raise a `ValueError` for what would fail, or mislead, inside the loop."""
    if len(encoder_token_ids.shape) != 2:
        raise ValueError(
            "`encoder_token_ids` must have the shape (batch, source). "
            f"Received: shape={tuple(encoder_token_ids.shape)}"
        )
    if not isinstance(extra_length, int) or extra_length < 1:
        raise ValueError(
            f"`extra_length` must be a positive integer. Received: extra_length={extra_length}"
        )
    length, max_length = encoder_token_ids.shape[1], model.hyperparameters["max_length"]
    if max_length is not None and length is not None and length + extra_length > max_length:
        raise ValueError(
            f"The source has {length} positions and its translation up to {length + extra_length}, "
            f"but the model learned only max_length={max_length}. Shorten the source, or pass a "
            "smaller `extra_length`."
        )


def greedy_loop(model, encoder_token_ids, extra_length):
    """The program of `greedy_search`; TensorFlow may leave both axes unknown."""
    batch, source = ops.shape(encoder_token_ids)
    length = source + extra_length
    source_lengths = ops.sum(ops.cast(encoder_token_ids != PAD_ID, "int32"), axis=1)
    # Where each sentence must stop at the latest: its tokens, less the end token, plus the extra.
    limits = source_lengths - 1 + extra_length
    layers = model.make_cache(model.encode(encoder_token_ids), length)
    cross_caches = [layer["cross"] for layer in layers]

    def is_unfinished(step, token_ids, token, scores, finished, self_caches):
        return ops.logical_and(step < length, ops.logical_not(ops.all(finished)))

    def decode_step(step, token_ids, token, scores, finished, self_caches):
        cache = [{"self": own, "cross": cross} for own, cross in zip(self_caches, cross_caches)]
        logits, cache = model.decode(
            ops.expand_dims(token, -1), encoder_token_ids, cache=cache, cache_index=step
        )
        logits = logits[:, 0]
        allowed = forbid_padding_and_start(logits)
        best = ops.cast(ops.argmax(allowed, axis=-1), "int32")
        score = ops.max(allowed, axis=-1) - ops.logsumexp(logits, axis=-1)
        token = ops.where(finished, PAD_ID, best)
        scores = scores + ops.where(finished, 0.0, score)
        token_ids = ops.slice_update(token_ids, (0, step), ops.expand_dims(token, -1))
        step = step + 1
        finished = ops.logical_or(finished, ops.logical_or(token == END_ID, step >= limits))
        return step, token_ids, token, scores, finished, [layer["self"] for layer in cache]

    state = (
        ops.convert_to_tensor(0, "int32"),
        ops.zeros((batch, length), "int32"),
        ops.full((batch,), START_ID, "int32"),
        ops.zeros((batch,), "float32"),
        source_lengths == 0,
        [layer["self"] for layer in layers],
    )
    _, token_ids, _, scores, *_ = ops.while_loop(is_unfinished, decode_step, state)
    return token_ids, scores


def forbid_padding_and_start(logits):
    """Make padding and the start token, ids 0 and 1, impossible: neither is ever an output."""
    return ops.where(ops.arange(logits.shape[-1]) > max(PAD_ID, START_ID), logits, -1e9)
