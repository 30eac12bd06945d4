import numpy as np
import pytest

from nearfield.hyperparameters.blocks import BLOCK_SIZE, NEAR_SHARE
from nearfield.kernels import Kernel
from nearfield.local import probes
from nearfield.local.neighbourhoods import TrainingSet
from nearfield.sources import ArraySource, Batch
from nearfield.streaming.neighbours import Gather, Nearest, make_blocks, world_maker
from nearfield.streaming.passes import Passes, Reduction, Sample
from nearfield.streaming.sums import Noise

NOISE = Noise(0.1, 1e-9)
NEAR = int(NEAR_SHARE * BLOCK_SIZE)


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    monkeypatch.setattr(Reduction, "batch_rows", 700)


def make_data(n=6000, d=2, width=12.0):
    rng = np.random.default_rng(0)
    X = rng.uniform(0, width, (n, d))
    return X, np.sin(X.sum(axis=1)) + 0.3 * rng.standard_normal(n), rng.uniform(0.5, 2.0, n)


def make_passes(X, y, w=None, size=500):
    passes = Passes(ArraySource(X, y, w, batch_size=400), None)
    return passes, passes.run(Sample(size, 0), "sample")


def test_nearest_rows_are_those_of_all_data():
    X, y, _ = make_data()
    passes, _ = make_passes(X, y)
    scale = np.array([1.0, 3.0])
    for seed, found in zip(X[:5], passes.run(Nearest(X[:5], scale, 60), "nearest"), strict=True):
        expected = np.argsort(np.sum(((X - seed) / scale) ** 2, axis=1))[:60]
        np.testing.assert_array_equal(found.ids, expected)


def test_nearest_rows_can_be_merged_and_be_few():
    nearest = Nearest(np.zeros((2, 1)), np.ones(1), 5)
    batch = Batch(np.arange(4.0)[:, None], np.zeros((4, 1)), None, np.arange(4))
    halves = [nearest.update(nearest.start(), batch[part]) for part in (slice(0, 1), slice(1, 4))]
    for found in nearest.merge(*halves):
        np.testing.assert_array_equal(found.ids, np.arange(4))


@pytest.mark.parametrize("ard", [False, True])
def test_blocks_have_the_density_of_all_data(ard):
    X, y, w = make_data()
    passes, sampled = make_passes(X, y, w)
    blocks = make_blocks(passes, sampled, np.array([0.5]), 6, ard, np.random.RandomState(0))
    assert len(blocks) == 6
    scale = sampled.rows.X.std(axis=0) if ard else 1.0
    for block in blocks:
        seed = block.X[0]  # nearest to itself
        gaps = np.sort(np.linalg.norm((X - seed) / scale, axis=1))
        mine = np.linalg.norm((block.X[:NEAR] - seed) / scale, axis=1)
        np.testing.assert_allclose(mine, gaps[:NEAR], rtol=1e-12)
        assert NEAR < len(block.X) <= BLOCK_SIZE
        rows = [int(np.flatnonzero((x == X).all(axis=1))[0]) for x in block.X]
        assert len(set(rows)) == len(rows)
        np.testing.assert_array_equal(block.y[:, 0], y[rows] - 0.5)
        np.testing.assert_array_equal(block.noise_factors, 1 / w[rows])


def test_gathered_points_are_all_but_those_set_aside():
    X, y, w = make_data(2000)
    passes, _ = make_passes(X, y, w)
    origins, aside = X[[10, 20]], [np.array([10, 30]), np.array([20])]
    found = passes.run(Gather(origins, aside, 2.0, np.ones(1), np.array([1.0]), NOISE), "worlds")
    for origin, world, own in zip(origins, found, aside, strict=True):
        expected = np.flatnonzero(np.linalg.norm(X - origin, axis=1) <= 2.0)
        expected = expected[~np.isin(expected, own)]
        order = np.argsort(world.ids)
        np.testing.assert_array_equal(world.ids[order], expected)
        np.testing.assert_allclose(world.Z[order], X[expected] - origin)
        np.testing.assert_allclose(world.y[order], np.stack([y[expected] - 1.0, np.ones(len(expected))], axis=1))
        np.testing.assert_allclose(world.noise[order], 0.1 / w[expected])
        assert world.total == len(expected)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_dense_places_are_averaged_with_all_their_weight(d):
    X, y, w = make_data(20_000, d, 2.0)
    passes, _ = make_passes(X, y, w)
    origin = np.full((1, d), 1.0)
    [world] = passes.run(Gather(origin, [np.empty(0, np.int64)], 0.9, np.ones(1), np.zeros(1), NOISE), "worlds")
    inside = np.linalg.norm(X - 1.0, axis=1) <= 0.9
    assert inside.sum() > 4 * probes.MAX_WORLD
    assert len(world.Z) <= 4 * probes.MAX_WORLD
    precision = w[inside] / 0.1
    assert world.total == world.counts.sum() == inside.sum()
    np.testing.assert_allclose(np.sum(1 / world.noise), precision.sum())
    np.testing.assert_allclose(world.y[:, 0] @ (1 / world.noise), precision @ y[inside])
    np.testing.assert_allclose((1 / world.noise) @ world.Z, precision @ (X[inside] - 1.0), atol=1e-6)


def test_where_space_is_wide_a_random_subset_stands_for_all():
    X, y, _ = make_data(9000, 5, 1.0)
    passes, _ = make_passes(X, y)
    [world] = passes.run(
        Gather(np.full((1, 5), 0.5), [np.empty(0, np.int64)], 2.0, np.ones(1), np.zeros(1), NOISE), "worlds"
    )
    assert world.total == 9000
    assert len(world.Z) <= 4 * probes.MAX_WORLD
    np.testing.assert_array_equal(world.Z, X[world.ids] - 0.5)


def test_worlds_hold_what_the_exact_process_on_all_data_says():
    X, y, _ = make_data(4000)  # few enough around each probe that none are averaged
    passes, sampled = make_passes(X, y)
    kernel, rows = Kernel.gaussian(1.0), sampled.rows
    data = TrainingSet.of(rows.X, rows.targets, NOISE(len(rows), None))
    make = world_maker(passes, sampled, np.ones(1), np.zeros(1), NOISE)
    worlds = make(kernel, data, 3.0, 4, 1, np.random.RandomState(0))
    assert len(worlds) == 4
    chosen = np.random.RandomState(0).choice(len(rows), 4, replace=False)
    for world, origin in zip(worlds, rows.X[chosen], strict=True):
        rest = np.array([not np.any(np.all(np.isclose(x, world.probes + origin), axis=1)) for x in X])
        near = rest & (np.linalg.norm(X - origin, axis=1) <= 3.0)
        assert len(world.probes) > 1
        assert world.counts.sum() == near.sum()
        K = kernel(X[near], X[near]) + 0.1 * np.eye(near.sum())
        cross = kernel(world.probes + origin, X[near])
        np.testing.assert_allclose(world.mean[:, 0], cross @ np.linalg.solve(K, y[near]), atol=5e-3)
        variance = 1 - np.sum(cross.T * np.linalg.solve(K, cross.T), axis=0)
        np.testing.assert_allclose(world.variance, variance, atol=1e-3)
