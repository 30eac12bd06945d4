"""Draws, areas, covariances and gradients of models of tensors are those of the same model on arrays."""

import numpy as np
import pytest
from sklearn.base import clone

import nearfield as nf
from nearfield.estimators.twins import twin_of

torch = pytest.importorskip("torch")

SETTINGS = {"length_scale": 1.0, "signal_variance": 1.0, "noise_variance": 0.1, "random_state": 0}
KINDS = {
    "features": {**SETTINGS, "spacing": 2.0, "radius": 3.0, "features": nf.TaylorFeatures(9)},
    "two scales": {**SETTINGS, "length_scale": [0.5, 5.0], "signal_variance": [1.0, 1.0], "n_scales": 2},
}


@pytest.fixture(scope="module", params=KINDS)
def models(request):
    """The same model on arrays and on tensors."""
    rng = np.random.RandomState(0)
    X = rng.uniform(0, 9, (700, 2))
    y = np.sin(X[:, 0]) * np.cos(X[:, 1]) + 0.3 * rng.standard_normal(700) + 5.0
    on_arrays, on_tensors = (nf.LocalGPRegressor(**KINDS[request.param]) for _ in range(2))
    return on_arrays.fit(X, y), on_tensors.fit(torch.as_tensor(X), torch.as_tensor(y))


def places():
    return np.random.RandomState(1).uniform(-1, 10, (60, 2))


def assert_same(found, expected, atol):
    assert isinstance(found, torch.Tensor)
    np.testing.assert_allclose(found.numpy(), expected, atol=atol)


def test_draws(models, tmp_path):
    """They are those of the model saved and loaded, which is one of arrays."""
    _, on_tensors = models
    X, at = places(), torch.as_tensor(places())
    nf.save(on_tensors, tmp_path / "model.nf")
    stored = nf.load(tmp_path / "model.nf").sampler(8, 3)
    assert_same(on_tensors.sample_y(at, 8, 3), stored(X), 1e-4)
    sampler = on_tensors.sampler(8, 3)
    np.testing.assert_array_equal(sampler(X), sampler(at).numpy())  # it takes arrays too
    groups = np.arange(60) % 3
    np.testing.assert_allclose(sampler.maxima(at, groups), stored.maxima(X, groups), atol=1e-4)
    assert sampler(at.float()).dtype == torch.float32


def test_draws_have_the_distribution_of_those_on_arrays(models):
    on_arrays, on_tensors = models
    at, S = places(), 600
    mean, std = on_arrays.predict(at, return_std=True)
    draws = on_tensors.sample_y(torch.as_tensor(at), S, 1).numpy()
    assert np.sqrt(np.mean(((draws.mean(axis=1) - mean) / std) ** 2)) < 2 / S**0.5
    assert np.mean(draws.var(axis=1) / std**2) == pytest.approx(1.0, abs=0.05)


def test_gradients_covariances_and_areas(models):
    on_arrays, on_tensors = models
    X, at = places(), torch.as_tensor(places())
    for found, expected in zip(
        on_tensors.predict_gradient(at, return_std=True), on_arrays.predict_gradient(X, return_std=True), strict=True
    ):
        assert_same(found, expected, 1e-2)
    assert_same(on_tensors.predict(at, return_cov=True)[1], on_arrays.predict(X, return_cov=True)[1], 1e-6)
    areas, expected = (model.predict_areas(X, np.arange(60) % 3) for model in (on_tensors, on_arrays))
    np.testing.assert_allclose(areas.mean, expected.mean, atol=1e-2)
    np.testing.assert_allclose(areas.std, expected.std, rtol=1e-5)


def test_further_data_are_drawn_from(models):
    _, on_tensors = models
    before = on_tensors.sample_y(places(), 2, 0)
    again = clone(on_tensors)
    rng = np.random.RandomState(5)
    X = torch.as_tensor(rng.uniform(0, 9, (300, 2)))
    again.fit(X, X[:, 0] * 0.0 + 7.0)
    assert np.abs(again.sample_y(places(), 2, 0) - before).max() > 0.5


def test_other_regressors_say_that_a_sampler_needs_arrays():
    X = torch.as_tensor(places())
    model = nf.ExactGPRegressor(length_scale=1.0, signal_variance=1.0, noise_variance=0.1).fit(X, X[:, 0])
    with pytest.raises(ValueError, match="fitted on NumPy arrays; this one was fitted on tensors"):
        model.sampler(3)
    with pytest.raises(ValueError, match="fitted on NumPy arrays; this one was fitted on tensors"):
        model.predict_gradient(X)


def test_the_twin_has_the_parameters_of_now():
    rng = np.random.RandomState(0)
    X = torch.as_tensor(rng.uniform(0, 9, (200, 2)))
    model = nf.LocalGPRegressor(**KINDS["features"]).fit(X, torch.sin(X[:, 0]))
    first = twin_of(model)
    model.set_params(blend=not model.blend, n_jobs=1)
    second = twin_of(model)
    assert second.get_params() == model.get_params()
    assert second._fitted.predictor.engine.n_jobs == 1
    assert second._fitted.predictor.models is first._fitted.predictor.models  # which are made once
