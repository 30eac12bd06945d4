"""Whitening block by block against the dense inverse."""

import warnings
from itertools import pairwise

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from nearfield.kernels import Kernel
from nearfield.local.whitening import make_blocks, whitened

KERNEL = Kernel(np.array([[0.7]]), np.array([1.3]))


def points(n=300, d=2, width=6.0, seed=0):
    return np.random.RandomState(seed).uniform(0, width, (n, d))


def noise_of(X, seed=1):
    return np.random.RandomState(seed).uniform(0.02, 0.5, len(X))


def targets_of(X):
    return np.column_stack([np.sin(X[:, 0]), np.cos(X).sum(axis=1), np.ones(len(X))])


def blocks_of(X, cell_points=16, n_earlier=32, seed=0, n_before=0, n_jobs=1):
    return make_blocks(X, cell_points, n_earlier, np.random.RandomState(seed), n_jobs, n_before)


def sums(X, noise, blocks, kernel=KERNEL, n_jobs=1):
    T = targets_of(X)
    return whitened(kernel, X, noise, blocks, lambda rows: T[rows], n_jobs)


def dense(X, noise, kernel=KERNEL):
    C, T = kernel(X, X) + np.diag(noise), targets_of(X)
    return T.T @ np.linalg.solve(C, T), np.linalg.slogdet(C)[1]


# ---- blocks --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "d"), [(1, 2), (2, 1), (7, 1), (300, 2), (1000, 3)])
@pytest.mark.parametrize("cell_points", [2, 3, 16, 64])
def test_every_point_is_in_exactly_one_cell_and_cells_are_small(n, d, cell_points):
    blocks = blocks_of(points(n, d), cell_points)
    own = np.concatenate([block.own for block in blocks])
    np.testing.assert_array_equal(np.sort(own), np.arange(n))
    assert max(len(block.own) for block in blocks) <= cell_points
    assert min(len(block.own) for block in blocks) >= 1


@pytest.mark.parametrize("n_earlier", [1, 5, 40, 200, 10_000])
@pytest.mark.parametrize("n_before", [0, 1, 60])
def test_earlier_points_are_earlier_and_the_nearest_of_those(n_earlier, n_before):
    X = points(400)
    blocks = blocks_of(X, 8, n_earlier, n_before=n_before)
    earlier = list(range(n_before))
    for block in blocks:
        assert len(block.earlier) == min(n_earlier, len(earlier))
        assert len(np.unique(block.earlier)) == len(block.earlier)
        assert np.isin(block.earlier, earlier).all()
        middle = 0.5 * (X[block.own].min(axis=0) + X[block.own].max(axis=0))
        nearest = np.sort(cdist(middle[None], X[earlier])[0])[:n_earlier]
        np.testing.assert_allclose(np.sort(cdist(middle[None], X[block.earlier])[0]), nearest, atol=1e-12)
        earlier.extend(block.own)
    assert sorted(earlier) == list(range(len(X)))


