"""Products on a grid and the exact mean on tensors, against dense matrices and NumPy."""

from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from nearfield.common.budget import UNLIMITED
from nearfield.kernels import Kernel
from nearfield.local.iteration import SIGNS_RESIDUAL
from nearfield.solvers.grid_products import GridProduct
from nearfield.tensors import exact_mean
from nearfield.tensors.fit import FramedTensors
from nearfield.tensors.grid_products import TensorGrid

NO_CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
DEVICES = ["cpu", pytest.param("cuda", marks=NO_CUDA)]


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def points(n, d, seed=0):
    rng = np.random.RandomState(seed)
    X = rng.uniform(0, [40.0] if d == 1 else [7.0, 4.0], (n, d))
    X[: n // 5] = X[0] + 0.1 * rng.standard_normal((n // 5, d))  # more than a tile holds
    return X


def scales(d):
    return np.array([0.9, 1.3])[:d]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("cutoff", [1e-4, 1e-12])
def test_products_are_the_dense_ones_and_those_of_arrays(d, cutoff, device):
    X, kernel, v = points(500, d), Kernel.gaussian(scales(d)), np.random.RandomState(1).standard_normal(500)
    grid = TensorGrid.of(torch.as_tensor(X, device=device), scales(d), cutoff)
    nodes = grid.spread(torch.as_tensor(v, device=device))
    assert tuple(nodes.shape) == grid.shape
    result = grid.interpolate(nodes).cpu().numpy()
    assert abs(result - kernel(X, X) @ v).max() <= cutoff * abs(v).sum()
    of_arrays = GridProduct(kernel, X, cutoff=1e-13).product(v[:, None])[:, 0]
    np.testing.assert_allclose(result, of_arrays, atol=cutoff * abs(v).sum())


@pytest.mark.parametrize("n", [1, 3])
def test_few_points_will_do(n):
    X = np.full((n, 2), 2.5)
    grid = TensorGrid.of(torch.as_tensor(X), np.ones(1), 1e-12)
    np.testing.assert_allclose(grid.interpolate(grid.spread(torch.ones(n, dtype=torch.float64))), n, atol=1e-11)


def test_points_too_far_apart_and_many_columns_are_left_to_others():
    X = torch.as_tensor(np.concatenate([points(100, 2), points(100, 2) + 1e4]))
    assert TensorGrid.of(X, np.ones(1), 1e-10) is None
    assert TensorGrid.of(torch.zeros((4, 3), dtype=torch.float64), np.ones(1), 1e-10) is None
    targets, noise = torch.zeros((200, 1), dtype=torch.float64), torch.ones(200, dtype=torch.float64)
    assert exact_mean.solve(Kernel.gaussian(1.0), X, targets, noise, 1e-8) is None
    two = Kernel(np.array([[1.0], [2.0]]), np.ones(2))
    assert exact_mean.solve(two, X[:100], targets[:100], noise[:100], 1e-8) is None


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("variance", [1.0, 30.0])
def test_the_solution_is_the_dense_one(d, variance, device):
    X, rng = points(400, d), np.random.RandomState(2)
    noise = 0.1 * variance * rng.uniform(0.5, 2.0, 400)
    y = np.column_stack([np.sin(X[:, 0]) + 0.3 * rng.standard_normal(400), np.ones(400), np.zeros(400)])
    kernel = Kernel.gaussian(scales(d), variance)
    solution = exact_mean.solve(kernel, *(torch.as_tensor(each, device=device) for each in (X, y, noise)), 1e-10)
    x, expected = solution.x.cpu().numpy(), np.linalg.solve(kernel(X, X) + np.diag(noise), y)
    np.testing.assert_allclose(x, expected, atol=1e-7 * abs(expected).max())
    left = y - (kernel(X, X) + np.diag(noise)) @ x
    measured = np.linalg.norm(left[:, :2], axis=0) / np.linalg.norm(y[:, :2], axis=0)
    assert max(solution.relative_residuals) <= 1e-10
    assert measured.max() <= 2e-10
    assert solution.relative_residuals[2] == 0.0
    assert solution.n_iterations <= 60


def test_the_preconditioner_is_symmetric_positive_and_helps():
    X = points(300, 2)
    grid = TensorGrid.of(torch.as_tensor(X), np.ones(1), 1e-2)
    weights = torch.full((300,), 10.0, dtype=torch.float64)
    precondition, size = exact_mean._by_levels(grid, weights), np.prod(grid.shape)
    units = torch.eye(size, dtype=torch.float64).reshape(-1, *grid.shape)
    P = torch.stack([precondition(unit).flatten() for unit in units]).numpy()
    gram = torch.stack([grid.spread(weights * grid.interpolate(unit)).flatten() for unit in units])
    A = np.eye(size) + gram.numpy()
    np.testing.assert_allclose(P, P.T, atol=1e-12)
    assert np.linalg.eigvalsh(P)[0] > 0
    root = np.linalg.cholesky(0.5 * (P + P.T))
    assert np.linalg.cond(root.T @ A @ root) < 0.1 * np.linalg.cond(A)


@pytest.mark.parametrize("noise_variance", [None, 0.1])
def test_a_mean_solved_on_the_device_is_that_of_the_host(noise_variance):
    X, rng = points(300, 2), np.random.RandomState(3)
    y, noise = np.sin(X[:, :1]) + 0.3 * rng.standard_normal((300, 1)), np.full(300, 0.1)
    frame = SimpleNamespace(kernel=Kernel.gaussian(1.0))
    learning = SimpleNamespace(fixed=SimpleNamespace(noise_variance=noise_variance))
    request = SimpleNamespace(learning=learning, tolerance=1e-8, n_jobs=1, progress=None, budget=UNLIMITED)
    framed = FramedTensors(frame, *map(torch.as_tensor, (X, y, noise)))
    here = framed.solve_on_device(request)
    there = framed.solve_mean(request, np.random.RandomState(0))
    np.testing.assert_allclose(here.weights, there.weights, atol=1e-5)
    np.testing.assert_allclose(here(X[:20]), there(X[:20]), atol=1e-6)
    assert (here.solved_signs is None) == (there.solved_signs is None) == (noise_variance is not None)
    if noise_variance is None:
        size = np.abs(here.solved_signs).max()  # they are for traces, which are known to a few percent
        np.testing.assert_allclose(here.solved_signs, there.solved_signs, atol=2 * SIGNS_RESIDUAL * size)


def test_what_is_not_a_number_has_not_converged(monkeypatch):
    X = points(50, 2)
    learning = SimpleNamespace(fixed=SimpleNamespace(noise_variance=0.1))
    request = SimpleNamespace(learning=learning, tolerance=1e-3, n_jobs=1, progress=None)
    data = map(torch.as_tensor, (X, X[:, :1], np.full(50, 0.1)))
    framed = FramedTensors(SimpleNamespace(kernel=Kernel.gaussian(1.0)), *data)
    solution = exact_mean.TensorSolution(
        torch.zeros((50, 2), dtype=torch.float64), np.array([0.0, np.nan]), np.zeros(2), 1
    )
    monkeypatch.setattr(exact_mean, "solve", lambda *_: solution)
    assert framed.solve_on_device(request) is None
