"""How many length scales: found where they are, and not where they are not."""

import copy
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import nearfield as nf
from nearfield.hyperparameters.blocks import LearningData
from nearfield.hyperparameters.composite import maximise_composite_likelihood
from nearfield.hyperparameters.learning import learn_hyperparameters
from nearfield.hyperparameters.request import LearningRequest
from nearfield.hyperparameters.scales import learn_with_scales
from nearfield.kernels import Kernel
from nearfield.local.neighbourhoods import TrainingSet

from ..warned import few_features


def waves(X, length_scale, rng, n=1500):
    """A draw from a Gaussian process with a Gaussian kernel of unit variance, by random Fourier features."""
    frequencies, phases = rng.standard_normal((n, X.shape[1])) / length_scale, rng.uniform(0, 2 * np.pi, n)
    return (2 / n) ** 0.5 * np.cos(X @ frequencies.T + phases).sum(axis=1)


def problem(length_scales, n=4000, side=30.0, noise=0.05, seed=0):
    rng = np.random.RandomState(seed)
    X = rng.uniform(0, side, (n, 2))
    y = sum(waves(X, scale, rng) for scale in length_scales) + noise**0.5 * rng.standard_normal(n)
    return X, y


def learn(X, y, n_scales):
    centered = (y - y.mean())[:, None]
    request = LearningRequest(n_scales=n_scales, n_restarts=1)
    return learn_with_scales(LearningData(X, centered), request, np.random.RandomState(0))


def test_one_scale_stays_one():
    learned = learn(*problem([2.0]), None)
    assert learned.kernel.n_scales == 1
    np.testing.assert_allclose(learned.kernel.length_scales, [[2.0]], rtol=0.1)


def test_two_scales_are_found():
    learned = learn(*problem([0.8, 8.0]), None)
    assert learned.kernel.n_scales >= 2
    lengths = learned.kernel.length_scales[:, 0]
    assert np.min(np.abs(np.log(lengths / 0.8))) < 0.25
    assert np.min(np.abs(np.log(lengths / 8.0))) < 0.5


def test_two_scales_are_found_where_the_noise_is_given():
    X, y = problem([0.8, 8.0], n=1500)
    model = nf.ExactGPRegressor(n_scales="auto", noise_variance=0.1, n_restarts=0, random_state=0).fit(X, y)
    assert model.kernel_.n_scales >= 2
    assert model.noise_variance_ == pytest.approx(0.1)


@pytest.mark.filterwarnings("ignore:These estimates")
def test_scales_that_coincide_are_merged_where_the_noise_is_given():
    X, y = problem([2.0], n=500)
    with pytest.warns(UserWarning, match="n_scales=3, but the data tell only"):
        model = nf.ExactGPRegressor(n_scales=3, noise_variance=0.1, n_restarts=0, random_state=0).fit(X, y)
    assert model.kernel_.n_scales < 3


def test_learning_that_ran_out_of_time_says_so_with_several_scales(monkeypatch):
    def stopped(*args, **options):
        return replace(maximise_composite_likelihood(*args, **options), converged=False)

    monkeypatch.setattr("nearfield.hyperparameters.scales.maximise_composite_likelihood", stopped)
    X, y = problem([0.8, 8.0], n=400)
    with pytest.warns(ConvergenceWarning, match="before it converged"):
        model = nf.ExactGPRegressor(n_scales=2, n_restarts=0, random_state=0).fit(X, y)
    assert model.kernel_.n_scales == 2


def test_more_scales_than_the_data_tell_apart_are_dropped_with_a_note():
    X, y = problem([2.0], n=500, seed=1)
    with pytest.warns(UserWarning, match="n_scales=3"):
        model = nf.ExactGPRegressor(n_scales=3, random_state=0, n_restarts=0).fit(X[:400], y[:400])
    assert np.size(model.length_scale_) < 3
    assert np.all(np.isfinite(model.predict(X[400:])))


def test_coinciding_and_vanishing_components_are_merged_and_dropped():
    kernel = Kernel(np.array([[5.0], [1.0], [1.1], [3.0]]), np.array([1.0, 0.5, 0.25, 1e-6]))
    simple = kernel.simplified(0.1)
    np.testing.assert_allclose(simple.length_scales, [[1.0], [5.0]])
    np.testing.assert_allclose(simple.variances, [0.75, 1.0])


SHORT_AND_LONG = {"length_scale": [0.8, 8.0], "signal_variance": [1.0, 1.0], "noise_variance": 0.05, "n_scales": 2}


