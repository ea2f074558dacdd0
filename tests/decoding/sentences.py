"""The sources that the tests of the searches share, of several lengths."""

import numpy as np

EXTRA_LENGTH = 4
# The last row is all padding.
SOURCE = np.array(
    [
        [5, 3, 8, 4, 7, 2],
        [4, 2, 0, 0, 0, 0],
        [2, 0, 0, 0, 0, 0],
        [9, 10, 11, 2, 0, 0],
        [11, 11, 6, 9, 2, 0],
        [0, 0, 0, 0, 0, 0],
    ],
    "int32",
)
LENGTH = SOURCE.shape[1] + EXTRA_LENGTH
