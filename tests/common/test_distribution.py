import numpy as np
import pytest
from scipy import stats

from nearfield import metrics
from nearfield.common.distribution import Calibration, PredictiveDistribution

MEAN = np.array([0.0, 1.0, -3.0])
SCALE = np.array([1.0, 0.5, 2.0])
Y = np.array([0.3, 0.1, -9.0])
SKEWED = Calibration.of(stats.norm.ppf(stats.expon.cdf(np.random.RandomState(0).exponential(1.4, 4000))))


def make(dof=np.inf, calibration=None):
    return PredictiveDistribution(MEAN, SCALE, SCALE, dof, calibration)


@pytest.mark.parametrize("dof", [np.inf, 3.0])
def test_as_scipy(dof):
    known = stats.norm(MEAN, SCALE) if np.isinf(dof) else stats.t(dof, MEAN, SCALE)
    distribution = make(dof)
    np.testing.assert_allclose(distribution.cdf(Y), known.cdf(Y), rtol=1e-12)
    np.testing.assert_allclose(distribution.above(0.2), known.sf(0.2), rtol=1e-12)
    np.testing.assert_allclose(distribution.logpdf(Y), known.logpdf(Y), rtol=1e-12)
    np.testing.assert_allclose(distribution.ppf(0.3), known.ppf(0.3), rtol=1e-12)
    np.testing.assert_allclose(distribution.ppf([0.1, 0.9])[:, 1], known.ppf(0.9), rtol=1e-12)
    np.testing.assert_allclose(distribution.interval(0.8), known.interval(0.8), rtol=1e-12)


@pytest.mark.parametrize("calibration", [None, SKEWED])
@pytest.mark.parametrize("dof", [np.inf, 3.0])
def test_parts_agree(dof, calibration):
    distribution = make(dof, calibration)
    levels = np.array([0.01, 0.2, 0.5, 0.9, 0.999])
    quantiles = distribution.ppf(levels)
    for j, level in enumerate(levels):
        np.testing.assert_allclose(distribution.cdf(quantiles[:, j]), level, atol=1e-9)
    # The density is the derivative of the probability.
    step = 1e-5
    slope = (distribution.cdf(Y + step) - distribution.cdf(Y - step)) / (2 * step)
    np.testing.assert_allclose(np.exp(distribution.logpdf(Y)), slope, rtol=1e-4)
    # Scores by the integral that defines them.
    grid = np.linspace(-400, 400, 400_001)
    expected = []
    for mean, scale, y in zip(MEAN, SCALE, Y, strict=True):
        single = PredictiveDistribution(np.full(grid.shape, mean), SCALE, np.full(grid.shape, scale), dof, calibration)
        expected.append(np.trapezoid((single.cdf(grid) - (grid >= y)) ** 2, grid))
    np.testing.assert_allclose(distribution.crps(Y), expected, rtol=0.02)
    draws = distribution.sample(20_000, random_state=0)
    assert draws.shape == (3, 20_000)
    for j, level in enumerate(levels[:4]):
        share = np.mean(draws <= quantiles[:, j : j + 1], axis=1)
        np.testing.assert_allclose(share, level, atol=4 * np.sqrt(level * (1 - level) / 20_000))


def test_crps_of_normal_distributions_is_that_of_the_metrics():
    assert np.mean(make().crps(Y)) == pytest.approx(metrics.crps(Y, MEAN, std=SCALE), rel=1e-12)


@pytest.mark.parametrize("above", [0.0, 0.1, 0.4])
def test_a_value_that_most_residuals_have_is_inside_intervals(above):
    """Quantiles that are equal: of a constant target, or one with many zeros."""
    scores = np.where(np.arange(1000) < 1000 * above, 1.0, 0.0)
    low, high = make(calibration=Calibration.of(scores)).interval(0.95)
    assert np.all(low < MEAN)
    assert np.all(high > MEAN)


def test_calibration_makes_probabilities_uniform():
    rng = np.random.RandomState(1)
    residuals = rng.standard_t(3, 5000) * 0.6 + 0.2
    calibration = Calibration.of(residuals)
    fresh = rng.standard_t(3, 5000) * 0.6 + 0.2
    corrected = PredictiveDistribution(np.zeros(5000), np.ones(5000), np.ones(5000), np.inf, calibration)
    for level in (0.5, 0.8, 0.95, 0.99):
        low, high = corrected.interval(level)
        # Two samples differ by the standard errors of both.
        assert np.mean((fresh >= low) & (fresh <= high)) == pytest.approx(level, abs=0.02)
    plain = PredictiveDistribution(np.zeros(5000), np.ones(5000), np.ones(5000))
    assert np.mean(corrected.logpdf(fresh)) > np.mean(plain.logpdf(fresh)) + 0.05


@pytest.mark.parametrize("q", [0, 1, -0.1, [0.5, 2.0], "half", np.nan, True, [[0.5]]])
def test_quantiles_outside_are_refused(q):
    with pytest.raises(ValueError, match=r"'q' argument must be one or more probabilities between 0 and 1"):
        make().ppf(q)


@pytest.mark.parametrize("level", [0, 1, 1.5, "wide", [0.5]])
def test_levels_outside_are_refused(level):
    with pytest.raises(ValueError, match=r"'level' argument must lie between 0 and 1"):
        make().interval(level)


def test_values_of_another_shape_or_nan_are_refused():
    with pytest.raises(ValueError, match="one for each place"):
        make().cdf([1.0, 2.0])
    with pytest.raises(ValueError, match="NaN"):
        make().above(np.nan)
    with pytest.raises(ValueError, match="n_samples"):
        make().sample(-1)


def test_without_spread():
    sure = PredictiveDistribution(np.zeros(1), np.zeros(1), np.zeros(1))
    assert sure.cdf(-1.0) == 0
    assert sure.cdf(1.0) == 1
    assert sure.ppf(0.9) == 0
