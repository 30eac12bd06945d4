import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.stats import norm

from nearfield import metrics
from nearfield.common.distribution import PredictiveDistribution
from nearfield.common.left_out import LeftOut

means = st.floats(-100, 100)
variances = st.floats(1e-3, 1e3)


def test_kl_is_the_integral_of_its_definition_from_approximation_to_reference():
    p, q = norm(0.3, 0.8), norm(-0.2, 1.5)
    expected = quad(lambda x: p.pdf(x) * (p.logpdf(x) - q.logpdf(x)), -10, 10)[0]
    assert_allclose(metrics.kl_divergence([0.3], [0.64], [-0.2], [2.25]), [expected], rtol=1e-8)
    # the other direction is another number
    assert abs(metrics.kl_divergence([-0.2], [2.25], [0.3], [0.64])[0] - expected) > 0.1


@given(means, variances, means, variances)
def test_kl_is_never_negative(mean, var, mean_ref, var_ref):
    assert metrics.kl_divergence([mean], [var], [mean_ref], [var_ref])[0] >= 0


@given(means, variances)
def test_kl_of_equal_distributions_is_zero(mean, var):
    assert metrics.kl_divergence([mean], [var], [mean], [var])[0] == 0


@given(st.floats(-8, -2), variances)
def test_kl_keeps_its_digits_where_distributions_nearly_agree(log_excess, var):
    excess = 10**log_excess
    computed = (var * (1 + excess)) / var - 1  # what rounding made of it
    exact = 0.5 * sum((-1) ** n * computed**n / n for n in range(2, 30))
    assert_allclose(metrics.kl_divergence([0.0], [var * (1 + excess)], [0.0], [var]), [exact], rtol=1e-8)


def test_rmse():
    assert_allclose(metrics.rmse([1.0, 2.0, 3.0], [1.0, 4.0, 2.0]), np.sqrt(5 / 3))


def test_mean_nll_is_that_of_scipy():
    rng = np.random.RandomState(0)
    y, mean, var = rng.randn(20), rng.randn(20), rng.uniform(0.1, 2, 20)
    assert_allclose(metrics.mean_nll(y, mean, var=var), -norm.logpdf(y, mean, np.sqrt(var)).mean())


@pytest.mark.parametrize(("y", "mean", "std"), [(0.4, 0.0, 1.0), (-2.0, 1.0, 0.5), (3.0, 3.0, 2.0)])
def test_crps_is_the_integral_of_its_definition(y, mean, std):
    lower, upper = min(y, mean - 12 * std), max(y, mean + 12 * std)
    below = quad(lambda x: norm.cdf(x, mean, std) ** 2, lower, y)[0]
    above = quad(lambda x: norm.sf(x, mean, std) ** 2, y, upper)[0]
    assert_allclose(metrics.crps([y], [mean], std=[std]), below + above, rtol=1e-6)


def test_crps_tends_to_the_absolute_error_without_uncertainty():
    assert_allclose(metrics.crps([1.0], [3.5], var=[1e-20]), 2.5)


def test_coverage():
    y = np.random.RandomState(0).randn(20_000)
    zeros, ones = np.zeros(20_000), np.ones(20_000)
    for level in (0.5, 0.95):
        assert abs(metrics.coverage(y, zeros, std=ones, level=level) - level) < 0.01
    assert metrics.coverage([0.0, 5.0], [0.0, 0.0], var=[1.0, 1.0]) == 0.5


@pytest.mark.parametrize("score", [metrics.mean_nll, metrics.crps, metrics.coverage])
def test_bad_variances_and_shapes_are_named(score):
    with pytest.raises(ValueError, match="'var' argument must be positive"):
        score([1.0], [1.0], var=[0.0])
    with pytest.raises(ValueError, match=r"one shape.*mean \(2,\)"):
        score([1.0], [1.0, 2.0], std=[1.0])
    with pytest.raises(ValueError, match="'mean' argument has values that are not finite"):
        score([1.0], [np.nan], std=[1.0])


def test_a_column_against_a_row_is_not_broadcast():
    with pytest.raises(ValueError, match="one shape"):
        metrics.rmse(np.ones(5), np.ones((5, 1)))


def test_bad_level():
    with pytest.raises(ValueError, match="between 0 and 1"):
        metrics.coverage([1.0], [1.0], std=[1.0], level=95)


def test_kl_refuses_a_variance_of_zero():
    with pytest.raises(ValueError, match="'var_ref'"):
        metrics.kl_divergence([1.0], [1.0], [1.0], [0.0])


@pytest.mark.parametrize("score", [metrics.mean_nll, metrics.crps, metrics.coverage])
def test_spreads_go_by_name(score):
    y, mean, std = np.array([0.0, 1.0, 4.0]), np.zeros(3), np.full(3, 1.7)
    by_name = score(y, mean, std=std)
    assert by_name == pytest.approx(score(y, mean, var=std**2))
    with pytest.raises(TypeError, match=r"no third argument by position.*predict_distribution\(X\)"):
        score(y, mean, std**2)
    for wrong in ({}, {"std": std, "var": std}):
        with pytest.raises(TypeError, match="either std= or var="):
            score(y, mean, **wrong)


@pytest.mark.parametrize("score", [metrics.mean_nll, metrics.crps, metrics.coverage])
def test_distributions_are_scored_as_what_they_are(score):
    y, mean, std = np.array([0.0, 1.0, 4.0]), np.zeros(3), np.full(3, 1.7)
    normal = PredictiveDistribution(mean, std, std)
    assert score(y, normal) == pytest.approx(score(y, mean, std=std))
    tailed = PredictiveDistribution(mean, std, std, dof=4.0)
    left_out = LeftOut(y, tailed)
    expected = {"mean_nll": left_out.nll, "crps": left_out.crps, "coverage": left_out.coverage()}
    assert score(y, tailed) == pytest.approx(expected[score.__name__])
    assert metrics.rmse(y, tailed) == left_out.rmse
    with pytest.raises(TypeError, match="neither std= nor var= beside distributions"):
        score(y, normal, std=std)
    with pytest.raises(TypeError, match="no third argument"):
        score(y, normal, std)
    with pytest.raises(ValueError, match="one shape"):
        score(y[:2], normal)


def test_coverage_of_bounds_is_the_share_between_them():
    y, bounds = np.array([0.0, 1.0, 4.0]), (np.full(3, -1.0), np.array([1.0, 1.0, 3.0]))
    assert metrics.coverage(y, bounds) == pytest.approx(2 / 3)
    with pytest.raises(TypeError, match="no third argument"):
        metrics.coverage(y, *bounds)
    with pytest.raises(TypeError, match="no level= beside bounds"):
        metrics.coverage(y, bounds, level=0.5)
    with pytest.raises(ValueError, match=r"give \(lower, upper\)"):
        metrics.coverage(y, bounds[::-1])
    with pytest.raises(TypeError, match="what predict_distribution gives"):
        metrics.mean_nll(y[:2], (0.0, 1.0))
