import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal
from threadpoolctl import threadpool_limits

from nearfield.solvers import statistics
from nearfield.solvers.feature_space import FeatureSpace
from nearfield.solvers.statistics import accumulate


@pytest.fixture(autouse=True, scope="module")
def _one_thread_of_blas():
    with threadpool_limits(limits=1, user_api="blas"):
        yield


def problem(D=6, n=25, m=9, k=2, seed=0):
    """Features (D, n), targets (n, k), noise (n,), features of test points (D, m)."""
    rng = np.random.RandomState(seed)
    return rng.randn(D, n), rng.randn(n, k), rng.uniform(0.05, 0.3, n), rng.randn(D, m)


@pytest.mark.parametrize("with_precision", [False, True])
@pytest.mark.parametrize("D", [5, 60])
def test_it_is_the_process_with_the_kernel_of_the_features(D, with_precision):
    rows, y, noise, test_rows = problem(D)
    precision = np.random.RandomState(1).uniform(0.2, 5, D) if with_precision else None
    prior = np.ones(D) if precision is None else 1 / precision
    offset = np.array([3.0, -2.0])
    sums = accumulate(rows, y + offset, 1 / noise).centred(offset)
    posterior = FeatureSpace.from_statistics(sums, precision)
    K, cross = (rows.T * prior) @ rows + np.diag(noise), (test_rows.T * prior) @ rows
    targets = np.column_stack([y, np.ones(25)])
    assert_allclose(posterior.mean(test_rows), cross @ np.linalg.solve(K, targets), atol=1e-9)
    covariance = (test_rows.T * prior) @ test_rows - cross @ np.linalg.solve(K, cross.T)
    assert_allclose(posterior.covariance(test_rows), covariance, atol=1e-9)
    mean, variance = posterior.mean_and_variance(test_rows)
    assert_allclose(mean, posterior.mean(test_rows), atol=1e-12)
    assert_allclose(variance, np.diag(covariance), atol=1e-9)
    expected = [multivariate_normal.logpdf(t, cov=K) for t in targets.T]
    assert_allclose(posterior.log_likelihood(), expected, rtol=1e-9)


def test_features_may_lie_in_memory_in_any_order():
    rows, y, noise, test_rows = problem()
    posterior = FeatureSpace.from_statistics(accumulate(rows, y, 1 / noise))
    mean, variance = posterior.mean_and_variance(test_rows)
    for same in (np.asfortranarray(test_rows), np.repeat(test_rows, 2, axis=1)[:, ::2]):
        assert_allclose(posterior.mean(same), mean, rtol=1e-12)
        assert_allclose(posterior.mean_and_variance(same)[1], variance, rtol=1e-12)
        assert_allclose(posterior.covariance(same), posterior.covariance(test_rows), rtol=1e-12, atol=1e-14)
    for same in (test_rows.copy(), test_rows.copy(order="F")):
        assert_allclose(posterior.mean_and_variance(same, overwrite=True)[1], variance, rtol=1e-12)
        assert_allclose(np.sum(same**2, axis=0), variance, rtol=1e-12)  # in their own memory


def test_features_that_repeat_each_other_are_as_good_as_one():
    # The prior is lost in the rounding of the sums, and the matrix is exactly singular.
    x, y = np.array([1.0, -1.0, 1.0, 1.0]), np.array([[1.0], [2.0], [-0.5], [4.0]])
    repeated = np.full((4, 1), 2.0**30)
    with pytest.warns(RuntimeWarning, match=r"^The feature matrix is singular .* larger noise_variance"):
        posterior = FeatureSpace.from_statistics(accumulate(repeated * x, y, np.ones(4)))
    one_column = x @ y / (x @ x)
    assert_allclose(posterior.mean(repeated * np.array([1.0, 3.0]))[:, :1], np.outer([1, 3], one_column), rtol=1e-3)


@pytest.mark.parametrize("precision", [None, np.array([0.3, 1.0, 2.0, 8.0, 1e-2, 40.0])])
def test_the_sums_come_back_and_go_on(precision):
    rows, y, noise, test_rows = problem()
    first, second = (accumulate(rows[:, part], y[part], 1 / noise[part]) for part in (slice(10), slice(10, None)))
    sums = FeatureSpace.from_statistics(first, precision).statistics()
    assert_allclose(sums.gram, first.gram, atol=1e-12 * first.gram.max())
    assert sums.gram.flags.f_contiguous
    assert np.array_equal(sums.gram, np.tril(sums.gram))
    continued = FeatureSpace.from_statistics(sums + second, precision)
    whole = FeatureSpace.from_statistics(first + second, precision)
    for a, b in zip(continued.mean_and_variance(test_rows), whole.mean_and_variance(test_rows), strict=True):
        assert_allclose(a, b, rtol=1e-9)
    assert_allclose(continued.log_likelihood(), whole.log_likelihood(), rtol=1e-9)


