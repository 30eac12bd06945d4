"""Cells: one method with one number of features and one spacing on one problem, computed once and remembered."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from .. import metrics
from ..common.threads import n_threads, worker_threads
from ..datasets import Dataset
from . import methods
from .cache import Cache
from .problems import Problem, is_known, make_problem, problem_key
from .settings import Settings

Progress = Callable[..., None]

# Raise a method's number where a change of its settings makes stored results out of date.
REVISIONS = {"ours": 2, "maclaurin": 2}


@dataclass(frozen=True)
class Cell:
    """What is computed: `method` is "fourier", "maclaurin" or "ours"; `spacing` None is one map around the mean."""

    data: str
    protocol: str
    seed: int
    method: str
    sampling: str
    D: int
    spacing: float | None = None


@dataclass(frozen=True)
class Record:
    """What came out: sums and means over the test points."""

    kl_sum: float
    rmse: float
    mean_nll: float
    n_test: int
    n_centers: int
    seconds: float

    @property
    def kl_mean(self) -> float:
        """KL per test point."""
        return self.kl_sum / self.n_test


Results = dict[Cell, Record]


class Laboratory:
    """Runs cells, keeping problems in memory while they are needed and results on disk."""

    def __init__(self, settings: Settings, datasets: dict[str, Dataset], cache: Cache, show: Progress) -> None:
        self.settings, self.datasets, self.cache, self.show = settings, datasets, cache, show
        self._stop = threading.Event()

    def problem(self, data: str, protocol: str, seed: int) -> Problem:
        """The split, its hyperparameters and the exact process's answer."""
        return make_problem(self.datasets[data], protocol, seed, self.settings.sizes(data), self.cache)

    def known_problems(self, data: str, protocol: str) -> list[Problem]:
        """The problems of all seeds; without `compute`, of those that an earlier run made."""
        seeds: Iterable[int] = range(self.settings.n_seeds(data, protocol))
        if not self.settings.compute:
            sizes = self.settings.sizes(data)
            seeds = [s for s in seeds if is_known(self.cache, problem_key(data, protocol, s, *sizes))]
        return [self.problem(data, protocol, seed) for seed in seeds]

    def run(self, cells: Iterable[Cell], stage: str) -> Results:
        """Results of all cells: from the cache, or computed, over threads, and put there.

        Without `compute` in the settings, results of those in the cache alone.
        """
        wanted = list(dict.fromkeys(cells))
        results: Results = {}
        for cell in wanted:
            stored = self.cache.get(self._key(cell))
            if stored is not None:
                results[cell] = Record(**stored)
        missing = [cell for cell in wanted if cell not in results] if self.settings.compute else []
        groups = _by(missing, lambda c: (c.data, c.protocol, c.seed))
        total = sum(_rough_cost(cell, self.settings.sizes(cell.data)) for cell in wanted) or 1.0
        done = sum(_rough_cost(cell, self.settings.sizes(cell.data)) for cell in results)
        self.show(stage, done / total)
        for (data, protocol, seed), members in groups.items():
            problem = self.problem(data, protocol, seed)
            done = self._run_problem(problem, members, results, stage, done, total)
        self.show(stage, 1.0)
        return results

    def _run_problem(
        self, problem: Problem, cells: list[Cell], results: Results, stage: str, done: float, total: float
    ) -> float:
        jobs = list(_by(cells, lambda c: (c.method, c.sampling, c.D)).values())
        sizes = self.settings.sizes(problem.data)
        costs = [sum(_rough_cost(cell, sizes) for cell in job) for job in jobs]
        for spacing in {cell.spacing for cell in cells if cell.spacing is not None}:
            problem.centroids(spacing)  # before the threads, which only read them
        self._stop.clear()
        # The longest first: the threads end together.
        order = sorted(range(len(jobs)), key=lambda i: -costs[i])
        with warnings.catch_warnings(), worker_threads(min(n_threads(None), len(jobs))) as over:
            warnings.simplefilter("ignore")  # few features are what is studied here; threads cannot set it themselves
            try:
                for i, computed in zip(order, over(lambda i: self._compute(problem, jobs[i]), order), strict=True):
                    results.update(computed)
                    done += costs[i]
                    self.show(stage, done / total)
            except BaseException:
                self._stop.set()
                raise
        return done

    def _compute(self, problem: Problem, job: list[Cell]) -> Results:
        if self._stop.is_set():
            raise methods.StoppedError
        first, start = job[0], time.perf_counter()
        if first.method == "fourier":
            predictions, counts = [methods.fourier(problem, first.sampling, first.D)], [1]
        elif first.method == "ours":
            prediction, count = methods.ours(problem, first.D)
            predictions, counts = [prediction], [count]
        else:
            spacings = [cell.spacing for cell in job]
            predictions = methods.maclaurin(problem, first.sampling, first.D, spacings, self._stop.is_set)
            counts = [1 if s is None else len(problem.centroids(s)) for s in spacings]
        seconds = (time.perf_counter() - start) / len(job)
        results = {}
        for cell, prediction, count in zip(job, predictions, counts, strict=True):
            results[cell] = score(problem, prediction, count, seconds)
            self.cache.put(self._key(cell), vars(results[cell]))
        return results

    def _key(self, cell: Cell) -> dict[str, Any]:
        n_train, n_test = self.settings.sizes(cell.data)
        revision = {"revision": REVISIONS[cell.method]} if cell.method in REVISIONS else {}
        return {"kind": "cell", **asdict(cell), "n_train": n_train, "n_test": n_test, **revision}


def score(problem: Problem, prediction: methods.Prediction, n_centers: int, seconds: float) -> Record:
    """Distance from the exact process and from the test targets."""
    mean, std = prediction
    divergence = metrics.kl_divergence(mean, std**2, problem.mean, problem.std**2)
    return Record(
        float(np.sum(divergence)),
        float(metrics.rmse(problem.y_test, mean)),
        float(metrics.mean_nll(problem.y_test, mean, std=std)),
        len(mean),
        int(n_centers),
        float(seconds),
    )


def _rough_cost(cell: Cell, sizes: tuple[int, int]) -> float:
    """Operations, roughly, for the bar: centroids cannot outnumber the test points that they answer for."""
    n_train, n_test = sizes
    n_centers = 1.0
    if cell.spacing is not None and cell.method == "maclaurin":
        n_centers = min(60.0 * (2.0 / cell.spacing) ** 1.2, 0.5 * n_test)
    return n_centers * n_train * (cell.D**2 + 300.0 * cell.D) + 1e7


def _by(cells: Iterable[Cell], key: Callable[[Cell], Any]) -> dict[Any, list[Cell]]:
    groups: dict[Any, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(key(cell), []).append(cell)
    return groups
