"""Next to no noise: trends and functions, whose digits count and whose left-out residuals are the process's own."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from nearfield import ExactGPRegressor, LocalGPRegressor
from nearfield.local import iteration
from tests.small import exact_up_to

PLAIN = {"noise": "constant", "likelihood": "gaussian", "n_jobs": 1}


def plane(n, seed=0):
    X = np.random.RandomState(seed).uniform(0, 1, (n, 2))
    return X, 300 * X[:, 0] + np.sin(5 * X[:, 1])


@pytest.mark.parametrize("noise", [1e-3, 1e-5])
def test_noise_far_below_the_variance_of_a_trend_is_what_was_given(noise):
    """A trend has a variance far beyond that of the data, beside which noise that matters looks like none."""
    X, y = plane(250)
    given = {"length_scale": 2.0, "signal_variance": 1e7, "noise_variance": noise, **PLAIN}
    T = plane(50, 1)[0]
    expected = ExactGPRegressor(**given).fit(X, y)
    found = LocalGPRegressor(**given, n_scales=1).fit(X, y)
    mean, std = expected.predict(T, return_std=True, include_noise=True)
    answers = found.predict(T, return_std=True, include_noise=True)
    assert_allclose(answers[0], mean, atol=0.02 * std.min())
    assert_allclose(answers[1], std, rtol=0.02)
    assert_allclose(found.loo_.std, expected.loo_.std, rtol=0.02)


def test_no_noise_at_all_is_a_little(recwarn):
    X, y = plane(150)
    model = LocalGPRegressor(length_scale=0.5, signal_variance=1e4, noise_variance=0.0, n_scales=1, **PLAIN).fit(X, y)
    assert_allclose(model.predict(X), y, atol=0.05)
    assert not recwarn.list


def test_where_nothing_else_meets_the_tolerance_the_exact_process_does(monkeypatch):
    """Iterations that do not converge, and few points."""
    monkeypatch.setattr(iteration, "MAX_ITERATIONS", 0)
    rng = np.random.RandomState(0)
    X, T = rng.uniform(0, 12, (400, 2)), rng.uniform(0, 12, (50, 2))
    y = np.sin(X).sum(axis=1)
    given = {"length_scale": 1.0, "signal_variance": 1.0, "noise_variance": 0.01, **PLAIN}
    with exact_up_to(200):
        model = LocalGPRegressor(**given, n_scales=1, random_state=0, tolerance=1e-9).fit(X, y)
    assert model.report_.is_exact
    assert_allclose(model.predict(T), ExactGPRegressor(**given).fit(X, y).predict(T), atol=1e-9)


def test_intervals_hold_where_a_smooth_function_has_no_noise():
    """The noise learnt is a bound, far above all errors: how precise answers are tells how wide intervals must be."""
    rng = np.random.RandomState(0)
    X, T = rng.uniform(0, 18, (550, 1)), rng.uniform(0, 18, (400, 1))

    def f(X):
        return np.sin(3 * X[:, 0]) + np.cos(7 * X[:, 0])

    with exact_up_to(200), pytest.warns(UserWarning, match="noise variance"):
        model = LocalGPRegressor(random_state=0, n_jobs=1, n_scales=1).fit(X, f(X))
    low, high = model.predict_interval(T, 0.95)
    assert np.mean((f(T) >= low) & (f(T) <= high)) > 0.91  # 0.95 less three and a half standard errors
    assert np.sqrt(np.mean((model.predict(T) - f(T)) ** 2)) < 1e-4
