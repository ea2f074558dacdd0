"""Keras's `class_weight` where the classes are tokens."""

import inspect

import numpy as np
from keras import ops

from keras_transformer.errors import UserError
from keras_transformer.training.losses import align_weights


def take_class_weight(method, args, kwargs):
    """Take `class_weight` out of a method's arguments: the others, and the dict or None.

    Keras would make one weight a row of it, and take the targets for one-hot vectors.
    """
    arguments = inspect.signature(method).bind(*args, **kwargs).arguments
    class_weight = arguments.pop("class_weight", None)
    for token_id in class_weight or ():
        if not isinstance(token_id, int | np.integer) or token_id < 0:
            raise UserError(
                "`class_weight` is a dict of token ids and their weights; a token id is an integer "
                f"from 0. Received the key {token_id!r}."
            )
    return arguments, class_weight


def weigh_classes(class_weight, y_true, sample_weight):
    """The weight of each token by its id, times that of its sample.

    Args:
        class_weight: dict of token ids and weights; other ids have weight 1.
        y_true: int tensor `(batch, target)`.
        sample_weight: float tensor `(batch,)`, or one that broadcasts to `(batch, target)`, or
            None.

    Returns:
        Float32 tensor `(batch, target)`.
    """
    table = np.ones(max(class_weight) + 2, "float32")
    table[list(class_weight)] = list(class_weight.values())
    # The last stands for all ids after it.
    index = ops.clip(ops.cast(y_true, "int32"), 0, len(table) - 1)
    weights = ops.take(table, index, axis=0)
    return weights if sample_weight is None else weights * align_weights(sample_weight, y_true)
