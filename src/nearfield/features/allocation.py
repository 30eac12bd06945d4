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

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from . import sketch, taylor
from .hadamard import next_power_of_two

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Allocation:
    """How the columns of a Maclaurin map are spent.

    Attributes
    ----------
    exponents : ndarray of shape (E, d)
        Monomials written out exactly, the constant first.
    counts : dict
        Sketched degree -> number of features, each at least 1.
    error : float
        Expected mean squared error of the kernel (variance 1) over distinct pairs of sample points.
    """

    exponents: NDArray[np.int64]
    counts: dict[int, int]
    error: float


@dataclass(frozen=True, eq=False)
class DegreeErrors:
    """What each degree contributes to the error, for degrees 1 to `max_degree`.

    Attributes
    ----------
    variance, covariance : ndarray of shape (max_degree,)
        Means of `V_n` and `C_n` of `sketch.variance_terms`, times the squared prefactor and `1 / n!^2`.
    bias : ndarray of shape (max_degree + 1,)
        Mean of `(k - k_p)^2` for p from 0 to max_degree.
    n_variables : int
    """

    variance: Floats
    covariance: Floats
    bias: Floats
    n_variables: int

    def sketched(self, degree: int, n_components: NDArray[np.int64]) -> Floats:
        """Variance `f_n` of degree `n = degree` with given numbers of features, made convex.

        Without covariance that is `V / D`. TensorSRHT's `V / D + c(D, d) / D^2 * C` is not convex between multiples
        of the block size; beyond one block the curve through those multiples stands for it, and where the covariance
        is positive everywhere.
        """
        V, C = self.variance[degree - 1], self.covariance[degree - 1]
        D = n_components.astype(np.float64)
        if C == 0:
            return V / D
        block = next_power_of_two(self.n_variables)
        through_blocks = (V + (block - 1) * C) / D
        if C > 0:
            return through_blocks
        return np.maximum(np.where(D <= block, (V - C) / D + C, through_blocks), 0.0)


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

    variance, covariance = np.empty(max_degree), np.zeros(max_degree)
    for n in range(1, max_degree + 1):
        # V_n exp(-|z|^2 - |z'|^2) / n!^2 as V_n of scaled arguments, so that no power overflows.
        t = np.exp(-(spread + 2 * gammaln(n + 1)) / n)
        V, C = sketch.variance_terms(norms * t, inner * t, shared * t, n, d, sampling)
        variance[n - 1] = V.mean()
        covariance[n - 1] = np.mean(C)

    bias = np.empty(max_degree + 1)
    term = np.exp(-spread / 2)
    rest = np.exp(product - spread / 2) - term
    bias[0] = np.mean(rest * rest)
    for n in range(1, max_degree + 1):
        term = term * product / n
        rest = rest - term
        bias[n] = np.mean(rest * rest)
    return DegreeErrors(variance, covariance, bias, d)


