r"""The exact process of all data by iteration: no approximation but where the iteration stops.

.. math:: (K_{short} + \Phi \Phi' + S) \, \alpha = b

is solved by conjugate gradients. Products with the short scales are sums on grids, or blocks that leave out what is too
far apart to matter. The local process, whitened block by block, and the long scales beside it are the preconditioner:
some fifteen iterations do. Where one scale is not very short beside the whole map, the nodes of a coarse grid are, and
one or two do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import LinAlgError

from ..common import memory
from ..common.arrays import Array, like, on_host
from ..common.budget import UNLIMITED, Budget, Progress
from ..common.errors import OutOfReachError
from ..common.types import Floats, Integers
from ..features.domain import DomainFeatures
from ..kernels import Kernel
from ..solvers import conjugate_gradients
from ..solvers.conjugate_gradients import Solution
from ..solvers.factors import Factor, factorise
from ..solvers.node_inverse import NodeInverse, node_cost
from ..solvers.products import Product, cost_of_pair, kernel_product, kernel_sums, plan_product
from . import exact_budget
from .block_inverse import BlockInverse
from .choices import MEAN_PER_POINT
from .distance import Distance, Figure
from .gaps import MAX_COLUMNS
from .global_part import GlobalPart, rows_of
from .landmark_inverse import LandmarkInverse, landmark_inverse, number_of_landmarks
from .landmark_variances import LandmarkVariances
from .neighbourhoods import TrainingSet
from .whitening import make_blocks

N_SIGNS = 4  # vectors of random signs, by which traces of the inverse are known to a few percent
CELL_POINTS, N_EARLIER = 32, 128  # of the preconditioner
MAX_ITERATIONS = 200
USUAL_SIDES = 2 + N_SIGNS  # right-hand sides that the costs below were found with
USUAL_ITERATIONS = 15  # with the preconditioner by blocks, that costs are estimated with
PER_FEATURE, PER_PAIR = 1e3, 75.0  # operations worth, iterations included
PER_LANDMARK = 1.2e3
"""Operations per point that a landmark is worth, iterations included (`benchmarks/real.py`, california_8)."""
PER_POINT = 1.75e4  # of these, that blocks and their iterations take per point at the least
PER_MULTIPLICATION = 0.025  # of these, that a multiplication of the factor of nodes takes
NODES_PER_POINT, NODES_PER_PAIR = 5e3, 15.0  # what is left per point and pair with nodes
MOST_PAIRS = 1e10  # of points that matter to each other, counted roughly: minutes
SHARE_OF_MEAN = 1e-3  # of the tolerance, that the mean divergence of an exact mean may be; single places have more
COARSEST = 0.01  # relative residual of it
SIGNS_RESIDUAL = 0.01  # for these
N_PROBES, PROBES_SHARE = 96, 0.05
"""Rows at which the exact variances are found in many columns, a third of which chooses; and their largest share."""
FEWEST_PROBES = 6
"""Of them, where there are few rows."""
PROBES_RESIDUAL = 1e-3
"""Relative residual of their columns of the inverse: what follows from them is wrong by its square."""
LEAST_LEFT = 1e-6
"""Share of the variance: where landmarks leave less, a row counts as one of them."""
FEWEST_NEAR = 50
"""Neighbours of a place beside landmarks, until their number is chosen."""
ROWS_PER_MEAN = 300  # over which such means are taken
NEGLIGIBLE = 1e-3  # share of the noise, that a product may leave out
CUTOFF = 1e-10  # of the variance, below which the kernel of two points is left out
LEFT_OUT, MOST_LEFT_OUT = 3e-4, 3e-8  # the same for a mean: times the tolerance and the share of noise, and at most


@dataclass(frozen=True, eq=False)
class Preconditioner:
    """Close to the inverse of `B + G G'`, for features `G` and a matrix `B` that is nearly one of short scales.

    Attributes
    ----------
    inverse : BlockInverse or NodeInverse
        Close to the inverse of `B`, `P`.
    features : ndarray of shape (n, D)
        `G`; D may be 0.
    smoothed : ndarray of shape (n, D)
        `P G`.
    inner : Factor
        Of `I + G' P G`.
    """

    inverse: BlockInverse | NodeInverse
    features: Floats
    smoothed: Floats
    inner: Factor

    @classmethod
    def of(cls, inverse: BlockInverse | NodeInverse, features: Floats) -> Preconditioner:
        """From an approximate inverse of `B`, and features."""
        smoothed = inverse.product(features)
        inner = factorise(features.T @ smoothed, np.ones(features.shape[1]), "matrix of the features of long scales")
        return cls(inverse, features, smoothed, inner)

    def product(self, V: Floats) -> Floats:
        """It times `V` (n, r)."""
        result = self.inverse.product(V)
        if self.features.shape[1]:
            result -= self.smoothed @ self.inner.solve(self.features.T @ result)
        return result


@dataclass(frozen=True, eq=False)
class System:
    """The covariance matrix of all data, and an approximate inverse of it.

    Attributes
    ----------
    kernel : Product
        Of the short scales.
    Phi : ndarray of shape (n, D)
        Features of the long scales; D may be 0.
    noise : ndarray of shape (n,)
    preconditioner : Preconditioner
    landmarks : LandmarkInverse or None
        Those of the preconditioner, in many columns.
    """

    kernel: Product
    Phi: Floats
    noise: Floats
    preconditioner: Preconditioner
    landmarks: LandmarkInverse | None = None

    @classmethod
    def of(
        cls,
        kernel: Kernel,
        features: tuple[DomainFeatures, ...],
        X: Floats,
        noise: Floats,
        rng: np.random.RandomState,
        n_jobs: int | None,
        max_pairs: float = np.inf,
        cutoff: float = CUTOFF,
        n_sides: int = 1,
    ) -> System:
        """For points (n, d) with noise variances (n,), short scales as a kernel and long ones as features.

        It is to be solved for `n_sides` right-hand sides at a time.

        Raises
        ------
        OutOfReachError
            Where the short scales reach across more than `max_pairs` pairs of points.
        """
        n = len(X)
        D = sum(each.n_components for each in features)
        memory.require(
            8.0 * n * (3 * D + 2.5 * (CELL_POINTS + N_EARLIER)),
            f"The exact Gaussian process of {n} samples by iteration",
            "Fewer samples, or a larger tolerance, need less.",
        )
        product = kernel_product(
            kernel,
            X,
            cutoff=cutoff,
            n_jobs=n_jobs,
            max_pairs=max_pairs,
            most_left_out=NEGLIGIBLE * float(noise.min()),
            n_sides=n_sides,
        )
        Phi = rows_of(features, X, n_jobs) if features else np.empty((n, 0))
        if X.shape[1] > MAX_COLUMNS:
            landmarks = landmark_inverse(kernel, X, noise, rng, n_jobs)
            return cls(product, Phi, noise, Preconditioner.of(landmarks.inverse, landmarks.features), landmarks)
        P = _inverse(kernel, X, noise, rng, n_jobs, sum(each.variance for each in features))
        return cls(product, Phi, noise, Preconditioner.of(P, Phi))

    def product(self, V: Floats) -> Floats:
        """The matrix times `V` (n, r)."""
        result: Floats = self.kernel.product(V) + self.noise[:, None] * V
        return result + self.Phi @ (self.Phi.T @ V) if self.Phi.shape[1] else result

    def solve(
        self,
        B: Floats,
        tolerance: float | Floats,
        progress: Progress | None = None,
        at_most: float | None = None,
        max_iterations: int | None = None,
    ) -> Solution:
        """The inverse times `B` (n, r), to a relative residual of `tolerance`, within `max_iterations`.

        Rounding may end iterations before, with what is still good enough `at_most`.

        Raises
        ------
        OutOfReachError
            Where they do not get there.
        """
        solution = self._solution(B, tolerance, progress, at_most is None, max_iterations)
        limit = tolerance if at_most is None else at_most
        if not np.all(solution.relative_residuals <= limit):
            more = f", and {solution.forecast:.0f} would be needed at least" if solution.forecast else ""
            raise OutOfReachError(
                f"The exact Gaussian process of {len(B)} samples is out of reach: {solution.n_iterations} iterations "
                f"left a relative residual of {solution.relative_residuals.max():.1e}, where {np.min(limit):.1e} "
                f"is needed{more}. A larger noise_variance, or fewer samples, would converge."
            )
        return solution

    def error_of_mean(self, B: Floats, x: Floats) -> Floats:
        """What is left of the error of means at the data, about, for solutions `x` (n, r) of right-hand sides `B`.

        That is the covariance times the error of `x`, which is about the approximate inverse times its residual.
        """
        left = self.preconditioner.product(B - self.product(x))
        result: Floats = self.product(left) - self.noise[:, None] * left
        return result

    def attempt(self, B: Floats, tolerance: float | Floats, progress: Progress | None = None) -> Solution:
        """The same as far as iterations get, for those who look at the residuals that are left."""
        return self._solution(B, tolerance, progress, all_or_nothing=False)

    def _solution(
        self,
        B: Floats,
        tolerance: float | Floats,
        progress: Progress | None,
        all_or_nothing: bool,
        max_iterations: int | None = None,
    ) -> Solution:
        most = MAX_ITERATIONS if max_iterations is None else min(max_iterations, MAX_ITERATIONS)
        given = (B, tolerance, most, progress, all_or_nothing)
        return conjugate_gradients.solve(self.product, self.preconditioner.product, *given)

    @property
    def least_noise(self) -> float:
        """Bound from below on the eigenvalues of the matrix multiplied with; 0 where there is none."""
        return max(float(self.noise.min()) - self.kernel.left_out, 0.0)


def _cost_of_nodes(kernel: Kernel, X: Floats, noise: Floats) -> float:
    """Operations that a `NodeInverse` costs; infinite where blocks cost less."""
    cost = PER_MULTIPLICATION * node_cost(kernel, X, noise)
    return cost if cost < PER_POINT * len(X) else np.inf


def _inverse(
    kernel: Kernel, X: Floats, noise: Floats, rng: np.random.RandomState, n_jobs: int | None, beside: float
) -> BlockInverse | NodeInverse:
    """Close to the inverse of `K + diag(noise)` for points (n, d), by nodes or block by block, whichever costs less.

    It has the digits that long scales with a variance of `beside` call for.
    """
    if np.isfinite(_cost_of_nodes(kernel, X, noise)):
        return NodeInverse.of(kernel, X, noise, n_jobs, beside)
    return BlockInverse.of(kernel, X, noise, make_blocks(X, CELL_POINTS, N_EARLIER, rng, n_jobs), n_jobs, beside)


class Probes(NamedTuple):
    """Rows of the data (p,), the exact variances of the function there, given all but these, and a model without them.

    Its `precision` is that of the other rows.
    """

    rows: Integers
    exact: Floats
    model: LandmarkVariances


@dataclass(frozen=True, eq=False)
class ExactMean:
    """The mean of the exact process, for any place.

    Attributes
    ----------
    kernel : Kernel
        Short scales.
    X : ndarray of shape (n, d)
    weights : ndarray of shape (n, k + 1)
        The inverse of the covariance matrix times the targets.
    features : tuple of DomainFeatures
        Long scales.
    long_weights : ndarray of shape (D, k + 1)
    n_jobs : int or None
    solved_signs : ndarray of shape (n, N_SIGNS) or None
        The inverse times `signs(n)`.
    divergence : float
        Mean KL of observations that is due to where the iteration stopped, at most; 0 where it is not known.
    mean_square : float
        Mean square of what is left of the error of the mean at the data, as the preconditioner has it: the function's
        divergence is half of it over the variance of the function.
    variances : LandmarkVariances or None
        In many columns, the variances beside it.
    probes : Probes or None
    """

    kernel: Kernel
    X: Floats
    weights: Floats
    features: tuple[DomainFeatures, ...]
    long_weights: Floats
    n_jobs: int | None = None
    solved_signs: Floats | None = None
    divergence: float = 0.0
    mean_square: float = 0.0
    variances: LandmarkVariances | None = None
    probes: Probes | None = None

    @classmethod
    def of(
        cls,
        kernel: Kernel,
        part: GlobalPart | None,
        X: Floats,
        weights: Floats,
        n_jobs: int | None,
        solved_signs: Floats | None = None,
    ) -> ExactMean:
        """From the weights of the points."""
        features = () if part is None else part.features
        long_weights = rows_of(features, X, n_jobs).T @ weights if features else np.empty((0, weights.shape[1]))
        return cls(kernel, X, weights, features, long_weights, n_jobs, solved_signs)

    def distance(self, inverse_variance: float) -> Distance:
        """What is left by where the iteration stopped, for a mean of the inverse variance of the function."""
        function = 0.5 * self.mean_square * inverse_variance
        return Distance(*(Figure(nats, 0.0, nats) for nats in (self.divergence, function)))

    def left_out_variances(self, variances: Floats, rows: Integers) -> Floats:
        """Variances (m,) of left-out residuals of rows (m,), from approximate ones (m,), which are right on average.

        They are the inverses of the diagonal of the inverse, whose mean over some hundred rows is known.
        """
        if self.solved_signs is None:
            return variances
        diagonal = np.mean((signs(len(self.X)) * self.solved_signs)[rows], axis=1)
        result = np.empty(len(rows))
        for group in np.array_split(np.argsort(variances), max(len(rows) // ROWS_PER_MEAN, 1)):
            ratio = float(np.mean(diagonal[group] * variances[group]))
            result[group] = variances[group] / np.clip(ratio, 0.01, 100.0)
        return result

    @cached_property
    def _of_short_scales(self) -> Callable[[Floats], Floats]:
        """Their share (m, k + 1) of the mean at points (m, d)."""
        return kernel_sums(self.kernel, self.X, self.weights, cutoff=CUTOFF, n_jobs=self.n_jobs)

    def __getstate__(self) -> dict[str, Any]:
        return {
            name: value for name, value in vars(self).items() if name != "_of_short_scales"
        }  # follows from the rest

    def __call__(self, X: Array) -> Array:
        """Means (m, k + 1) at points (m, d)."""
        places = on_host(X).astype(np.float64)
        mean = self._of_short_scales(places)
        if self.features:
            mean += rows_of(self.features, places, self.n_jobs) @ self.long_weights
        return mean if isinstance(X, np.ndarray) else like(mean, X)

    def variance(self, X: Array) -> Array:
        """Variances (m,) at points (m, d), in many columns."""
        assert self.variances is not None
        variance = self.variances(on_host(X).astype(np.float64))
        return variance if isinstance(X, np.ndarray) else like(variance, X)


def divergence_of_mean(residual_norms: Floats, noise: Floats) -> float:
    """Bound on the mean KL at the data of means solved for to residuals of these norms (k,), with noise (n,).

    Means at the data are wrong by `K (K + S)^-1 r`, which has no more than the norm of the residual `r`, and an error
    `e` of the mean counts as `e^2 / 2` over the variance of an observation, which is no less than its noise.
    """
    return float(0.5 * np.mean(residual_norms**2) / len(noise) * np.mean(1.0 / noise))


def precision_of_mean(tolerance: float, noise: Floats, y: Floats) -> float:
    """Relative residual at which iterations end, for targets (n, k) with noise variances (n,).

    What it leaves is a small share of a divergence of `tolerance`; see `divergence_of_mean`.
    """
    allowed = 2 * SHARE_OF_MEAN * min(tolerance, 1.0) / float(np.mean(1.0 / noise))
    largest = float(np.max(np.mean(y**2, axis=0), initial=0.0))
    return float(min(np.sqrt(allowed / max(largest, allowed)), COARSEST))


def cutoff_of_mean(tolerance: float, noise: float) -> float:
    """Share of the variance, below which the kernel is left out, for a noise variance that is such a share."""
    return float(np.clip(LEFT_OUT * tolerance * noise, CUTOFF, MOST_LEFT_OUT))


def signs(n: int) -> Floats:
    """Random signs (n, N_SIGNS), always the same."""
    result: Floats = np.random.RandomState(0).choice([-1.0, 1.0], (n, N_SIGNS))
    return result


def cost_of_mean(kernel: Kernel, n_long: int, data: TrainingSet) -> float:
    """Operations that the exact mean costs, in the units of `Trial.cost`; infinite where it is out of reach.

    `kernel` has the short scales, and the long ones have `n_long` features.
    """
    n, n_sides = len(data.X), data.y.shape[1] + N_SIGNS
    if data.X.shape[1] > MAX_COLUMNS:
        n_sides += _number_of_probes(n) // 2  # which converge in half of the iterations
    plan = plan_product(kernel, data.X, CUTOFF, n_sides)
    if plan.cost > MOST_PAIRS:
        return np.inf
    if data.X.shape[1] > MAX_COLUMNS:
        pairs = plan.cost * cost_of_pair(n_sides) / cost_of_pair(USUAL_SIDES)
        return (MEAN_PER_POINT + PER_LANDMARK * number_of_landmarks(n)) * n + PER_PAIR * pairs
    nodes = _cost_of_nodes(kernel, data.X, data.noise)
    per_point, per_pair = (NODES_PER_POINT, NODES_PER_PAIR) if np.isfinite(nodes) else (MEAN_PER_POINT, PER_PAIR)
    # What multiplies with all right-hand sides takes as much longer as there are more of them than usual.
    more = n_sides / USUAL_SIDES
    pairs = plan.cost * cost_of_pair(n_sides) / cost_of_pair(USUAL_SIDES)
    by_nodes = nodes if np.isfinite(nodes) else 0.0
    return float(by_nodes + (per_point + PER_FEATURE * n_long) * more * n + per_pair * pairs)


def solve_mean(
    kernel: Kernel,
    part: GlobalPart | None,
    data: TrainingSet,
    tolerance: float,
    rng: np.random.RandomState,
    n_jobs: int | None,
    progress: Progress | None,
    n_targets: int,
    with_signs: bool = True,
    budget: Budget = UNLIMITED,
) -> ExactMean | None:
    """The exact mean, as precise as a divergence of `tolerance` asks for and better; None where that is out of reach.

    `kernel` has the short scales, and `part` the long ones. The first `n_targets` columns of `data.y` are the targets,
    others are drift columns and a constant. `with_signs`, left-out variances can be had of it, too. The counted
    operations are to fit into their share of the `budget`, and the clock stops the iteration when it is over.
    """
    n_long = 0 if part is None else part.n_components
    affordable = exact_budget.most_of_mean(budget.seconds) / cost_of_mean(kernel, n_long, data)
    if not affordable >= 1 or budget.is_over:
        return None
    features = () if part is None else part.features
    right = np.column_stack([data.y, signs(len(data.X))]) if with_signs else data.y
    k, n_before, d = data.y.shape[1], right.shape[1], data.X.shape[1]
    n_sides = n_before + (_number_of_probes(len(data.X)) if d > MAX_COLUMNS else 0)
    cutoff = cutoff_of_mean(tolerance, float(data.noise.min()) / kernel.variance)
    try:
        system = System.of(kernel, features, data.X, data.noise, rng, n_jobs, MOST_PAIRS, cutoff, n_sides)
        probes = _probes(system, kernel.variance, rng)
        residuals = np.full(n_before + len(probes), SIGNS_RESIDUAL)
        residuals[n_before:] = PROBES_RESIDUAL
        residuals[:k] = precision_of_mean(tolerance, data.noise, data.y[:, :n_targets])
        right = np.column_stack([right, np.arange(len(data.X))[:, None] == probes])
        most = int(min(USUAL_ITERATIONS * affordable, MAX_ITERATIONS))
        solution = system.solve(right, residuals, budget.stopping(progress), max_iterations=most)
    except (OutOfReachError, MemoryError, LinAlgError):
        return None
    weights, solved_signs = solution.x[:, :k], solution.x[:, k : k + N_SIGNS] if with_signs else None
    divergence = divergence_of_mean(solution.residual_norms[:n_targets], data.noise)
    mean_square = float(np.mean(system.error_of_mean(right[:, :n_targets], solution.x[:, :n_targets]) ** 2))
    mean = ExactMean(
        kernel, data.X, weights, features, system.Phi.T @ weights, n_jobs, solved_signs, divergence, mean_square
    )
    if system.landmarks is None:
        return mean
    inner, landmarks = system.preconditioner.inner, system.landmarks
    variances = LandmarkVariances(kernel, data.X, data.noise, landmarks.landmarks, inner, FEWEST_NEAR, n_jobs)
    without = replace(variances, precision=landmarks.without(probes, inner))
    exact = _variances_without(system, right[:, n_before:], solution.x[:, n_before:], probes)
    return replace(mean, variances=variances, probes=Probes(probes, exact, without))


def _variances_without(system: System, B: Floats, x: Floats, rows: Integers) -> Floats:
    """Exact variances of the function (m,) at rows, given all others but these, from the inverse `x` times `B`.

    The block of the inverse that belongs to these rows is `B' x + r' x + r' A^-1 r`, for the residual `r` of `x`, with
    the preconditioner for the inverse in the last term. The inverse of the block is their covariance given all others,
    noise included.
    """
    r = B - system.product(x)
    block = (B + r).T @ x + r.T @ system.preconditioner.product(r)
    covariance = np.linalg.inv(0.5 * (block + block.T))
    result: Floats = np.clip(np.diagonal(covariance) - system.noise[rows], 0.0, None)
    return result


def _probes(system: System, variance: float, rng: np.random.RandomState) -> Integers:
    """Rows at which the exact variances are found along with the mean: some in many columns, else none.

    Landmarks themselves, of which nothing is left, are not among them where there are others: places to predict at are
    none either.
    """
    if system.landmarks is None:
        return np.empty(0, dtype=np.int64)
    F = system.preconditioner.features
    others = np.flatnonzero(variance - np.einsum("ij,ij->i", F, F) > LEAST_LEFT * variance)
    size = _number_of_probes(len(F))
    rows = others if len(others) >= size else np.arange(len(F))
    probes: Integers = rng.choice(rows, size, replace=False)
    return probes


def _number_of_probes(n: int) -> int:
    return min(max(min(N_PROBES, int(PROBES_SHARE * n)), FEWEST_PROBES), n - 1)
