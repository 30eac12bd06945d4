"""Probes: places where a local approximation is held against a reference it can trust.

A probe is a training point set aside, so that probes lie as test points do. On the data within a generous radius of it
the Gaussian process is solved as exactly as can be: the reference. A candidate is then solved on the same data, as if
around a centre whose cell the probe falls into, and compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import product
from math import gamma, pi
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.spatial import cKDTree
from sklearn.utils.random import sample_without_replacement

from .. import metrics
from ..common.arrays import column_range
from ..common.threads import thread_map
from ..common.types import Booleans, Floats, Integers
from ..features import taylor
from ..kernels import Kernel
from . import blending
from .centers import Lattice, Placement, group_rows
from .choices import Candidate
from .features import LocalFeatures
from .model import mean_and_variance, solve_one
from .neighbourhoods import TrainingSet
from .plan import Plan, kernel_cost

MAX_ROWS = 1200  # of a neighbourhood around a probe,
MAX_AVERAGES = 500  # and where they can be averaged, which loses less
FINER = 20  # times that the cells of averages may be made smaller
MAX_AVERAGED_COLUMNS = 3  # up to which neighbours are averaged where they are many
PROBES_PER_NEIGHBOURHOOD = 12
AROUND = 1.25  # length scales, within which they are


@dataclass(frozen=True, eq=False)
class NeighbourhoodSample:
    """What is kept of the points of a neighbourhood: all of them, averages, or a random subset.

    Attributes
    ----------
    X, y, noise : ndarrays of shape (n, d), (n, k + 1), (n,)
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


def averaged(sample: NeighbourhoodSample, cells: Integers) -> NeighbourhoodSample:
    """One average for each distinct row of `cells`, shape (n, d), weighted by the inverse noise."""
    distinct, owner = group_rows(cells)
    weights = 1 / sample.noise
    total = np.bincount(owner, weights, len(distinct))

    def average(values: Floats) -> Floats:
        return np.stack([np.bincount(owner, weights * v, len(distinct)) / total for v in values.T], axis=1)

    counts = np.bincount(owner, sample.counts, len(distinct))
    return NeighbourhoodSample(average(sample.X), average(sample.y), 1 / total, counts, sample.n_points)


def thinned(sample: NeighbourhoodSample, rng: np.random.RandomState) -> NeighbourhoodSample:
    """Not too many rows: averages over small cells, or a random subset where there are too many columns."""
    n, d = sample.X.shape
    most = MAX_ROWS if d > MAX_AVERAGED_COLUMNS else min(MAX_AVERAGES, MAX_ROWS)
    if n <= most:
        return sample
    if d > MAX_AVERAGED_COLUMNS:  # cells are of no use where space is wide
        return sample.subset(rng.choice(n, most, replace=False))
    low = sample.X.min(axis=0)

    def cells(side: float) -> Integers:
        result: Integers = np.floor((sample.X - low) / side).astype(np.int64)
        return result

    side = max(float(np.max(np.ptp(sample.X, axis=0))), 1e-300) / most ** (1 / d)
    for _ in range(FINER):  # points on a sheet or a line leave most cells empty
        if len(group_rows(cells(side))[0]) >= most / 2:
            break
        side /= 1.3
    while len(group_rows(cells(side))[0]) > most:
        side *= 1.15
    return averaged(sample, cells(side))


class Cell(NamedTuple):
    """A cell that some probes fall into: its centre (d,), the indices of these probes, how many points it holds."""

    center: Floats
    probes: Integers
    n_points: float


