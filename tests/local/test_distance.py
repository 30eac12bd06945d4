"""Distances from the exact process: of observations and of the function, with bounds, against dense solves."""

from contextlib import nullcontext

import numpy as np
import pytest

from nearfield import ExactGPRegressor, FeatureGPRegressor, LocalGPRegressor, MaclaurinFeatures, metrics
from nearfield.kernels import Kernel
from nearfield.local import distance, exact_budget, iteration
from nearfield.local.distance import Distance, Figure, Reference
from nearfield.local.references import WholeProcess, exactly, nothing_drawn
from nearfield.local.thinning import NeighbourhoodSample

from ..small import approximations_only

KERNEL = Kernel.gaussian(1.0)
LENGTH = {1: 0.03, 2: 0.12, 5: 0.7}


def problem(d, signal_to_noise, n=1700, n_test=400, seed=0):
    """Parameters, and a draw of the process at places of a cube."""
    rng = np.random.RandomState(seed + 10 * d)
    X = rng.uniform(size=(n + n_test, d))
    kernel = Kernel.gaussian(LENGTH[d])
    f = np.linalg.cholesky(kernel(X, X) + 1e-9 * np.eye(len(X))) @ rng.standard_normal(len(X))
    y = f + signal_to_noise**-0.5 * rng.standard_normal(len(X))
    given = {"length_scale": LENGTH[d], "signal_variance": 1.0, "noise_variance": 1 / signal_to_noise}
    return given, X[:n], y[:n], X[n:]


def true_distances(model, given, X, y, places):
    """Of observations and of the function at some places, by a dense solve."""
    mean, std = model.predict(places, return_std=True)
    expected, spread = ExactGPRegressor(**given).fit(X, y).predict(places, return_std=True)
    floor, noise = distance.SETTINGS.least_variance * given["signal_variance"], given["noise_variance"]
    ours, exact = np.maximum(std**2, floor), np.maximum(spread**2, floor)
    observations = metrics.kl_divergence(mean, std**2 + noise, expected, spread**2 + noise).mean()
    return observations, metrics.kl_divergence(mean, ours, expected, exact).mean()


@pytest.mark.filterwarnings("ignore:tolerance")
@pytest.mark.parametrize("signal_to_noise", [0.1, 10.0, 1e4])
@pytest.mark.parametrize("d", [1, 2, 5])
def test_both_distances_are_true_and_promised(d, signal_to_noise):
    given, X, y, places = problem(d, signal_to_noise)
    with approximations_only():
        model = LocalGPRegressor(**given, random_state=0).fit(X, y)
    report = model.report_
    observations, function = true_distances(model, given, X, y, places)
    for true, upper in ((observations, report.divergence_upper), (function, report.divergence_of_function_upper)):
        assert true <= 1.3 * upper  # the places are others than the probes
        assert upper <= max(20 * true, 2e-5)  # probes in gaps ask for more than places anywhere
    assert report.divergence <= report.divergence_of_function
    if report.tolerance_met:
        assert observations <= 1e-3
        assert function <= 1e-2
    else:
        assert report.divergence_upper > 1e-3 or report.divergence_of_function_upper > 1e-2


def test_much_noise_hides_errors_of_the_function():
    """The mean is off by the same in both: beside ten times the noise it counts a tenth, and less."""
    reference = Reference(np.zeros((1, 1)), np.array([0.1]), np.zeros(1))
    for noise in (0.1, 1.0, 10.0):
        observations, function = distance.divergences(
            np.full((1, 1), 0.05), np.array([0.1]), reference, np.array([noise]), 1.0
        )
        np.testing.assert_allclose(function, 0.05**2 / 0.2)
        np.testing.assert_allclose(observations, 0.05**2 / (2 * (0.1 + noise)))


def test_variances_at_the_level_of_rounding_are_alike():
    reference = Reference(np.zeros((1, 1)), np.array([0.0]), np.zeros(1))
    found = distance.divergences(np.zeros((1, 1)), np.array([1e-9]), reference, np.array([0.0]), 1.0)
    np.testing.assert_array_equal(found, 0.0)


def test_what_lies_beyond_a_neighbourhood_is_counted():
    """A neighbourhood that is much too small says so, about as far as it is from the exact process."""
    rng, noise = np.random.RandomState(0), 0.1
    X = rng.uniform(-5, 5, (1500, 2))
    near = np.flatnonzero(np.sum(X**2, axis=1) < 1.5**2)
    sample = NeighbourhoodSample.of(X[near], np.zeros((len(near), 1)), np.full(len(near), noise))
    place = np.zeros((1, 2))
    found, _ = exactly(KERNEL, sample, place, nothing_drawn, 1e-3)
    K = KERNEL(X, X) + noise * np.eye(len(X))
    variance = 1 - (KERNEL(place, X) @ np.linalg.solve(K, KERNEL(X, place)))[0, 0]
    missing = found.variance[0] - variance
    assert 0 < missing < 5 * found.excess[0]
    assert found.excess[0] < 5 * missing
    whole, _ = exactly(KERNEL, sample, place, nothing_drawn, 1e-3, complete=True)
    assert whole.excess[0] == 0


