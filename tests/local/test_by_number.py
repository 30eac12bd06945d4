from dataclasses import replace

import numpy as np
import pytest

from nearfield import metrics
from nearfield.kernels import Kernel
from nearfield.local import by_number, choices
from nearfield.local.choices import Request
from nearfield.local.depth import fit_cells
from nearfield.local.distance import Distance
from nearfield.local.gaps import OUTLYING
from nearfield.local.neighbourhoods import TrainingSet

from ..small import exact_at_most

KERNEL = Kernel(np.array([[1.0], [6.0]]), np.array([0.7, 1.5]))
NOISE = 0.1
N = 1600


def training():
    """Dense places and sparse ones; the first target is the number of the row."""
    rng = np.random.RandomState(0)
    X = rng.uniform(0, 20, (N, 2)) * rng.uniform(0, 1, (N, 1))
    y = np.stack([np.arange(N), np.sin(X[:, 0]) + NOISE**0.5 * rng.standard_normal(N)], axis=1)
    return TrainingSet.of(X, y, np.full(N, NOISE))


@pytest.fixture
def recorded(monkeypatch):
    """Sets of neighbourhoods, as they are made, with the rows their probes are among; None in gaps."""
    sets = []
    original = by_number.NumberSearch._neighbourhoods

    def make(self, origins, rows=None, allowed=None):
        sets.append((original(self, origins, rows, allowed), allowed))
        return sets[-1][0]

    monkeypatch.setattr(by_number.NumberSearch, "_neighbourhoods", make)
    monkeypatch.setattr(by_number, "NEIGHBOURHOODS", 10)
    exact_at_most(monkeypatch, 0)
    return sets


def figures(distance):
    return distance.observations, distance.function


def search(data, tolerance=1e-3):
    return by_number.NumberSearch(KERNEL, data, Request(tolerance), 1, np.random.RandomState(0))


def test_probes_are_set_aside_among_the_rows_given():
    data = training()
    for group in range(2):
        found = search(data)
        for neighbourhood in found.make_probed(group):
            present = neighbourhood.sample.y[:, 0].astype(int)
            gaps = np.linalg.norm(data.X[:, None] - neighbourhood.origin - neighbourhood.probes, axis=2)
            probes = np.argmin(gaps, axis=0)
            np.testing.assert_allclose(gaps.min(axis=0), 0.0, atol=1e-9)
            assert len(probes) == by_number.PROBES
            assert np.isin(probes, found.probe_rows[group]).all()
            assert not np.isin(probes, present).any()


@pytest.mark.parametrize("tolerance", [1.0, 1e-9])
def test_the_figure_is_from_probes_that_had_no_part_in_the_choice(recorded, tolerance, monkeypatch):
    monkeypatch.setattr(by_number, "MOST_POINTS", (400, 600))
    data = training()
    data = TrainingSet.of(data.X, data.y[:, 1:2], data.noise)
    choice = by_number.choose(KERNEL, data, Request(tolerance), 1, np.random.RandomState(0))
    among_rows = [(probed, rows) for probed, rows in recorded if rows is not None]
    assert len(among_rows) > 1
    (last, rows) = among_rows.pop()
    candidate = replace(choice.candidate, depth=None)
    values = np.stack([p.divergence(candidate) for p in last], axis=1)
    assert choice.gaps is not None  # as far from the data as some points are from all others, which count, too
    for near, gaps, own in zip(figures(choice.near_data), figures(choice.gaps.distance), values, strict=True):
        np.testing.assert_allclose(near.mean, own.mean() + OUTLYING * gaps.mean, rtol=1e-9)
        error = np.hypot(own.std(ddof=1) / len(own) ** 0.5, OUTLYING * gaps.error)
        np.testing.assert_allclose(near.error, error, rtol=1e-9)
    assert choice.n_probes == sum(p.n_probes for p in last)
    assert not any(np.intersect1d(rows, before).size for _, before in among_rows)
    assert choice.met == (tolerance == 1.0)


def test_a_figure_that_does_not_hold_leads_to_more_neighbours(recorded, monkeypatch):
    """Probes that choose are pretended to be near the exact process, whatever the candidate."""
    original = by_number.NumberSearch.search

    def search(self):
        best = original(self)
        cheapest = self.measure(self._candidate(by_number.COUNTS[0], 0))
        assert best is not None
        self.trials[-1] = choices.Trial(cheapest.candidate, Distance(), cheapest.cost, 0.0)
        return self.trials[-1]

    monkeypatch.setattr(by_number.NumberSearch, "search", search)
    data = training()
    data = TrainingSet.of(data.X, data.y[:, 1:2], data.noise)
    choice = by_number.choose(KERNEL, data, Request(1e-3), 1, np.random.RandomState(0))
    assert len(recorded) > 2
    assert choice.candidate.plan.count > by_number.COUNTS[0]
    assert choice.met


def test_variances_beside_an_exact_mean_are_far_closer_than_the_tolerance(monkeypatch):
    """And cells among the data take no more neighbours than were measured, but for a few."""
    exact_at_most(monkeypatch, 0)
    monkeypatch.setattr(by_number, "FEWER", 12)
    data, tolerance, rng = training(), 1e-4, np.random.RandomState(0)
    places = data.X[rng.choice(N, 60, replace=False)] + 0.05
    choice = by_number.choose(KERNEL, data, Request(tolerance, exact_mean=True), 1, rng)
    candidate = choice.candidate
    assert choice.met
    assert candidate.depth.excess >= by_number.VARIANCE_DEPTHS[0] * tolerance**0.5
    located = by_number.locator(KERNEL, data, places)(candidate.plan.count, candidate.near)
    models = fit_cells(candidate.plan, candidate.depth, data, located.middles, located.halves)
    assert np.mean([len(model.X) > candidate.plan.count for model in models]) < 0.3
    variance = np.array([m.variance(z[None])[0] for m, z in zip(models, places - located.middles, strict=True)])
    cross = KERNEL(data.X, places)
    exact = KERNEL.variance - np.sum(cross * np.linalg.solve(KERNEL(data.X, data.X) + NOISE * np.eye(N), cross), axis=0)
    kl = metrics.kl_divergence(np.zeros(60), variance + NOISE, np.zeros(60), exact + NOISE)
    assert kl.mean() <= 0.08 * tolerance
