r"""Noise of local size: a smooth field of variances from left-out residuals.

In each cell of some tens of points, the size of the noise at which the residuals are most likely, under tails that keep
single ones from deciding, is an observation of the logarithm of the variance, and a second, small Gaussian process of
the cells smooths them. (An average of logarithms of squared residuals would do the same with two and a half times the
error variance.) Of the variance of a residual only a share :math:`\rho` is noise, the rest being the function's own
uncertainty: a cell counts by the sum of :math:`\rho^2`, and sizes are found again around each result.

One length scale does not fit town and country: what the map leaves is fitted again in ranks, where distances count by
the data between. And cells of many columns tell next to nothing: with more than three, functions of single columns come
first. So a field is a sum of terms, found one after the other by the same means, each of what the others left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.spatial import cKDTree
from sklearn.neighbors import KDTree

from ..common.types import Floats, Integers
from ..kernels import Kernel
from ..solvers import linalg

MOST_CELLS, CELL_POINTS = 400, 30
MOST_COLUMN_CELLS = 64  # of a function of one column
MAP_COLUMNS = 3  # at most, that cells divide well
MARKS = 33  # quantiles that ranks are interpolated between
LEAST_CELLS = 4  # that make a field
SCALES, SHARES = (1.0, 1 / 3), (0.6, 0.4)  # fields are rough: two Gaussians, whose ratio is given
VARIANCES = np.geomspace(0.02, 4.0, 6)  # of the logarithm, tried
N_LENGTHS = 7  # tried
ROUNDS = 3
MOST_LOG = 30.0  # of a ratio of variances
DOF = 5.0  # of the tails that sizes are told by, whatever those of the noise are
LEAST_CURVATURE = 0.2  # of a residual, so that steps stay short
MOST_KEPT = 1 << 24  # numbers of a matrix that is kept over rounds
STEPS, LAST_STEP = 8, 1e-2  # towards the most likely size of a cell, and the least that is worth another
MOST_EXCESS = 6.0  # of a cell, beside all
LEAST_SHARE = 0.25  # of the function's variance: less noise is as good as none
VANISHES = 0.25  # of the weight of a cell, were its noise of the usual size


@dataclass(frozen=True, eq=False)
class Inputs:
    """What of a point a field depends on: all of it, a column, or the ranks of all columns.

    Attributes
    ----------
    column : int or None
    marks : ndarray of shape (K, d) or None
        Quantiles of the columns at equal steps of probability, between which ranks are interpolated.
    """

    column: int | None = None
    marks: Floats | None = None

    @classmethod
    def ranks(cls, X: Floats) -> Inputs:
        """Of points (n, d)."""
        marks = np.quantile(X, np.linspace(0, 1, MARKS), axis=0)
        step = 1e-9 * np.maximum(np.ptp(X, axis=0), np.finfo(np.float64).tiny)
        return cls(marks=marks + step * np.arange(MARKS)[:, None])  # increasing, also where values are equal

    def __call__(self, X: Floats) -> Floats:
        """Points (m, d), one column of them (m, 1), or ranks (m, d) from 0 to 1."""
        if self.marks is not None:
            ranks = np.linspace(0, 1, len(self.marks))
            return np.column_stack([np.interp(*pair, ranks) for pair in zip(X.T, self.marks.T, strict=True)])
        return X if self.column is None else X[:, self.column : self.column + 1]

    def takes(self, d: int) -> bool:
        """Whether points may have `d` columns."""
        return 0 <= (self.column or 0) < d and (self.marks is None or self.marks.shape[1] == d)


ALL = Inputs()


@dataclass(frozen=True, eq=False)
class NoiseField:
    """Logarithm of the noise variance, less that of a constant, as a function of place.

    Attributes
    ----------
    X : ndarray of shape (M, d)
        Middles of cells, in the units of the model's kernel.
    kernel : Kernel
    coefficients : ndarray of shape (M,)
    mean : float
    inputs : Inputs
        What of a point the field depends on; `X` are of these.
    """

    X: Floats
    kernel: Kernel
    coefficients: Floats
    mean: float
    inputs: Inputs = ALL

    def __call__(self, X: Floats) -> Floats:
        """Logarithms (m,) at points (m, d)."""
        X, result = self.inputs(X), np.empty(len(X))
        for start in range(0, len(X), 4096):
            chunk = slice(start, start + 4096)
            result[chunk] = self.kernel(X[chunk], self.X) @ self.coefficients
        return self.from_products(result)

    def from_products(self, products: Floats) -> Floats:
        """Logarithms (m,) of what the kernel between points and middles, times the coefficients, is (m,)."""
        result: Floats = np.clip(self.mean + products, -MOST_LOG, MOST_LOG)
        return result

    def takes(self, d: int) -> bool:
        """Whether points have as many columns as the field needs."""
        return self.inputs.takes(d) and self.X.shape[1] == (d if self.inputs.column is None else 1)


@dataclass(frozen=True, eq=False)
class FieldSum:
    """The sum of several fields, of different inputs."""

    terms: tuple[NoiseField, ...]

    def __call__(self, X: Floats) -> Floats:
        """Logarithms (m,) at points (m, d)."""
        total = np.sum([term(X) for term in self.terms], axis=0)
        result: Floats = np.clip(total, -MOST_LOG, MOST_LOG)
        return result

    def takes(self, d: int) -> bool:
        """Whether points have as many columns as the fields need."""
        return all(term.takes(d) for term in self.terms)


@dataclass(frozen=True, eq=False)
class Cells:
    """Groups of neighbouring points: which one each point (n,) is in, and their middles (M, d)."""

    owner: Integers
    middles: Floats

    @classmethod
    def of(cls, X: Floats, most: int = MOST_CELLS) -> Cells:
        """Of points (n, d): about equal numbers of them, at least some tens, in `most` cells or not many more."""
        size = max(CELL_POINTS, -(-len(X) // most))
        _, order, nodes, _ = KDTree(X, leaf_size=size).get_arrays()
        leaves = nodes[nodes["is_leaf"].astype(bool)]
        owner = np.empty(len(X), dtype=np.int64)
        for number, leaf in enumerate(leaves):
            owner[order[leaf["idx_start"] : leaf["idx_end"]]] = number
        counts = np.bincount(owner)
        middles = np.stack([np.bincount(owner, column) / counts for column in X.T], axis=1)
        return cls(owner, middles)

    def sums(self, values: Floats, rows: Integers) -> Floats:
        """Sums (M,) over the cells of values (m,) of some rows (m,)."""
        return np.bincount(self.owner[rows], values, len(self.middles))


def choose_kernel(cells: Cells, values: Floats, variances: Floats) -> Kernel | None:
    """Kernel of most likelihood for values (M,) of cells with error variances (M,); None where a constant is best."""
    places = np.unique(cells.middles, axis=0)  # a column may have few values, and several cells of one
    if len(places) < LEAST_CELLS:
        return None
    distances = cKDTree(places).query(places, 2)[0][:, 1]
    near, far = max(float(np.median(distances)), 1e-12), float(np.max(np.ptp(cells.middles, axis=0)))
    used = np.isfinite(variances)
    middles, values, variances = cells.middles[used], values[used], variances[used]
    best, kernel = _log_likelihood(None, values, variances), None
    for length in np.geomspace(near, max(far, 2 * near), N_LENGTHS):
        unit = _kernel(length, 1.0)(middles, middles)
        for variance in VARIANCES:
            likelihood = _log_likelihood(variance * unit, values, variances)
            if likelihood > best:
                best, kernel = likelihood, _kernel(length, variance)
    return kernel


@dataclass(frozen=True, eq=False)
class Term:
    """Of a field that is to be found at some points: what it depends on, its cells, and its kernel.

    Attributes
    ----------
    inputs : Inputs
    cells : Cells
    kernel : Kernel
    to_middles : ndarray of shape (n, M) or None
        The kernel between points and middles of cells; None where it is too large to be kept.
    """

    inputs: Inputs
    cells: Cells
    kernel: Kernel
    to_middles: Floats | None = None

    @classmethod
    def of(cls, inputs: Inputs, Z: Floats, cells: Cells, kernel: Kernel) -> Term:
        """Of points whose inputs are `Z` (n, q)."""
        is_small = len(Z) * len(cells.middles) <= MOST_KEPT
        return cls(inputs, cells, kernel, kernel(Z, cells.middles) if is_small else None)


def choose_terms(X: Floats, residuals: Floats, latent: Floats, noise: Floats) -> tuple[Term, ...]:
    """Terms of the field that residuals (n,) at points (n, d) show; none where a constant is best.

    `latent` and `noise` (n,) are as `fit_field` takes them.
    """
    rows, d = np.arange(len(X)), X.shape[1]
    terms: list[Term] = []
    for inputs in (*map(Inputs, range(d if d > MAP_COLUMNS else 0)), ALL, Inputs.ranks(X)):
        if inputs.marks is not None and not terms:
            break  # a field that ranks alone show is not worth its time
        Z = inputs(X)
        cells = Cells.of(Z, MOST_CELLS if inputs.column is None else MOST_COLUMN_CELLS)
        kernel = choose_kernel(cells, *cell_values(np.zeros(len(X)), residuals, latent, noise, cells, rows))
        if kernel is not None:
            terms.append(Term.of(inputs, Z, cells, kernel))
            noise = noise * np.exp(fit_field(Z, residuals, latent, noise, terms[-1], rows)[1])
    return tuple(terms)


def fit_terms(
    X: Floats, residuals: Floats, latent: Floats, noise: Floats, terms: Sequence[Term], rows: Integers
) -> tuple[NoiseField | FieldSum, Floats]:
    """The field of some terms, one after the other, from some rows (m,), and its logarithms (n,) at all points.

    Arguments are those of `fit_field`.
    """
    fields, total = [], np.zeros(len(X))
    for term in terms:
        field, values = fit_field(term.inputs(X), residuals, latent, noise, term, rows)
        noise = noise * np.exp(values)
        total += values
        fields.append(field)
    return fields[0] if len(fields) == 1 else FieldSum(tuple(fields)), np.clip(total, -MOST_LOG, MOST_LOG)


def fit_field(
    Z: Floats, residuals: Floats, latent: Floats, noise: Floats, term: Term, rows: Integers
) -> tuple[NoiseField, Floats]:
    """Field of most probability for a term, from some rows (m,), and its logarithms (n,) at all points.

    Parameters
    ----------
    Z : ndarray of shape (n, q)
        What the term depends on.
    residuals, latent, noise : ndarrays of shape (n,)
        Left-out residuals, variances of the function there, and of the noise as far as it is known.
    """
    cells, kernel = term.cells, term.kernel
    field, values = NoiseField(cells.middles[:1], kernel, np.zeros(1), 0.0), np.zeros(len(Z))
    used = np.bincount(cells.owner[rows], minlength=len(cells.middles)) > 0
    middles = cells.middles[used]
    K = kernel(middles, middles)
    for _ in range(ROUNDS):
        of_cells, variances = cell_values(values[rows], residuals[rows], latent[rows], noise[rows], cells, rows)
        field = _smoothed(middles, kernel, K, of_cells[used], variances[used])
        if term.to_middles is None:
            values = field(Z)
        else:
            coefficients = np.zeros(len(used))
            coefficients[used] = field.coefficients
            values = field.from_products(term.to_middles @ coefficients)
    return replace(field, inputs=term.inputs), values


def cell_values(
    field: Floats, residuals: Floats, latent: Floats, noise: Floats, cells: Cells, rows: Integers
) -> tuple[Floats, Floats]:
    """Observations (M,) of the field by cells, and their error variances (M,), infinite without points.

    `field` (m,) is what the residuals (m,) of some rows (m,) are linearised around; only differences count.
    """
    owner = cells.owner[rows]
    everywhere = Cells(np.zeros_like(cells.owner), cells.middles[:1])
    level = _most_likely(field, residuals, latent, noise, everywhere, rows)[0]
    excess = _most_likely(field + level, residuals, latent, noise, cells, rows)
    with np.errstate(divide="ignore", invalid="ignore"):  # noise far below the function's own uncertainty is not seen
        least = np.log(LEAST_SHARE * cells.sums(latent, rows) / cells.sums(noise * np.exp(field + level), rows))
    excess = np.fmax(excess, np.minimum(least, 0.0))
    score, curvature, share = _slopes(field + level + excess[owner], residuals, latent, noise)
    weight = cells.sums(share**2, rows)
    spread = float(np.mean(score**2) / np.mean(curvature) ** 2) * len(rows) / max(len(rows) - len(weight), 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        start = cells.sums(share**2 * field, rows) / weight
        variances = np.where(weight > 0, spread / weight, np.inf)
        # Where the noise is next to nothing its logarithm may be anything, and yet it is not the usual size: then the
        # error is that for which the usual size is as unlikely as the residuals say.
        usual = _slopes(field + level, residuals, latent, noise)[2]
        vanishes = weight < VANISHES * cells.sums(usual**2, rows)
        log_ratio = cells.sums(
            _log_density(field + level + excess[owner], residuals, latent, noise)
            - _log_density(field + level, residuals, latent, noise),
            rows,
        )
        told = 0.5 * spread * float(np.mean(curvature)) * excess**2 / (2 * np.maximum(log_ratio, 0.0))
        variances = np.where(vanishes & (weight > 0), np.fmin(variances, told), variances)
    return np.where(weight > 0, start + excess, 0.0), variances


def _most_likely(
    field: Floats, residuals: Floats, latent: Floats, noise: Floats, cells: Cells, rows: Integers
) -> Floats:
    """What each cell (M,) adds to the field (m,) where residuals (m,) are most likely; 0 without points."""
    excess = np.zeros(len(cells.middles))
    for _ in range(STEPS):
        score, curvature, share = _slopes(field + excess[cells.owner[rows]], residuals, latent, noise)
        slope, bend = (
            cells.sums(share * score, rows),
            cells.sums(share**2 * np.maximum(curvature, LEAST_CURVATURE), rows),
        )
        step = slope / np.where(bend > 0, bend, np.inf)
        before, excess = excess, np.clip(excess + np.clip(step, -1.0, 1.0), -MOST_EXCESS, MOST_EXCESS)
        if float(np.abs(excess - before).max()) < LAST_STEP:
            break
    return excess


def _slopes(field: Floats, residuals: Floats, latent: Floats, noise: Floats) -> tuple[Floats, Floats, Floats]:
    """Twice the slopes (m,) of the log likelihood in the logarithms of variances, curvatures, and shares of noise."""
    size = noise * np.exp(field)
    variance = latent + size
    squares = residuals**2 / variance
    score = (DOF + 1) * squares / (DOF + squares) - 1
    curvature = (DOF + 1) * DOF * squares / (DOF + squares) ** 2
    return score, curvature, size / variance


def _log_density(field: Floats, residuals: Floats, latent: Floats, noise: Floats) -> Floats:
    """Logarithms (m,) of the densities of residuals, up to a constant."""
    variance = latent + noise * np.exp(field)
    result: Floats = -0.5 * np.log(variance) - 0.5 * (DOF + 1) * np.log1p(residuals**2 / (DOF * variance))
    return result


def _kernel(length: float, variance: float) -> Kernel:
    return Kernel(length * np.array(SCALES)[:, None], variance * np.array(SHARES))


def _log_likelihood(K: Floats | None, values: Floats, variances: Floats) -> float:
    """Log likelihood of values (M,) with a constant mean that is best for them; without `K`, of a constant alone.

    `K` is symmetric, and overwritten.
    """
    columns = np.array([values, np.ones(len(values))]).T
    if K is None:
        roots = np.sqrt(variances)
        half = columns / roots[:, None]
    else:
        K.flat[:: len(K) + 1] += variances
        lower = K.T  # in Fortran order
        if not linalg.cholesky_in_place(lower):
            return -np.inf
        roots, half = np.diagonal(lower), linalg.solve_lower(lower, columns)
    mean = (half[:, 0] @ half[:, 1]) / (half[:, 1] @ half[:, 1])
    rest = half[:, 0] - mean * half[:, 1]
    return -0.5 * float(rest @ rest) - float(np.log(roots).sum())


def _smoothed(X: Floats, kernel: Kernel, K: Floats, values: Floats, variances: Floats) -> NoiseField:
    """Field by the process of cells (M, d) with covariances `K` (M, M), values (M,) and error variances (M,)."""
    C = K.copy()
    C.flat[:: len(C) + 1] += variances
    factor, _ = linalg.cholesky(C.T)
    solved = linalg.solve_both(factor, np.array([values, np.ones(len(values))]).T)
    mean = float(solved[:, 0].sum() / solved[:, 1].sum())
    return NoiseField(X, kernel, solved[:, 0] - mean * solved[:, 1], mean)
