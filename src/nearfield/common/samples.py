"""Rows that stand for all of them, whatever the order of the rows."""

from __future__ import annotations

import numpy as np
from sklearn.utils.random import sample_without_replacement

from .types import Integers


def some_rows(n: int, most: int) -> Integers:
    """At most `most` of the numbers from 0 to `n` - 1, in order and always the same ones.

    They are random: every tenth row of a raster, say, might be a column of it.
    """
    if n <= most:
        return np.arange(n)
    return np.sort(sample_without_replacement(n, most, random_state=np.random.RandomState(0))).astype(np.int64)
