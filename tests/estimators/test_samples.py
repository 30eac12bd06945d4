"""Joint samples: against the exact process, function by function, and that they are always the same."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

from nearfield import (
    ExactGPRegressor,
    FeatureGPRegressor,
    FourierFeatures,
    LocalGPRegressor,
    TaylorFeatures,
    load,
    save,
)
from nearfield.local.many_targets import NEGLIGIBLE
from nearfield.sources import ArraySource

from .fitted import KINDS, NOISE, PLAIN, exact, local, places, training


def test_draws_of_the_exact_process_have_its_distribution():
    """By functions that are drawn first, and by the covariance: means, variances and covariances of draws."""
    model, S = exact("chosen"), 3000
    X = places(60)
    mean, covariance = model.predict(X, return_cov=True)
    std = np.sqrt(np.diag(covariance))
    for draws in (model.sampler(S, 3)(X), model.sample_y(X, S, 3)):
        assert draws.shape == (60, S)
        errors = (draws.mean(axis=1) - mean) / std * S**0.5
        assert np.abs(errors).max() < 4.5
        scaled = (np.cov(draws) - covariance) / np.outer(std, std) * S**0.5
        correlation = covariance / np.outer(std, std)
        assert np.sqrt(np.mean(scaled**2 / (1 + correlation**2))) == pytest.approx(1.0, abs=0.15)
        assert np.abs(scaled).max() < 6.5


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", [name for name in KINDS if name != "sketches"])
def test_local_draws_are_those_of_the_exact_process(name):
    """The same seed stands for the same functions of the prior and the same noise: draws differ by the mean's error."""
    model, X = local(name), places()
    is_exact_mean, has_long_scales = model._fitted.exact_mean is not None, model._fitted.global_part is not None
    assert is_exact_mean == (name == "exact mean")
    assert has_long_scales == (name in ("long scales", "exact mean", "by number"))
    assert (model._fitted.predictor.placement.sizes is not None) == (name == "by number")
    draws, expected = model.sampler(30, 4)(X), exact(name).sampler(30, 4)(X)
    _, std = exact(name).predict(X, return_std=True)
    scale = exact(name).predict(X, return_std=True, include_noise=True)[1]
    errors = np.mean(((draws - expected) / scale[:, None]) ** 2)
    assert errors < {"exact mean": 1e-7, "by number": 2e-2, "nearest": 2e-2}.get(name, 5e-3)  # of a variance
    assert np.mean(((expected - expected.mean(axis=1, keepdims=True)) / std[:, None]) ** 2) > 0.8


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", ["nearest", "long scales"])
def test_exact_draws_are_those_of_the_exact_process(name):
    X = places(40)
    draws, expected = local(name).sampler(3, 4, exact=True)(X), exact(name).sampler(3, 4)(X)
    np.testing.assert_allclose(draws, expected, atol=2e-5)


@pytest.mark.parametrize("name", ["features", "long scales"])
def test_a_sampler_tells_the_same_functions_again(name, tmp_path):
    model, X = local(name), places(40)
    sampler = model.sampler(8, random_state=11)
    draws = sampler(X)
    np.testing.assert_allclose(sampler(X[5:9]), draws[5:9], atol=1e-4)
    np.testing.assert_allclose(model.sampler(3, 11)(X), draws[:, :3], atol=1e-4)
    np.testing.assert_allclose(model.sample_y(X, 8, 11), draws, atol=1e-4)
    np.testing.assert_allclose(pickle.loads(pickle.dumps(sampler))(X), draws, atol=1e-4)
    save(model, tmp_path / "model.nf")
    np.testing.assert_allclose(load(tmp_path / "model.nf").sampler(8, 11)(X), draws, atol=1e-4)
    assert np.abs(model.sampler(8, 12)(X) - draws).min() > 0
    np.testing.assert_allclose(model.sampler(8)(X), model.sampler(8, 0)(X), atol=1e-4)


@pytest.mark.unseeded
@pytest.mark.parametrize("name", ["features", "long scales"])
def test_samplers_without_a_seed_are_of_different_functions(name):
    model, X = local(name), places(40)
    assert np.abs(model.sampler(8, None)(X) - model.sampler(8, None)(X)).min() > 0


def test_a_sampler_is_of_the_model_as_it_was():
    X, y = training(300)
    model = LocalGPRegressor(**PLAIN, noise_variance=NOISE, random_state=0).fit(X, y)
    sampler, at = model.sampler(4, 0), places(10)
    before = sampler(at)
    model.fit(X, -y)
    np.testing.assert_array_equal(sampler(at), before)
    assert np.abs(model.sampler(4, 0)(at) - before).max() > 0.1


