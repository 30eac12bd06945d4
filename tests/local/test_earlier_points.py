"""What some cells say of more earlier points, beside what these really change."""

import numpy as np
import pytest

from nearfield.kernels import Kernel
from nearfield.local import global_part
from nearfield.local.global_part import fit_global_part, split
from nearfield.local.neighbourhoods import TrainingSet

KERNEL = Kernel(np.array([[0.7], [6.0]]), np.array([0.5, 2.0]))
NOISE, WIDTH, N = 0.1, 8.0, 3000


@pytest.fixture(scope="module")
def data():
    rng = np.random.RandomState(0)
    X = rng.uniform(0, WIDTH, (N, 2))
    y = np.sin(X[:, 0]) + np.cos(2 * X[:, 1]) + NOISE**0.5 * rng.standard_normal(N)
    return TrainingSet.of(X, y[:, None], np.full(N, NOISE))


def assembled(data, n_earlier):
    short, features = split(KERNEL, data.X, 1e-6)
    return global_part._assembled(features, short, data, n_earlier, 3, 1, 1e-6, np.random.RandomState(0))


def shortfalls(data, n_earlier, n=3, single=False):
    part = assembled(data, n_earlier)
    return [global_part._shortfall(part, data, 3, np.random.RandomState(i), 1, single) for i in range(n)]


def changed(data, n_earlier):
    """KL per place between what the long scales say with so many earlier points and with twice as many."""
    fewer, more = assembled(data, n_earlier), assembled(data, 2 * n_earlier)
    rows = fewer.rows(global_part._some_places(fewer.features, data.X, np.random.RandomState(9), 200))
    answers = []
    for part in (fewer, more):
        covariance = np.linalg.inv(part.gram + np.eye(part.n_components))
        variance = np.sum((rows @ covariance) * rows, axis=1) + part.kernel.variance + NOISE
        answers.append((rows @ part.coefficients[:, 0], variance))
    (m, v), (M, V) = answers
    return np.mean(0.5 * ((m - M) ** 2 / V + v / V - 1 - np.log(v / V)))


@pytest.mark.parametrize("n_earlier", [12, 24, 48])
def test_they_tell_what_is_changed(data, n_earlier):
    assert 0.2 < np.mean(shortfalls(data, n_earlier)) / changed(data, n_earlier) < 5.0


def test_more_points_lack_less(data):
    few, more = (np.mean(shortfalls(data, n)) for n in (48, 192))
    assert few > 3 * more


def test_single_precision_tells_the_same(data):
    assert shortfalls(data, 24, 1, single=True) == pytest.approx(shortfalls(data, 24, 1), rel=1e-2)


def test_as_many_are_taken_as_the_tolerance_asks_for(data, monkeypatch):
    monkeypatch.setattr(global_part, "N_EARLIER", 6)
    monkeypatch.setattr(global_part, "MOST_EARLIER", 96)
    taken = [
        fit_global_part(KERNEL, data, tolerance, np.random.RandomState(0), 1).n_earlier for tolerance in (1e2, 3e-3)
    ]
    assert taken[0] == 6
    assert 6 < taken[1] <= 96
