"""Compiled loops over graded cells against NumPy, and against the exact process."""

import numpy as np
import pytest

import nearfield as nf
from nearfield.common import compiling
from nearfield.kernels import Kernel
from nearfield.local import fast_cells
from nearfield.local.depth import Depth, fit_cells
from nearfield.local.fast_cells import Members, answer
from nearfield.local.neighbourhoods import TrainingSet
from nearfield.local.plan import Plan

pytest.importorskip("numba")
TWO = Kernel(np.array([[1.0], [4.0]]), np.array([1.3, 0.6]))
ARD = Kernel(np.array([[0.7, 1.5], [3.0, 1.0], [9.0, 9.0]]), np.array([1.0, 0.4, 2.0]))
DEEPER = Depth(5e-3, 160, 0.05)


@pytest.fixture(autouse=True)
def always(monkeypatch):
    monkeypatch.setattr(fast_cells, "MIN_CELLS", 0)


def training(n=300, d=2, n_targets=1, width=8.0, seed=0):
    """Points, the first of which are there twice, with noise that differs."""
    rng = np.random.RandomState(seed)
    X = rng.uniform(0, width, (n, d))
    X[: n // 10] = X[n // 10 : 2 * (n // 10)]
    y = np.sin(X[:, :1]) + rng.standard_normal((n, n_targets))
    return TrainingSet.of(X, y, rng.uniform(0.02, 0.2, n))


def cells(d=2, n=24, seed=1):
    """Centres, half diagonals, and places of the cells, some of which are by themselves or beyond the data."""
    rng = np.random.RandomState(seed)
    centers, sizes = rng.uniform(-1, 9, (n, d)), rng.uniform(0.2, 1.5, n)
    owner = rng.permutation(np.concatenate([np.arange(n), rng.choice(n, 5 * n, p=np.arange(1, n + 1) ** 2.0 / 4900)]))
    places = centers[owner] + sizes[owner, None] * rng.uniform(-0.7, 0.7, (len(owner), d))
    order = np.argsort(owner, kind="stable")
    return centers, sizes, Members(places, order, np.searchsorted(owner[order], np.arange(n + 1)))


def by_numpy(plan, depth, data, centers, sizes, members):
    models = fit_cells(plan, depth, data, centers, sizes)
    mean, variance = np.empty((len(members.places), data.y.shape[1])), np.empty(len(members.places))
    for i, model in enumerate(models):
        rows = members.order[members.bounds[i] : members.bounds[i + 1]]
        mean[rows], variance[rows] = model.mean_and_variance(members.places[rows] - centers[i])
        np.testing.assert_array_equal(model.variance(members.places[rows] - centers[i]), variance[rows])
    return mean, variance, np.array([model.lacking for model in models]), np.array([len(model.X) for model in models])


@pytest.mark.parametrize("depth", [None, DEEPER], ids=["all alike", "deeper"])
@pytest.mark.parametrize("count", [1, 2, 7, 40, 81, 400])
@pytest.mark.parametrize(("kernel", "n_targets"), [(TWO, 1), (ARD, 3)])
def test_loops_give_what_numpy_gives(kernel, n_targets, count, depth):
    plan, data, given = Plan(kernel, None, None, count=count), training(n_targets=n_targets), cells()
    mean, variance, lacking, counts = by_numpy(plan, depth, data, *given)
    if depth is not None and count == 40:
        assert {80, 160} <= set(counts)
        assert (lacking > 0).any()
    for n_jobs in (1, 2):
        found = answer(plan, depth, data, *given, True, n_jobs)
        np.testing.assert_allclose(found.mean, mean, atol=1e-10)
        np.testing.assert_allclose(found.variance, variance, atol=1e-11)
        np.testing.assert_allclose(found.lacking, lacking, rtol=1e-8, atol=1e-12)
        assert not found.left.any()
    alone = answer(plan, depth, data, *given, False, 1)
    assert alone.mean.shape == (len(variance), 0)
    np.testing.assert_allclose(alone.variance, variance, atol=1e-11)


@pytest.mark.parametrize("d", [1, 3])
def test_other_numbers_of_columns(d):
    plan, data, given = Plan(TWO, None, None, count=30), training(d=d), cells(d)
    mean, variance, _, _ = by_numpy(plan, DEEPER, data, *given)
    found = answer(plan, DEEPER, data, *given, True, 1)
    np.testing.assert_allclose(found.mean, mean, atol=1e-10)
    np.testing.assert_allclose(found.variance, variance, atol=1e-11)


def left_out_by_definition(plan, depth, data, centers, sizes, members, rows):
    """Residuals and variances of training points by the model of their cell, solved without each of them."""
    models = fit_cells(plan, depth, data, centers, sizes)
    residuals, variances = np.empty((len(rows), data.y.shape[1])), np.empty(len(rows))
    for i, model in enumerate(models):
        for place in members.order[members.bounds[i] : members.bounds[i + 1]]:
            others = model.rows[model.rows != rows[place]]
            cross = plan.kernel(data.X[rows[[place]]], data.X[others])
            solved = np.linalg.solve(plan.kernel(data.X[others], data.X[others]) + np.diag(data.noise[others]), cross.T)
            residuals[place] = data.y[rows[place]] - (solved.T @ data.y[others])[0]
            variances[place] = plan.kernel.variance - float((cross @ solved)[0, 0]) + data.noise[rows[place]]
    return residuals, variances


@pytest.mark.parametrize("depth", [None, DEEPER], ids=["all alike", "deeper"])
@pytest.mark.parametrize(("kernel", "n_targets", "d"), [(TWO, 1, 1), (TWO, 2, 2), (ARD, 3, 2), (TWO, 1, 3)])
def test_left_out_residuals(kernel, n_targets, d, depth):
    plan, data = Plan(kernel, None, None, count=40), training(d=d, n_targets=n_targets)
    rows = np.random.RandomState(3).permutation(300)[:200]  # those far from the centre of their cell are not in it
    centers, sizes, _ = cells(d)
    owner = np.argmin(((data.X[rows, None] - centers) ** 2).sum(axis=2) / sizes**2, axis=1)
    owner[:3] = np.argmax(np.bincount(owner))  # cells that are far away, and have not seen these points
    order = np.argsort(owner, kind="stable")
    members = Members(data.X[rows], order, np.searchsorted(owner[order], np.arange(len(centers) + 1)))
    residuals, variances = left_out_by_definition(plan, depth, data, centers, sizes, members, rows)
    found = answer(plan, depth, data, centers, sizes, members, True, 2, left_out=rows)
    np.testing.assert_allclose(found.mean, residuals, atol=1e-8)
    np.testing.assert_allclose(found.variance, variances, atol=1e-9)
    alone = answer(plan, depth, data, centers, sizes, members, False, 1, left_out=rows)
    np.testing.assert_array_equal(alone.variance, found.variance)


def test_cells_with_very_many_places():
    plan, data, centers = Plan(TWO, None, None, count=20), training(), np.array([[2.0, 2.0], [5.0, 5.0]])
    places = np.random.RandomState(0).uniform(0, 8, (1000, 2))
    given = (centers, np.ones(2), Members(places, np.arange(1000), np.array([0, 997, 1000])))
    mean, variance, _, _ = by_numpy(plan, DEEPER, data, *given)
    found = answer(plan, DEEPER, data, *given, True, 1)
    np.testing.assert_allclose(found.mean, mean, atol=1e-10)
    np.testing.assert_allclose(found.variance, variance, atol=1e-11)


def test_nothing_is_compiled_anew_for_other_arrays():
    plan, data, (centers, sizes, members) = Plan(TWO, None, None, count=20), training(), cells()
    expected = answer(plan, DEEPER, data, centers, sizes, members, True, 1)
    loops = compiling.loops("nearfield.local.compiled_cells")
    before = loops.answer.signatures
    arrays = [np.asfortranarray(array) for array in (data.X, data.y, data.noise, members.places)]
    for array in arrays:
        array.flags.writeable = False
    again = members._replace(places=arrays[3])
    found = answer(plan, DEEPER, TrainingSet(*arrays[:3]), centers, sizes, again, True, 1)
    np.testing.assert_array_equal(found.mean, expected.mean)
    np.testing.assert_array_equal(found.variance, expected.variance)
    assert loops.answer.signatures == before


def test_single_precision_and_many_neighbours_are_left_to_numpy():
    data, given = training(), cells()
    single = TrainingSet(data.X.astype(np.float32), data.y, data.noise)
    assert answer(Plan(TWO, None, None, count=20), None, single, *given, True, 1) is None
    assert answer(Plan(TWO, None, None, count=900), None, training(1000), *given, True, 1) is None


def test_cells_that_loops_cannot_solve_are_left():
    data = training()
    noiseless = TrainingSet(data.X, data.y, np.where(np.arange(300) < 60, -1e-3, data.noise))  # points that coincide
    plan, given = Plan(TWO, None, None, count=30), cells()
    found = answer(plan, None, noiseless, *given, True, 1)
    near = noiseless.nearest(given[0], 30)
    coincide = np.array([any(row < 30 and row + 30 in rows for row in rows) for rows in near])
    np.testing.assert_array_equal(found.left, coincide)


@pytest.mark.parametrize("largest", [1e-3, 1.0, 30.0, 690.0, 1e4])
def test_exponentials(largest):
    loops = compiling.loops("nearfield.local.compiled_cells")
    exponents, out = -np.random.RandomState(0).uniform(0, largest, 1001), np.full(1001, 0.25)
    expected = 0.25 + 3.0 * np.exp(exponents)
    loops.add_exponentials(exponents.copy(), 3.0, np.empty(1001), out)
    np.testing.assert_allclose(out, expected, rtol=2e-15)
    out[:] = 0.0
    loops.add_exponentials(exponents.copy(), 1.0, np.empty(1001), out)
    np.testing.assert_allclose(out, np.exp(exponents), rtol=4e-14, atol=1e-300)


@pytest.mark.parametrize("exact_mean", [True, False])
def test_a_model_of_two_scales_is_close_to_the_exact_process(exact_mean, monkeypatch):
    rng = np.random.RandomState(0)
    X = rng.uniform(0, 14, (2100, 2))
    y = np.sin(X[:, 0]) + np.cos(0.3 * X[:, 1]) + 0.3 * rng.standard_normal(2100)
    given = {"length_scale": [1.0, 4.0], "signal_variance": [1.0, 1.0], "n_scales": 2, "noise_variance": 0.1}
    monkeypatch.setattr("nearfield.local.in_memory.NEIGHBOURS_COST", np.inf if exact_mean else 0.0)
    monkeypatch.setattr("nearfield.local.global_part.MOST_FEATURES", 0)  # all scales are the cells' own
    model = nf.LocalGPRegressor(**given, random_state=0).fit(X[:1800], y[:1800])
    assert model._fitted.exact_mean is not None or not exact_mean
    assert model._fitted.predictor.placement.sizes is not None
    answers = []
    for least in (0, 10**9):
        monkeypatch.setattr(fast_cells, "MIN_CELLS", least)
        for blend in (True, False):
            answers.append(model.set_params(blend=blend).predict(X[1800:], return_std=True))
    for by_loops, numpys in zip(answers[:2], answers[2:], strict=True):
        np.testing.assert_allclose(by_loops, numpys, atol=1e-10)
    mean, std = nf.ExactGPRegressor(**given).fit(X[:1800], y[:1800]).predict(X[1800:], return_std=True)
    kl = nf.metrics.kl_divergence(answers[0][0], answers[0][1] ** 2 + 0.1, mean, std**2 + 0.1)
    assert kl.mean() < 1e-3
