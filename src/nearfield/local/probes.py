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
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.utils.random import sample_without_replacement

from ..common.threads import thread_map
from ..common.types import Booleans, Floats, Integers
from ..kernels import Kernel
from . import blending, distance
from .centers import Lattice, middles_of_boxes, sorted_groups
from .choices import Candidate
from .distance import Reference
from .ensemble import runs_of
from .neighbourhoods import TrainingSet
from .plan import Plan
from .references import Draw, Solver, WholeProcess, answers_of_each, exactly, nothing_drawn
from .thinning import MAX_AVERAGED_COLUMNS, NeighbourhoodSample, thinned

PROBES_PER_NEIGHBOURHOOD = 12
AROUND = 1.25  # length scales, within which they are


class Cell(NamedTuple):
    """A cell that some probes fall into: its centre (d,), the indices of these probes, how many points it holds."""

    center: Floats
    probes: Integers
    n_points: float


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
    reference : Reference
        Its answers at the probes.
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
    reference: Reference
    directions: Floats
    surface: Callable[[Floats], Floats] | None = field(default=None, kw_only=True)
    lattice: Callable[[float], Floats] | None = field(default=None, kw_only=True)
    n_drawn: int = field(default=0, kw_only=True)

    relative_error = 0.0  # of a divergence, beside what the spread over neighbourhoods tells

    @classmethod
    def solved(
        cls,
        solver: Solver,
        sample: NeighbourhoodSample,
        probes: Floats,
        probe_noise: Floats,
        directions: Floats,
        draw: Draw = nothing_drawn,
        **further: Any,
    ) -> Self:
        """With the answers of the reference."""
        reference, drawn = solver(sample, probes, draw)
        sample = replace(sample, y=np.concatenate([sample.y, drawn], axis=1))
        return cls(sample, probes, probe_noise, reference, directions, n_drawn=drawn.shape[1], **further)

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

    def divergence(self, candidate: Candidate, blended: bool = False) -> Floats:
        """Mean KL(candidate || reference) over the probes in the cells, per target, of observations and the function.

        With `blended`, cells beside their own share the probes, as in predictions that are blended.
        """
        result: Floats = divergences([self], candidate, blended)[:, 0]
        return result

    def asked(self, candidate: Candidate, blended: bool) -> Asked:
        """Which models a candidate has answer, and where; see `divergence`."""
        if self._has_lattice(candidate) and self._is_alone(candidate.spacing):
            return self._asked_in_a_gap(candidate, blended)
        ((center, probes, _),) = self.cells(candidate)
        if not (blended and np.isfinite(candidate.spacing) and len(center) <= MAX_AVERAGED_COLUMNS):
            return Asked(probes, center[None], np.ones((len(probes), 1)))
        centers = self._centers_around(candidate, center)
        return Asked(probes, centers, blending.weights_by_distance(cdist(self.probes[probes], centers)))

    def _is_alone(self, spacing: float) -> bool:
        """Whether the cell of the first probe holds no data."""
        middle, side = self.middle_of_cell(spacing), 2 * spacing / self.probes.shape[1] ** 0.5
        return not self._in_cube(self.sample.X, middle, side).any()

    def _asked_in_a_gap(self, candidate: Candidate, blended: bool) -> Asked:
        """The first probe, in a cell without data, which the centres around serve, or a cell opened for it."""
        _, centers = self.centers_of_cells(candidate.spacing)
        distances = np.sqrt(np.sum(centers**2, axis=1))
        if distances.min(initial=np.inf) > candidate.spacing:  # a cell will be opened
            centers = self.middle_of_cell(candidate.spacing)[None]
        elif not blended:
            centers = centers[[np.argmin(distances)]]
        return Asked(np.array([0]), centers, blending.weights_by_distance(cdist(self.probes[:1], centers)))

    def _centers_around(self, candidate: Candidate, center: Floats) -> Floats:
        """Centres (C, d) of a cell and of those around it."""
        if self._has_lattice(candidate):
            cells, centers = self.centers_of_cells(candidate.spacing)
            return np.concatenate([center[None], centers[cells.any(axis=1)]])
        d, side = len(center), 2 * candidate.spacing / len(center) ** 0.5
        return self._on_surface(center + side * np.array(list(product((0.0, -1.0, 1.0), repeat=d))))

    def centers_of_cells(self, spacing: float) -> tuple[Integers, Floats]:
        """Cells of the lattice that hold data, counted from that of the first probe, and their centres, (C, d) each."""
        X, side = self.sample.X, 2 * spacing / self.sample.X.shape[1] ** 0.5
        cells = np.floor((X - self.middle_of_cell(spacing)) / side + 0.5).astype(np.int64)
        if len(X) == 0:
            return cells, X
        order, starts = sorted_groups(cells)
        return cells[order[starts]], middles_of_boxes(X[order], starts)

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
                costs.append(plan.kernel.n_scales * plan.kernel_cost(n) / in_cell + plan.prediction_cost(n))
            else:
                costs.append(plan.features_cost(n) / in_cell + plan.prediction_cost())
        return float(np.mean(costs))


