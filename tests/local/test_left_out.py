"""Left-out residuals of local models against models made anew without the point."""

from dataclasses import replace

import numpy as np
import pytest

import nearfield as nf
from nearfield.local import fast_cells
from nearfield.local.left_out import _by_cells, _by_predictions, left_out
from nearfield.local.neighbourhoods import TrainingSet
from nearfield.local.predictor import LocalPredictor

RNG = np.random.RandomState(0)
X = RNG.uniform(0, 9, (400, 2))
Y = np.sin(X[:, 0]) + np.cos(1.3 * X[:, 1]) + 0.3 * RNG.standard_normal(400)
WEIGHTS = RNG.uniform(0.3, 3.0, 400)
GIVEN = {"length_scale": 1.0, "signal_variance": 1.0, "noise_variance": 0.09, "n_jobs": 1, "random_state": 0}
SOME = np.arange(0, 400, 23)


def refitted(model, i):
    """Residual and variance of an observation by models of the same cells without the point."""
    predictor = model._fitted.predictor
    data, plan = predictor.data, predictor.plan
    kept = np.arange(len(data.X)) != i
    # A neighbourhood by number has one point less, not another one in its place.
    plan = plan if plan.count is None else replace(plan, count=plan.count - 1)
    rest = TrainingSet.of(data.X[kept], data.y[kept, :-1], data.noise[kept])
    made = LocalPredictor.fit(plan, rest, predictor.placement, predictor.open_centers, predictor.engine)
    mean, variance = made.predict(data.X[i : i + 1], True)
    return (data.y[i] - mean[0])[0], variance[0] + data.noise[i]


PLANS = {
    "features": {"radius": 3.5, "spacing": 1.5, "features": nf.TaylorFeatures(6)},
    "no correction": {"radius": None, "spacing": 3.0, "features": nf.TaylorFeatures(20), "correction": False},
    "kernel": {"radius": 2.5, "spacing": 1.0, "features": "kernel"},
    "holes": {"radius": 2.5, "spacing": 1.0, "features": "kernel", "centers": np.array([[1.0, 1.0], [6.0, 6.0]])},
    "on each point": {"radius": 2.0, "spacing": 1.0, "features": "kernel", "centers": "test"},
    "exact": {},
}


@pytest.mark.parametrize("weights", [None, WEIGHTS])
@pytest.mark.parametrize("plan", PLANS)
def test_equal_refits(plan, weights):
    model = nf.LocalGPRegressor(**GIVEN, **PLANS[plan]).fit(X, Y, weights)
    residuals, variances = left_out(model._fitted, 1, SOME)
    for i, residual, variance in zip(SOME, residuals[:, 0], variances, strict=True):
        expected = refitted(model, i)
        noise = model._fitted.predictor.data.noise[i]
        np.testing.assert_allclose((residual, variance + noise), expected, rtol=1e-8, atol=1e-8)
    by_models_at_hand, _ = _by_predictions(model._fitted.predictor, SOME)
    assert by_models_at_hand.any() == (plan in ("features", "kernel", "holes"))
    assert by_models_at_hand.all() == (plan in ("features", "kernel"))


def test_with_little_noise_equal_refits():
    given = {**GIVEN, "noise_variance": 1e-5}
    model = nf.LocalGPRegressor(**given, **PLANS["kernel"]).fit(X, Y)
    residuals, variances = left_out(model._fitted, 1, SOME)
    assert not _by_predictions(model._fitted.predictor, SOME)[0].any()
    expected = np.array([refitted(model, i) for i in SOME])
    np.testing.assert_allclose(residuals[:, 0], expected[:, 0], rtol=1e-6)
    np.testing.assert_allclose(variances + 1e-5, expected[:, 1], rtol=1e-6)


@pytest.mark.parametrize("min_cells", [0, np.inf], ids=["compiled loops", "NumPy"])
def test_neighbours_by_number_equal_refits(min_cells, monkeypatch):
    monkeypatch.setattr(fast_cells, "MIN_CELLS", min_cells)
    many = np.concatenate([X, X + 9.5])
    target = np.concatenate([Y, Y])
    scales = {**GIVEN, "length_scale": [0.5, 3.0], "signal_variance": [0.5, 0.5]}
    model = nf.LocalGPRegressor(**scales).fit(many, target)
    predictor = model._fitted.predictor
    from nearfield.local import graded
    from nearfield.local.plan import Plan

    kernel = model._fitted.frame.kernel
    plan = Plan(kernel, None, None, count=30)
    placement = graded.place(np.empty((0, 2)), predictor.data.X, kernel, 30, 0.3, 1)
    cells = LocalPredictor.fit(plan, predictor.data, placement, True, predictor.engine)
    residuals, variances = _by_cells(cells, SOME, 1)
    if min_cells:
        assert 0 < len(cells.kept) <= len(SOME)  # for whoever asks next
    fitted = replace(model._fitted, predictor=cells)
    n_inside = 0
    for i, residual, variance in zip(SOME, residuals[:, 0], variances, strict=True):
        _, owner, _ = graded.weights(placement, predictor.data.X[i : i + 1], False, 1)
        near = predictor.data.nearest(placement.centers[owner], 30)[0]
        kept = near[near != i]
        n_inside += len(kept) < len(near)
        K = kernel(predictor.data.X[kept], predictor.data.X[kept]) + np.diag(predictor.data.noise[kept])
        k = kernel(predictor.data.X[kept], predictor.data.X[i : i + 1])[:, 0]
        weights = np.linalg.solve(K, k)
        y = predictor.data.y[:, 0]
        expected = y[i] - weights @ y[kept], kernel.variance - weights @ k + predictor.data.noise[i]
        np.testing.assert_allclose((residual, variance), expected, rtol=1e-8, atol=1e-8)
    assert n_inside > 10
    assert len(left_out(fitted, 1)[0]) == 800


def test_long_scales_and_an_exact_mean_are_close_to_the_exact_process():
    # Here neighbourhoods approximate, and what is left out of the long scales with them.
    rng = np.random.RandomState(1)
    places = rng.uniform(0, 30, (1800, 2))
    target = np.sin(places[:, 0] / 5) + 0.5 * np.sin(3 * places[:, 1]) + 0.3 * rng.standard_normal(1800)
    scales = {**GIVEN, "length_scale": [0.6, 8.0], "signal_variance": [0.3, 0.7]}
    exact = nf.ExactGPRegressor(**{k: v for k, v in scales.items() if k != "n_jobs"}).fit(places, target).loo_
    near = nf.LocalGPRegressor(**scales, tolerance=1e-4).fit(places, target)
    assert near._fitted.global_part is not None
    np.testing.assert_allclose(near.loo_.mean, exact.mean, atol=0.05)
    assert np.std(near.loo_.mean - exact.mean) < 0.003
    np.testing.assert_allclose(near.loo_.std, exact.std, rtol=0.01)
    assert abs(near.loo_.nll - exact.nll) < 1e-3