@dataclass(frozen=True, eq=False)
class ProbeNeighbourhood:
    """Data around a probe, relative to it, and the reference's answers at it and at a few probes near it.

    Attributes
    ----------
    sample : NeighbourhoodSample
    probes : ndarray of shape (m, d)
        The first is the origin.
    probe_noise : ndarray of shape (m,)
    mean, variance : ndarrays of shape (m, k + 1), (m,)
        The reference.
    directions : ndarray of shape (m, d)
        Where the centre of its cell lies as seen from each probe, in units of the spacing: uniform over a cell.
    surface : callable or None
        Brings points (n, d), relative to the first probe, to a surface that all data and their centres lie on.
    lattice : callable or None
        From a spacing to the middle (d,) of the first probe's cell, relative to it, where the lattice is known.
    """

    sample: NeighbourhoodSample
    probes: Floats
    probe_noise: Floats
    mean: Floats
    variance: Floats
    directions: Floats
    surface: Callable[[Floats], Floats] | None = field(default=None, kw_only=True)
    lattice: Callable[[float], Floats] | None = field(default=None, kw_only=True)

    relative_error = 0.0  # of a divergence, beside what the spread over neighbourhoods tells

    @classmethod
    def solved(
        cls,
        reference: Plan,
        sample: NeighbourhoodSample,
        probes: Floats,
        probe_noise: Floats,
        directions: Floats,
        **further: Any,
    ) -> Self:
        """With the answers of the reference."""
        mean, variance = _answers(reference, sample, len(sample.X), probes)
        return cls(sample, probes, probe_noise, mean, variance, directions, **further)

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
        values = []
        for center, asked, _ in self.cells(candidate):
            if blended and np.isfinite(candidate.spacing) and len(center) <= MAX_AVERAGED_COLUMNS:
                mean, variance = self._blended(candidate, center, self.probes[asked])
            else:
                mean, variance = self._answers_of(candidate.plan, center, self.probes[asked])
            mean = self.mean[asked] if candidate.exact_mean else mean
            values.append(self._divergences(asked, mean, variance))
        return float(np.mean(np.concatenate(values)))

    def _answers_of(self, plan: Plan, center: Floats, places: Floats) -> tuple[Floats, Floats]:
        """Means and variances at places by the model around a centre."""
        around = self.sample.around(center, self.near(plan, center))
        return _answers(plan, around, around.n_points, places - center)

    def _blended(self, candidate: Candidate, center: Floats, places: Floats) -> tuple[Floats, Floats]:
        """The same by the models of a cell and of those around it, on a lattice."""
        d = len(center)
        steps = np.array(list(product((0.0, -1.0, 1.0), repeat=d))) * 2 * candidate.spacing / d**0.5
        if not self._has_lattice(candidate):
            return self._shared(candidate.plan, self._on_surface(center + steps), places)
        centers, X = [center], self.sample.X
        for step in steps[1:]:
            rows = self._in_cube(X, self.middle_of_cell(candidate.spacing) + step, steps[-1, 0])
            if rows.any():
                centers.append(_middle_of_box(X[rows]))
        return self._shared(candidate.plan, np.array(centers), places)

    def _shared(self, plan: Plan, centers: Floats, places: Floats) -> tuple[Floats, Floats]:
        """Answers at places by the models around centres (C, d) together."""
        distances = np.sqrt(np.sum((places[:, None] - centers) ** 2, axis=2))
        weights = blending.weights_by_distance(distances)
        mean, variance = np.zeros((len(places), self.mean.shape[1])), np.zeros(len(places))
        for j in np.flatnonzero(weights.any(axis=0)):
            own = np.flatnonzero(weights[:, j])
            answers = self._answers_of(plan, centers[j], places[own])
            mean[own] += weights[own, j, None] * answers[0]
            variance[own] += weights[own, j] * answers[1]
        return mean, variance

    def _divergences(self, asked: Integers, mean: Floats, variance: Floats) -> Floats:
        """KL from the reference at some of the probes, per target, as observations."""
        k, noise = mean.shape[1] - 1, self.probe_noise[asked]
        variances = (np.repeat(v[:, None], k, axis=1) for v in (variance + noise, self.variance[asked] + noise))
        return metrics.kl_divergence(mean[:, :k], next(variances), self.mean[asked, :k], next(variances))

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


def _answers(plan: Plan, sample: NeighbourhoodSample, n_points: float, places: Floats) -> tuple[Floats, Floats]:
    """Means (m, k + 1) and variances (m,) at `places` (m, d) of the model that so many points around the origin get.

    Rows may be so few that they would be solved in kernel space, which the points they stand for will not be.
    """
    in_kernel_space = plan.takes_kernel_space(int(n_points))
    plan = replace(plan, features=None) if in_kernel_space else replace(plan, either_side=False, count=None)
    model = solve_one(plan, sample.X, sample.y, sample.noise, sample.counts)
    mean, variance = mean_and_variance(plan, model, places)
    assert variance is not None
    return mean, variance


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


def reference_plan(kernel: Kernel, radius: float, d: int) -> Plan:
    """Kernel space, or features of so high a degree that nothing is lost, whichever is cheaper."""
    degree = int(np.ceil(1.4 * radius**2)) + 2
    if kernel.n_scales > 1 or taylor.n_monomials(d, degree) > MAX_ROWS:
        return Plan(kernel, None, None)
    return Plan(kernel, None, LocalFeatures.of(kernel, (taylor.sample(d, degree),)))


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


