"""The parameters of `LocalGPRegressor`: checked, and put into the words of `tuning`."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.neighbors import KDTree

from ..common.arrays import in_units
from ..common.types import Floats
from ..common.validation import check_bool, check_integer, check_option, check_positive, describe, spawn
from ..common.warnings import warn
from ..features import MaclaurinFeatures, TaylorFeatures, taylor
from ..kernels import Kernel
from ..local import centers
from ..local.choices import Candidate, Choice, Request
from ..local.features import FeatureMap, LocalFeatures
from ..local.plan import Plan
from ._base import GPRegressor

CENTERS = ("auto", "grid", "net", "farthest", "kmeans", "random", "mean", "test")
SPACED = ("auto", "grid", "net", "farthest")  # as many as the spacing asks for
COUNTED = ("farthest", "kmeans", "random")  # as many as `n_centers`


class LocalParameters(GPRegressor):
    """What was asked of a local model."""

    tolerance: float
    spacing: Any
    radius: Any
    features: Any
    correction: bool
    blend: bool
    centers: Any
    n_centers: int | None
    open_centers: bool

    _unit: Floats

    def _check_request(self) -> Request:
        for name in ("correction", "blend", "open_centers"):
            check_bool(self, name)
        features = None
        if isinstance(self.features, (TaylorFeatures, MaclaurinFeatures)):
            features = self._given_features
        elif not isinstance(self.features, str) or self.features not in ("auto", "kernel"):
            raise ValueError(
                f"{describe(self, 'features')} must be 'auto', 'kernel', TaylorFeatures or MaclaurinFeatures. "
                f"Got {self.features!r}."
            )
        if self.radius is None and features is not None and _is_auto(self.spacing) and self._are_spaced():
            raise ValueError(
                f"{describe(self, 'radius')}=None takes all points for every centre, and nothing then tells how many "
                "centres: give spacing, or n_centers with centers='farthest', or centers='mean' for one."
            )
        return Request(
            check_positive(self, "tolerance"),
            None if _is_auto(self.spacing) else check_positive(self, "spacing"),
            None if self.radius is None or _is_auto(self.radius) else check_positive(self, "radius"),
            features,
            self.features == "kernel" if isinstance(self.features, str) else False,
            bool(self.correction),
        )

    def _given_features(self, sample: Floats) -> LocalFeatures:
        """The map the user gave, for each component of the kernel; `sample` holds relative positions."""
        kernel = Kernel(self.kernel_.length_scales / self._unit, self.kernel_.variances)
        given, d = self.features, sample.shape[1]
        rng = spawn(self.random_state, "features")
        maps: list[FeatureMap] = []
        for scales in kernel.length_scales:
            if isinstance(given, TaylorFeatures):
                maps.append(taylor.sample(d, check_integer(given, "degree", 1)))
            elif d == 1:  # sketches are for more columns; the series has one monomial a degree
                maps.append(taylor.sample(1, check_integer(given, "n_components", 2) - 1))
            else:
                drawn = clone(given)
                if drawn.random_state is None:
                    drawn.set_params(random_state=rng)
                maps.append(drawn._sample(sample / scales))
        return LocalFeatures.of(kernel, tuple(maps))

    def _is_given(self, request: Request) -> bool:
        """Whether nothing is left to choose."""
        if self.radius is None:
            return request.features is not None
        by_hand = request.features is not None or request.kernel_space
        return by_hand and request.radius is not None and request.spacing is not None

    def _given_choice(self, kernel: Kernel, sample: Floats, request: Request) -> Choice:
        """What was given, as a choice; `sample` holds positions relative to a centre."""
        plan, label = Plan(kernel, request.radius, None), "kernel space"
        if request.features is not None:
            plan, label = (
                replace(plan, features=request.features(sample), either_side=self.radius is not None),
                "as given",
            )
        plan = replace(plan, correction=bool(self.correction))
        if request.radius is not None and request.spacing is not None and request.radius < request.spacing:
            warn(
                f"radius={request.radius:g} is smaller than spacing={request.spacing:g}: samples that are farther than "
                "the radius from every centre are not used. A radius of twice the spacing is usual."
            )
        candidate = Candidate(request.spacing if request.spacing is not None else np.inf, plan, label)
        return Choice(candidate, np.nan, np.nan, True, "spacing, radius and features were given")

    def _check_centers(self) -> Any:
        """`centers` as `centers.place` takes it, but in the units of the data."""
        kind = self.centers
        if isinstance(kind, str):
            return check_option(self, "centers", CENTERS)
        if isinstance(kind, Integral):
            return check_integer(self, "centers", 1)
        d = self.n_features_in_
        try:
            given = np.asarray(kind, dtype=np.float64)
        except (TypeError, ValueError):
            given = np.empty(0)
        if given.ndim != 2 or given.shape[1] != d or len(given) == 0 or not np.all(np.isfinite(given)):
            names = ", ".join(repr(name) for name in CENTERS)
            raise ValueError(
                f"{describe(self, 'centers')} must be one of {names}, an integer, or finite numbers of shape "
                f"(n_centers, {d})."
            )
        return given

    def _check_n_centers(self) -> int | None:
        kind = self.centers if isinstance(self.centers, str) else "those given"
        if self.n_centers is None and kind not in ("kmeans", "random"):
            return None
        n_centers = check_integer(self, "n_centers", 1)
        if kind not in COUNTED:
            names = ", ".join(repr(name) for name in COUNTED)
            warn(f"n_centers={n_centers} has no effect with centers={kind!r}: it is for {names}.")
        return n_centers

    def _are_spaced(self) -> bool:
        """Whether the number of centres follows from the spacing."""
        return isinstance(self.centers, str) and self.centers in SPACED and self.n_centers is None

    def _place(
        self,
        kind: Any,
        n_centers: int | None,
        X: Floats,
        candidate: Candidate,
        rng: np.random.RandomState,
        tree: KDTree | None = None,
    ) -> centers.Placement:
        """Centres as asked for, for the plan chosen, of points `X` in units of the length scale."""
        plan = candidate.plan
        if isinstance(kind, np.ndarray):
            kind = in_units(kind, self._unit)
        if plan.is_exact:  # all models would be the same
            return centers.Placement(centers.middle(X)[None], None, None)
        spacing = candidate.spacing if np.isfinite(candidate.spacing) else None
        if candidate.cell_points is None:
            return centers.place(kind, X, spacing, n_centers, rng)
        assert plan.count is not None
        tree = KDTree(X) if tree is None else tree
        chosen = centers.Placement(X[:0], None, None, reach=np.empty(0))
        if not self._are_spaced():
            chosen = centers.place(kind, X, None, n_centers, rng)
            if len(chosen.centers) == 0:  # each test point will be one
                return chosen
            chosen = replace(chosen, reach=centers.reach_of(chosen.centers, plan.count, tree))
            if not self.open_centers:
                return chosen
        return centers.completed(chosen, X, candidate.cell_points, plan.count, tree)


def _is_auto(value: Any) -> bool:
    return isinstance(value, str) and value == "auto"
