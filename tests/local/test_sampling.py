"""Many targets at once: the same answers as one by one, and as by refitting."""

import warnings
from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest

from nearfield import LocalGPRegressor, TaylorFeatures
from nearfield.common.errors import OutOfReachError
from nearfield.local import covariance, fast, in_memory, iteration, many_targets, model, sampling
from nearfield.local.sampling import draw, for_targets

from ..small import exact_up_to

SETTINGS = {"length_scale": 1.0, "signal_variance": 1.0, "noise_variance": 0.1, "random_state": 0}
KINDS = {
    "moments": {"features": TaylorFeatures(9), "radius": 3.0, "spacing": 1.5},
    "products": {"features": TaylorFeatures(2), "radius": 2.0, "spacing": 1.0},
    "kernel space": {"features": "kernel", "radius": 2.5, "spacing": 1.0},
}


def fitted(kind, blend=True, n=900):
    rng = np.random.RandomState(1)
    X = rng.uniform(0, 9, (n, 2))
    y = np.sin(X[:, 0]) + 0.3 * rng.standard_normal(n)
    return LocalGPRegressor(**SETTINGS, **KINDS[kind], blend=blend).fit(X, y)._fitted


def places():
    return np.random.RandomState(2).uniform(-3, 12, (500, 2))  # some where cells are opened


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("blend", [False, True])
def test_many_targets_at_once_or_one_by_one(kind, blend, monkeypatch):
    given = fitted(kind, blend)
    data, n = given.training_set(), given.predictor.n_samples
    order = np.random.RandomState(3).permutation(n)
    y = np.random.RandomState(4).standard_normal((n, 8))
    shuffled = type(data)(data.X[order], y, data.noise[order])
    at = given.frame.points(places())
    together = for_targets(given, shuffled, order, 1).predict_all(at, False, blend)[0]
    restored = np.empty_like(y)
    restored[order] = y
    for j in range(0, 8, 4):
        refitted = given.updated(data.X * given.frame.unit, restored[:, [j]] + given.frame.offset, None, True)
        expected = refitted.predict_all(at, False, blend)[0][:, 0]
        np.testing.assert_allclose(together[:, j], expected, atol=1e-8)
    # By the general way, which holds all answers before they are weighed.
    monkeypatch.setattr(many_targets, "predict", lambda *_: None)
    np.testing.assert_allclose(
        for_targets(given, shuffled, order, 1).predict_all(at, False, blend)[0], together, atol=1e-9
    )


