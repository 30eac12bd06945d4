"""One slice of a raster: which of its cells are gaps, and what a Gaussian process says of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from ..common.samples import some_rows
from ..common.types import Booleans, Floats
from ..estimators import LocalGPRegressor
from ..reporting.inputs import predict_in_chunks
from ..reporting.masks import distances_to_data
from .coordinates import columns_of

LEAST = 3  # cells with values, to learn from
PLACES = 10_000  # cells without, at which the distance from the exact process is measured


def gaps_of(array: Any) -> Any:
    """Which cells of a DataArray are gaps, as a DataArray; chunks of Dask stay such."""
    if array.dtype.kind not in "iufb":
        raise ValueError(f"Only numbers can be filled. Got an array of {array.dtype}.")
    gaps = ~np.isfinite(array)
    for name in ("_FillValue", "missing_value"):
        mark = array.attrs.get(name)
        if mark is not None:  # not decoded: the numbers of a file as they are
            gaps = gaps | (array == mark)
    return gaps


@dataclass(frozen=True, eq=False)
class Filled:
    """A slice without gaps.

    Attributes
    ----------
    mean, std : ndarray of the shape of the slice
        NaN where a gap stays.
    divergence : float or None
        Distance from the exact process in nats per point; None where it was not measured, NaN where nothing was filled.
    learnt : dict
        Hyperparameters, as parameters of a regressor; empty where nothing was filled.
    """

    mean: Floats
    std: Floats
    divergence: float | None
    learnt: dict[str, Any]


@dataclass(frozen=True, eq=False)
class Filler:
    """How to fill a slice; see `fill` for what these are."""

    regressor: Any
    smooth: bool
    include_noise: bool
    max_distance: float | None
    max_std: float | None
    progress: Callable[..., None] | None

    def __call__(self, part: Any, learnt: dict[str, Any]) -> Filled:
        """Fill a slice (a DataArray in memory) by a process whose hyperparameters are `learnt` as far as it says."""
        values, gaps = part.values.astype(np.float64), gaps_of(part).values
        mean, std = np.where(gaps, np.nan, values), np.where(gaps, np.nan, 0.0)
        if np.sum(~gaps) < LEAST or not (gaps.any() or self.smooth):
            return Filled(mean, std, np.nan, {})
        fitted, (means, stds) = self._predicted(part, values, gaps, learnt)
        if self.max_std is not None:
            unsure = gaps & (stds > self.max_std)
            means, stds = np.where(unsure, np.nan, means), np.where(unsure, np.nan, stds)
        if not self.smooth:  # what the raster says, and the model elsewhere
            means, stds = np.where(gaps, means, values), np.where(gaps, stds, 0.0)
        divergence = fitted.report_.divergence if hasattr(fitted, "report_") else 0.0
        return Filled(
            means, stds, divergence, {"noise_variance": fitted.noise_variance_, **fitted.kernel_.parameters()}
        )

    def _predicted(
        self, part: Any, values: Floats, gaps: Booleans, learnt: dict[str, Any]
    ) -> tuple[Any, tuple[Floats, Floats]]:
        """Fitted model of a slice, and its means and standard deviations (shape of the slice, NaN where not asked)."""
        columns = columns_of(part)
        seen = ~gaps.ravel()
        X, y = columns.X[seen], values.ravel()[seen]
        fitted = clone(self.regressor).set_params(**learnt)
        fitted._is_noise_of_others = self.regressor.noise_variance is None
        fitted.set_params(metric="sphere" if columns.on_earth else "euclidean")
        if columns.has_time and len(columns.names) > 1 and fitted.length_scale is None:
            fitted.set_params(ard=True)  # days and lengths share no scale
        asked = np.ones(len(seen), dtype=bool) if self.smooth else ~seen
        options = {}
        if isinstance(fitted, LocalGPRegressor) and not seen.all():
            options["X_test"] = columns.X[~seen][some_rows(int(np.sum(~seen)), PLACES)]
        fitted.progress = progress = self.progress
        fitted.fit(X, y, **options)
        if self.max_distance is not None:
            near = distances_to_data(fitted, columns.X[asked]) <= self.max_distance
            asked[np.flatnonzero(asked)[~near]] = False
        mean, std = np.full(len(seen), np.nan), np.full(len(seen), np.nan)
        tell = None if progress is None else lambda stage, done: progress(stage, done, 0.0)
        mean[asked], std[asked] = predict_in_chunks(fitted, columns.X[asked], self.include_noise, tell)
        return fitted, (mean.reshape(values.shape), std.reshape(values.shape))
