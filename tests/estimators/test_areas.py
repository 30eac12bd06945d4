"""Covariances of many places, and means and totals over areas: against the exact process."""

from dataclasses import replace

import numpy as np
import pytest

from nearfield import ExactGPRegressor, FeatureGPRegressor, FourierFeatures, LocalGPRegressor, TaylorFeatures
from nearfield.local import covariance
from nearfield.sources import ArraySource

from .fitted import NOISE, PLAIN, exact, local, places, training

KERNELS = {"one scale": "chosen", "three scales": "long scales"}


def quarters(X):
    return np.where(X[:, 0] < 2, "west", "east").astype(object) + np.where(X[:, 1] < 2, " south", " north")


@pytest.fixture(params=["factor", "iteration"])
def _solved_by(request, monkeypatch):
    if request.param == "iteration":
        monkeypatch.setattr(covariance, "DENSE_UP_TO", 0)


@pytest.mark.usefixtures("_solved_by")
@pytest.mark.parametrize("name", KERNELS)
def test_covariance_is_that_of_the_exact_process(name):
    X = places(80)
    mean, joint = local(KERNELS[name]).predict(X, return_cov=True)
    expected = exact(KERNELS[name]).predict(X, return_cov=True)[1]
    scale = np.sqrt(np.diag(expected))
    np.testing.assert_allclose(joint / np.outer(scale, scale), expected / np.outer(scale, scale), atol=2e-5)
    np.testing.assert_array_equal(mean, local(KERNELS[name]).predict(X))
    assert np.linalg.eigvalsh(joint).min() > -1e-9
    np.testing.assert_array_equal(joint, joint.T)


def test_covariance_with_few_iterations_is_still_positive(monkeypatch):
    """Where weights are off, it is the covariance of the errors that they make."""
    monkeypatch.setattr(covariance, "DENSE_UP_TO", 0)
    for name in ("RESIDUAL", "STILL_GOOD"):
        monkeypatch.setattr(covariance, name, 0.3)
    joint = local("long scales").predict(places(80), return_cov=True)[1]
    expected = exact("long scales").predict(places(80), return_cov=True)[1]
    assert np.linalg.eigvalsh(joint).min() > -1e-9
    assert np.linalg.eigvalsh(joint - expected).min() > -1e-6  # errors are no smaller than the least there are


def test_covariance_of_observations_and_of_local_size():
    model, X = local("chosen"), places(10)
    _, joint = model.predict(X, return_cov=True)
    np.testing.assert_allclose(model.predict(X, return_cov=True, include_noise=True)[1], joint + NOISE * np.eye(10))
    other = replace_noise(model, factor=4.0, of_all=True)
    np.testing.assert_allclose(other.predict(X, return_cov=True)[1], 4 * joint)
    areas, before = other.predict_areas(X, np.zeros(10)), model.predict_areas(X, np.zeros(10))
    np.testing.assert_allclose(areas.std, 2 * before.std)


def replace_noise(model, **changes):
    other = LocalGPRegressor(**model.get_params())
    vars(other).update(vars(model))
    other.noise_model_ = replace(model.noise_model_, **changes)
    return other


def by_hand(name, X, groups, weights, total, include_noise):
    mean, joint = exact(KERNELS[name]).predict(X, return_cov=True, include_noise=include_noise)
    answers = []
    for label in np.unique(groups):
        a = np.where(groups == label, weights, 0.0)
        a = a if total else a / a.sum()
        answers.append((a @ mean, np.sqrt(a @ joint @ a)))
    return np.array(answers).T


@pytest.mark.usefixtures("_solved_by")
@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("total", [False, True])
def test_areas_in_closed_form(name, total):
    X = places(300)
    groups, weights = quarters(X), np.random.RandomState(1).uniform(0, 3, len(X))
    areas = local(KERNELS[name]).predict_areas(X, groups, weights, total=total)
    mean, std = by_hand(name, X, groups, weights, total, include_noise=False)
    np.testing.assert_allclose(areas.std, std, rtol=1e-4)
    assert np.abs((areas.mean - mean) / std).max() < 0.3
    assert areas.labels.tolist() == ["east north", "east south", "west north", "west south"]
    assert areas.n_places.sum() == len(X)
    np.testing.assert_allclose(areas.weight.sum(), weights.sum())
    assert not areas.std_error.any()
    means, stds, *_ = areas
    assert means is areas.mean
    assert stds is areas.std


