"""Rotated axes from data: the directions in which values reach farthest and least far.

They are those of a kernel of one component whose length scales are a matrix: `k(|exp(-S) (x - x')|)` with `S`
symmetric, the logarithm of the lengths. Its eigenvectors are the axes. The likelihood is smooth in `S`, where it would
not tell an angle of equal lengths, so that the way leads uphill from the best kernel of one length scale.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from ..common.axes import as_rotation
from ..common.threads import n_threads, worker_threads
from ..common.types import Floats
from ..kernels import Kernel
from .blocks import Block, LearningData, stacked, sum_of
from .composite import maximise_composite_likelihood, to_follow
from .likelihood import ConditionalStack, Stack
from .optimiser import maximise
from .request import Fixed, LearningRequest
from .space import Space

FAR = 1e8  # times the extent of the data is a length scale that says nothing
MOST_SKEW = 6.0  # logarithms of lengths off the diagonal, either way: enough for any ratio that data tell


def learn_rotation(data: LearningData, request: LearningRequest, rng: np.random.RandomState) -> Floats:
    """Axes of the process, as the rows of a rotation (d, d): those along which it reaches farthest come first.

    Where length scales are given, the axis that the process reaches farthest along has the place of the longest of
    them, and so on. Where the data tell nothing, axes are the columns.
    """
    d = data.X.shape[1]
    plain = one_component(request)
    space = Space.of(data.X, data.y, plain.fixed, 1, False, data.extents, family=plain.family)
    data = data.with_blocks(False, rng, n_jobs=request.n_jobs)
    deadline = time.perf_counter() + request.time_budget
    learned = maximise_composite_likelihood(data, plain, rng, n_scales=1)
    if space.is_degenerate or not np.isfinite(learned.log_likelihood):
        return np.eye(d)
    blocks = to_follow(data.blocks or [])
    start = space.vector(learned.kernel, learned.noise_variance)[space.free]
    lengths, others = space.bounds[0], space.bounds[1:]
    n_pairs = d * (d - 1) // 2
    bounds = [lengths] * d + [(-MOST_SKEW, MOST_SKEW)] * n_pairs + others
    with worker_threads(n_threads(request.n_jobs)) as run:
        objective = MatrixLikelihood.of(blocks, space, run)
        first = np.concatenate([np.full(d, start[0]), np.zeros(n_pairs), start[1:]])
        optimum = maximise(objective, first, bounds, max_iterations=100, tolerance=1e-8, deadline=deadline)
    if not np.isfinite(optimum.value):
        return np.eye(d)
    _, vectors = np.linalg.eigh(_symmetric(optimum.point, d))
    axes = vectors.T[::-1]  # the longest first
    if request.fixed.length_scales is not None:
        ranks = np.argsort(np.argsort(-np.log(request.fixed.length_scales).mean(axis=0), kind="stable"))
        axes = axes[ranks]
    return as_rotation(axes)


def one_component(request: LearningRequest) -> LearningRequest:
    """The request for one component and one length scale, of a family that stands for what was asked for."""
    family = request.family
    if family == "auto" or (family == "gaussian" and (request.n_scales != 1 or request.n_given != 1)):
        family = "matern32"  # values of several scales are rough beside a single Gaussian
    fixed = Fixed(noise_variance=request.fixed.noise_variance)
    return replace(request, fixed=fixed, n_scales=1, n_given=1, ard=False, family=family, tied=0)


def _with_sums(X: Floats) -> Floats:
    """Points (n, d), followed by the sums of each pair of columns."""
    return np.column_stack([X, *(first + second for first, second in combinations(X.T, 2))])


def _symmetric(theta: Floats, d: int) -> Floats:
    """Matrix (d, d) from its diagonal and what is above it, at the beginning of `theta`."""
    S = np.diag(theta[:d])
    for i, (a, b) in enumerate(combinations(range(d), 2)):
        S[a, b] = S[b, a] = theta[d + i]
    return S


@dataclass(frozen=True, eq=False)
class MatrixLikelihood:
    """Likelihood per target of stacks whose squared differences are of columns and of the sums of each pair of them.

    Its argument is the diagonal of `S` and what is above it, the logarithm of the variance and, where it is free, of
    the noise variance.

    Squares along any axes are sums of those squares. Sums of two axes come along with a length scale so long that they
    do not matter, except that derivatives in it tell what the likelihood owes to the product of the two.
    """

    stacks: list[Stack | ConditionalStack]
    d: int
    size: float  # number of targets
    space: Space  # of one component and one length scale
    run: Callable[..., Iterable[Any]]  # for `map`

    @classmethod
    def of(cls, blocks: list[Block], space: Space, run: Callable[..., Iterable[Any]]) -> MatrixLikelihood:
        """Likelihood of blocks of points (n, d)."""
        stacks = stacked([replace(block, X=_with_sums(block.X)) for block in blocks], True)
        return cls(stacks, blocks[0].X.shape[1], sum(block.size for block in blocks), space, run)

    def __call__(self, theta: Floats) -> tuple[float, Floats]:
        """Value and gradient."""
        d, pairs = self.d, list(combinations(range(self.d), 2))
        m = d + len(pairs)
        logs, vectors = np.linalg.eigh(_symmetric(theta, d))
        plain, noise = self.space.unpack(self.space.filled(np.concatenate([logs[:1], theta[m:]])))
        lengths = np.concatenate([np.exp(logs), np.full(len(pairs), FAR * self.space.extents.extent)])
        kernel = Kernel(lengths[None, :], plain.variances, self.space.family)
        turn = _squares_along(_with_sums(np.eye(d)).T @ vectors.T)
        stacks = [replace(stack, squares=stack.squares @ turn) for stack in self.stacks]
        value, gradient = sum_of(stacks, self.run)(kernel, max(noise, self.space.noise_floor))
        products = gradient[:m] * lengths**2
        inner = np.diag(gradient[:d])
        for i, (a, b) in enumerate(pairs):
            rate = np.exp(-logs[a] - logs[b]) * _sinhc(logs[a] - logs[b])
            inner[a, b] = inner[b, a] = 0.5 * (products[d + i] - products[a] - products[b]) * rate
        outer = vectors @ inner @ vectors.T
        own = np.concatenate([np.diagonal(outer), [2 * outer[pair] for pair in pairs]])
        others = gradient[m:] if self.space.free[-1] else gradient[m:-1]
        return value / self.size, np.concatenate([own, others]) / self.size


def _sinhc(x: float) -> float:
    return float(np.sinh(x) / x) if abs(x) > 1e-4 else 1.0 + x * x / 6


def _squares_along(directions: Floats) -> Floats:
    """Coefficients (q, m) of squares along directions (m, d), in those along columns and the sums of their pairs."""
    singles = directions * (2 * directions - directions.sum(axis=1, keepdims=True))
    products = [first * second for first, second in combinations(directions.T, 2)]
    return np.column_stack([singles, *products]).T
