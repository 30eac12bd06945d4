"""Probes: places where a local approximation is held against a reference it can trust.

A probe is a training point set aside, so that probes lie as test points do. On the data within a generous radius of it
the Gaussian process is solved as exactly as can be: the reference. A candidate is then solved on the same data, as if
around a centre whose cell the probe falls into, and compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import product
from math import gamma, pi
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.utils.random import sample_without_replacement

from .. import metrics
from ..common.arrays import column_range
from ..common.threads import thread_map
from ..common.types import Booleans, Floats, Integers
from ..features import taylor
from ..kernels import Kernel
from ..solvers.factors import Cholesky, factorise
from . import blending
from .centers import Lattice, group_rows, middles_of_boxes, sorted_groups
from .choices import Candidate
from .ensemble import groups_in_cache, runs_of
from .features import LocalFeatures
from .model import expanded, from_statistics, sums_of_each
from .neighbourhoods import TrainingSet
from .plan import Plan, kernel_cost
from .quick_whitening import fill, serves

MAX_ROWS = 1200  # of a neighbourhood around a probe,
MAX_AVERAGES = 500  # and where they can be averaged, which loses less
FINER = 20  # times that the cells of averages may be made smaller
MAX_AVERAGED_COLUMNS = 3  # up to which neighbours are averaged where they are many
PROBES_PER_NEIGHBOURHOOD = 12
AROUND = 1.25  # length scales, within which they are
SINGLE_FROM = 1e-5  # tolerance, from where on references may be in single precision


@dataclass(frozen=True, eq=False)
class NeighbourhoodSample:
    """What is kept of the points of a neighbourhood: all of them, averages, or a random subset.

    Attributes
    ----------
    X, y, noise : ndarrays of shape (n, d), (n, k), (n,)
        Targets are without the column of ones.
    counts : ndarray of shape (n,)
        Each row is the average of so many points, with the noise of an average.
    n_points : float
        How many points the neighbourhood really holds: the sum of `counts`, or more where rows are a random subset.
    """

    X: Floats
    y: Floats
    noise: Floats
    counts: Floats
    n_points: float

    @classmethod
    def of(cls, X: Floats, y: Floats, noise: Floats) -> Self:
        """All points of a neighbourhood."""
        return cls(X, y, noise, np.ones(len(X)), float(len(X)))

    def points_at(self, rows: Any) -> float:
        """How many points there really are where some of the rows are, by indices or a mask."""
        return float(self.counts[rows].sum()) * self.n_points / max(float(self.counts.sum()), 1.0)

    def subset(self, rows: Integers) -> NeighbourhoodSample:
        """Some of the rows, to stand for all."""
        return NeighbourhoodSample(self.X[rows], self.y[rows], self.noise[rows], self.counts[rows], self.n_points)

    def around(self, center: Floats, rows: Integers) -> NeighbourhoodSample:
        """Some of the rows, relative to a centre, to stand for themselves."""
        return replace(self.subset(rows), X=self.X[rows] - center, n_points=self.points_at(rows))

    def __add__(self, other: NeighbourhoodSample) -> NeighbourhoodSample:
        return NeighbourhoodSample(
            np.concatenate([self.X, other.X]),
            np.concatenate([self.y, other.y]),
            np.concatenate([self.noise, other.noise]),
            np.concatenate([self.counts, other.counts]),
            self.n_points + other.n_points,
        )


def averaged(sample: NeighbourhoodSample, owner: Integers) -> NeighbourhoodSample:
    """One average for each group of rows, weighted by the inverse noise; `owner` (n,) are the groups, from 0 on."""
    weights = 1 / sample.noise
    total = np.bincount(owner, weights)

    def average(values: Floats) -> Floats:
        return np.stack([np.bincount(owner, weights * v) / total for v in values.T], axis=1)

    return NeighbourhoodSample(
        average(sample.X), average(sample.y), 1 / total, np.bincount(owner, sample.counts), sample.n_points
    )


def thinned(sample: NeighbourhoodSample, rng: np.random.RandomState) -> NeighbourhoodSample:
    """Not too many rows: averages over small cells, or a random subset where there are too many columns."""
    n, d = sample.X.shape
    most = MAX_ROWS if d > MAX_AVERAGED_COLUMNS else min(MAX_AVERAGES, MAX_ROWS)
    if n <= most:
        return sample
    if d > MAX_AVERAGED_COLUMNS:  # cells are of no use where space is wide
        return sample.subset(rng.choice(n, most, replace=False))
    low, high = column_range(sample.X)

    def cells(side: float) -> tuple[int, Integers]:
        """How many there are, and that of each row."""
        distinct, owner = group_rows(np.floor((sample.X - low) / side).astype(np.int64))
        return len(distinct), owner

    side = max(float(np.max(high - low)), 1e-300) / most ** (1 / d)
    count, owner = cells(side)
    for _ in range(FINER):  # points on a sheet or a line leave most cells empty
        if count >= most / 2:
            break
        side /= 1.3
        count, owner = cells(side)
    while count > most:
        side *= 1.15
        count, owner = cells(side)
    return averaged(sample, owner)


class Cell(NamedTuple):
    """A cell that some probes fall into: its centre (d,), the indices of these probes, how many points it holds."""

    center: Floats
    probes: Integers
    n_points: float


Draw: TypeAlias = Callable[[int], Floats]
"""From a number of rows to standard normal numbers, of which each column makes a draw of the process."""


def nothing_drawn(n: int) -> Floats:
    """A `Draw` without columns."""
    return np.empty((n, 0))


class Asked(NamedTuple):
    """Probes of a neighbourhood, by index (m,), and the centres (C, d) that answer there, with weights (m, C)."""

    probes: Integers
    centers: Floats
    weights: Floats


@dataclass(frozen=True, eq=False)
class ProbeNeighbourhood:
    """Data around a probe, relative to it, and the reference's answers at it and at a few probes near it.

    Attributes
    ----------
    sample : NeighbourhoodSample
    probes : ndarray of shape (m, d)
        The first is the origin.
    probe_noise : ndarray of shape (m,)
    mean, variance : ndarrays of shape (m, k), (m,)
        The reference.
    directions : ndarray of shape (m, d)
        Where the centre of its cell lies as seen from each probe, in units of the spacing: uniform over a cell.
    surface : callable or None
        Brings points (n, d), relative to the first probe, to a surface that all data and their centres lie on.
    lattice : callable or None
        From a spacing to the middle (d,) of the first probe's cell, relative to it, where the lattice is known.
    n_drawn : int
        How many of the targets, the last ones, are draws of the process; half of a divergence is theirs. They tell as
        much as other places would, for next to nothing.
    """

    sample: NeighbourhoodSample
    probes: Floats
    probe_noise: Floats
    mean: Floats
    variance: Floats
    directions: Floats
    surface: Callable[[Floats], Floats] | None = field(default=None, kw_only=True)
    lattice: Callable[[float], Floats] | None = field(default=None, kw_only=True)
    n_drawn: int = field(default=0, kw_only=True)

    relative_error = 0.0  # of a divergence, beside what the spread over neighbourhoods tells

    @classmethod
    def solved(
        cls,
        reference: Reference,
        sample: NeighbourhoodSample,
        probes: Floats,
        probe_noise: Floats,
        directions: Floats,
        draw: Draw = nothing_drawn,
        **further: Any,
    ) -> Self:
        """With the answers of the reference."""
        mean, variance, drawn = reference(sample, probes, draw)
        sample = replace(sample, y=np.concatenate([sample.y, drawn], axis=1))
        return cls(sample, probes, probe_noise, mean, variance, directions, n_drawn=drawn.shape[1], **further)

    @property
    def n_probes(self) -> int:
        """Number of probes."""
        return len(self.probes)

    def cells(self, candidate: Candidate) -> Iterable[Cell]:
        """The cell that the first probe falls into, with the other probes in it."""
        center, reach = np.zeros(self.probes.shape[1]), np.inf
        if self._has_lattice(candidate):
            middle, side = self.middle_of_cell(candidate.spacing), 2 * candidate.spacing / len(center) ** 0.5
            inside, rows = (self._in_cube(points, middle, side) for points in (self.probes, self.sample.X))
            inside[0] = True
            center = _middle_of_box(self.sample.X[rows]) if rows.any() else middle
            return [Cell(center, np.flatnonzero(inside), max(self.sample.points_at(rows), 1.0))]
        if np.isfinite(candidate.spacing):
            center = self._on_surface(self.directions[:1] * candidate.spacing)[0]
            reach = cell_radius(len(center)) * candidate.spacing
        inside = np.sum((self.probes - center) ** 2, axis=1) <= reach**2
        inside[0] = True
        in_cell = self.sample.points_at(np.sum((self.sample.X - center) ** 2, axis=1) <= reach**2)
        return [Cell(center, np.flatnonzero(inside), max(in_cell, 1.0))]

    def middle_of_cell(self, spacing: float) -> Floats:
        """Middle (d,) of the cubic cell that the first probe falls into: of the lattice of all data, or of any."""
        return self.directions[0] * spacing if self.lattice is None else self.lattice(spacing)

    def _has_lattice(self, candidate: Candidate) -> bool:
        """Whether centres are the middles of what lies in cubic cells."""
        return bool(
            np.isfinite(candidate.spacing)
            and self.probes.shape[1] <= MAX_AVERAGED_COLUMNS
            and self.surface is None
            and candidate.plan.count is None
        )

    @staticmethod
    def _in_cube(points: Floats, middle: Floats, side: float) -> Booleans:
        result: Booleans = (np.abs(points - middle) <= 0.5 * side).all(axis=1)
        return result

    def _on_surface(self, points: Floats) -> Floats:
        return points if self.surface is None else self.surface(points)

    def near(self, plan: Plan, center: Floats) -> Integers:
        """Which rows a centre's neighbourhood holds."""
        if plan.radius is None and plan.count is None:
            return np.arange(len(self.sample.X))
        distances = np.sum((self.sample.X - center) ** 2, axis=1)
        within = np.flatnonzero(distances <= (plan.radius or 0.0) ** 2)
        if plan.count is None or len(within) >= plan.count:
            return within
        if plan.count >= len(distances):  # where points coincide, fewer may be known than are asked for
            return np.arange(len(distances))
        nearest: Integers = np.argpartition(distances, plan.count - 1)[: plan.count]
        return nearest

    def divergence(self, candidate: Candidate, blended: bool = False) -> float:
        """Mean KL(candidate || reference) over the probes in the cells, per target, as observations.

        With `blended`, cells beside their own share the probes, as in predictions that are blended.
        """
        return float(divergences([self], candidate, blended)[0])

    def asked(self, candidate: Candidate, blended: bool) -> Asked:
        """Which models a candidate has answer, and where; see `divergence`."""
        ((center, probes, _),) = self.cells(candidate)
        if not (blended and np.isfinite(candidate.spacing) and len(center) <= MAX_AVERAGED_COLUMNS):
            return Asked(probes, center[None], np.ones((len(probes), 1)))
        centers = self._centers_around(candidate, center)
        return Asked(probes, centers, blending.weights_by_distance(cdist(self.probes[probes], centers)))

    def _centers_around(self, candidate: Candidate, center: Floats) -> Floats:
        """Centres (C, d) of a cell and of those around it, on a lattice."""
        d, side = len(center), 2 * candidate.spacing / len(center) ** 0.5
        if not self._has_lattice(candidate):
            return self._on_surface(center + side * np.array(list(product((0.0, -1.0, 1.0), repeat=d))))
        cells = np.floor((self.sample.X - self.middle_of_cell(candidate.spacing)) / side + 0.5)
        near = (np.abs(cells) <= 1).all(axis=1) & (cells != 0).any(axis=1)
        order, starts = sorted_groups(cells[near].astype(np.int64)) if near.any() else (np.flatnonzero(near),) * 2
        return np.concatenate([center[None], middles_of_boxes(self.sample.X[near][order], starts)])

    def around(self, plan: Plan, center: Floats) -> NeighbourhoodSample:
        """What the model around a centre is made of."""
        return self.sample.around(center, self.near(plan, center))

    def cost(self, candidate: Candidate) -> float:
        """Operations per training point, for its share in the model of its cell and for a prediction."""
        plan = candidate.plan
        costs = []
        for center, _, in_cell in self.cells(candidate):
            n = self.sample.points_at(self.near(plan, center))
            if plan.features is None or plan.takes_kernel_space(int(n)):
                costs.append(plan.kernel.n_scales * kernel_cost(n) / in_cell + 2 * n**2)
            else:
                costs.append(plan.features_cost(n) / in_cell + plan.prediction_cost())
        return float(np.mean(costs))


