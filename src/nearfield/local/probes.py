"""Probes: places where a local approximation is held against a reference it can trust.

A probe is a training point set aside, so that probes lie as test points do. Its *world* is the data within a generous
radius; on that the Gaussian process is solved as exactly as can be. A candidate is then solved in the same world, as
if around a centre whose cell the probe falls into, and compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gamma, pi

import numpy as np

from .. import metrics
from ..common.threads import thread_map
from ..common.types import Booleans, Floats
from ..features import taylor
from ..kernels import Kernel
from .centers import group_rows
from .features import LocalFeatures
from .model import fit_one, mean_and_variance
from .neighbourhoods import TrainingSet
from .plan import Plan

MAX_WORLD = 1200
AVERAGED = 3  # columns up to which points are averaged where they are many
PROBES_PER_WORLD = 6


@dataclass(frozen=True, eq=False)
class World:
    """Data around a probe, relative to it, and the reference's answers at it and a few probes near it.

    Attributes
    ----------
    X, y, noise : ndarrays of shape (n, d), (n, k + 1), (n,)
    counts : ndarray of shape (n,)
        How many training points each one stands for: in dense places neighbours are averaged.
    probes : ndarray of shape (m, d)
        The first is the origin.
    probe_noise : ndarray of shape (m,)
    mean, variance : ndarrays of shape (m, k + 1), (m,)
        The reference.
    direction : ndarray of shape (d,)
        Where the centre lies as seen from the first probe, times the spacing: uniform over a cell.
    """

    X: Floats
    y: Floats
    noise: Floats
    counts: Floats
    probes: Floats
    probe_noise: Floats
    mean: Floats
    variance: Floats
    direction: Floats

    def center(self, spacing: float) -> Floats:
        """Centre of the cell that the first probe falls into; the origin where there is only one cell."""
        return self.direction * spacing if np.isfinite(spacing) else np.zeros_like(self.direction)

    def neighbourhood(self, spacing: float, radius: float | None) -> Booleans:
        """Which points the centre's neighbourhood holds."""
        if radius is None:
            return np.ones(len(self.X), dtype=bool)
        result: Booleans = np.sum((self.X - self.center(spacing)) ** 2, axis=1) <= radius**2
        return result

    def divergence(self, plan: Plan, spacing: float) -> float:
        """Mean KL(candidate || reference) over the probes in the cell, per target, as observations."""
        center = self.center(spacing)
        reach = cell_radius(self.X.shape[1]) * spacing
        inside = np.sum((self.probes - center) ** 2, axis=1) <= reach**2
        inside[0] = True
        near = self.neighbourhood(spacing, plan.radius)
        # Averages may be so few that they would be solved exactly, which the points themselves will not be.
        counts = self.counts[near] if self.X.shape[1] <= AVERAGED else None
        model = fit_one(plan, self.X[near] - center, self.y[near], self.noise[near], counts)
        mean, variance = mean_and_variance(plan, model, self.probes[inside] - center)
        noise = self.probe_noise[inside]
        k = self.mean.shape[1] - 1
        return float(
            np.mean(
                [
                    metrics.kl_divergence(
                        mean[:, j], variance + noise, self.mean[inside, j], self.variance[inside] + noise
                    )
                    for j in range(k)
                ]
            )
        )


def cell_radius(d: int) -> float:
    """Radius of the ball with the volume of a cubic cell whose corners are 1 from its middle."""
    return float(2 / d**0.5 * (gamma(d / 2 + 1) / pi ** (d / 2)) ** (1 / d))


def make_worlds(
    kernel: Kernel, data: TrainingSet, radius: float, n_worlds: int, n_jobs: int | None, rng: np.random.RandomState
) -> list[World]:
    """Worlds around random training points, with everything within `radius` of them."""
    n, d = data.X.shape
    chosen = rng.choice(n, min(n_worlds, n), replace=False)
    seeds = rng.randint(2**31 - 1, size=len(chosen))
    directions = uniform_in_ball(len(chosen), d, rng) * cell_radius(d)
    reference = reference_plan(kernel, radius, d)

    def one(i: int) -> World:
        return _make_world(data, reference, radius, int(chosen[i]), directions[i], np.random.RandomState(seeds[i]))

    return thread_map(one, range(len(chosen)), n_jobs)


