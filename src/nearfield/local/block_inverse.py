"""An approximate inverse of the covariance matrix of all data, cell by cell; the preconditioner of iterations.

With `U` the whitening of `whitening`, whose rows belong to cells and their earlier points, it is `U' U`. Cells with the
same numbers of points are multiplied side by side, each by a dense matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix

from ..common.memory import batches
from ..common.threads import few_threads, n_threads, thread_map
from ..common.types import Floats, Integers
from ..kernels import Kernel
from ..solvers import linalg
from ..solvers.factors import Factor, factorise
from . import fast_cells
from .whitening import Block

BLOCKS_AT_ONCE = 32
LEAST_NOISE = 1e-3  # of the variance of the kernel, from where on matrices are in single precision
COLUMNS_AT_ONCE = 16
WIDEST = {"float32": 100.0, "float64": 1e3}
"""Length scales across a block from where on differences of covariances and features lack digits side by side."""
FARTHEST = 1e15  # coordinate in length scales, beyond which squares overflow in single precision


class _Blocks(NamedTuple):
    """Blocks of the same size: points (B, p), and what their targets are multiplied by, (B, p, m)."""

    points: Integers
    columns: Floats


class Residual(NamedTuple):
    """Covariance of points (n, d) with noise (n,), less what features (n, m) carry, where there are any."""

    kernel: Kernel
    X: Floats
    noise: Floats
    features: Floats | None = None

    def matrices(self, points: Integers, dtype: Any) -> Floats:
        """Those of some sets of points (B, p), without noise: (B, p, p)."""
        places = self.X[points]
        places = (places - places.mean(axis=1, keepdims=True)).astype(dtype)
        K: Floats = self.kernel(places, places)
        if self.features is not None:
            F = self.features[points].astype(dtype)
            K -= F @ F.mT
        return K

    def factor(self, points: Integers) -> Factor:
        """Of one set of points (p,), in double precision."""
        K = self.kernel(self.X[points], self.X[points])  # of differences, which have their digits however far one is
        if self.features is not None:
            K -= self.features[points] @ self.features[points].T
        return factorise(K, self.noise[points], "covariance matrix of a cell")


@dataclass(frozen=True, eq=False)
class BlockInverse:
    """`U' U`, symmetric and positive definite.

    Attributes
    ----------
    groups : list of _Blocks
    sums : sparse matrix of shape (n, total number of points of blocks)
        Adds up what blocks say of a point.
    n_jobs : int or None
    """

    groups: list[_Blocks]
    sums: csr_matrix
    n_jobs: int | None

    @classmethod
    def of(
        cls,
        kernel: Kernel,
        X: Floats,
        noise: Floats,
        blocks: list[Block],
        n_jobs: int | None,
        beside: float = 0.0,
    ) -> BlockInverse:
        """Close to the inverse of `K + diag(noise)` for points (n, d) with noise (n,), which are in one block each.

        It is to serve beside long scales, which have a variance of `beside`: these take more digits.
        """
        most = max(len(block.points) for block in blocks)
        quickly = fast_cells.whitener(kernel, X, noise, len(blocks), most)
        return cls.of_residual(Residual(kernel, X, noise), blocks, n_jobs, beside, quickly)

    @classmethod
    def of_residual(
        cls,
        residual: Residual,
        blocks: list[Block],
        n_jobs: int | None,
        beside: float = 0.0,
        quickly: Callable[[Integers, Floats], Integers] | None = None,
    ) -> BlockInverse:
        """The same for what features leave of a kernel; `quickly` is a compiled loop, where there is one."""
        n = len(residual.X)
        enough = float(residual.noise.min()) >= LEAST_NOISE * (residual.kernel.variance + beside)
        dtype = np.float32 if enough else np.float64
        by_size: dict[tuple[int, int], list[Block]] = {}
        for block in blocks:
            by_size.setdefault((len(block.earlier), len(block.own)), []).append(block)
        runs = [same[run] for same in by_size.values() for run in batches(len(same), BLOCKS_AT_ONCE)]
        threads = few_threads(n_jobs) if quickly is None else n_threads(n_jobs)
        groups = thread_map(lambda run: _whitening(residual, run, dtype, quickly), runs, threads)
        points = np.concatenate([group.points.ravel() for group in groups])
        sums = csr_matrix((np.ones(len(points), dtype), (points, np.arange(len(points)))), shape=(n, len(points)))
        return cls(groups, sums, n_jobs)

    def gram(self, V: Floats) -> Floats:
        """`V' U' U V` (r, r) for `V` (n, r)."""
        grams = []
        for group in self.groups:
            W = (group.columns.mT @ V[group.points]).reshape(-1, V.shape[1])
            grams.append(W.T @ W)
        total: Floats = sum(grams[1:], grams[0])
        return total

    def product(self, V: Floats) -> Floats:
        """It times `V` (n, r)."""
        result = np.empty(V.shape)
        for sides in batches(V.shape[1], COLUMNS_AT_ONCE):
            size = np.abs(V[:, sides]).max(axis=0)
            size[size == 0] = 1.0
            some = np.ascontiguousarray(V[:, sides] / size, dtype=self.sums.dtype)  # in reach of single precision

            def of_blocks(group: _Blocks, some: Floats = some) -> Floats:
                whitened = group.columns.mT @ some[group.points]
                said: Floats = (group.columns @ whitened).reshape(-1, some.shape[1])
                return said

            result[:, sides] = self.sums @ np.concatenate(thread_map(of_blocks, self.groups, self.n_jobs))
            result[:, sides] *= size
        return result


def _whitening(
    covariance: Residual,
    blocks: list[Block],
    dtype: Any,
    quickly: Callable[[Integers, Floats], Integers] | None,
) -> _Blocks:
    """Columns of some blocks of the same size; those whose matrices need more digits are made in double precision.

    `quickly` is a compiled loop, where there is one.
    """
    points = np.array([block.points for block in blocks])
    p, m = points.shape[1], len(blocks[0].own)
    columns = np.zeros((len(blocks), p, m), dtype)
    failed = _whiten(covariance, points, columns) if quickly is None else quickly(points, columns)
    for i in failed:
        columns[i] = covariance.factor(points[i]).whiten(np.eye(p))[p - m :].T
    return _Blocks(points, columns)


def _whiten(covariance: Residual, points: Integers, columns: Floats) -> Integers:
    """Fill columns (B, p, m) of blocks of points (B, p), and say which of them could not be solved."""
    (p, m), dtype = columns.shape[1:], columns.dtype
    farthest = FARTHEST if covariance.features is None else WIDEST[np.dtype(dtype).name]
    is_wide = np.ptp(covariance.X[points], axis=1).max(axis=1) > farthest
    K = covariance.matrices(np.where(is_wide[:, None], points[:, :1], points), dtype)
    K[:, np.arange(p), np.arange(p)] += covariance.noise[points]
    columns[:, p - m :] = np.eye(m)
    solved = np.array([linalg.cholesky_in_place(matrix.T) for matrix in K]) & ~is_wide
    for i in np.flatnonzero(solved):
        linalg.solve_lower_rows(K[i].T, columns[i], transposed=True)
    return np.flatnonzero(~solved)
