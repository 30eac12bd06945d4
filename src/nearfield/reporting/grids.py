"""Predictions on a grid, as an xarray Dataset."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from numbers import Real
from typing import Any

import numpy as np

from .. import __version__
from ..common import memory
from ..common.progress import display
from ..common.sphere import LATITUDES, LONGITUDES, degree_columns
from ..common.types import Booleans, Floats
from ..common.validation import as_numbers, is_whole
from .inputs import axes_in_words, column_names, coordinate_columns, given_or_training, levels_of, predict_in_chunks
from .masks import are_inside, distances_to_data


def predict_grid(
    model: Any,
    axes: Any,
    size: Any,
    spacing: Any,
    include_noise: bool,
    like: Any = None,
    mask: Any = None,
    polygon: Any = None,
    max_distance: float | None = None,
    max_std: float | None = None,
    progress: Any = None,
) -> Any:
    """See `GPRegressor.predict_grid`."""
    try:
        import xarray as xr
    except ImportError:
        raise ImportError("A grid needs xarray: pip install 'nearfield[grid]'.") from None
    model._need_arrays("predict_grid")
    names = column_names(model)
    if like is not None:
        axes = {**_axes_of(like, names), **_by_name(axes, names, "axes")}
    sides = _sides(model, names, axes, size, spacing)
    free = {name: side for name, side in sides.items() if side.ndim == 1}
    shape = tuple(len(side) for side in free.values())
    memory.require(
        8.0 * prod(shape) * (len(names) + 4 * len(model.y_mean_)),
        f"A grid of {' x '.join(map(str, shape))} points",
        "A smaller size, a larger spacing or a number for some of the axes makes it smaller.",
    )
    points = np.stack([side.ravel() for side in np.meshgrid(*sides.values(), indexing="ij")], axis=-1)
    wanted = _wanted(model, points, free, names, mask, polygon, max_distance)
    answers = predict_in_chunks(model, points[wanted], include_noise, display() if progress is True else progress)
    mean, std = (_spread_out(values, wanted) for values in answers)
    if max_std is not None:
        with np.errstate(invalid="ignore"):
            mean, std = (np.where(std > max_std, np.nan, values) for values in (mean, std))
    dims = [*free, *(["target"] if mean.ndim > 1 else [])]
    kind = "observations" if include_noise else "the function without noise"
    described = {
        "mean": (mean, {"long_name": "posterior mean, in the units of the target"}),
        "std": (std, {"long_name": f"standard deviation of {kind}, in the units of the target"}),
    }
    data = {name: (dims, v.reshape((*shape, *v.shape[1:])), attrs) for name, (v, attrs) in described.items()}
    grid = xr.Dataset(data, coords=sides, attrs=_attributes(model, include_noise))
    return grid if like is None else _laid_out(grid, like, names)


def _axes_of(like: Any, names: list[str]) -> dict[str, Any]:
    """Coordinates of a template by the names of the model's columns; lon and longitude are the same."""
    if not hasattr(like, "dims") or not hasattr(like, "coords"):
        raise ValueError(f"The 'like' argument must be a DataArray or a Dataset. Got {type(like).__name__}.")
    axes = {}
    for name in names:
        dim = _same(name, [str(dim) for dim in like.dims])
        if dim is not None:
            axes[name] = np.asarray(like[dim].values, dtype=np.float64)
    if not axes:
        raise ValueError(
            f"The 'like' argument has the dimensions {', '.join(map(str, like.dims))}, none of which is one of the "
            f"model's columns: {', '.join(names)}."
        )
    return axes


def _same(name: str, dims: list[str]) -> str | None:
    """The dimension of that name, or another word for longitude or latitude."""
    if name in dims:
        return name
    family = next((family for family in (LONGITUDES, LATITUDES) if name.casefold() in family), frozenset[str]())
    return next((dim for dim in dims if dim.casefold() in family), None)


