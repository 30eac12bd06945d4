"""What a fit may take of the memory."""

import warnings

import numpy as np
import pytest

import nearfield as nf
from nearfield.common import memory
from nearfield.common.threads import thread_map, worker_threads
from nearfield.local import exact_budget

GIVEN = {"length_scale": 1.0, "signal_variance": 1.0, "noise_variance": 0.1, "random_state": 0}


def waves(n=3000, d=5):
    rng = np.random.RandomState(0)
    X = rng.uniform(0, 3, (n, d))
    return X, np.sin(X).sum(axis=1) + 0.3 * rng.standard_normal(n)


def test_the_limit_holds_in_threads_and_ends_with_the_block():
    before = memory.budget()
    with memory.limited_to(1e8):
        with memory.limited_to(None):  # a fit within a fit
            assert memory.budget() == 1e8
        assert set(thread_map(lambda _: memory.budget(), range(8), 2)) == {1e8}
        with worker_threads(2) as over:
            assert set(over(lambda *_: memory.budget(), range(8), range(8))) == {1e8}
    assert memory.budget() == before


def test_what_takes_more_is_refused_and_chunks_are_smaller():
    usual = memory.rows_per_chunk(1e4, 10**6)
    with memory.limited_to(2.0**26):
        assert memory.rows_per_chunk(1e4, 10**6) == int(memory.CHUNK_SHARE * 2**26 / 1e4) < usual
        memory.require(2**25, "Something", "Do less.")
        with pytest.raises(MemoryError, match=r"^Something needs 128 MiB, more than memory_budget=64 MiB. Do less.$"):
            memory.require(2**27, "Something", "Do less.")


def test_the_exact_process_is_taken_only_where_its_matrix_fits():
    X, y = waves()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        exact = nf.LocalGPRegressor(**GIVEN).fit(X, y)
    assert exact.report_.method == "the exact Gaussian process"
    with pytest.warns(UserWarning, match="tolerance=1e-08 could not be met within memory_budget=64 MiB"):
        local = nf.LocalGPRegressor(**GIVEN, tolerance=1e-8, memory_budget=2**26).fit(X, y)
    assert local.report_.method != "the exact Gaussian process"
    assert local.report_.divergence > 0
    np.testing.assert_allclose(local.predict(X[:100]), exact.predict(X[:100]), atol=0.2)


def test_memory_is_short_where_only_memory_is_missing():
    with memory.limited_to(2.0**26):
        assert exact_budget.memory_is_short(4000, 60.0)
        assert not exact_budget.memory_is_short(2000, 60.0)
        assert not exact_budget.memory_is_short(10**6, 60.0)  # for which there is no time, either
        assert not exact_budget.memory_is_short(np.inf, 60.0)


@pytest.mark.parametrize("value", [0, -1.0, 1e7, np.nan, "1 GiB", True])
def test_what_is_no_budget_is_refused(value):
    X, y = waves(20)
    with pytest.raises(ValueError, match="memory_budget' parameter of LocalGPRegressor must be None or a number of by"):
        nf.LocalGPRegressor(memory_budget=value).fit(X, y)