def divergences(
    probed: Sequence[ProbeNeighbourhood], candidate: Candidate, blended: bool, tolerance: float = 0.0
) -> Floats:
    """Mean KL of a candidate over the probes of each neighbourhood, whose models are solved side by side.

    Digits are as many as the tolerance asks for.
    """
    plan, asked = candidate.plan, [each.asked(candidate, blended) for each in probed]
    owns = runs_of([len(probes) for probes, _, _ in asked])
    models = [  # with the probes that each answers for, and its weights there
        (each, center, probes[weights > 0], own.start + np.flatnonzero(weights), weights[weights > 0])
        for each, (probes, centers, shares), own in zip(probed, asked, owns, strict=True)
        for center, weights in zip(centers, shares.T, strict=True)
        if weights.any()
    ]
    solved = [(each.around(plan, center), each.probes[probes] - center) for each, center, probes, _, _ in models]
    answers = answers_of_each(plan, solved, tolerance)
    mean, variance = np.zeros((owns[-1].stop, probed[0].mean.shape[1])), np.zeros(owns[-1].stop)
    for (_, _, _, rows, weights), (its_mean, its_variance) in zip(models, answers, strict=True):
        mean[rows] += weights[:, None] * its_mean
        variance[rows] += weights * its_variance
    mean_ref, variance_ref, noise = (
        np.concatenate([getattr(each, name)[probes] for each, (probes, _, _) in zip(probed, asked, strict=True)])
        for name in ("mean", "variance", "probe_noise")
    )
    mean = mean_ref if candidate.exact_mean else mean
    kl = kl_of_observations(mean, variance, mean_ref, variance_ref, noise, probed[0].n_drawn)
    return np.array([kl[own].mean() for own in owns])


