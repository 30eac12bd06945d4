from math import comb, factorial

import numpy as np
import pytest
from scipy.special import gammaincc, gammaln

from nearfield import TaylorFeatures
from nearfield.features import taylor


def points(shape, seed=0, scale=1.0):
    return scale * np.random.RandomState(seed).standard_normal(shape)


def truncated_series(z, y, degree):
    product = z @ y.T
    half_squares = 0.5 * ((z * z).sum(1)[:, None] + (y * y).sum(1))
    return np.exp(-half_squares) * sum(product**n / factorial(n) for n in range(degree + 1))


@pytest.mark.parametrize(("d", "degree"), [(1, 1), (1, 40), (2, 12), (3, 7), (5, 4), (8, 3), (17, 2)])
def test_monomials_are_all_those_up_to_the_degree_and_each_once(d, degree):
    exponents = taylor.sample(d, degree).exponents
    assert len(exponents) == comb(d + degree, degree) == taylor.n_monomials(d, degree)
    assert len(np.unique(exponents, axis=0)) == len(exponents)
    assert exponents.min() == 0
    assert exponents.sum(axis=1).max() == degree
    assert np.all(np.diff(exponents.sum(axis=1)) >= 0)


@pytest.mark.parametrize(("d", "degree"), [(1, 1), (1, 30), (2, 12), (3, 7), (5, 4), (8, 3)])
def test_kernel_is_the_truncated_series(d, degree):
    z, y = points((20, d), 1), points((15, d), 2)
    basis = taylor.sample(d, degree)
    kernel = taylor.apply(basis, z) @ taylor.apply(basis, y).T
    np.testing.assert_allclose(kernel, truncated_series(z, y, degree), rtol=0, atol=1e-12)


@pytest.mark.parametrize(("d", "degree"), [(1, 1), (1, 60), (2, 12), (3, 7), (8, 4)])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 5.0])
def test_diagonal_is_the_probability_of_a_poisson_variable(d, degree, scale):
    z = points((50, d), 3, scale)
    phi = taylor.apply(taylor.sample(d, degree), z)
    np.testing.assert_allclose((phi * phi).sum(1), gammaincc(degree + 1, (z * z).sum(1)), rtol=0, atol=1e-12)


@pytest.mark.parametrize("degree", [0, 1, 8, 40])
def test_squared_norms_without_features(degree):
    squares = np.array([0.0, 1e-6, 0.5, 7.0, 40.0, 800.0])
    np.testing.assert_allclose(taylor.squared_norms(degree, squares), gammaincc(degree + 1, squares), atol=1e-14)


def test_features_are_scaled_monomials():
    z = points((10, 3), 4)
    basis = taylor.sample(3, 6)
    logarithm = np.log(np.abs(z)) @ basis.exponents.T - 0.5 * gammaln(basis.exponents + 1.0).sum(1)
    magnitude = np.exp(logarithm - 0.5 * (z * z).sum(1, keepdims=True))
    sign = np.prod(np.sign(z)[:, None, :] ** basis.exponents, axis=-1)
    np.testing.assert_allclose(taylor.apply(basis, z), sign * magnitude, rtol=1e-12)


@pytest.mark.parametrize("scale", [1e-8, 1e3, 1e8])
def test_features_are_finite_at_any_distance(scale):
    phi = taylor.apply(taylor.sample(2, 30), points((20, 2), 5, scale))
    assert np.all(np.isfinite(phi))
    assert np.all((phi * phi).sum(1) <= 1 + 1e-12)


def test_any_set_closed_under_parents_may_be_written_out():
    exponents = np.array([[0, 2], [0, 0], [0, 1], [1, 2]])  # in any order
    chosen = taylor.from_exponents(exponents)
    z = points((6, 2), 6)
    everything = taylor.sample(2, 3)
    columns = [everything.exponents.tolist().index(row) for row in chosen.exponents.tolist()]
    assert sorted(chosen.exponents.tolist()) == sorted(exponents.tolist())
    assert chosen.degree == 3
    np.testing.assert_allclose(taylor.apply(chosen, z), taylor.apply(everything, z)[:, columns], rtol=1e-13)


def test_a_monomial_without_its_parent_is_refused():
    with pytest.raises(ValueError, match=r"Monomial \[2, 0\] has no parent"):
        taylor.from_exponents(np.array([[0, 0], [0, 1], [2, 0]]))


def test_rows_are_the_transpose_of_columns():
    z = points((7, 3), 7)
    basis = taylor.sample(3, 4)
    np.testing.assert_array_equal(taylor.feature_rows(basis, z), taylor.apply(basis, z).T)


def test_batches_equal_a_loop():
    z = points((4, 3, 6, 2), 8)
    basis = taylor.sample(2, 5)
    batched = taylor.apply(basis, z)
    assert batched.shape == (4, 3, 6, basis.n_components)
    for index in np.ndindex(4, 3):
        np.testing.assert_allclose(batched[index], taylor.apply(basis, z[index]), rtol=1e-14)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_tensors_answer_in_kind(dtype):
    torch = pytest.importorskip("torch")
    z = points((3, 5, 4), 9).astype(dtype)
    basis = taylor.sample(4, 5)
    result = taylor.apply(basis, torch.asarray(z))
    assert isinstance(result, torch.Tensor)
    assert result.dtype == getattr(torch, dtype)
    tolerance = 1e-6 if dtype == "float32" else 1e-14
    np.testing.assert_allclose(result.numpy(), taylor.apply(basis, z), rtol=0, atol=tolerance)


@pytest.mark.parametrize("length_scale", [0.7, [0.5, 2.0, 1.0]])
@pytest.mark.parametrize("center", ["mean", None, [1.0, 2.0, -1.0]])
def test_transformer_expands_the_scaled_kernel_around_its_center(length_scale, center):
    X = points((30, 3), 10) + 0.5
    features = TaylorFeatures(6, length_scale=length_scale, variance=2.5, center=center).fit(X)
    if center == "mean":
        center = X.mean(axis=0)
    elif center is None:
        center = np.zeros(3)
    z = (X - center) / length_scale
    phi = features.transform(X)
    np.testing.assert_allclose(features.center_, center)
    np.testing.assert_allclose(phi @ phi.T, 2.5 * truncated_series(z, z, 6), rtol=0, atol=1e-12)


def test_transformer_approaches_the_gaussian_kernel():
    X = points((40, 2), 11)
    phi = TaylorFeatures(degree=40, length_scale=1.3).fit_transform(X)
    squared = ((X[:, None] - X) ** 2).sum(-1)
    np.testing.assert_allclose(phi @ phi.T, np.exp(-squared / (2 * 1.3**2)), rtol=0, atol=1e-12)
