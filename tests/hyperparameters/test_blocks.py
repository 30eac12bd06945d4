import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.spatial import cKDTree

from nearfield.hyperparameters import blocks
from nearfield.hyperparameters.blocks import (
    CELL_POINTS,
    LARGEST_SINGLE_BLOCK,
    N_EARLY,
    N_NEAREST,
    Block,
    make_blocks,
    near_and_far,
    stacked,
    sum_of,
    thinned,
    with_exact_early,
)
from nearfield.hyperparameters.learning import Fixed, LearningRequest, learn_hyperparameters
from nearfield.kernels import Kernel

from .single import kernel_log_likelihood


def test_few_points_are_one_block():
    X, y = np.random.RandomState(0).rand(LARGEST_SINGLE_BLOCK, 2), np.zeros((LARGEST_SINGLE_BLOCK, 1))
    (block,) = make_blocks(X, y, None, False, np.random.RandomState(0))
    assert np.array_equal(block.X, X)
    assert block.n_given == 0


def test_many_points_are_each_in_one_cell_given_earlier_ones():
    rng = np.random.RandomState(0)
    X = rng.rand(3000, 2)
    y, weights = X[:, :1] * 2, X[:, 1] + 0.5
    blocks = make_blocks(X, y, weights, False, rng)
    own = np.concatenate([block.X[block.n_given :] for block in blocks])
    assert len(own) == len(X)
    assert len(np.unique(own, axis=0)) == len(X)
    earlier = set()
    for block in blocks:
        points = list(map(tuple, block.X))
        assert set(points[: block.n_given]) <= earlier
        earlier |= set(points[block.n_given :])
        assert_allclose(block.y, block.X[:, :1] * 2)
        assert_allclose(block.noise_factors, 1 / (block.X[:, 1] + 0.5))
    assert blocks[0].n_given == 0
    assert sum(block.size for block in blocks) == len(X)


@pytest.mark.parametrize("n", [1001, 1400, 2000, 2999, 4096])
def test_cells_are_of_about_the_same_size_whatever_the_number_of_points(n):
    blocks = make_blocks(np.random.RandomState(0).rand(n, 2), np.zeros((n, 1)), None, False, np.random.RandomState(0))
    sizes = [len(block.X) - block.n_given for block in blocks]
    assert max(sizes) - min(sizes) <= 1
    assert CELL_POINTS / 1.5 <= min(sizes) <= max(sizes) <= 1.5 * CELL_POINTS


def test_a_lighter_block_has_the_same_points_given_the_nearest_of_the_earlier_ones():
    rng = np.random.RandomState(0)
    X, weights = rng.rand(2000, 2), rng.uniform(0.5, 2, 2000)
    blocks = make_blocks(X, X[:, :1], weights, False, rng)
    assert blocks[1].lighter is blocks[1]
    for block in blocks[10:20]:
        light, own = block.lighter, block.X[block.n_given :]
        assert light is block.lighter
        assert light.n_given == N_NEAREST < block.n_given
        assert (light.size, light.share) == (block.size, block.share)
        assert_allclose(light.X[N_NEAREST:], own)
        assert_allclose(light.y, light.X[:, :1])
        middle = 0.5 * (own.min(axis=0) + own.max(axis=0))
        distances = np.linalg.norm(block.X[: block.n_given] - middle, axis=1)
        kept = np.linalg.norm(light.X[:N_NEAREST] - middle, axis=1)
        assert_allclose(np.sort(kept), np.sort(distances)[:N_NEAREST])
        rows = [int(np.flatnonzero((point == X).all(axis=1))[0]) for point in light.X]
        assert_allclose(light.noise_factors, 1 / weights[rows])


def test_too_many_blocks_are_early_ones_and_a_sample_that_stands_for_the_others(monkeypatch):
    monkeypatch.setattr("nearfield.hyperparameters.blocks.MOST", 128)
    rng = np.random.RandomState(0)
    X = rng.rand(5000, 2)
    blocks = make_blocks(X, X[:, :1], None, False, rng)
    assert len(blocks) == 128
    assert all(block.share == 1 for block in blocks[:N_EARLY])
    assert blocks[-1].share > 1
    assert sum(block.size for block in blocks) == pytest.approx(len(X))
    few = thinned(blocks, 16, 40)
    assert len(few) == 40
    assert sum(block.size for block in few) == pytest.approx(len(X))


