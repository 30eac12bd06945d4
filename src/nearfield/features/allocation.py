r"""How many features each degree of the Maclaurin series gets, and which degrees are written out exactly.

The estimate of the Gaussian kernel has a squared error of *variance plus bias*: the variance of the sketched degrees
and the squared bias of the degrees left out, both averaged over pairs of sample points. Sketching degree `n` with
`D_n` features costs `f_n(D_n)`, convex and decreasing, so handing out features one by one, each where it helps
most, is optimal for a given last degree `p` (the incremental algorithm); the best `p` is then kept.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
from scipy.spatial.distance import cdist, pdist

from ..common.types import Floats, Integers
from . import sketch, taylor
from .hadamard import next_power_of_two


@dataclass(frozen=True, eq=False)
class Allocation:
    """How the columns of a Maclaurin map are spent."""

    exponents: Integers  # (E, d): monomials written out exactly, the constant first
    counts: dict[int, int]  # sketched degree -> number of features, each at least 1
    error: float  # expected mean squared error of the kernel (variance 1) over distinct pairs of sample points


@dataclass(frozen=True, eq=False)
class DegreeErrors:
    """What each degree contributes to the error, for degrees 1 to `max_degree`.

    Variance and covariance are means of `V` and `C` (see `sketch.factor_moments`), times the squared prefactor and
    `1 / n!^2`.
    """

    variance: Floats  # (max_degree,)
    covariance: Floats  # (max_degree,)
    bias: Floats  # (max_degree + 1,): mean of `(k - k_p)^2` for p from 0 to max_degree
    n_variables: int

    def sketched(self, degree: int, n_components: Integers) -> Floats:
        """Variance `f_n` of degree `n = degree` with given numbers of features, made convex.

        Without covariance that is `V / D`. TensorSRHT's `V / D + c(D, d) / D^2 * C` is not convex between multiples
        of the block size; beyond one block the curve through those multiples stands for it, and where the covariance
        is positive everywhere.
        """
        V, C = self.variance[degree - 1], self.covariance[degree - 1]
        block = next_power_of_two(self.n_variables)
        variance: Floats = (V + (block - 1) * C) / n_components
        if C < 0:
            variance = np.maximum(np.where(n_components <= block, (V - C) / n_components + C, variance), 0.0)
        return variance


def degree_errors(z: Floats, max_degree: int, sampling: str) -> DegreeErrors:
    """Estimate the errors of each degree over the distinct pairs of scaled and centred points `z`, shape (m, d)."""
    m, d = z.shape
    if m < 2:  # no pair: any allocation is as good as another, as long as it is finite
        return DegreeErrors(np.ones(max_degree), np.zeros(max_degree), np.zeros(max_degree + 1), d)
    pairs = np.triu_indices(m, 1)
    squares = z * z
    sizes = squares.sum(axis=1)
    spread = (sizes[:, None] + sizes)[pairs]
    product = (z @ z.T)[pairs]
    norms = (sizes[:, None] * sizes)[pairs]
    shared = (squares @ squares.T)[pairs]
    inner = product * product
    second, cross = sketch.factor_moments(norms, inner, shared, d, sampling)

    # The squared prefactor times the n-th powers of the three moments over n!^2, by recursion: far from the centre the
    # prefactor is so small, and the factorial so large, that nothing overflows.
    seconds = np.exp(-spread)
    means = seconds.copy()
    crosses = means if cross is inner else seconds.copy()
    variance, covariance = np.empty(max_degree), np.zeros(max_degree)
    for n in range(1, max_degree + 1):
        seconds *= second / n**2
        means *= inner / n**2
        variance[n - 1] = max(seconds.mean() - means.mean(), 0.0)
        if crosses is not means:
            crosses *= cross / n**2
            covariance[n - 1] = crosses.mean() - means.mean()

    bias = np.empty(max_degree + 1)
    term = np.exp(-0.5 * spread)
    rest = np.exp(-0.5 * pdist(z, "sqeuclidean")) - term  # `product - 0.5 * spread` would cancel far from the centre
    bias[0] = np.mean(rest * rest)
    for n in range(1, max_degree + 1):
        term *= product / n
        rest -= term
        bias[n] = np.mean(rest * rest)
    return DegreeErrors(variance, covariance, bias, d)


def optimal_counts(
    errors: DegreeErrors, budget: int, first: int = 1, at_least_one: bool = False
) -> tuple[dict[int, int], float]:
    """Best split of `budget` sketched features over degrees `first`, `first + 1`, ... up to the best last degree.

    Parameters
    ----------
    at_least_one : bool
        Sketch degree `first` even where leaving all degrees out would be best.

    Returns
    -------
    counts : dict
        Degree -> number of features, each at least 1. Empty where leaving all these degrees out is best.
    error : float
        Variance plus bias.
    """
    max_degree = len(errors.variance)
    counts: dict[int, int] = {}
    least = float(errors.bias[first - 1])
    if budget < 1:
        return counts, least
    if at_least_one:
        least = np.inf
    numbers = np.arange(1, budget + 1)
    variances = {n: errors.sketched(n, numbers) for n in range(first, max_degree + 1)}
    gains = {n: -np.diff(f) for n, f in variances.items()}
    for last in range(first, min(max_degree, first + budget - 1) + 1):
        degrees = range(first, last + 1)
        spare = budget - len(degrees)
        extra = np.zeros(len(degrees), dtype=np.int64)
        if spare:
            # Convexity makes each row of gains fall, so handing out one by one takes the largest gains of all rows.
            table = np.stack([gains[n][:spare] for n in degrees])
            taken = np.argpartition(-table, spare - 1, axis=None)[:spare]
            extra = np.bincount(taken // spare, minlength=len(degrees))
        error = float(errors.bias[last] + sum(variances[n][e] for n, e in enumerate(extra, first)))
        if error < least:
            counts, least = {n: int(e) + 1 for n, e in enumerate(extra, first)}, error
    return counts, least


def optimal(z: Floats, n_components: int, sampling: str, max_degree: int, exact_degrees: int | None) -> Allocation:
    """Allocation of `n_components` columns with the least variance plus bias on the sample `z`.

    Parameters
    ----------
    z : ndarray of shape (m, d)
        Scaled and centred sample points.
    exact_degrees : int or None
        Write out the degrees up to this one; the next degrees are sketched. None chooses: every number of exact
        degrees with sketches of the rest, and monomials alone, taken by their energy on the sample, all of them or
        those beyond the best number of exact degrees.
    """
    d = z.shape[1]
    errors = degree_errors(z, max_degree, sampling)
    if exact_degrees == 0:
        # The paper's map: sketches of degree 1 and up, however large their variance.
        counts, error = optimal_counts(errors, n_components - 1, at_least_one=True)
        return Allocation(np.zeros((1, d), dtype=np.int64), counts, error)
    candidates = (
        [exact_degrees]
        if exact_degrees is not None
        else [e for e in range(max_degree + 1) if taylor.n_monomials(d, e) <= n_components]
    )
    best: Allocation | None = None
    for e in candidates:
        exponents = taylor.sample(d, e).exponents
        counts, error = optimal_counts(errors, n_components - len(exponents), first=e + 1)
        if best is None or error < best.error:
            best = Allocation(exponents, counts, error)
    assert best is not None
    if exact_degrees is None:
        complete = int(best.exponents[-1].sum())
        fills = [monomials_alone(z, n_components, e, max_degree) for e in sorted({0, complete})]
        alone = min(fills, key=lambda fill: fill.error)
    else:
        alone = monomials_alone(z, n_components, exact_degrees, min(exact_degrees + 1, max_degree))
    # Where no sketch pays, monomials fill the columns left over. They also win a draw, up to rounding errors squared.
    return alone if not best.counts or alone.error <= best.error + 1e-30 else best


def monomials_alone(z: Floats, n_components: int, complete: int, max_degree: int) -> Allocation:
    """Take all monomials up to degree `complete`, then those up to `max_degree` with the most energy.

    The energy of a monomial is the mean of `phi_a(z)^2` over the sample, so inputs that hardly vary in units of their
    length scale get next to no columns.
    """
    d = z.shape[1]
    exponents = taylor.sample(d, complete).exponents
    further = list(islice(_by_energy(z, max_degree, complete), n_components - len(exponents)))
    chosen = np.concatenate([exponents, further]) if further else exponents
    if len(z) < 2:
        return Allocation(chosen, {}, 0.0)
    phi = taylor.apply(taylor.from_exponents(chosen), z)
    rest = np.exp(-0.5 * cdist(z, z, "sqeuclidean")) - phi @ phi.T
    np.fill_diagonal(rest, 0.0)
    return Allocation(chosen, {}, float(np.sum(rest * rest) / (len(z) * (len(z) - 1))))


def _by_energy(z: Floats, max_degree: int, complete: int) -> Iterator[Integers]:
    """Monomials of degree above `complete`, those with the most energy first, each after its parent.

    A monomial is the sequence of its variables in order, so that each is reached on one path: its parent is the
    sequence less the last one. Of each family of siblings only the best one left waits in the queue.
    """
    d = z.shape[1]
    squares = (z * z).T
    queue: list[tuple[float, int, tuple[int, ...], int, Floats, Integers, Floats]] = []

    def push(parent: tuple[int, ...], rank: int, means: Floats, order: Integers, energies: Floats) -> None:
        if rank < len(order):
            child = (*parent, int(order[rank]))
            # Where energies underflow, the lowest degree goes first.
            heapq.heappush(queue, (-float(means[rank]), len(child), child, rank, means, order, energies))

    def push_children(parent: tuple[int, ...], energies: Floats) -> None:
        if len(parent) < max_degree:
            first = parent[-1] if parent else 0
            means = squares[first:] @ energies
            means[0] /= parent.count(first) + 1
            order = np.argsort(-means, kind="stable")
            push(parent, 0, means[order], first + order, energies)

    level = taylor.sample(d, complete)
    for exponents, phi in zip(level.exponents, taylor.feature_rows(level, z), strict=True):
        if exponents.sum() == complete:
            push_children(tuple(np.repeat(np.arange(d), exponents).tolist()), phi * phi)
    while queue:
        _, _, monomial, rank, means, order, energies = heapq.heappop(queue)
        yield np.bincount(monomial, minlength=d)
        push(monomial[:-1], rank + 1, means, order, energies)
        last = monomial[-1]
        push_children(monomial, energies * squares[last] / monomial.count(last))


def random_counts(
    n_components: int, max_degree: int, exact_degrees: int, rng: np.random.RandomState
) -> tuple[dict[int, int], dict[int, float]]:
    """Degrees drawn at random, degree `n` with probability proportional to `2^-n` (Kar and Karnick 2012).

    Returns
    -------
    counts : dict
        Degree -> number of features.
    weights : dict
        Degree -> factor on the kernel of its sketch that makes the whole unbiased for the series up to `max_degree`.
    """
    degrees = np.arange(exact_degrees + 1, max_degree + 1)
    if len(degrees) == 0:
        return {}, {}
    probability = 0.5**degrees
    probability /= probability.sum()
    drawn = rng.multinomial(n_components, probability)
    counts = {n: int(c) for n, c in enumerate(drawn, exact_degrees + 1) if c}
    weights = {n: c / (n_components * float(probability[n - degrees[0]])) for n, c in counts.items()}
    return counts, weights
