"""Gaussian-process regression from local features."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from ..common import memory
from ..common.arrays import in_units, is_tensor
from ..common.duplicates import distinct_points
from ..common.fitting import all_or_nothing
from ..common.types import Floats
from ..common.validation import describe, spawn
from ..common.warnings import warn
from ..features import MaclaurinFeatures
from ..kernels import Kernel
from ..local import by_number as nearest
from ..local import by_radius as tuning
from ..local import centers
from ..local.choices import Choice, Request
from ..local.neighbourhoods import TrainingSet
from ..local.predictor import LocalPredictor
from ..streaming.output import predict_source
from ..streaming.passes import Passes
from ..streaming.predictor import StreamedPredictor
from ..streaming.source import Source, as_source
from ..streaming.sums import Noise
from ._base import on_device
from ._reporting import Clock, Reporting
from ._streamed import fit_local, take_in, take_sample

NOISE_FLOOR = 1e-9


class LocalGPRegressor(Reporting):
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
        Number of Gaussians summed in the kernel. "auto" learns it where length scale and signal variance are learnt;
        where they are given, they tell it: see `ExactGPRegressor`.
    tolerance : float, default=1e-3
        Largest mean KL divergence per test point from the exact Gaussian process, in nats.
    spacing : float or "auto", default="auto"
        Distance, in length scales, within which every point has a centre.
    radius : float, None or "auto", default="auto"
        Radius of the neighbourhoods in length scales; None takes all points. With several length scales and a radius
        given, what the longer ones say from afar is not measured, and the distance in `report_` may be too small.
    features : "auto", "kernel", TaylorFeatures or MaclaurinFeatures, default="auto"
        "kernel" solves every neighbourhood in kernel space. A given map is used with the model's length scale. With
        either, neighbourhoods of few points are solved in kernel space, unless `radius` is None.
    correction : bool, default=True
        Give back what the features cannot represent as independent noise.
    blend : bool, default=False
        Predictions that are continuous from centre to centre, at two to three times the cost of prediction. Not where
        several length scales end with neighbourhoods by number; that is said in a warning.
    centers : str, int or array of shape (n_centers, n_features), default="auto"
        "grid": middles of the occupied cells of a lattice (the choice of "auto" up to three columns); "net": a greedy
        covering (its choice beyond); "farthest": farthest-point clustering; "kmeans", "random": with `n_centers`;
        "mean": a single centre; "test": the test points themselves. A number is that many farthest points. The exact
        process, where it is chosen, has one centre.
    n_centers : int or None, default=None
        For "farthest", "kmeans" and "random".
    open_centers : bool, default=True
        Open a centre for test points farther than the spacing from all others. (Where neighbourhoods are by number,
        `fit` adds centres for samples that those given leave alone.) If False, centres that are far from some samples
        make the distance from the exact process unknown, which `fit` warns of.
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

    _predictor: LocalPredictor | StreamedPredictor
    _unit: Floats

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
        cls,
        n_components: int,
        *,
        sampling: str = "rademacher",
        spacing: float = 2.0,
        centers: Any = "farthest",
        **parameters: Any,
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

    @all_or_nothing
    def fit(self, X: Any, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> Self:
        """Learn the hyperparameters that are not given, choose how to approximate, and condition on the data.

        Parameters
        ----------
        X : array of shape (n_samples, n_features), Dask array or data frame, or Source
            A source (see `nearfield.sources`) holds the targets and weights as well, and is never in memory as a whole.
        y : array of shape (n_samples,) or (n_samples, n_targets), or None with a source
        sample_weight : array of shape (n_samples,) or None, default=None
            Precisions: the noise variance of sample i is `noise_variance / sample_weight[i]`.

        Returns
        -------
        self
        """
        if is_tensor(X):
            on_device().fit_local(self, X, y, sample_weight, Clock())
            return self
        source = as_source(X, y, sample_weight)
        if source is not None:
            return self._fit_source(source)
        points, targets, weights = self._validate_training(X, y, sample_weight)
        if self._check_noise() == 0:
            distinct_points(points, targets, sample_weight)  # refuses those that contradict each other
        return self._fit_arrays(points, targets, weights)

    def _fit_source(self, source: Source) -> Self:
        clock = Clock()
        passes = Passes(source, self._check_progress())
        rng = spawn(self.random_state, "source")
        sampled = take_sample(self, passes, rng)
        if sampled.n <= source.sample_size:
            rows = sampled.rows
            return self._fit_arrays(rows.X, rows.targets, rows.weights)
        self.y_mean_, self._weight, self._offset = sampled.mean, sampled.weight, sampled.mean
        clock.lap("sample")
        choice, self._predictor = fit_local(self, passes, sampled, rng, clock)
        placement = self._predictor.placement
        self._take_over(choice, placement, clock, self._share_served(placement, self._in_length_scales(sampled.rows.X)))
        return self

    def _fit_arrays(self, X: Floats, y: Floats, weights: Floats | None) -> Self:
        clock = Clock()
        memory.require(
            8.0 * len(X) * (6 * X.shape[1] + 4 * y.shape[1] + 8),  # copies in other units, and an index of neighbours
            f"A local model of {len(X)} samples",
            "Data that stay in a file or on a cluster take less: see nearfield.sources.",
        )
        request, kind, n_centers = self._check_request(), self._check_centers(), self._check_n_centers()
        rng = spawn(self.random_state, "tuning")
        self.y_mean_ = self._weighted_mean(y, weights)
        self._weight = float(len(y) if weights is None else weights.sum())
        self._learn(X, y - self.y_mean_, weights)
        clock.lap("learning")

        kernel = Kernel(self.kernel_.length_scales / self._unit_of_length(), self.kernel_.variances)
        noise = self._local_noise(len(X), weights)
        data = TrainingSet.of(self._in_length_scales(X), y - self.y_mean_, noise)
        self._offset = self.y_mean_.copy()  # what the stored targets lack, whatever the mean becomes
        choice = self._choose(kernel, data, request, rng)
        clock.lap("tuning")

        placement = self._place(kind, n_centers, data.X, choice.candidate, rng, data.tree)
        clock.lap("centres")

        plan = choice.candidate.plan
        self._predictor = LocalPredictor.fit(plan, data, placement, bool(self.open_centers), self.n_jobs)
        clock.lap("fitting")
        self._take_over(choice, placement, clock, self._share_served(placement, data.X))
        return self

    def _take_over(self, choice: Choice, placement: centers.Placement, clock: Clock, served: float) -> None:
        """Set the fitted attributes that users see, and warn where the tolerance could not be met."""
        spacing, plan = choice.candidate.spacing, choice.candidate.plan
        self.spacing_ = spacing if np.isfinite(spacing) else None
        self.radius_ = plan.radius
        self.feature_map_ = plan.features
        self.centers_ = placement.centers * self._unit
        self._make_report(choice, clock, self._median_neighbours(), served)
        if self.blend and self.spacing_ is None and len(self.centers_) > 1:
            warn(
                "blend=True has no effect here: neighbourhoods are so many nearest points, in cells of several sizes. "
                "Set spacing and radius by hand, or n_scales=1, for predictions without jumps."
            )

    @all_or_nothing
    def partial_fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        forget: bool = False,
    ) -> Self:
        """Take in more data at fixed hyperparameters and centres, as if it had been there from the start.

        The first call is `fit`. Further parameters and answer are those of `fit`.

        Parameters
        ----------
        forget : bool, default=False
            Forget all earlier data first, and keep only the hyperparameters, the centres and how to approximate.
        """
        if not hasattr(self, "_predictor"):
            return self.fit(X, y, sample_weight)
        if self._fitted_on_tensors(X):
            on_device().update_local(self, X, y, sample_weight, bool(forget))
            return self
        take_in(self, X, y, sample_weight, bool(forget))
        if isinstance(self._predictor, LocalPredictor) and (unseen := self._predictor.n_unseen()):
            warn(
                f"{unseen} of {self._predictor.n_samples} samples are in no neighbourhood, and open_centers=False "
                "opens none for them: where they are, the prior answers. Fit again, or with open_centers=True."
            )
        self._renew_report(self._median_neighbours())
        return self

    def _median_neighbours(self) -> int:
        """Number of points in a neighbourhood, in the median over some centres."""
        every = self._predictor.placement.centers
        return self._predictor.median_neighbours(every[:: max(len(every) // 1000, 1)])

    def _unit_of_length(self) -> Floats:
        """What local models measure in: the shortest length scale."""
        self._unit = self.kernel_.length_scales[0]
        return self._unit

    def _in_length_scales(self, X: Floats) -> Floats:
        result: Floats = in_units(X, self._unit)
        return result

    def _local_noise(self, n: int, weights: Floats | None) -> Floats:
        """Noise of each sample, with a floor: features divide by it."""
        result: Floats = self._noise_model()(n, weights)
        return result

    def _noise_model(self) -> Noise:
        return Noise(self.noise_variance_, NOISE_FLOOR * self.kernel_.variance)

    def _choose(
        self, kernel: Kernel, data: TrainingSet, request: Request, rng: np.random.RandomState, **streamed: Any
    ) -> Choice:
        """The plan: as given where everything is, else by measurement; `streamed` are further options of `tuning`."""
        if self._is_given(request):
            sample = data.X - data.X.mean(axis=0)
            if request.radius is not None and request.features is not None:  # positions as neighbourhoods have them
                seeds = data.X[rng.choice(len(sample), min(len(sample), 20), replace=False)]
                found = data.neighbourhoods(seeds, request.radius)
                sample = np.concatenate([data.X[i] - seed for seed, i in zip(seeds, found, strict=True)])
            return self._given_choice(kernel, sample, request)
        if self.radius is None:
            raise ValueError(
                "radius=None takes all points for every centre, which needs features: set features to TaylorFeatures "
                "or MaclaurinFeatures, or use ExactGPRegressor."
            )
        by_number = (
            kernel.n_scales > 1 and request.radius is None and request.spacing is None and request.features is None
        )
        if by_number and not streamed:
            return nearest.choose(kernel, data, request, self.n_jobs, rng, self._check_progress())
        if by_number:
            raise ValueError(
                f"{describe(self, 'n_scales')} must be 1 with a source, or spacing, radius and features must be given: "
                "neighbourhoods for several length scales need all points in memory."
            )
        return tuning.choose(kernel, data, request, self.n_jobs, rng, self._check_progress(), **streamed)

    # ---- prediction ----------------------------------------------------------------------------------------------

    def predict(self, X: Any, return_std: bool = False, include_noise: bool = False) -> Any:
        """Posterior mean, and standard deviation on request.

        Parameters
        ----------
        X : array of shape (m, n_features), Dask array or data frame, or Source
            For a Dask collection the answers are Dask arrays, yet to be computed. `nearfield.sources.predict_to` writes
            the answers for a source to a file, instead of holding them.
        return_std : bool, default=False
        include_noise : bool, default=False
            The distribution of observations instead of that of the latent function: the noise variance is added.

        Returns
        -------
        mean : ndarray of shape (m,) or (m, n_targets)
        std : ndarray of the same shape, if `return_std`
        """
        if self._fitted_on_tensors(X):
            return on_device().predict_local(self, X, return_std, include_noise)
        source = as_source(X, None, None)
        if source is not None:
            return predict_source(self, source, return_std, include_noise)
        return self._predict_points(self._validate_test(X), return_std, include_noise)

    def _predict_points(self, X: Floats, return_std: bool, include_noise: bool) -> Any:
        points = self._in_length_scales(X)
        predict = self._predictor.predict_blended if self._blends(self.spacing_) else self._predictor.predict
        mean, variance = predict(points, return_std)
        # Targets were stored less `_offset`, and the last column answers for a constant: so any mean can be taken out.
        mean = mean[:, :-1] - mean[:, -1:] * (self.y_mean_ - self._offset)
        if return_std:
            return self._shaped(mean), self._std(variance, include_noise)
        return self._shaped(mean)

    def _training_points(self) -> Floats | None:
        if not isinstance(self._predictor, LocalPredictor):
            return None
        result: Floats = self._predictor.data.X * self._unit
        return result

    def _blends(self, spacing: float | None) -> bool:
        """Whether there is anything to blend: a single centre has no seams."""
        return bool(self.blend) and spacing is not None