def make_subset_worlds(
    kernel: Kernel, data: TrainingSet, sizes: list[int], n_probes: int, rng: np.random.RandomState
) -> list[World]:
    """Worlds of random subsets of all data, nested and with the same probes, relative to the mean of the data."""
    order = rng.permutation(len(data.X))
    aside, rest = order[:n_probes], order[n_probes:]
    origin = data.X.mean(axis=0)
    plan = Plan(kernel, None, None)
    probes = data.X[aside] - origin

    def one(size: int) -> World:
        kept = rest[:size]
        X, y, noise = data.X[kept] - origin, data.y[kept], data.noise[kept]
        mean, variance = mean_and_variance(plan, fit_one(plan, X, y, noise), probes)
        return World(X, y, noise, np.ones(size), probes, data.noise[aside], mean, variance, np.zeros(X.shape[1]))

    return [one(size) for size in sizes]


def reference_plan(kernel: Kernel, radius: float, d: int) -> Plan:
    """Kernel space, or features of so high a degree that nothing is lost, whichever is cheaper."""
    degree = int(np.ceil(1.4 * radius**2)) + 2
    if kernel.n_scales > 1 or taylor.n_monomials(d, degree) > MAX_WORLD:
        return Plan(kernel, None, None)
    return Plan(kernel, None, LocalFeatures.of(kernel, (taylor.sample(d, degree),)))


def _make_world(
    data: TrainingSet, reference: Plan, radius: float, seed: int, direction: Floats, rng: np.random.RandomState
) -> World:
    origin = data.X[seed]
    found = data.tree.query_radius(origin[None], radius)[0]
    Z = data.X[found] - origin
    # Others to set aside with the first: few enough not to thin out the data around it.
    near = found[(np.sum(Z * Z, axis=1) <= 1.0) & (found != seed)]
    extra = rng.choice(near, min(PROBES_PER_WORLD - 1, len(near) // 20), replace=False)
    aside = np.concatenate([[seed], extra]).astype(np.int64)
    kept = found[~np.isin(found, aside)]
    X, y, noise, counts = thinned(data.X[kept] - origin, data.y[kept], data.noise[kept], rng)
    probes = data.X[aside] - origin
    mean, variance = mean_and_variance(reference, fit_one(reference, X, y, noise), probes)
    return World(X, y, noise, counts, probes, data.noise[aside], mean, variance, direction)


def thinned(
    X: Floats, y: Floats, noise: Floats, rng: np.random.RandomState, counts: Floats | None = None
) -> tuple[Floats, Floats, Floats, Floats]:
    """Average points in small cells until there are at most `MAX_WORLD`; their noise averages too.

    With `counts`, the points are averages of so many already. The last answer is how many each now stands for.
    """
    n, d = X.shape
    counts = np.ones(n) if counts is None else counts
    if n <= MAX_WORLD:
        return X, y, noise, counts
    if d > AVERAGED:  # cells are of no use where space is wide: a random subset, a sparser world than the data
        kept = rng.choice(n, MAX_WORLD, replace=False)
        share = MAX_WORLD / n
        return X[kept], y[kept], noise[kept], np.full(MAX_WORLD, 1 / share)
    side = max(float(np.max(np.ptp(X, axis=0))), 1e-300) / MAX_WORLD ** (1 / d)
    while True:
        cells, owner = group_rows(np.floor((X - X.min(axis=0)) / side).astype(np.int64))
        if len(cells) <= MAX_WORLD:
            break
        side *= 1.15
    weights = 1 / noise
    total = np.bincount(owner, weights, len(cells))

    def average(values: Floats) -> Floats:
        return np.stack([np.bincount(owner, weights * v, len(cells)) / total for v in values.T], axis=1)

    return average(X), average(y), 1 / total, np.bincount(owner, counts, len(cells))


def uniform_in_ball(n: int, d: int, rng: np.random.RandomState) -> Floats:
    """Random points of the unit ball, (n, d)."""
    directions = rng.standard_normal((n, d))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    result: Floats = directions * rng.random_sample((n, 1)) ** (1 / d)
    return result
