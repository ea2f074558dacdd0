import numpy as np
from keras import ops

from keras_transformer.decoding.search_loop import State, without_unused
from tests.helpers import normal, to_numpy

NONE = -np.inf


def test_cached_positions_without_live_descendants_are_removed():
    ancestors = np.array([[[1, 0, 0, 1, 0, 0], [0, 1, 1, 0, 0, 0]], [[0, 1, 0, 1, 0, 1]] * 2])
    keys, values = normal(2, 1, 3, 6), normal(2, 1, 6, 4)
    nothing = dict.fromkeys(State._fields, ())
    state = State(**nothing)._replace(
        # The first sentence's second hypothesis is none any more.
        scores=ops.array([[-1.0, NONE], [-1.0, -2.0]]),
        ancestors=ops.array(ancestors, "bool"),
        caches=[(ops.array(keys), ops.array(values))],
    )
    state = without_unused(state)
    assert int(state.used) == 3
    kept = to_numpy(state.ancestors)
    assert kept[:, 0, :3].tolist() == [[True, True, False], [True] * 3]
    assert not kept[:, :, 3:].any() and not kept[0, 1].any()
    # Keys are (batch, heads, dim, positions), values (batch, heads, positions, dim).
    key, value = map(to_numpy, state.caches[0])
    assert (key[0, 0, :, :2] == keys[0, 0][:, [0, 3]]).all()
    assert (value[0, 0, :2] == values[0, 0][[0, 3]]).all()
    assert (key[1, 0, :, :3] == keys[1, 0][:, [1, 3, 5]]).all()
    assert (value[1, 0, :3] == values[1, 0][[1, 3, 5]]).all()