@cache
def short_and_long():
    """Inputs and targets, of which the first 2000 train, and a local model of them."""
    X, y = problem([0.8, 8.0], n=2500, side=21.0)
    return X, y, nf.LocalGPRegressor(**SHORT_AND_LONG, tolerance=1e-2, random_state=0).fit(X[:2000], y[:2000])


def test_local_prediction_keeps_the_tolerance_with_several_scales():
    X, y, model = short_and_long()
    train, test = slice(0, 2000), slice(2000, 2500)
    exact = nf.ExactGPRegressor(**SHORT_AND_LONG).fit(X[train], y[train])
    mean_ref, std_ref = exact.predict(X[test], return_std=True, include_noise=True)
    assert model.report_.n_global > 0
    mean, std = model.predict(X[test], return_std=True, include_noise=True)
    true = nf.metrics.kl_divergence(mean, std**2, mean_ref, std_ref**2).mean()
    assert true <= 1e-2
    assert true / 3 <= model.report_.divergence <= 8 * true  # if in doubt, on the safe side
    assert "length scales" in str(model.report_)
    assert "over the whole domain" in str(model.report_)


def test_models_are_kept_where_there_is_room(monkeypatch):
    X, y = problem([0.3, 0.9, 8.0], n=3000)
    given = {"length_scale": [0.3, 0.9, 8.0], "signal_variance": [1.0] * 3, "noise_variance": 0.05, "n_scales": 3}
    model = nf.LocalGPRegressor(**given, tolerance=0.05, random_state=0).fit(X, y)
    frugal = copy.deepcopy(model)
    assert model.report_.least_neighbours > 0
    expected = model.predict(X[:300] + 0.01, return_std=True)
    kept = dict(model._predictor.kept._models)
    assert len(kept) > 10
    model.predict(X[:300] + 0.01)
    assert all(model._predictor.kept.get(i) is cell for i, cell in kept.items())
    assert model._predictor.kept.n_bytes == sum(cell.n_bytes for cell in kept.values())
    monkeypatch.setattr("nearfield.common.memory.available", lambda: 2**20)
    for found, wanted in zip(frugal.predict(X[:300] + 0.01, return_std=True), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-10)
    assert len(frugal._predictor.kept) < len(kept)


def test_threads_may_predict_with_one_model():
    X, y = problem([0.3, 0.9, 8.0], n=3000)
    given = {"length_scale": [0.3, 0.9, 8.0], "signal_variance": [1.0] * 3, "noise_variance": 0.05, "n_scales": 3}
    model = nf.LocalGPRegressor(**given, tolerance=0.05, random_state=0, n_jobs=1).fit(X, y)
    parts = [X[i::40][:25] + 0.01 for i in range(40)]
    expected = [copy.deepcopy(model).predict(part, return_std=True) for part in parts[:3]]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda part: model.predict(part, return_std=True), parts))
    finally:
        sys.setswitchinterval(interval)
    np.testing.assert_allclose(found[:3], expected, rtol=1e-9)
    kept = model._predictor.kept
    assert kept.n_bytes == sum(cell.n_bytes for cell in kept._models.values())


def test_far_from_all_data_the_prior_is_the_answer():
    _, y, model = short_and_long()
    with pytest.warns(UserWarning, match="outside of the data: the prior"):
        mean, std = model.predict([[1e5, 1e5]], return_std=True)
    np.testing.assert_allclose(mean, y[:2000].mean())
    np.testing.assert_allclose(std, 2**0.5)


@few_features
def test_every_regressor_finds_the_number_of_scales():
    X, y = problem([0.8, 8.0], n=1500)
    features = nf.FourierFeatures(400, random_state=0)
    for model in (nf.ExactGPRegressor(n_scales="auto"), nf.FeatureGPRegressor(features, n_scales="auto")):
        model.set_params(random_state=0, n_restarts=0).fit(X, y)
        assert len(model.length_scale_) == 2
        np.testing.assert_allclose(np.log(model.length_scale_ / [0.8, 8.0]), 0.0, atol=0.8)  # few long waves fit in


