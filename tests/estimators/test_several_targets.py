"""Several targets share length scales, and each has variances, tails and a calibration of its own."""

import pickle

import numpy as np
import pytest
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize
from sklearn.base import clone

import nearfield as nf
from nearfield.sources import ArraySource

from ..small import exact_up_to

RNG = np.random.default_rng(0)
X = RNG.uniform(0, 10, (300, 1))
Y = np.column_stack(
    [
        1000 * (np.sin(X[:, 0]) + 0.3 * RNG.standard_normal(300)),
        np.cos(X[:, 0]) + 0.1 * RNG.standard_normal(300),
    ]
)
UNITS = np.array([1000.0, 1e-3])
PLACES = np.linspace(0.5, 9.5, 7)[:, None]
PLAIN = {"n_scales": 1, "random_state": 0, "n_restarts": 0}
REGRESSORS = {
    "exact": nf.ExactGPRegressor(**PLAIN),
    "local": nf.LocalGPRegressor(**PLAIN, noise="constant", likelihood="gaussian"),
    "features": nf.FeatureGPRegressor(nf.FourierFeatures(60, random_state=0), **PLAIN),
}


@pytest.fixture(scope="module", params=list(REGRESSORS))
def fitted(request):
    return clone(REGRESSORS[request.param]).fit(X, Y)


@pytest.fixture(scope="module")
def in_other_units(fitted):
    return clone(fitted).fit(X, Y * UNITS)


def test_each_target_has_its_own_variances(fitted):
    """As fitted alone, where both had the noise of the first."""
    _, std = fitted.predict(PLACES, return_std=True, include_noise=True)
    np.testing.assert_allclose(np.median(std, axis=0), [300, 0.1], rtol=0.1)
    for j in range(2):
        alone = clone(fitted).set_params(length_scale=fitted.length_scale_).fit(X, Y[:, j])
        mean, std_alone = alone.predict(PLACES, return_std=True, include_noise=True)
        np.testing.assert_allclose(std[:, j], std_alone, rtol=1e-6)
        np.testing.assert_allclose(fitted.predict(PLACES)[:, j], mean, rtol=1e-6, atol=1e-6 * np.std(Y[:, j]))
    assert fitted.noise_variance_.shape == fitted.signal_variance_.shape == (2,)


ANSWERS = {
    "predict": lambda m: m.predict(PLACES, return_std=True),
    "observations": lambda m: m.predict(PLACES, return_std=True, include_noise=True),
    "interval": lambda m: m.predict_interval(PLACES),
    "quantiles": lambda m: tuple(np.moveaxis(m.predict_quantiles(PLACES, [0.1, 0.9]), -1, 0)),
    "areas": lambda m: m.predict_areas(PLACES, [0, 0, 0, 1, 1, 1, 1])[:2],
    "gradient": lambda m: tuple(np.moveaxis(values, -1, 1)[:, :, 0] for values in m.predict_gradient(PLACES, True)),
    "samples": lambda m: tuple(np.moveaxis(m.sample_y(PLACES, 3, random_state=0), -1, 0)),
    "sampler": lambda m: tuple(np.moveaxis(m.sampler(3, random_state=0).maxima(PLACES), -1, 0)),
    "parts": lambda m: (m.predict_parts(PLACES).process.mean, m.predict_parts(PLACES).total.std),
    "left out": lambda m: (m.loo_.mean, m.loo_.std),
    "blocks": lambda m: (m.cross_validate(3).mean, m.cross_validate(3).std),
    "frame": lambda m: tuple(
        m.predict_frame(PLACES, include_noise=True)[[f"{name}_0", f"{name}_1"]].to_numpy() for name in ("mean", "upper")
    ),
    "grid": lambda m: (m.predict_grid([(1, 9)], size=4)["std"].to_numpy(),),
    "rows added": lambda m: _with_more(m).predict(PLACES, return_std=True),
    "file": lambda m: _stored(m).predict(PLACES, return_std=True),
    "pickle": lambda m: pickle.loads(pickle.dumps(m)).predict_interval(PLACES),
    "source": lambda m: m.predict(ArraySource(PLACES), return_std=True) if hasattr(m, "partial_fit") else (),
}


def _with_more(model):
    if not hasattr(model, "partial_fit"):
        return model
    return pickle.loads(pickle.dumps(model)).partial_fit(X[:20] + 0.05, Y[:20] * np.std(_y_of(model), axis=0))


def _y_of(model):
    return Y * (UNITS if model.signal_variance_[0] > 1e8 else 1.0) / np.std(Y, axis=0)


def _stored(model):
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.nf"
        nf.io.save(model, path)
        return nf.io.load(path)


@pytest.mark.parametrize("name", list(ANSWERS))
def test_a_unit_of_one_target_changes_its_answers_by_that_and_nothing_else(fitted, in_other_units, name):
    for before, after in zip(ANSWERS[name](fitted), ANSWERS[name](in_other_units), strict=True):
        assert before.shape[1] == 2
        unit = np.abs(before).max(axis=0) * UNITS
        np.testing.assert_allclose(after / unit, before * UNITS / unit, rtol=0, atol=1e-5)


