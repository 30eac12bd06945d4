import numpy as np
import pytest
from scipy import stats
from scipy.special import inv_boxcox, ndtri
from sklearn.preprocessing import FunctionTransformer

from nearfield.common.distribution import LEVELS, Calibration, PredictiveDistribution
from nearfield.common.targets import Target
from nearfield.hyperparameters.target import choose_target

TARGETS = [
    Target("log", unit=2.0),
    Target("sqrt", unit=3.0),
    Target("boxcox", 0.3, 2.0),
    Target("boxcox", 0.0, 2.0),
    Target("yeojohnson", 0.4, 2.0),
    Target("yeojohnson", 1.7, 0.5),
    Target("transformer", transformer=FunctionTransformer(np.cbrt, lambda z: z**3)),
    Target(),
]
Y = np.array([0.02, 0.7, 1.0, 3.0, 40.0])


@pytest.mark.parametrize("target", TARGETS, ids=Target.in_words)
def test_there_and_back(target):
    y = np.concatenate([-Y, Y]) if target.kind in ("yeojohnson", "identity", "transformer") else Y
    np.testing.assert_allclose(target.inverse(target.forward(y)), y, rtol=1e-9)
    step = 1e-6 * np.abs(y)
    slope = (target.forward(y + step) - target.forward(y - step)) / (2 * step)
    np.testing.assert_allclose(np.exp(target.log_derivative(y)), slope, rtol=1e-5)


@pytest.mark.parametrize("kind", ["log", "sqrt", "boxcox"])
def test_below_the_range(kind):
    target = Target(kind, 0.5)
    assert target.forward(np.array([-1.0]))[0] == -np.inf
    assert target.log_derivative(np.array([-1.0]))[0] == -np.inf
    assert target.inverse(np.array([-50.0]))[0] >= 0
    with pytest.raises(ValueError, match=f"for target='{kind}'"):
        target.check(np.array([1.0, -2.0]))


@pytest.mark.parametrize(
    "target",
    [*TARGETS[:-1], Target("yeojohnson", 0.0), Target("transformer", transformer=FunctionTransformer(np.log, np.exp))],
    ids=Target.in_words,
)
@pytest.mark.parametrize("scale", [0.01, 0.5, 2.0])
@pytest.mark.parametrize("calibration", [None, Calibration(1.3 * ndtri(LEVELS), ndtri(LEVELS))], ids=["plain", "held"])
def test_moments_of_a_normal_distribution_are_those_of_all_of_it(target, scale, calibration):
    mean = np.array([-1.0, 0.3, 2.0])
    scores = np.linspace(-16, 16, 80_001)
    weights = np.exp(-0.5 * scores**2) / np.exp(-0.5 * scores**2).sum()
    z = scores if calibration is None else calibration.to_stated(scores)
    y = target.inverse(mean[:, None] + scale * z)
    first = y @ weights
    std = np.sqrt((y - first[:, None]) ** 2 @ weights)
    found = PredictiveDistribution(mean, np.full(3, scale), np.full(3, scale), calibration=calibration).in_units(target)
    np.testing.assert_allclose(found.mean, first, rtol=1e-3, atol=1e-3 * scale)
    np.testing.assert_allclose(found.std, std, rtol=1e-3)


def test_moments_are_finite_whatever_the_numbers():
    mean = np.array([0.0, 500.0])
    power = FunctionTransformer(lambda y: 2 * (np.sqrt(y) - 1), lambda z: inv_boxcox(z, 0.5))  # NaN below -2
    for target in (Target("log"), Target("boxcox", 1e-4), Target("transformer", transformer=power)):
        for dof in (np.inf, 3.0):
            found = PredictiveDistribution(mean, np.full(2, 50.0), np.full(2, 50.0), dof).in_units(target)
            assert np.all(np.isfinite([found.mean, found.std]))


def test_a_normal_logarithm_is_lognormal():
    mean, std = np.array([0.3, -1.0]), np.array([0.5, 0.2])
    found = PredictiveDistribution(mean, std, std).in_units(Target("log"))
    known = stats.lognorm(std, scale=np.exp(mean))
    y = np.array([1.1, 0.5])
    np.testing.assert_allclose(found.cdf(y), known.cdf(y))
    np.testing.assert_allclose(found.logpdf(y), known.logpdf(y))
    np.testing.assert_allclose(found.ppf(0.9), known.ppf(0.9))
    np.testing.assert_allclose(found.mean, known.mean())
    np.testing.assert_allclose(found.std, known.std())
    np.testing.assert_allclose(found.above(-1.0), 1.0)
    assert found.logpdf(-1.0)[0] == -np.inf
    draws = found.sample(4000, random_state=0)
    np.testing.assert_allclose(np.median(draws, axis=1), np.exp(mean), rtol=0.05)
    grid = np.linspace(0, 60, 60_001)
    for i in range(2):
        single = PredictiveDistribution(np.full(grid.shape, mean[i]), std, np.full(grid.shape, std[i]))
        expected = np.trapezoid((single.in_units(Target("log")).cdf(grid) - (grid >= y[i])) ** 2, grid)
        assert found.crps(y)[i] == pytest.approx(expected, rel=0.01)


def problem(forward, seed=0, n=3000):
    rng = np.random.RandomState(seed)
    X = rng.uniform(0, 10, (n, 2))
    return X, forward(2.5 + np.sin(X[:, 0]) + 0.3 * rng.standard_normal(n))


@pytest.mark.parametrize(
    ("forward", "power"), [(np.exp, 0.0), (lambda z: np.maximum(z, 0.1) ** 2, 0.5), (lambda z: z + 3, 1.0)]
)
def test_powers_are_learnt(forward, power):
    X, y = problem(forward)
    assert choose_target("boxcox", X, y, np.random.RandomState(0)).power == pytest.approx(power, abs=0.15)


def test_auto():
    for forward, kinds in ((np.exp, ("log",)), (lambda z: z + 3, ("identity",))):
        assert choose_target("auto", *problem(forward), np.random.RandomState(0)).kind in kinds
    assert choose_target("auto", *problem(lambda z: z**3 - 15), np.random.RandomState(0)).kind == "yeojohnson"
    X = problem(np.exp)[0]
    assert choose_target("auto", X, np.ones(len(X)), np.random.RandomState(0)).is_identity


def test_transformers_that_are_none():
    X, y = problem(np.exp)
    with pytest.raises(ValueError, match="increasing transformer"):
        choose_target(FunctionTransformer(np.negative, np.negative), X, y, np.random.RandomState(0))
    with pytest.raises(ValueError, match="undoes its transform"):
        choose_target(FunctionTransformer(np.log, np.sqrt, check_inverse=False), X, y, np.random.RandomState(0))