def kl_of_observations(
    mean: Floats, variance: Floats, mean_ref: Floats, variance_ref: Floats, noise: Floats, n_drawn: int = 0
) -> Floats:
    """KL from a reference (m,), mean over targets (m, k), of which those that are draws have half of the weight."""
    variances = (np.repeat((v + noise)[:, None], mean.shape[1], axis=1) for v in (variance, variance_ref))
    kl, k = metrics.kl_divergence(mean, next(variances), mean_ref, next(variances)), mean.shape[1] - n_drawn
    result: Floats = kl[:, :k].mean(axis=1)
    return 0.5 * (result + kl[:, k:].mean(axis=1)) if n_drawn else result


def answers_of_each(
    plan: Plan, asked: Sequence[tuple[NeighbourhoodSample, Floats]], tolerance: float
) -> list[tuple[Floats, Floats]]:
    """Means (m, k) and variances (m,) of the models of some neighbourhoods, each at places (m, d) around its origin.

    Rows may be so few that they would be solved in kernel space, which the points they stand for will not be.
    """
    sizes = [len(sample.X) for sample, _ in asked]
    in_kernel_space = [plan.takes_kernel_space(int(sample.n_points)) for sample, _ in asked]
    together = replace(plan, either_side=False, count=None)
    answers: list[tuple[Floats, Floats]] = []
    for group in groups_in_cache(plan, sizes, in_kernel_space):
        samples, places = zip(*asked[group], strict=True)
        if in_kernel_space[group.start]:
            answers.append(exactly(plan.kernel, samples[0], places[0], nothing_drawn, tolerance)[:2])
            continue
        X, y, noise, counts = (
            np.concatenate([getattr(sample, name) for sample in samples]) for name in ("X", "y", "noise", "counts")
        )
        sums = sums_of_each(together, X, y, noise, runs_of(sizes[group]), counts)
        Z, owns = np.concatenate(places), runs_of([len(at) for at in places])
        assert plan.features is not None
        rows, mean, variance = plan.features.rows(Z), np.empty((len(Z), y.shape[1])), np.empty(len(Z))
        for each, own in zip(sums, owns, strict=True):
            model = from_statistics(together, expanded(together, each))
            mean[own], variance[own] = model.mean_and_variance(rows[:, own], overwrite=True)
        variance = together.total_variance(variance, Z)
        answers += [(mean[own], variance[own]) for own in owns]
    return answers


