"""Names of array types. The docstrings that use them state the shapes.

Floats      numbers in double precision
Floats32    numbers in single precision, in models that are trained
Bools       True or False
Ints        whole numbers
Rows        row numbers
Tokens      tokens of a corpus, as numbers
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Floats32 = NDArray[np.float32]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
Rows = Ints
Tokens = Ints

Array = TypeVar("Array", bound=NDArray[Any])


def frozen(array: Array) -> Array:
    """The array itself, from now on read-only."""
    array.setflags(write=False)
    return array
