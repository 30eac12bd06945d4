import numpy as np
import pytest

from nearfield.kernels import Kernel
from nearfield.solvers import left_out
from nearfield.solvers.feature_space import FeatureSpace
from nearfield.solvers.kernel_space import KernelSpace
from nearfield.solvers.statistics import accumulate

RNG = np.random.RandomState(0)
X = RNG.uniform(0, 4, (40, 2))
Y = np.column_stack([np.sin(X[:, 0]) + RNG.standard_normal(40), X[:, 1]])
NOISE = RNG.uniform(0.1, 2.0, 40)
KERNEL = Kernel.gaussian(1.0, 1.5)


def without(i):
    return np.arange(len(X)) != i


@pytest.mark.parametrize("rows", [np.arange(40), np.array([3, 17])])
def test_kernel_space_equals_refits(rows):
    whole = KernelSpace.from_points(KERNEL, X, Y, NOISE)
    residuals, variances = left_out.of_kernel_space(whole, rows)
    for i, residual, variance in zip(rows, residuals, variances, strict=True):
        kept = without(i)
        refit = KernelSpace.from_points(KERNEL, X[kept], Y[kept], NOISE[kept])
        mean, latent = refit.mean_and_variance(X[i : i + 1])
        np.testing.assert_allclose(residual, Y[i] - mean[0], rtol=0, atol=1e-8)
        np.testing.assert_allclose(variance, latent[0] + NOISE[i], rtol=1e-8)
    from_factor = left_out.of_factor(whole.factor, Y, rows)
    np.testing.assert_allclose(from_factor[0], residuals, atol=1e-9)
    np.testing.assert_allclose(from_factor[1], variances, rtol=1e-9)


def test_feature_space_equals_refits():
    rng = np.random.RandomState(1)
    features = rng.standard_normal((7, 40))
    precision = rng.uniform(0.5, 2.0, 7)
    targets = np.column_stack([Y, np.ones(40)])
    root = NOISE**-0.5
    whole = FeatureSpace.from_statistics(accumulate(features, Y, 1 / NOISE), precision)
    residuals, variances = left_out.of_feature_space(whole, features * root, targets * root[:, None], root)
    for i in range(40):
        kept = without(i)
        refit = FeatureSpace.from_statistics(accumulate(features[:, kept], Y[kept], 1 / NOISE[kept]), precision)
        mean, latent = refit.mean_and_variance(features[:, i : i + 1])
        np.testing.assert_allclose(residuals[i], targets[i] - mean[0], rtol=0, atol=1e-8)
        np.testing.assert_allclose(variances[i], latent[0] + NOISE[i], rtol=1e-8)


def test_features_beside_a_process_equal_the_process_of_both():
    features = np.random.RandomState(1).standard_normal((40, 5))
    C = KERNEL(X, X) + np.diag(NOISE)
    A = np.eye(5) + features.T @ np.linalg.solve(C, features)
    coefficients = np.linalg.solve(A, features.T @ np.linalg.solve(C, Y))
    spread = np.linalg.cholesky(np.linalg.inv(A))
    targets = np.column_stack([features @ spread, Y - features @ coefficients])
    process = KernelSpace.from_points(KERNEL, X, targets, NOISE)
    local, variances = left_out.of_kernel_space(process, np.arange(40))
    residuals, variances = left_out.completed(local[:, 5:], variances, local[:, :5])
    inverse = np.linalg.inv(C + features @ features.T)
    np.testing.assert_allclose(residuals, inverse @ Y / np.diag(inverse)[:, None], atol=1e-8)
    np.testing.assert_allclose(variances, 1 / np.diag(inverse), rtol=1e-8)
