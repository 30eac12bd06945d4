"""Landmarks in many columns: an exact mean in few iterations, and variances that are near the exact ones."""

import pickle

import numpy as np
import pytest

import nearfield as nf
from nearfield import metrics
from nearfield.kernels import Kernel
from nearfield.local import landmark_inverse
from nearfield.local.iteration import System
from nearfield.local.landmark_variances import LandmarkVariances
from nearfield.solvers.factors import factorise
from nearfield.solvers.landmarks import Landmarks

from ..small import approximations_only

KERNEL = Kernel(np.array([[0.5] * 5, [2.5] * 5]), np.array([0.5, 2.0]))


def table(n=1800, d=5, noise=0.05, seed=0, n_test=200):
    """Parameters, training rows and places of a table drawn from the process."""
    rng = np.random.RandomState(seed)
    X = rng.uniform(size=(n + n_test, d))
    kernel = Kernel(KERNEL.length_scales[:, :d], KERNEL.variances)
    f = np.linalg.cholesky(kernel(X, X) + 1e-9 * np.eye(len(X))) @ rng.standard_normal(len(X))
    given = {
        "length_scale": kernel.length_scales,
        "signal_variance": kernel.variances,
        "noise_variance": noise,
        "n_scales": 2,
        "likelihood": "gaussian",
        "noise": "constant",
    }
    return given, X[:n], f[:n] + noise**0.5 * rng.standard_normal(n), X[n:]


@pytest.mark.parametrize("noise", [1e-4, 0.05, 5.0])
def test_iterations_end_soon_at_the_dense_solution(noise):
    _, X, y, _ = table(1200, noise=noise)
    s = np.full(len(X), noise)
    system = System.of(KERNEL, (), X, s, np.random.RandomState(0), 1)
    solution = system.solve(y[:, None], 1e-8)
    expected = np.linalg.solve(KERNEL(X, X) + noise * np.eye(len(X)), y)
    np.testing.assert_allclose(solution.x[:, 0], expected, atol=1e-5 * np.abs(expected).max())
    assert solution.n_iterations < (60 if noise < 0.01 else 30)


def test_landmarks_take_the_iterations_that_cells_alone_would_need(monkeypatch):
    _, X, y, _ = table(1500)
    steps = []
    for most in (400, 0):
        monkeypatch.setattr(landmark_inverse, "number_of_landmarks", lambda _, most=most: most)
        system = System.of(KERNEL, (), X, np.full(len(X), 0.05), np.random.RandomState(0), 1)
        steps.append(system.solve(y[:, None], 1e-6).n_iterations)
    assert 2 * steps[0] < steps[1]


def variances_of(X, noise, m, count):
    """With the exact precision of the coefficients, which iterations only approach."""
    landmarks = Landmarks.of(KERNEL, X, m, np.random.RandomState(0))
    F = landmarks.features(X)
    left = KERNEL(X, X) - F @ F.T + noise * np.eye(len(X))
    precision = factorise(F.T @ np.linalg.solve(left, F), np.ones(F.shape[1]), "matrix")
    return LandmarkVariances(KERNEL, X, np.full(len(X), noise), landmarks, precision, count)


@pytest.mark.parametrize("noise", [1e-5, 0.05])
def test_with_all_points_variances_are_exact(noise):
    """At places anywhere, and at rows that are left out."""
    _, X, _, places = table(300, noise=noise)
    variances = variances_of(X, noise, 60, 400)
    K = KERNEL(X, X) + noise * np.eye(len(X))
    cross = KERNEL(X, places)
    expected = KERNEL.variance - np.sum(cross * np.linalg.solve(K, cross), axis=0)
    np.testing.assert_allclose(variances(places), expected, rtol=1e-3, atol=1e-7)
    rows = np.arange(0, 300, 7)
    left_out = 1 / np.diagonal(np.linalg.inv(K))[rows] - noise
    np.testing.assert_allclose(variances.left_out(rows), left_out, rtol=1e-3, atol=1e-7)


def test_more_neighbours_are_nearer():
    _, X, _, places = table(800)
    K, cross = KERNEL(X, X) + 0.05 * np.eye(len(X)), KERNEL(X, places)
    exact = KERNEL.variance - np.sum(cross * np.linalg.solve(K, cross), axis=0)
    errors = [np.abs(variances_of(X, 0.05, 100, count)(places) - exact).mean() for count in (5, 50, 400)]
    assert errors[0] > 1.5 * errors[1] > 2 * errors[2]


@pytest.fixture(scope="module")
def fitted():
    given, X, y, places = table()
    with approximations_only():
        model = nf.LocalGPRegressor(**given, random_state=0).fit(X, y)
    return (
        model,
        nf.ExactGPRegressor(**{k: v for k, v in given.items() if k not in ("likelihood", "noise")}).fit(X, y),
        places,
    )


