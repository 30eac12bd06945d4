"""Distributions and left-out predictions of all regressors."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import nearfield as nf
from nearfield.sources import ArraySource

from ..warned import few_features

pytestmark = few_features

RNG = np.random.RandomState(0)
X = RNG.uniform(0, 6, (120, 2))
Y = np.sin(X[:, 0]) + 0.2 * RNG.standard_normal(120)
WEIGHTS = RNG.uniform(0.3, 3.0, 120)
GIVEN = {"length_scale": 1.0, "signal_variance": 1.0, "noise_variance": 0.04, "random_state": 0}


def makers():
    return {
        "exact": lambda: nf.ExactGPRegressor(**GIVEN),
        "feature": lambda: nf.FeatureGPRegressor(nf.TaylorFeatures(12), **GIVEN),
        "local": lambda: nf.LocalGPRegressor(**GIVEN),
    }


@pytest.fixture(scope="module", params=makers())
def name(request):
    return request.param


@pytest.fixture(scope="module")
def model(name):
    return makers()[name]().fit(X, Y, WEIGHTS)


def by_hand(model, left_out):
    """Means and standard deviations of observations left out together, from the whole covariance matrix."""
    if isinstance(model, nf.FeatureGPRegressor):
        rows = model._rows(X)
        K = rows.T @ rows
    else:
        K = model.kernel_(X, X)
    noise, kept = 0.04 / WEIGHTS, np.setdiff1d(np.arange(120), left_out)
    solved = np.linalg.solve(K[np.ix_(kept, kept)] + np.diag(noise[kept]), K[np.ix_(kept, left_out)])
    variance = np.diag(K[np.ix_(left_out, left_out)] - K[np.ix_(left_out, kept)] @ solved)
    return solved.T @ (Y[kept] - model.y_mean_) + model.y_mean_, np.sqrt(variance + noise[left_out])


def test_left_out_equals_refits(model):
    for i in range(120):
        mean, std = by_hand(model, np.array([i]))
        assert model.loo_.mean[i] == pytest.approx(mean[0], abs=1e-8)
        assert model.loo_.std[i] == pytest.approx(std[0], rel=1e-8)


def test_scores(model):
    loo = model.loo_
    assert model.loo_ is loo
    np.testing.assert_allclose(loo.y, Y, atol=1e-9)
    np.testing.assert_allclose(loo.residuals, Y - loo.mean, atol=1e-9)
    assert loo.rmse == pytest.approx(nf.metrics.rmse(Y, loo.mean))
    assert loo.nll == pytest.approx(nf.metrics.mean_nll(Y, loo.mean, std=loo.std))
    assert loo.crps == pytest.approx(nf.metrics.crps(Y, loo.mean, std=loo.std))
    assert loo.coverage(0.8) == nf.metrics.coverage(Y, loo.mean, std=loo.std, level=0.8)
    assert len(loo) == 120
    assert loo.probabilities.shape == loo.standardised.shape == (120,)
    assert "120 samples" in str(loo)


def test_cross_validation_by_blocks(model):
    labels = np.arange(120) % 3
    left_out = model.cross_validate(labels)
    for label in range(3):
        rows = np.flatnonzero(labels == label)
        mean, std = by_hand(model, rows)
        np.testing.assert_allclose(left_out.mean[rows], mean, atol=1e-8)
        np.testing.assert_allclose(left_out.std[rows], std, rtol=1e-8)
    assert model.cross_validate(4).rmse > model.loo_.rmse


@pytest.mark.parametrize("blocks", [1, 121, [0, 1], np.zeros(120), "two"])
def test_blocks_that_are_none(model, blocks):
    with pytest.raises(ValueError, match="'blocks' argument must be"):
        model.cross_validate(blocks)


def test_distributions(model):
    places = X[:7] + 0.1
    mean, std = model.predict(places, return_std=True, include_noise=True)
    latent = model.predict(places, return_std=True)[1]
    distribution = model.predict_distribution(places)
    np.testing.assert_allclose(distribution.mean, mean)
    np.testing.assert_allclose(distribution.std, std)
    lower, upper = model.predict_interval(places, 0.9)
    np.testing.assert_allclose(upper - lower, 2 * 1.6448536 * std, rtol=1e-6)
    np.testing.assert_allclose(model.predict_quantiles(places, 0.5), mean)
    assert model.predict_quantiles(places, [0.1, 0.5, 0.9]).shape == (7, 3)
    np.testing.assert_allclose(model.predict_above(places, mean), 0.5)
    np.testing.assert_allclose(model.predict_noise(places), 0.04)
    lower, upper = model.predict_interval(places, include_noise=False)
    np.testing.assert_allclose(upper - lower, 2 * 1.959963985 * latent, rtol=1e-6)
    # Probabilities of the function are those of its standard deviation.
    higher = model.predict_above(places, mean + latent, include_noise=False)
    np.testing.assert_allclose(higher, 0.158655254, rtol=1e-6)


def test_several_targets(name):
    both = makers()[name]().fit(X, np.column_stack([Y, 2 * Y]))
    assert both.predict_quantiles(X[:4], [0.1, 0.9]).shape == (4, 2, 2)
    assert both.predict_interval(X[:4])[0].shape == (4, 2)
    assert both.loo_.mean.shape == (120, 2)
    np.testing.assert_allclose(both.loo_.residuals[:, 1], 2 * both.loo_.residuals[:, 0], atol=1e-8)


def test_refits_forget_what_was_left_out(name):
    model = makers()[name]().fit(X, Y)
    before = model.loo_
    model.fit(X[:60], Y[:60])
    assert len(model.loo_) == 60 != len(before)


def test_no_rows_of_weight_zero(name):
    weights = np.ones(120)
    weights[:5] = 0
    assert len(makers()[name]().fit(X, Y, weights).loo_) == 115


def test_without_noise_and_with_a_constant():
    line = np.linspace(0, 5, 30)[:, None]
    exact = nf.ExactGPRegressor(length_scale=0.5, signal_variance=1.0, noise_variance=0).fit(line, np.sin(line[:, 0]))
    assert exact.loo_.rmse < 1e-3
    constant = nf.LocalGPRegressor(random_state=0).fit(line, np.ones(30))
    assert constant.loo_.rmse == 0
    assert np.isfinite(constant.loo_.nll)
    assert np.all(np.isfinite(constant.predict_interval(line)))


def test_not_fitted_and_no_rows(name):
    with pytest.raises(NotFittedError):
        _ = makers()[name]().loo_
    with pytest.raises(NotFittedError):
        makers()[name]().predict_interval(X)
    if name == "exact":
        return
    source = ArraySource(X, Y, sample_size=50)
    model = (
        makers()[name]()
        .set_params(**({"spacing": 1.0, "radius": 3.0, "features": nf.TaylorFeatures(8)} if name == "local" else {}))
        .fit(source)
    )
    for what in (lambda: model.loo_, lambda: model.cross_validate(3)):
        with pytest.raises(ValueError, match="keeps no training"):
            what()
    np.testing.assert_allclose(model.predict_interval(source), model.predict_interval(X))
    np.testing.assert_allclose(model.predict_noise(source), 0.04)


def test_tensors():
    torch = pytest.importorskip("torch")
    for make in makers().values():
        model = make().fit(torch.as_tensor(X), torch.as_tensor(Y))
        lower, upper = model.predict_interval(torch.as_tensor(X[:3]))
        assert isinstance(lower, torch.Tensor)
        assert bool((upper > lower).all())
        if not isinstance(model, nf.FeatureGPRegressor):
            plain = make().fit(X, Y)
            np.testing.assert_allclose(model.loo_.mean, plain.loo_.mean, atol=1e-7)
