"""Which tokens are among some that are known beforehand."""

import numpy as np
from keras import ops


def is_one_of(token_ids, some_ids):
    """Which tokens are among some.

    Args:
        token_ids: int tensor.
        some_ids: Python integers, one at least.

    Returns:
        Bool tensor of the shape of `token_ids`.
    """
    size = max(some_ids) + 2  # the last is for all beyond
    is_some = np.isin(np.arange(size), some_ids)
    return ops.take(is_some, ops.minimum(token_ids, size - 1), axis=0)
