import numpy as np
import pytest

from nearfield.sources import ArraySource, Batch, SourceError
from nearfield.streaming.passes import Passes, Sample, mixed


def rows(n, seed=0):
    rng = np.random.default_rng(seed)
    return Batch(rng.standard_normal((n, 2)), rng.standard_normal((n, 1)), rng.uniform(0, 1, n), np.arange(n))


def sampled(batch, size, seed, cuts):
    sample = Sample(size, seed)
    state = sample.start()
    for part in np.split(np.arange(len(batch)), cuts):
        state = sample.update(state, batch[part])
    return sample.finish(state)


def test_a_sample_does_not_depend_on_how_the_rows_were_cut():
    batch = rows(5000)
    first, second = sampled(batch, 300, 7, [100, 2000]), sampled(batch, 300, 7, list(range(50, 5000, 50)))
    assert len(first.rows) == 300
    np.testing.assert_array_equal(first.rows.ids, second.rows.ids)
    np.testing.assert_array_equal(first.rows.X, batch.X[first.rows.ids])
    assert np.all(np.diff(first.rows.ids) > 0)


def test_merged_samples_are_the_sample_of_all():
    batch, sample = rows(4000), Sample(200, 3)
    parts = [
        sample.update(sample.start(), batch[part]) for part in (slice(0, 500), slice(500, 3900), slice(3900, None))
    ]
    merged = sample.finish(sample.merge(sample.merge(parts[2], sample.start()), sample.merge(parts[0], parts[1])))
    np.testing.assert_array_equal(merged.rows.ids, sampled(batch, 200, 3, []).rows.ids)


def test_sums_over_all_rows():
    batch = rows(3000)
    state = sampled(batch, 100, 0, [1000])
    assert state.n == 3000
    np.testing.assert_array_equal(state.low, batch.X.min(axis=0))
    np.testing.assert_array_equal(state.high, batch.X.max(axis=0))
    np.testing.assert_allclose(state.mean, np.average(batch.y, axis=0, weights=batch.weights), rtol=1e-12)


def test_the_mean_of_equal_numbers_is_just_that():
    batch = Batch(np.ones((7, 1)), np.full((7, 1), 0.1), np.full(7, 0.3), np.arange(7))
    assert sampled(batch, 10, 0, [3]).mean[0] == 0.1


def test_samples_are_uniform():
    """How often each tenth of the rows is drawn, over many seeds: within four standard deviations of a tenth."""
    counts = np.zeros(10)
    for seed in range(200):
        ids = sampled(rows(1000), 50, seed, [500]).rows.ids
        counts += np.bincount(ids // 100, minlength=10)
    expected = 200 * 50 / 10
    assert np.abs(counts - expected).max() < 4 * (expected * 0.9) ** 0.5


def test_seeds_and_rows_give_other_numbers():
    ids = np.arange(100_000)
    assert len(np.unique(mixed(ids, 1))) == len(ids)
    assert not np.any(mixed(ids, 1) == mixed(ids, 2))
    shares = mixed(ids, 5) / 2.0**64
    assert abs(shares.mean() - 0.5) < 4 * (1 / 12 / len(ids)) ** 0.5


def test_a_pass_that_sees_other_rows_than_the_first_is_refused():
    source = ArraySource(np.ones((10, 1)), np.ones(10))
    passes = Passes(source, None)
    passes.run(Sample(5, 0), "first")
    source.X, source.y = source.X[:8], source.y[:8]
    with pytest.raises(SourceError, match="gave 8 rows in the pass 'second', but 10 in the first one"):
        passes.run(Sample(5, 0), "second")
