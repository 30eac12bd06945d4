"""Hyperparameters from data on a device: blocks found there, and their exact likelihoods evaluated there at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from scipy.linalg import LinAlgError

from ..common.arrays import Array as Tensor
from ..common.arrays import on_host
from ..common.types import Floats, Integers
from ..hyperparameters.blocks import MAX_EXACT, Block, near_and_far
from ..hyperparameters.space import Extents, extents_from
from ..kernels import Kernel
from ..solvers.factors import LOG_2PI, inverse_of_lower
from . import cells

SAMPLE = 20_000  # rows that stand for all where only their spread matters


def summary(
    X: Tensor, y: Tensor, weights: Tensor | None, n_blocks: int, ard: bool, rng: np.random.RandomState
) -> dict[str, Any]:
    """What `learn` needs of data on a device: a sample `X`, `y`, and the options `blocks`, `extents`, `likelihood`."""
    n = len(X)
    scale = X.std(dim=0, correction=0) if ard else torch.ones_like(X[0])
    scaled = X / torch.where(scale > 0, scale, 1.0)

    def nearest(chosen: Integers, k: int) -> Integers:
        return on_host(cells.nearest_points(scaled, scaled[torch.as_tensor(chosen, device=X.device)], k))

    def points(chosen: Integers) -> Floats:
        return on_host(scaled[torch.as_tensor(chosen, device=X.device)])

    groups = [np.arange(n)] if n <= MAX_EXACT else near_and_far(n, n_blocks, rng, nearest, points)
    sample = torch.as_tensor(rng.permutation(n)[:SAMPLE], device=X.device)
    return {
        "X": _double(X[sample]),
        "y": _double(y[sample]),
        "blocks": [_block(X, y, weights, group) for group in groups],
        "extents": _extents(scaled, rng),
        "likelihood": BlockLikelihood(X.device),
    }


def _double(values: Tensor) -> Floats:
    result: Floats = on_host(values).astype(np.float64)
    return result


def _block(X: Tensor, y: Tensor, weights: Tensor | None, group: Integers) -> Block:
    rows = torch.as_tensor(group, device=X.device)
    return Block(_double(X[rows]), _double(y[rows]), None if weights is None else 1 / _double(weights[rows]), None)


def _extents(X: Tensor, rng: np.random.RandomState, size: int = 1000) -> Extents:
    """`search.measure` on a device."""
    n = len(X)
    queries = X if n <= size else X[torch.as_tensor(rng.choice(n, size, replace=False), device=X.device)]
    extent = float(torch.linalg.norm(X.amax(dim=0) - X.amin(dim=0)))
    if n < 2 or extent == 0:
        return Extents(1.0, 1.0, 1.0, 0.0)
    near = cells.nearest_points(X, queries, min(n, 8))
    distances = torch.linalg.norm(X[near] - queries[:, None], dim=-1).sort(dim=1).values[:, 1:]
    return extents_from(_double(distances), _double(queries), extent)


class BlockLikelihood:
    """Sum of the exact log likelihoods of blocks, and its gradient, in double precision; see `likelihood`."""

    def __init__(self, device: Any) -> None:
        self.device = device
        self._stacked: dict[tuple[int, ...], tuple[list[Block], Stack]] = {}

    def __call__(self, blocks: list[Block], kernel: Kernel, noise: float) -> tuple[float, Floats]:
        """Value and gradient; a matrix that is not positive definite raises `LinAlgError`."""
        key = tuple(id(block) for block in blocks)
        if key not in self._stacked:
            self._stacked[key] = (blocks, Stack(blocks, self.device))  # the blocks kept, so that no other has their id
        return self._stacked[key][1].log_likelihood(kernel, noise)


class Stack:
    """Blocks side by side on a device, padded to the same size."""

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
        parts = [
            torch.where(self.both, variance * torch.exp(-0.5 * square.sum(dim=0)), 0.0)
            for square, variance in zip(squares, kernel.variances.tolist(), strict=True)
        ]
        K = sum(parts[1:], parts[0].clone())
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
        for part, square in zip(parts, squares, strict=True):
            part *= M
            variances.append(0.5 * part.sum())
            lengths.append(0.5 * (part * square).sum(dim=(1, 2, 3)))
        diagonal = M.diagonal(dim1=-2, dim2=-1)
        noise_gradient = 0.5 * (diagonal * torch.where(self.real, noise, 0.0)).sum()
        gradient = torch.cat([*lengths, torch.stack([*variances, noise_gradient])])
        return float(value), on_host(gradient)

    def _squares(self, scales: Floats) -> Tensor:
        """Squared differences over squared length scales, one a length scale: (q, B, n, n)."""
        if self._distances is None:
            difference = self.X[:, :, None] - self.X[:, None, :]
            squares = difference.square_().movedim(-1, 0)
            self._distances = squares if len(scales) > 1 else squares.sum(dim=0, keepdim=True)
        return self._distances / torch.as_tensor(scales**2, device=self.X.device)[:, None, None, None]