@pytest.mark.parametrize("include_noise", [False, True])
def test_areas_from_samples_agree_within_their_error(include_noise):
    X = places(300)
    groups = quarters(X)
    for model in (local("long scales"), exact("long scales")):
        areas = model.predict_areas(X, groups, method="samples", n_samples=400, include_noise=include_noise)
        expected = model.predict_areas(X, groups, method="exact", include_noise=include_noise)
        assert np.all(areas.std_error > 0)
        assert np.abs((areas.std - expected.std) / areas.std_error).max() < 4
        np.testing.assert_allclose(areas.mean, expected.mean)
        assert not areas.mean_error.any()
    _, std = by_hand("three scales", X, groups, np.ones(len(X)), False, include_noise)
    np.testing.assert_allclose(expected.std, std, rtol=1e-5)


def test_areas_of_features():
    X, y = training(400)
    model = FeatureGPRegressor(FourierFeatures(80, random_state=0), **PLAIN, noise_variance=NOISE, random_state=0)
    at = places(100)
    areas = model.fit(X, y).predict_areas(at, quarters(at))
    mean, joint = model.predict(at, return_cov=True)
    for j, label in enumerate(areas.labels):
        a = (quarters(at) == label) / np.sum(quarters(at) == label)
        np.testing.assert_allclose([areas.mean[j], areas.std[j]], [a @ mean, np.sqrt(a @ joint @ a)], rtol=1e-8)


def test_areas_of_transformed_targets_are_in_their_units():
    X, y = training(400)
    model = LocalGPRegressor(**PLAIN, noise_variance=NOISE, target="log", random_state=0)
    model.fit(X, np.exp(y))
    at = places(50)
    areas = model.predict_areas(at, np.zeros(50), n_samples=2000)
    draws = np.exp(LocalGPRegressor(**PLAIN, noise_variance=NOISE).fit(X, y).sample_y(at, 2000, 1))
    assert abs(areas.mean[0] - draws.mean()) < 5 * areas.mean_error[0]
    assert abs(areas.std[0] - draws.mean(axis=0).std()) < 5 * areas.std_error[0]
    with pytest.raises(ValueError, match="needs target='identity'"):
        model.predict(at, return_cov=True)


def test_places_without_a_group_count_nowhere():
    X = places(60)
    labels = np.arange(60) % 3.0
    some = labels.copy()
    some[labels == 1] = np.nan
    all_groups, two = (local("chosen").predict_areas(X, each) for each in (labels, some))
    np.testing.assert_array_equal(two.labels, [0.0, 2.0])
    np.testing.assert_allclose(two.std, all_groups.std[[0, 2]], rtol=1e-9)
    np.testing.assert_allclose(two.mean, all_groups.mean[[0, 2]])
    words = np.array([None if np.isnan(each) else f"g{each:g}" for each in some], dtype=object)
    np.testing.assert_allclose(local("chosen").predict_areas(X, words).std, two.std)


def test_several_targets_and_frames():
    pytest.importorskip("pandas")
    X, y = training(300)
    model = LocalGPRegressor(**PLAIN, noise_variance=NOISE, random_state=0)
    model.fit(X, np.column_stack([y, 2 * y]))
    at = places(30)
    areas = model.predict_areas(at, np.arange(30) % 2)
    assert areas.mean.shape == areas.std.shape == (2, 2)
    assert list(areas.to_frame().columns[:4]) == ["n_places", "weight", "mean_0", "mean_1"]
    assert model.predict(at, return_cov=True)[1].shape == (30, 30, 2)
    assert model.predict_areas(at, np.arange(30) % 2, method="samples", n_samples=20).std.shape == (2, 2)


def test_chance_that_a_limit_is_exceeded_somewhere():
    """In samples of the exact process, from its covariance, the largest value of an area is above as often."""
    X = places(120)
    groups, S = quarters(X), 1500
    chance = local("chosen").sampler(S, 0).above(X, 2.2, groups)
    draws = exact("chosen").sample_y(X, S, 1)
    expected = np.array([np.mean(draws[groups == label].max(axis=0) > 2.2) for label in np.unique(groups)])
    assert expected.min() > 0.05 or expected.max() > 0.05
    assert np.abs(chance - expected).max() < 4 * 0.5 / S**0.5 * 2**0.5
    sampler = local("chosen").sampler(50, 3)
    values = sampler(X)
    np.testing.assert_allclose(sampler.maxima(X), values.max(axis=0)[None], atol=1e-5)
    np.testing.assert_allclose(sampler.areas(X, np.zeros(120)), values.mean(axis=0)[None], atol=1e-5)


