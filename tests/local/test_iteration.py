"""The exact process by iteration against dense solutions."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

from nearfield.common.errors import OutOfReachError
from nearfield.features.domain import DomainFeatures
from nearfield.kernels import Kernel
from nearfield.local import block_inverse, iteration
from nearfield.local.block_inverse import BlockInverse
from nearfield.local.global_part import GlobalPart, rows_of
from nearfield.local.iteration import ExactMean, System, solve_mean
from nearfield.local.neighbourhoods import TrainingSet
from nearfield.solvers.grid_products import GridProduct
from nearfield.solvers.node_inverse import NodeInverse

WIDTH = 16.0
SHORT = Kernel(np.array([[1.0]]), np.array([1.2]))
TWO_SHORT = Kernel(np.array([[0.6], [1.5]]), np.array([0.5, 0.8]))
COLUMNS = Kernel(np.array([[0.8, 1.6]]), np.array([1.0]))
LONG, LONG_VARIANCE = 14.0, 2.0
FINEST = 1e-14  # a divergence that asks for a relative residual of 1e-11
CASES = {
    "short": (SHORT, False),
    "two short": (TWO_SHORT, False),
    "one scale per column": (COLUMNS, False),
    "short and long": (SHORT, True),
    "two short and long": (TWO_SHORT, True),
}


def features():
    found = DomainFeatures.covering(
        np.zeros(2), np.full(2, WIDTH), np.array([LONG]), LONG_VARIANCE, lack=1e-13, most=500
    )
    assert found is not None
    return (found,)


def part_of(short):
    """Of the sums only the iteration's own are used."""
    found = features()
    D = found[0].n_components
    return GlobalPart(found, short, np.zeros((D, D)), np.zeros((D, 2)), np.eye(D))


def whole(short, has_long):
    if not has_long:
        return short
    lengths = np.concatenate([short.length_scales, np.full((1, short.length_scales.shape[1]), LONG)])
    return Kernel(lengths, np.append(short.variances, LONG_VARIANCE))


def training(n=700, k=1, seed=0, several=True):
    """Noise variances of several sizes, as weights make them."""
    rng = np.random.RandomState(seed)
    X = rng.uniform(0, WIDTH, (n, 2))
    y = np.sin(X @ rng.uniform(0.2, 1.5, (2, k))) + 0.2 * rng.standard_normal((n, k))
    return TrainingSet.of(X, y, 10 ** rng.uniform(-2.5, 0.5, n) if several else np.full(n, 0.04))


def dense(kernel, data):
    return kernel(data.X, data.X) + np.diag(data.noise)


def system_of(name, data, **options):
    short, has_long = CASES[name]
    return System.of(short, features() if has_long else (), data.X, data.noise, np.random.RandomState(0), 1, **options)


def mean_of(name, data, tolerance=FINEST):
    short, has_long = CASES[name]
    part = part_of(short) if has_long else None
    return solve_mean(short, part, data, tolerance, np.random.RandomState(0), 1, None, data.y.shape[1] - 1)


def places(n=80):
    return np.random.RandomState(7).uniform(-2, WIDTH + 2, (n, 2))


@pytest.fixture
def block_by_block(monkeypatch):
    monkeypatch.setattr(iteration, "node_cost", lambda *_: np.inf)


@pytest.fixture
def by_nodes(monkeypatch):
    monkeypatch.setattr(iteration, "node_cost", lambda kernel, *_: 0.0 if kernel.n_scales == 1 else np.inf)


