"""Are these tensors what an estimator can take? Each refusal is one sentence."""

from __future__ import annotations

from typing import Any

import torch
from sklearn.utils.validation import check_is_fitted

from .arrays import Array as Tensor
from .arrays import as_doubles, is_tensor
from .types import Floats
from .warnings import warn


def training(
    estimator: Any, X: Any, y: Any, sample_weight: Any, reset: bool = True
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Training points (n, d), targets (n, k), weights (n,) or None, without points of weight 0."""
    points = _points(estimator, X) if reset else test(estimator, X, estimator.y_mean_)
    targets = companion(y, points, "y")
    least = estimator._least_samples() if reset else 1
    if len(points) < least:
        raise ValueError(f"Found array with {len(points)} sample(s) while a minimum of {least} is required.")
    if targets.ndim not in (1, 2):
        raise ValueError(f"y must have one or two dimensions. Got shape {tuple(targets.shape)}.")
    if reset:
        estimator.n_features_in_ = points.shape[1]
        estimator._single_target = targets.ndim == 1
    targets = targets.reshape(len(targets), -1)
    if sample_weight is None:
        return points, targets, None
    weights = companion(sample_weight, points, "sample_weight")
    if weights.ndim != 1 or bool((weights < 0).any()):
        raise ValueError("The 'sample_weight' argument must be one non-negative number per sample.")
    used = weights > 0
    if int(used.sum()) < least:
        raise ValueError(
            f"The 'sample_weight' argument must be positive for at least {least} sample{'s' * (least > 1)}."
        )
    return points[used], targets[used], weights[used]


def training_on_host(estimator: Any, X: Any, y: Any, sample_weight: Any) -> tuple[Floats, Floats, Floats | None]:
    """The same rows as arrays in double precision; their numbers are yet to be checked."""
    points = _points(estimator, X)
    if points.device.type != "cpu":
        warn(
            f"X is on {points.device}, and a model whose columns have roles is computed on the host: without "
            "coordinates, drift, mean and groups it would stay there."
        )
    targets = as_doubles(companion(y, points, "y"))
    weights = None if sample_weight is None else as_doubles(companion(sample_weight, points, "sample_weight"))
    return as_doubles(points), targets, weights


def test(estimator: Any, X: Any, like: Tensor) -> Tensor:
    """Test points (m, d), of the kind the model was fitted on."""
    check_is_fitted(estimator, "n_features_in_")
    points = _points(estimator, X)
    _check_columns(estimator, points)
    if points.device != like.device:
        raise ValueError(f"X is on {points.device}, but the model was fitted on {like.device}: move one of them.")
    if points.dtype != like.dtype:
        raise ValueError(f"X is {_name(points)}, but the model was fitted on {_name(like)}: convert X.")
    return points


def same_library(estimator: Any, X: Any, fitted_on_tensors: bool) -> None:
    """Refuse a tensor for a model fitted on NumPy arrays, and the other way round."""
    if is_tensor(X) and not fitted_on_tensors:
        raise ValueError(
            f"This {type(estimator).__name__} was fitted on NumPy arrays, but X is a tensor on {X.device}: convert X "
            "by X.cpu().numpy(), or fit on tensors."
        )
    if fitted_on_tensors and not is_tensor(X):
        raise ValueError(
            f"This {type(estimator).__name__} was fitted on tensors, but X is a {type(X).__name__}: make it a tensor "
            "of the same dtype and device, or fit on NumPy arrays."
        )


def points(estimator: Any, X: Any, reset: bool) -> Tensor:
    """Points (n, d) of a feature map."""
    tensor = _points(estimator, X)
    if reset:
        estimator.n_features_in_ = tensor.shape[1]
    _check_columns(estimator, tensor)
    return tensor


def _points(estimator: Any, X: Any) -> Tensor:
    points = _tensor(X, "X")
    if points.ndim != 2 or points.shape[1] == 0:
        raise ValueError(f"X of {type(estimator).__name__} must have two dimensions. Got shape {tuple(points.shape)}.")
    return points


def companion(values: Any, points: Tensor, name: str) -> Tensor:
    """Numbers that go with points: a tensor of the same kind, with as many rows."""
    if not is_tensor(values):
        raise ValueError(f"X is a tensor, but {name} is a {type(values).__name__}: make both tensors.")
    if values.device != points.device:
        raise ValueError(f"X is on {points.device}, but {name} is on {values.device}: move one of them.")
    if values.dtype != points.dtype:
        raise ValueError(f"X is {_name(points)}, but {name} is {_name(values)}: convert one of them.")
    result = _tensor(values, name)
    if len(result) != len(points):
        raise ValueError(f"X has {len(points)} samples, but {name} has {len(result)}.")
    return result


def _tensor(values: Tensor, name: str) -> Tensor:
    if values.dtype not in (torch.float32, torch.float64):
        raise ValueError(f"{name} must be a tensor of float32 or float64. Got {_name(values)}.")
    if values.requires_grad:
        raise ValueError(f"{name} requires grad, but derivatives do not pass through: give {name}.detach().")
    if not bool(torch.isfinite(values).all()):
        raise ValueError(f"Input {name} contains NaN or infinity.")
    return values


def _check_columns(estimator: Any, points: Tensor) -> None:
    if points.shape[1] != estimator.n_features_in_:
        raise ValueError(
            f"X has {points.shape[1]} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input."
        )


def _name(values: Tensor) -> str:
    return str(values.dtype).removeprefix("torch.")
