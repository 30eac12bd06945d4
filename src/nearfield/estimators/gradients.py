"""Gradients: which way a prediction rises, how steeply, and how sure that is."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..common import memory
from ..common.arrays import side_by_side
from ..common.derivatives import along_columns
from ..common.types import Floats
from .by_target import by_target
from .twins import array_of, as_given, twin_of

PLACES_AT_ONCE = 1 << 13


class Sloping:
    """Gradients of a regressor.

    A subclass gives `_gradients(X, with_covariance)`.
    """

    _single_target: bool

    @by_target(side_by_side)
    def predict_gradient(self, X: Any, return_std: bool = False) -> Any:
        """Gradient of the mean, and standard deviations of the gradient of the function on request.

        It is the gradient of the mean that `predict` gives, blending included, per unit of the columns of X; on the
        sphere per degree. With a drift it is that of drift and process together, and 0 along columns of categories.

        Parameters
        ----------
        X : array of shape (m, n_features)
        return_std : bool, default=False

        Returns
        -------
        gradient : ndarray of shape (m, n_features) or (m, n_features, n_targets)
        std : ndarray of the same shape, if `return_std`
        """
        twin = twin_of(self)
        if twin is not None:
            return as_given(twin.predict_gradient(array_of(X), return_std), X)
        self._need_arrays("predict_gradient")  # type: ignore[attr-defined]
        points: Floats = self._validate_test(X)  # type: ignore[attr-defined]
        m, d, k = len(points), points.shape[1], len(self.y_mean_)  # type: ignore[attr-defined]
        gradient, variance = np.empty((m, d, k)), np.empty((m, d))
        for chunk in memory.batches(m, PLACES_AT_ONCE):
            gradient[chunk], variance[chunk] = self._chained(points[chunk], bool(return_std))
        gradient = self._finite(gradient)  # type: ignore[attr-defined]
        std = np.sqrt(np.maximum(variance, 0.0))
        if self._single_target:
            return as_given((gradient[:, :, 0], std) if return_std else gradient[:, :, 0], X)
        return as_given((gradient, np.repeat(std[:, :, None], k, axis=2)) if return_std else gradient, X)

    def _chained(self, X: Floats, with_variance: bool) -> tuple[Floats, Floats]:
        """Gradients (m, d, k) by the columns of X, and variances (m, d), from those by what the kernel sees."""
        inner = self._inner(X)  # type: ignore[attr-defined]
        gradient, covariance = self._gradients(inner, with_variance)
        variance = np.zeros(X.shape)
        if inner is not X:
            turn = np.stack(along_columns(self._inner, X), axis=2)  # type: ignore[attr-defined]
            gradient = np.einsum("mid,mik->mdk", turn, gradient)
            if covariance is not None:
                variance = np.einsum("mid,mij,mjd->md", turn, covariance, turn)
        elif covariance is not None:
            variance = np.einsum("mdd->md", covariance)
        gradient, variance = self._with_drift_slopes(X, gradient, variance)
        factors = self._factors_of_function(X)
        return gradient, variance if factors is None else variance * factors[:, None] ** 2

    def _with_drift_slopes(self, X: Floats, gradient: Floats, variance: Floats) -> tuple[Floats, Floats]:
        """Gradients (m, d, k) and variances (m, d) with the drift, from those of the process for all k + p targets."""
        slopes: Floats | None = self._slopes_of_drift(X)  # type: ignore[attr-defined]
        sums, trend = self._drift_sums(), self._trend  # type: ignore[attr-defined]
        if slopes is None or sums is None:
            return gradient, variance
        unknown = slopes - gradient[:, :, -sums.size :]
        gradient = gradient[:, :, : -sums.size] + unknown @ sums.mean + slopes @ trend
        return gradient, variance + np.sum((unknown @ sums.root) ** 2, axis=2)

    def _factors_of_function(self, X: Floats) -> Floats | None:  # noqa: ARG002
        """What the function's deviations from its mean are multiplied by at places (m, d); None is 1."""
        return None

    def _gradients(self, X: Floats, with_covariance: bool) -> tuple[Floats, Floats | None]:
        """Gradients (m, d, k) of the mean at points (m, d) as the kernel sees them, and covariances (m, d, d).

        With a drift, the process without it, and the drift columns as further targets: (m, d, k + p).
        """
        raise NotImplementedError
