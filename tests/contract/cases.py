"""Regressors and options: a fitted model of each combination, and the same by hand.

A new option is one more entry of `OPTIONS`, and what it changes in `Setup`.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import nearfield as nf
from nearfield.common.validation import spawn
from nearfield.estimators.mean_model import cross_fitted

from ..conftest import choose_by_few_probes
from ..small import exact_at_most, exact_up_to
from .by_hand import Posterior, gaussian, matern32

RADIUS, SPACING = 9.0, 1.5
LONG = 12.0  # length scale of the second Gaussian, in those of the first
LONG_SHARE = 0.4  # share of the variance that the second Gaussian has
FINE = 1e-6  # tolerance, with which local models are all but exact


def with_long_scale(given: dict[str, Any]) -> dict[str, Any]:
    """Hyperparameters with a second, much longer length scale."""
    lengths = np.multiply.outer([1.0, LONG], np.atleast_1d(given["length_scale"]))
    return {
        **given,
        "length_scale": lengths,
        "signal_variance": [(1 - LONG_SHARE) * given["signal_variance"], LONG_SHARE * given["signal_variance"]],
    }


# "local" is one centre on data so few, and "cells" several. The others are what a free choice has for many rows, see
# `engine_of`: "chosen" takes neighbourhoods, "long scale" features of the whole domain beside them, "mixture" a sum of
# Gaussians for another kernel and the mean of all rows by iteration, and "taylor" moments of features.
KINDS = {
    "exact": lambda **given: nf.ExactGPRegressor(**given),
    "feature": lambda **given: nf.FeatureGPRegressor(nf.FourierFeatures(40, random_state=0), **given),
    "local": lambda **given: nf.LocalGPRegressor(**given),
    "cells": lambda **given: nf.LocalGPRegressor(features="kernel", radius=RADIUS, spacing=SPACING, **given),
    "chosen": lambda **given: nf.LocalGPRegressor(tolerance=FINE, **given),
    "long scale": lambda **given: nf.LocalGPRegressor(tolerance=FINE, **with_long_scale(given)),
    "mixture": lambda **given: nf.LocalGPRegressor(tolerance=FINE, kernel="matern32", **given),
    "taylor": lambda **given: nf.LocalGPRegressor(
        features=nf.TaylorFeatures(24), radius=None, spacing=SPACING, **given
    ),
}
JOINT = ("exact", "feature")
CHOOSING = ("chosen", "long scale", "mixture")
# Kinds with all names and answers of the regressors; the others differ from "local" in the engine alone.
PLAIN = (*JOINT, "local", "cells")
# Distances from the answers by hand, in standard deviations of the targets: rounding, and what approximations leave.
LIMITS = {"exact": 1e-8, "feature": 1e-8, "local": 1e-8, "cells": 1e-4}
LIMITS |= {"chosen": 1e-3, "long scale": 1e-3, "mixture": 3e-3, "taylor": 3e-2}


@contextmanager
def engine_of(kind: str) -> Iterator[None]:
    """What a kind is about, on rows so few: without the exact process, which the library takes up to 1500 of them."""
    with ExitStack() as stack:
        if kind in CHOOSING:
            stack.enter_context(exact_up_to(0))
            patch = stack.enter_context(pytest.MonkeyPatch.context())
            choose_by_few_probes(patch)
            for number in ("NEIGHBOURHOODS", "FEWER"):
                patch.setattr(f"nearfield.local.by_number.{number}", 6)
            exact_at_most(patch, 0)
            patch.setattr("nearfield.local.global_part.POINTS_PER_FEATURE", 0.1)
            prefers = "nearfield.local.in_memory.FramedArrays.prefers_exact_mean"
            patch.setattr(prefers, lambda *_: kind == "mixture")
        yield


# Which parameters of the regressors each option gives other values than the default.
OPTIONS = {
    "plain": (),
    "coordinates": ("coordinates",),
    "drift": ("coordinates", "drift"),
    "mean": ("mean",),
    "groups": ("coordinates", "groups"),
    "sphere": ("metric",),
    "rotated": ("anisotropy",),
    "target": ("target",),
    "weights": (),
    "two targets": (),
    "categories": ("coordinates", "drift"),
    "geometry": (),
}
# Parameters that every model of the table is given, and those that are no matter of the contract: they say how to learn
# and to approximate, and tests of their own hold them against the exact process.
GIVEN = ("length_scale", "signal_variance", "noise_variance", "random_state", "n_jobs")
NUMERICAL = (
    *("ard", "n_scales", "kernel", "n_restarts", "time_budget", "memory_budget", "progress", "mean_rounds", "noise"),
    *("likelihood", "feature_map", "tolerance", "spacing", "radius", "features", "correction", "blend", "centers"),
    *("n_centers", "open_centers"),
)

N, M = 48, 7
SIGNAL, NOISE = 0.8, 0.05
NAMES = ("east", "north", "area", "zone")
ORDER = (1, 2, 0, 3)  # of the columns in X, where they have roles: coordinates are neither first nor in order
ZONES = np.array(["barn", "flat", "house", "unheard of"], dtype=object)


@dataclass(frozen=True)
class Setup:
    """What a combination of options is fitted to.

    `rows` are (n, 4) numbers: two coordinates, an area, and the number of a zone.
    """

    options: frozenset[str]

    def has(self, *names: str) -> bool:
        return any(name in self.options for name in names)

    # ---- what the model is given ---------------------------------------------------------------------------------

    @property
    def on_earth(self) -> bool:
        return self.has("sphere", "geometry")

    @property
    def roles(self) -> bool:
        return self.has("coordinates", "drift", "groups", "categories")

    @property
    def columns(self) -> tuple[int, ...]:
        """Of the rows, those that X has, in its order."""
        if self.has("geometry"):
            return (0, 1, 2, 3) if self.roles else (0, 1, 2)
        if self.roles:
            return ORDER
        return (0, 1, 2) if self.on_earth and not self.has("rotated") else (0, 1)

    @property
    def names(self) -> list[str]:
        names = ("lon", "lat", *NAMES[2:]) if self.on_earth else NAMES
        return [names[j] for j in self.columns]

    @property
    def as_frame(self) -> bool:
        return self.has("categories", "geometry")

    def table(self, rows: Any) -> Any:
        """X of rows (n, 4), a geometry as columns: what a mean model is given."""
        numbers = np.column_stack([rows[:, :3], self.number_of(rows[:, 3])])[:, list(self.columns)]
        if not self.as_frame:
            return numbers
        import pandas as pd

        frame = pd.DataFrame(numbers, columns=self.names, index=[f"r{i}" for i in range(len(rows))])
        if self.has("categories"):
            frame["zone"] = ZONES[rows[:, 3].astype(int)]
        return frame

    @staticmethod
    def number_of(zone: Any) -> Any:
        """What a zone is called where it has no name: not its number in the order of zones."""
        return 10 * (zone + 1)

    def X(self, rows: Any) -> Any:
        table = self.table(rows)
        if not self.has("geometry"):
            return table
        import geopandas as gpd

        points = gpd.points_from_xy(table["lon"], table["lat"], crs=4326)
        return gpd.GeoDataFrame(table.drop(columns=["lon", "lat"]), geometry=points, index=table.index)

    def _called(self, *columns: int) -> list[Any]:
        """Columns of the rows as parameters name them."""
        where = [self.columns.index(j) for j in columns]
        return [self.names[j] for j in where] if self.as_frame else where

    @property
    def parameters(self) -> dict[str, Any]:
        scales = 1500.0 if self.on_earth else [1.0, 1.4]
        if self.on_earth and not self.roles:
            scales = [1500.0, 60.0]  # the area is one more coordinate
        given = {"length_scale": scales, "signal_variance": SIGNAL, "noise_variance": NOISE}
        given |= {"random_state": 0, "n_jobs": 1}
        if self.roles:
            given["coordinates"] = self._called(0, 1)
        if self.has("drift", "categories"):
            given["drift"] = self._called(*self._drift)
        if self.has("groups"):
            given["groups"] = self._called(3)
        if self.has("mean"):
            words = make_column_transformer((OneHotEncoder(), ["zone"]), remainder="passthrough")
            given["mean"] = make_pipeline(words, Ridge()) if self.has("categories") else Ridge()
        if self.has("sphere"):
            given["metric"] = "sphere"
        if self.has("rotated"):
            given["anisotropy"] = "rotated"
        if self.has("target"):
            given["target"] = "log"
        return given

    @property
    def _drift(self) -> tuple[int, ...]:
        """Columns of the rows that are drift."""
        return (2, 3) if self.has("categories") and not self.has("groups") else (2,)

    @cached_property
    def weights(self) -> Any:
        return np.random.default_rng(3).integers(1, 4, N).astype(float) if self.has("weights") else None

    @cached_property
    def rows(self) -> Any:
        return self._places(N, 0)

    @cached_property
    def new(self) -> Any:
        rows = self._places(M, 1)
        if self.has("groups") and not self.has("mean"):
            rows[0, 3] = 3  # a level that the fit has not seen
        return rows

    def _places(self, n: int, seed: int) -> Any:
        rng = np.random.default_rng(seed)
        places = rng.uniform(0, 8, (n, 2))
        if self.on_earth:
            places = np.column_stack([rng.uniform(-180, 180, n), np.degrees(np.arcsin(rng.uniform(-0.98, 0.98, n)))])
        return np.column_stack([places, rng.uniform(50, 150, n), np.resize([0, 1, 2], n)])

    @cached_property
    def y(self) -> Any:
        rng = np.random.default_rng(2)
        x, z, area, zone = self.rows.T
        unit = 60.0 if self.on_earth else 1.0
        y = np.sin(x / unit) + np.cos(z / unit) + 0.02 * area + 0.5 * zone + 0.2 * rng.standard_normal(N)
        if self.has("target"):
            y = np.exp(0.5 * y)
        if not self.has("two targets"):
            return y
        return np.column_stack([y, 3 - 0.5 * y + np.sin(z / unit)])

    # ---- the same by hand ----------------------------------------------------------------------------------------

    def drift_columns(self, rows: Any) -> Any:
        """Columns (m, p) of drift and groups."""
        columns = []
        if self.has("drift", "categories", "groups"):
            columns.append(np.ones(len(rows)))
        if self.has("drift", "categories"):
            columns.append(rows[:, 2])
            columns += [rows[:, 3] == level for level in (1, 2) if 3 in self._drift]
        if self.has("groups"):
            columns += [rows[:, 3] == level for level in range(4)]
        return np.column_stack(columns).astype(float) if columns else np.zeros((len(rows), 0))


@dataclass(frozen=True)
class Case:
    """A fitted model and the same by hand."""

    kind: str
    setup: Setup
    model: Any

    @cached_property
    def X(self) -> Any:
        return self.setup.X(self.setup.rows)

    @cached_property
    def X_new(self) -> Any:
        return self.setup.X(self.setup.new)

    @property
    def limit(self) -> float:
        return LIMITS[self.kind]

    @property
    def is_local(self) -> bool:
        return self.kind not in JOINT

    @property
    def is_log(self) -> bool:
        return self.setup.has("target")

    def make(self, **changed: Any) -> Any:
        """A regressor with these parameters, not fitted."""
        return KINDS[self.kind](**{**self.setup.parameters, **changed})

    def fit(self, model: Any, chosen: Any = slice(None)) -> Any:
        """The model fitted to some of the rows."""
        return fitted(model.fit, self.setup, chosen)

    def points(self, rows: Any) -> Any:
        """Points (m, d) as the kernel sees them."""
        setup = self.setup
        if setup.on_earth:
            lon, lat = np.radians(rows[:, :2]).T
            chords = 6371.0088 * np.stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)], axis=1)
            return chords if setup.roles else np.column_stack([chords, rows[:, 2]])
        return rows[:, :2] @ self.model.rotation_.T if setup.has("rotated") else rows[:, :2]

    def scales(self, length_scale: Any = None) -> Any:
        """Length scales of the columns that the kernel sees; given ones are as parameters have them."""
        given = self.setup.parameters["length_scale"] if length_scale is None else length_scale
        return np.repeat(given, [3, 1]) if self.setup.on_earth and np.ndim(given) else given

    def kernel(self, length_scale: Any = None, signal_variance: float = SIGNAL, **_: Any) -> Any:
        lengths = np.asarray(self.scales(length_scale))
        if self.kind == "long scale":
            short = gaussian(lengths, (1 - LONG_SHARE) * signal_variance)
            long = gaussian(LONG * lengths, LONG_SHARE * signal_variance)
            return lambda A, B: short(A, B) + long(A, B)
        if self.kind == "mixture":
            return matern32(lengths, signal_variance)
        if self.kind != "feature":
            return gaussian(lengths, signal_variance)
        ratio = np.asarray(self.scales()) / lengths
        known: dict[bytes, Any] = {}  # the same points are asked for again and again

        def features(points: Any) -> Any:
            key = points.tobytes()
            if key not in known:
                known[key] = self.model.feature_map_.transform(self._seen(points) * ratio)
            return known[key]

        return lambda A, B: (signal_variance / SIGNAL) * features(A) @ features(B).T

    def _seen(self, points: Any) -> Any:
        """Points in the axes of the earth that the map was drawn for."""
        sphere = self.model._sphere
        if sphere is None:
            return points
        x, y, z = points[:, :3].T
        degrees = np.degrees([np.arctan2(y, x), np.arctan2(z, np.hypot(x, y))]).T
        return np.column_stack([sphere.points(degrees)[:, :3], points[:, 3:]])

    @cached_property
    def targets(self) -> Any:
        """Targets (n, k) as the process has them."""
        y = self.setup.y.reshape(N, -1)
        return np.log(y / self.unit) if self.is_log else y

    @property
    def unit(self) -> float:
        """What targets are divided by before their logarithm is taken."""
        unit: float = self.model.target_.unit if self.is_log else 1.0
        return unit

    @cached_property
    def known_of_training(self) -> Any:
        """What the mean model says of each row that it has not seen (n, k)."""
        if not self.setup.has("mean"):
            return np.zeros_like(self.targets)
        table, mean = self.setup.table(self.setup.rows), self.setup.parameters["mean"]
        return cross_fitted(mean, table, self.targets, self.setup.weights, spawn(0, "mean"))[1]

    @cached_property
    def constant(self) -> Any:
        """Mean (k,) of the targets, taken as known unless there are columns of unknown coefficients."""
        if self.setup.has("drift", "categories", "groups"):
            return np.zeros(self.targets.shape[1])
        return np.average(self.targets - self.known_of_training, axis=0, weights=self.setup.weights)

    def known(self, rows: Any) -> Any:
        if not self.setup.has("mean"):
            return np.tile(self.constant, (len(rows), 1))
        given = self.model.mean_.predict(self.setup.table(rows))
        return self.constant + np.asarray(given).reshape(len(rows), -1)

    @cached_property
    def hand(self) -> Posterior:
        return self.by_hand()

    def by_hand(self, **changed: Any) -> Posterior:
        """The same with other hyperparameters."""
        setup, F = self.setup, self.setup.drift_columns(self.setup.rows)
        precision = np.zeros(F.shape[1])
        if setup.has("groups"):
            (variance,) = self.model.group_variance_.values()
            precision[-4:] = 1 / variance
        noise = np.full(N, changed.get("noise_variance", NOISE))
        noise = noise if setup.weights is None else noise / setup.weights
        r = self.targets - self.known_of_training - self.constant
        return Posterior(self.kernel(**changed), self.points(setup.rows), F, precision, r, noise)

    # ---- answers by hand, in the units of the process ------------------------------------------------------------

    def mean(self, rows: Any, hand: Posterior | None = None) -> Any:
        hand = self.hand if hand is None else hand
        return self.known(rows) + hand.mean(self.points(rows), self.setup.drift_columns(rows))

    def covariance(self, rows: Any, others: Any = None) -> Any:
        lots = [rows] if others is None else [rows, others]
        return self.hand.covariance(
            *(part for lot in lots for part in (self.points(lot), self.setup.drift_columns(lot)))
        )

    def shaped(self, values: Any) -> Any:
        """Values (m, k) as answers have them."""
        return values if self.setup.has("two targets") else values[:, 0]

    def spread(self, std: Any) -> Any:
        """Standard deviations (m,), which targets share, as answers have them."""
        return np.repeat(std[:, None], 2, axis=1) if self.setup.has("two targets") else std


def fitted(fit: Any, setup: Setup, chosen: Any = slice(None)) -> Any:
    rows, weights = setup.rows[chosen], setup.weights
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a few Fourier features are far from the kernel
        return fit(setup.X(rows), setup.y[chosen], None if weights is None else weights[chosen])


@cache
def case(kind: str, *options: str) -> Case:
    """A combination, fitted once."""
    if "geometry" in options:
        pytest.importorskip("geopandas", reason="geopandas is not installed")
    setup = Setup(frozenset(options))
    with engine_of(kind):
        return Case(kind, setup, fitted(KINDS[kind](**setup.parameters).fit, setup))
