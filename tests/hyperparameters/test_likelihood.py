import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import LinAlgError
from scipy.stats import multivariate_normal
from threadpoolctl import threadpool_limits

import nearfield as nf
from nearfield.features.gradients import is_differentiable, length_scale_gradients
from nearfield.hyperparameters.blocks import Block, stacked
from nearfield.hyperparameters.likelihood import feature_log_likelihood
from nearfield.kernels import Kernel
from nearfield.kernels.families import FAMILIES

from .single import kernel_log_likelihood

RNG = np.random.RandomState(0)
X = RNG.uniform(-1, 1, (23, 3))
Y = {k: RNG.randn(23, k) for k in (1, 3)}
FACTORS = {"equal": None, "weighted": RNG.uniform(0.3, 3, 23)}

KERNELS = {
    "isotropic": Kernel.gaussian(0.8, 1.3),
    "per column": Kernel.gaussian([0.8, 0.5, 1.5], 1.3),
    "two scales": Kernel(np.array([[0.4], [1.5]]), np.array([0.7, 2.0])),
    "two scales per column": Kernel(np.array([[0.4, 0.5, 0.6], [1.5, 1.0, 2.0]]), np.array([0.7, 2.0])),
}


@pytest.fixture(autouse=True, scope="module")
def _one_thread_of_blas():
    # The problems are small, and on a busy machine threads that wait for each other take longer than one alone.
    with threadpool_limits(limits=1, user_api="blas"):
        yield


def finite_differences(function, theta, step=1e-5):
    gradient = np.empty(len(theta))
    for i in range(len(theta)):
        forward, backward = theta.copy(), theta.copy()
        forward[i] += step
        backward[i] -= step
        gradient[i] = (function(forward) - function(backward)) / (2 * step)
    return gradient


