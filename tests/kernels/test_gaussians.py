import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.gaussian_process.kernels import RBF

from nearfield.kernels import Kernel, squared_distances

RNG = np.random.RandomState(0)
X, Y = RNG.randn(7, 3), RNG.randn(5, 3)


@pytest.mark.parametrize("length_scale", [0.7, [0.5, 1.0, 3.0]])
def test_one_gaussian_is_the_kernel_of_scikit_learn(length_scale):
    assert_allclose(Kernel.gaussian(length_scale, 2.5)(X, Y), 2.5 * RBF(length_scale)(X, Y), rtol=1e-13)


def test_a_sum_adds_its_components():
    kernel = Kernel(np.array([[0.5], [2.0]]), np.array([1.5, 0.25]))
    assert_allclose(kernel(X, Y), 1.5 * RBF(0.5)(X, Y) + 0.25 * RBF(2.0)(X, Y), rtol=1e-13)
    assert kernel.n_scales == 2
    assert kernel.variance == 1.75
    assert [(float(scales[0]), variance) for scales, variance in kernel.components()] == [(0.5, 1.5), (2.0, 0.25)]


def test_a_kernel_is_immutable():
    with pytest.raises(AttributeError):
        Kernel.gaussian(1.0).variances = np.ones(1)


def test_inputs_are_not_modified():
    before = X.copy(), Y.copy()
    Kernel(np.array([[0.5], [2.0]]), np.array([1.0, 2.0]))(X, Y)
    assert np.array_equal(X, before[0])
    assert np.array_equal(Y, before[1])


def test_batches_are_the_single_matrices_stacked():
    rng = np.random.RandomState(1)
    batch_X, batch_Y = rng.randn(4, 6, 2), rng.randn(4, 3, 2)
    kernel = Kernel(np.array([[0.5, 1.0], [2.0, 3.0]]), np.array([1.0, 2.0]))
    expected = np.stack([kernel(a, b) for a, b in zip(batch_X, batch_Y, strict=True)])
    assert_allclose(kernel(batch_X, batch_Y), expected, rtol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_torch_tensors_give_torch_tensors(dtype):
    torch = pytest.importorskip("torch")
    kernel = Kernel(np.array([[0.5, 1.0, 2.0]]), np.array([3.0]))
    K = kernel(torch.asarray(X.astype(dtype)), torch.asarray(Y.astype(dtype)))
    assert K.dtype == getattr(torch, dtype)
    assert_allclose(K.numpy(), kernel(X, Y), rtol=1e-12 if dtype == "float64" else 2e-5)


def test_float32_stays_float32():
    K = Kernel.gaussian(0.5)(X.astype(np.float32), Y.astype(np.float32))
    assert K.dtype == np.float32
    assert_allclose(K, Kernel.gaussian(0.5)(X, Y), atol=1e-6)


@given(offset=st.floats(-1e6, 1e6), dtype=st.sampled_from([np.float32, np.float64]))
def test_distances_far_from_the_origin_keep_their_digits(offset, dtype):
    points = (np.random.RandomState(1).uniform(0, 1, (2, 6, 2)) + offset).astype(dtype)
    direct = ((points[:, :, None, :].astype(np.float64) - points[:, None, :, :]) ** 2).sum(axis=-1)
    found = squared_distances(points, points)
    assert np.all(found >= 0)
    assert_allclose(found, direct, atol=1e-5 if dtype == np.float32 else 1e-12)


def test_far_points_are_as_good_as_uncorrelated_and_squares_do_not_underflow():
    far = np.array([[0.0], [1e3], [1e6], [1e150]])
    K = Kernel.gaussian(1.0)(far, far)
    apart = K[~np.eye(4, dtype=bool)]
    assert np.all(apart < 1e-100)
    assert np.all(apart**2 >= np.finfo(np.float64).tiny)
    assert np.all(np.diag(K) == 1)


def test_in_single_precision_near_points_are_near_also_far_from_the_others():
    places = np.array([[0.0, 0.0], [4000.0, 3000.0], [4000.5, 3000.0], [-5000.0, 0.0]], dtype=np.float32)
    K = Kernel.gaussian(1.0)(places, places)
    assert K.dtype == np.float32
    assert_allclose(K, Kernel.gaussian(1.0)(places.astype(np.float64), places.astype(np.float64)), atol=1e-6)