Reference: TypeAlias = Callable[[NeighbourhoodSample, Floats, Draw], tuple[Floats, Floats, Floats]]
"""From a neighbourhood and places (m, d) to what can be trusted.

Means (m, k + s) and variances (m,) at the places, and draws of the process (n, s), which are the last of the targets.
"""


def exactly(
    kernel: Kernel, sample: NeighbourhoodSample, places: Floats, draw: Draw, tolerance: float
) -> tuple[Floats, Floats, Floats]:
    """The exact process as a `Reference`."""
    given = (sample.X[None], sample.y[None], sample.noise[None], places[None])
    ((half, targets),), (factor,) = whitened(kernel, *given, tolerance)
    normals = draw(len(sample.X))
    variance = (kernel.variance - np.sum(half**2, axis=1)).clip(min=0.0)
    return half @ np.concatenate([targets, normals.T]).T, variance, factor.times(normals)


def whitened(
    kernel: Kernel, X: Floats, y: Floats, noise: Floats, places: Floats, tolerance: float
) -> tuple[list[tuple[Floats, Floats]], list[Cholesky]]:
    """Covariances with places (C, m, d) and targets (C, n, k) of points (C, n, d), whitened: (m, n) and (k, n) each.

    Also the factors by which they are. In single precision where that does for the tolerance.
    """
    single, m = tolerance >= SINGLE_FROM and noise.size > 0 and serves(kernel, noise), places.shape[1]
    dtype = np.float32 if single else np.float64
    Z, at = X.astype(dtype), places.astype(dtype)
    K = np.empty((*noise.shape, noise.shape[1] if single else 0), dtype=dtype)
    if single:
        fill(K, kernel, Z)
    sides = np.concatenate([kernel(Z, at), y.astype(dtype)], axis=2).transpose(0, 2, 1).copy()
    factors = []
    for i, side in enumerate(sides):
        factor = factorise(K[i] if single else kernel(Z[i], Z[i]), noise[i], "covariance matrix around a probe")
        assert isinstance(factor, Cholesky)
        factor.whiten(side.T, overwrite=True)
        factors.append(factor)
    return [(side[:m], side[m:]) for side in sides.astype(np.float64)], factors