def make_neighbourhoods(
    kernel: Kernel,
    data: TrainingSet,
    rows: Integers,
    radius: float,
    n: int,
    n_jobs: int | None,
    rng: np.random.RandomState,
    onto: Callable[[Floats], Floats] | None = None,
) -> list[ProbeNeighbourhood]:
    """`n` neighbourhoods with everything within `radius` of probes, which are random ones of the given rows.

    `onto` brings points to a surface that all data lie on.
    """
    drawn = draw_probes(data, rows, n, rng)
    seeds = rng.randint(2**31 - 1, size=len(drawn))
    directions = [uniform_in_cell(len(probes), data.X.shape[1], rng) for probes in drawn]
    reference = reference_plan(kernel, radius, data.X.shape[1])

    within = data.within(data.X[[probes[0] for probes in drawn]], radius)
    box = column_range(data.X)

    @cache
    def lattice(spacing: float) -> Lattice:
        return Lattice.covering_box(*box, lambda: np.median(data.X, axis=0), spacing)

    def make(i: int) -> ProbeNeighbourhood:
        probes = drawn[i]
        origin = data.X[probes[0]]
        near = within[i][~np.isin(within[i], probes)]
        sample = NeighbourhoodSample.of(data.X[near] - origin, data.y[near], data.noise[near])
        sample = thinned(sample, np.random.RandomState(seeds[i]))
        surface = None if onto is None else lambda points: onto(points + origin) - origin

        def middle(spacing: float) -> Floats:
            cells = lattice(spacing)
            result: Floats = cells.middles(cells.indices(origin[None]))[0] - origin
            return result

        return ProbeNeighbourhood.solved(
            reference,
            sample,
            data.X[probes] - origin,
            data.noise[probes],
            directions[i],
            surface=surface,
            lattice=middle,
        )

    return thread_map(make, range(len(drawn)), n_jobs)


@dataclass(frozen=True, eq=False)
class GapNeighbourhood(ProbeNeighbourhood):
    """Data around a place in a gap, which one of the real centres serves, or a cell opened for it.

    Attributes
    ----------
    origin : ndarray of shape (d,)
        The place.
    placed : callable
        From a spacing to the centres that the data get, and an index of them.
    """

    origin: Floats
    placed: Callable[[float], tuple[Placement, cKDTree]]

    def cells(self, candidate: Candidate) -> Iterable[Cell]:
        """The cell that the place falls into."""
        center = np.zeros(len(self.origin))
        if np.isfinite(candidate.spacing):
            placement, index = self.placed(candidate.spacing)
            lattice = placement.lattice
            assert lattice is not None
            distance, nearest = index.query(self.origin)
            center = placement.centers[nearest] - self.origin
            if distance > candidate.spacing:  # a cell will be opened
                center = lattice.middles(lattice.indices(self.origin[None]))[0] - self.origin
        return [Cell(center, np.array([0]), 1.0)]

    def _blended(self, candidate: Candidate, center: Floats, places: Floats) -> tuple[Floats, Floats]:
        """See `ProbeNeighbourhood`; by the real centres, or by one alone in a cell that will be opened."""
        placement, index = self.placed(candidate.spacing)
        nearest, _ = index.query(self.origin)
        if nearest > candidate.spacing:
            return self._answers_of(candidate.plan, center, places)
        near = index.query_ball_point(self.origin, blending.CLOSE * max(nearest, blending.TINY))
        return self._shared(candidate.plan, placement.centers[near] - self.origin, places)


def gap_neighbourhoods(
    kernel: Kernel,
    data: TrainingSet,
    places: Floats,
    radius: float,
    n_jobs: int | None,
    rng: np.random.RandomState,
) -> list[ProbeNeighbourhood]:
    """Neighbourhoods with everything within `radius` of places (m, d) away from the data."""
    seeds = rng.randint(2**31 - 1, size=len(places))
    directions = uniform_in_cell(len(places), places.shape[1], rng)
    reference = reference_plan(kernel, radius, places.shape[1])
    noise = np.array([np.median(data.noise)])

    @cache
    def placed(spacing: float) -> tuple[Placement, cKDTree]:
        placement = data.grid(spacing)
        return placement, cKDTree(placement.centers)

    within = data.within(places, radius)

    def make(i: int) -> ProbeNeighbourhood:
        near = within[i]
        sample = NeighbourhoodSample.of(data.X[near] - places[i], data.y[near], data.noise[near])
        sample = thinned(sample, np.random.RandomState(seeds[i]))
        origin = np.zeros((1, places.shape[1]))
        return GapNeighbourhood.solved(
            reference, sample, origin, noise, directions[i][None], origin=places[i], placed=placed
        )

    return thread_map(make, range(len(places)), n_jobs)