@pytest.mark.parametrize("share", [1e-9, 0.1])
def test_functions_in_small_runs_are_the_same(monkeypatch, share):
    """Up to rounding in single precision, whose size depends on the processor: see `many_targets.NEGLIGIBLE`."""
    X, model = places(50), local("features")
    expected = model.sampler(6, 2)(X)
    monkeypatch.setattr("nearfield.estimators.samples.WORK_SHARE", share)
    monkeypatch.setattr("nearfield.estimators.samples.KEPT_SHARE", 1e-9)
    monkeypatch.setattr("nearfield.estimators.samples.PLACES_AT_ONCE", 17)
    _, std = model.predict(X, return_std=True)
    assert np.sqrt(np.mean(((model.sampler(6, 2)(X) - expected) / std[:, None]) ** 2)) < NEGLIGIBLE


def test_blended_draws_are_continuous():
    """Across the borders of cells, functions change as little as anywhere else; by the nearest centre, they jump."""
    x = np.linspace(0.4, 4.0, 3601)
    line = np.column_stack([x, np.full_like(x, 2.2)])
    rough = {"features": TaylorFeatures(6), "radius": 2.5, "spacing": 1.5}
    steps = {}
    for blend in (True, False):
        model = LocalGPRegressor(**PLAIN, noise_variance=NOISE, random_state=0, **{**rough, "blend": blend})
        draws = model.fit(*training()).sampler(20, 1)(line)
        steps[blend] = np.abs(np.diff(draws, axis=0)).max(axis=1)
    assert steps[True].max() < 4 * np.percentile(steps[True], 95)
    assert steps[False].max() > 8 * np.percentile(steps[False], 95)


def test_several_targets():
    X, y = training(400)
    both = np.column_stack([y, -2 * y])
    model = LocalGPRegressor(**PLAIN, noise_variance=NOISE, random_state=0).fit(X, both)
    reference = ExactGPRegressor(**PLAIN, noise_variance=NOISE).fit(X, both)
    at = places(30)
    draws, expected = model.sampler(200, 5)(at), reference.sampler(200, 5)(at)
    assert draws.shape == expected.shape == (30, 2, 200)
    _, std = reference.predict(at, return_std=True)
    assert np.mean((draws - expected) ** 2 / std[:, :, None] ** 2) < 5e-3
    deviations = draws - model.predict(at)[:, :, None]
    assert (
        abs(np.mean(deviations[:, 0] * deviations[:, 1]) / np.mean(deviations**2)) < 0.05
    )  # independent of each other
    assert model.sample_y(at, 3).shape == reference.sample_y(at, 3).shape == (30, 2, 3)


def test_places_on_the_sphere():
    rng = np.random.RandomState(0)
    X = np.column_stack([rng.uniform(-180, 180, 500), np.degrees(np.arcsin(rng.uniform(-1, 1, 500)))])
    y = np.cos(np.radians(X[:, 1])) + 0.1 * rng.standard_normal(500)
    settings = {"length_scale": 2500.0, "signal_variance": 0.5, "noise_variance": 0.01, "metric": "sphere"}
    model = LocalGPRegressor(**settings, random_state=0).fit(X, y)
    reference = ExactGPRegressor(**settings).fit(X, y)
    _, std = reference.predict(X[:20], return_std=True)
    draws, expected = model.sampler(10, 5)(X[:20]), reference.sampler(10, 5)(X[:20])
    assert np.mean(((draws - expected) / std[:, None]) ** 2) < 5e-3
    either_side = model.sampler(10, 5)([[180.0, 10.0], [-180.0, 10.0]])
    np.testing.assert_allclose(either_side[0], either_side[1], atol=1e-4)


def test_transformed_targets_are_drawn_in_their_units():
    X, y = training(400)
    model = LocalGPRegressor(**PLAIN, noise_variance=NOISE, target="log", random_state=0).fit(X, np.exp(y))
    at = places(25)
    draws = model.sampler(2000, 1)(at)
    assert draws.min() > 0
    expected = model.predict_quantiles(at, [0.25, 0.75], include_noise=False)
    np.testing.assert_allclose(np.quantile(draws, [0.25, 0.75], axis=1).T, expected, rtol=0.06)


def test_noise_of_local_size_and_heavy_tails():
    rng = np.random.RandomState(3)
    X = rng.uniform(0, 10, (800, 1))
    y = np.sin(X[:, 0]) + np.where(X[:, 0] < 5, 0.05, 0.6) * rng.standard_t(4, 800)
    kernel = {"length_scale": 1.0, "signal_variance": 1.0}
    model = LocalGPRegressor(**kernel, noise="local", likelihood="student", random_state=0).fit(X, y)
    at = np.array([[2.0], [8.0]])
    sampler = model.sampler(6000, 0)
    for include_noise in (False, True):
        expected = model.predict_distribution(at, include_noise=include_noise).interval(0.5)
        lower, upper = np.quantile(sampler(at, include_noise), [0.25, 0.75], axis=1)
        np.testing.assert_allclose(upper - lower, expected[1] - expected[0], rtol=0.12)
    np.testing.assert_array_equal(sampler(at, include_noise=True), sampler(at, include_noise=True))


