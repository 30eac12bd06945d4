r"""What the long scales of a kernel say: features over the whole domain, beside the local process of the short scales.

.. math:: y = \Phi \beta + g + \varepsilon, \qquad \beta \sim N(0, I),

with `g` the local process. With `C` the covariance of `g` and the noise, `A = I + Phi' C^-1 Phi` and `b = Phi' C^-1 y`
(see `whitening`) say all there is to know of `beta`. To the local models, features are further targets: what they
cannot tell of a feature at a place is left to `beta`, mean and uncertainty.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..common import memory
from ..common.arrays import Array, empty_like_shape, like, namespace
from ..common.memory import batches, rows_per_chunk
from ..common.threads import thread_map
from ..common.types import Floats, Integers
from ..features.domain import DomainFeatures
from ..kernels import Kernel
from ..solvers.factors import Factor, factorise
from ..solvers.ordered_cells import ordered_cells
from .earlier_points import shortfall
from .neighbourhoods import TrainingSet
from .quick_whitening import serves
from .whitening import Block, make_blocks, whitened

MOST_FEATURES = 1000
COPIES = 8  # of the features of all points: what an exact mean and local models with them as targets take in all
POINTS_PER_FEATURE = 2  # with fewer, features cost more than they spare
CELL_POINTS, N_EARLIER, MOST_EARLIER = 64, 192, 768  # of cells, of points before them, and of these at most
EARLIER_SHARE = 0.2  # of the tolerance, that more earlier points may change
FINEST = 5e-4  # tolerance below which more of them are not asked for: means will be found by iteration
MOST_WORK = 2e10  # operations that more of them may take: beyond, an exact mean is the better way
SAMPLED_CELLS = 24  # that tell whether there are enough
ROWS_AT_ONCE = 1024
SINGLE_FROM = 1e-4  # tolerance, from where on single precision does
MOST_KEPT = 1 << 25  # features of all points, that are kept while they are needed
BEYOND = 1.0  # of a long scale, by which its features reach beyond the data
LATTICE, MARGIN = 9, 0.1  # points along a side that find a surface in a box, and what is added for those between them
MOST_SURFACE_COLUMNS = 5


@dataclass(frozen=True, eq=False)
class GlobalPart:
    """Features of the long scales and what the data say of their coefficients.

    Attributes
    ----------
    features : tuple of DomainFeatures
        One per long scale.
    kernel : Kernel
        The short scales, which are left to local models.
    gram : ndarray of shape (D, D)
        `Phi' C^-1 Phi`.
    cross : ndarray of shape (D, k + 1)
        `Phi' C^-1 y`, with the targets of `TrainingSet`.
    spread : ndarray of shape (D, r)
        Turns features into further targets `Phi @ spread`, whose squares add up to the variance that is due to `beta`.
    squares : ndarray of shape (k + 1, k + 1) or None
        `y' C^-1 y`; None where it is not known.
    n_earlier : int
        Earlier points that each cell was given.
    """

    features: tuple[DomainFeatures, ...]
    kernel: Kernel
    gram: Floats
    cross: Floats
    spread: Floats
    squares: Floats | None = None
    n_earlier: int = N_EARLIER

    @property
    def n_components(self) -> int:
        """Number of features `D`."""
        return len(self.gram)

    @property
    def n_further(self) -> int:
        """Number of further targets `r`."""
        return int(self.spread.shape[1])

    @property
    def variance(self) -> float:
        """Variance of the long scales."""
        return sum(features.variance for features in self.features)

    @property
    def whole_kernel(self) -> Kernel:
        """Short and long scales together, the shortest first."""
        long = [f.length_scales[: self.kernel.length_scales.shape[1]] for f in reversed(self.features)]
        variances = [f.variance for f in reversed(self.features)]
        return Kernel(np.vstack([self.kernel.length_scales, *long]), np.append(self.kernel.variances, variances))

    @cached_property
    def coefficients(self) -> Floats:
        """Posterior mean of `beta` for each target, (D, k + 1)."""
        result: Floats = _information(self.gram).solve(self.cross)
        return result

    def rows(self, X: Array) -> Array:
        """Features (n, D) at points (n, d)."""
        return _rows(self.features, X)

    def targets(self, X: Array, y: Array) -> Array:
        """Targets (n, r + k + 1) of the local models: further ones, and `y` (n, k + 1) less what features explain."""
        weights, r = like(np.column_stack([self.spread, self.coefficients]), y), self.n_further
        result = empty_like_shape((len(X), weights.shape[1]), y)
        for chunk in batches(len(X), self._rows_at_once(X)):
            result[chunk] = self.rows(X[chunk]) @ weights
            result[chunk, r:] = y[chunk] - result[chunk, r:]
        return result

    def _rows_at_once(self, X: Array) -> int:
        """Points whose features are formed together: on the host, they should stay in the cache."""
        most = rows_per_chunk(24 * self.n_components, len(X))
        return min(most, ROWS_AT_ONCE) if isinstance(X, np.ndarray) else most

    def restored(self, X: Floats, residuals: Floats) -> Floats:
        """Targets (n, r + k + 1) of the local models at points (n, d), from those that cannot be made again, (n, k)."""
        r, k = self.n_further, residuals.shape[1]
        targets: Floats = self.targets(X, np.column_stack([np.zeros((len(X), k)), np.ones(len(X))]))
        targets[:, r : r + k] = residuals
        return targets

    def original(self, X: Array, targets: Array) -> Array:
        """The `y` (n, k + 1) that `targets` (n, r + k + 1) came from."""
        return targets[:, self.n_further :] + self.rows(X) @ like(self.coefficients, X)

    def completed(self, X: Array, mean: Array, variance: Array) -> tuple[Array, Array]:
        """Means (m, k + 1) and variances (m,) from those of the local models, (m, r + k + 1) and (m,), at points."""
        xp, r = namespace(X), self.n_further
        answers = mean[:, r:]
        for chunk in batches(len(X), self._rows_at_once(X)):
            rows = self.rows(X[chunk])
            unknown = rows @ like(self.spread, X) - mean[chunk, :r]
            missing = xp.clip(self.variance - xp.sum(rows * rows, axis=1), 0.0, None)
            answers[chunk] += rows @ like(self.coefficients, X)
            variance[chunk] += xp.sum(unknown * unknown, axis=1) + missing
        return answers, variance

    def updated(self, data: TrainingSet, n_before: int, n_jobs: int | None) -> GlobalPart:
        """The same after points were taken in, which are all of `data` but the first `n_before`.

        The features stay what they are, unless points lie beyond their domain; then all is made anew. With `n_before`
        zero nothing else is left of the earlier points.
        """
        if not self._covers(data.X):
            return self._made_anew(data, n_jobs)
        D, k = self.n_components, data.y.shape[1]
        gram, cross, squares = self.gram, self.cross, self.squares
        if not n_before:
            gram, cross, squares = np.zeros((D, D)), np.zeros((D, k)), np.zeros((k, k))
        if len(data.X) > n_before:
            blocks = make_blocks(data.X, CELL_POINTS, self.n_earlier, np.random.RandomState(0), n_jobs, n_before)
            sums = _sums(self.features, self.kernel, data.X, data.y, data.noise, blocks, n_jobs)
            gram, cross = gram + sums[:D, :D], cross + sums[:D, D:]
            squares = None if squares is None else squares + sums[D:, D:]
        return replace(self, gram=gram, cross=cross, spread=_spread(gram), squares=squares)

    def _covers(self, X: Floats) -> bool:
        """Whether the features are right at all points (n, d)."""
        for f in self.features:
            # A side too short to reach beyond the data is one across a surface that they lie on.
            reaches = f.high - f.low >= (2 - 1e-9) * BEYOND * f.length_scales
            reach = np.where(reaches, 0.5 * BEYOND, 0.0) * f.length_scales
            if not np.all((f.low + reach <= X) & (f.high - reach >= X)):
                return False
        return True

    def _made_anew(self, data: TrainingSet, n_jobs: int | None) -> GlobalPart:
        """The same scales with features for all of the data."""
        features = []
        for f in self.features:
            reach, most = BEYOND * f.length_scales, 4 * MOST_FEATURES
            low = np.minimum(data.X.min(axis=0) - reach, f.low)
            high = np.maximum(data.X.max(axis=0) + reach, f.high)
            wider = DomainFeatures.covering(low, high, f.length_scales, f.variance, 1e-8, most)
            if wider is None:
                raise ValueError(
                    "The new samples lie so far from the earlier ones that the features of the long scales cannot "
                    "reach them: fit again to all of them."
                )
            features.append(wider)
        given = (tuple(features), self.kernel, data, self.n_earlier)
        return _assembled(*given, 0, n_jobs, 0.0, np.random.RandomState(0))


def _rows(features: tuple[DomainFeatures, ...], X: Array) -> Array:
    blocks = [each(X) for each in features]
    return blocks[0] if len(blocks) == 1 else namespace(X).concat(blocks, axis=1)


def rows_of(
    features: tuple[DomainFeatures, ...],
    X: Floats,
    n_jobs: int | None,
    y: Floats | None = None,
    dtype: type[np.floating[Any]] = np.float64,
) -> Floats:
    """Features (n, D) of several scales at points (n, d), in threads; with `y` (n, k), these follow: (n, D + k)."""
    D = sum(each.n_components for each in features)
    result = np.empty((len(X), D + (0 if y is None else y.shape[1])), dtype)

    def work(chunk: slice) -> None:
        result[chunk, :D] = _rows(features, X[chunk])
        if y is not None:
            result[chunk, D:] = y[chunk]

    thread_map(work, batches(len(X), ROWS_AT_ONCE), n_jobs)
    return result


def _sums(
    features: tuple[DomainFeatures, ...],
    kernel: Kernel,
    X: Floats,
    y: Floats,
    noise: Floats,
    blocks: list[Block],
    n_jobs: int | None,
    single: bool = False,
) -> Floats:
    """`[Phi, y]' C^-1 [Phi, y]` over some blocks."""
    table: Floats | None = None
    if len(X) * sum(each.n_components for each in features) <= MOST_KEPT:
        # Each point is in several blocks: features are found once for all.
        table = rows_of(features, X, n_jobs, y, np.float32 if single else np.float64)

    def targets(points: Integers) -> Floats:
        if table is not None:
            return table[points]
        return np.concatenate([_rows(features, X[points]), y[points]], axis=1)

    return whitened(kernel, X, noise, blocks, targets, n_jobs, single)[0]


def for_targets(part: GlobalPart, data: TrainingSet, n_jobs: int | None) -> GlobalPart:
    """The same features for other targets (n, t), those of `data`, without what is known of the variance."""
    blocks = make_blocks(data.X, CELL_POINTS, part.n_earlier, np.random.RandomState(0), n_jobs)
    sums, D = _sums(part.features, part.kernel, data.X, data.y, data.noise, blocks, n_jobs), part.n_components
    return replace(part, gram=sums[:D, :D], cross=sums[:D, D:], spread=np.empty((D, 0)))


def _information(gram: Floats) -> Factor:
    """Factor of `I + gram`, (D, D)."""
    return factorise(gram, np.ones(len(gram)), "matrix of the features of the long scales", keep=True)


def _spread(gram: Floats) -> Floats:
    """Root of `(I + gram)^-1`, (D, D)."""
    values, vectors = np.linalg.eigh(gram)
    spread: Floats = vectors / np.sqrt(1.0 + np.maximum(values, 0.0))
    return spread


def _largest(spread: Floats, places: Floats, allowed: float) -> Floats:
    """The columns of `spread` without those that add at most `allowed` to the variance at places with features (m, D).

    Directions that the data determine well say next to nothing of the uncertainty.
    """
    sizes = np.max((places @ spread) ** 2, axis=0)
    order = np.argsort(-sizes, kind="stable")
    left_out = np.cumsum(sizes[order][::-1])[::-1]  # by leaving out this one and all smaller ones
    return spread[:, np.sort(order[: max(int((left_out > allowed).sum()), 1)])]


def split(
    kernel: Kernel, X: Floats, lack: float, onto: Callable[[Floats], Floats] | None = None
) -> tuple[Kernel, tuple[DomainFeatures, ...]]:
    """Short scales for local models, and features of the long ones: as many as need few features, never all.

    `onto` brings points to the surface that all data and predictions lie on: features need not reach far from it.
    """
    features: list[DomainFeatures] = []
    room = min(MOST_FEATURES, len(X) // POINTS_PER_FEATURE, int(memory.budget() / (8.0 * COPIES * len(X))))
    n_short = kernel.n_scales
    while n_short > 1:
        scales, variance = kernel.length_scales[n_short - 1], float(kernel.variances[n_short - 1])
        low, high = domain(X, np.broadcast_to(BEYOND * scales, X.shape[1:]), onto)
        share = lack * kernel.variance / variance
        found = DomainFeatures.covering(low, high, scales, variance, min(share, 1e-3), room) if room > 0 else None
        if found is None:
            break
        features.append(found)
        room -= found.n_components
        n_short -= 1
    return Kernel(kernel.length_scales[:n_short], kernel.variances[:n_short]), tuple(features)


def domain(X: Floats, reach: Floats, onto: Callable[[Floats], Floats] | None) -> tuple[Floats, Floats]:
    """Corners (d,) of the box around points (n, d) and `reach` (d,) beyond, cut to what a surface passes through."""
    inner = X.min(axis=0), X.max(axis=0)
    low, high = inner[0] - reach, inner[1] + reach
    if onto is None or len(low) > MOST_SURFACE_COLUMNS:
        return low, high
    sides = [np.linspace(*ends, LATTICE) for ends in zip(low, high, strict=True)]
    surface = onto(np.stack(np.meshgrid(*sides), axis=-1).reshape(-1, len(low)))
    surface = np.concatenate([surface[np.all((surface >= low) & (surface <= high), axis=1)], np.stack(inner)])
    margin = MARGIN * reach
    return np.maximum(low, surface.min(axis=0) - margin), np.minimum(high, surface.max(axis=0) + margin)


def fit_global_part(
    kernel: Kernel,
    data: TrainingSet,
    tolerance: float,
    rng: np.random.RandomState,
    n_jobs: int | None,
    onto: Callable[[Floats], Floats] | None = None,
) -> GlobalPart | None:
    """The long scales of a kernel; None if none is. See `split` for `onto`."""
    X, noise = data.X, data.noise
    typical = float(np.median(noise))
    lack = float(np.clip(0.1 * tolerance * typical / kernel.variance, 1e-13, 1e-4))
    short, features = split(kernel, X, lack, onto)
    if not features:
        return None
    single, allowed = tolerance >= SINGLE_FROM and serves(kernel, noise), 0.1 * tolerance**0.5 * typical
    seed, n_earlier = int(rng.randint(2**31 - 1)), N_EARLIER
    while True:
        part = _assembled(features, short, data, n_earlier, seed, n_jobs, allowed, rng, single)
        work = len(X) / CELL_POINTS * (2 * n_earlier + CELL_POINTS) ** 3 / 3
        enough = 2 * n_earlier > MOST_EARLIER or n_earlier >= len(X) or work > MOST_WORK
        if enough or _shortfall(part, data, seed, rng, n_jobs, single) <= EARLIER_SHARE * max(tolerance, FINEST):
            return part
        n_earlier *= 2


def _assembled(
    features: tuple[DomainFeatures, ...],
    kernel: Kernel,
    data: TrainingSet,
    n_earlier: int,
    seed: int,
    n_jobs: int | None,
    allowed: float,
    rng: np.random.RandomState,
    single: bool = False,
) -> GlobalPart:
    """What the data say of the features; further targets may lack `allowed` of a variance.

    Cells in an order by `seed` are given so many earlier points.
    """
    blocks = make_blocks(data.X, CELL_POINTS, n_earlier, np.random.RandomState(seed), n_jobs)
    sums = _sums(features, kernel, data.X, data.y, data.noise, blocks, n_jobs, single)
    D = len(sums) - data.y.shape[1]
    gram, cross = sums[:D, :D], sums[:D, D:]
    spread = _largest(_spread(gram), _rows(features, _some_places(features, data.X, rng, 500)), allowed)
    return GlobalPart(features, kernel, gram, cross, spread, sums[D:, D:], n_earlier)


def _some_places(features: tuple[DomainFeatures, ...], X: Floats, rng: np.random.RandomState, n: int) -> Floats:
    """Places (2 n, d), half of them points, the others anywhere."""
    return np.concatenate([X[rng.choice(len(X), n)], rng.uniform(features[0].low, features[0].high, (n, X.shape[1]))])


def _shortfall(
    part: GlobalPart, data: TrainingSet, seed: int, rng: np.random.RandomState, n_jobs: int | None, single: bool
) -> float:
    """KL per place that twice the earlier points would make; see `earlier_points`."""
    places = _rows(part.features, _some_places(part.features, data.X, rng, 50))
    effects = _information(part.gram).solve(places.T)
    variances = np.sum(places * effects.T, axis=1) + part.kernel.variance + float(np.median(data.noise))
    n_cells = 0

    def some(count: int) -> Integers:
        nonlocal n_cells
        n_cells = count
        return np.sort(rng.choice(count, min(count, SAMPLED_CELLS), replace=False))

    cells = ordered_cells(data.X, CELL_POINTS, 2 * part.n_earlier, np.random.RandomState(seed), n_jobs, choose=some)

    def targets(points: Integers) -> tuple[Floats, Floats]:
        rows = part.rows(data.X[points])
        return rows @ effects, (data.y[points] - rows @ part.coefficients)[:, :-1]

    blocks = [Block(*cell) for cell in cells]
    if len(blocks) < 2:
        return 0.0
    return shortfall(part.kernel, data, blocks, n_cells, targets, variances, n_jobs, single)