def test_the_order_is_random_and_follows_the_seed():
    X = points()
    first, again, other = (np.concatenate([b.own for b in blocks_of(X, seed=s)]) for s in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


# ---- sums ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "d"), [(300, 1), (300, 2), (250, 4)])
@pytest.mark.parametrize("kernel", [KERNEL, Kernel(np.array([[0.5], [2.0]]), np.array([1.0, 0.4]))])
def test_with_all_earlier_points_sums_are_exact(n, d, kernel):
    X = points(n, d)
    noise = noise_of(X)
    gram, log_determinant = sums(X, noise, blocks_of(X, 16, n), kernel)
    expected, expected_log_determinant = dense(X, noise, kernel)
    np.testing.assert_allclose(gram, expected, rtol=1e-9, atol=1e-9)
    assert log_determinant == pytest.approx(expected_log_determinant, abs=1e-8)


def test_with_one_length_scale_per_column():
    X = points()
    noise, kernel = noise_of(X), Kernel(np.array([[0.5, 2.0]]), np.array([1.0]))
    gram, log_determinant = sums(X, noise, blocks_of(X, 16, len(X)), kernel)
    np.testing.assert_allclose(gram, dense(X, noise, kernel)[0], rtol=1e-9)
    assert log_determinant == pytest.approx(dense(X, noise, kernel)[1], abs=1e-8)


def test_with_few_earlier_points_sums_are_close_and_closer_with_more():
    """Some 25 points within a length scale of each."""
    X = points(600)
    noise = noise_of(X)
    expected, expected_log_determinant = dense(X, noise)
    for n_earlier, of_trace, per_point in ((24, 0.1, 0.05), (100, 0.01, 0.003), (200, 0.002, 0.0005)):
        gram, log_determinant = sums(X, noise, blocks_of(X, 16, n_earlier))
        assert np.abs(gram - expected).max() <= of_trace * np.trace(expected)
        assert abs(log_determinant - expected_log_determinant) <= per_point * len(X)


def test_leaving_out_earlier_points_makes_the_determinant_larger():
    """Each factor is a variance given fewer points than there are."""
    X = points(400)
    noise = noise_of(X)
    values = [sums(X, noise, blocks_of(X, 8, n_earlier))[1] for n_earlier in (1, 4, 16, 64)]
    assert all(a > b for a, b in pairwise(values))
    assert values[-1] >= dense(X, noise)[1] - 1e-9


def test_points_that_came_before_are_conditioned_on_but_not_counted():
    X = points(350)
    noise, n_before = noise_of(X), 120
    gram, log_determinant = sums(X, noise, blocks_of(X, 16, len(X), n_before=n_before))
    (all_, log_all), (before, log_before) = dense(X, noise), dense(X[:n_before], noise[:n_before])
    np.testing.assert_allclose(gram, all_ - before, rtol=1e-8, atol=1e-8)
    assert log_determinant == pytest.approx(log_all - log_before, abs=1e-8)


def test_a_single_cell_is_the_dense_solution():
    X = points(20)
    noise = noise_of(X)
    (block,) = blocks_of(X, 64, 10)
    assert len(block.earlier) == 0
    gram, log_determinant = sums(X, noise, [block])
    np.testing.assert_allclose(gram, dense(X, noise)[0], rtol=1e-10)
    assert log_determinant == pytest.approx(dense(X, noise)[1], abs=1e-9)


@pytest.mark.parametrize("n_places", [1, 3, 150])
def test_points_may_be_at_the_same_places(n_places):
    X = np.repeat(points(n_places), 300 // n_places, axis=0)
    noise = noise_of(X)
    blocks = blocks_of(X, 16, len(X))
    np.testing.assert_array_equal(np.sort(np.concatenate([b.own for b in blocks])), np.arange(len(X)))
    gram, log_determinant = sums(X, noise, blocks)
    np.testing.assert_allclose(gram, dense(X, noise)[0], rtol=1e-8)
    assert log_determinant == pytest.approx(dense(X, noise)[1], abs=1e-7)


@pytest.mark.parametrize("shape", [lambda X: np.column_stack([X[:, 0], 0 * X[:, 0]]), lambda X: X * [1.0, 1e-9]])
def test_points_may_be_on_a_line(shape):
    X = shape(points())
    noise = noise_of(X)
    gram, _ = sums(X, noise, blocks_of(X, 16, len(X)))
    np.testing.assert_allclose(gram, dense(X, noise)[0], rtol=1e-8)


def test_threads_change_nothing():
    X = points(600)
    noise = noise_of(X)
    alone, both = (blocks_of(X, n_jobs=n_jobs) for n_jobs in (1, 2))
    for a, b in zip(alone, both, strict=True):
        np.testing.assert_array_equal(a.own, b.own)
        np.testing.assert_array_equal(a.earlier, b.earlier)
    (gram, log_determinant), (gram_2, log_determinant_2) = (sums(X, noise, alone, n_jobs=n_jobs) for n_jobs in (1, 2))
    np.testing.assert_array_equal(gram, gram_2)
    assert log_determinant == log_determinant_2


def test_cells_that_single_precision_cannot_factorise_are_in_double():
    X = points(200, width=0.5)
    (block,) = blocks_of(X, cell_points=200)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nothing is added to the diagonal
        found = block.factor(KERNEL, X, np.full(200, 1e-7), single=True).lower
    np.testing.assert_array_equal(found, block.factor(KERNEL, X, np.full(200, 1e-7)).lower)
    assert block.factor(KERNEL, X, np.full(200, 0.1), single=True).lower.dtype == np.float32
