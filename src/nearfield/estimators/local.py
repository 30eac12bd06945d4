"""Gaussian-process regression from local features."""

from __future__ import annotations

import time
import warnings
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial import cKDTree
from sklearn.base import clone
from sklearn.utils import check_random_state

from .. import blending, centers, local, tuning
from .._parallel import n_threads
from .._validation import check_integer, check_option, check_positive, describe
from ..features import MaclaurinFeatures, TaylorFeatures, maclaurin, taylor
from ..kernels import Kernel
from ..local import FeatureModel, KernelModel, LocalFeatures, LocalModel, Plan, TrainingSet
from ..report import Report
from ._base import GPRegressor

Floats = NDArray[Any]

NOISE_FLOOR = 1e-9
CENTERS = ("auto", "grid", "net", "farthest", "kmeans", "random", "mean", "test")


class LocalGPRegressor(GPRegressor):
    """Gaussian-process regression from features around many centres: near the exact process, in linear time.

    Around each centre a small Gaussian process is made from the points of its neighbourhood, with Taylor features of
    the kernel, whose error is given back as independent noise, or in kernel space where that is cheaper. Spacing,
    radius and features are chosen by measuring the distance from the exact process at probes; `report_` states it.

    Parameters
    ----------
    length_scale, signal_variance, noise_variance : float, array or None, default=None
        Hyperparameters; None learns them. See `ExactGPRegressor`. Noise counts as at least 1e-9 of the signal variance.
    ard : bool, default=False
        Learn one length scale per column.
    n_scales : int or "auto", default="auto"
        Number of Gaussians summed in the kernel.
    tolerance : float, default=1e-3
        Largest mean KL divergence per test point from the exact Gaussian process, in nats.
    spacing : float or "auto", default="auto"
        Distance, in length scales, within which every point has a centre.
    radius : float, None or "auto", default="auto"
        Radius of the neighbourhoods in length scales; None takes all points.
    features : "auto", "kernel", TaylorFeatures or MaclaurinFeatures, default="auto"
        "kernel" solves every neighbourhood in kernel space. A given map is used with the model's length scale. With
        either, neighbourhoods of few points are solved in kernel space, unless `radius` is None.
    correction : bool, default=True
        Give back what the features cannot represent as independent noise.
    blend : bool, default=False
        Predictions that are continuous across the borders of cells, at a higher cost; up to three columns.
    centers : str, int or array of shape (n_centers, n_features), default="auto"
        "grid": middles of the occupied cells of a lattice (the choice of "auto" up to three columns); "net": a greedy
        covering (its choice beyond); "farthest": farthest-point clustering; "kmeans", "random": with `n_centers`;
        "mean": a single centre; "test": the test points themselves. A number is that many farthest points.
    n_centers : int or None, default=None
        For "farthest", "kmeans" and "random".
    open_centers : bool, default=True
        Open a centre for test points farther than the spacing from all others.
    n_restarts, time_budget, n_jobs, random_state, progress
        See `ExactGPRegressor`.

    Attributes
    ----------
    length_scale_, signal_variance_, noise_variance_ : float or ndarray
    centers_ : ndarray of shape (n_centers, n_features)
    spacing_, radius_ : float or None
        In length scales.
    feature_map_ : LocalFeatures or None
    report_ : Report
        What was chosen, why, and the measured distance from the exact Gaussian process. Print it.
    kernel_, learned_, y_mean_, n_features_in_, feature_names_in_
        See `ExactGPRegressor`.
    """

    def __init__(
        self,
        *,
        length_scale: Any = None,
        signal_variance: Any = None,
        noise_variance: float | None = None,
        ard: bool = False,
        n_scales: Any = "auto",
        tolerance: float = 1e-3,
        spacing: Any = "auto",
        radius: Any = "auto",
        features: Any = "auto",
        correction: bool = True,
        blend: bool = False,
        centers: Any = "auto",
        n_centers: int | None = None,
        open_centers: bool = True,
        n_restarts: int = 2,
        time_budget: float = 60.0,
        n_jobs: int | None = None,
        random_state: Any = None,
        progress: Any = None,
    ) -> None:
        self.length_scale = length_scale
        self.signal_variance = signal_variance
        self.noise_variance = noise_variance
        self.ard = ard
        self.n_scales = n_scales
        self.tolerance = tolerance
        self.spacing = spacing
        self.radius = radius
        self.features = features
        self.correction = correction
        self.blend = blend
        self.centers = centers
        self.n_centers = n_centers
        self.open_centers = open_centers
        self.n_restarts = n_restarts
        self.time_budget = time_budget
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.progress = progress

    @classmethod
    def from_paper(
        cls, n_components: int, *, sampling: str = "rademacher", spacing: float = 2.0, centers: Any = "farthest", **parameters: Any
    ) -> Self:
        """Algorithm 1 of Wacker and Filippone (2022) to the letter.

        Farthest-point centroids from the training mean, one feature-space Gaussian process per centroid on all points,
        nearest-centroid prediction; no neighbourhoods and no correction. Features are optimally allocated sketches,
        or for a single column the explicit series.

        Parameters
        ----------
        n_components : int
            Number of features `D`.
        sampling : {"rademacher", "tensor_srht", "gaussian"}, default="rademacher"
        spacing : float, default=2.0
            Threshold theta of the clustering, in length scales.
        centers : str, int or array, default="farthest"
            "test" centres on each test point (the paper's method without clustering), "mean" is the plain Maclaurin
            method.
        **parameters
            Further parameters of `LocalGPRegressor`.
        """
        parameters = {"n_scales": 1, **parameters}
        return cls(
            spacing=spacing,
            radius=None,
            features=MaclaurinFeatures(n_components, sampling=sampling, exact_degrees=0),
            correction=False,
            centers=centers,
            open_centers=False,
            **parameters,
        )

    # ---- fitting -------------------------------------------------------------------------------------------------

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn the hyperparameters that are not given, choose how to approximate, and condition on the data.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
        y : array of shape (n_samples,) or (n_samples, n_targets)
        sample_weight : array of shape (n_samples,) or None, default=None
            Precisions: the noise variance of sample i is `noise_variance / sample_weight[i]`.

        Returns
        -------
        self
        """
        clock = _Clock()
        X, y, weights = self._validate_training(X, y, sample_weight)
        request = self._check_request()
        rng = check_random_state(self.random_state)
        self.y_mean_ = self._weighted_mean(y, weights)
        self._weight = float(len(y) if weights is None else weights.sum())
        self._learn(X, y - self.y_mean_, weights)
        clock.lap("learning")

        self._unit = self.kernel_.length_scales[0]
        kernel = Kernel(self.kernel_.length_scales / self._unit, self.kernel_.variances)
        noise = self._local_noise(len(X), weights)
        self._data = TrainingSet.of(X / self._unit, y - self.y_mean_, noise)
        self._offset = self.y_mean_.copy()  # what the stored targets lack, whatever the mean becomes
        choice = self._choose(kernel, request, rng)
        clock.lap("tuning")

        self._plan = choice.candidate.plan
        self.spacing_ = choice.candidate.spacing if np.isfinite(choice.candidate.spacing) else None
        self.radius_ = self._plan.radius
        self.feature_map_ = self._plan.features
        self._place_centers(rng)
        clock.lap("centres")

        self._models = local.fit_all(self._plan, self._data, self._centers, self.n_jobs) if len(self._centers) else []
        clock.lap("fitting")
        self._make_report(choice, clock)
        if not choice.met:
            warnings.warn(
                f"tolerance={self.tolerance:g} could not be met: {choice.divergence:.1e} nats of KL per test point from "
                "the exact Gaussian process were reached. Accept it by a larger tolerance, or set radius and features.",
                stacklevel=2,
            )
        return self

    def partial_fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Take in more data at fixed hyperparameters and centres, as if it had been there from the start.

        The first call is `fit`. Parameters and answer are those of `fit`.
        """
        if not hasattr(self, "_models"):
            return self.fit(X, y, sample_weight)
        X, y, weights = self._validate_training(X, y, sample_weight, reset=False)
        if y.shape[1] != len(self.y_mean_):
            raise ValueError(f"The 'y' argument must have {len(self.y_mean_)} targets as in fit. Got {y.shape[1]}.")
        total = self._weight + (len(y) if weights is None else float(weights.sum()))
        share = (y if weights is None else y * weights[:, None]).sum(axis=0)
        mean = (self.y_mean_ * self._weight + share) / total
        old, noise = self._data, self._local_noise(len(X), weights)
        new = TrainingSet.of(X / self._unit, y - self._offset, noise)
        data = TrainingSet.of(
            np.concatenate([old.X, new.X]),
            np.concatenate([old.y[:, :-1], new.y[:, :-1]]),
            np.concatenate([old.noise, noise]),
        )
        models = local.update_all(self._plan, self._models, new, data, self._centers, self.n_jobs)
        self._data, self._models, self.y_mean_, self._weight = data, models, mean, total
        return self

    def _local_noise(self, n: int, weights: Floats | None) -> Floats:
        """Noise of each sample, with a floor: features divide by it."""
        result: Floats = np.maximum(self._noise_of(n, weights), NOISE_FLOOR * self.kernel_.variance)
        return result

    def _choose(self, kernel: Kernel, request: tuning.Request, rng: np.random.RandomState) -> tuning.Choice:
        """The plan: as given where everything is, else by measurement."""
        X = self._data.X
        if request.features is not None and (self.radius is None or request.radius is not None):
            sample = X - X.mean(axis=0)
            if request.radius is not None and request.spacing is not None:
                seeds = X[rng.choice(len(X), min(len(X), 20), replace=False)]
                sample = np.concatenate(
                    [X[i] - s for s, i in zip(seeds, self._data.within(seeds, request.radius), strict=True)]
                )
            if request.spacing is not None or self.radius is None:
                plan = Plan(
                    kernel,
                    request.radius,
                    request.features(sample),
                    correction=bool(self.correction),
                    either_side=self.radius is not None,
                )
                candidate = tuning.Candidate(request.spacing if request.spacing is not None else np.inf, plan, "as given")
                return tuning.Choice(candidate, np.nan, np.nan, True, "spacing, radius and features were given")
        if self.radius is None:
            raise ValueError(
                "radius=None takes all points for every centre, which needs features: set features to TaylorFeatures or "
                "MaclaurinFeatures, or use ExactGPRegressor."
            )
        return tuning.choose(kernel, self._data, request, self.n_jobs, rng, self.progress)

    def _place_centers(self, rng: np.random.RandomState) -> None:
        """Set the centres in units of the length scale, the tree that finds the nearest, and the lattice of holes."""
        X, spacing = self._data.X, self.spacing_
        kind = self.centers
        self._cells: NDArray[np.int64] | None = None
        self._lattice = None if spacing is None else centers.Lattice.covering(X, spacing)
        if not isinstance(kind, (str, int, np.integer)):
            found = np.asarray(kind, dtype=np.float64)
            if found.ndim != 2 or found.shape[1] != X.shape[1] or len(found) == 0 or not np.all(np.isfinite(found)):
                raise ValueError(f"{describe(self, 'centers')} must have shape (n_centers, {X.shape[1]}) and be finite.")
            found = found / self._unit
        elif not isinstance(kind, str):
            found = centers.farthest_points(X, None, check_integer(self, "centers", 1))
        elif kind == "test":
            found = np.empty((0, X.shape[1]))
        elif kind == "mean" or (spacing is None and kind in ("auto", "grid", "net")):
            found = X.mean(axis=0)[None]
        elif kind in ("kmeans", "random"):
            n = check_integer(self, "n_centers", 1)
            found = (
                centers.kmeans(X, n, rng) if kind == "kmeans" else X[rng.choice(len(X), min(n, len(X)), replace=False)]
            )
        elif kind == "farthest":
            n = None if self.n_centers is None else check_integer(self, "n_centers", 1)
            found = centers.farthest_points(X, spacing, n)
        elif kind == "net" or (kind == "auto" and X.shape[1] > 3):
            assert spacing is not None
            found = centers.greedy_net(X, spacing, rng)
        else:
            assert self._lattice is not None
            self._cells, owner = self._lattice.occupied(X)
            found = centers.middles_of_groups(X, owner, len(self._cells))
        self._centers = found
        self.centers_ = found * self._unit
        self._tree = cKDTree(found) if len(found) else None

    # ---- prediction ----------------------------------------------------------------------------------------------

    def predict(self, X: ArrayLike, return_std: bool = False, include_noise: bool = False) -> Any:
        """Posterior mean, and standard deviation on request.

        Parameters
        ----------
        X : array of shape (m, n_features)
        return_std : bool, default=False
        include_noise : bool, default=False
            The distribution of observations instead of that of the latent function: the noise variance is added.

        Returns
        -------
        mean : ndarray of shape (m,) or (m, n_targets)
        std : ndarray of the same shape, if `return_std`
        """
        X = self._validate_test(X) / self._unit
        mean, variance = self._blended(X, return_std) if self._blends() else self._nearest(X, return_std)
        # Targets were stored less `_offset`, and the last column answers for a constant: so any mean can be taken out.
        shift = self.y_mean_ - self._offset
        mean = mean[:, :-1] - mean[:, -1:] * shift
        if return_std:
            return self._shaped(mean), self._std(variance, include_noise)
        return self._shaped(mean)

    def _blends(self) -> bool:
        if not self.blend or self.spacing_ is None:
            return False
        if self._cells is None:
            raise ValueError("blend=True needs centers='grid' (or 'auto' with up to three columns).")
        return True

    def _nearest(self, X: Floats, with_variance: bool) -> tuple[Floats, Floats]:
        """Each point by the model of its nearest centre, or of one opened for it."""
        if self._tree is None:
            return self._opened(X, X, with_variance)
        distance, owner = self._tree.query(X, workers=n_threads(self.n_jobs))
        mean, variance = self._prior(len(X))
        hole = np.zeros(len(X), dtype=bool)
        if self.open_centers and self._lattice is not None and self.radius_ is not None and self.spacing_ is not None:
            hole = distance > self.spacing_
            # Beyond this no training point is in reach, and the prior is the answer.
            hopeless = distance > self.radius_ + 2.5 * self.spacing_
            places = np.flatnonzero(hole & ~hopeless)
            if len(places):
                middles = self._lattice.middles(self._lattice.cells(X[places]))
                mean[places], variance[places] = self._opened(X[places], middles, with_variance)
        known = np.flatnonzero(~hole)
        if len(known):
            mean[known], variance[known] = local.predict_groups(
                self._plan, self._models, self._centers, X[known], owner[known], with_variance, self.n_jobs
            )
        return mean, variance

    def _opened(self, X: Floats, places: Floats, with_variance: bool) -> tuple[Floats, Floats]:
        """Each point by a model made for the place given with it."""
        mean, variance = self._prior(len(X))
        if len(X) == 0:
            return mean, variance
        distinct, owner = np.unique(places, axis=0, return_inverse=True)
        owner = owner.reshape(-1)
        order = np.argsort(owner, kind="stable")
        bounds = np.searchsorted(owner[order], np.arange(len(distinct) + 1))
        for batch in local.batches(len(distinct), 256):  # models are made, used and forgotten
            members = order[bounds[batch.start] : bounds[batch.stop]]
            models = local.fit_all(self._plan, self._data, distinct[batch], self.n_jobs)
            mean[members], variance[members] = local.predict_groups(
                self._plan,
                models,
                distinct[batch],
                X[members],
                owner[members] - batch.start,
                with_variance,
                self.n_jobs,
            )
        return mean, variance

    def _blended(self, X: Floats, with_variance: bool) -> tuple[Floats, Floats]:
        """Weighted means over the cells that share each point."""
        assert self._lattice is not None and self._cells is not None
        k = len(self.y_mean_) + 1
        mean, variance = np.zeros((len(X), k)), np.zeros(len(X))
        known = {tuple(cell): i for i, cell in enumerate(self._cells.tolist())}
        for points, cells, weights in blending.shares(self._lattice, X):
            distinct, owner = centers.group_rows(cells)
            place = np.array([known.get(tuple(cell), -1) for cell in distinct.tolist()])[owner]
            part, part_variance = self._prior(len(points))
            inside, outside = np.flatnonzero(place >= 0), np.flatnonzero(place < 0)
            if len(inside):
                part[inside], part_variance[inside] = local.predict_groups(
                    self._plan, self._models, self._centers, X[points[inside]], place[inside], with_variance, self.n_jobs
                )
            if len(outside):
                part[outside], part_variance[outside] = self._opened(
                    X[points[outside]], self._lattice.middles(cells[outside]), with_variance
                )
            mean[points] += weights[:, None] * part
            variance[points] += weights * part_variance
        return mean, variance

    def _prior(self, m: int) -> tuple[Floats, Floats]:
        return np.zeros((m, len(self.y_mean_) + 1)), np.full(m, self.kernel_.variance)

    # ---- parameters and report -----------------------------------------------------------------------------------

    def _check_request(self) -> tuning.Request:
        if isinstance(self.centers, str):
            check_option(self, "centers", CENTERS)
        features = None
        if isinstance(self.features, (TaylorFeatures, MaclaurinFeatures)):
            features = self._given_features
        elif not isinstance(self.features, str) or self.features not in ("auto", "kernel"):
            raise ValueError(
                f"{describe(self, 'features')} must be 'auto', 'kernel', TaylorFeatures or MaclaurinFeatures. "
                f"Got {self.features!r}."
            )
        return tuning.Request(
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
        rng = check_random_state(self.random_state)
        maps: list[local.FeatureMap] = []
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

    def _make_report(self, choice: tuning.Choice, clock: _Clock) -> None:
        measured = not np.isnan(choice.divergence)
        sizes = [len(m.Z) for m in self._models if isinstance(m, KernelModel)]
        radius = self.radius_
        if radius is not None and len(self._centers):
            few = self._centers[:: max(len(self._centers) // 1000, 1)]
            median = int(np.median(self._data.tree.query_radius(few, radius, count_only=True)))
        else:
            median = len(self._data.X)
        exact = self._plan.features is None and radius is None
        self.report_ = Report(
            n_samples=len(self._data.X),
            n_features=self._data.X.shape[1],
            method="the exact Gaussian process" if exact else choice.candidate.label,
            reason=choice.reason,
            divergence=choice.divergence if measured else None,
            divergence_error=choice.error if measured else None,
            tolerance=float(self.tolerance) if measured else None,
            tolerance_met=choice.met if measured else None,
            n_probes=choice.n_probes,
            n_centers=len(self._centers),
            n_kernel_space=len(sizes),
            n_components=0 if self.feature_map_ is None else self.feature_map_.n_components,
            spacing=self.spacing_,
            radius=radius,
            median_neighbours=median,
            hyperparameters={
                "length_scale": self.length_scale_,
                "signal_variance": self.signal_variance_,
                "noise_variance": self.noise_variance_,
            },
            seconds=clock.laps,
            model_bytes=_size(self._models) + self._data.X.nbytes + self._data.y.nbytes,
            trials=tuple((t.candidate.label, t.divergence, t.cost) for t in choice.trials),
        )


class _Clock:
    """Seconds between laps."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, stage: str) -> None:
        now = time.perf_counter()
        self.laps[stage] = now - self._last
        self._last = now


def _is_auto(value: Any) -> bool:
    return isinstance(value, str) and value == "auto"


def _size(models: list[LocalModel]) -> int:
    total = 0
    for model in models:
        total += model.factor.nbytes + model.coefficients.nbytes
        total += model.cross.nbytes if isinstance(model, FeatureModel) else model.Z.nbytes
    return total


__all__ = ["LocalGPRegressor"]
