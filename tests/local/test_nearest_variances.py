"""Variances by the nearest points, many places at once, against one Gaussian process for each."""

import numpy as np
import pytest

from nearfield.kernels import Kernel
from nearfield.local.nearest_variances import nearest_variances
from nearfield.local.neighbourhoods import TrainingSet
from nearfield.local.plan import Plan
from nearfield.solvers.kernel_space import KernelSpace

RNG = np.random.RandomState(0)
X = RNG.uniform(0, 2, (400, 4))
KERNEL = Kernel(np.array([[0.4, 0.5, 1.0, 2.0], [2.0, 2.0, 3.0, 1.0]]), np.array([1.0, 2.0]))
PLACES = RNG.uniform(0, 2, (60, 4))


def by_one(data, places, count):
    """One process for each place."""
    result = []
    for place, rows in zip(places, data.neighbourhoods(places, None, count, KERNEL), strict=True):
        model = KernelSpace.from_points(KERNEL, data.X[rows], data.y[rows], data.noise[rows])
        result.append(model.mean_and_variance(place[None])[1][0])
    return np.array(result)


@pytest.mark.parametrize(("noise", "precision"), [(0.1, 1e-5), (1e-4, 1e-9)])
@pytest.mark.parametrize("count", [1, 37, 400, 900])
def test_they_equal_those_of_single_processes(noise, precision, count):
    data = TrainingSet.of(X, X[:, :1], np.full(len(X), noise) * np.random.RandomState(1).uniform(1, 2, len(X)))
    found = nearest_variances(Plan(KERNEL, None, None, count=count), data, PLACES, 2)
    np.testing.assert_allclose(found, by_one(data, PLACES, count), atol=precision * (KERNEL.variance + noise))


def test_a_place_gets_the_same_whatever_others_there_are():
    data = TrainingSet.of(X, X[:, :1], np.full(len(X), 0.1))
    plan = Plan(KERNEL, None, None, count=50)
    together = nearest_variances(plan, data, PLACES, 1)
    alone = [nearest_variances(plan, data, place[None], 1)[0] for place in PLACES]
    np.testing.assert_array_equal(together, alone)


def test_coinciding_points_without_noise_to_speak_of():
    twice = np.concatenate([X[:50], X[:50]])
    data = TrainingSet.of(twice, twice[:, :1], np.full(100, 1e-9))
    found = nearest_variances(Plan(KERNEL, None, None, count=60), data, np.concatenate([X[:5], X[100:110]]), 1)
    assert np.all(found >= 0)
    assert np.all(found[:5] <= 1e-6)
    assert np.all(found[5:] > 1e-3)
