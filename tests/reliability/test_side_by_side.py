"""Threads and processes: estimators side by side do not disturb each other, nor anything that is the caller's."""

import multiprocessing
import random
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import nearfield as nf
from nearfield.common import threads
from nearfield.local import ensemble

from ..warned import few_features

GIVEN = {"length_scale": 0.1, "signal_variance": 1.0, "noise_variance": 0.01}
TEST = np.random.default_rng(9).uniform(size=(200, 2))


def data(seed, n=800):
    X = np.random.default_rng(seed).uniform(size=(n, 2))
    return X, np.sin(9 * X[:, 0])


def answers(seed, n_jobs=2):
    gp = nf.LocalGPRegressor(**GIVEN, n_scales=1, random_state=0, n_jobs=n_jobs).fit(*data(seed))
    return np.stack(gp.predict(TEST, return_std=True))


def blas_threads():
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


def test_estimators_in_several_threads():
    alone = [answers(seed) for seed in range(4)]
    before = blas_threads()
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(answers, range(4)))
    np.testing.assert_array_equal(together, alone)
    assert blas_threads() == before


def test_limits_that_overlap_leave_what_was():
    """The first in is not the last out: a limit saved and restored by each alone would stay."""
    before = blas_threads()
    first, second = threads.single_threaded_blas(), threads.single_threaded_blas()
    first.__enter__()
    second.__enter__()
    assert set(blas_threads()) == {1}
    first.__exit__(None, None, None)
    assert set(blas_threads()) == {1}  # the second still wants it
    second.__exit__(None, None, None)
    assert blas_threads() == before


def test_a_limit_of_the_callers_is_not_raised():
    with threadpool_limits(1, user_api="blas"):
        seen = threads.thread_map(lambda _: blas_threads(), [0], n_jobs=4)
        assert set(seen[0]) == {1}
        assert set(blas_threads()) == {1}


def test_an_error_in_a_worker_reaches_the_caller(monkeypatch):
    def fail(*_):
        raise RuntimeError(f"lost in {threading.current_thread().name}")

    gp = nf.LocalGPRegressor(
        **GIVEN, n_scales=1, features=nf.TaylorFeatures(degree=12), radius=1.5, spacing=1.0, n_jobs=2, random_state=0
    ).fit(*data(0))
    before, limits = gp.predict(TEST), blas_threads()
    with monkeypatch.context() as patch:
        patch.setattr(ensemble, "_fit_group", fail)
        with pytest.raises(RuntimeError, match="lost in ThreadPoolExecutor"):
            gp.fit(*data(1))
    np.testing.assert_array_equal(gp.predict(TEST), before)
    assert blas_threads() == limits


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes(method):
    """A model fitted here answers there; and there, after threads have been at work here, a model can be fitted."""
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this system has no {method}")
    gp = nf.LocalGPRegressor(**GIVEN, n_scales=1, random_state=0, n_jobs=2).fit(*data(0))
    expected = gp.predict(TEST)
    with multiprocessing.get_context(method).Pool(1) as pool:
        np.testing.assert_array_equal(pool.apply_async(gp.predict, (TEST,)).get(timeout=120), expected)
        np.testing.assert_allclose(pool.apply_async(answers, (3,)).get(timeout=120), answers(3), rtol=1e-12)


def test_a_fork_amid_a_fit():
    """The child has none of the parent's threads: no lock of theirs is held, no limit of theirs is kept."""
    if "fork" not in multiprocessing.get_all_start_methods():
        pytest.skip("this system has no fork")
    before = blas_threads()
    with threads.single_threaded_blas(), threads._limit._lock:  # the worst moment
        pool = multiprocessing.get_context("fork").Pool(1)
    with pool:
        assert pool.apply_async(blas_threads).get(timeout=120) == before
        assert pool.apply_async(answers, (3,)).get(timeout=120).shape == (2, 200)
    assert blas_threads() == before


def test_a_fork_keeps_a_limit_of_the_callers():
    if "fork" not in multiprocessing.get_all_start_methods():
        pytest.skip("this system has no fork")
    answers(0)
    with threadpool_limits(1, user_api="blas"), multiprocessing.get_context("fork").Pool(1) as pool:
        assert set(pool.apply_async(blas_threads).get(timeout=120)) == {1}


@pytest.mark.unseeded
@few_features
def test_what_is_the_callers_stays_as_it_is():
    np.random.seed(3)  # noqa: NPY002
    legacy, standard, filters = np.random.get_state()[1].copy(), random.getstate(), list(warnings.filters)  # noqa: NPY002
    errors, limits = np.geterr(), blas_threads()
    X, y = data(0, 300)
    features = nf.FourierFeatures(n_components=20)
    for gp in (
        nf.ExactGPRegressor(n_restarts=1, noise_variance=0.1),
        nf.FeatureGPRegressor(features, n_restarts=1, noise_variance=0.1),
        nf.LocalGPRegressor(**GIVEN),
        nf.LocalGPRegressor(n_restarts=1),
        nf.LocalGPRegressor.from_paper(16, **GIVEN),
    ):
        gp.fit(X, y + 0.1 * np.cos(1e4 * X[:, 1])).predict(X, return_std=True)
    np.testing.assert_array_equal(np.random.get_state()[1], legacy)  # noqa: NPY002
    assert random.getstate() == standard
    assert list(warnings.filters) == filters
    assert np.geterr() == errors
    assert blas_threads() == limits


@pytest.mark.unseeded
def test_without_a_random_state_fits_differ():
    """None is new random numbers every time, though NumPy's global generator stands still."""
    X, _ = data(0, 20)
    one, other = (nf.FourierFeatures(n_components=20).fit_transform(X) for _ in range(2))
    assert not np.allclose(one, other)