def reference_within(kernel: Kernel, radius: float, d: int, tolerance: float) -> Reference:
    """Kernel space, or features of so high a degree that nothing is lost, whichever is cheaper."""
    degree = int(np.ceil(1.4 * radius**2)) + 2
    features = None
    if kernel.n_scales == 1 and taylor.n_monomials(d, degree) <= MAX_ROWS:
        features = LocalFeatures.of(kernel, (taylor.sample(d, degree),))
    plan = Plan(kernel, None, features)

    def answer(sample: NeighbourhoodSample, places: Floats, draw: Draw) -> tuple[Floats, Floats, Floats]:
        if features is None or plan.takes_kernel_space(len(sample.X)):
            return exactly(kernel, sample, places, draw, tolerance)
        rows, scales = features.rows(sample.X), 1 / features.precision[:, None] ** 0.5
        drawn = rows.T @ (scales * draw(len(rows))) + sample.noise[:, None] ** 0.5 * draw(len(sample.X))
        whole = replace(sample, y=np.concatenate([sample.y, drawn], axis=1))
        return *answers_of_each(plan, [(whole, places)], tolerance)[0], drawn

    return answer


def _middle_of_box(points: Floats) -> Floats:
    """Middle (d,) of the box around points (n, d), where a cell has its centre."""
    result: Floats = 0.5 * (points.min(axis=0) + points.max(axis=0))
    return result


def cell_radius(d: int) -> float:
    """Radius of the ball with the volume of a cubic cell whose corners are 1 from its middle."""
    return float(2 / d**0.5 * (gamma(d / 2 + 1) / pi ** (d / 2)) ** (1 / d))


def uniform_in_cell(n: int, d: int, rng: np.random.RandomState) -> Floats:
    """Random points of a cell, (n, d), or of the ball with its volume where space is wide."""
    if d <= MAX_AVERAGED_COLUMNS:
        cube: Floats = rng.uniform(-1.0, 1.0, (n, d)) / d**0.5
        return cube
    directions = rng.standard_normal((n, d))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    result: Floats = directions * rng.random_sample((n, 1)) ** (1 / d) * cell_radius(d)
    return result


def draw_probes(
    data: TrainingSet, rows: Integers, n: int, rng: np.random.RandomState, n_per_row: float = 1.0
) -> list[Integers]:
    """`n` of the `rows`, or all if they are fewer, each followed by others of them nearby: those to set aside together.

    With `n_per_row`, each row of `data` stands for so many points.
    """
    allowed = np.zeros(len(data.X), dtype=bool)
    allowed[rows] = True
    drawn = []
    chosen = rows[sample_without_replacement(len(rows), min(n, len(rows)), random_state=rng)]
    for row, around in zip(chosen, data.within(data.X[chosen], AROUND), strict=True):
        near = around[around != row]
        limit = int(len(near) * n_per_row) // 12  # few enough not to thin out the data around
        near = near[allowed[near]]
        others = rng.choice(near, min(PROBES_PER_NEIGHBOURHOOD - 1, limit, len(near)), replace=False)
        drawn.append(np.concatenate([[row], others]).astype(np.int64))
    return drawn


