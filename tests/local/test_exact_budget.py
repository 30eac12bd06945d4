"""When the exact process is taken: by counted costs, never by a clock."""

from dataclasses import replace

import numpy as np
import pytest

import nearfield as nf
from nearfield import metrics
from nearfield.local import exact_budget, iteration

GIVEN = {"length_scale": 2.0, "signal_variance": 1.0, "noise_variance": 0.1}


def test_some_fifteen_thousand_rows_are_affordable_within_a_minute(monkeypatch):
    monkeypatch.setattr("nearfield.common.memory.total", lambda: 2**35)
    assert 12_000 < exact_budget.affordable_up_to(60.0) < 16_000


def test_time_and_memory_both_limit_the_rows(monkeypatch):
    monkeypatch.setattr("nearfield.common.memory.total", lambda: 2**35)
    rows = [exact_budget.affordable_up_to(seconds) for seconds in (0.0, 0.1, 1.0, 60.0, 1e9, np.inf)]
    assert rows[0] == 0
    assert rows == sorted(rows)
    assert rows[-1] == rows[-2] == int((4 * 2**30 / 8) ** 0.5)  # the matrix fills the memory that is allowed
    monkeypatch.setattr("nearfield.common.memory.total", lambda: 2**30)
    assert exact_budget.affordable_up_to(60.0) == int((2**28 / 8) ** 0.5)


def test_the_largest_affordable_number_is_affordable_and_the_next_is_not(monkeypatch):
    monkeypatch.setattr("nearfield.common.memory.total", lambda: 2**40)
    settings = exact_budget.SETTINGS
    n, most = exact_budget.affordable_up_to(10.0), settings.time_share * 10.0 * settings.operations_per_second
    assert exact_budget.operations(n) <= most < exact_budget.operations(n + 1)


def test_few_columns_prefer_the_exact_process_only_where_it_is_quicker():
    assert exact_budget.is_preferred(1500, 2, 60.0)
    assert not exact_budget.is_preferred(1600, 3, 60.0)
    assert exact_budget.is_preferred(5000, 4, 60.0)
    assert not exact_budget.is_preferred(np.inf, 8, np.inf)  # rows of a stream


def wide(n=1700, d=5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n + 100, d))
    y = np.sin(X.sum(axis=1)) + 0.3 * rng.standard_normal(n + 100)
    return X[:n], y[:n], X[n:]


@pytest.mark.parametrize("kernel", ["gaussian", "matern32"])
@pytest.mark.parametrize("drift", ["constant", "linear"])
def test_many_columns_get_the_exact_process(kernel, drift):
    X, y, at = wide()
    given = {**GIVEN, "kernel": kernel, "drift": drift, "noise": "constant"}
    local = nf.LocalGPRegressor(**given, random_state=0).fit(X, y)
    assert local.report_.is_exact
    assert local.report_.verdict.startswith("Fine: this is the exact Gaussian process")
    exact = nf.ExactGPRegressor(**given, random_state=0).fit(X, y)
    for found, expected in zip(local.predict(at, return_std=True), exact.predict(at, return_std=True), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8)


def test_without_the_budget_many_columns_are_approximated(monkeypatch):
    X, y, at = wide()
    monkeypatch.setattr(exact_budget, "affordable_up_to", lambda _: 0)
    monkeypatch.setattr(iteration, "MOST_PAIRS", 0)
    with pytest.warns(UserWarning, match="is not verified"):
        model = nf.LocalGPRegressor(**GIVEN, noise="constant", likelihood="gaussian", random_state=0).fit(X, y)
    assert not model.report_.is_exact
    assert not model.report_.verified
    assert not model.report_.tolerance_met
    mean, std = model.predict(at, return_std=True, include_noise=True)
    expected, spread = nf.ExactGPRegressor(**GIVEN).fit(X, y).predict(at, return_std=True, include_noise=True)
    assert metrics.kl_divergence(mean, std**2, expected, spread**2).mean() < 1e-2


def test_what_is_given_by_hand_is_no_matter_of_budget():
    X, y, _ = wide(600)
    model = nf.LocalGPRegressor(**GIVEN, radius=4.0, spacing=2.0, features="kernel", random_state=0).fit(X, y)
    assert not model.report_.is_exact


def test_the_choice_knows_no_clock(monkeypatch):
    """Whatever a machine's speed, the same rows are given to the exact process: settings alone decide."""
    monkeypatch.setattr(exact_budget, "SETTINGS", replace(exact_budget.SETTINGS, operations_per_second=1.0))
    assert not exact_budget.is_preferred(5000, 8, 60.0)
    assert exact_budget.is_preferred(1500, 8, 60.0)
