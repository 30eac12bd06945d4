import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import LinAlgError
from threadpoolctl import threadpool_limits

from nearfield.solvers.factors import Cholesky, Whitener, factorise, inverse_of_lower, log_density, tensor_cholesky


@pytest.fixture(autouse=True, scope="module")
def _one_thread_of_blas():
    with threadpool_limits(limits=1, user_api="blas"):
        yield


def matrix(n=7, seed=0):
    rng = np.random.RandomState(seed)
    root = rng.randn(n, n)
    return root @ root.T, rng.uniform(1, 2, n), rng.randn(n, 4)


def every_kind():
    """A factor of each kind of the same matrix, which is the second of a batch."""
    arrays = A, diagonal, B = matrix()
    whole = A + np.diag(diagonal)
    yield factorise(A.copy(), diagonal, "matrix"), whole, B
    torch = pytest.importorskip("torch")
    A, diagonal, B = (torch.as_tensor(a) for a in arrays)
    yield factorise(A.clone(), diagonal, "matrix"), whole, B
    batch = factorise(torch.stack([torch.eye(7).double(), A]), diagonal, "matrix")
    yield batch.take(torch.as_tensor([1])), whole, B


def test_each_kind_answers_alike():
    kinds = []
    for factor, A, B in every_kind():
        kinds.append(type(factor))
        assert_allclose(np.squeeze(factor.solve(B)), np.linalg.solve(A, B), atol=1e-12)
        half = np.squeeze(np.asarray(factor.whiten(B)))
        assert_allclose(np.linalg.cholesky(A) @ half, B, atol=1e-12)
        assert_allclose(np.squeeze(factor.log_determinant()), np.linalg.slogdet(A)[1], rtol=1e-13)
        assert_allclose(np.squeeze(factor.matrix()), A, atol=1e-12)
        assert factor.size == 7
        assert factor.n_bytes == 8 * 49
    assert kinds == [Cholesky, Cholesky, Whitener]


@pytest.mark.parametrize("order", ["C", "F"])
def test_solving_overwrites_only_when_told_to(order):
    A, diagonal, B = matrix()
    factor = factorise(A, diagonal, "matrix")
    B = np.array(B, order=order)
    kept = B.copy()
    half = factor.whiten(B)
    factor.solve(B)
    assert np.array_equal(B, kept)
    assert factor.whiten(B, overwrite=True) is B
    assert_allclose(B, half, atol=1e-14)
    wide = np.repeat(kept, 3, axis=1)
    factor.whiten(wide[:, 3:6], overwrite=True)  # some columns of an array, in its own memory
    assert_allclose(wide[:, 3:6], np.repeat(half[:, 1:2], 3, axis=1), atol=1e-14)
    assert np.array_equal(wide[:, :3], np.repeat(kept[:, :1], 3, axis=1))


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_matrix_that_is_kept_needs_only_its_lower_triangle(order):
    A, diagonal, B = matrix()
    lower = np.array(np.tril(A), order=order)
    kept = lower.copy()
    factor = factorise(lower, diagonal, "matrix", keep=True)
    assert np.array_equal(lower, kept)
    assert_allclose(factor.solve(B), np.linalg.solve(A + np.diag(diagonal), B), atol=1e-12)
    other = factorise(np.array(A, order=order), diagonal, "matrix")
    assert_allclose(np.tril(factor.lower), np.tril(other.lower), atol=1e-12)


def test_a_tensor_that_is_kept_is_not_changed():
    torch = pytest.importorskip("torch")
    A, diagonal, _ = (torch.as_tensor(a) for a in matrix())
    kept = A.clone()
    factorise(A, diagonal, "matrix", keep=True)
    assert torch.equal(A, kept)


