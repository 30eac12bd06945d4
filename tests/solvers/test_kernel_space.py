import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal
from threadpoolctl import threadpool_limits

from nearfield.kernels import Kernel
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
def test_it_is_equation_1(kernel):
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


def test_targets_may_be_of_another_type_than_points():
    X, _, noise, X_test = problem()
    whole = np.arange(50).reshape(25, 2)
    expected = KernelSpace.from_points(KERNELS[0], X, whole.astype(np.float64), noise)
    for dtype in (np.int64, np.float32):
        posterior = KernelSpace.from_points(KERNELS[0], X, whole.astype(dtype), noise)
        assert_allclose(posterior.mean(X_test), expected.mean(X_test), rtol=1e-12)
        assert_allclose(posterior.log_likelihood(), expected.log_likelihood(), rtol=1e-12)


def test_the_factor_can_be_made_again_from_what_is_kept():
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


def test_no_points_leave_the_prior():
    posterior = KernelSpace.from_points(KERNELS[0], np.empty((0, 2)), np.empty((0, 3)), np.empty(0))
    mean, variance = posterior.mean_and_variance(np.ones((4, 2)))
    assert np.array_equal(mean, np.zeros((4, 3)))
    assert_allclose(variance, 1.7)
    assert_allclose(posterior.log_likelihood(), np.zeros(3))


def test_a_singular_matrix_is_named():
    X = np.zeros((4, 2))
    with pytest.warns(RuntimeWarning, match=r"^The test matrix is singular .* larger noise_variance"):
        KernelSpace.from_points(KERNELS[0], X, np.ones((4, 1)), np.zeros(4), what="test matrix")


def test_arrays_are_left_alone():
    X, y, noise, X_test = problem()
    arrays = X, y, noise, X_test
    before = [a.copy() for a in arrays]
    posterior = KernelSpace.from_points(KERNELS[0], X, y, noise)
    first = posterior.mean_and_variance(X_test)
    posterior.covariance(X_test)
    for array, copy in zip(arrays, before, strict=True):
        assert np.array_equal(array, copy)
    assert_allclose(posterior.mean_and_variance(X_test)[1], first[1])  # nothing inside was overwritten either


def test_memory_counts_all_arrays():
    X, y, noise, _ = problem()
    assert KernelSpace.from_points(KERNELS[0], X, y, noise).n_bytes == 8 * (25 * 25 + 25 * 2 + 25 + 25 * 2)


# ---- tensors ------------------------------------------------------------------------------------------------------


def assert_agree(posterior, X_test, expected):
    """A process of tensors and one of NumPy arrays give the same answers; test points are arrays."""
    torch = pytest.importorskip("torch")
    points = torch.as_tensor(X_test)
    for a, b in zip(posterior.mean_and_variance(points), expected.mean_and_variance(X_test), strict=True):
        assert_allclose(a, b, atol=1e-12)
    assert_allclose(posterior.mean(points), expected.mean(X_test), atol=1e-12)
    assert_allclose(posterior.covariance(points), expected.covariance(X_test), atol=1e-12)
    assert_allclose(posterior.log_likelihood(), expected.log_likelihood(), rtol=1e-12)


@pytest.mark.parametrize("kernel", KERNELS)
def test_tensors_agree_with_arrays(kernel):
    torch = pytest.importorskip("torch")
    X, y, noise, X_test = problem()
    tensors = KernelSpace.from_points(kernel, *(torch.as_tensor(a) for a in (X, y, noise)))
    assert_agree(tensors, X_test, KernelSpace.from_points(kernel, X, y, noise))


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_padded_batch_agrees_with_its_members(kernel):
    torch = pytest.importorskip("torch")
    sizes = [25, 1, 0, 17]
    problems = [problem(n, seed=i) for i, n in enumerate(sizes)]
    X, y, noise = (torch.full(shape, 1e4).double() for shape in ((4, 25, 2), (4, 25, 2), (4, 25)))
    for i, (n, (points, targets, variances, _)) in enumerate(zip(sizes, problems, strict=True)):
        X[i, :n], y[i, :n], noise[i, :n] = (torch.as_tensor(a) for a in (points, targets, variances))
    real = torch.arange(25) < torch.as_tensor(sizes)[:, None]
    batch = KernelSpace.from_points(kernel, X, y, noise, real)
    assert batch.factor.size.tolist() == sizes
    assert batch.n_bytes == 8 * 4 * (25 * 25 + 25 * 2 + 25 + 25 * 2)
    X_test = torch.stack([torch.as_tensor(p[3]) for p in problems])
    mean, variance = batch.mean_and_variance(X_test)
    for i, (points, targets, variances, test) in enumerate(problems):
        alone = KernelSpace.from_points(kernel, points, targets, variances)
        expected = alone.mean_and_variance(test)
        assert_allclose(mean[i], expected[0], atol=1e-12)
        assert_allclose(variance[i], expected[1], atol=1e-12)
        assert_allclose(batch.covariance(X_test)[i], alone.covariance(test), atol=1e-12)
        assert_allclose(batch.log_likelihood()[i], alone.log_likelihood(), rtol=1e-12)
    some = batch.take(torch.as_tensor([3, 3, 0]))
    assert_allclose(some.mean(X_test[[3, 0, 0]]), torch.stack([mean[3], some.mean(X_test[[0, 0, 0]])[1], mean[0]]))
    assert_allclose(some.log_likelihood(), batch.log_likelihood()[[3, 3, 0]])
    assert some.factor.size.tolist() == [17, 17, 25]


def test_a_pickle_holds_no_factor_and_answers_alike():
    rng = np.random.RandomState(0)
    X, y = rng.uniform(0, 5, (60, 2)), rng.standard_normal((60, 1))
    kernel = Kernel(np.array([[1.0]]), np.array([1.0]))
    model = KernelSpace.from_points(kernel, X, y, np.full(60, 0.1))
    again = pickle.loads(pickle.dumps(model))
    assert again.n_bytes < model.n_bytes - 60 * 60 * 4
    for one, other in zip(model.mean_and_variance(X[:7] + 0.1), again.mean_and_variance(X[:7] + 0.1), strict=True):
        np.testing.assert_array_equal(one, other)
    assert again.n_bytes == model.n_bytes
