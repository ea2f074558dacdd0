from keras import ops

# Put in place of the scores of illegal positions. The paper writes -inf; a large finite number
# gives the same zero after the softmax, and no NaN in a row where every position is illegal.
MASKED_SCORE = -1e9


def masked_softmax(scores, mask=None):
    """Softmax over the last axis, in float32 whatever the dtype of `scores`.

    Args:
        scores: float tensor.
        mask: boolean tensor that broadcasts to `scores`, false at illegal positions. A row without
            legal positions gets the same weight everywhere.

    Returns:
        A tensor of the shape and dtype of `scores`; zero at illegal positions.
    """
    logits = ops.cast(scores, "float32")
    if mask is not None:
        logits = ops.where(mask, logits, MASKED_SCORE)
    return ops.cast(ops.softmax(logits), scores.dtype)
