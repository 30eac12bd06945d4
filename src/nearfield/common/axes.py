"""Rotated axes: points in them, and what they are called.

The rows of a rotation (d, d) are the directions of the axes, in the columns of the data.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .arrays import Array
from .types import Floats


def turned(X: Array, rotation: Floats) -> Array:
    """Points (n, d) along the axes of a rotation (d, d); its transpose turns them back."""
    # A matrix product may round equal rows differently.
    result: Array = sum(X[:, j, None] * rotation[:, j] for j in range(len(rotation)))
    return result


def as_rotation(directions: Floats) -> Floats:
    """Orthonormal rows (d, d), up to their signs, as a rotation.

    The last number of each row that is not zero is positive, except where the last row has to be turned around.
    """
    signs = [np.sign(row[np.abs(row) > 1e-9][-1]) for row in directions]
    rows: Floats = directions * np.array(signs)[:, None]
    if np.linalg.det(rows) < 0:
        rows[-1] *= -1.0
    return rows + 0.0  # no negative zeros


def angles_of(rotation: Floats) -> list[float]:
    """Directions of two axes in degrees, from the first column towards the second, from 0 to below 180."""
    return [float(np.degrees(np.arctan2(axis[1], axis[0])) % 180.0) for axis in rotation]


def axis_names(rotation: Floats) -> list[str]:
    """A name per axis, by its direction."""
    if len(rotation) == 2:
        return [f"axis at {angle:.1f} degrees" for angle in angles_of(rotation)]
    return [f"axis along ({', '.join(f'{value:.2f}' for value in axis)})" for axis in rotation]


def in_words(rotation: Floats, names: Sequence[str]) -> str:
    """A phrase that says where the axes are."""
    if len(rotation) == 2:
        first, second = angles_of(rotation)
        return f"axes at {first:.1f} and {second:.1f} degrees, from {names[0]} towards {names[1]}"
    return f"axes along {'; '.join(name.removeprefix('axis along ') for name in axis_names(rotation))}"
