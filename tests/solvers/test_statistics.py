import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from nearfield.solvers import statistics
from nearfield.solvers.feature_space import FeatureSpace


def data(n=30, D=4, k=2, seed=0):
    rng = np.random.RandomState(seed)
    return rng.randn(D, n), rng.randn(n, k) + 3, rng.uniform(0.5, 2, n)


def test_sums_are_what_they_say():
    rows, y, w = data()
    sums = statistics.accumulate(rows, y, w)
    t = np.column_stack([y, np.ones(len(y))])
    assert_allclose(sums.gram, np.tril((rows * w) @ rows.T), atol=1e-12)
    assert_allclose(sums.cross, (rows * w) @ t, atol=1e-12)
    assert_allclose(sums.targets, (t.T * w) @ t, atol=1e-11)
    assert_allclose(sums.log_weight, np.log(w).sum())
    assert sums.n == len(y)


@given(cuts=st.lists(st.integers(1, 29), max_size=5), seed=st.integers(0, 100))
def test_sums_add_over_any_partition_and_in_any_order(cuts, seed):
    rows, y, w = data()
    whole = statistics.accumulate(rows, y, w)
    pieces = [p for p in np.split(np.random.RandomState(seed).permutation(30), sorted(cuts)) if len(p)]
    parts = statistics.total([statistics.accumulate(rows[:, p], y[p], w[p]) for p in pieces])
    assert parts.n == whole.n
    assert_allclose(parts.gram, whole.gram, atol=1e-11)
    assert_allclose(parts.cross, whole.cross, atol=1e-11)
    assert_allclose(parts.targets, whole.targets, atol=1e-10)
    assert_allclose(parts.log_weight, whole.log_weight, atol=1e-12)


@pytest.mark.parametrize("scale", [1.0, 1e-3])
def test_a_mean_taken_out_afterwards(scale):
    rows, y, w = data()
    y, mean = scale * y, scale * np.array([2.0, -1.0])
    sums = statistics.accumulate(rows, y, w)
    assert_allclose(sums.mean(), np.average(y, axis=0, weights=w), rtol=1e-13)
    found, expected = sums.centred(mean), statistics.accumulate(rows, y - mean, w)
    for name in ("gram", "cross", "targets"):
        assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-11, atol=1e-11 * scale)
    assert (found.log_weight, found.n) == (sums.log_weight, sums.n)


def test_squares_are_never_negative():
    rows = np.ones((1, 3))
    y = np.full((3, 1), 1e8 + 0.1)
    sums = statistics.accumulate(rows, y, np.ones(3)).centred(y[0])
    assert np.isfinite(FeatureSpace.from_statistics(sums).log_likelihood()[0])


def test_inputs_are_not_modified():
    arrays = data()
    before = [a.copy() for a in arrays]
    statistics.accumulate(*arrays)
    for array, copy in zip(arrays, before, strict=True):
        assert np.array_equal(array, copy)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_dtype_is_that_of_the_features(dtype):
    rows, y, w = (a.astype(dtype) for a in data())
    sums = statistics.accumulate(rows, y, w)
    assert sums.gram.dtype == sums.cross.dtype == sums.targets.dtype == dtype
