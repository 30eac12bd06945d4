"""Many columns and a long scale."""

from dataclasses import replace

import numpy as np
import pytest

from nearfield import ExactGPRegressor, LocalGPRegressor, metrics
from nearfield.local import exact_budget


@pytest.mark.usefixtures("few_probes")
@pytest.mark.parametrize("n_exact", [0, 12_000])
def test_a_long_scale_in_a_wide_space_keeps_the_tolerance(n_exact, monkeypatch):
    """Neither features around one centre nor all points within reach do; the nearest points, or all of them, do."""
    if not n_exact:
        monkeypatch.setattr(exact_budget, "SETTINGS", replace(exact_budget.SETTINGS, may_answer=False))
    monkeypatch.setattr("nearfield.local.by_number.MOST_POINTS", (800,))
    rng = np.random.RandomState(0)
    X, test = rng.uniform(size=(1700, 4)), rng.uniform(size=(100, 4))
    y = np.sin(5 * X[:, 0]) + X[:, 1] + 0.1 * rng.standard_normal(1700)
    given = {"length_scale": 0.3, "signal_variance": 1.0, "noise_variance": 0.01}
    model = LocalGPRegressor(**given, random_state=0).fit(X, y)
    assert model.report_.tolerance_met
    mean, std = model.predict(test, return_std=True, include_noise=True)
    exact = ExactGPRegressor(**given).fit(X, y).predict(test, return_std=True, include_noise=True)
    assert metrics.kl_divergence(mean, std**2, exact[0], exact[1] ** 2).mean() <= 1e-3
    assert (model.report_.method == "the exact Gaussian process") == (n_exact > 0)
