import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.linalg import LinAlgError
from scipy.linalg.lapack import dtfttr
from threadpoolctl import threadpool_limits

from nearfield.solvers import linalg

SIZES = [1, 2, 3, 4, 7, 8, 33]


@pytest.fixture(autouse=True, scope="module")
def _one_thread_of_blas():
    # The problems are small, and on a busy machine threads that wait for each other take longer than one alone.
    with threadpool_limits(limits=1, user_api="blas"):
        yield


def positive_definite(n, dtype=np.float64, seed=0):
    B = np.random.RandomState(seed).randn(n, n + 2)
    return np.asfortranarray((B @ B.T + np.eye(n)).astype(dtype))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(1, 1), (4, 9), (9, 4), (3, 0)])
def test_gram_of_rows(shape, dtype):
    rows = np.random.RandomState(0).randn(*shape).astype(dtype)
    gram = linalg.gram_of_rows(rows)
    assert gram.dtype == dtype
    assert gram.flags.f_contiguous
    assert_allclose(gram, np.tril(rows @ rows.T), rtol=1e-5 if dtype == np.float32 else 1e-13, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", SIZES)
def test_cholesky_and_solves(n, dtype):
    A = positive_definite(n, dtype)
    tolerance = 1e-3 if dtype == np.float32 else 1e-10
    L, jitter = linalg.cholesky(A.copy(order="F"))
    assert jitter == 0
    lower = np.tril(L)
    assert_allclose(lower @ lower.T, A, rtol=tolerance, atol=tolerance)
    assert_allclose(linalg.log_determinant(L), np.linalg.slogdet(A)[1], rtol=tolerance, atol=tolerance)
    B = np.random.RandomState(1).randn(n, 3).astype(dtype)
    assert_allclose(lower @ linalg.solve_lower(L, np.array(B, order="F")), B, rtol=tolerance, atol=tolerance)
    transposed = linalg.solve_lower(L, np.array(B, order="F"), transposed=True)
    assert_allclose(lower.T @ transposed, B, rtol=tolerance, atol=tolerance)
    both = linalg.solve_both(L, np.array(B, order="F"))
    assert_allclose(lower @ (lower.T @ both), B, rtol=tolerance, atol=tolerance)
    rows = linalg.solve_lower_rows(L, np.array(B, order="C"))
    assert rows.flags.c_contiguous
    assert_allclose(lower @ rows, B, rtol=tolerance, atol=tolerance)


def test_a_singular_matrix_gets_jitter_and_a_warning_that_advises():
    A = np.ones((6, 6), order="F")
    with pytest.warns(RuntimeWarning, match="larger noise_variance"):
        L, jitter = linalg.cholesky(A)
    assert 0 < jitter <= 1e-6
    lower = np.tril(L)
    assert_allclose(lower @ lower.T, 1 + jitter * np.eye(6), atol=1e-12)


def test_an_indefinite_matrix_is_refused():
    with pytest.raises(LinAlgError, match="test matrix is not positive definite"):
        linalg.cholesky(np.array([[1.0, 2.0], [2.0, 1.0]], order="F"), "test matrix")


@pytest.mark.parametrize("bad", [np.nan, np.inf, -1.0])
def test_a_bad_diagonal_is_refused(bad):
    with pytest.raises(LinAlgError, match="diagonal"):
        linalg.cholesky(np.diag([bad, bad, bad]).copy(order="F"))


@pytest.mark.parametrize("place", [(0, 0), (2, 1), (4, 4), (4, 0)])
def test_a_nan_anywhere_is_noticed(place):
    A = positive_definite(5)
    A[place] = A[place[::-1]] = np.nan
    assert not linalg.cholesky_in_place(A.copy(order="F"))
    assert not linalg.packed_cholesky(linalg.pack(A), 5)


# ---- packed ----------------------------------------------------------------------------------------------------------


def unpack_lower(packed, n):
    """Lower triangle of a packed matrix, by SciPy."""
    return np.tril(dtfttr(n, packed, transr="N", uplo="L")[0])


@given(n=st.integers(1, 60))
def test_packing_and_back(n):
    A = positive_definite(n)
    packed = linalg.pack(A)
    assert packed.shape == (n * (n + 1) // 2,)
    assert np.array_equal(packed[linalg.packed_diagonal(n)], np.diagonal(A))
    assert np.array_equal(unpack_lower(packed, n), np.tril(A))


@pytest.mark.parametrize("n", SIZES)
def test_packed_algebra_is_that_of_full_matrices(n):
    A = positive_definite(n)
    factor = linalg.pack(A)
    assert linalg.packed_cholesky(factor, n)
    L = np.linalg.cholesky(A)
    assert_allclose(unpack_lower(factor, n), L, atol=1e-12)
    B = np.random.RandomState(1).randn(n, 2)
    half = linalg.packed_solve(factor, np.array(B, order="F"))
    assert_allclose(L @ half, B, atol=1e-12)
    assert_allclose(A @ linalg.packed_solve(factor, half, transposed=True), B, atol=1e-10)
    inverse = linalg.packed_inverse(factor, n)
    assert_allclose(unpack_lower(inverse, n), np.tril(np.linalg.inv(A)), atol=1e-12)
    updated = linalg.packed_rank_update(inverse, np.array(B, order="F"), -3.0)
    assert_allclose(unpack_lower(updated, n), np.tril(B @ B.T - 3 * np.linalg.inv(A)), atol=1e-12)


def test_packed_cholesky_refuses_an_indefinite_matrix():
    assert not linalg.packed_cholesky(linalg.pack(np.array([[1.0, 2.0], [2.0, 1.0]])), 2)


def test_ordinary_matrices_give_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        linalg.cholesky(positive_definite(20))


def test_factors_of_another_shape_type_or_order_are_refused():
    B, rows = np.ones((4, 2), order="F"), np.ones((4, 2))
    for L in (np.eye(3, order="F"), np.eye(4, dtype=np.float32, order="F"), np.tri(4)):
        with pytest.raises(ValueError, match="factor"):
            linalg.solve_lower(L, B)
        with pytest.raises(ValueError, match="factor must have shape"):
            linalg.solve_both(L, B)
        with pytest.raises(ValueError, match="factor"):
            linalg.solve_lower_rows(L, rows)


# ---- large matrices, panel by panel ----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 6, 7, 8, 20, 21])
def test_panels_make_the_factor_of_the_whole_matrix(monkeypatch, n, dtype):
    monkeypatch.setattr(linalg, "PANEL", 7)
    A = positive_definite(n).astype(dtype).copy(order="F")
    upper = np.triu(A, 1)
    whole = np.linalg.cholesky(A.astype(np.float64))
    assert linalg.cholesky_in_place(A)
    assert_allclose(np.tril(A), whole, atol=1e-12 if dtype == np.float64 else 1e-5)
    assert np.array_equal(np.triu(A, 1), upper)  # it is where the matrix is kept, should it have to be mended


@pytest.mark.parametrize("bad", [0, 6, 7, 19])
def test_panels_notice_what_is_not_positive_definite(monkeypatch, bad):
    monkeypatch.setattr(linalg, "PANEL", 7)
    A = positive_definite(20)
    A[bad, bad] = -1.0
    assert not linalg.cholesky_in_place(A.copy(order="F"))
    A[bad, bad] = np.nan
    assert not linalg.cholesky_in_place(A.copy(order="F"))


@pytest.mark.parametrize("rows", [[], [0], [11], [3, 0, 11, 5, 5], list(range(12))])
def test_diagonal_of_the_inverse(monkeypatch, rows):
    monkeypatch.setattr(linalg, "SIDES", 4)
    A = positive_definite(12)
    L = np.linalg.cholesky(A).copy(order="F")
    rows = np.array(rows, dtype=np.int64)
    assert_allclose(linalg.inverse_diagonal(L, rows), np.diagonal(np.linalg.inv(A))[rows], rtol=1e-10)