@pytest.mark.parametrize("factors", FACTORS)
@pytest.mark.parametrize("k", Y)
@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_kernel_form(kernel, k, factors):
    factors = FACTORS[factors]
    J, q = kernel.length_scales.shape

    def value(theta):
        moved = Kernel(np.exp(theta[: J * q]).reshape(J, q), np.exp(theta[J * q : -1]))
        return kernel_log_likelihood(moved, float(np.exp(theta[-1])), X, Y[k], factors)[0]

    found, gradient = kernel_log_likelihood(kernel, 0.2, X, Y[k], factors)
    covariance = kernel(X, X) + 0.2 * np.diag(np.ones(23) if factors is None else factors)
    assert_allclose(found, sum(multivariate_normal.logpdf(y, cov=covariance) for y in Y[k].T), rtol=1e-11)
    theta = np.log([*kernel.length_scales.ravel(), *kernel.variances, 0.2])
    assert_allclose(gradient, finite_differences(value, theta), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("factors", FACTORS)
@pytest.mark.parametrize("k", Y)
@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_restricted_form(kernel, k, factors):
    factors = FACTORS[factors]
    J, q = kernel.length_scales.shape
    F = np.column_stack([np.ones(23), X])

    def value(theta):
        moved = Kernel(np.exp(theta[: J * q]).reshape(J, q), np.exp(theta[J * q : -1]))
        return kernel_log_likelihood(moved, float(np.exp(theta[-1])), X, Y[k], factors, drift=F)[0]

    result, gradient = kernel_log_likelihood(kernel, 0.2, X, Y[k], factors, drift=F)
    covariance = kernel(X, X) + 0.2 * np.diag(np.ones(23) if factors is None else factors)
    # It is the density of orthonormal contrasts, but for a factor that depends on the columns alone.
    contrasts = np.linalg.svd(F)[0][:, F.shape[1] :]
    density = multivariate_normal(cov=contrasts.T @ covariance @ contrasts)
    expected = sum(density.logpdf(contrasts.T @ y) for y in Y[k].T) - 0.5 * k * np.linalg.slogdet(F.T @ F)[1]
    assert_allclose(result, expected, rtol=1e-10)
    theta = np.log([*kernel.length_scales.ravel(), *kernel.variances, 0.2])
    assert_allclose(gradient, finite_differences(value, theta), rtol=1e-5, atol=1e-6)


def test_blocks_take_what_a_drift_spans_there():
    F = np.column_stack([np.ones(23), X[:, 0], 2 * X[:, 0] - 1, np.zeros(23)])
    block = Block.of(X, Y[1], None, drift=F)
    assert block.drift.shape == (23, 2)
    assert_allclose(block.drift @ (block.drift.T @ F), F, atol=1e-12)
    kernel = KERNELS["isotropic"]
    moved = Block.of(X, Y[1] + F @ [[3.0], [2.0], [1.0], [0.0]], None, drift=F)
    before, after = (stacked([each], False)[0](kernel, 0.2)[0] for each in (block, moved))
    assert_allclose(before, after)
    many = Block.of(X, Y[1], None, drift=np.random.RandomState(1).randn(23, 6))
    assert many.drift is None  # too few points are left to say anything


def test_a_length_scale_for_each_of_two_columns():
    kernel = Kernel.gaussian([0.8, 0.5], 1.3)
    value, gradient = kernel_log_likelihood(kernel, 0.2, X[:, :2], Y[1])
    covariance = kernel(X[:, :2], X[:, :2]) + 0.2 * np.eye(23)
    assert_allclose(value, multivariate_normal.logpdf(Y[1][:, 0], cov=covariance), rtol=1e-11)
    assert gradient.shape == (4,)


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_gradients_do_not_depend_on_where_the_origin_is(kernel):
    near = np.round(X * 2**10) / 2**10  # so that the points far away are as far from each other to the last digit
    far = near + np.array([2.0**25, -(2.0**26), 0.0])
    value, gradient = kernel_log_likelihood(kernel, 0.2, near, Y[3])
    moved_value, moved_gradient = kernel_log_likelihood(kernel, 0.2, far, Y[3])
    assert_allclose(moved_value, value, rtol=1e-6)
    assert_allclose(moved_gradient, gradient, rtol=1e-5)


def test_targets_may_be_whole_or_of_single_precision():
    whole = np.arange(23)[:, None] - 11
    for kernel in (KERNELS["isotropic"], KERNELS["per column"]):
        expected = kernel_log_likelihood(kernel, 0.2, X, whole.astype(np.float64))
        for dtype in (np.int32, np.float32):
            value, gradient = kernel_log_likelihood(kernel, 0.2, X, whole.astype(dtype))
            assert value == expected[0]
            assert np.array_equal(gradient, expected[1])


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("columns", [1, 3])
def test_the_conditional_likelihood_is_a_difference_of_joint_ones(family, columns):
    scales = np.array([[0.5, 0.9, 0.7], [2.0, 3.0, 2.5]])[:, :columns]
    kernel = Kernel(scales, np.array([1.0, 0.5]), family)
    factors = np.random.RandomState(0).uniform(0.5, 2, len(X))
    joint = kernel_log_likelihood(kernel, 0.2, X, Y[3], factors)
    given = kernel_log_likelihood(kernel, 0.2, X[:9], Y[3][:9], factors[:9])
    value, gradient = kernel_log_likelihood(kernel, 0.2, X, Y[3], factors, 9)
    assert_allclose(value, joint[0] - given[0], rtol=1e-12)
    assert_allclose(gradient, joint[1] - given[1], rtol=1e-9, atol=1e-10)

    def at(theta):
        lengths, variances = np.exp(theta[: 2 * columns]).reshape(2, columns), np.exp(theta[2 * columns : -1])
        return kernel_log_likelihood(Kernel(lengths, variances, family), np.exp(theta[-1]), X, Y[3], factors, 9)[0]

    theta = np.log(np.concatenate([scales.ravel(), [1.0, 0.5, 0.2]]))
    steps = 1e-5 * np.eye(len(theta))
    differences = [(at(theta + step) - at(theta - step)) / 2e-5 for step in steps]
    assert_allclose(gradient, differences, rtol=1e-5, atol=1e-6)


def test_inputs_are_not_modified():
    before = X.copy(), Y[3].copy()
    for kernel in (KERNELS["isotropic"], KERNELS["per column"]):
        kernel_log_likelihood(kernel, 0.2, X, Y[3])
        kernel_log_likelihood(kernel, 0.2, X, Y[3], None, 4)
    for array, copy in zip((X, Y[3]), before, strict=True):
        assert np.array_equal(array, copy)


def test_a_singular_covariance_raises():
    with pytest.raises(LinAlgError, match=r"^The covariance matrix is not positive definite"):
        kernel_log_likelihood(Kernel.gaussian(1.0), 0.0, np.zeros((3, 1)), np.ones((3, 1)))


MAPS = {
    "taylor": nf.TaylorFeatures(degree=4),
    "fourier": nf.FourierFeatures(12, random_state=0),
    "fourier, odd number": nf.FourierFeatures(9, random_state=0),
    "fourier, orthogonal": nf.FourierFeatures(12, sampling="orthogonal", random_state=0),
    "fourier, more than samples": nf.FourierFeatures(64, random_state=0),
}


@pytest.mark.parametrize("factors", FACTORS)
@pytest.mark.parametrize("k", Y)
@pytest.mark.parametrize("ard", [False, True])
@pytest.mark.parametrize("feature_map", MAPS.values(), ids=MAPS)
def test_feature_form(feature_map, ard, k, factors):
    factors = FACTORS[factors]
    q = 3 if ard else 1
    scales = np.array([0.8, 0.5, 1.5])[:q]

    def features(theta):
        # The map is drawn at one length scale only, as it is in learning.
        feature_map.set_params(length_scale=scales if ard else scales[0], variance=1.0).fit(X)
        scaled = feature_map._scaled(X) * np.exp(np.log(scales) - theta[:q])
        gradients = length_scale_gradients(feature_map.map_, scaled) * np.exp(0.5 * theta[q])
        rows = feature_map._apply(scaled).T * np.exp(0.5 * theta[q])
        return rows, gradients if ard else gradients.sum(axis=0)[None]

    def value(theta):
        return feature_log_likelihood(*features(theta), float(np.exp(theta[-1])), Y[k], factors)[0]

    theta = np.log([*scales, 1.4, 0.3])
    rows, gradients = features(theta)
    found, gradient = feature_log_likelihood(rows, gradients, 0.3, Y[k], factors)
    covariance = rows.T @ rows + 0.3 * np.diag(np.ones(23) if factors is None else factors)
    assert_allclose(found, sum(multivariate_normal.logpdf(y, cov=covariance) for y in Y[k].T), rtol=1e-9)
    assert_allclose(gradient, finite_differences(value, theta), rtol=1e-5, atol=1e-6)


def test_features_that_repeat_each_other_are_named_in_the_warning():
    rows = np.full((4, 1), 2.0**30) * np.array([1.0, -1.0, 1.0, 1.0])
    with pytest.warns(RuntimeWarning, match=r"^The feature matrix is singular .* larger noise_variance"):
        feature_log_likelihood(rows, [], 1.0, np.ones((4, 1)))


def test_maps_without_derivatives_say_so():
    assert is_differentiable(nf.TaylorFeatures())
    assert is_differentiable(nf.FourierFeatures(sampling="orthogonal"))
    for feature_map in (nf.MaclaurinFeatures(16, random_state=0), nf.FourierFeatures(16, sampling="structured")):
        assert not is_differentiable(feature_map)
    with pytest.raises(TypeError, match="MaclaurinMap"):
        length_scale_gradients(nf.MaclaurinFeatures(16, random_state=0).fit(X).map_, X)
