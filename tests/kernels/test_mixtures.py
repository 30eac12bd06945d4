"""Rough kernels as sums of Gaussians, against scikit-learn's own."""

import numpy as np
import pytest
from scipy import integrate, stats
from sklearn.gaussian_process.kernels import Matern, RationalQuadratic

from nearfield import ExactGPRegressor, FeatureGPRegressor, FourierFeatures, LocalGPRegressor
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


@pytest.mark.parametrize("nu", [29.0, 31.0, 60.0, 100.0, 999.0, 1001.0, 1e6])
def test_matern_is_met_where_bessel_functions_overflow(nu):
    distances = np.array([1e-3, 0.1, 0.5, 1.0, 2.0, 4.0])
    found = matern(nu)(np.zeros((1, 1)), distances[:, None])[0]
    squares = stats.gamma(nu, scale=1 / nu)  # of the length scale
    ends = squares.ppf([1e-14, 1 - 1e-14])
    exact = [integrate.quad(lambda s, r=r: squares.pdf(s) * np.exp(-0.5 * r**2 / s), *ends)[0] for r in distances]
    np.testing.assert_allclose(found, exact, rtol=0, atol=1e-3)


@pytest.mark.parametrize("make", [matern, rational_quadratic])
def test_the_limit_is_the_gaussian_kernel(make):
    kernel = make(np.inf, 0.7, 2.0)
    np.testing.assert_allclose(covariance(kernel), 2.0 * np.exp(-0.5 * (DISTANCES / 0.7) ** 2), atol=1e-100)
    assert make(1e300).n_scales == 1
    assert np.abs(covariance(make(1000)) - np.exp(-0.5 * DISTANCES**2)).max() <= 1e-3


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
    parameters = {**matern(1.5, 0.8).parameters(), "noise_variance": 0.01}
    model = ExactGPRegressor(**parameters).fit(X, y)
    K = Matern(0.8, nu=1.5)(X) + 0.01 * np.eye(80)
    test = rng.uniform(0, 5, (20, 1))
    expected = y.mean() + Matern(0.8, nu=1.5)(test, X) @ np.linalg.solve(K, y - y.mean())
    np.testing.assert_allclose(model.predict(test), expected, atol=0.01)
    by_features = FeatureGPRegressor(FourierFeatures(300, random_state=0), **parameters, random_state=0).fit(X, y)
    np.testing.assert_allclose(by_features.predict(test), expected, atol=0.1)
    np.testing.assert_allclose(LocalGPRegressor(**parameters).fit(X, y).predict(test), expected, atol=0.01)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: matern(0.0), "nu"),
        (lambda: rational_quadratic(0.0), "alpha"),
        (lambda: matern("rough"), "nu"),
        (lambda: rational_quadratic(np.nan), "alpha"),
        (lambda: matern(1.5, -1.0), "length_scale"),
        (lambda: matern(1.5, np.inf), "length_scale"),
        (lambda: matern(1.5, [1.0, 2.0]), "length_scale"),
        (lambda: matern(1.5, 1.0, np.nan), "variance"),
        (lambda: matern(1.5, accuracy=0.0), "accuracy"),
    ],
)
def test_bad_arguments_are_named(call, name):
    with pytest.raises(ValueError, match=f"'{name}'"):
        call()
