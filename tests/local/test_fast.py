"""Compiled loops against NumPy."""

import builtins
import pickle
import subprocess
import sys

import numpy as np
import pytest

import nearfield as nf
from nearfield.common import compiling
from nearfield.common.arrays import stable_order
from nearfield.local import fast
from nearfield.local.model_stack import ModelStack, forms_of
from nearfield.local.moments import MomentModel
from nearfield.solvers.kernel_space import KernelSpace

from ..warned import far_points

pytestmark = far_points

FIXED = {"length_scale": 1.0, "signal_variance": 1.3, "noise_variance": 0.02, "random_state": 0}
PLAN = {1: (6.0, 12), 2: (2.6, 9), 3: (2.4, 6)}  # radius and degree


def make(d, n=1500, seed=0, more_targets=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, {1: 60.0, 2: 9.0, 3: 5.0}[d], (n, d))
    X[: n // 20] += 40.0  # a few points by themselves, which are solved in kernel space
    y = np.column_stack([np.sin(X).sum(axis=1), np.cos(X[:, 0])]) + 0.1 * rng.standard_normal((n, 2))
    y = np.column_stack([y, rng.standard_normal((n, more_targets))])
    return X, y, np.concatenate([rng.uniform(-2, 11, (400, d)), X[:40] + 0.1, [[1e6] * d]])


def fitted(d, X, y, weight=None, **options):
    radius, degree = PLAN[d]
    options = {"spacing": radius / 2, "radius": radius, "features": nf.TaylorFeatures(degree), **FIXED, **options}
    return nf.LocalGPRegressor(**options).fit(X, y, sample_weight=weight)


@pytest.fixture
def always(monkeypatch):
    pytest.importorskip("numba")
    monkeypatch.setattr(fast, "MIN_CENTERS", 0)


@pytest.mark.parametrize(("correction", "more_targets"), [(True, 0), (False, 0), (True, 5)])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_loops_give_what_numpy_gives(d, correction, more_targets, monkeypatch):
    pytest.importorskip("numba")
    X, y, test = make(d, more_targets=more_targets)
    weight = np.random.default_rng(1).uniform(0.5, 2.0, len(X))
    answers, models = [], []
    for least in (10**9, 0):
        monkeypatch.setattr(fast, "MIN_CENTERS", least)
        model = fitted(d, X, y, correction=correction, weight=weight)
        models.append(model)
        answers += [model.set_params(blend=blend).predict(test, return_std=True) for blend in (True, False)]
    kinds = [[type(m) for m in model._predictor.models] for model in models]
    assert kinds[0] == kinds[1]
    assert {MomentModel, KernelSpace} <= set(kinds[0])
    for by_numpy, by_loops in zip(answers[:2], answers[2:], strict=True):
        np.testing.assert_allclose(by_loops[0], by_numpy[0], atol=1e-10)
        np.testing.assert_allclose(by_loops[1], by_numpy[1], atol=1e-10)
    for by_numpy, by_loops in zip(*(model._predictor.models for model in models), strict=True):
        if isinstance(by_numpy, MomentModel):
            sums = [m.sums for m in (by_numpy, by_loops)]
            assert sums[0].n == sums[1].n
            np.testing.assert_allclose(sums[1].cross, sums[0].cross, atol=1e-11 * np.abs(sums[0].cross).max())
            np.testing.assert_allclose(sums[1].targets, sums[0].targets, atol=1e-11 * np.abs(sums[0].targets).max())
            np.testing.assert_allclose(sums[1].log_weight, sums[0].log_weight)


@pytest.mark.usefixtures("always")
def test_more_data_are_taken_in(monkeypatch):
    X, y, test = make(2)
    by_loops = fitted(2, X[:700], y[:700]).partial_fit(X[700:], y[700:]).predict(test, return_std=True)
    monkeypatch.setattr(fast, "MIN_CENTERS", 10**9)
    by_numpy = fitted(2, X[:700], y[:700]).partial_fit(X[700:], y[700:]).predict(test, return_std=True)
    np.testing.assert_allclose(by_loops[0], by_numpy[0], atol=1e-9)
    np.testing.assert_allclose(by_loops[1], by_numpy[1], atol=1e-9)


@pytest.mark.usefixtures("always")
def test_threads_do_not_change_anything():
    X, y, test = make(2)
    alone, shared = (fitted(2, X, y, n_jobs=n_jobs).predict(test, return_std=True) for n_jobs in (1, 2))
    np.testing.assert_array_equal(alone[0], shared[0])
    np.testing.assert_array_equal(alone[1], shared[1])


@pytest.mark.usefixtures("always")
def test_matrices_that_loops_cannot_solve_are_left_to_numpy(monkeypatch):
    X, y, test = make(2)
    expected = fitted(2, X, y).predict(test)
    original = fast._loops()

    class Failing:
        count, predict = original.count, original.predict

        @staticmethod
        def fit(*arguments):
            original.fit(*arguments)
            arguments[-1][::2] = True

    monkeypatch.setattr(fast, "_loops", lambda: Failing)
    np.testing.assert_allclose(fitted(2, X, y).predict(test), expected, atol=1e-10)


@pytest.mark.usefixtures("always")
def test_cells_beyond_counting_are_left_to_numpy():
    X, y, test = make(2)
    X[0] = 1e15, -1e15
    model = fitted(2, X, y)
    assert fast.Cells.of(model._predictor.data.X, 1e-4) is None
    assert np.isfinite(model.predict(test)).all()


def test_a_numba_that_cannot_be_imported_is_as_good_as_none(monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "nearfield.local.compiled", None)
    monkeypatch.delattr("nearfield.local.compiled", raising=False)
    monkeypatch.setattr(compiling, "find_spec", lambda _: object())
    compiling.loops.cache_clear()
    try:
        assert fast._loops() is None
    finally:
        compiling.loops.cache_clear()
    assert "Numba cannot be used" in caplog.text


def test_loops_work_where_nothing_can_be_kept(tmp_path):
    """In a container that is read-only, for one, without a home."""
    pytest.importorskip("numba")
    program = (
        "import numba.core.caching as caching\n"
        "caching.CacheImpl._locator_classes = []\n"
        "from nearfield.local import compiled\n"
        "import numpy as np\n"
        "assert not compiled.OPTIONS['cache']\n"
        "first, last = np.zeros((2, 2), dtype=np.int64)\n"
        "compiled._span(np.array([0.5, 2.5]), 1.0, np.zeros(2), 0.2, np.array([50, 50]), first, last)\n"
        "print(*first, *last)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.stdout.split() == ["0", "7", "7", "17"], done.stderr


def test_without_numba_nothing_changes(monkeypatch):
    X, y, test = make(2, n=400)
    expected = fitted(2, X, y).predict(test)
    real = builtins.__import__

    def without(name, *rest):
        if name.split(".")[0] == "numba":
            raise ImportError(name)
        return real(name, *rest)

    compiling.loops.cache_clear()
    monkeypatch.setattr(compiling, "find_spec", lambda _: None)
    monkeypatch.setattr(builtins, "__import__", without)
    monkeypatch.setattr(fast, "MIN_CENTERS", 0)
    try:
        np.testing.assert_array_equal(fitted(2, X, y).predict(test), expected)
    finally:
        compiling.loops.cache_clear()


@pytest.mark.usefixtures("always")
def test_models_are_stacked_where_all_are_in_feature_space():
    X, y, test = make(2)
    model = fitted(2, X[75:], y[75:], spacing=2.5, radius=5.0)
    stack = model._predictor.models
    assert isinstance(stack, ModelStack)
    assert [each.sums.n for each in stack[1:3]] == stack.n[1:3].tolist()
    assert forms_of(stack)[0].all()
    for from_stack, from_list in zip(forms_of(stack), forms_of(list(stack)), strict=True):
        np.testing.assert_array_equal(from_stack, from_list)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(test), model.predict(test))


def test_order_of_keys():
    rng = np.random.default_rng(0)
    for most in (1, 1000, 2**20, 2**40, 2**61):
        keys = rng.integers(0, most, 3000)
        np.testing.assert_array_equal(stable_order(keys), np.argsort(keys, kind="stable"))
    assert len(stable_order(np.empty(0, dtype=np.int64))) == 0
