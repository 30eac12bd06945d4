"""Answers of the exact process around a probe."""

import numpy as np
import pytest
from scipy.linalg import LinAlgError

from nearfield import metrics
from nearfield.kernels import Kernel
from nearfield.local import references
from nearfield.local.references import exactly, nothing_drawn
from nearfield.local.thinning import NeighbourhoodSample
from nearfield.solvers.kernel_space import KernelSpace


def neighbourhood(noise):
    """Many points within a fraction of a length scale, far from the probe, where single precision has few digits."""
    rng = np.random.RandomState(0)
    X = np.array([3e4, 0.0]) + 0.3 * rng.standard_normal((300, 2))
    return NeighbourhoodSample.of(X, rng.standard_normal((300, 1)), np.full(300, noise)), X[:5] + 0.1


@pytest.mark.parametrize("fails", [False, True])
def test_answers_are_those_of_a_dense_solve(fails, monkeypatch):
    kernel = Kernel.gaussian(1.0)
    sample, places = neighbourhood(0.1)
    if fails:

        def factorise(K, *given, made=references.factorise):
            if K.dtype == np.float32:
                raise LinAlgError("not positive definite")
            return made(K, *given)

        monkeypatch.setattr(references, "factorise", factorise)
    found, _ = exactly(kernel, sample, places, nothing_drawn, 1e-3)
    K, k = kernel(sample.X, sample.X) + 0.1 * np.eye(300), kernel(sample.X, places)
    limit = 1e-9 if fails else 1e-3
    np.testing.assert_allclose(found.mean, k.T @ np.linalg.solve(K, sample.y), atol=limit)
    np.testing.assert_allclose(found.variance, 1 - np.sum(k * np.linalg.solve(K, k), axis=0), atol=limit)


def test_rounding_is_a_small_share_of_the_tolerance():
    """Many points that say much of each other, and little noise: more digits are lost than the noise alone tells."""
    rng, kernel, noise, tolerance = np.random.RandomState(0), Kernel.gaussian(1.0), 1e-3, 1e-5
    X, places = rng.uniform(-3, 3, (1200, 2)), rng.uniform(-1, 1, (20, 2))
    y = np.sin(2 * X[:, :1]) + noise**0.5 * rng.standard_normal((1200, 1))
    sample = NeighbourhoodSample.of(X, y, np.full(1200, noise))
    found, _ = exactly(kernel, sample, places, nothing_drawn, tolerance)
    exact = KernelSpace.from_points(kernel, X, sample.y, sample.noise)
    expected, expected_variance = exact.mean_and_variance(places)
    kl = metrics.kl_divergence(found.mean[:, 0], found.variance + noise, expected[:, 0], expected_variance + noise)
    assert kl.mean() < 0.1 * tolerance