def _laid_out(grid: Any, like: Any, names: list[str]) -> Any:
    """The grid with the names, the order and the further coordinates of the template, such as its CRS."""
    dims = {name: _same(name, [str(dim) for dim in like.dims]) for name in names}
    grid = grid.rename(
        {name: dim for name, dim in dims.items() if dim is not None and dim != name and name in grid.dims}
    )
    for dim in grid.dims:
        if dim in like.coords:  # numbers as they were, with their attributes
            grid = grid.assign_coords({dim: like[dim]})
    further = {name: c for name, c in like.coords.items() if name not in grid.coords and set(c.dims) <= set(grid.dims)}
    order = [dim for dim in like.dims if dim in grid.dims] + [dim for dim in grid.dims if dim not in like.dims]
    return grid.assign_coords(further).transpose(*order)


def _wanted(
    model: Any, points: Floats, free: dict[str, Floats], names: list[str], mask: Any, polygon: Any, max_distance: Any
) -> Booleans:
    """Which points of the grid are asked for."""
    wanted = np.ones(len(points), dtype=bool)
    shape = tuple(len(side) for side in free.values())
    if mask is not None:
        wanted &= _mask_of(mask, list(free), shape).ravel()
    if polygon is not None:
        columns = degree_columns(names) or tuple(names.index(name) for name in list(free)[:2])
        if len(columns) < 2:
            raise ValueError("A polygon needs a grid of two axes.")
        wanted[wanted] = are_inside(polygon, *(points[wanted][:, j] for j in columns))
    if max_distance is not None:
        wanted[wanted] = distances_to_data(model, points[wanted]) <= max_distance
    return wanted


def _mask_of(mask: Any, axes: list[str], shape: tuple[int, ...]) -> Booleans:
    """A mask, True where predictions are asked for, in the order of the axes."""
    if hasattr(mask, "dims"):
        order = [_same(name, [str(dim) for dim in mask.dims]) for name in axes]
        if None in order or len(order) != len(mask.dims):
            raise ValueError(f"The mask has the dimensions {', '.join(map(str, mask.dims))}, not {', '.join(axes)}.")
        mask = mask.transpose(*order).values
    result = np.asarray(mask)
    if result.dtype != bool or result.shape != shape:
        raise ValueError(
            f"A mask must be True or False for each of {' x '.join(map(str, shape))} places, in this order."
        )
    wanted: Booleans = result
    return wanted


def _spread_out(values: Floats, wanted: Booleans) -> Floats:
    """Values where they were asked for, NaN elsewhere."""
    if wanted.all():
        return values
    result = np.full((len(wanted), *values.shape[1:]), np.nan)
    result[wanted] = values
    return result


def _sides(model: Any, names: list[str], axes: Any, size: Any, spacing: Any) -> dict[str, Floats]:
    """Coordinates per column: an array, or a single number (no dimension) where the column is held."""
    taken = sorted({"mean", "std", "target"} & set(names))
    if taken or len(set(names)) < len(names):
        problem = f"is named {taken[0]!r}" if taken else "has the name of another"
        raise ValueError(f"A column {problem}, which a grid cannot tell apart; rename it and fit again.")
    given = _by_name(axes, names, "axes")
    sizes = _by_name(size, names, "size") if isinstance(size, Mapping) else dict.fromkeys(names, size)
    spacings = _by_name(spacing, names, "spacing") if isinstance(spacing, Mapping) else dict.fromkeys(names, spacing)
    points, sides, coded = None, {}, levels_of(model)
    for j, name in enumerate(names):
        value = given.get(name)
        if value is None:
            if points is None:
                points = given_or_training(model, None, f"axes, with coordinates of {name!r}")
            low, high = points[:, j].min(), points[:, j].max()
            if j in coded:
                value = np.argmax(np.bincount(points[:, j].astype(np.int64)))
            elif j not in coordinate_columns(model):  # a covariate is held, unless it is asked for
                value = np.nanmedian(points[:, j])
            else:
                value = low if low == high else (low, high)  # as the data hold the column, so does the grid
        elif j in coded:
            value = _level(name, value, coded[j])
        if isinstance(value, tuple) and len(value) == 2:
            value = _between(name, *value, sizes.get(name, 100), spacings.get(name))
        sides[name] = _numbers(name, value)
    return sides


