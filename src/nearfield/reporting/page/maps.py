"""What the page shows of functions of two columns, or two coordinates: a map."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ...common.sphere import degree_columns
from ...common.types import Booleans, Floats
from ..inputs import coordinate_columns, levels_of, padded_ranges, sphere_columns
from .packing import pack
from .slices import base_of
from .subject import Subject, subsample

CELLS = 72_000  # of a map: 16 bits each for mean and std, some 400 kB of page
POINTS = 8_000  # that a map shows, at most
PLANES = (("x", "y"), ("x_coord", "y_coord"), ("easting", "northing"), ("east", "north"))  # names of coordinates


@dataclass(frozen=True)
class Projection:
    """Two coordinates to draw a map in, for models with other inputs, such as points of a sphere.

    Attributes
    ----------
    names : pair of str
    bounds : pair of (low, high)
    to_inputs : callable
        From coordinates (m, 2) to inputs of the model (m, d).
    from_inputs : callable
        From inputs (m, d) to coordinates (m, 2).
    """

    names: tuple[str, str]
    bounds: tuple[tuple[float, float], tuple[float, float]]
    to_inputs: Callable[[Floats], Floats]
    from_inputs: Callable[[Floats], Floats]


def map_of(subject: Subject, X: ArrayLike | None, plane: Projection) -> dict[str, Any]:
    """Data of the map for the page's script: grids of mean, std and any noise of local size, points and centres."""
    model = subject.model
    points = subject.points(X)
    (x0, x1), (y0, y1) = plane.bounds
    nx, ny = grid_shape((x1 - x0) / (y1 - y0))
    across = x0 + (np.arange(nx) + 0.5) / nx * (x1 - x0)
    up = y0 + (np.arange(ny) + 0.5) / ny * (y1 - y0)
    grid = np.stack(np.meshgrid(across, up), axis=-1).reshape(-1, 2)
    places = plane.to_inputs(grid)
    mean, std = subject.predict(places)
    doubt = subject.doubt(places, std)
    centre, spread = subject.shown(mean, std)
    result: dict[str, Any] = {
        "names": list(plane.names),
        "bounds": [[x0, x1], [y0, y1]],
        "shape": [nx, ny],
        "target": subject.target,
        "words": ["mean", "standard deviation"] if subject.inverse is None else ["median", "half of the 68 % interval"],
        "mean": pack(centre),
        "std": pack(spread),
        "certainty": pack(np.clip(2 * (1 - doubt), 0, 1)),
        "colours": {"mean": _limits(centre, doubt < 0.5), "std": _limits(spread)},
        "points": _scatter(plane.from_inputs(subsample(points, POINTS))),
    }
    noise = subject.noise(places)
    if noise is not None:
        result["noise"] = pack(noise)
        result["colours"]["noise"] = _limits(noise)
        result["words"].append("standard deviation of the noise")
        result["noisy"] = subject.fitted_target
    centres = getattr(model, "centers_", None)
    if centres is not None and len(centres) > 1:
        rows = np.zeros((len(centres), model.n_features_in_))
        rows[:, coordinate_columns(model)] = centres
        result["centres"] = _scatter(plane.from_inputs(subsample(rows, POINTS)))
    return result


def plane_of(subject: Subject, X: ArrayLike | None) -> Projection | None:
    """The two columns of a model, or the coordinates among several, the others held; None where there are none."""
    columns = _coordinates(subject)
    if columns is None:
        return None
    points = subject.points(X)
    ranges, pair = padded_ranges(points, model=subject.model), list(columns)
    base = base_of(points, levels_of(subject.model))

    def to_inputs(places: Floats) -> Floats:
        rows = np.tile(base, (len(places), 1))
        rows[:, pair] = places
        return rows

    across, up = (ranges[j] for j in pair)
    names = (subject.columns[pair[0]], subject.columns[pair[1]])
    return Projection(names, (across, up), to_inputs, lambda rows: rows[:, pair])


def _coordinates(subject: Subject) -> tuple[int, int] | None:
    """Numbers of the two columns that a map is drawn in."""
    names, coordinates = list(subject.columns), coordinate_columns(subject.model)
    on_earth = sphere_columns(subject.model)
    if on_earth is not None:
        return on_earth
    if len(coordinates) == 2:
        return coordinates[0], coordinates[1]
    plain = [name.casefold() for name in names]
    for first, second in PLANES:
        if first in plain and second in plain:
            return plain.index(first), plain.index(second)
    return degree_columns(names)


def _limits(values: Floats, certain: Booleans | None = None) -> list[float]:
    """Range of the colours: of places where the data say something, without the most extreme."""
    if certain is not None and certain.sum() >= 10:
        values = values[certain]
    return [float(v) for v in np.percentile(values, [0.2, 99.8])]


def grid_shape(aspect: float) -> tuple[int, int]:
    """Columns and rows of a grid for a map of that aspect, within reason."""
    aspect = float(np.clip(aspect, 0.5, 2.5))
    ny = int(np.sqrt(CELLS / aspect))
    return int(aspect * ny), ny


def _scatter(points: Floats) -> dict[str, Any]:
    return {"n": len(points), "x": pack(points[:, 0]), "y": pack(points[:, 1])}
