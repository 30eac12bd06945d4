"""Rows that a model was trained on: scores of those say little about others."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial import cKDTree

_ROUNDING = 1e-12  # of the largest number in a column: training points are kept in other units


class TrainingRows:
    """The training points of a model, to be looked up; none where it does not keep them or has forgotten them."""

    def __init__(self, model: Any) -> None:
        points, self._inner = model._training_points(), model._inner
        self._tree = None
        if points is not None and len(points):
            points = self._inner(points)  # where a longitude of 181 is one of -179
            largest = np.abs(points).max(axis=0)
            self._unit = np.where(largest > 0, largest, 1.0) * _ROUNDING
            self._tree = cKDTree(points / self._unit)

    def count(self, X: ArrayLike) -> int:
        """How many rows of `X` (m, n_features) are among them."""
        if self._tree is None:
            return 0
        distances, _ = self._tree.query(self._inner(np.asarray(X)) / self._unit, p=np.inf, distance_upper_bound=1.0)
        return int(np.isfinite(distances).sum())
