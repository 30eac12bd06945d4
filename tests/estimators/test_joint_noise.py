"""The exact process and that of one feature map, whose noise is learnt from left-out residuals."""

import pickle

import numpy as np
import pytest

import nearfield as nf
from nearfield.hyperparameters.noise import NoiseModel

N = 600
GIVEN = {"length_scale": 1.0, "signal_variance": 1.0, "random_state": 0, "n_jobs": 1, "n_restarts": 0}


def exact(**options):
    return nf.ExactGPRegressor(**{**GIVEN, "noise": "auto", "likelihood": "auto", **options})


def by_features(**options):
    return nf.FeatureGPRegressor(nf.FourierFeatures(400, random_state=0), **{**GIVEN, "noise": "auto", **options})


def truth(X):
    return np.sin(1.6 * X[:, 0]) + np.cos(1.4 * X[:, 1])


def variance(X):
    return 0.1 * np.exp(2.0 * np.sin(0.6 * X[:, 0]))


def points(seed, n=N):
    return np.random.RandomState(seed).uniform(0, 10, (n, 2))


X, TEST = points(0), points(1, 2000)
Z = np.random.RandomState(2).standard_normal(N)
Y = truth(X) + np.sqrt(variance(X)) * Z
Y_TEST = truth(TEST) + np.sqrt(variance(TEST)) * np.random.RandomState(3).standard_normal(len(TEST))
both = pytest.mark.parametrize("make", [exact, by_features])


@pytest.fixture(scope="module", params=[exact, by_features])
def fitted(request):
    return request.param().fit(X, Y)


def test_noise_of_local_size(fitted):
    assert fitted.noise_model_.field is not None
    assert not fitted.noise_model_.of_all
    ratio = fitted.predict_noise(TEST) / variance(TEST)
    assert np.median(np.abs(ratio - 1)) < 0.3
    plain = fitted.__class__(**{**fitted.get_params(deep=False), "noise": "constant"}).fit(X, Y)
    gain = np.mean(fitted.predict_distribution(TEST).logpdf(Y_TEST) - plain.predict_distribution(TEST).logpdf(Y_TEST))
    assert gain > 0.05
    low, high = fitted.predict_interval(TEST)
    assert np.mean(np.abs(Y_TEST - (low + high) / 2) <= (high - low) / 2) == pytest.approx(0.95, abs=0.02)


def test_it_goes_back_into_the_fit_as_weights(fitted):
    field = fitted.predict_noise(X)
    given = {**fitted.get_params(deep=False), "noise": "constant", "noise_variance": fitted.noise_variance_}
    by_hand = fitted.__class__(**given).fit(X, Y, fitted.noise_variance_ / field)
    plain = fitted.__class__(**given).fit(X, Y)
    mean = fitted.predict(TEST)
    # The weights are those of the round before the last, which differ a little.
    assert np.std(mean - by_hand.predict(TEST)) < 0.4 * np.std(mean - plain.predict(TEST))


