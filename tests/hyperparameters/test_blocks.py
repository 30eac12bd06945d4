import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.spatial import cKDTree

from nearfield.hyperparameters.blocks import BLOCK_SIZE, LARGEST_SINGLE_BLOCK, make_blocks, near_and_far
from nearfield.hyperparameters.likelihood import packed_distances


def test_few_points_are_one_block():
    X, y = np.random.RandomState(0).rand(LARGEST_SINGLE_BLOCK, 2), np.zeros((LARGEST_SINGLE_BLOCK, 1))
    (block,) = make_blocks(X, y, None, 64, False, np.random.RandomState(0))
    assert np.array_equal(block.X, X)
    assert_allclose(block.squared_distances, packed_distances(X))


def test_many_points_are_blocks_of_different_points():
    rng = np.random.RandomState(0)
    X = rng.rand(3000, 2)
    y, weights = X[:, :1] * 2, X[:, 1] + 0.5
    blocks = make_blocks(X, y, weights, 16, False, rng)
    assert len(blocks) == 16
    for block in blocks:
        assert 0.8 * BLOCK_SIZE < len(block.X) <= BLOCK_SIZE
        assert len(np.unique(block.X, axis=0)) == len(block.X)
        assert_allclose(block.y, block.X[:, :1] * 2)
        assert_allclose(block.noise_factors, 1 / (block.X[:, 1] + 0.5))


def test_a_block_has_the_nearest_points_and_some_from_everywhere():
    rng = np.random.RandomState(0)
    X = rng.rand(20_000, 2)
    tree = cKDTree(X)
    for group in near_and_far(len(X), 5, rng, lambda seeds, k: tree.query(X[seeds], k=k)[1], X.__getitem__):
        seed = group[0]  # its own nearest neighbour
        distances = np.linalg.norm(X - X[seed], axis=1)
        nearest = np.argsort(distances)[:100]
        assert np.isin(nearest, group).all()
        assert distances[group].max() > 0.3


def test_with_a_length_scale_per_column_neighbours_do_not_depend_on_units():
    rng = np.random.RandomState(0)
    X, y = rng.rand(2000, 2), np.zeros((2000, 1))
    small, large = (
        make_blocks(points, y, None, 4, True, np.random.RandomState(1)) for points in (X, X * np.array([1.0, 1e9]))
    )
    for a, b in zip(small, large, strict=True):
        assert_allclose(a.X * np.array([1.0, 1e9]), b.X)
        assert a.squared_distances is None


@pytest.mark.parametrize("n", [LARGEST_SINGLE_BLOCK + 1, 1300])
def test_just_above_the_limit_there_are_not_more_blocks_than_points_for_them(n):
    X = np.random.RandomState(0).rand(n, 1)
    blocks = make_blocks(X, X, None, 1000, False, np.random.RandomState(0))
    assert len(blocks) <= 4 * n / BLOCK_SIZE + 1