def test_a_table_gets_an_exact_mean_and_the_report_is_true(fitted):
    model, exact, places = fitted
    report = model.report_
    mean, std = model.predict(places, return_std=True)
    expected, spread = exact.predict(places, return_std=True)
    assert report.exact_mean
    assert report.verified
    assert report.tolerance_met
    np.testing.assert_allclose(mean, expected, atol=0.03 * spread.min())
    function = metrics.kl_divergence(mean, std**2, expected, spread**2).mean()
    assert function <= 1.3 * report.divergence_of_function_upper
    assert function <= 1e-2
    np.testing.assert_array_equal(model.predict(places), mean)


def test_it_can_be_saved_pickled_and_asked_for_everything(fitted, tmp_path):
    model, _, places = fitted
    mean, std = model.predict(places, return_std=True)
    nf.save(model, tmp_path / "model.nf")
    for other in (nf.load(tmp_path / "model.nf"), pickle.loads(pickle.dumps(model))):
        again, spread = other.predict(places, return_std=True)
        np.testing.assert_allclose(again, mean, rtol=1e-9)
        np.testing.assert_allclose(spread, std, rtol=1e-5)
    certificate = model.certify(places, n_probes=20, random_state=0)
    assert certificate.divergence_of_function < 1e-2
    draws = model.sample_y(places[:5], 200, random_state=0)
    assert np.abs(draws.mean(axis=1) - mean[:5]).max() < 0.5
    assert np.isfinite(model.predict_gradient(places[:5])).all()


def test_more_rows_are_taken_in(fitted):
    _, _, places = fitted
    given, X, y, _ = table(n=2000)
    with approximations_only():
        early = nf.LocalGPRegressor(**given, random_state=0).fit(X[:1700], y[:1700])
        whole = early.partial_fit(X[1700:], y[1700:])
    mean, std = whole.predict(places[:50], return_std=True)
    exact = nf.ExactGPRegressor(**{k: v for k, v in given.items() if k not in ("likelihood", "noise")}).fit(X, y)
    expected, spread = exact.predict(places[:50], return_std=True)
    np.testing.assert_allclose(mean, expected, atol=0.1 * spread.min())
    np.testing.assert_allclose(std, spread, rtol=0.1)


BAD = [
    "a row far away",
    "rows very far away",
    "few rows",
    "rows that coincide",
    "a constant column",
    "two columns equal",
    "very long",
    "very short",
]


@pytest.mark.parametrize("bad", BAD)
def test_unusual_tables_are_right(bad):
    given, X, y, places = table(700, n_test=50)
    if bad == "few rows":
        X, y = X[:60], y[:60]
    if bad in ("a row far away", "rows very far away"):
        X[3], X[5] = (1e5, -1e9) if bad == "a row far away" else (1e18, -1e12)
    if bad == "rows that coincide":
        X[350:] = X[:350]
    if bad == "a constant column":
        X[:, 2], places[:, 2] = 0.3, 0.3
    if bad == "two columns equal":
        X[:, 1], places[:, 1] = X[:, 0], places[:, 0]
    if bad == "very long":
        given["length_scale"] = 100 * given["length_scale"]
    if bad == "very short":
        given["length_scale"] = given["length_scale"] / 100
    with approximations_only():
        model = nf.LocalGPRegressor(**given, random_state=0).fit(X, y)
    exact = nf.ExactGPRegressor(**{k: v for k, v in given.items() if k not in ("likelihood", "noise")}).fit(X, y)
    mean, std = model.predict(places, return_std=True)
    expected, spread = exact.predict(places, return_std=True)
    noise = given["noise_variance"]
    assert metrics.kl_divergence(mean, std**2 + noise, expected, spread**2 + noise).mean() < 1e-2


@pytest.mark.filterwarnings("ignore:tolerance")
@pytest.mark.parametrize("noise", [1e-9, 1e-5])
def test_hardly_any_noise_is_right_or_said_not_to_be(noise):
    given, X, y, places = table(800, noise=noise, n_test=50)
    with approximations_only():
        model = nf.LocalGPRegressor(**given, random_state=0).fit(X, y)
    exact = nf.ExactGPRegressor(**{k: v for k, v in given.items() if k not in ("likelihood", "noise")}).fit(X, y)
    mean, std = model.predict(places, return_std=True)
    expected, spread = exact.predict(places, return_std=True)
    function = metrics.kl_divergence(mean, std**2, expected, spread**2).mean()
    assert function <= 1.5 * model.report_.divergence_of_function_upper
    assert function <= 1e-2 or not model.report_.tolerance_met