def divergences(
    probed: Sequence[ProbeNeighbourhood], candidate: Candidate, blended: bool, tolerance: float = 0.0
) -> Floats:
    """Mean KL of a candidate over the probes of each neighbourhood, of observations and of the function: (2, m).

    Digits are as many as the tolerance asks for.
    """
    at_probes = divergences_at_probes(probed, candidate, blended, tolerance)
    return np.stack([each.mean(axis=1) for each in at_probes], axis=1)


def divergences_at_probes(
    probed: Sequence[ProbeNeighbourhood], candidate: Candidate, blended: bool, tolerance: float = 0.0
) -> list[Floats]:
    """The same at each probe, (2, p) for each neighbourhood, whose models are solved side by side."""
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
    mean, variance = np.zeros((owns[-1].stop, probed[0].reference.mean.shape[1])), np.zeros(owns[-1].stop)
    for (_, _, _, rows, weights), (its_mean, its_variance) in zip(models, answers, strict=True):
        mean[rows] += weights[:, None] * its_mean
        variance[rows] += weights * its_variance
    reference = Reference(
        *(
            np.concatenate(
                [getattr(each.reference, name)[probes] for each, (probes, _, _) in zip(probed, asked, strict=True)]
            )
            for name in ("mean", "variance", "excess")
        )
    )
    noise = np.concatenate([each.probe_noise[probes] for each, (probes, _, _) in zip(probed, asked, strict=True)])
    given = (noise, plan.kernel.variance, probed[0].n_drawn, candidate.exact_mean)
    kl = distance.divergences(mean, variance, reference, *given)
    return [kl[:, own] for own in owns]


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
    whole: WholeProcess | None = None,
) -> list[ProbeNeighbourhood]:
    """`n` neighbourhoods with everything within `radius` of probes, which are random ones of the given rows.

    References are good enough for the tolerance, or the exact process of the `whole` of the data, whose draws take the
    place of others. See `ProbeNeighbourhood` for `n_drawn`. `onto` brings points to a surface that all data lie on.
    """
    drawn = draw_probes(data, rows, n, rng)
    seeds = rng.randint(2**31 - 1, size=len(drawn))
    directions = [uniform_in_cell(len(probes), data.X.shape[1], rng) for probes in drawn]
    within = data.within(data.X[[probes[0] for probes in drawn]], radius)
    middle = middles_of_cells(data)

    def make(i: int) -> ProbeNeighbourhood:
        probes = drawn[i]
        origin = data.X[probes[0]]
        near = within[i][~np.isin(within[i], probes)]
        surface = None if onto is None else lambda points: onto(points + origin) - origin
        places, lattice = data.X[probes] - origin, partial(middle, origin)
        if whole is not None:
            sample = NeighbourhoodSample.of(data.X[near] - origin, whole.y[near], data.noise[near])
            given = (sample, places, data.noise[probes], whole.left_out(probes), directions[i])
            return ProbeNeighbourhood(*given, surface=surface, lattice=lattice, n_drawn=whole.n_drawn)
        sample = NeighbourhoodSample.of(data.X[near] - origin, data.y[near, :-1], data.noise[near])
        random = np.random.RandomState(seeds[i])
        complete = len(near) + len(probes) == len(data.X)
        return ProbeNeighbourhood.solved(
            partial(exactly, kernel, tolerance=tolerance, complete=complete),
            thinned(sample, random, float(kernel.length_scales.min())),
            places,
            data.noise[probes],
            directions[i],
            lambda n: random.standard_normal((n, n_drawn)),
            surface=surface,
            lattice=lattice,
        )

    return thread_map(make, range(len(drawn)), n_jobs)


class GapNeighbourhood(ProbeNeighbourhood):
    """Data around a place in a gap, which the centres around serve, or a cell opened for it."""

    def asked(self, candidate: Candidate, blended: bool) -> Asked:
        """See `ProbeNeighbourhood`."""
        if np.isfinite(candidate.spacing):
            return self._asked_in_a_gap(candidate, blended)
        return Asked(np.array([0]), np.zeros_like(self.probes), np.ones((1, 1)))


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
    noise, origin = np.array([data.typical_noise]), np.zeros((1, places.shape[1]))
    middle, within = middles_of_cells(data), data.within(places, radius)
    shortest = float(kernel.length_scales.min())

    def make(i: int) -> ProbeNeighbourhood:
        near, random = within[i], np.random.RandomState(seeds[i])
        sample = NeighbourhoodSample.of(data.X[near] - places[i], data.y[near, :-1], data.noise[near])
        given = (
            thinned(sample, random, shortest),
            origin,
            noise,
            origin,
            lambda n: random.standard_normal((n, n_drawn)),
        )
        solver = partial(exactly, kernel, tolerance=tolerance, complete=len(near) == len(data.X))
        return GapNeighbourhood.solved(solver, *given, lattice=partial(middle, places[i]))

    return thread_map(make, range(len(places)), n_jobs)
