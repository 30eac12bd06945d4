"""Rows that a model was trained on: scores of those say little about others."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial import cKDTree

from ..common.types import Floats

_ROUNDING = 1e-12  # of the largest number in a column: training points are kept in other units


class TrainingRows:
    """The training points of a model, to be looked up; none where it does not keep them or has forgotten them."""

    def __init__(self, model: Any) -> None:
        points, self._model = model._training_points(), model
        self._tree = None
        if points is not None and len(points):
            points = self._inputs(points)
            largest = np.abs(points).max(axis=0)
            self._unit = np.where(largest > 0, largest, 1.0) * _ROUNDING
            self._tree = cKDTree(points / self._unit)

    def count(self, X: ArrayLike) -> int:
        """How many rows of `X` (m, n_features), categories as numbers of levels, are among them."""
        if self._tree is None:
            return 0
        distances, _ = self._tree.query(self._inputs(np.asarray(X)) / self._unit, p=np.inf, distance_upper_bound=1.0)
        return int(np.isfinite(distances).sum())

    def _inputs(self, X: Floats) -> Floats:
        """Numbers (m, q) that are the same where all inputs are; a longitude of 181 is one of -179."""
        roles, inner = self._model._roles, self._model._inner(X)
        if roles is None:
            return np.asarray(inner)
        others = X[:, [j for j in roles.encoding.used if j not in roles.coordinates]]
        return np.column_stack([inner, np.nan_to_num(others), np.isnan(others)])
