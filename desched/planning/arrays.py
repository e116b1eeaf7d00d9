"""The arrays that planning computes with, one value for each node or pod."""

import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.bool_]
"""Which of them something is true of."""

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

Positions = NDArray[np.intp]
"""Where they are in another array."""