def optimal_counts(errors: DegreeErrors, budget: int, first: int = 1) -> tuple[dict[int, int], float]:
    """Best split of `budget` sketched features over degrees `first`, `first + 1`, ... up to the best last degree.

    Returns
    -------
    counts : dict
        Degree -> number of features, each at least 1. Empty where leaving all these degrees out is best.
    error : float
        Variance plus bias.
    """
    max_degree = len(errors.variance)
    best: tuple[dict[int, int], float] = ({}, float(errors.bias[first - 1]))
    if budget < 1:
        return best
    numbers = np.arange(1, budget + 1)
    variances = {n: errors.sketched(n, numbers) for n in range(first, max_degree + 1)}
    gains = {n: -np.diff(f) for n, f in variances.items()}
    for last in range(first, min(max_degree, first + budget - 1) + 1):
        degrees = range(first, last + 1)
        spare = budget - len(degrees)
        # Convexity makes each row of gains fall, so the largest gains of all rows are what one-by-one handing out takes.
        table = np.stack([gains[n][:spare] for n in degrees]) if spare else np.empty((len(degrees), 0))
        extra = np.zeros(len(degrees), dtype=np.int64)
        if spare:
            taken = np.argpartition(-table, spare - 1, axis=None)[:spare]
            extra = np.bincount(taken // spare, minlength=len(degrees))
        error = float(errors.bias[last] + sum(variances[n][e] for n, e in zip(degrees, extra, strict=True)))
        if error < best[1]:
            best = ({n: int(e) + 1 for n, e in zip(degrees, extra, strict=True)}, error)
    return best


def optimal(z: Floats, n_components: int, sampling: str, max_degree: int, exact_degrees: int | None) -> Allocation:
    """Allocation of `n_components` columns with the least variance plus bias on the sample `z`.

    Parameters
    ----------
    z : ndarray of shape (m, d)
        Scaled and centred sample points.
    exact_degrees : int or None
        Write out the degrees up to this one; the next degrees are sketched. None chooses: every number of exact
        degrees with sketches of the rest, and monomials alone, taken by their energy on the sample.
    """
    d = z.shape[1]
    errors = degree_errors(z, max_degree, sampling)
    if exact_degrees == 0:
        # The paper's map: sketches of degree 1 and up, however large their variance.
        return _all_sketched(errors, d, n_components)
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
    first = 0 if exact_degrees is None else exact_degrees
    alone = monomials_alone(z, n_components, first, max_degree if exact_degrees is None else first + 1)
    return alone if alone.error <= best.error else best


def _all_sketched(errors: DegreeErrors, n_variables: int, n_components: int) -> Allocation:
    counts, error = optimal_counts(errors, n_components - 1)
    if not counts:
        counts, error = {1: n_components - 1}, float(errors.bias[1] + errors.sketched(1, np.array([n_components - 1]))[0])
    return Allocation(np.zeros((1, n_variables), dtype=np.int64), counts, error)


def monomials_alone(z: Floats, n_components: int, complete: int, max_degree: int) -> Allocation:
    """The `n_components` monomials of degree up to `max_degree` with the most energy, all up to degree `complete` first.

    The energy of a monomial is the mean of `phi_a(z)^2` over the sample, so inputs that hardly vary in units of their
    length scale get next to no columns.
    """
    d = z.shape[1]
    exponents = [taylor.sample(d, complete).exponents]
    room = n_components - len(exponents[0])
    found = [a for _, a in zip(range(room), _by_energy(z, max_degree, complete), strict=False)]
    if found:
        exponents.append(np.array(found))
    chosen = np.concatenate(exponents)
    if len(z) < 2:
        return Allocation(chosen, {}, 0.0)
    phi = taylor.apply(taylor.from_exponents(chosen), z)
    exact = z @ z.T - 0.5 * ((z * z).sum(1)[:, None] + (z * z).sum(1))
    rest = np.exp(np.minimum(exact, 0.0)) - phi @ phi.T
    np.fill_diagonal(rest, 0.0)
    return Allocation(chosen, {}, float(np.sum(rest * rest) / (len(z) * (len(z) - 1))))


def _by_energy(z: Floats, max_degree: int, complete: int) -> Iterator[tuple[int, ...]]:
    """Monomials of degree above `complete`, those with the most energy first, each after its parent."""
    d = z.shape[1]
    squares = (z * z).T
    root = np.exp(-(z * z).sum(axis=1))
    frontier: list[tuple[float, tuple[int, ...], int, Floats]] = []

    def push_children(exponents: tuple[int, ...], first: int, energies: Floats) -> None:
        # Each monomial is reached on one path: variables are raised in order.
        means = squares[first:] @ energies
        for j in range(first, d):
            child = (*exponents[:j], exponents[j] + 1, *exponents[j + 1 :])
            mean = means[j - first] / child[j]
            # Those within the complete degrees only lead on to others, so they come first.
            key = -np.inf if sum(child) <= complete else -mean
            heapq.heappush(frontier, (key, child, j, energies))

    push_children((0,) * d, 0, root)
    while frontier:
        _, exponents, j, parent = heapq.heappop(frontier)
        degree = sum(exponents)
        if degree > complete:
            yield exponents
        if degree < max_degree:
            push_children(exponents, j, parent * squares[j] / exponents[j])


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
    if n_components == 0 or len(degrees) == 0:
        return {}, {}
    probability = 0.5**degrees
    probability /= probability.sum()
    drawn = rng.multinomial(n_components, probability)
    counts = {int(n): int(c) for n, c in zip(degrees, drawn, strict=True) if c}
    weights = {n: c / (n_components * float(probability[n - degrees[0]])) for n, c in counts.items()}
    return counts, weights