def _level(name: str, value: Any, levels: tuple[str, ...]) -> float:
    """Number of a category, which may itself be called by a number."""
    label = str(int(float(value))) if isinstance(value, Real) and float(value).is_integer() else str(value)
    if label not in levels:
        raise ValueError(f"Column {name!r} has the categories {', '.join(map(repr, levels))}. Got {value!r}.")
    return float(levels.index(label))


def _numbers(name: str, value: Any) -> Floats:
    """Coordinates given one by one, or a single one."""
    side = as_numbers(value)
    if side.ndim > 1 or side.size == 0 or not np.all(np.isfinite(side)):
        raise ValueError(
            f"The axis {name!r} must be finite numbers in one dimension, a pair or a number. Got {value!r}."
        )
    return side


def _by_name(given: Any, names: list[str], argument: str) -> dict[str, Any]:
    if given is None:
        return {}
    if isinstance(given, Mapping):
        unknown = [name for name in given if name not in names]
        if unknown:
            raise ValueError(f"{argument} names {unknown[0]!r}, which is no column; those are {', '.join(names)}.")
        return dict(given)
    if isinstance(given, str) or not hasattr(given, "__len__") or not hasattr(given, "__iter__"):
        raise ValueError(
            f"{argument} must be a mapping of column names, or a sequence with an entry for each of the {len(names)} "
            f"columns. Got {given!r}."
        )
    if len(given) != len(names):
        raise ValueError(f"{argument} must have one entry for each of the {len(names)} columns. Got {len(given)}.")
    return dict(zip(names, given, strict=True))


def _between(name: str, low: Any, high: Any, size: Any, spacing: Any) -> Floats:
    if not (isinstance(low, Real) and isinstance(high, Real) and -np.inf < float(low) <= float(high) < np.inf):
        raise ValueError(f"The axis {name!r} must go from a finite number to one that is not less. Got {(low, high)}.")
    if spacing is not None:
        if not isinstance(spacing, Real) or isinstance(spacing, bool) or not 0 < float(spacing) < np.inf:
            raise ValueError(f"The spacing of {name!r} must be a positive number. Got {spacing!r}.")
        steps = (float(high) - float(low)) / float(spacing)
        memory.require(8.0 * steps, f"The axis {name!r} of {steps:.0f} points", "A larger spacing makes it smaller.")
        return float(low) + float(spacing) * np.arange(int(steps * (1 + 1e-12)) + 1)
    if not is_whole(size, 1):
        raise ValueError(f"The size of {name!r} must be an integer of at least 1. Got {size!r}.")
    return np.linspace(float(low), float(high), int(size))


def _attributes(model: Any, include_noise: bool) -> dict[str, Any]:
    """Attributes that all formats of files can hold: text and numbers."""
    attributes: dict[str, Any] = {
        "title": "Gaussian-process prediction",
        "source": f"nearfield {__version__}, {type(model).__name__}",
        "includes_noise": int(include_noise),
        "noise_variance": model.noise_variance_ if np.ndim(model.noise_variance_) else float(model.noise_variance_),
        "signal_variance": np.ravel(model.signal_variance_),
        "length_scale": np.ravel(model.kernel_.length_scales),
    }
    if axes := axes_in_words(model):
        attributes["length_scale_axes"] = axes
    report = getattr(model, "report_", None)
    if report is not None and report.divergence is not None:
        attributes["kl_from_exact_in_nats_per_point"] = float(report.divergence)
        if report.divergence_of_function is not None:
            attributes["kl_of_function_from_exact_in_nats_per_point"] = float(report.divergence_of_function)
    return attributes
