"""The paper's methods of the experiments against the estimators that they stand for."""

import numpy as np
import pytest

import nearfield as nf
from nearfield.reproduction import authors, methods, shifting
from nearfield.reproduction.problems import Hyperparameters, Problem, published_hyperparameters
from nearfield.reproduction.shifting import AroundTestPoints


@pytest.fixture(scope="module")
def problem():
    rng = np.random.RandomState(1)
    X = rng.uniform(-2, 2, (150, 3))
    y = np.sin(X).sum(axis=1) + 0.1 * rng.standard_normal(150)
    fixed = Hyperparameters(0.9, 1.3, 0.05)
    exact = nf.ExactGPRegressor(**fixed.as_parameters()).fit(X[:110], y[:110])
    mean, std = exact.predict(X[110:], return_std=True, include_noise=True)
    return Problem("yacht", "published", 3, X[:110], y[:110], X[110:], y[110:], fixed, mean, std)


@pytest.mark.parametrize("sampling", ["rademacher", "tensor_srht"])
@pytest.mark.parametrize("many", [1, 1000])
def test_all_spacings_at_once_are_the_papers_algorithm(problem, sampling, many, monkeypatch):
    monkeypatch.setattr(methods, "SEVERAL", many)  # with and without the factors kept
    monkeypatch.setattr(methods, "authors_plan", lambda plan, *_: plan)
    spacings = [None, 4.0, 1.0, 0.5]
    for spacing, (mean, std) in zip(spacings, methods.maclaurin(problem, sampling, 24, spacings), strict=True):
        given = {"centers": "mean"} if spacing is None else {"spacing": spacing}
        model = nf.LocalGPRegressor.from_paper(
            24, sampling=sampling, random_state=3, **given, **problem.hyperparameters.as_parameters()
        ).fit(problem.X, problem.y)
        expected, expected_std = model.predict(problem.X_test, return_std=True, include_noise=True)
        np.testing.assert_allclose(mean, expected, atol=1e-9)
        np.testing.assert_allclose(std, expected_std, atol=1e-9)


@pytest.mark.parametrize("sampling", ["rademacher", "tensor_srht"])
def test_the_authors_allocation_has_at_least_degree_two(sampling):
    z = 0.4 * np.random.RandomState(0).standard_normal((200, 8))
    shares = authors.counts(z, 32, sampling)
    assert sum(shares.values()) == 31
    assert max(shares) >= 2
    assert authors.counts(z, 2, sampling) == {1: 1}


def test_the_authors_bias_counts_each_point_with_itself():
    z = np.random.RandomState(0).standard_normal((40, 2)) * 0.8
    spread = 0.5 * np.add.outer((z**2).sum(axis=1), (z**2).sum(axis=1))
    product = z @ z.T
    lacking, term = np.exp(product - spread), np.exp(-spread)
    biases = []
    for n in range(1, 8):
        lacking = lacking - term
        biases.append(np.mean(lacking**2))
        term = term * product / n
    captured = {}

    def capture(errors, *_, **__):
        captured["bias"] = errors.bias
        return {}, 0.0

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(authors.allocation, "optimal_counts", capture)
        authors.counts(z, 64, "rademacher")
    assert np.all(np.isinf(captured["bias"][:2]))
    np.testing.assert_allclose(captured["bias"][2:7], biases[2:7], rtol=1e-9)


def test_around_the_test_points(problem):
    given = {"sampling": "tensor_srht", "random_state": 0, **problem.hyperparameters.as_parameters()}
    found = AroundTestPoints(24, **given).fit(problem.X, problem.y).predict(problem.X_test, True, True)
    model = nf.LocalGPRegressor.from_paper(24, centers="test", **given).fit(problem.X, problem.y)
    expected = model.predict(problem.X_test, return_std=True, include_noise=True)
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_chunks_far_from_a_centre_may_be_left_out(problem, monkeypatch):
    given = {"random_state": 0, **problem.hyperparameters.as_parameters()}
    X = np.concatenate([problem.X, problem.X + 40.0])
    y = np.concatenate([problem.y, problem.y])
    expected = nf.LocalGPRegressor.from_paper(24, centers="test", **given).fit(X, y)
    monkeypatch.setattr(shifting, "CHUNK", 32)
    found = AroundTestPoints(24, **given).fit(X, y)
    assert len(found.shifted.lower) == 7
    for points in (problem.X_test, problem.X_test + 40.0, problem.X_test + 9.0):
        np.testing.assert_allclose(
            found.predict(points, True, True), expected.predict(points, return_std=True, include_noise=True), atol=1e-9
        )


def test_centroids_of_large_thresholds_come_first(problem):
    fine, coarse = problem.centroids(0.5), problem.centroids(1.0)
    assert 1 < len(coarse) < len(fine)
    np.testing.assert_array_equal(fine[: len(coarse)], coarse)


def test_a_stop_is_heeded(problem):
    with pytest.raises(methods.StoppedError):
        methods.maclaurin(problem, "rademacher", 8, [None], stopped=lambda: True)


def test_ours_takes_about_as_many_unknowns_as_asked():
    rng = np.random.RandomState(0)
    plane = methods.our_parameters(rng.uniform(0, 10, (500, 2)), 100)
    assert plane["features"].degree == 12  # 91 monomials, 105 for the next
    assert plane["radius"] == pytest.approx(12**0.5)
    sparse = methods.our_parameters(rng.uniform(0, 20, (300, 6)), 32)
    assert sparse["features"] == "kernel"
    smooth = methods.our_parameters(rng.uniform(0, 1, (300, 6)), 32)
    assert smooth["features"].n_components == 32
    assert smooth["centers"] == "mean"


def test_two_of_ten_seeds_of_kin8nm_have_the_longer_length_scale():
    lengths = [published_hyperparameters("kin8nm", seed).length_scale for seed in range(10)]
    assert sorted(lengths) == [2.15] * 8 + [2.63] * 2
    assert published_hyperparameters("yacht", 9).noise_variance == pytest.approx(np.exp(2), rel=1e-3)
