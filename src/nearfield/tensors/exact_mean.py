r"""The exact mean of one Gaussian by iteration, on a device.

With `K = W W'` on a grid, the solution of `(K + S) alpha = y` follows from one with as many unknowns as nodes:

.. math:: (I + W' S^{-1} W) \, c = W' S^{-1} y, \quad \alpha = S^{-1} (y - W c).

Where points are evenly spread, the matrix is nearly a convolution, whose inverse is a product in Fourier space. Where
they are not, each node takes that of its own density: levels of density are solved apart, and blended.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, log

import numpy as np
import torch
from scipy.fft import next_fast_len

from ..common.arrays import Array as Tensor
from ..common.types import Floats
from ..kernels import Kernel
from .grid_products import TensorGrid

CUTOFF = 1e-12  # of the variance, by which an entry of the matrix may be wrong
STEP = 10.0  # from one level of density to the next
LEAST_DENSITY = 0.05  # in units of what the prior says, below which data say nothing
MAX_ITERATIONS = 600
CHECK_EVERY = 5  # iterations, after which the residual is measured: the device need not wait in between


@dataclass(frozen=True, eq=False)
class TensorSolution:
    """Solutions of `(K + S) alpha = y`, one per column.

    Attributes
    ----------
    x : tensor of shape (n, r)
    relative_residuals : ndarray of shape (r,)
        Norms of `y - (K + S) x` as shares of the norm of `y`, by a product with `x` itself.
    mean_squares : ndarray of shape (r,)
        Mean squares of what is left of the error of each mean at the data, about.
    n_iterations : int
        Most of any column.
    """

    x: Tensor
    relative_residuals: Floats
    mean_squares: Floats
    n_iterations: int


def solve(kernel: Kernel, X: Tensor, y: Tensor, noise: Tensor, tolerance: float | Floats) -> TensorSolution | None:
    """For points (n, d), targets (n, r) and noise variances (n,), in double precision, to relative residuals (r,).

    None where it is out of reach: several Gaussians, too many columns, or points too far apart for a grid.
    """
    if kernel.n_scales > 1 or kernel.family != "gaussian":
        return None
    grid = TensorGrid.of(X, kernel.length_scales[0], CUTOFF)
    if grid is None:
        return None
    variance = kernel.variance
    weights = variance / noise  # as if the Gaussian had the variance 1
    precondition = _by_levels(grid, weights)
    columns, residuals, squares, most = [], [], [], 0
    for target, residual in zip(y.T, np.broadcast_to(tolerance, y.shape[1]).tolist(), strict=True):
        left, square, n_iterations = _column(grid, weights, target, precondition, residual)
        x = left / noise
        rest = target - variance * grid.interpolate(grid.spread(x)) - noise * x
        residuals.append(float(rest.norm()) / max(float(target.norm()), torch.finfo(y.dtype).tiny))
        columns.append(x)
        squares.append(square)
        most = max(most, n_iterations)
    return TensorSolution(torch.stack(columns, dim=1), np.array(residuals), np.array(squares), most)


def _column(
    grid: TensorGrid, weights: Tensor, y: Tensor, precondition: Callable[[Tensor], Tensor], tolerance: float
) -> tuple[Tensor, float, int]:
    """What is left of targets (n,) by the solution, `y - W c`, and the number of iterations.

    Between them, the mean square of the error of `W c`, which is about `W` times the preconditioned residual.
    """

    def product(c: Tensor) -> Tensor:
        return c + grid.spread(weights * grid.interpolate(c))

    norm = float(y.norm())
    r = grid.spread(weights * y)
    c, n_iterations = torch.zeros_like(r), 0
    if norm == 0:
        return y, 0.0, 0
    z = precondition(r)
    p, rz = z, (r * z).sum()
    for n_iterations in range(1, MAX_ITERATIONS + 1):
        q = product(p)
        step = rz / (p * q).sum()
        c = c + step * p
        r = r - step * q
        # The residual of the targets is W r.
        if n_iterations % CHECK_EVERY == 0 and float(grid.interpolate(r).norm()) <= tolerance * norm:
            break
        z, before = precondition(r), rz
        rz = (r * z).sum()
        p = z + (rz / before) * p
    return y - grid.interpolate(c), float(grid.interpolate(precondition(r)).square().mean()), n_iterations


def _by_levels(grid: TensorGrid, weights: Tensor) -> Callable[[Tensor], Tensor]:
    """About the inverse of `I + W' diag(weights) W`, symmetric and positive definite."""
    rule, d = grid.rule, len(grid.n_cells)
    # Longer by a patch, so that a convolution does not come round.
    sizes = [next_fast_len(size + rule.patch, real=True) for size in grid.shape]
    response = weights.new_ones(())
    for size in sizes:
        distance = torch.arange(size, device=weights.device, dtype=weights.dtype)
        distance = rule.spacing * torch.minimum(distance, size - distance)
        response = response[..., None] * (rule.spacing * torch.exp(-0.5 * distance.square()))
    response = torch.fft.rfftn(response).real.clamp_(min=0.0)  # of one unit of weight per unit of volume
    density = grid.spread(weights) / (rule.weight * torch.pi**0.5) ** d
    high = max(float(density.max()), 2 * LEAST_DENSITY)
    n_steps = max(ceil(log(high / LEAST_DENSITY) / log(STEP)), 1)
    level = torch.log(density.clamp(min=LEAST_DENSITY) / LEAST_DENSITY) * (n_steps / log(high / LEAST_DENSITY))
    shares = [torch.clamp(1 - (level - k).abs(), min=0.0).sqrt() for k in range(n_steps + 1)]
    densities = [LEAST_DENSITY * (high / LEAST_DENSITY) ** (k / n_steps) for k in range(n_steps + 1)]
    own = tuple(slice(size) for size in grid.shape)

    def precondition(r: Tensor) -> Tensor:
        result = torch.zeros_like(r)
        for share, of_level in zip(shares, densities, strict=True):
            waves = torch.fft.rfftn(share * r, s=sizes) / (1 + of_level * response)
            result += share * torch.fft.irfftn(waves, s=sizes)[own]
        return result

    return precondition
