"""Intervals hold what they promise: on draws from the model, the truth is in the p % interval p % of the time.

Draws come side by side as targets of one fit. The standard error is that over draws, for points of one draw are not
independent; a share is wrong if it is off by more than 4 of them.
"""

import numpy as np
import pytest
from scipy import stats

import nearfield as nf
from nearfield.kernels import Kernel
from nearfield.solvers.feature_space import FeatureSpace
from nearfield.solvers.statistics import accumulate

LEVELS = np.array([0.50, 0.80, 0.95, 0.99])
GIVEN = {"length_scale": 0.07, "signal_variance": 2.0, "noise_variance": 0.3}
N, N_TEST, DRAWS = 900, 300, 300


@pytest.fixture(scope="module")
def draws():
    """Points of the square, functions drawn from the process there, and noisy values of them."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(N + N_TEST, 2))
    K = Kernel.gaussian(GIVEN["length_scale"], GIVEN["signal_variance"])(X, X)
    values, vectors = np.linalg.eigh(K)
    f = vectors * np.sqrt(np.maximum(values, 0)) @ rng.standard_normal((len(X), DRAWS))
    return X, f, f + np.sqrt(GIVEN["noise_variance"]) * rng.standard_normal(f.shape)


def shares_inside(truth, mean, std):
    """Share of points inside the interval of each level (levels, draws)."""
    half = stats.norm.ppf(0.5 + LEVELS / 2)
    return np.stack([np.mean(np.abs(truth - mean) <= h * std, axis=0) for h in half])


def assert_calibrated(truth, mean, std, slack=0.0):
    shares = shares_inside(truth, mean, std)
    error = shares.std(axis=1, ddof=1) / np.sqrt(shares.shape[1])
    off = np.abs(shares.mean(axis=1) - LEVELS)
    assert np.all(off < 4 * error + slack), f"{shares.mean(axis=1)} for {LEVELS}, standard errors {error}"
    # Between them as well: the probability of a lower value is uniform.
    z = (truth - mean) / std
    spread = (z**2).mean(axis=0)
    assert abs(spread.mean() - 1) < 4 * spread.std(ddof=1) / np.sqrt(len(spread)) + slack


ESTIMATORS = {
    "exact": lambda: nf.ExactGPRegressor(**GIVEN),
    "local": lambda: nf.LocalGPRegressor(**GIVEN, n_scales=1, tolerance=1e-4, random_state=0),
    "local, Taylor": lambda: nf.LocalGPRegressor(
        **GIVEN, n_scales=1, features=nf.TaylorFeatures(degree=10), spacing=1.0, radius=4.0, random_state=0
    ),
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_on_draws_from_the_process(draws, name):
    X, f, y = draws
    gp = ESTIMATORS[name]().fit(X[:N], y[:N])
    assert_calibrated(f[N:], *gp.predict(X[N:], return_std=True))
    assert_calibrated(y[N:], *gp.predict(X[N:], return_std=True, include_noise=True))


def test_far_fewer_neighbours_than_needed_stay_honest(draws):
    """With the correction, a poor approximation is uncertain rather than wrong: it never promises too much."""
    X, _, y = draws
    options = {"features": nf.TaylorFeatures(degree=2), "spacing": 1.0, "radius": 1.5, "random_state": 0}
    gp = nf.LocalGPRegressor(**GIVEN, n_scales=1, **options)
    mean, std = gp.fit(X[:N], y[:N]).predict(X[N:], return_std=True, include_noise=True)
    shares = shares_inside(y[N:], mean, std).mean(axis=1)
    assert np.all(shares > LEVELS - 0.01)


def test_features_on_draws_from_the_process(draws):
    """Features stand for the kernel only nearly: with 3000 of them, intervals hold to three hundredths."""
    X, _, y = draws
    features = nf.FourierFeatures(n_components=3000, sampling="orthogonal", random_state=0)
    gp = nf.FeatureGPRegressor(features, **GIVEN, random_state=0).fit(X[:N], y[:N])
    shares = shares_inside(y[N:], *gp.predict(X[N:], return_std=True, include_noise=True)).mean(axis=1)
    np.testing.assert_allclose(shares, LEVELS, atol=0.03)


def test_features_on_draws_from_the_features():
    """Features are a model of their own, and calibrated for it, however few they are."""
    rng = np.random.default_rng(1)
    X = rng.uniform(size=(300, 2))
    features = nf.FourierFeatures(n_components=30, variance=2.0, length_scale=0.07, random_state=0).fit(X)
    rows = features.transform(X).T
    f = rows.T @ rng.standard_normal((30, 1000))
    y = f + np.sqrt(0.3) * rng.standard_normal(f.shape)
    sums = accumulate(rows[:, :200], y[:200], np.full(200, 1 / 0.3))
    mean, variance = FeatureSpace.from_statistics(sums).mean_and_variance(rows[:, 200:])
    mean, std = mean[:, :-1], np.sqrt(variance)[:, None]
    assert_calibrated(f[200:], mean, std)
    assert_calibrated(y[200:], mean, np.sqrt(std**2 + 0.3))


def test_the_mean_taken_out_of_the_targets_costs_little():
    """The same for the estimator, which takes their mean for a constant that is known."""
    rng = np.random.default_rng(1)
    X = rng.uniform(size=(1500, 2))
    features = nf.FourierFeatures(n_components=400, random_state=0)
    gp = nf.FeatureGPRegressor(features, **GIVEN, random_state=0).fit(X, X[:, 0])
    f = gp.feature_map_.transform(X) @ rng.standard_normal((400, 400))
    y = f + np.sqrt(GIVEN["noise_variance"]) * rng.standard_normal(f.shape)
    mean, std = gp.fit(X[:1200], y[:1200]).predict(X[1200:], return_std=True)
    assert_calibrated(f[1200:], mean, std, slack=0.01)


def test_learnt_hyperparameters():
    """Draws with known hyperparameters, learnt from each anew.

    The likelihood at the maximum is never below that at the truth, and twice the difference has the distribution of
    chi squared with one degree a hyperparameter, by Wilks' theorem. Estimates are not biased; intervals still hold.
    """
    rng = np.random.default_rng(2)
    n, n_test, length, signal, noise = 150, 60, 0.05, 2.0, 0.2
    ratios, logs, inside = [], [], []
    for _ in range(25):
        X = rng.uniform(size=(n + n_test, 1))
        K = Kernel.gaussian(length, signal)(X, X) + 1e-9 * np.eye(len(X))
        f = np.linalg.cholesky(K) @ rng.standard_normal(len(X))
        y = f + np.sqrt(noise) * rng.standard_normal(len(X))
        gp = nf.ExactGPRegressor(n_restarts=0, random_state=0).fit(X[:n], y[:n])
        true = nf.ExactGPRegressor(length_scale=length, signal_variance=signal, noise_variance=noise).fit(X[:n], y[:n])
        ratios.append(2 * (gp.log_marginal_likelihood() - true.log_marginal_likelihood()))
        logs.append(np.log([gp.length_scale_ / length, gp.signal_variance_ / signal, gp.noise_variance_ / noise]))
        mean, std = gp.predict(X[n:], return_std=True, include_noise=True)
        inside.append(shares_inside(y[n:, None], mean[:, None], std[:, None])[:, 0])
    assert min(ratios) > -1e-3
    assert stats.kstest(ratios, stats.chi2(3).cdf).pvalue > 1e-3
    logs = np.array(logs)
    assert np.all(np.abs(logs.mean(axis=0)) < 0.1 + 4 * logs.std(axis=0, ddof=1) / np.sqrt(len(logs)))
    inside = np.array(inside)
    error = inside.std(axis=0, ddof=1) / np.sqrt(len(inside))
    assert np.all(np.abs(inside.mean(axis=0) - LEVELS) < 4 * error + 0.01)
