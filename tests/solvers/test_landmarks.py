"""Landmarks: their features leave a positive semidefinite residual, and little of it where scales are long."""

import numpy as np
import pytest

from nearfield.kernels import Kernel
from nearfield.solvers.landmarks import Landmarks, earlier_by_correlation

KERNEL = Kernel(np.array([[0.3, 0.6, 0.5, 0.4, 0.8], [3.0, 2.0, 4.0, 3.0, 2.5]]), np.array([0.4, 1.5]))


def points(n=400, d=5, seed=0):
    return np.random.RandomState(seed).uniform(0, 1, (n, d))


@pytest.mark.parametrize("m", [1, 20, 150])
def test_what_landmarks_leave_is_a_covariance(m):
    X = points()
    landmarks = Landmarks.of(KERNEL, X, m, np.random.RandomState(0))
    F = landmarks.features(X)
    assert F.shape == (400, landmarks.n_features)
    assert landmarks.n_features <= m
    residual = np.linalg.eigvalsh(KERNEL(X, X) - F @ F.T)
    assert residual.min() > -1e-9


def test_more_landmarks_leave_less_and_nothing_at_themselves():
    X, left = points(), []
    for m in (10, 40, 160):
        landmarks = Landmarks.of(KERNEL, X, m, np.random.RandomState(0))
        left.append(KERNEL.variance - np.mean(np.sum(landmarks.features(X) ** 2, axis=1)))
    assert left[0] > 1.3 * left[1] > 1.7 * left[2] > 0
    part = landmarks.parts[0]
    np.testing.assert_allclose(np.sum(part.features(part.Z) ** 2, axis=1), part.kernel.variance, rtol=1e-6)


def test_components_with_long_scales_take_few_landmarks():
    landmarks = Landmarks.of(KERNEL, points(), 200, np.random.RandomState(0))
    short, long = (len(part.Z) for part in landmarks.parts)
    assert short > 2 * long > 0


def test_landmarks_beyond_what_there_is_to_tell_are_left_out():
    long = Kernel.gaussian(50.0)
    X = np.repeat(points(30), 5, axis=0)
    landmarks = Landmarks.of(long, X, 100, np.random.RandomState(0))
    assert landmarks.n_features < 30
    F = landmarks.features(X)
    np.testing.assert_allclose(F @ F.T, long(X, X), atol=1e-6)


def test_columns_that_are_alike_or_constant_are_no_trouble():
    X = points()
    X[:, 1], X[:, 2] = X[:, 0], 7.0
    F = Landmarks.of(KERNEL, X, 100, np.random.RandomState(0)).features(X)
    assert np.isfinite(F).all()
    assert np.linalg.eigvalsh(KERNEL(X, X) - F @ F.T).min() > -1e-9


def test_landmarks_can_be_made_again_from_their_places():
    X = points()
    landmarks = Landmarks.of(KERNEL, X, 60, np.random.RandomState(0))
    places = np.concatenate([part.Z for part in landmarks.parts])
    again = Landmarks.at(KERNEL, places, np.array([len(part.Z) for part in landmarks.parts]))
    np.testing.assert_array_equal(again.features(X), landmarks.features(X, n_jobs=2))


def test_the_most_telling_points_are_taken():
    """One that has the same place tells all; the nearest in the columns that count tell more than others."""
    X, noise = points(300), np.full(300, 0.1)
    X[7] = X[200]
    F = Landmarks.of(KERNEL, X, 20, np.random.RandomState(0)).features(X)
    (near,) = earlier_by_correlation(KERNEL, X, F, noise, [np.array([200])], [np.arange(200)], 10, 1)
    assert 7 in near
    left = KERNEL(X, X) - F @ F.T
    told = left[200, :200] ** 2 / (np.diagonal(left)[:200] + 0.1)
    assert set(near) == set(np.argsort(-told)[:10])