def test_variances_of_local_size_change_draws_as_they_change_intervals():
    model = local("chosen")
    at = places(20)
    plain = model.sampler(5, 0)(at)
    other = pickle.loads(pickle.dumps(model))
    other.noise_model_ = replace(model.noise_model_, factor=4.0, of_all=True)
    mean, std = (each[:, None] for each in model.predict(at, return_std=True))
    rounding = (other.sampler(5, 0)(at) - mean - 2 * (plain - mean)) / std  # in single precision
    assert np.sqrt(np.mean(rounding**2)) < NEGLIGIBLE


def test_observations_have_the_noise_of_the_model():
    model, at = local("features"), places(100)
    sampler = model.sampler(100, 0)
    noise = sampler(at, include_noise=True) - sampler(at)
    assert np.var(noise) == pytest.approx(NOISE, rel=0.05)
    assert np.var(model.sample_y(at, 100, 0, include_noise=True) - sampler(at)) == pytest.approx(NOISE, rel=0.05)


@pytest.mark.parametrize("include_noise", [False, True])
def test_features_are_drawn_by_their_coefficients(include_noise):
    X, y = training(400)
    model = FeatureGPRegressor(FourierFeatures(100, random_state=0), **PLAIN, noise_variance=NOISE, random_state=0)
    model.fit(X, y)
    at, S = places(20), 4000
    mean, covariance = model.predict(at, return_cov=True, include_noise=include_noise)
    draws = model.sample_y(at, S, 0, include_noise=include_noise)
    std = np.sqrt(np.diag(covariance))
    assert np.abs((draws.mean(axis=1) - mean) / std).max() * S**0.5 < 4.5
    assert np.abs((np.cov(draws) - covariance) / np.outer(std, std)).max() * S**0.5 < 6.0
    np.testing.assert_allclose(model.sampler(S, 0)(at[:3]), model.sampler(S, 0)(at)[:3], atol=1e-5)


def test_many_places_of_an_exact_process_need_no_covariance():
    X, y = training(200)
    model = ExactGPRegressor(**PLAIN, noise_variance=NOISE).fit(X, y)
    at = places(4000)
    draws = model.sample_y(at, 3)
    np.testing.assert_array_equal(draws, model.sampler(3, 0)(at))


def test_sources_and_data_frames():
    pandas = pytest.importorskip("pandas")
    model, X = local("features"), places(30)
    expected = model.sampler(3, 0)(X)
    np.testing.assert_allclose(model.sampler(3, 0)(ArraySource(X, batch_size=7)), expected, atol=1e-5)
    named = LocalGPRegressor(**PLAIN, noise_variance=NOISE, random_state=0)
    data = pandas.DataFrame(training(200)[0], columns=["east", "north"])
    named.fit(data, training(200)[1])
    at = pandas.DataFrame(X, columns=["east", "north"])
    np.testing.assert_allclose(named.sample_y(at, 2, 0), named.sample_y(at, 2, 0))


def test_functions_on_a_grid():
    xarray = pytest.importorskip("xarray")
    sampler = local("features").sampler(3, 0)
    grid = sampler.on_grid({"x0": (0.0, 4.0), "x1": [1.0, 2.0]}, size=5)
    assert grid.dims == ("x0", "x1", "sample")
    at = [[grid.x0[3], grid.x1[1]]]
    np.testing.assert_allclose(grid.values[3, 1], sampler(at)[0], atol=1e-5)
    template = xarray.DataArray(np.zeros((2, 4)), {"x1": [0.5, 1.5], "x0": [0.0, 1.0, 2.0, 3.0]})
    like = sampler.on_grid(like=template)
    assert like.dims == ("x1", "x0", "sample")
    np.testing.assert_allclose(like.values[1, 2], sampler([[2.0, 1.5]])[0], atol=1e-5)


def test_what_cannot_be_done_is_said():
    model, X = local("features"), places(5)
    with pytest.raises(ValueError, match="'n_samples' argument must be an integer of at least 0"):
        model.sampler(-1)
    with pytest.raises(MemoryError, match="functions at 5 places"):
        model.sample_y(X, 10**12)
    assert model.sample_y(X, 0).shape == (5, 0)
    assert model.sample_y(X[:0], 4).shape == (0, 4)
    assert np.isfinite(model.sample_y([[1e6, -1e9]], 5)).all()
    with pytest.raises(ValueError, match="NaN"):
        model.sample_y([[np.nan, 0.0]])


def test_models_of_a_source_keep_no_points_to_draw_from(monkeypatch):
    X, y = training(1000)
    source = ArraySource(X, y, batch_size=300, sample_size=400)
    options = {"spacing": 1.5, "radius": 3.0, "features": TaylorFeatures(8), "random_state": 0}
    model = LocalGPRegressor(**PLAIN, noise_variance=NOISE, **options)
    with pytest.raises(ValueError, match="keeps no training points, which samples need"):
        model.fit(source).sampler(3)
