import functools
from dataclasses import replace

import numpy as np
import pytest

from nearfield.hyperparameters.blocks import BLOCK_SIZE, NEAR
from nearfield.kernels import Kernel
from nearfield.local.frame import Frame
from nearfield.local.probes import draw_probes
from nearfield.local.thinning import MAX_ROWS
from nearfield.sources import ArraySource, Batch
from nearfield.streaming.neighbours import Nearest, SamplesAround, make_blocks, neighbourhood_maker
from nearfield.streaming.passes import Passes, Reduction, Sample

FRAME = Frame.of(Kernel.gaussian(1.0), 0.1, np.zeros(1))


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
    blocks = make_blocks(passes, sampled, ard, np.random.RandomState(0), 6)
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
        np.testing.assert_array_equal(block.y[:, 0], y[rows] - sampled.mean)
        np.testing.assert_array_equal(block.noise_factors, 1 / w[rows])


def test_neighbours_on_the_earth_are_those_in_space():
    """x, y and z have one length scale, whatever their spreads: near the pole that of z is small."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.uniform(-1, 1, (3000, 2)), rng.uniform(0, 0.01, 3000), rng.uniform(0, 30, 3000)])
    passes, sampled = make_passes(X, X[:, 0])
    (block,) = make_blocks(passes, sampled, True, np.random.RandomState(0), 1, tied=3)
    spreads = sampled.rows.X.std(axis=0)
    scale = np.append(np.full(3, np.linalg.norm(spreads[:3])), spreads[3])
    gaps = np.sort(np.linalg.norm((X - block.X[0]) / scale, axis=1))[:NEAR]
    np.testing.assert_allclose(np.linalg.norm((block.X[:NEAR] - block.X[0]) / scale, axis=1), gaps, rtol=1e-12)


def rows_in(points, X):
    """Row of `X` that each point is."""
    return np.array([int(np.argmin(np.sum((X - point) ** 2, axis=1))) for point in points])


def test_samples_are_all_points_around_but_those_set_aside():
    X, y, w = make_data(2000)
    passes, _ = make_passes(X, y, w)
    origins, set_aside = X[[10, 20]], [np.array([10, 30]), np.array([20])]
    samples = passes.run(SamplesAround(origins, set_aside, 2.0, replace(FRAME, offset=np.ones(1))), "samples")
    for origin, sample, own in zip(origins, samples, set_aside, strict=True):
        expected = np.flatnonzero(np.linalg.norm(X - origin, axis=1) <= 2.0)
        expected = expected[~np.isin(expected, own)]
        rows = rows_in(sample.X + origin, X)
        np.testing.assert_array_equal(np.sort(rows), expected)
        np.testing.assert_allclose(sample.X, X[rows] - origin)
        np.testing.assert_allclose(sample.y[:, 0], y[rows] - 1.0)
        np.testing.assert_allclose(sample.noise, 0.1 / w[rows])
        np.testing.assert_array_equal(sample.counts, 1.0)
        assert sample.n_points == len(expected)


def around_one(d, middle, radius, seed=0):
    return SamplesAround(np.full((1, d), middle), [np.empty(0, np.int64)], radius, FRAME, seed)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_dense_places_are_averaged_with_all_their_weight(d):
    X, y, w = make_data(20_000, d, 2.0)
    passes, _ = make_passes(X, y, w)
    [sample] = passes.run(around_one(d, 1.0, 0.9), "samples")
    inside = np.linalg.norm(X - 1.0, axis=1) <= 0.9
    assert inside.sum() > 4 * MAX_ROWS
    assert len(sample.X) <= 4 * MAX_ROWS
    precision = w[inside] / 0.1
    assert sample.n_points == sample.counts.sum() == inside.sum()
    np.testing.assert_allclose(np.sum(1 / sample.noise), precision.sum())
    np.testing.assert_allclose(sample.y[:, 0] @ (1 / sample.noise), precision @ y[inside])
    np.testing.assert_allclose((1 / sample.noise) @ sample.X, precision @ (X[inside] - 1.0), atol=1e-6)


def test_where_there_are_many_columns_the_same_random_subset_is_kept_whatever_the_batches():
    n = 9000
    X, y, _ = make_data(n, 5, 1.0)
    y = np.arange(n, dtype=float)  # by which rows can be told
    reduction = around_one(5, 0.5, 2.0)
    batch = Batch(X, y[:, None], None, np.arange(n))
    order = np.random.default_rng(1).permutation(n)
    kept = []
    for cuts in ([], [100, 8900], list(range(700, n, 700)), [5000]):
        parts = [reduction.update(reduction.start(), batch[rows]) for rows in np.split(order, cuts)]
        middle = len(parts) // 2
        halves = [functools.reduce(reduction.merge, some, []) for some in (parts[:middle], parts[middle:])]
        [sample] = reduction.finish(reduction.merge(*halves))
        assert sample.n_points == n
        assert len(sample.X) == MAX_ROWS
        np.testing.assert_array_equal(sample.counts, 1.0)
        np.testing.assert_array_equal(sample.X, X[sample.y[:, 0].astype(int)] - 0.5)
        kept.append(sample.y[:, 0])
    for rows in kept[1:]:
        np.testing.assert_array_equal(rows, kept[0])
    passes, _ = make_passes(X, y)
    [sample] = passes.run(around_one(5, 0.5, 2.0, seed=1), "samples")
    assert not np.array_equal(np.sort(sample.y[:, 0]), np.sort(kept[0]))


def test_late_rows_are_no_likelier_to_be_kept():
    """Each tenth of a long sorted source gets its share, within four standard deviations."""
    n = 40_000
    X, _, _ = make_data(n, 4, 1.0)
    X = X[np.argsort(X[:, 0])]
    passes, _ = make_passes(X, np.arange(n, dtype=float))
    [sample] = passes.run(around_one(4, 0.5, 2.0), "samples")
    tenths = np.bincount(sample.y[:, 0].astype(int) // (n // 10), minlength=10)
    expected = len(sample.X) / 10
    assert np.abs(tenths - expected).max() < 4 * (expected * 0.9) ** 0.5


def test_neighbourhoods_hold_what_the_exact_process_on_all_data_says():
    X, y, _ = make_data(4000)  # averages over small cells are nearly as good
    passes, sampled = make_passes(X, y)
    kernel, rows = Kernel.gaussian(1.0), sampled.rows
    data = rows.in_frame(FRAME)
    make = neighbourhood_maker(passes, sampled, FRAME)
    allowed = np.arange(0, len(rows), 3)
    neighbourhoods = make(kernel, data, allowed, 3.0, 4, 1, np.random.RandomState(0))
    assert len(neighbourhoods) == 4
    chosen = draw_probes(data, allowed, 4, np.random.RandomState(0), 4000 / len(rows))
    for neighbourhood, own in zip(neighbourhoods, chosen, strict=True):
        assert np.isin(own, allowed).all()
        origin = rows.X[own[0]]
        np.testing.assert_allclose(neighbourhood.probes, rows.X[own] - origin)
        near = np.linalg.norm(X - origin, axis=1) <= 3.0
        near[rows.ids[own]] = False
        assert neighbourhood.n_probes > 1
        assert neighbourhood.sample.n_points == near.sum()
        K = kernel(X[near], X[near]) + 0.1 * np.eye(near.sum())
        cross = kernel(neighbourhood.probes + origin, X[near])
        np.testing.assert_allclose(neighbourhood.reference.mean[:, 0], cross @ np.linalg.solve(K, y[near]), atol=3e-2)
        variance = 1 - np.sum(cross.T * np.linalg.solve(K, cross.T), axis=0)
        np.testing.assert_allclose(neighbourhood.reference.variance, variance, atol=1e-3)