@pytest.mark.parametrize("keep", [False, True])
def test_a_singular_matrix_is_mended_and_said_so(keep):
    ones = np.ones((3, 3), order="F")
    with pytest.warns(RuntimeWarning, match=r"The test matrix is singular to working precision"):
        factor = factorise(np.tril(ones) if keep else ones, np.full(3, -1e-14), "test matrix", keep=keep)
    assert_allclose(factor.matrix(), np.ones((3, 3)), atol=1e-5)
    with pytest.raises(LinAlgError, match="test matrix"):
        factorise(-np.eye(3), np.zeros(3), "test matrix", keep=keep)


def test_tensors_that_are_not_positive_definite_are_mended_and_said_so():
    torch = pytest.importorskip("torch")
    good = torch.eye(3, dtype=torch.float64)
    bad = torch.ones((3, 3), dtype=torch.float64) - 1e-14 * good
    with pytest.warns(UserWarning, match=r"1 of the matrices \(test matrix\)"):
        lower = tensor_cholesky(torch.stack([good, bad]), "test matrix")
    torch.testing.assert_close(lower[0], good)
    torch.testing.assert_close(lower[1] @ lower[1].mT, bad, atol=1e-10, rtol=0)
    with pytest.warns(UserWarning, match="1 of the matrices"):
        alone = tensor_cholesky(bad, "test matrix")
    torch.testing.assert_close(alone, lower[1])


def test_what_is_added_to_a_tensor_does_not_depend_on_the_units_of_its_rows():
    torch = pytest.importorskip("torch")
    units = torch.tensor([1.0, 2.0**-20, 2.0**20], dtype=torch.float64)
    bad = torch.ones((3, 3), dtype=torch.float64) - 1e-14 * torch.eye(3)
    with pytest.warns(UserWarning, match="of their diagonal was added"):
        plain, scaled = (tensor_cholesky(u[:, None] * bad * u, "test matrix") for u in (torch.ones(3).double(), units))
    torch.testing.assert_close(scaled, plain * units[:, None], rtol=1e-12, atol=0)


def test_a_hopeless_tensor_is_refused():
    torch = pytest.importorskip("torch")
    with warnings.catch_warnings(), pytest.raises(RuntimeError, match="The test matrix is not positive definite"):
        warnings.simplefilter("ignore")
        tensor_cholesky(-torch.eye(3, dtype=torch.float64), "test matrix")


def test_inverses_of_lower_triangles():
    torch = pytest.importorskip("torch")
    lower = torch.tril(torch.randn((4, 5, 5), generator=torch.Generator().manual_seed(0), dtype=torch.float64))
    torch.testing.assert_close(inverse_of_lower(lower) @ lower, torch.eye(5).double().expand(4, 5, 5))


def test_padding_stands_for_nothing():
    torch = pytest.importorskip("torch")
    A, diagonal, B = (torch.as_tensor(a) for a in matrix())
    small = factorise(A[:4, :4].clone(), diagonal[:4], "matrix")
    padded = torch.zeros((1, 7, 7)).double()
    padded[0, :4, :4] = A[:4, :4]
    real = (torch.arange(7) < 4)[None]
    factor = factorise(padded, torch.where(real, diagonal, 1.0), "matrix").without_padding(real)
    assert factor.size.tolist() == [4]
    assert_allclose(factor.log_determinant(), [small.log_determinant()])
    assert_allclose(factor.solve(B)[0, :4], small.solve(B[:4]), atol=1e-12)
    assert_allclose(factor.whiten(B)[0, :4], small.whiten(B[:4]), atol=1e-12)
    assert np.array_equal(factor.solve(B)[0, 4:], np.zeros((3, 4)))


def test_log_densities_of_single_precision_have_the_digits_of_double():
    quadratic = np.array([1.0, 3.0], dtype=np.float32)
    value = log_density(quadratic, np.float64(1e9 + 0.25), 10)
    assert value.dtype == np.float64
    assert_allclose(value, -0.5 * (quadratic.astype(np.float64) + 1e9 + 0.25 + 10 * np.log(2 * np.pi)), rtol=1e-15)
