"""An approximate inverse of the covariance matrix of data in many columns; the preconditioner of iterations.

Landmarks carry what reaches far, in every direction at once, and small cells with some earlier points what is left:
of those of the nearest cells, the points that tell most of a cell by themselves.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..common import memory
from ..common.types import Floats, Integers
from ..kernels import Kernel
from ..solvers.factors import Cholesky, Factor, factorise
from ..solvers.landmarks import Landmarks, earlier_by_correlation
from ..solvers.ordered_cells import equal_cells, nearest_earlier_cells
from .block_inverse import BlockInverse, Residual
from .whitening import Block


@dataclass(frozen=True)
class LandmarkSettings:
    """Sizes of the approximation. Numbers of points, unless said otherwise."""

    n_landmarks: int = 1000
    """Of a quarter as many rows at most. With 300, iterations are 1.5 to 3 times as many."""

    cell_points: int = 8
    """Of a cell. Cells of 1 to 32 points are equally near to the exact process, and these are the cheapest."""

    n_earlier: int = 32
    """Earlier points of a cell."""

    n_near_cells: int = 64
    """Cells whose points are looked at for them."""


SETTINGS = LandmarkSettings()


@dataclass(frozen=True, eq=False)
class LandmarkInverse:
    """Landmarks, and an approximate inverse of the covariance matrix of what they leave at the data.

    Attributes
    ----------
    residual : Residual
        Of what they leave, with their features (n, m).
    landmarks : Landmarks
    blocks : list of Block
    inverse : BlockInverse
    n_jobs : int or None
    """

    residual: Residual
    landmarks: Landmarks
    blocks: list[Block]
    inverse: BlockInverse
    n_jobs: int | None

    @property
    def features(self) -> Floats:
        """Features (n, m) of the data."""
        assert self.residual.features is not None
        return self.residual.features

    def without(self, rows: Integers, precision: Factor) -> Factor:
        """The precision of the coefficients of the features where some rows (m,) are set aside, from that of all."""
        aside = np.zeros(len(self.features), dtype=bool)
        aside[rows] = True
        touched = [block for block in self.blocks if aside[block.points].any()]
        fewer = [Block(block.own[~aside[block.own]], block.earlier[~aside[block.earlier]]) for block in touched]
        fewer = [block for block in fewer if len(block.own)]
        assert isinstance(precision, Cholesky)
        A = precision.matrix()
        for sign, blocks in ((-1.0, touched), (1.0, fewer)):
            if blocks:
                A += sign * BlockInverse.of_residual(self.residual, blocks, self.n_jobs).gram(self.features)
        return factorise(A, np.zeros(len(A)), "matrix of the features of landmarks")


def landmark_inverse(
    kernel: Kernel, X: Floats, noise: Floats, rng: np.random.RandomState, n_jobs: int | None
) -> LandmarkInverse:
    """For points (n, d) with noise variances (n,)."""
    m = number_of_landmarks(len(X))
    # features, their smoothed ones, a copy of them at work, and the columns of the blocks
    n_columns = 3 * m + SETTINGS.cell_points + SETTINGS.n_earlier
    memory.require(8.0 * len(X) * n_columns, "An inverse with landmarks", "Fewer samples need less.")
    landmarks = Landmarks.of(kernel, X, m, rng)
    F = landmarks.features(X, n_jobs)
    residual, blocks = Residual(kernel, X, noise, F), _blocks(kernel, X, F, noise, rng, n_jobs)
    return LandmarkInverse(residual, landmarks, blocks, BlockInverse.of_residual(residual, blocks, n_jobs), n_jobs)


def number_of_landmarks(n: int) -> int:
    """For `n` rows."""
    return min(SETTINGS.n_landmarks, n // 4)


def _blocks(
    kernel: Kernel, X: Floats, F: Floats, noise: Floats, rng: np.random.RandomState, n_jobs: int | None
) -> list[Block]:
    """Cells of nearby points in random order, with the earlier points that tell most of each."""
    scaled = X / np.exp(np.mean(np.log(kernel.length_scales), axis=0))
    padded, lacking = equal_cells(scaled, SETTINGS.cell_points, rng)
    cells = [cell[:-1] if lacks else cell for cell, lacks in zip(padded, lacking, strict=True)]
    count = min(SETTINGS.n_near_cells, len(cells))
    near = nearest_earlier_cells(scaled[padded].mean(axis=1), count, n_jobs)

    def candidates(i: int) -> Integers:
        others = near[i] if i >= count else np.arange(i)
        return np.concatenate([padded[0, :0], *(cells[j] for j in others)])

    earlier = earlier_by_correlation(
        kernel, X, F, noise, cells, [candidates(i) for i in range(len(cells))], SETTINGS.n_earlier, n_jobs
    )
    return [Block(own, near) for own, near in zip(cells, earlier, strict=True)]
