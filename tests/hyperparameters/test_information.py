"""Information about hyperparameters, against its definition, differences of gradients and scores of draws."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import LinAlgError

from nearfield.hyperparameters import information as module
from nearfield.hyperparameters.blocks import Block
from nearfield.hyperparameters.information import information
from nearfield.kernels import Kernel

from .single import kernel_log_likelihood

ISOTROPIC = Kernel(np.array([[0.3], [1.2]]), np.array([0.5, 2.0]))
BY_COLUMN = Kernel(np.array([[0.3, 0.8], [1.2, 0.5]]), np.array([0.5, 2.0]), "matern32")
KERNELS = pytest.mark.parametrize("kernel", [ISOTROPIC, BY_COLUMN], ids=["isotropic", "by column"])
NOISE = 0.1


def covariance(kernel, noise, X, factors):
    return kernel(X, X) + noise * np.diag(factors)


def derivatives(kernel, X, factors, step=1e-5):
    """Derivatives (p, n, n) of the covariance matrix, by differences."""
    J, q = kernel.length_scales.shape
    theta = np.log(np.concatenate([kernel.length_scales.ravel(), kernel.variances, [NOISE]]))

    def at(theta):
        values = np.exp(theta)
        moved = Kernel(values[: J * q].reshape(J, q), values[J * q : -1], kernel.family)
        return covariance(moved, values[-1], X, factors)

    return np.array([(at(theta + e) - at(theta - e)) / (2 * step) for e in step * np.eye(len(theta))])


def block(n=12, n_given=0, k=1, drift=None, seed=0):
    rng = np.random.RandomState(seed)
    return Block(rng.rand(n, 2), rng.randn(n, k), rng.uniform(0.5, 2.0, n), n_given, 2.5, drift)


def every_sign(monkeypatch, n):
    """As many random vectors as there are rows, and orthogonal, so that the trace is exact."""
    monkeypatch.setattr(module, "N_SIGNS", n)
    signs = np.eye(n) * n**0.5

    class Chosen:
        def __init__(self, seed):
            pass

        def choice(self, _, shape):
            return np.broadcast_to(signs, shape)

    monkeypatch.setattr(module.np.random, "RandomState", Chosen)


@KERNELS
def test_independent_blocks_have_half_the_trace(kernel, monkeypatch):
    one = block(k=2)
    every_sign(monkeypatch, 12)
    K = covariance(kernel, NOISE, one.X, one.noise_factors)
    turned = [np.linalg.solve(K, dK) for dK in derivatives(kernel, one.X, one.noise_factors)]
    expected = [[0.5 * 2 * 2.5 * np.trace(a @ b) for b in turned] for a in turned]  # two targets, of a share of 2.5
    assert_allclose(information([one], kernel, NOISE), expected, rtol=1e-5, atol=1e-7)


@KERNELS
def test_conditional_blocks_have_that_of_residuals_and_of_their_mean(kernel, monkeypatch):
    one, m = block(n_given=8), 4
    every_sign(monkeypatch, m)
    K = covariance(kernel, NOISE, one.X, one.noise_factors)
    C = np.column_stack([-np.linalg.solve(K[:8, :8], K[:8, 8:]).T, np.eye(m)])
    S = C @ K @ C.T
    weights = np.concatenate([np.linalg.solve(K[:8, :8], one.y[:8, 0]), np.zeros(m)])
    slopes = derivatives(kernel, one.X, one.noise_factors)
    turned, means = [np.linalg.solve(S, C @ dK @ C.T) for dK in slopes], [C @ dK @ weights for dK in slopes]
    p = range(len(slopes))
    expected = [
        [2.5 * (0.5 * np.trace(turned[i] @ turned[j]) + means[i] @ np.linalg.solve(S, means[j])) for j in p] for i in p
    ]
    assert_allclose(information([one], kernel, NOISE), expected, rtol=1e-5, atol=1e-7)


def test_a_drift_tells_nothing(monkeypatch):
    drift = np.linalg.qr(np.random.RandomState(1).randn(12, 2))[0]
    one = block(drift=drift)
    every_sign(monkeypatch, 12)
    K = covariance(ISOTROPIC, NOISE, one.X, one.noise_factors)
    inverse = np.linalg.inv(K)
    P = inverse - inverse @ drift @ np.linalg.solve(drift.T @ inverse @ drift, drift.T @ inverse)
    slopes = derivatives(ISOTROPIC, one.X, one.noise_factors)
    expected = [[0.5 * 2.5 * np.trace(P @ a @ P @ b) for b in slopes] for a in slopes]
    assert_allclose(information([one], ISOTROPIC, NOISE), expected, rtol=1e-5, atol=1e-7)


def test_random_signs_are_near_the_curvature_of_draws():
    rng = np.random.RandomState(0)
    theta = np.log([0.3, 1.0, 0.1])
    blocks = []
    for _ in range(40):
        X = rng.rand(40, 2)
        K = np.exp(theta[1]) * Kernel.gaussian(0.3)(X, X) + 0.1 * np.eye(40)
        blocks.append(Block(X, np.linalg.cholesky(K) @ rng.randn(40, 1)))

    def gradient(theta):
        values = np.exp(theta)
        kernel = Kernel.gaussian(values[0], values[1])
        return sum(kernel_log_likelihood(kernel, values[2], b.X, b.y)[1] for b in blocks)

    H = np.array([(gradient(theta - e) - gradient(theta + e)) / 2e-4 for e in 1e-4 * np.eye(3)])
    F = information(blocks, Kernel.gaussian(0.3), 0.1)
    ratios = np.linalg.eigvals(np.linalg.solve(F, H)).real
    assert ratios.min() > 0.6
    assert ratios.max() < 1.6


def test_a_covariance_that_cannot_be_factored_says_so():
    one = Block(np.zeros((5, 1)), np.zeros((5, 1)))
    with pytest.raises(LinAlgError):
        information([one], Kernel.gaussian(1.0), 0.0)