def test_chunks_of_places_give_the_same(monkeypatch):
    X = places(100)
    sampler = local("chosen").sampler(6, 3)
    whole = sampler.areas(X, quarters(X)), sampler.maxima(X, quarters(X))
    monkeypatch.setattr("nearfield.estimators.samples.PLACES_AT_ONCE", 13)
    np.testing.assert_allclose(sampler.areas(X, quarters(X)), whole[0], atol=1e-5)
    np.testing.assert_allclose(sampler.maxima(X, quarters(X)), whole[1], atol=1e-5)


@pytest.mark.parametrize(
    ("groups", "weights", "message"),
    [
        ([0, 1], None, "must have one label for each of the 3 places"),
        ([np.nan] * 3, None, "has no labels"),
        ([0, 0, 1], [1, 2], "must have one number for each of the 3 places"),
        ([0, 0, 1], [1, -1, 1], "finite numbers of at least 0"),
        ([0, 0, 1], [1, np.inf, 1], "finite numbers of at least 0"),
        ([0, 0, 1], [1, 1, 0], "sums to zero in group"),
        (["a", 1, "b"], None, None),
    ],
)
def test_what_cannot_be_done_is_said(groups, weights, message):
    model, X = local("chosen"), places(3)
    if message is None:
        with pytest.raises(ValueError, match="labels of one kind"):
            model.predict_areas(X, np.array(groups, dtype=object), weights)
    else:
        with pytest.raises(ValueError, match=message):
            model.predict_areas(X, groups, weights)


def test_further_refusals(monkeypatch):
    model, X = local("chosen"), places(3)
    with pytest.raises(ValueError, match="'method' argument"):
        model.predict_areas(X, [0, 0, 1], method="fast")
    with pytest.raises(ValueError, match="'n_samples' argument"):
        model.predict_areas(X, [0, 0, 1], n_samples=1)
    with pytest.raises(ValueError, match="At most one"):
        model.predict(X, return_std=True, return_cov=True)
    with pytest.raises(ValueError, match="rows of a source"):
        model.predict(ArraySource(X, batch_size=2), return_cov=True)
    monkeypatch.setattr("nearfield.common.memory.available", lambda: 1000)
    with pytest.raises(MemoryError, match="covariance matrix of 3 places, given 700 samples"):
        model.predict(X, return_cov=True)


def test_where_the_closed_form_is_out_of_reach_samples_answer(monkeypatch):
    model, X = local("long scales"), places(20)
    monkeypatch.setattr(covariance, "DENSE_UP_TO", 0)
    monkeypatch.setattr(covariance, "MOST_PAIRS", 10.0)
    assert model.predict_areas(X, np.zeros(20), n_samples=10).std_error[0] > 0
    with pytest.raises(ValueError, match="pairs of points"):
        model.predict_areas(X, np.zeros(20), method="exact")


@pytest.mark.parametrize("method", ["auto", "exact"])
def test_an_error_of_the_closed_form_is_not_answered_from_samples(monkeypatch, method):
    def broken(*_):
        raise ValueError("a matrix of another shape")

    monkeypatch.setattr("nearfield.estimators.area_groups.variances_of_sums", broken)
    with pytest.raises(ValueError, match="a matrix of another shape"):
        exact("chosen").predict_areas(places(20), np.zeros(20), method=method)


def test_only_data_that_matter_are_solved_for(monkeypatch):
    """Far from the places asked for, data make no difference."""
    rng = np.random.RandomState(0)
    X = rng.uniform(0, 40, (1500, 2))
    y = np.sin(X[:, 0]) + 0.2 * rng.standard_normal(1500)
    settings = {"length_scale": 1.0, "signal_variance": 1.0, "noise_variance": 0.04}
    approximation = {"features": TaylorFeatures(8), "radius": 3.0, "spacing": 1.5}
    model = LocalGPRegressor(**settings, **approximation, random_state=0).fit(X, y)
    at = rng.uniform(10, 14, (40, 2))
    monkeypatch.setattr(covariance, "DENSE_UP_TO", 1000)
    near = model._given(at).data
    assert len(near.X) < 600
    expected = ExactGPRegressor(**settings).fit(X, y).predict(at, return_cov=True)[1]
    np.testing.assert_allclose(model.predict(at, return_cov=True)[1], expected, atol=1e-6)