def test_what_is_shared_is_the_maximum_of_the_joint_likelihood():
    """Of dense covariances, over one length scale and the variances of both targets, by another optimiser."""
    model = nf.ExactGPRegressor(**PLAIN).fit(X, Y)
    y = (Y - Y.mean(axis=0)) / Y.std(axis=0)
    squares = (X - X.T) ** 2

    def loss(theta):
        value = 0.0
        for j in range(2):
            K = np.exp(theta[1 + 2 * j] - 0.5 * squares * np.exp(-2 * theta[0]))
            factor = cho_factor(K + np.exp(theta[2 + 2 * j]) * np.eye(len(X)), lower=True)
            value += 0.5 * y[:, j] @ cho_solve(factor, y[:, j]) + np.log(np.diag(factor[0])).sum()
        return value

    best = minimize(loss, [0.5, 0.0, -2.0, 0.0, -4.0], method="L-BFGS-B", options={"ftol": 1e-12})
    ours = [np.log(model.length_scale_)]
    for j in range(2):
        variances = model.signal_variance_[j], model.noise_variance_[j]
        ours += list(np.log(np.array(variances) / Y[:, j].var()))
    assert loss(np.array(ours)) < best.fun + 0.05
    np.testing.assert_allclose(model.length_scale_, np.exp(best.x[0]), rtol=0.03)


def test_the_order_of_targets_does_not_matter(fitted):
    other = clone(fitted).fit(X, Y[:, ::-1])
    for one, two in zip(fitted.predict(PLACES, return_std=True), other.predict(PLACES, return_std=True), strict=True):
        np.testing.assert_allclose(one / two[:, ::-1], 1.0, rtol=1e-3)


def test_given_variances_hold_for_every_target_and_one_model_serves_all():
    given = {"length_scale": 1.0, "signal_variance": 2.0, "noise_variance": 0.1}
    model = nf.LocalGPRegressor(**given, random_state=0).fit(X, Y)
    assert not hasattr(model, "estimators_")
    assert model.noise_variance_ == 0.1


def test_a_target_that_is_constant_and_one_that_is_noise():
    rng = np.random.default_rng(1)
    targets = np.column_stack([np.full(300, 5.0), rng.standard_normal(300), np.sin(X[:, 0])])
    model = nf.ExactGPRegressor(**PLAIN)
    with pytest.warns(UserWarning, match="bound"):
        mean, std = model.fit(X, targets).predict(PLACES, return_std=True, include_noise=True)
    assert np.all(np.isfinite(mean))
    assert np.all(np.isfinite(std))
    np.testing.assert_allclose(mean[:, 0], 5.0, atol=1e-6)
    assert 0.8 < np.median(std[:, 1]) < 1.2
    np.testing.assert_allclose(mean[:, 2], np.sin(PLACES[:, 0]), atol=1e-2)


def test_local_models_of_several_targets_meet_the_tolerance_for_each():
    rng = np.random.default_rng(2)
    places = rng.uniform(0, 12, (400, 2))
    f = np.sin(places[:, 0]) * np.cos(places[:, 1])
    targets = np.column_stack([f + 0.5 * rng.standard_normal(400), 100 * f + rng.standard_normal(400)])
    with exact_up_to(0):
        model = nf.LocalGPRegressor(**PLAIN, noise="constant", likelihood="gaussian").fit(places, targets)
    certificate = model.certify(places[:40], random_state=0)
    assert certificate.mean.shape == certificate.std.shape == (40, 2)
    for one in model.estimators_:
        assert one.report_.divergence < 1e-3
    assert certificate.divergence < 5e-3
    assert "of 2 targets" in str(model.report_)


def test_targets_of_one_stream_are_learnt_apart():
    rng = np.random.default_rng(3)
    places = rng.uniform(0, 20, (1500, 1))
    targets = np.column_stack([np.sin(places[:, 0]) + 0.3 * rng.standard_normal(1500), 50 * np.cos(places[:, 0])])
    targets[:, 1] += rng.standard_normal(1500)
    source = ArraySource(places, targets, sample_size=600)
    model = nf.LocalGPRegressor(**PLAIN).fit(source)
    np.testing.assert_allclose(model.noise_variance_, [0.09, 1.0], rtol=0.3)
    np.testing.assert_allclose(model.predict(places), np.column_stack([np.sin(places), 50 * np.cos(places)]), atol=3)


def test_questions_about_hyperparameters_go_to_the_regressor_of_a_target(fitted):
    with pytest.raises(ValueError, match=r"estimators_\[i\]"):
        fitted.profile_likelihood("length_scale")
    with pytest.raises(ValueError, match=r"estimators_\[i\]"):
        fitted.log_marginal_likelihood(eval_gradient=True)
    assert np.isfinite(fitted.log_marginal_likelihood())
