"""Hyperparameters from data on a device: blocks found there, and their exact likelihoods evaluated there at once."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from scipy.linalg import LinAlgError

from ..common.arrays import Array as Tensor
from ..common.arrays import as_doubles, like, on_host
from ..common.types import Floats, Integers
from ..hyperparameters import learning as hyperparameters
from ..hyperparameters.ard import decide_ard
from ..hyperparameters.blocks import LARGEST_SINGLE_BLOCK, N_ASIDE, N_BLOCKS, Block, LearningData, near_and_far
from ..hyperparameters.learning import Learned, LearningRequest
from ..hyperparameters.space import NO_EXTENTS, Extents, spreads_of
from ..kernels import Kernel
from ..kernels.families import FAMILIES
from ..solvers.factors import LOG_2PI, inverse_of_lower
from . import cells

FLOAT32_NOISE = 1e-4  # share of the signal variance below which the digits of float32 do not suffice
SAMPLE = 20_000  # rows that stand for all where only their spread matters


def learn(
    X: Tensor, y: Tensor, weights: Tensor | None, request: LearningRequest, rng: np.random.RandomState
) -> Learned:
    """Hyperparameters from points (n, d), centred targets (n, k) and weights (n,) or None on a device."""
    if request.fixed.is_complete:  # nothing to look at the data for
        data = LearningData(np.zeros((2, X.shape[1])), np.zeros((2, 1)))
    else:
        _set_up(X.device)
        if request.is_ard_open:
            request = decide_ard(_sample(X, y, weights, deepcopy(rng)), request, rng)
        n_blocks = N_BLOCKS if request.n_scales == 1 else N_BLOCKS + N_ASIDE
        data = summary(X, y, weights, n_blocks, request.ard, rng, request.tied)
    learned = hyperparameters.learn(data, request, rng)
    if X.dtype == torch.float32 and learned.noise_variance < FLOAT32_NOISE * learned.kernel.variance:
        raise ValueError(
            f"The noise variance {learned.noise_variance:.1e} is below {FLOAT32_NOISE:g} of the signal variance, too "
            "little for the digits of float32: convert X and y to float64."
        )
    return learned


def _set_up(device: Any) -> None:
    """Have PyTorch set its linear algebra up on this thread: it does so on first use, and not safely among several."""
    factor, _ = torch.linalg.cholesky_ex(torch.eye(2, dtype=torch.float64, device=device)[None])
    inverse_of_lower(factor)


def summary(
    X: Tensor,
    y: Tensor,
    weights: Tensor | None,
    n_blocks: int,
    ard: bool,
    rng: np.random.RandomState,
    tied: int = 0,
) -> LearningData:
    """Some points and targets on the host, and what was prepared on the device; see `blocks.make_blocks` for `tied`."""
    n = len(X)
    sample = _sample(X, y, weights, rng)
    scale = spreads_of(sample.X, tied) if ard else np.ones(X.shape[1])
    scaled = X / like(np.where(scale > 0, scale, 1.0), X)

    def nearest(chosen: Integers, k: int) -> Integers:
        return on_host(cells.nearest_points(scaled, scaled[torch.as_tensor(chosen, device=X.device)], k))

    def points(chosen: Integers) -> Floats:
        return on_host(scaled[torch.as_tensor(chosen, device=X.device)])

    groups = [np.arange(n)] if n <= LARGEST_SINGLE_BLOCK else near_and_far(n, n_blocks, rng, nearest, points)
    return replace(
        sample,
        blocks=[_block(X, y, weights, group) for group in groups],
        extents=_extents(scaled, rng),
        likelihood=lambda blocks: Stack(blocks, X.device).log_likelihood,
    )


def _sample(X: Tensor, y: Tensor, weights: Tensor | None, rng: np.random.RandomState) -> LearningData:
    """Some rows, on the host."""
    rows = torch.as_tensor(rng.permutation(len(X))[:SAMPLE], device=X.device)
    return LearningData(
        as_doubles(X[rows]), as_doubles(y[rows]), None if weights is None else as_doubles(weights[rows])
    )


def _block(X: Tensor, y: Tensor, weights: Tensor | None, group: Integers) -> Block:
    rows = torch.as_tensor(group, device=X.device)
    return Block.of(as_doubles(X[rows]), as_doubles(y[rows]), None if weights is None else as_doubles(weights[rows]))


def _extents(X: Tensor, rng: np.random.RandomState, size: int = 1000) -> Extents:
    """`Extents.of` on a device."""
    n = len(X)
    queries = X if n <= size else X[torch.as_tensor(rng.choice(n, size, replace=False), device=X.device)]
    extent = float(torch.linalg.norm(X.amax(dim=0) - X.amin(dim=0)))
    if n < 2 or extent == 0:
        return NO_EXTENTS
    near = cells.nearest_points(X, queries, min(n, 8))
    distances = torch.linalg.norm(X[near] - queries[:, None], dim=-1).sort(dim=1).values[:, 1:]
    return Extents.from_neighbours(as_doubles(distances), as_doubles(queries), extent)


class Stack:
    """Independent blocks side by side on a device, padded to the same size; see `likelihood`."""

    def __init__(self, blocks: list[Block], device: Any) -> None:
        sizes = [len(block.X) for block in blocks]
        n, d, k = max(sizes), blocks[0].X.shape[1], blocks[0].y.shape[1]
        X, y = np.zeros((len(blocks), n, d)), np.zeros((len(blocks), n, k))
        factors, real = np.ones((len(blocks), n)), np.zeros((len(blocks), n), dtype=bool)
        for i, block in enumerate(blocks):
            X[i, : sizes[i]], y[i, : sizes[i]] = block.X - block.X.mean(axis=0), block.y
            real[i, : sizes[i]] = True
            if block.noise_factors is not None:
                factors[i, : sizes[i]] = block.noise_factors
        self.n_points, self.n_targets = sum(sizes), k
        self.X, self.y, self.factors = (torch.as_tensor(a, device=device) for a in (X, y, factors))
        self.real = torch.as_tensor(real, device=device)
        self.both = self.real[:, :, None] & self.real[:, None, :]
        self._distances: Tensor = None

    def log_likelihood(self, kernel: Kernel, noise_variance: float) -> tuple[float, Floats]:
        """Value, and gradient in the order of `likelihood`."""
        noise = noise_variance * self.factors
        squares = [self._squares(scales) for scales in kernel.length_scales]
        components, slopes = [], []
        for square, variance in zip(squares, kernel.variances.tolist(), strict=True):
            component, slope = FAMILIES[kernel.family].with_slope(square.sum(dim=0))
            components.append(torch.where(self.both, variance * component, 0.0))
            slopes.append(torch.where(self.both, variance * slope, 0.0) if slope is not component else components[-1])
        K = sum(components[1:], components[0].clone())
        K.diagonal(dim1=-2, dim2=-1).add_(torch.where(self.real, noise, 1.0))
        factor, failed = torch.linalg.cholesky_ex(K)
        if bool((failed > 0).any()):
            raise LinAlgError("The covariance matrix is not positive definite.")
        whitener = inverse_of_lower(factor)
        half = whitener @ self.y
        alpha = whitener.mT @ half
        log_determinant = 2 * factor.diagonal(dim1=-2, dim2=-1).log().sum()
        value = -0.5 * (half.square().sum() + self.n_targets * (log_determinant + self.n_points * LOG_2PI))
        M = alpha @ alpha.mT - self.n_targets * (whitener.mT @ whitener)
        lengths, variances = [], []
        for component, slope, square in zip(components, slopes, squares, strict=True):
            variances.append(0.5 * (component * M).sum())
            lengths.append(0.5 * (slope * M * square).sum(dim=(1, 2, 3)))
        diagonal = M.diagonal(dim1=-2, dim2=-1)
        noise_gradient = 0.5 * (diagonal * torch.where(self.real, noise, 0.0)).sum()
        gradient = torch.cat([*lengths, torch.stack([*variances, noise_gradient])])
        return float(value), on_host(gradient)

    def _squares(self, scales: Floats) -> Tensor:
        """Squared differences over squared length scales, one per length scale: (q, B, n, n)."""
        if self._distances is None:
            difference = self.X[:, :, None] - self.X[:, None, :]
            squares = difference.square_().movedim(-1, 0)
            self._distances = squares if len(scales) > 1 else squares.sum(dim=0, keepdim=True)
        return self._distances / torch.as_tensor(scales**2, device=self.X.device)[:, None, None, None]
