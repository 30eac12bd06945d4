"""Places on the earth and in a plane: what `metric` means for columns of X, and data frames with a geometry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..common.arrays import Array, as_doubles
from ..common.sphere import Sphere, are_degrees, degree_columns, is_distorted, numbered_row, sphere_of
from ..common.validation import check_option
from ..common.warnings import warn

METRICS = ("auto", "euclidean", "sphere")


def has_geometry(X: Any) -> bool:
    """Whether this is a GeoDataFrame or a GeoSeries; GeoPandas is not imported to find out."""
    return any(cls.__module__.partition(".")[0] == "geopandas" for cls in type(X).__mro__)


def without_geometry(model: Any, X: Any, reset: bool) -> Any:
    """Coordinates of a GeoDataFrame or GeoSeries as the first two columns, before its others; all else as it is.

    With `reset` the model takes note of the coordinate reference system, and otherwise places are brought to it.
    """
    if not has_geometry(X):
        return X
    import pandas as pd

    geometry = X.geometry
    if not (geometry.geom_type == "Point").all() or geometry.is_empty.any():
        kind = next((str(k) for k in geometry.geom_type if k != "Point"), "an empty point")
        raise ValueError(f"The geometry of X must be points. Got {kind}; X.representative_point() gives a point each.")
    if reset:
        model.crs_ = _text_of(geometry.crs)
        if geometry.crs is None and model.metric == "auto":
            raise ValueError(
                "X has no coordinate reference system, so that its coordinates may be degrees or metres: set it, as by "
                "X.set_crs(4326), or say metric='sphere' or metric='euclidean'."
            )
    elif geometry.crs is not None and getattr(model, "crs_", None) is not None:
        geometry = geometry.to_crs(model.crs_)
    names = ("lon", "lat") if _is_geographic(geometry) or metric_of(model) == "sphere" else ("x", "y")
    others = X.drop(columns=geometry.name) if hasattr(X, "columns") else pd.DataFrame(index=X.index)
    taken = [name for name in names if name in others.columns]
    if taken:
        raise ValueError(f"X has a geometry, and a column {taken[0]!r} besides, which says the same: drop it.")
    coordinates = pd.DataFrame(dict(zip(names, (geometry.x, geometry.y), strict=True)), index=X.index)
    return pd.concat([coordinates, pd.DataFrame(others)], axis=1)


def _text_of(crs: Any) -> str | None:
    """A coordinate reference system as text that model files can hold: its code where it has one."""
    return None if crs is None else str(crs.to_string())


def _is_geographic(geometry: Any) -> bool:
    return geometry.crs is not None and bool(geometry.crs.is_geographic)


def metric_of(model: Any) -> str:
    """The metric that was asked for, or that a geometry decides."""
    metric = check_option(model, "metric", METRICS)
    crs = getattr(model, "crs_", None)
    if crs is None:
        return metric
    from pyproj import CRS

    of_geometry = "sphere" if CRS.from_user_input(crs).is_geographic else "euclidean"
    if metric == "sphere" and of_geometry == "euclidean":
        raise ValueError(
            f"metric='sphere' takes degrees, but X is in {crs}, which is projected: leave metric to 'auto', or give "
            "X.to_crs(4326)."
        )
    return of_geometry if metric == "auto" else metric


def sphere_for(model: Any, X: Array, row_name: Callable[[int], str] = numbered_row) -> Sphere | None:
    """How training points (n, d) are places on the earth; None where they are not.

    Columns are told by their names, and are the first two where there are none. A warning is given where names and
    numbers look like degrees of much of the globe, and are taken for lengths.
    """
    columns = degree_columns(model._coordinate_names())
    if metric_of(model) == "sphere":
        if X.shape[1] < 2:
            raise ValueError("metric='sphere' takes two columns at least: longitude and latitude in degrees.")
        sphere = Sphere(*(columns or (0, 1)))
        sphere.check(X, model._coordinate_names(), row_name)
        return sphere_of(X, sphere.longitude, sphere.latitude)
    if columns is not None and model.metric == "auto":
        lon, lat = (as_doubles(X[:, j]) for j in columns)
        if are_degrees(lon, lat) and is_distorted(lon, lat):
            names = [str(model._coordinate_names()[j]) for j in columns]
            warn(
                f"The columns {names[0]!r} and {names[1]!r} look like degrees, and are taken as lengths in a plane: "
                "the date line is a wall there, and a degree of longitude is as long near the poles as at the "
                "equator. metric='sphere' measures in km; metric='euclidean' keeps the plane without this warning."
            )
    return None


def framed(X: Any, answers: Any) -> Any:
    """Predictions as a data frame; a GeoDataFrame with the geometry of X where it has one."""
    if not has_geometry(X):
        return answers
    import geopandas as gpd

    return gpd.GeoDataFrame(answers, geometry=np.asarray(X.geometry.array), crs=X.geometry.crs)
