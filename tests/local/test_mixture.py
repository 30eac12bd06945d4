"""Kernels of other families: exact where the process is, and mixtures whose share of the divergence is known."""

from functools import cache

import numpy as np
import pytest
from sklearn.linear_model import Ridge

import nearfield as nf
from nearfield import metrics
from nearfield.kernels import Kernel
from nearfield.local import in_memory
from nearfield.local.frame import Frame
from nearfield.local.mixture import ACCURACIES, refined
from nearfield.local.neighbourhoods import TrainingSet
from nearfield.solvers.kernel_space import KernelSpace

from ..small import exact_at_most, exact_up_to

FAMILIES = ["matern12", "matern32", "matern52", "rational_quadratic"]
WIDTH = 6.0


def kernel_of(family):
    return Kernel(np.array([[1.3]]), np.array([0.9]), family)


@cache
def drawn(family, n):
    """Points of a square, and a function drawn from the process."""
    rng = np.random.RandomState(0)
    X, K = rng.uniform(0, WIDTH, (n, 2)), kernel_of(family)
    return X, np.linalg.cholesky(K(X, X) + 1e-9 * np.eye(n)) @ rng.standard_normal(n), rng.standard_normal(n)


def problem(family, noise, n):
    X, f, e = drawn(family, n)
    given = {"length_scale": 1.3, "signal_variance": 0.9, "noise_variance": noise, "kernel": family}
    return given, X, f + noise**0.5 * e


def places(n=100):
    return np.random.RandomState(1).uniform(0, WIDTH, (n, 2))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("noise", [1e-3, 1.0])
def test_few_points_have_the_exact_process_with_the_kernel_itself(family, noise):
    given, X, y = problem(family, noise, 300)
    local, exact = nf.LocalGPRegressor(**given, noise="constant").fit(X, y), nf.ExactGPRegressor(**given).fit(X, y)
    assert local.report_.is_exact
    for found, expected in zip(
        local.predict(places(), return_std=True), exact.predict(places(), return_std=True), strict=True
    ):
        np.testing.assert_allclose(found, expected, atol=1e-7)


def test_all_that_such_a_model_can_do(tmp_path, monkeypatch):
    given, X, y = problem("matern52", 1e-2, 300)
    local, exact = nf.LocalGPRegressor(**given, noise="constant").fit(X, y), nf.ExactGPRegressor(**given).fit(X, y)
    at = places(20)
    joint = exact.predict(at, return_cov=True)[1]
    np.testing.assert_allclose(local.predict(at, return_cov=True)[1], joint, atol=1e-9)
    np.testing.assert_allclose(local.predict_gradient(at), exact.predict_gradient(at), rtol=1e-6)
    draws = local.sampler(2000, random_state=0)(at)
    np.testing.assert_allclose(np.cov(draws), joint, atol=6 * joint.max() / 2000**0.5)
    nf.save(local, tmp_path / "model.nf")
    np.testing.assert_array_equal(nf.load(tmp_path / "model.nf").predict(at), local.predict(at))
    monkeypatch.setattr("nearfield.local.covariance.DENSE_UP_TO", 0)  # by iteration, for which there must be Gaussians
    np.testing.assert_allclose(local.predict(at, return_cov=True)[1], joint, atol=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("noise", [1e-3, 1.0])
@pytest.mark.parametrize("tolerance", [1e-3, 1e-4])
def test_a_mixture_follows_the_tolerance_and_its_share_is_known(family, noise, tolerance):
    _, X, y = problem(family, noise, 600)
    kernel = kernel_of(family)
    start = Frame.of(kernel, noise, np.zeros(1))
    data = TrainingSet.of(start.points(X), y[:, None], np.full(600, noise))
    frame, distance = refined(kernel, start, data, tolerance, True)
    (mean, variance), (expected, expected_variance) = (
        KernelSpace.from_points(k, Z, y[:, None], data.noise).mean_and_variance(at)
        for k, Z, at in ((frame.kernel, frame.points(X), frame.points(places())), (kernel, X, places()))
    )
    finest = frame.kernel.n_scales == kernel.expanded(ACCURACIES[-1]).n_scales
    for figure, added, limit in ((distance.observations, noise, tolerance), (distance.function, 0.0, 10 * tolerance)):
        kl = metrics.kl_divergence(mean[:, 0], variance + added, expected[:, 0], expected_variance + added).mean()
        assert kl < 3 * figure.mean + 0.03 * limit
        assert figure.mean < 0.1 * limit or finest
        assert kl < 0.3 * limit


@pytest.mark.usefixtures("few_probes")
@pytest.mark.parametrize("tolerance", [1e-2, 1e-4])
def test_the_report_counts_the_mixture(tolerance, monkeypatch, tmp_path):
    exact_at_most(monkeypatch, 0)
    given, X, y = problem("matern52", 1e-3, 600)
    with exact_up_to(0), pytest.MonkeyPatch.context() as patch:
        patch.setattr(in_memory.FramedArrays, "prefers_exact_mean", lambda *_: True)
        model = nf.LocalGPRegressor(**given, noise="constant", tolerance=tolerance, random_state=0).fit(X, y)
    assert not model.report_.is_exact
    expected = nf.ExactGPRegressor(**given).fit(X, y).predict(places(), return_std=True, include_noise=True)
    mean, std = model.predict(places(), return_std=True, include_noise=True)
    kl = metrics.kl_divergence(mean, std**2, expected[0], expected[1] ** 2).mean()
    assert kl < 3 * model.report_.divergence
    assert kl < tolerance
    nf.save(model, tmp_path / "model.nf")
    kernel, again = model._fitted.frame.kernel, nf.load(tmp_path / "model.nf")._fitted.frame.kernel
    np.testing.assert_allclose(again.length_scales, kernel.length_scales)
    np.testing.assert_allclose(again.variances, kernel.variances)


@pytest.mark.usefixtures("few_probes")
@pytest.mark.parametrize("prefers_exact_mean", [True, False])
@pytest.mark.parametrize(
    "given",
    [
        {"drift": "linear", "coordinates": [0, 1]},
        {"drift": [], "coordinates": [0, 1]},
        {"drift": None},
        {"groups": [2], "coordinates": [0, 1]},
        {"mean": Ridge(), "coordinates": [0, 1]},
        {"n_targets": 2},
    ],
    ids=str,
)
def test_mixtures_serve_every_mean_and_several_targets(given, prefers_exact_mean, monkeypatch):
    hyperparameters, X, y = problem("matern32", 0.1, 400)
    given = {**hyperparameters, "random_state": 0, **given}
    n_targets = given.pop("n_targets", 1)
    level = np.random.RandomState(2).randint(0, 5, (2, 400))
    if "coordinates" in given:
        X, y = np.column_stack([X, level[0]]), y + 0.3 * level[0]
    at = np.column_stack([places(), level[1, :100]])[:, : X.shape[1]]
    y = y if n_targets == 1 else np.column_stack([y, 3 - 2 * y])
    expected = nf.ExactGPRegressor(**given).fit(X, y).predict(at, return_std=True, include_noise=True)
    exact_at_most(monkeypatch, 0)
    monkeypatch.setattr(in_memory.FramedArrays, "prefers_exact_mean", lambda *_: prefers_exact_mean)
    with exact_up_to(0):
        model = nf.LocalGPRegressor(**given, noise="constant", likelihood="gaussian").fit(X, y)
    mean, std = model.predict(at, return_std=True, include_noise=True)
    assert not model.report_.is_exact
    assert metrics.kl_divergence(mean, std**2, expected[0], expected[1] ** 2).mean() < 1e-3