def test_answers_agree(fitted):
    distribution = fitted.predict_distribution(TEST[:50])
    mean, std = fitted.predict(TEST[:50], return_std=True, include_noise=True)
    np.testing.assert_allclose(mean, distribution.mean)
    np.testing.assert_allclose(std, distribution.std)
    latent = fitted.predict(TEST[:50], return_std=True)[1]
    covariance = fitted.predict(TEST[:50], return_cov=True)[1]
    noisy = fitted.predict(TEST[:50], return_cov=True, include_noise=True)[1]
    np.testing.assert_allclose(np.diagonal(covariance), latent**2, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(np.diagonal(noisy - covariance), fitted.predict_noise(TEST[:50]))
    draws = fitted.sample_y(TEST[:50], 4000, random_state=0, include_noise=True)
    np.testing.assert_allclose(draws.var(axis=1), np.diagonal(noisy), rtol=0.15)


def test_left_out_observations_have_the_noise_of_their_place(fitted):
    left_out = fitted.loo_
    assert left_out.coverage() == pytest.approx(0.95, abs=0.02)
    for scored in (left_out, fitted.cross_validate(blocks=5)):
        share = fitted.predict_noise(X) / scored.std**2
        assert np.all(share < 1 + 1e-9)
    assert np.median(fitted.predict_noise(X) / left_out.std**2) > 0.5


def test_files(fitted, tmp_path):
    assert fitted._is_weighted
    nf.save(fitted, tmp_path / "model.nf")
    for other in (nf.load(tmp_path / "model.nf"), pickle.loads(pickle.dumps(fitted))):
        np.testing.assert_allclose(other.predict_noise(TEST[:9]), fitted.predict_noise(TEST[:9]), rtol=1e-9)
        np.testing.assert_allclose(other.predict_interval(TEST[:9]), fitted.predict_interval(TEST[:9]), rtol=1e-6)


@both
def test_plain_noise_is_left_alone(make):
    y = truth(X) + 0.3 * Z
    model, plain = make().fit(X, y), make(noise="constant").fit(X, y)
    assert model.noise_model_.is_plain
    np.testing.assert_array_equal(model.predict(TEST), plain.predict(TEST))
    assert nf.ExactGPRegressor(**GIVEN).fit(X, Y).noise_model_.is_plain  # unless it is asked for


@both
def test_outliers_do_not_move_the_map(make):
    clean = truth(X) + 0.3 * Z
    wild = clean + 8.0 * (np.arange(N) % 100 == 7)
    errors = [nf.metrics.rmse(truth(TEST), make().fit(X, y).predict(TEST)) for y in (clean, wild)]
    assert errors[1] < 1.15 * errors[0]
    plain = make(noise="constant", **({"likelihood": "gaussian"} if make is exact else {}))
    assert nf.metrics.rmse(truth(TEST), plain.fit(X, wild).predict(TEST)) > 1.5 * errors[0]


def test_student_alone():
    y = truth(X) + 0.3 * np.random.RandomState(5).standard_t(3, N)
    model = exact(noise="constant", likelihood="student").fit(X, y)
    assert model.noise_model_.field is None
    assert 2 < model.noise_model_.dof < 8


def test_weights_divide_the_noise():
    weights = np.random.RandomState(5).uniform(0.2, 5.0, N)
    model = exact().fit(X, truth(X) + np.sqrt(variance(X) / weights) * Z, weights)
    assert np.median(np.abs(model.predict_noise(TEST) / variance(TEST) - 1)) < 0.3
    assert np.corrcoef(np.log(model.loo_.std), -np.log(weights))[0, 1] > 0.3


def test_further_data():
    model = by_features().fit(X, Y)
    more = points(7, 300)
    noise = np.sqrt(variance(more)) * np.random.RandomState(8).standard_normal(300)
    model.partial_fit(more, truth(more) + noise)
    together = by_features(noise="constant", noise_variance=model.noise_variance_).fit(
        np.concatenate([X, more]),
        np.concatenate([Y, truth(more) + noise]),
        model.noise_variance_ / model.predict_noise(np.concatenate([X, more])),
    )
    alone = by_features(noise="constant").fit(more, truth(more) + noise).predict(TEST)
    error, scale = (np.std(mean - together.predict(TEST)) for mean in (model.predict(TEST), alone))
    assert error < 0.2 * scale
    with pytest.raises(ValueError, match="takes in arrays only"):
        model.partial_fit(nf.sources.ArraySource(more, truth(more)))


def test_drift_and_mean():
    columns = np.column_stack([X, X[:, 0]])
    model = exact(drift=[2], coordinates=[0, 1]).fit(columns, Y + 3 * X[:, 0])
    assert model.noise_model_.field is not None
    assert model.drift_coef_.values[-1] == pytest.approx(3.0, abs=0.3)
    ratio = model.predict_noise(np.column_stack([TEST, TEST[:, 0]])) / variance(TEST)
    assert np.median(np.abs(ratio - 1)) < 0.35


def test_each_of_several_targets_has_noise_of_its_own_kind():
    rng = np.random.default_rng(5)
    both = exact(noise="auto").fit(X, np.column_stack([Y, truth(X) + 0.3 * rng.standard_normal(len(X))]))
    alone = exact(noise="auto").fit(X, Y)
    assert [one.noise_model_.field is None for one in both.estimators_] == [False, True]
    np.testing.assert_allclose(both.predict_noise(TEST)[:, 0], alone.predict_noise(TEST), rtol=1e-6)


def test_where_it_is_refused():
    given = {"signal_variance": 1.0, "noise_variance": 0.1}  # for every target: one model serves all
    with pytest.raises(ValueError, match="'noise' parameter of ExactGPRegressor must be left as it is for several"):
        exact(noise="local", **given).fit(X, np.column_stack([Y, Y]))
    with pytest.raises(ValueError, match=r"'noise' .* must be 'constant' or 'auto' for rows of a source"):
        by_features(noise="local").fit(nf.sources.ArraySource(X, Y))
    assert by_features().fit(nf.sources.ArraySource(X, Y)).noise_model_.is_plain
    with pytest.raises(ValueError, match="must be one of 'auto', 'constant', 'local'"):
        by_features(noise="loud").fit(X, Y)
    with pytest.raises(ValueError, match="need at least 50 samples"):
        exact(noise="local").fit(X[:20], Y[:20])
    assert exact().fit(X[:20], Y[:20]).noise_model_.is_plain
    assert exact(noise_variance=0.1).fit(X, Y).noise_model_.is_plain
    assert isinstance(nf.ExactGPRegressor().noise_model_, NoiseModel)