@pytest.mark.parametrize("noise", [1e-6, 0.1])
def test_rows_set_aside_are_those_of_a_solve_without_them(noise):
    rng = np.random.RandomState(0)
    X, y = rng.uniform(0, 3, (200, 4)), rng.standard_normal((200, 2))
    whole = WholeProcess.of(KERNEL, X, y, np.full(200, noise), rng, 3)
    rows, rest = np.array([3, 50, 120]), np.setdiff1d(np.arange(200), [3, 50, 120])
    found, K = whole.left_out(rows), KERNEL(X[rest], X[rest]) + noise * np.eye(197)
    cross = KERNEL(X[rest], X[rows])
    assert whole.n_drawn == 3
    assert whole.y.shape == (200, 5)
    np.testing.assert_allclose(found.mean, cross.T @ np.linalg.solve(K, whole.y[rest]), rtol=1e-5, atol=1e-5)
    variance = 1 - np.sum(cross * np.linalg.solve(K, cross), axis=0)
    np.testing.assert_allclose(found.variance, variance, rtol=1e-4, atol=1e-8)
    at = whole.at(X[rows] + 0.1)
    cross = KERNEL(X, X[rows] + 0.1)
    K = KERNEL(X, X) + noise * np.eye(200)
    np.testing.assert_allclose(at.mean, cross.T @ np.linalg.solve(K, whole.y), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("draw", ["exponential", "lognormal", "chi2"])
def test_upper_bounds_hold_nearly_as_often_as_they_say(draw):
    """With a long tail a little less often: the largest values are seldom among 32."""
    rng = np.random.RandomState(0)
    draws = {
        "exponential": lambda: (rng.exponential(size=32), 1.0),
        "lognormal": lambda: (rng.lognormal(0.0, 1.0, 32), np.exp(0.5)),
        "chi2": lambda: (rng.chisquare(1, 32), 1.0),
    }
    held = [Figure.of(values).upper >= truth for values, truth in (draws[draw]() for _ in range(2000))]
    assert np.mean(held) > (0.88 if draw == "lognormal" else 0.92)


def test_a_figure_of_one_value_or_of_equal_ones():
    assert Figure.of(np.array([2.0])) == Figure(2.0, 0.0, 2.0)
    equal = Figure.of(np.full(40, 2e-4))
    np.testing.assert_allclose([equal.mean, equal.upper], 2e-4)
    assert Figure.of(np.zeros(10)) == Figure()


def test_both_bounds_decide():
    def of(observations, function):
        return Distance(Figure(0.0, 0.0, observations), Figure(0.0, 0.0, function))

    assert of(1e-3, 1e-2).within(1e-3)
    assert not of(1.1e-3, 1e-2).within(1e-3)
    assert not of(1e-3, 1.1e-2).within(1e-3)


def test_beyond_three_columns_a_neighbourhood_verifies_nothing(monkeypatch):
    given, X, y, _ = problem(5, 10.0)
    monkeypatch.setattr(exact_budget, "affordable_up_to", lambda _: 0)
    monkeypatch.setattr(exact_budget, "is_preferred", lambda *_: False)
    monkeypatch.setattr(iteration, "MOST_PAIRS", 0)
    with pytest.warns(UserWarning, match="is not verified"):
        report = LocalGPRegressor(**given, random_state=0).fit(X, y).report_
    assert not report.verified
    assert report.tolerance_met is False
    assert "not verified" in str(report)


@pytest.mark.filterwarnings("ignore:The model is")
@pytest.mark.parametrize(("d", "affordable", "verified"), [(2, True, True), (5, True, True), (5, False, False)])
def test_feature_regressors_tell_both_distances(d, affordable, verified, monkeypatch):
    if not affordable:
        monkeypatch.setattr(exact_budget, "affordable_up_to", lambda _: 0)
    given, X, y, places = problem(d, 10.0, n=900)
    features = MaclaurinFeatures(400, random_state=0)
    model = FeatureGPRegressor(features, **given, random_state=0).fit(X, y)
    report = model.report_
    observations, function = true_distances(model, given, X, y, places)
    assert report.verified == verified
    if verified:
        assert observations <= 1.5 * report.divergence_upper
        assert function <= 1.5 * report.divergence_of_function_upper
        assert report.divergence <= 3 * observations
    else:
        assert "is not verified" in report.verdict


BAD = ["no noise", "no signal", "one row", "one place", "probes at data"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("d", [1, 2, 5])
def test_data_that_tell_little_give_a_finite_distance_or_none(bad, d):
    given, X, y, places = problem(d, 10.0, n=1000)
    if bad == "no noise":
        given["noise_variance"] = 1e-12
    if bad == "no signal":
        given["signal_variance"] = 1e-12
    if bad == "one row":
        X, y = X[:1], y[:1]
    if bad == "one place":
        X = np.repeat(X[:1], len(X), axis=0)
    if bad == "probes at data":
        X = np.repeat(X[: len(X) // 4], 4, axis=0)
    with approximations_only() if len(X) > 1 else nullcontext():
        model = LocalGPRegressor(**given, random_state=0).fit(X, y)
    report = model.report_
    figures = [report.divergence, report.divergence_upper]
    figures += [report.divergence_of_function, report.divergence_of_function_upper]
    assert np.isfinite(figures).all()
    assert min(figures) >= 0
    assert np.isfinite(model.predict(places, return_std=True)).all()