def test_no_data_leave_the_prior():
    posterior = FeatureSpace.from_statistics(statistics.nothing(3, 2), np.array([1.0, 4.0, 0.25]))
    mean, variance = posterior.mean_and_variance(np.eye(3))
    assert np.array_equal(mean, np.zeros((3, 3)))
    assert_allclose(variance, [1.0, 0.25, 4.0])
    assert_allclose(posterior.log_likelihood(), np.zeros(3), atol=1e-14)


def test_arrays_are_left_alone():
    rows, y, noise, test_rows = problem()
    sums = accumulate(rows, y, 1 / noise)
    arrays = sums.gram, sums.cross, sums.targets, test_rows
    before = [a.copy() for a in arrays]
    posterior = FeatureSpace.from_statistics(sums)
    posterior.mean_and_variance(test_rows)
    posterior.covariance(test_rows)
    posterior.statistics()
    for array, copy in zip(arrays, before, strict=True):
        assert np.array_equal(array, copy)


def test_memory_counts_all_arrays():
    rows, y, noise, _ = problem()
    posterior = FeatureSpace.from_statistics(accumulate(rows, y, 1 / noise))
    assert posterior.n_bytes == 8 * (6 * 6 + 2 * 6 * 3 + 3 * 3)


# ---- tensors ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("precision", [None, np.array([0.3, 1.0, 2.0, 8.0, 1e-2, 40.0])])
def test_tensors_agree_with_arrays(precision):
    torch = pytest.importorskip("torch")
    arrays = problem()
    rows, y, noise, test_rows = (torch.as_tensor(a) for a in arrays)
    mean = np.array([0.3, -0.2])
    sums, expected_sums = accumulate(rows, y, 1 / noise), accumulate(*arrays[:2], 1 / arrays[2])
    assert_allclose(torch.tril(sums.gram), expected_sums.gram, rtol=1e-12)
    posterior = FeatureSpace.from_statistics(sums.centred(torch.as_tensor(mean)), precision)
    expected = FeatureSpace.from_statistics(expected_sums.centred(mean), precision)
    for a, b in zip(posterior.mean_and_variance(test_rows), expected.mean_and_variance(arrays[3]), strict=True):
        assert_allclose(a, b, atol=1e-12)
    assert_allclose(posterior.mean(test_rows), expected.mean(arrays[3]), atol=1e-12)
    assert_allclose(posterior.covariance(test_rows), expected.covariance(arrays[3]), atol=1e-12)
    assert_allclose(posterior.log_likelihood(), expected.log_likelihood(), rtol=1e-12)
    assert_allclose(torch.tril(posterior.statistics().gram), expected.statistics().gram, atol=1e-10)


@pytest.mark.parametrize("precision", [None, np.array([0.3, 1.0, 2.0, 8.0, 1e-2, 40.0])])
def test_a_padded_batch_agrees_with_its_members(precision):
    """Neighbourhoods of several sizes: features are padded by zeros, as are the roots of the weights."""
    torch = pytest.importorskip("torch")
    sizes = [25, 3, 0, 17]
    problems = [problem(n=n, seed=i) for i, n in enumerate(sizes)]
    rows, targets, root = (torch.zeros(shape).double() for shape in ((4, 6, 25), (4, 25, 3), (4, 25)))
    for i, (n, (features, y, noise, _)) in enumerate(zip(sizes, problems, strict=True)):
        root[i, :n] = torch.as_tensor(noise**-0.5)
        rows[i, :, :n] = torch.as_tensor(features * noise**-0.5)
        targets[i, :n] = torch.as_tensor(np.column_stack([y, np.ones(n)]) * noise[:, None] ** -0.5)
    sums = statistics.Statistics.of_weighted(rows, targets, root)
    assert sums.n.tolist() == sizes
    batch = FeatureSpace.from_statistics(sums, precision)
    assert batch.n_bytes == 8 * 4 * (6 * 6 + 2 * 6 * 3 + 3 * 3)
    test_rows = torch.stack([torch.as_tensor(p[3]) for p in problems])
    mean, variance = batch.mean_and_variance(test_rows)
    for i, (features, y, noise, test) in enumerate(problems):
        alone = FeatureSpace.from_statistics(accumulate(features, y, 1 / noise), precision)
        expected = alone.mean_and_variance(test)
        assert_allclose(mean[i], expected[0], atol=1e-11)
        assert_allclose(variance[i], expected[1], atol=1e-11)
        assert_allclose(batch.covariance(test_rows)[i], alone.covariance(test), atol=1e-11)
        assert_allclose(batch.log_likelihood()[i], alone.log_likelihood(), atol=1e-10)
        assert_allclose(torch.tril(batch.statistics().gram[i]), alone.statistics().gram, atol=1e-10)
    some = batch.take(torch.as_tensor([3, 0]))
    assert_allclose(some.mean(test_rows[[3, 0]]), mean[[3, 0]])
    assert_allclose(some.log_likelihood(), batch.log_likelihood()[[3, 0]])
    assert some.n.tolist() == [17, 25]