def test_models_that_are_made_anew_answer_the_same(monkeypatch):
    """Where models of all centres would fill the memory, none is kept; they differ by rounding in single precision."""
    given = fitted("moments")
    at = places()
    expected = draw(given, 5, range(8), 1)(at, True, 1)[0]
    forgetful = replace(given, predictor=replace(given.predictor, models=[]))
    np.testing.assert_allclose(draw(forgetful, 5, range(8), 1)(at, True, 1)[0], expected, atol=1e-4)
    monkeypatch.setattr(model, "MANY_TARGETS", 1000)
    np.testing.assert_allclose(draw(forgetful, 5, range(8), 1)(at, True, 1)[0], expected, atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_single_precision_is_nothing_beside_the_posterior(kind, monkeypatch):
    given, at = fitted(kind), places()
    is_double, rounded = [], draw(given, 5, range(8), 1)
    std = np.sqrt(given.predict_all(given.frame.points(at), True, True)[1])[:, None]
    monkeypatch.setattr(sampling, "_may_be_single", lambda *_: is_double.append(True))
    exact = draw(given, 5, range(8), 1)(at, True, 1)[0]
    assert is_double
    error = (rounded(at, True, 1)[0] - exact) / std
    assert 0 < np.sqrt(np.mean(error**2)) < many_targets.NEGLIGIBLE


def test_compiled_products_are_those_of_numpy(monkeypatch):
    pytest.importorskip("numba")
    given, at, asked = fitted("moments"), places(), []
    expected = draw(given, 5, range(8), 1)(at, True, 1)[0]
    monkeypatch.setattr(fast, "MIN_CENTERS", 1)
    monkeypatch.setattr(fast, "products", lambda *given, of=fast.products: asked.append(of(*given)) or asked[-1])
    np.testing.assert_allclose(draw(given, 5, range(8), 2)(at, True, 2)[0], expected, atol=1e-4)
    assert asked[0] is not None


def test_double_precision_where_noise_is_small_or_targets_are_large():
    given = fitted("moments")
    targets, noise = given.predictor.data.y[:, :1], given.predictor.data.noise
    assert sampling._may_be_single(given, targets, noise)
    assert not sampling._may_be_single(given, targets, 1e-7 * noise)
    assert not sampling._may_be_single(given, 1e4 * targets, noise)
    plan, n = given.predictor.plan, 100
    assert many_targets.rounding_of_products(plan, 5.0, n, 0.1) < many_targets.NEGLIGIBLE
    assert many_targets.rounding_of_products(plan, 5.0, n, 1e-3) > many_targets.NEGLIGIBLE


def test_numbers_of_functions_do_not_matter():
    given, at = fitted("moments"), places()
    eight = draw(given, 5, range(8), 1)(at, True, 1)[0]
    np.testing.assert_allclose(draw(given, 5, range(3, 6), 2)(at, True, 2)[0], eight[:, 3:6], atol=1e-4)


@pytest.mark.parametrize("blend", [False, True])
def test_variances_are_there_with_many_targets_too(blend):
    """Further targets of long scales are many, and their models are asked for variances."""
    rng = np.random.RandomState(1)
    X = rng.uniform(0, 9, (900, 2))
    y = rng.standard_normal((900, 8))
    models = [LocalGPRegressor(**SETTINGS, **KINDS["moments"]).fit(X, each) for each in (y, y[:, :1])]
    at = models[0]._fitted.frame.points(places())
    many, single = (model._fitted.predict_all(at, True, blend) for model in models)
    np.testing.assert_allclose(many[1], single[1], rtol=1e-9)
    np.testing.assert_allclose(many[0][:, 0], single[0][:, 0], atol=1e-9)


@pytest.fixture
def not_converging(monkeypatch):
    monkeypatch.setattr(iteration, "MAX_ITERATIONS", 1)
    monkeypatch.setattr(iteration, "N_EARLIER", 2)
    monkeypatch.setattr(iteration, "node_cost", lambda *_: np.inf)


@pytest.mark.usefixtures("not_converging")
def test_what_has_not_converged_is_refused(monkeypatch):
    given = fitted("moments")
    with pytest.raises(OutOfReachError, match="900 samples is out of reach"):
        draw(given, 5, range(4), 1, exact=True)
    monkeypatch.setattr(covariance, "DENSE_UP_TO", 100)
    at = given.frame.points(places()[:5])
    conditioning = covariance.Conditioning.near(given.frame.kernel, given.training_set(), at, 1, None)
    with pytest.raises(OutOfReachError, match="is out of reach"):
        covariance.covariance(conditioning, at, 1)


def test_an_exact_mean_that_is_lost_is_told_of(monkeypatch, request):
    rng = np.random.RandomState(1)
    X = rng.uniform(0, 9, (700, 2))
    y = np.sin(X[:, 0]) + 0.3 * rng.standard_normal(700)
    kernel = {"length_scale": [0.3, 1.1, 15.0], "signal_variance": [0.3, 1.0, 2.0], "noise_variance": 0.1}
    with exact_up_to(0), pytest.MonkeyPatch.context() as patch:
        patch.setattr(in_memory.FramedArrays, "prefers_exact_mean", lambda *_: True)
        model = LocalGPRegressor(**kernel, random_state=0).fit(X[:600], y[:600])
    assert model.report_.exact_mean
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert deepcopy(model).partial_fit(X[600:], y[600:]).report_.exact_mean
    request.getfixturevalue("not_converging")
    with pytest.warns(UserWarning, match="exact mean could not be solved for again"):
        model.partial_fit(X[600:], y[600:])
    report = model.report_
    assert not report.exact_mean
    assert report.divergence is None
    assert report.tolerance_met is None
    assert "exact" not in str(report)