def test_outside_the_data_the_long_scale_still_speaks():
    X, y = problem([1.0, 4.0], n=1800, side=19.0)
    given = {"length_scale": [1.0, 4.0], "signal_variance": [1.0, 1.0], "noise_variance": 0.05, "n_scales": 2}
    exact = nf.ExactGPRegressor(**given).fit(X, y)
    model = nf.LocalGPRegressor(**given, tolerance=1e-2, random_state=0).fit(X, y)
    outside = np.array([[-4.0, 10.0], [12.0, 24.0], [23.0, 23.0]])
    mean_ref, std_ref = exact.predict(outside, return_std=True)
    mean, std = model.predict(outside, return_std=True)
    np.testing.assert_allclose(mean, mean_ref, atol=0.05)  # against standard deviations above 1
    np.testing.assert_allclose(std, std_ref, rtol=0.05)


def test_neighbourhoods_are_extended_to_a_least_number():
    X, _ = problem([1.0], n=2000)
    data = TrainingSet.of(X, X, np.ones(len(X)))
    centers = np.array([[15.0, 15.0], [60.0, 60.0]])
    within, beyond = data.neighbourhoods(centers, 3.0, 20)
    np.testing.assert_array_equal(np.sort(within), np.flatnonzero(np.sum((X - centers[0]) ** 2, axis=1) <= 9.0))
    np.testing.assert_array_equal(np.sort(beyond), np.sort(np.argsort(np.sum((X - centers[1]) ** 2, axis=1))[:20]))


@pytest.mark.parametrize(
    ("parameters", "name"),
    [
        ({"n_scales": 0}, "n_scales"),
        ({"n_scales": "two"}, "n_scales"),
        ({"length_scale": [1.0, 2.0], "signal_variance": [1.0, 1.0, 1.0], "n_scales": 2}, "signal_variance"),
        ({"length_scale": [1.0, 2.0, 3.0], "n_scales": 2}, "length_scale"),
    ],
)
def test_bad_scales_are_named(parameters, name):
    X, y = problem([2.0], n=50)
    with pytest.raises(ValueError, match=f"'{name}'"):
        nf.ExactGPRegressor(**parameters).fit(X, y)


def test_equal_length_scales_are_right_all_the_same():
    X, y = problem([2.0], n=200)
    two = nf.ExactGPRegressor(length_scale=[2.0, 2.0], signal_variance=[0.5, 0.5], noise_variance=0.05, n_scales=2)
    one = nf.ExactGPRegressor(length_scale=2.0, signal_variance=1.0, noise_variance=0.05)
    np.testing.assert_allclose(two.fit(X, y).predict(X), one.fit(X, y).predict(X), rtol=1e-8)


@pytest.mark.parametrize("signal", [1.0, 0.0])
def test_noise_that_weights_do_not_scale_is_no_component(signal):
    """Weights that say nothing of the precision leave the noise, and predictions do not go through observations."""
    rng = np.random.default_rng(0)
    X, weights = rng.uniform(0, 8, (600, 2)), np.random.default_rng(1).uniform(0.1, 10, 600)
    y = signal * np.sin(X[:, 0]) + 0.3 * rng.standard_normal(600)
    model = nf.LocalGPRegressor(random_state=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y, sample_weight=weights)
    assert any("noise does not follow sample_weight" in str(warning.message) for warning in caught)
    assert 0.1 < model.noise_variance_ < 1.0  # it is 0.09 times the mean of the weights, 5
    assert model.score(X, y) == pytest.approx(0.85 * signal, abs=0.03)


def test_weights_of_the_librarys_own_are_not_called_the_users():
    """What is learnt again, with weights for noise of local size, warns of no `sample_weight` that nobody gave."""
    rng = np.random.default_rng(0)
    X, weights = rng.uniform(0, 8, (600, 2)), np.random.default_rng(1).uniform(0.1, 10, 600)
    y = np.sin(X[:, :1]) + 0.3 * rng.standard_normal((600, 1))
    first = LearningRequest(n_scales=None, n_restarts=0)
    with pytest.warns(UserWarning, match="noise does not follow sample_weight"):
        learned = learn_hyperparameters(X, y - y.mean(), weights, first, np.random.RandomState(0))
    again = first.as_before(learned)
    learn_hyperparameters(X, y - y.mean(), weights, again, np.random.RandomState(0))  # a warning would be an error


def test_short_scales_with_weights_are_found_where_points_say_so():
    X, y = problem([0.5, 8.0], n=1200, side=12.0, noise=0.0)
    weights = np.random.default_rng(1).uniform(0.1, 10, len(X))
    y = y + (0.05 / weights) ** 0.5 * np.random.default_rng(2).standard_normal(len(X))
    model = nf.LocalGPRegressor(random_state=0).fit(X, y, sample_weight=weights)
    assert model.length_scale_.min() == pytest.approx(0.5, rel=0.3)
