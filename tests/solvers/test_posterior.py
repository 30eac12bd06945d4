import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal
from threadpoolctl import threadpool_limits

from nearfield.kernels import Kernel
from nearfield.solvers import statistics
from nearfield.solvers.feature_space import FeatureSpace
from nearfield.solvers.kernel_space import KernelSpace

KERNELS = [Kernel.gaussian(0.6, 1.7), Kernel(np.array([[0.3, 1.0], [2.0, 0.5]]), np.array([1.0, 0.4]))]


@pytest.fixture(autouse=True, scope="module")
def _one_thread_of_blas():
    # The problems are small, and on a busy machine threads that wait for each other take longer than one alone.
    with threadpool_limits(limits=1, user_api="blas"):
        yield


def problem(n=25, m=9, k=2, seed=0):
    rng = np.random.RandomState(seed)
    return rng.rand(n, 2), rng.randn(n, k), rng.uniform(0.05, 0.3, n), rng.rand(m, 2)


@pytest.mark.parametrize("kernel", KERNELS)
def test_kernel_posterior_is_equation_1(kernel):
    X, y, noise, X_test = problem()
    posterior = KernelSpace.from_points(kernel, X, y, noise)
    K, cross = kernel(X, X) + np.diag(noise), kernel(X_test, X)
    assert_allclose(posterior.mean(X_test), cross @ np.linalg.solve(K, y), atol=1e-10)
    covariance = kernel(X_test, X_test) - cross @ np.linalg.solve(K, cross.T)
    assert_allclose(posterior.covariance(X_test), covariance, atol=1e-10)
    mean, variance = posterior.mean_and_variance(X_test)
    assert_allclose(mean, posterior.mean(X_test), atol=1e-12)
    assert_allclose(variance, np.diag(covariance), atol=1e-10)
    expected = [multivariate_normal.logpdf(y[:, t], cov=K) for t in range(2)]
    assert_allclose(posterior.log_likelihood(), expected, rtol=1e-10)


@pytest.mark.parametrize("D", [5, 60])
def test_both_solvers_agree_on_the_kernel_of_the_features(D):
    X, y, noise, X_test = problem()
    rng = np.random.RandomState(1)
    rows, test_rows = rng.randn(D, len(X)), rng.randn(D, len(X_test))
    offset = np.array([3.0, -2.0])
    sums = statistics.accumulate(rows, y + offset, 1 / noise)
    posterior = FeatureSpace.from_statistics(sums.centred(offset))
    K, cross = rows.T @ rows + np.diag(noise), test_rows.T @ rows
    assert_allclose(posterior.mean(test_rows)[:, :-1], cross @ np.linalg.solve(K, y), atol=1e-9)
    covariance = test_rows.T @ test_rows - cross @ np.linalg.solve(K, cross.T)
    assert_allclose(posterior.covariance(test_rows), covariance, atol=1e-9)
    assert_allclose(posterior.mean_and_variance(test_rows)[1], np.diag(covariance), atol=1e-9)
    expected = [multivariate_normal.logpdf(y[:, t], cov=K) for t in range(2)]
    assert_allclose(posterior.log_likelihood()[:-1], expected, rtol=1e-9)


def test_features_may_lie_in_memory_in_any_order():
    X, y, noise, X_test = problem()
    rng = np.random.RandomState(1)
    rows, test_rows = rng.randn(6, len(X)), rng.randn(6, len(X_test))
    posterior = FeatureSpace.from_statistics(statistics.accumulate(rows, y, 1 / noise))
    for same in (np.asfortranarray(test_rows), np.repeat(test_rows, 2, axis=1)[:, ::2]):
        assert_allclose(posterior.mean(same), posterior.mean(test_rows), rtol=1e-12)
        assert_allclose(posterior.mean_and_variance(same)[1], posterior.mean_and_variance(test_rows)[1], rtol=1e-12)
        assert_allclose(posterior.covariance(same), posterior.covariance(test_rows), rtol=1e-12, atol=1e-14)


def test_features_that_repeat_each_other_are_as_good_as_one():
    # The prior is lost in the rounding of the sums, and the matrix is exactly singular.
    x, y = np.array([1.0, -1.0, 1.0, 1.0]), np.array([[1.0], [2.0], [-0.5], [4.0]])
    repeated = np.full((4, 1), 2.0**30)
    with pytest.warns(RuntimeWarning, match=r"^The feature matrix is singular .* larger noise_variance"):
        posterior = FeatureSpace.from_statistics(statistics.accumulate(repeated * x, y, np.ones(4)))
    one_column = x @ y / (x @ x)
    assert_allclose(posterior.mean(repeated * np.array([1.0, 3.0]))[:, :1], np.outer([1, 3], one_column), rtol=1e-3)


def test_targets_may_be_of_another_type_than_points():
    X, _, noise, X_test = problem()
    whole = np.arange(50).reshape(25, 2)
    expected = KernelSpace.from_points(KERNELS[0], X, whole.astype(np.float64), noise)
    for dtype in (np.int64, np.float32):
        posterior = KernelSpace.from_points(KERNELS[0], X, whole.astype(dtype), noise)
        assert_allclose(posterior.mean(X_test), expected.mean(X_test), rtol=1e-12)
        assert_allclose(posterior.log_likelihood(), expected.log_likelihood(), rtol=1e-12)


def test_the_factor_can_be_made_again_from_what_a_posterior_keeps():
    X, y, noise, _ = problem()
    posterior = KernelSpace.from_points(KERNELS[1], X, y, noise)
    again = KernelSpace.factorise(posterior.kernel, posterior.X, posterior.noise)
    assert np.array_equal(np.tril(again.lower), np.tril(posterior.factor.lower))


def test_variances_are_never_negative_where_rounding_could_make_them_so():
    X, X_test = np.linspace(0, 1, 200)[:, None], np.linspace(0, 1, 999)[:, None]
    kernel = Kernel.gaussian(0.3, 1e6)
    posterior = KernelSpace.from_points(kernel, X, np.sin(X), np.full(200, 1e-8))
    half = np.linalg.solve(np.tril(posterior.factor.lower), kernel(X, X_test))
    assert (kernel.variance - np.sum(half**2, axis=0)).min() < 0  # so much for rounding
    _, variance = posterior.mean_and_variance(X_test)
    assert variance.min() >= 0


def test_a_posterior_leaves_its_arrays_alone():
    X, y, noise, X_test = problem()
    arrays = X, y, noise, X_test
    before = [a.copy() for a in arrays]
    posterior = KernelSpace.from_points(KERNELS[0], X, y, noise)
    first = posterior.mean_and_variance(X_test)
    rows = np.random.RandomState(0).randn(4, 25)
    features = FeatureSpace.from_statistics(statistics.accumulate(rows, y, 1 / noise))
    kept = rows.copy()
    features.mean_and_variance(rows)
    features.covariance(rows)
    assert np.array_equal(rows, kept)
    for array, copy in zip(arrays, before, strict=True):
        assert np.array_equal(array, copy)
    assert_allclose(posterior.mean_and_variance(X_test)[1], first[1])  # nothing inside was overwritten either
