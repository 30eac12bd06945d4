"""Whitening of many cells at once, beside whitening one after the other, and the dense inverse."""

import numpy as np
import pytest

from nearfield.kernels import Kernel
from nearfield.local import quick_whitening
from nearfield.local.neighbourhoods import TrainingSet
from nearfield.local.whitening import make_blocks, whitened
from nearfield.solvers.ordered_cells import equal_cells, nearest_earlier_cells

KERNEL = Kernel.gaussian(1.0)


@pytest.fixture(scope="module")
def data():
    rng = np.random.RandomState(0)
    X = rng.uniform(0, 14, (3000, 2))
    targets = np.column_stack([np.sin(X[:, 0]) + rng.standard_normal(3000), X[:, 1] / 14, rng.standard_normal(3000)])
    return TrainingSet.of(X, targets, rng.uniform(0.1, 0.4, 3000))


def test_sums_are_close_to_the_dense_ones(data):
    C = KERNEL(data.X, data.X) + np.diag(data.noise)
    targets = data.y[:, :-1]  # without the constant
    exact = targets.T @ np.linalg.solve(C, targets)
    quick = quick_whitening.quickly_whitened(KERNEL, data, 1)
    scale = np.sqrt(np.outer(np.diag(exact), np.diag(exact)))
    assert np.abs(quick - exact).max() < 0.05 * scale.max()
    assert np.diag(quick)[[0, 2]] == pytest.approx(np.diag(exact)[[0, 2]], rel=2e-2)  # rough columns
    # Smooth ones differ as much as in blocks of this size in double precision.
    blocks = make_blocks(data.X, quick_whitening.CELL_POINTS, quick_whitening.EARLIER, np.random.RandomState(0), 1)
    double = whitened(KERNEL, data.X, data.noise, blocks, lambda rows: targets[rows], 1)[0]
    assert np.diag(quick) == pytest.approx(np.diag(double), rel=0.1)


def test_threads_change_nothing_but_rounding(data):
    single, several = (quick_whitening.quickly_whitened(KERNEL, data, n_jobs) for n_jobs in (1, 3))
    assert single == pytest.approx(several, rel=1e-10)


def test_a_matrix_that_single_precision_cannot_factorise_is_done_in_double(data, monkeypatch):
    expected = quick_whitening.quickly_whitened(KERNEL, data, 1)
    monkeypatch.setattr(quick_whitening.linalg, "cholesky_in_place", _only_in_double(quick_whitening.linalg))
    assert quick_whitening.quickly_whitened(KERNEL, data, 1) == pytest.approx(expected, rel=1e-3, abs=1e-2)


def _only_in_double(linalg):
    plain = linalg.cholesky_in_place
    return lambda A: A.dtype == np.float64 and plain(A)


def test_little_noise_is_left_to_double_precision():
    assert quick_whitening.serves(KERNEL, np.full(3, 0.01))
    assert not quick_whitening.serves(KERNEL, np.array([0.1, 1e-4]))


@pytest.mark.parametrize("n", [2000, 2048, 2111])
def test_every_point_is_in_one_cell(n):
    X = np.random.RandomState(n).uniform(size=(n, 3))
    cells, lacking = equal_cells(X, 64, np.random.RandomState(0))
    rows = [cell[: -1 if lacks else None] for cell, lacks in zip(cells, lacking, strict=True)]
    assert np.sort(np.concatenate(rows)).tolist() == list(range(n))
    assert all(cell[-1] == cell[-2] for cell in cells[lacking])


def test_nearest_earlier_cells_equal_brute_force():
    middles = np.random.RandomState(1).uniform(size=(300, 2))
    near = nearest_earlier_cells(middles, 4, 1)
    for i in range(4, 300):
        distances = np.linalg.norm(middles[:i] - middles[i], axis=1)
        assert sorted(near[i]) == sorted(np.argsort(distances)[:4])
