"""What the feature maps share as scikit-learn transformers: validation, scaling, names. No mathematics of their own."""

from __future__ import annotations

from contextlib import suppress
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from ..common import memory
from ..common.arrays import Array, in_units, is_tensor, like, on_host
from ..common.fitting import all_or_nothing
from ..common.validation import check_length_scale, check_positive, describe, validated

FLOATS = (np.float64, np.float32)


class FeatureMap(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A map sampled in `fit` and applied in `transform`.

    A subclass gives `_sample(X)`, which returns the immutable parameters kept as `map_`, and `_apply(X)`.
    """

    map_: Any

    @all_or_nothing
    def fit(self, X: ArrayLike, y: object = None) -> Self:  # noqa: ARG002
        """Sample the map.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Training points: their number of columns matters, and for maps that adapt to the data their values.
        y : ignored

        Returns
        -------
        self
        """
        points = self._points(X, reset=True)
        n_components = getattr(self, "n_components", 0)
        if isinstance(n_components, Integral):  # else it is refused below
            self._require(int(n_components), points.shape[1] + 2, f"A map to {n_components} features")
        self._fit(points)
        return self

    def transform(self, X: ArrayLike) -> Array:
        """Features of `X`.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)

        Returns
        -------
        features : ndarray of shape (n_samples, n_components), float32 if X is, else float64
        """
        check_is_fitted(self, "map_")
        points = self._points(X, reset=False)
        if not is_tensor(points):
            D = self._n_features_out
            self._require(len(points), 2 * D, f"{D} features of {len(points)} points")
        return self._transform(points)

    @staticmethod
    def _require(n: int, width: int, what: str) -> None:
        if n * width > 1 << 20:  # to ask what is free takes longer than small work
            memory.require(8.0 * n * width, what, "Fewer features, or fewer points at a time, need less.")

    def _points(self, X: ArrayLike, reset: bool) -> Array:
        if is_tensor(X):
            from ..common import tensor_checks

            return tensor_checks.points(self, X, reset)
        return validated(self, X, dtype=FLOATS, reset=reset)

    def _fit(self, X: NDArray[Any]) -> None:
        self.map_ = self._sample(X)

    def _transform(self, X: Array) -> Array:
        return self._apply(X)

    def _sample(self, X: NDArray[Any]) -> Any:
        raise NotImplementedError

    def _apply(self, X: Array) -> Array:
        raise NotImplementedError

    @property
    def _n_features_out(self) -> int:
        return int(self.map_.n_components)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class GaussianKernelFeatures(FeatureMap):
    """A map of the Gaussian kernel: the subclass sees points divided by the length scale, and unit variance."""

    length_scale: Any
    variance: float

    def _fit(self, X: NDArray[Any]) -> None:
        self._rescale(X.shape[1])
        super()._fit(on_host(self._scaled(X)))

    def _rescale(self, n_columns: int) -> None:
        """Take over `length_scale` and `variance`; a map once sampled stays as it is."""
        self._scale = check_length_scale(self, n_columns)
        self._amplitude = check_positive(self, "variance") ** 0.5

    def _transform(self, X: Array) -> Array:
        features = self._apply(self._scaled(X))
        features *= self._amplitude
        return features

    def _scaled(self, X: Array) -> Array:
        return in_units(X, self._scale)


class ShiftedFeatures(GaussianKernelFeatures):
    """A map that is good near its centre: points are also shifted by `center_`."""

    center: Any

    def _fit(self, X: NDArray[Any]) -> None:
        self.center_ = self._check_center(X)
        super()._fit(X)

    def _scaled(self, X: Array) -> Array:
        return super()._scaled(X - like(self.center_, X))

    def _check_center(self, X: NDArray[Any]) -> NDArray[np.float64]:
        d = X.shape[1]
        if self.center is None:
            return np.zeros(d)
        if isinstance(self.center, str):
            if self.center == "mean":
                return np.asarray(on_host(X).mean(axis=0, dtype=np.float64))
        else:
            with suppress(TypeError, ValueError):
                center = np.array(self.center, dtype=np.float64)
                if center.shape == (d,) and np.all(np.isfinite(center)):
                    return center
        raise ValueError(f"{describe(self, 'center')} must be 'mean', None or {d} finite numbers. Got {self.center!r}.")
