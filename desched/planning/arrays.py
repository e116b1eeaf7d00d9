"""The types of the arrays in planning."""

import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.bool_]
"""The nodes or pods that have a property."""

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

Positions = NDArray[np.intp]
"""Indexes into another array."""