# ---- the mean ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["by_nodes", "block_by_block"])
@pytest.mark.parametrize("several", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_the_mean_is_the_dense_solution(request, name, several, way):
    request.getfixturevalue(way)
    data, kernel = training(k=2, several=several), whole(*CASES[name])
    inside = np.random.RandomState(7).uniform(0, WIDTH, (80, 2))
    expected = kernel(inside, data.X) @ np.linalg.solve(dense(kernel, data), data.y)
    found = mean_of(name, data)
    assert isinstance(found, ExactMean)
    np.testing.assert_allclose(found(inside), expected, atol=1e-8)


@pytest.mark.parametrize("name", ["short", "two short"])
def test_the_mean_is_exact_beyond_the_data_too(name):
    data, kernel = training(), whole(*CASES[name])
    expected = kernel(places(), data.X) @ np.linalg.solve(dense(kernel, data), data.y)
    np.testing.assert_allclose(mean_of(name, data)(places()), expected, atol=1e-8)
    np.testing.assert_array_equal(mean_of(name, data)(np.full((1, 2), 1e4)), 0.0)


@pytest.mark.parametrize("tolerance", [1.0, 1e-2, 1e-4, 1e-6])
def test_the_mean_is_far_more_precise_than_the_tolerance_asks_for(tolerance):
    """Errors of the mean make a divergence of half their square over the variance of an observation."""
    data, kernel = training(several=False), whole(*CASES["short and long"])
    inside = np.random.RandomState(7).uniform(0, WIDTH, (80, 2))
    expected = kernel(inside, data.X) @ np.linalg.solve(dense(kernel, data), data.y)
    error = mean_of("short and long", data, tolerance)(inside) - expected
    assert np.max(0.5 * error**2 / 0.04) <= 0.01 * tolerance


def test_weights_are_those_of_the_dense_solution():
    data, kernel = training(), whole(*CASES["short and long"])
    found = mean_of("short and long", data)
    np.testing.assert_allclose(found.weights, np.linalg.solve(dense(kernel, data), data.y), atol=1e-6)
    again = ExactMean.of(SHORT, part_of(SHORT), data.X, found.weights, 1)
    np.testing.assert_allclose(again.long_weights, found.long_weights, atol=1e-10)
    np.testing.assert_allclose(again(places()), found(places()), atol=1e-12)
    alone = ExactMean.of(SHORT, None, data.X, found.weights, 1)
    assert alone.features == ()
    np.testing.assert_allclose(alone(places()), SHORT(places(), data.X) @ found.weights, atol=1e-8)


def test_tensors_give_what_arrays_give():
    torch = pytest.importorskip("torch")
    found = mean_of("short and long", training(200), 1e-4)
    answer = found(torch.as_tensor(places()))
    assert answer.dtype == torch.float64
    np.testing.assert_array_equal(answer.numpy(), found(places()))
    assert found(torch.as_tensor(places(), dtype=torch.float32)).dtype == torch.float32


@pytest.mark.parametrize("n", [1, 3, 20])
def test_few_points_will_do(n):
    data = training(n)
    expected = SHORT(places(), data.X) @ np.linalg.solve(dense(SHORT, data), data.y)
    np.testing.assert_allclose(mean_of("short", data)(places()), expected, atol=1e-8)


def test_points_at_the_same_places():
    once = training(150, several=False)
    data = TrainingSet.of(np.repeat(once.X, 4, axis=0), np.repeat(once.y[:, :1], 4, axis=0), np.full(600, 0.04))
    expected = SHORT(places(), data.X) @ np.linalg.solve(dense(SHORT, data), data.y)
    np.testing.assert_allclose(mean_of("short", data)(places()), expected, atol=1e-7)


@pytest.mark.parametrize("noise", [0.04, 1e-3])
def test_dense_points_are_solved_for_on_a_grid(noise):
    rng = np.random.RandomState(0)
    X = rng.uniform(0, 4, (2000, 2))
    data = TrainingSet.of(X, np.sin(X[:, :1]), np.full(2000, noise))
    system = System.of(SHORT, (), X, data.noise, np.random.RandomState(0), 1)
    assert [type(part) for part in system.kernel.parts] == [GridProduct]
    assert 0.99 * noise <= system.least_noise < noise
    weights = np.linalg.solve(dense(SHORT, data), data.y)
    mean = solve_mean(SHORT, None, data, FINEST, np.random.RandomState(0), 1, None, data.y.shape[1] - 1)
    inside = rng.uniform(-1, 5, (50, 2))
    for each in (mean, pickle.loads(pickle.dumps(mean))):
        np.testing.assert_allclose(each(inside), SHORT(inside, X) @ weights, atol=1e-7)
    np.testing.assert_array_equal(mean(np.full((1, 2), 1e4)), 0.0)


# ---- out of reach --------------------------------------------------------------------------------------------------


def test_too_many_pairs_are_out_of_reach(monkeypatch):
    monkeypatch.setattr(iteration, "MOST_PAIRS", 1000)
    assert mean_of("short", training()) is None
    with pytest.raises(ValueError, match="pairs"):
        system_of("short", training(), max_pairs=1000)


def test_too_many_iterations_are_out_of_reach(monkeypatch):
    monkeypatch.setattr(iteration, "MAX_ITERATIONS", 1)
    monkeypatch.setattr(iteration, "N_EARLIER", 2)
    assert mean_of("short", training()) is None


def test_what_has_not_converged_is_refused(monkeypatch, block_by_block):
    monkeypatch.setattr(iteration, "MAX_ITERATIONS", 1)
    monkeypatch.setattr(iteration, "N_EARLIER", 2)
    system, y = system_of("short", training()), training().y
    with pytest.raises(OutOfReachError, match=r"700 samples is out of reach: 1 iterations .* where 1.0e-06 is needed"):
        system.solve(y, 1e-6)
    reached = system.attempt(y, 1e-6).relative_residuals.max()
    assert 1e-6 < reached < 1
    np.testing.assert_array_equal(system.solve(y, 1e-6, at_most=1.01 * reached).x, system.attempt(y, 1e-6).x)


def test_other_errors_are_not_taken_for_too_many_pairs(monkeypatch):
    def fails(*_):
        raise ValueError("a mistake")

    monkeypatch.setattr(iteration, "_inverse", fails)
    with pytest.raises(ValueError, match="a mistake"):
        mean_of("short", training(100))


def test_the_mean_of_targets_far_larger_than_the_prior():
    """Residuals are shares of the targets: what is left of them is held against the noise."""
    data = training(several=False)
    data = replace(data, y=data.y + 1e4 * np.cos(data.X[:, :1] / 9))
    kernel, inside = whole(SHORT, True), np.random.RandomState(7).uniform(0, WIDTH, (80, 2))
    found = mean_of("short and long", data, 1e-3)(inside)
    expected = kernel(inside, data.X) @ np.linalg.solve(dense(kernel, data), data.y)
    assert np.mean((found - expected)[:, 0] ** 2) / (2 * 0.04) < 1e-4  # nats, of which 1e-3 are tolerated


@pytest.mark.parametrize("way", ["by_nodes", "block_by_block"])
def test_long_scales_of_large_variance_converge(request, way):
    request.getfixturevalue(way)
    data, (found,) = training(several=False), features()
    system = System.of(SHORT, (replace(found, variance=1e7),), data.X, data.noise, np.random.RandomState(0), 1)
    y = data.y + 3e3 * np.cos(data.X[:, :1] / 9)
    solution = system.attempt(y, 1e-9)
    assert solution.converged.all()
    assert solution.n_iterations <= 10


def test_too_little_memory_is_out_of_reach(monkeypatch):
    monkeypatch.setattr(iteration.memory, "available", lambda: 1000)
    assert mean_of("short", training()) is None


# ---- the system ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_products_are_those_of_the_dense_matrix(name):
    data, kernel = training(), whole(*CASES[name])
    V = np.random.RandomState(3).standard_normal((len(data.X), 4))
    system = system_of(name, data)
    # An entry is too small by at most the cutoff.
    limit = iteration.CUTOFF * kernel.variance * np.abs(V).sum(axis=0).max() + 1e-10
    np.testing.assert_allclose(system.product(V), dense(kernel, data) @ V, atol=limit)
    least = np.linalg.eigvalsh(dense(kernel, data))[0]
    assert 0 < system.least_noise <= data.noise.min() <= least * (1 + 1e-9)


@pytest.fixture
def in_double(monkeypatch, block_by_block):
    monkeypatch.setattr(block_inverse, "LEAST_NOISE", np.inf)


@pytest.mark.usefixtures("in_double")
@pytest.mark.parametrize("name", CASES)
def test_the_preconditioner_is_symmetric_and_positive_definite(name):
    data = training(300)
    P = system_of(name, data).preconditioner.product(np.eye(300))
    np.testing.assert_allclose(P, P.T, atol=1e-9 * np.abs(P).max())
    assert np.linalg.eigvalsh(0.5 * (P + P.T))[0] > 0


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("way", ["by_nodes", "block_by_block"])
def test_the_preconditioner_is_close_to_the_inverse(request, name, way):
    request.getfixturevalue(way)
    data, kernel = training(400), whole(*CASES[name])
    P = system_of(name, data).preconditioner.product(np.eye(400))
    root = np.linalg.cholesky(dense(kernel, data))
    values = np.linalg.eigvalsh(root.T @ (0.5 * (P + P.T)) @ root)  # all 1 for the inverse itself
    assert values[0] > 0.5
    assert values[-1] < 2.0


@pytest.mark.usefixtures("in_double")
@pytest.mark.parametrize("name", CASES)
def test_with_all_earlier_points_the_preconditioner_is_the_inverse(monkeypatch, name):
    monkeypatch.setattr(iteration, "N_EARLIER", 1000)
    data, kernel = training(200), whole(*CASES[name])
    P = system_of(name, data).preconditioner.product(np.eye(200))
    np.testing.assert_allclose(P @ dense(kernel, data), np.eye(200), atol=1e-7)


@pytest.mark.parametrize(("way", "most"), [("by_nodes", 5), ("block_by_block", 15)])
def test_few_iterations_do(request, way, most):
    request.getfixturevalue(way)
    data = training()
    B = np.random.RandomState(0).standard_normal((len(data.X), 3))
    system = system_of("short and long", data)
    assert isinstance(system.preconditioner.inverse, NodeInverse if way == "by_nodes" else BlockInverse)
    solution = system.attempt(B, 1e-9)
    assert solution.converged.all()
    assert solution.n_iterations <= most
    expected = np.linalg.solve(dense(whole(SHORT, True), data), B)
    np.testing.assert_allclose(solution.x, expected, atol=1e-6 * np.abs(expected).max())


def test_nodes_are_for_maps_that_are_not_wide():
    rng, noise = np.random.RandomState(0), np.full(2000, 0.1)
    for width, kind in ((20.0, NodeInverse), (2000.0, BlockInverse)):
        X = rng.uniform(0, width, (2000, 2))
        assert isinstance(System.of(SHORT, (), X, noise, rng, 1).preconditioner.inverse, kind)
        data = TrainingSet.of(X, np.ones((2000, 1)), noise)
        per_point = iteration.cost_of_mean(SHORT, 0, data) / 2000
        assert (per_point < 5e4) == (kind is NodeInverse)


@pytest.mark.parametrize("width", [20.0, 2000.0])
def test_many_right_hand_sides_cost_in_proportion(width):
    X, noise = np.random.RandomState(0).uniform(0, width, (2000, 2)), np.full(2000, 0.1)
    usual, many = (iteration.cost_of_mean(SHORT, 0, TrainingSet.of(X, np.ones((2000, k)), noise)) for k in (1, 301))
    n_usual, n_many = (k + 1 + iteration.N_SIGNS for k in (1, 301))
    assert 0.1 * n_many / n_usual < many / usual <= n_many / n_usual


def test_progress_is_told():
    data, told = training(), []

    def progress(stage, done, value):
        told.append((stage, done, value))

    found = solve_mean(SHORT, None, data, 1e-6, np.random.RandomState(0), 1, progress, data.y.shape[1] - 1)
    assert found is not None
    assert told
    assert all(0 <= done <= 1 for _, done, _ in told)


def test_threads_change_nothing():
    data = training(400)
    one, two = (
        solve_mean(SHORT, part_of(SHORT), data, 1e-6, np.random.RandomState(0), n_jobs, None, 1)(places())
        for n_jobs in (1, 2)
    )
    np.testing.assert_allclose(one, two, atol=1e-12)


def test_features_are_those_of_the_long_scale():
    X = np.random.RandomState(0).uniform(0, WIDTH, (100, 2))
    Phi = rows_of(features(), X, 1)
    np.testing.assert_allclose(Phi @ Phi.T, Kernel(np.array([[LONG]]), np.array([LONG_VARIANCE]))(X, X), atol=1e-11)


@pytest.mark.parametrize("tolerance", [1e-2, 1e-4])
def test_what_the_iteration_leaves_is_known(tolerance):
    """The divergence said is no less than the true one at the data, and a small share of the tolerance."""
    data, kernel = training(several=False), whole(*CASES["short and long"])
    found = mean_of("short and long", data, tolerance)
    expected = kernel(data.X, data.X) @ np.linalg.solve(dense(kernel, data), data.y)
    truth = np.mean(0.5 * (found(data.X) - expected)[:, :-1] ** 2 / data.noise[:, None])
    assert 0 < truth <= found.divergence <= 0.01 * tolerance
