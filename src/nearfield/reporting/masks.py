"""Which places of a grid are asked for: inside of a mask or an outline, near the data."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from ..common.types import Booleans, Floats
from ..common.validation import as_numbers
from .inputs import given_or_training


def distances_to_data(model: Any, points: Floats) -> Floats:
    """Distance (m,) of points (m, d) to the nearest training point, in the units of the columns or km on the earth."""
    data = given_or_training(model, None, "no max_distance")
    result: Floats = cKDTree(model._inner(data)).query(model._inner(points))[0]
    return result


def are_inside(outline: Any, x: Floats, y: Floats) -> Booleans:
    """Which places (m,) lie inside of an outline: a geometry of Shapely or GeoPandas, or corners (k, 2)."""
    if hasattr(outline, "union_all"):  # a GeoSeries or GeoDataFrame
        outline = outline.union_all()
    if hasattr(outline, "geom_type"):
        import shapely

        shapely.prepare(outline)
        inside: Booleans = shapely.contains_xy(outline, x, y)
        return inside
    corners = as_numbers(outline)
    if corners.ndim != 2 or corners.shape[1] != 2 or len(corners) < 3 or not np.isfinite(corners).all():
        raise ValueError(
            "A polygon must be a geometry of Shapely or GeoPandas, or at least three corners, shape (k, 2). "
            f"Got {outline!r}."
        )
    return _inside_corners(corners, x, y)


def _inside_corners(corners: Floats, x: Floats, y: Floats) -> Booleans:
    """Places whose ray to the right crosses the outline an odd number of times."""
    inside = np.zeros(len(x), dtype=bool)
    for (x0, y0), (x1, y1) in zip(corners, np.roll(corners, -1, axis=0), strict=True):
        if y0 == y1:
            continue
        crosses = (y0 > y) != (y1 > y)
        inside ^= crosses & (x < x0 + (y - y0) * (x1 - x0) / (y1 - y0))
    return inside
