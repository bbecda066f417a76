"""The type of arrays of floats."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