def test_early_blocks_together_are_their_exact_likelihood():
    rng = np.random.RandomState(0)
    X, weights = rng.rand(2000, 2), rng.uniform(0.5, 2, 2000)
    blocks = make_blocks(X, X[:, :1], weights, False, rng)[:4]
    (block, *rest), kernel = with_exact_early([*blocks, blocks[-1]], 4), Kernel.gaussian(0.3)
    assert rest == [blocks[-1]]
    assert with_exact_early([block, *rest], 4) == [block, *rest]
    assert block.n_given == 0
    assert block.size == sum(b.size for b in blocks)
    # so far each cell is given all earlier points, and the product of conditional likelihoods is the joint one
    value, gradient = sum_of(stacked([block], False), map)(kernel, 0.1)
    expected, expected_gradient = sum_of(stacked(blocks, False), map)(kernel, 0.1)
    assert value == pytest.approx(expected, rel=1e-10)
    assert_allclose(gradient, expected_gradient, rtol=1e-8)


@pytest.mark.parametrize("by_column", [False, True])
def test_stacks_add_up_what_blocks_are_one_by_one(by_column):
    rng = np.random.RandomState(0)
    sizes = [(9, 3), (9, 3), (12, 0), (9, 5), (9, 3)]
    blocks = [
        Block(rng.rand(n, 2), rng.rand(n, 2), rng.uniform(0.5, 2, n), n_given, rng.uniform(0.5, 2))
        for n, n_given in sizes
    ]
    kernel = Kernel(np.array([[0.2, 0.4], [1.0, 2.0]])[:, : 2 if by_column else 1], np.array([1.0, 0.3]))
    parts = [kernel_log_likelihood(kernel, 0.1, b.X, b.y, b.noise_factors, b.n_given) for b in blocks]
    value, gradient = sum_of(stacked(blocks, by_column), map)(kernel, 0.1)
    assert value == pytest.approx(sum(b.share * v for b, (v, _) in zip(blocks, parts, strict=True)), rel=1e-12)
    assert_allclose(gradient, sum(b.share * g for b, (_, g) in zip(blocks, parts, strict=True)), rtol=1e-10)


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
        make_blocks(points, y, None, True, np.random.RandomState(1)) for points in (X, X * np.array([1.0, 1e9]))
    )
    for a, b in zip(small, large, strict=True):
        assert_allclose(a.X * np.array([1.0, 1e9]), b.X)


def test_no_more_threads_than_asked_for(monkeypatch):
    seen, make = [], blocks.ordered_cells

    def noted(X, most, n_earlier, rng, n_jobs, **options):
        seen.append(n_jobs)
        return make(X, most, n_earlier, rng, n_jobs, **options)

    monkeypatch.setattr(blocks, "ordered_cells", noted)
    rng = np.random.RandomState(0)
    X = rng.uniform(size=(1200, 2))
    request = LearningRequest(n_jobs=1, n_restarts=0, fixed=Fixed(noise_variance=0.1))
    learn_hyperparameters(X, np.sin(9 * X[:, :1]), None, request, rng)
    assert seen == [1]


def test_levels_without_points_leave_the_span_of_a_drift_as_it_is():
    rng = np.random.RandomState(0)
    X, y, drift = rng.rand(50, 2), np.zeros((50, 1)), rng.standard_normal((50, 3))
    with_others = np.column_stack([np.zeros(50), drift, np.zeros((50, 40))])
    plain, found = (Block.of(X, y, None, drift=columns).drift for columns in (drift, with_others))
    assert_allclose(found @ found.T, plain @ plain.T, atol=1e-14)
    assert Block.of(X, y, None, drift=np.zeros((50, 2))).drift is None
