"""The likelihood of local models, and along one hyperparameter."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.preprocessing import PolynomialFeatures

import nearfield as nf
from nearfield.estimators.units import rescale
from nearfield.hyperparameters.all_data import Profile, log_likelihood_of_all
from nearfield.kernels import Kernel

from ..warned import few_features, on_bounds
from .test_kernels import draw

GIVEN = {"length_scale": [0.8, 5.0], "signal_variance": [1.0, 2.0], "noise_variance": 0.1}
KERNEL = Kernel(np.array([[0.8], [5.0]]), np.array([1.0, 2.0]))


@pytest.fixture(scope="module")
def data():
    return draw(KERNEL, n=2000, side=25.0)


def test_few_points_have_their_exact_likelihood(data):
    X, y = data[0][:600], data[1][:600]
    exact = nf.ExactGPRegressor(**GIVEN).fit(X, y).log_marginal_likelihood()
    assert_allclose(nf.LocalGPRegressor(**GIVEN).fit(X, y).log_marginal_likelihood(), exact, rtol=1e-9)


def test_data_without_noise_have_a_likelihood():
    X = np.arange(30.0)[:, None]
    y, given = np.sin(X[:, 0]), {"length_scale": 1.0, "signal_variance": 1.0, "noise_variance": 0.0}
    exact, local = (regressor(**given).fit(X, y) for regressor in (nf.ExactGPRegressor, nf.LocalGPRegressor))
    assert_allclose(local.log_marginal_likelihood(), exact.log_marginal_likelihood(), rtol=1e-6)
    answers = [model.log_marginal_likelihood(eval_gradient=True)[1] for model in (local, exact)]
    assert_allclose(*answers, rtol=1e-5, atol=1e-5)
    profiles = [model.profile_likelihood("length_scale", n_values=3).log_likelihood for model in (local, exact)]
    assert_allclose(*profiles, rtol=1e-5)


def test_many_points_are_near_it(data):
    X, y = data
    exact = nf.ExactGPRegressor(**GIVEN).fit(X, y).log_marginal_likelihood()
    model = nf.LocalGPRegressor(**GIVEN, random_state=0).fit(X, y)
    value, gradient = model.log_marginal_likelihood(eval_gradient=True)
    assert abs(value - exact) / len(X) < 1e-3
    centred, noise = (y - y.mean())[:, None], np.full(len(X), 0.1)

    def at(theta):
        kernel = Kernel(np.exp(theta[:2])[:, None], np.exp(theta[2:4]))
        return log_likelihood_of_all(kernel, np.exp(theta[4]), X, centred, noise / 0.1 * np.exp(theta[4]))[0]

    # the order of cells and their neighbours are the same whatever the length scale
    theta = np.log([0.8, 5.0, 1.0, 2.0, 0.1])
    differences = [(at(theta + step) - at(theta - step)) / 2e-4 for step in 1e-4 * np.eye(5)]
    assert_allclose(gradient, differences, rtol=1e-4, atol=1e-3)


def test_likelihood_along_a_hyperparameter(data):
    X, y = data
    model = nf.ExactGPRegressor(n_scales=2, random_state=0, n_restarts=0).fit(X[:1200], y[:1200])
    profile = model.profile_likelihood("length_scale", n_values=5)
    assert isinstance(profile, Profile)
    assert profile.log_likelihood.max() == 0
    assert 1 <= np.argmax(profile.log_likelihood) <= 3
    low, high = profile.interval(0.99)
    assert low < 0.8 < high
    assert low > 0.4
    assert high < 1.6
    # about the parabola that the standard error stands for
    error = model.learned_.standard_errors[0]
    ends = profile.log_likelihood[[0, -1]]
    assert np.all((ends < -1.5) & (ends > -15)), (ends, error)


def test_intervals_of_a_parabola():
    logs = np.linspace(-3, 3, 61)
    low, high = Profile("length_scale", np.exp(logs), -0.5 * logs**2).interval()
    assert_allclose(np.log([low, high]), [-1.96, 1.96], atol=2e-3)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"name": "lengthscale"}, "'name'"),
        ({"name": "length_scale", "component": 2}, "'component'.*below 2"),
        ({"name": "length_scale", "column": 1}, "'column'.*below 1"),
        ({"name": "length_scale", "n_values": 1}, "'n_values'"),
    ],
)
def test_bad_questions(data, arguments, words):
    model = nf.ExactGPRegressor(**GIVEN).fit(data[0][:50], data[1][:50])
    with pytest.raises(ValueError, match=words):
        model.profile_likelihood(**arguments)


@on_bounds
def test_pure_noise_is_predicted_by_its_mean():
    rng = np.random.RandomState(0)
    X, y = rng.uniform(0, 10, (1500, 2)), rng.standard_normal(1500)
    model = nf.ExactGPRegressor(random_state=0, n_restarts=0).fit(X, y)
    assert model.noise_variance_ > 0.8
    assert np.abs(model.predict(X[:100]) - y.mean()).max() < 0.5


def test_two_equal_fits_are_equal(data):
    X, y = data[0][:1200], data[1][:1200]
    first, second = (
        nf.ExactGPRegressor(n_scales="auto", random_state=3, n_restarts=0).fit(X, y).learned_ for _ in range(2)
    )
    assert first.n_evaluations == second.n_evaluations
    assert np.array_equal(first.kernel.length_scales, second.kernel.length_scales)


# ---- gradients of the likelihood ---------------------------------------------------------------------

SCALES = {
    "one": {"length_scale": 0.8, "signal_variance": 1.3},
    "each": {"length_scale": [0.5, 1.5], "signal_variance": 1.3},
    "two": {"length_scale": [[0.4, 0.6], [1.5, 2.0]], "signal_variance": [0.3, 1.0]},
}


def derivatives(fit, given):
    """Derivatives of the likelihood that models with hyperparameters given by their logarithms have, by differences."""
    names = ("length_scale", "signal_variance", "noise_variance")
    numbers = [np.asarray(given[name], dtype=float) for name in names if name in given]
    logs = np.log(np.concatenate([np.ravel(each) for each in numbers]))
    found = []
    for i in range(len(logs)):
        values = []
        for step in (1e-4, -1e-4):
            moved = np.exp(logs + step * (np.arange(len(logs)) == i))
            parts = np.split(moved, np.cumsum([each.size for each in numbers])[:-1])
            shaped = [part.reshape(each.shape) for part, each in zip(parts, numbers, strict=True)]
            new = {n: v if v.ndim else float(v) for n, v in zip([n for n in names if n in given], shaped, strict=True)}
            values.append(fit(**new).log_marginal_likelihood())
        found.append((values[0] - values[1]) / 2e-4)
    return found


@pytest.mark.parametrize("scales", SCALES)
@pytest.mark.parametrize("kind", ["exact", "matern", "drift", "taylor", "fourier"])
@few_features
def test_the_gradient_of_the_likelihood_is_its_derivative(scales, kind):
    rng = np.random.default_rng(0)
    X, weights = rng.uniform(0, 2, (60, 2)), rng.uniform(0.5, 2, 60)
    y = np.column_stack([np.sin(3 * X[:, 0]) + X[:, 1], np.cos(2 * X[:, 1])]) + 0.2 * rng.standard_normal((60, 2))
    maps = {"taylor": nf.TaylorFeatures(9, center=[1.0, 1.0]), "fourier": nf.FourierFeatures(31, random_state=0)}
    options = {"matern": {"kernel": "matern32"}, "drift": {"drift": "linear"}}.get(kind, {})

    def fit(**given):
        given = {**given, "random_state": 0}
        made = nf.FeatureGPRegressor(maps[kind], **given) if kind in maps else nf.ExactGPRegressor(**given, **options)
        return made.fit(X, y, weights)

    given = {**SCALES[scales], "noise_variance": 0.05}
    value, gradient = fit(**given).log_marginal_likelihood(eval_gradient=True)
    assert value == fit(**given).log_marginal_likelihood()
    assert_allclose(gradient, derivatives(fit, given), rtol=1e-4, atol=1e-4)


def test_the_gradient_of_a_map_without_length_scales_and_what_has_none():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (50, 2))
    y = X[:, 0] ** 2 + 0.1 * rng.standard_normal(50)

    def fit(**given):
        return nf.FeatureGPRegressor(PolynomialFeatures(2), **given).fit(X, y)

    given = {"signal_variance": 0.7, "noise_variance": 0.02}
    gradient = fit(**given).log_marginal_likelihood(eval_gradient=True)[1]
    assert_allclose(gradient, derivatives(fit, given), rtol=1e-5)
    with pytest.raises(ValueError, match="profile_likelihood is that of a kernel with length scales"):
        fit().profile_likelihood("signal_variance")
    given = {"length_scale": 1.0, **given, "random_state": 0}
    sketch = nf.FeatureGPRegressor(nf.MaclaurinFeatures(50, random_state=0), **given).fit(X, y)
    with pytest.raises(ValueError, match="is for Gaussian kernels by TaylorFeatures"):
        sketch.log_marginal_likelihood(eval_gradient=True)
    groups = nf.ExactGPRegressor(**given, coordinates=[0], groups=[1]).fit(np.round(X), y)
    with pytest.raises(ValueError, match="without groups"):
        groups.log_marginal_likelihood(eval_gradient=True)


# ---- what features learn by their own likelihood ---------------------------------------------------------------------


@pytest.mark.parametrize("feature_map", [nf.FourierFeatures(40, random_state=0), PolynomialFeatures(2)])
@few_features
def test_learned_is_what_the_features_learnt(feature_map):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (120, 1))
    y = np.sin(2 * X[:, 0]) + 0.2 * rng.standard_normal(120)
    model = nf.FeatureGPRegressor(feature_map, likelihood="features", random_state=0).fit(X, y)
    assert model.learned_.kernel is model.kernel_
    assert model.learned_.noise_variance == model.noise_variance_
    assert model.learned_.log_likelihood == pytest.approx(model.log_marginal_likelihood() / len(X))
    assert model.learned_.n_evaluations > 0
    gradient = model.log_marginal_likelihood(eval_gradient=True)[1]
    assert np.abs(gradient).max() < 0.5  # of 120 points, at a maximum


@few_features
def test_other_units_keep_what_the_features_learnt_and_the_rows():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.uniform(0, 3, (80, 2)), rng.standard_normal(80)])
    y = np.sin(2 * X[:, 0]) + X[:, 2] + 0.2 * rng.standard_normal(80)
    taylor = nf.TaylorFeatures(12, center=[1.5, 1.5])
    given = {"likelihood": "features", "coordinates": [0, 1], "drift": [2], "random_state": 0}
    model = nf.FeatureGPRegressor(taylor, **given).fit(X, y)
    before, left_out, noise = model.predict(X), model.cross_validate(np.arange(80) % 4), model.noise_variance_
    units = np.array([10.0, 0.1, 2.0])
    rescale(model, units)
    assert model.noise_variance_ == noise
    assert_allclose(model.predict(X * units), before)
    again = model.cross_validate(np.arange(80) % 4)
    assert_allclose(again.mean, left_out.mean)
    assert_allclose(again.std, left_out.std)
