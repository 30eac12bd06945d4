"""What the regressors do where X is a tensor: the same steps as for NumPy, on the tensor's device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from sklearn.metrics import r2_score

from ..common import tensor_checks as checks
from ..common.arrays import Array as Tensor
from ..common.arrays import indices_like, on_host
from ..common.duplicates import distinct_points
from ..common.memory import batches
from ..common.validation import describe, spawn
from ..solvers.kernel_space import KernelSpace
from ..solvers.statistics import Statistics, accumulate, total
from . import learning, memory

# ---- what all share ----------------------------------------------------------------------------------------------


def learn(gp: Any, X: Tensor, y: Tensor, weights: Tensor | None) -> None:
    """Set the hyperparameters from the parameters or the data; `y` is centred."""
    rng = spawn(gp.random_state, "learning")
    gp._set_learned(learning.learn(X, y, weights, gp._learning_request(X.shape[1]), rng))


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


def _double(values: Tensor) -> Any:
    return on_host(values).astype(np.float64)
