"""What the regressors do where X is a tensor: the same steps as for NumPy, on the tensor's device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from sklearn.metrics import r2_score

from ..common.arrays import Array as Tensor
from ..common.arrays import in_units, indices_like, like, on_host
from ..common.duplicates import distinct_points
from ..common.memory import batches
from ..common.validation import check_random_state, describe
from ..features import MaclaurinFeatures
from ..hyperparameters.scales import BLOCKS, BLOCKS_ASIDE
from ..kernels import Kernel
from ..local.neighbourhoods import TrainingSet
from ..local.plan import Plan
from ..solvers.kernel_space import KernelSpace
from ..solvers.statistics import Statistics, accumulate, total
from . import checks, learning, memory
from .cells import MAX_GRID_COLUMNS, brute_force
from .models import TensorSet, neighbourhoods
from .predictor import TensorPlacement, TensorPredictor, place

FLOAT32_NOISE = 1e-4  # share of the signal variance below which the digits of float32 do not suffice


# ---- what all share ----------------------------------------------------------------------------------------------


def learn(gp: Any, X: Tensor, y: Tensor, weights: Tensor | None) -> None:
    """Set the hyperparameters from the parameters or the data; `y` is centred."""
    fixed, _ = gp._check_hyperparameters(X.shape[1])
    if fixed.is_complete:  # nothing to look at the data for
        gp._learn(np.zeros((2, X.shape[1])), np.zeros((2, 1)), None)
    else:
        rng = check_random_state(gp.random_state)
        n_blocks = BLOCKS if gp._check_n_scales() == 1 else BLOCKS + BLOCKS_ASIDE
        found = learning.summary(X, y, weights, n_blocks, bool(gp.ard), rng)
        gp._learn(found.pop("X"), found.pop("y"), None, **found)
    if X.dtype == torch.float32 and gp.noise_variance_ < FLOAT32_NOISE * gp.kernel_.variance:
        raise ValueError(
            f"The noise variance {gp.noise_variance_:.1e} is below {FLOAT32_NOISE:g} of the signal variance, too "
            "little for the digits of float32: convert X and y to float64."
        )


def weighted_mean(y: Tensor, weights: Tensor | None) -> Tensor:
    """Mean of the targets, (k,)."""
    w = torch.ones_like(y[:, 0]) if weights is None else weights
    mean = (y * w[:, None]).sum(dim=0) / w.sum()
    return torch.where(y.amin(dim=0) == y.amax(dim=0), y[0], mean)


def noise_of(gp: Any, X: Tensor, weights: Tensor | None) -> Tensor:
    """Noise variance of each sample."""
    noise = X.new_full((len(X),), gp.noise_variance_)
    return noise if weights is None else noise / weights


def shaped(gp: Any, mean: Tensor, variance: Tensor | None, include_noise: bool) -> Any:
    """Answers in the shape the targets had."""
    mean = mean + gp.y_mean_
    k = mean.shape[1]
    mean = mean[:, 0] if gp._single_target else mean
    if variance is None:
        return mean
    std = (variance.clamp(min=0) + (gp.noise_variance_ if include_noise else 0.0)).sqrt()
    return mean, std if gp._single_target else std[:, None].repeat(1, k)


def predict_joint(
    gp: Any, points: Tensor, prepare: Callable[[Tensor], Tensor], width: int, what: tuple[bool, bool, bool]
) -> Any:
    """Answers of a regressor that knows the joint distribution; `what` is return_std, return_cov, include_noise."""
    return_std, return_cov, include_noise = what
    posterior, k = gp._posterior, len(gp.y_mean_)  # the constant may come after the targets
    if return_cov:
        rows = prepare(points)
        covariance = posterior.covariance(rows)
        diagonal = covariance.diagonal()
        diagonal.copy_(diagonal.clamp(min=0) + (gp.noise_variance_ if include_noise else 0.0))
        mean = shaped(gp, posterior.mean(rows)[:, :k], None, False)
        return mean, covariance if mean.ndim == 1 else covariance[:, :, None].repeat(1, 1, mean.shape[1])
    step = max(int(memory.batch_bytes(points.device) / (3 * points.element_size() * width)), 1)
    answers = []
    for start in range(0, max(len(points), 1), step):
        rows = prepare(points[start : start + step])
        answers.append(posterior.mean_and_variance(rows) if return_std else (posterior.mean(rows), None))
    mean = torch.cat([m[:, :k] for m, _ in answers])
    return shaped(gp, mean, torch.cat([v for _, v in answers]) if return_std else None, include_noise)


def score(gp: Any, X: Tensor, y: Tensor, sample_weight: Tensor | None) -> float:
    """Coefficient of determination, averaged over the targets."""
    mean = gp.predict(X)
    truth = checks.companion(y, X, "y")
    weights = None if sample_weight is None else _double(checks.companion(sample_weight, X, "sample_weight"))
    return float(r2_score(_double(truth), _double(mean), sample_weight=weights))


# ---- exact -------------------------------------------------------------------------------------------------------


def fit_exact(gp: Any, X: Any, y: Any, sample_weight: Any) -> None:
    """`ExactGPRegressor.fit`."""
    X, y, weights = checks.training(gp, X, y, sample_weight)
    if gp._check_noise() == 0:
        kept = _distinct_points(X, y, sample_weight)
        X, y, weights = X[kept], y[kept], None  # weights share out the noise, and there is none
    n = len(X)
    memory.require(
        3.2 * X.element_size() * n * n,
        X.device,
        f"The exact Gaussian process of {n} samples",
        "LocalGPRegressor takes the same data in linear memory.",
    )
    y_mean = weighted_mean(y, weights)
    learn(gp, X, y - y_mean, weights)
    gp._posterior = KernelSpace.from_points(gp.kernel_, X, y - y_mean, noise_of(gp, X, weights))
    gp.y_mean_ = y_mean


def _distinct_points(X: Tensor, y: Tensor, sample_weight: Tensor | None) -> Tensor:
    """See `distinct_points`; found on the host."""
    weights = None if sample_weight is None else on_host(sample_weight)
    return indices_like(distinct_points(on_host(X), on_host(y), weights), X)


def predict_exact(gp: Any, X: Any, *what: bool) -> Any:
    """`ExactGPRegressor.predict`."""
    points = checks.test(gp, X, gp._posterior.X)
    return predict_joint(gp, points, lambda part: part, len(gp._posterior.X), what)  # type: ignore[arg-type]


# ---- one feature map ---------------------------------------------------------------------------------------------


def fit_feature(gp: Any, X: Any, y: Any, sample_weight: Any) -> None:
    """`FeatureGPRegressor.fit`."""
    X, y, weights = checks.training(gp, X, y, sample_weight)
    gp._check_options()
    if gp.likelihood == "features" or not {"length_scale", "variance"} <= gp.feature_map.get_params().keys():
        raise ValueError(
            f"{describe(gp, 'feature_map')} must be FourierFeatures, TaylorFeatures or MaclaurinFeatures, with "
            "likelihood='kernel', where X is a tensor."
        )
    offset = weighted_mean(y, weights)
    learn(gp, X, y - offset, weights)
    gp._fit_maps(X)
    gp._offset = offset
    gp._condition(_sums(gp, X, y - offset, weights))


def update_feature(gp: Any, X: Any, y: Any, sample_weight: Any, forget: bool) -> None:
    """`FeatureGPRegressor.partial_fit` on a fitted model."""
    X, y, weights = checks.training(gp, X, y, sample_weight, reset=False)
    checks.test(gp, X, gp.statistics_.gram)
    gp._check_targets(y.shape[1])
    new = _sums(gp, X, y - gp._offset, weights)
    gp._condition(new if forget else gp.statistics_ + new)


def predict_feature(gp: Any, X: Any, *what: bool) -> Any:
    """`FeatureGPRegressor.predict`."""
    points = checks.test(gp, X, gp.statistics_.gram)
    return predict_joint(gp, points, lambda part: _rows(gp, part), gp._width, what)  # type: ignore[arg-type]


def _rows(gp: Any, X: Tensor) -> Tensor:
    maps = gp.feature_map_ if isinstance(gp.feature_map_, list) else [gp.feature_map_]
    return torch.cat([m.transform(X) for m in maps], dim=1).mT


def _sums(gp: Any, X: Tensor, y: Tensor, weights: Tensor | None) -> Statistics:
    precision = 1 / noise_of(gp, X, weights)
    step = max(int(memory.batch_bytes(X.device) / (4 * X.element_size() * gp._width)), 1)
    return total(accumulate(_rows(gp, X[c]), y[c], precision[c]) for c in batches(len(X), step))


# ---- local -------------------------------------------------------------------------------------------------------


def fit_local(gp: Any, X: Any, y: Any, sample_weight: Any, clock: Any) -> None:
    """`LocalGPRegressor.fit`."""
    X, y, weights = checks.training(gp, X, y, sample_weight)
    if gp._check_noise() == 0:
        _distinct_points(X, y, sample_weight)
    request, kind, n_centers = gp._check_request(), gp._check_centers(), gp._check_n_centers()
    if gp.blend:
        raise ValueError(f"{describe(gp, 'blend')} must be False where X is a tensor.")
    rng = check_random_state(gp.random_state)
    y_mean = weighted_mean(y, weights)
    learn(gp, X, y - y_mean, weights)
    clock.lap("learning")

    gp._unit = gp.kernel_.length_scales[0]
    kernel = Kernel(gp.kernel_.length_scales / gp._unit, gp.kernel_.variances)
    points, noise = in_units(X, gp._unit), _local_noise(gp, X, weights)
    if gp._is_given(request):
        choice = gp._given_choice(kernel, _sample(gp, points, request.radius, rng), request)
    else:
        arrays = (points, y - y_mean, noise)
        choice = gp._choose(kernel, TrainingSet.of(*(_double(a) for a in arrays)), request, rng)
    clock.lap("tuning")

    plan, spacing = choice.candidate.plan, choice.candidate.spacing
    gp.spacing_, gp.radius_, gp.feature_map_ = (spacing if np.isfinite(spacing) else None), plan.radius, plan.features
    placement, served = _place(gp, kind, n_centers, choice.candidate, points, rng)
    gp.centers_ = placement.centers * like(gp._unit, placement.centers)
    clock.lap("centres")

    data = TensorSet.of(points, y - y_mean, noise, plan.radius)
    gp._predictor = TensorPredictor.fit(plan, data, placement, bool(gp.open_centers))
    gp.y_mean_, gp._offset = y_mean, y_mean.clone()
    gp._weight = float(len(y) if weights is None else weights.sum())
    if X.is_cuda:
        torch.cuda.synchronize(X.device)
    clock.lap("fitting")
    gp._make_report(choice, clock, _median_neighbours(plan, data, placement), served)


def update_local(gp: Any, X: Any, y: Any, sample_weight: Any, forget: bool) -> None:
    """`LocalGPRegressor.partial_fit` on a fitted model: all models are made again, at the same centres."""
    X, y, weights = checks.training(gp, X, y, sample_weight, reset=False)
    old = gp._predictor
    checks.test(gp, X, old.data.X)
    gp._check_targets(y.shape[1])
    arrays = in_units(X, gp._unit), y - gp._offset, _local_noise(gp, X, weights)
    if not forget:
        before = old.data.X, old.data.y[:, :-1], old.data.noise
        arrays = tuple(torch.cat(pair) for pair in zip(before, arrays, strict=True))
    data = TensorSet.of(*arrays, old.plan.radius)
    predictor = TensorPredictor.fit(old.plan, data, old.placement, old.open_centers)
    added = float(len(y) if weights is None else weights.sum())
    earlier = 0.0 if forget else gp._weight
    mean = (gp.y_mean_ * earlier + weighted_mean(y, weights) * added) / (earlier + added)
    gp._predictor, gp.y_mean_, gp._weight = predictor, mean, earlier + added
    gp._renew_report(_median_neighbours(old.plan, data, old.placement))


def predict_local(gp: Any, X: Any, return_std: bool, include_noise: bool) -> Any:
    """`LocalGPRegressor.predict`."""
    points = in_units(checks.test(gp, X, gp._predictor.data.X), gp._unit)
    mean, variance = gp._predictor.predict(points)
    mean = mean[:, :-1] - mean[:, -1:] * (gp.y_mean_ - gp._offset)
    return shaped(gp, mean, variance if return_std else None, include_noise)


def _local_noise(gp: Any, X: Tensor, weights: Tensor | None) -> Tensor:
    return noise_of(gp, X, weights).clamp(min=1e-9 * gp.kernel_.variance)


def _double(values: Tensor) -> Any:
    return on_host(values).astype(np.float64)


def _sample(gp: Any, X: Tensor, radius: float | None, rng: np.random.RandomState) -> Any:
    """Positions relative to a centre, on the host, for the maps that adapt to them."""
    if not isinstance(gp.features, MaclaurinFeatures):
        return np.zeros((1, X.shape[1]))
    if radius is None:
        return _double(X - X.mean(dim=0))
    seeds = X[torch.as_tensor(rng.choice(len(X), min(len(X), 20), replace=False), device=X.device)]
    found = brute_force(X, seeds, radius)
    return _double(X[found.points] - torch.repeat_interleave(seeds, found.counts, dim=0))


def _place(
    gp: Any, kind: Any, n_centers: int | None, candidate: Any, points: Tensor, rng: np.random.RandomState
) -> tuple[TensorPlacement, float]:
    """Centres, and the share of points they serve: on the device where they lie on a lattice, else as for NumPy."""
    on_lattice = isinstance(kind, str) and kind in ("auto", "grid")
    if on_lattice and gp.spacing_ is not None and points.shape[1] <= MAX_GRID_COLUMNS:
        return place(points, gp.spacing_), 1.0
    host = _double(points)
    placed = gp._place(kind, n_centers, host, candidate, rng)
    reach = None if placed.reach is None else like(placed.reach, points)
    placement = TensorPlacement(like(placed.centers, points), placed.spacing, placed.lattice, reach=reach)
    return placement, gp._share_served(placed, host)


def _median_neighbours(plan: Plan, data: TensorSet, placement: TensorPlacement) -> int:
    if plan.radius is None or len(placement.centers) == 0:
        return len(data.X) if plan.count is None else min(plan.count, len(data.X))
    some = placement.centers[:: max(len(placement.centers) // 100, 1)]
    parts = [found.counts for _, found in neighbourhoods(plan, data, some)]
    return int(torch.cat(parts).median())
