"""Rounding: what it costs is bounded, and where it costs more than that, it is said."""

import warnings

import numpy as np
import pytest

import nearfield as nf
from nearfield.solvers import linalg
from nearfield.solvers.feature_space import FeatureSpace
from nearfield.solvers.statistics import accumulate


@pytest.mark.parametrize("noise", [1e-14, 1e-10, 1e-6, 1e-2, 1.0, 1e4])
@pytest.mark.parametrize("distance", [0.0, 1e-6, 1e-3, 0.1, 1.0])
def test_variance_beside_a_point(noise, distance):
    """In kernel space a variance is a difference, good to a few roundings of the prior variance.

    With the second sample far away, the variance beside the first is `v (s + v (1 - k^2)) / (v + s)`.
    """
    v = 3.0
    gp = nf.ExactGPRegressor(length_scale=1.0, signal_variance=v, noise_variance=noise)
    gp.fit([[0.0], [1e6]], [1.0, -1.0])
    _, std = gp.predict([[distance]], return_std=True)
    expected = v * (noise - v * np.expm1(-(distance**2))) / (v + noise)
    assert std[0] ** 2 == pytest.approx(expected, abs=4 * np.finfo(float).eps * v, rel=1e-14)


@pytest.mark.parametrize("precision", [1e-8, 1.0, 1e8, 1e15, 1e25])
def test_variance_of_features_has_all_its_digits(precision):
    """In feature space a variance is a sum of squares: nothing cancels, however small it gets."""
    phi = np.full((1, 10), 0.7)
    posterior = FeatureSpace.from_statistics(accumulate(phi, np.zeros((10, 1)), np.full(10, precision)))
    expected = 0.7**2 / (1 + 10 * precision * 0.7**2)
    assert posterior.mean_and_variance(phi[:, :1])[1][0] == pytest.approx(expected, rel=1e-13)


def test_what_is_added_to_a_diagonal_is_said():
    """A function without noise at points closer than their digits tell apart: the answer comes with the number."""
    X = np.linspace(0, 1, 60)[:, None]
    y = np.sin(9 * X[:, 0])
    gp = nf.ExactGPRegressor(length_scale=0.5, signal_variance=1.0, noise_variance=0.0)
    with pytest.warns(RuntimeWarning, match=r"singular to working precision; 1\.0e-1\d was added") as caught:
        gp.fit(X, y)
    assert caught[0].filename == __file__  # at the line of the caller
    np.testing.assert_allclose(gp.predict(X), y, atol=1e-4)


def test_the_least_that_helps_is_added():
    rng = np.random.default_rng(0)
    for power in (-13, -11, -9, -7):
        root = rng.standard_normal((30, 29))
        A = root @ root.T
        A /= np.mean(np.diagonal(A))
        A -= 10.0**power * np.eye(30)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            L, jitter = linalg.cholesky(np.asfortranarray(A.copy()))
        assert 10.0**power < jitter < 200 * 10.0**power
        np.testing.assert_allclose(np.tril(L) @ np.tril(L).T, A + jitter * np.eye(30), atol=1e-12)


def test_what_is_beyond_help_is_refused():
    with pytest.raises(np.linalg.LinAlgError, match="The covariance matrix is not positive definite"):
        linalg.cholesky(np.asfortranarray(-np.eye(3) + 2 * np.diag([1.0, 1.0, 0.0])))
    with pytest.raises(np.linalg.LinAlgError, match="not finite"):
        linalg.cholesky(np.full((3, 3), np.nan, order="F"))


@pytest.mark.parametrize(("columns", "degree"), [(1, 170), (1, 171), (1, 400), (2, 80), (3, 30)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_factorials_and_powers_beyond_floats(columns, degree, dtype):
    """171! is no double, and 40 to the power of 400 neither; the features they make are, and add up to the kernel."""
    lengths = np.array([0.0, 1e-3, 1.0, 3.0, 8.0, 40.0, 1e6])
    X = (lengths[:, None] / np.sqrt(columns) * np.ones(columns)).astype(dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        features = nf.TaylorFeatures(degree=degree, center=None).fit(X).transform(X).astype(np.float64)
    assert np.all(np.isfinite(features))
    K = features @ features.T
    assert K.max() <= 1 + 1e-5
    known = lengths**2 < degree / 2  # there the series has converged
    exact = np.exp(-0.5 * (lengths[known, None] - lengths[known]) ** 2)
    np.testing.assert_allclose(K[np.ix_(known, known)], exact, atol=1e-12 if dtype is np.float64 else 1e-4)


@pytest.mark.parametrize("shift", [0.0, 1e3, 1e6, 1e9])
def test_far_from_the_origin(shift):
    """Maps have coordinates in the millions: digits are lost as the coordinates lose them, and no more."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 10, size=(200, 2))
    y = np.sin(X[:, 0])
    given = {"length_scale": 1.0, "signal_variance": 1.0, "noise_variance": 0.01}
    for gp in (nf.ExactGPRegressor(**given), nf.LocalGPRegressor(**given, n_scales=1, random_state=0)):
        near = gp.fit(X[:150], y[:150]).predict(X[150:])
        far = gp.fit(X[:150] + shift, y[:150]).predict(X[150:] + shift)
        rounding = 1e3 * np.finfo(float).eps * (1 + shift)
        # Cells of the local models begin elsewhere, which the tolerance allows for.
        slack = 0.0 if isinstance(gp, nf.ExactGPRegressor) else 0.02
        np.testing.assert_allclose(far, near, atol=rounding + slack, rtol=0)
