"""The likelihood of local models, and along one hyperparameter."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import nearfield as nf
from nearfield.hyperparameters.all_data import Profile, log_likelihood_of_all
from nearfield.kernels import Kernel

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