def middles_of_cells(data: TrainingSet) -> Callable[[Floats, float], Floats]:
    """From a place (d,) and a spacing to the middle (d,), relative to it, of its cell on the lattice of the data."""

    @cache
    def lattice(spacing: float) -> Lattice:
        return Lattice.covering_box(*data.box, lambda: np.median(data.X, axis=0), spacing)

    def middle(origin: Floats, spacing: float) -> Floats:
        result: Floats = lattice(spacing).middles(lattice(spacing).indices(origin[None]))[0] - origin
        return result

    return middle


def make_neighbourhoods(
    kernel: Kernel,
    data: TrainingSet,
    rows: Integers,
    radius: float,
    n: int,
    n_jobs: int | None,
    rng: np.random.RandomState,
    tolerance: float = 0.0,
    n_drawn: int = 0,
    onto: Callable[[Floats], Floats] | None = None,
) -> list[ProbeNeighbourhood]:
    """`n` neighbourhoods with everything within `radius` of probes, which are random ones of the given rows.

    References are good enough for the tolerance. See `ProbeNeighbourhood` for `n_drawn`. `onto` brings points to a
    surface that all data lie on.
    """
    drawn = draw_probes(data, rows, n, rng)
    seeds = rng.randint(2**31 - 1, size=len(drawn))
    directions = [uniform_in_cell(len(probes), data.X.shape[1], rng) for probes in drawn]
    reference = reference_within(kernel, radius, data.X.shape[1], tolerance)

    within = data.within(data.X[[probes[0] for probes in drawn]], radius)
    middle = middles_of_cells(data)

    def make(i: int) -> ProbeNeighbourhood:
        probes = drawn[i]
        origin = data.X[probes[0]]
        near = within[i][~np.isin(within[i], probes)]
        sample = NeighbourhoodSample.of(data.X[near] - origin, data.y[near, :-1], data.noise[near])
        random = np.random.RandomState(seeds[i])
        sample = thinned(sample, random)
        surface = None if onto is None else lambda points: onto(points + origin) - origin
        return ProbeNeighbourhood.solved(
            reference,
            sample,
            data.X[probes] - origin,
            data.noise[probes],
            directions[i],
            lambda n: random.standard_normal((n, n_drawn)),
            surface=surface,
            lattice=partial(middle, origin),
        )

    return thread_map(make, range(len(drawn)), n_jobs)


class GapNeighbourhood(ProbeNeighbourhood):
    """Data around a place in a gap, which the centres around serve, or a cell opened for it."""

    def asked(self, candidate: Candidate, blended: bool) -> Asked:
        """See `ProbeNeighbourhood`."""
        centers, X = np.zeros_like(self.probes), self.sample.X
        if np.isfinite(candidate.spacing):
            middle, side = self.middle_of_cell(candidate.spacing), 2 * candidate.spacing / X.shape[1] ** 0.5
            distances = np.empty(0)
            if len(X):
                order, starts = sorted_groups(np.floor((X - middle) / side + 0.5).astype(np.int64))
                centers = middles_of_boxes(X[order], starts)
                distances = np.sqrt(np.sum(centers**2, axis=1))
            if distances.min(initial=np.inf) > candidate.spacing:  # a cell will be opened
                centers = middle[None]
            elif not blended:
                centers = centers[[np.argmin(distances)]]
        return Asked(np.array([0]), centers, blending.weights_by_distance(cdist(self.probes, centers)))


def gap_neighbourhoods(
    kernel: Kernel,
    data: TrainingSet,
    places: Floats,
    radius: float,
    n_jobs: int | None,
    rng: np.random.RandomState,
    tolerance: float,
    n_drawn: int,
) -> list[ProbeNeighbourhood]:
    """Neighbourhoods with everything within `radius` of places (m, d) away from the data; see `make_neighbourhoods`."""
    seeds = rng.randint(2**31 - 1, size=len(places))
    reference = reference_within(kernel, radius, places.shape[1], tolerance)
    noise, origin = np.array([np.median(data.noise)]), np.zeros((1, places.shape[1]))
    middle, within = middles_of_cells(data), data.within(places, radius)

    def make(i: int) -> ProbeNeighbourhood:
        near, random = within[i], np.random.RandomState(seeds[i])
        sample = NeighbourhoodSample.of(data.X[near] - places[i], data.y[near, :-1], data.noise[near])
        given = (thinned(sample, random), origin, noise, origin, lambda n: random.standard_normal((n, n_drawn)))
        return GapNeighbourhood.solved(reference, *given, lattice=partial(middle, places[i]))

    return thread_map(make, range(len(places)), n_jobs)
