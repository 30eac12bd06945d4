"""Draws, areas and gradients of a process of one feature map: all of them are of a linear model."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..common.arrays import column_squares
from ..common.derivatives import along_columns
from ..common.types import Floats
from ..features.gradients import is_differentiable, length_scale_gradients
from ..hyperparameters.likelihood import feature_log_likelihood
from ..solvers.feature_space import FeatureSpace
from .area_groups import Groups
from .joint_noise import LearntJointNoise
from .learnt import refuse_unknown
from .samples import Functions


class FeatureFunctions(LearntJointNoise):
    """What a regressor with features says of its functions; a subclass makes the features, `_rows`."""

    feature_map: Any
    feature_map_: Any
    _width: int  # number of features

    def _functions_of(self, seed: int, functions: range, exact: bool) -> Functions:  # noqa: ARG002
        k, posterior = len(self.y_mean_), self._posterior
        assert isinstance(posterior, FeatureSpace)
        # Each function has coefficients of its own.
        drawn = [np.random.default_rng([seed, i]).standard_normal(self._width) for i in functions]
        own = np.column_stack(drawn)

        def values(points: Floats) -> tuple[Floats, Floats]:
            answers = np.empty((len(points), len(functions))), np.empty((len(points), k))
            for chunk in self._chunks(points):
                rows = self._rows(points[chunk])
                answers[1][chunk] = posterior.mean(rows)[:, :k]
                answers[0][chunk] = posterior.factor.whiten(rows).T @ own
            answers[0][...] += np.tile(answers[1], len(functions) // k)
            return answers

        return values

    def _seen_by_functions(self, X: Floats) -> Floats:
        points: Floats = self._wide(X)
        return points

    def _variances_of_sums(self, X: Floats, groups: Groups) -> Floats | None:
        points = self._wide(X)
        rows = np.zeros((len(groups.labels), self._width))
        for chunk in self._chunks(points):
            rows += groups.sums(self._rows(points[chunk]).T, chunk)
        assert isinstance(self._posterior, FeatureSpace)
        variances: Floats = column_squares(self._posterior.factor.whiten(np.asfortranarray(rows.T)))
        return variances

    def _chained(self, X: Floats, with_variance: bool) -> tuple[Floats, Floats]:
        drift = self._slopes_of_drift(X)
        if drift is None or self._trend is None:
            return super()._chained(X, with_variance)
        q, k, variance = self._posterior, len(self.y_mean_), np.zeros(X.shape)
        assert isinstance(q, FeatureSpace)
        slopes = along_columns(lambda points: self._complex_rows(self._inner(points)), X)
        slopes = [np.concatenate([each, drift[:, j].T]) for j, each in enumerate(slopes)]
        gradient = np.stack([each.T @ q.coefficients[:, :k] for each in slopes], axis=1) + drift @ self._trend
        if with_variance:
            variance = np.stack([column_squares(q.factor.whiten(each)) for each in slopes], axis=1)
        return gradient, variance

    def _gradient_of_likelihood(self) -> Floats:
        """Derivatives of the log likelihood in the logarithms of length scales, variances and noise variance."""
        what = "log_marginal_likelihood(eval_gradient=True)"
        refuse_unknown(self, what, "groups", "drift")
        X, y, noise, _ = self._rows_of_process()
        if not has_scales(self.feature_map):
            rows, directions = self._rows(X), []
        elif not is_differentiable(self.feature_map) or self.kernel_.family != "gaussian":
            raise ValueError(
                f"{what} is for Gaussian kernels by TaylorFeatures, or by FourierFeatures that are not structured: "
                "other maps have no derivatives in the length scale."
            )
        else:
            maps = self.feature_map_ if isinstance(self.feature_map_, list) else [self.feature_map_]
            parts = [each.transform(X).T for each in maps]
            rows, (J, q) = np.concatenate(parts), self.kernel_.length_scales.shape
            starts = np.cumsum([0, *map(len, parts)])
            directions = [np.zeros_like(rows) for _ in range(J * q + J)]
            for j, (each, part) in enumerate(zip(maps, parts, strict=True)):
                own = slice(starts[j], starts[j + 1])
                slopes = length_scale_gradients(each.map_, each._scaled(X)) * each.variance**0.5
                for c, slope in enumerate(slopes if q > 1 else slopes.sum(axis=0)[None]):
                    directions[j * q + c][own] = slope
                directions[J * q + j][own] = 0.5 * part  # features are in proportion to the root of the variance
        gradient = feature_log_likelihood(rows, directions, self.noise_variance_, y, noise / self.noise_variance_)[1]
        # Behind the directions are the variance of all features and that of the noise.
        return self._as_users_see(np.delete(gradient, -2)) if directions else gradient

    def _gradients(self, X: Floats, with_covariance: bool) -> tuple[Floats, Floats | None]:
        q, (m, d), k = self._posterior, X.shape, len(self.y_mean_)
        assert isinstance(q, FeatureSpace)
        gradient, covariance = np.empty((m, d, k)), np.zeros((m, d, d))
        for chunk in self._chunks(X):
            slopes = along_columns(self._complex_rows, X[chunk])
            gradient[chunk] = np.stack([each.T @ q.coefficients[:, :k] for each in slopes], axis=1)
            if with_covariance:
                halves = np.stack([q.factor.whiten(each) for each in slopes])
                covariance[chunk] = np.einsum("anm,bnm->mab", halves, halves)
        return gradient, covariance if with_covariance else None

    def _complex_rows(self, X: Floats) -> Floats:
        """Features (D, m) of points of complex numbers (m, d), which maps of this package take."""
        maps = self.feature_map_ if isinstance(self.feature_map_, list) else [self.feature_map_]
        if not has_scales(self.feature_map) or not all(hasattr(each, "_scaled") for each in maps):
            raise ValueError(
                f"predict_gradient needs a feature map of this package, and {type(self.feature_map).__name__} is none."
            )
        return np.concatenate([(each._apply(each._scaled(X)) * each.variance**0.5).T for each in maps])

    def _bytes_per_function(self) -> float:
        return 16.0 * self._n_rows()

    def _draws_by_rule(self, X: Any) -> bool:  # noqa: ARG002
        return True


def has_scales(feature_map: Any) -> bool:
    """Whether a map has parameters for a length scale and a variance, which can then be learnt."""
    parameters = feature_map.get_params()
    return "length_scale" in parameters and "variance" in parameters
