"""Rough kernels as sums of Gaussians, against scikit-learn's own."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import Matern, RationalQuadratic

from nearfield import ExactGPRegressor
from nearfield.mixtures import matern, rational_quadratic

DISTANCES = np.geomspace(1e-3, 1e2, 3000)


def covariance(kernel):
    return kernel(np.zeros((1, 1)), DISTANCES[:, None])[0]


@pytest.mark.parametrize("accuracy", [1e-2, 1e-3, 1e-4])
@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5])
def test_matern_is_met_to_the_stated_accuracy(nu, accuracy):
    kernel = matern(nu, length_scale=2.0, variance=3.0, accuracy=accuracy)
    exact = 3.0 * Matern(2.0, nu=nu)(np.zeros((1, 1)), DISTANCES[:, None])[0]
    inside = DISTANCES <= 100 * 2.0
    assert np.abs(covariance(kernel) - exact)[inside].max() <= 1.05 * accuracy * 3.0
    np.testing.assert_allclose(kernel.variance, 3.0)


@pytest.mark.parametrize("alpha", [0.3, 1.0, 5.0])
def test_rational_quadratic_is_met_to_the_stated_accuracy(alpha):
    kernel = rational_quadratic(alpha, length_scale=0.7)
    exact = RationalQuadratic(0.7, alpha)(np.zeros((1, 1)), DISTANCES[:, None])[0]
    inside = DISTANCES <= 70
    assert np.abs(covariance(kernel) - exact)[inside].max() <= 1.05e-3


def test_rougher_kernels_need_more_gaussians():
    numbers = [matern(nu).n_scales for nu in (0.5, 1.5, 2.5)]
    assert numbers == sorted(numbers, reverse=True)
    assert numbers[0] <= 12


def test_an_estimator_takes_the_parameters():
    rng = np.random.RandomState(0)
    X = rng.uniform(0, 5, (80, 1))
    y = np.sin(3 * X[:, 0])
    kernel = matern(1.5, 0.8)
    model = ExactGPRegressor(**kernel.parameters(), n_scales=kernel.n_scales, noise_variance=0.01).fit(X, y)
    K = Matern(0.8, nu=1.5)(X) + 0.01 * np.eye(80)
    test = rng.uniform(0, 5, (20, 1))
    expected = y.mean() + Matern(0.8, nu=1.5)(test, X) @ np.linalg.solve(K, y - y.mean())
    np.testing.assert_allclose(model.predict(test), expected, atol=0.01)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: matern(0.0), "nu"),
        (lambda: rational_quadratic(0.0), "alpha"),
        (lambda: matern(1.5, -1.0), "length_scale"),
        (lambda: matern(1.5, 1.0, np.nan), "variance"),
        (lambda: matern(1.5, accuracy=0.0), "accuracy"),
    ],
)
def test_bad_arguments_are_named(call, name):
    with pytest.raises(ValueError, match=f"'{name}'"):
        call()
