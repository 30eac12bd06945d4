"""Functions drawn from the posterior: joint samples that agree with each other wherever they are asked for."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any, TypeAlias

import numpy as np

from ..common import memory
from ..common.threads import single_threaded_blas
from ..common.types import Floats, Integers
from ..common.validation import check_random_state, is_whole
from ..local.cells import MAX_COLUMNS, Cells
from ..streaming.inputs import as_source
from ..streaming.output import points_of
from .area_groups import Groups
from .by_target import own_regressors
from .twins import array_of, as_given

KEPT_SHARE = 0.25  # of free memory, that functions may take while they wait to be asked for
WORK_SHARE = 0.2  # of free memory, for functions that are made together
PLACES_AT_ONCE = 1 << 15  # that lie together: so many that each cell has work worth the call

Functions: TypeAlias = Callable[[Floats], tuple[Floats, Floats]]
"""Values (m, S) at points (m, d) as the kernel sees them, less the mean of the targets, and posterior means (m, k)."""


class Sampler:
    """Functions drawn from the posterior of a model, to be asked for anywhere, and always the same.

    `LocalGPRegressor.sampler` and its like make them. They are known by their seed, so that a sampler is no larger than
    its model, and the same model with the same integer as `random_state` gives the same functions again, after it was
    saved and loaded too; the first hundred of two hundred are those of a hundred.

    Attributes
    ----------
    model : regressor
        As it was when the sampler was made.
    n_samples : int
    seed : int
    exact : bool
        Whether each function is solved for all data, rather than by the approximation of the model.
    """

    def __init__(self, model: Any, n_samples: int, seed: int, exact: bool = False) -> None:
        self.model, self.n_samples, self.seed, self.exact = copy.copy(model), n_samples, seed, exact
        self._kept: dict[range, Functions] = {}

    def __repr__(self) -> str:
        return f"Sampler({self.n_samples} functions of a {type(self.model).__name__})"

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_kept": {}}  # they are made again

    def __call__(self, X: Any, include_noise: bool = False) -> Floats:
        """Values of all functions at places.

        Parameters
        ----------
        X : array or tensor of shape (m, n_features), data frame or Source
        include_noise : bool, default=False
            Observations of the functions instead: noise is added, independent from place to place. It is the same
            whenever the same places are asked for in the same order.

        Returns
        -------
        samples : ndarray, or tensor, of shape (m, n_samples), or (m, n_targets, n_samples)
        """
        source = as_source(X, None, None)
        if source is None:
            return as_given(self._at(self._places(X), bool(include_noise)), X)  # type: ignore[no-any-return]
        return np.concatenate([self._at(points, bool(include_noise)) for points in points_of(self.model, source)])

    def on_grid(
        self, axes: Any = None, *, size: Any = 100, spacing: Any = None, like: Any = None, include_noise: bool = False
    ) -> Any:
        """Values of all functions on a grid as an xarray DataArray, with the dimension `sample` last.

        Parameters
        ----------
        axes, size, spacing, like
            As `predict_grid` of the regressors takes them.
        include_noise : bool, default=False

        Returns
        -------
        samples : xarray DataArray
        """
        from ..reporting.sample_grids import sample_grid

        return sample_grid(self, axes, size, spacing, bool(include_noise), like)

    def areas(
        self, X: Any, groups: Any, weights: Any = None, *, total: bool = False, include_noise: bool = False
    ) -> Floats:
        """Weighted means, or totals, of all functions over sets of places; see `predict_areas` of the regressors.

        Returns
        -------
        values : ndarray of shape (G, n_samples), or (G, n_targets, n_samples)
            One row per group, in sorted order.
        """
        points = self._places(X)
        chosen = Groups.of(len(points), groups, weights, bool(total))
        return self._over_groups(points, chosen, bool(include_noise), chosen.sums, np.add, 0.0)

    def maxima(self, X: Any, groups: Any = None, *, include_noise: bool = False) -> Floats:
        """Largest value of each function over each of some sets of places, or over all of them.

        Returns
        -------
        values : ndarray of shape (G, n_samples), or (G, n_targets, n_samples)
            One row per group, in sorted order.
        """
        points = self._places(X)
        chosen = Groups.of(len(points), np.zeros(len(points)) if groups is None else groups, None, False)
        return self._over_groups(points, chosen, bool(include_noise), chosen.maxima, np.maximum, -np.inf)

    def above(self, X: Any, threshold: float, groups: Any = None, *, include_noise: bool = False) -> Floats:
        """Probability that a threshold is exceeded somewhere in each of some sets of places, or in all of them.

        It is a share of the functions: its standard error is at most `0.5 / sqrt(n_samples)`.

        Parameters
        ----------
        X : array of shape (m, n_features)
        threshold : float
        groups : array of shape (m,) or None, default=None
            Label of the area that each place belongs to; None is one area.
        include_noise : bool, default=False
            Of observations at the places, instead of the function without noise.

        Returns
        -------
        probability : ndarray of shape (G,) or (G, n_targets)
            One per group, in sorted order.
        """
        result: Floats = np.mean(self.maxima(X, groups, include_noise=include_noise) > threshold, axis=-1)
        return result

    def _places(self, X: Any) -> Floats:
        """Checked places (m, d)."""
        points: Floats = self.model._validate_test(array_of(X))
        return points

    def _at(self, X: Floats, include_noise: bool) -> Floats:
        """Values (m, S) or (m, k, S) at checked places (m, d)."""
        m, k, S = len(X), len(self.model.y_mean_), self.n_samples
        memory.require(
            8.0 * m * k * S,
            f"The values of {k * S} functions at {m} places",
            "Ask for fewer places at a time: they are the same functions every time.",
        )
        result = np.empty((m, k, S))
        for chunk, samples, values in self._pieces(X, include_noise):
            result[chunk, :, samples] = values
        return result[:, 0] if self.model._single_target else result

    def _over_groups(
        self, X: Floats, groups: Groups, include_noise: bool, reduce: Callable[..., Floats], join: Any, start: float
    ) -> Floats:
        """Values (G, S) or (G, k, S) over groups, of which no more than a chunk's places are ever held."""
        k = len(self.model.y_mean_)
        result = np.full((len(groups.labels), k, self.n_samples), start)
        for chunk, samples, values in self._pieces(X, include_noise):
            result[:, :, samples] = join(result[:, :, samples], reduce(values, chunk))
        return result[:, 0] if self.model._single_target else result

    def _pieces(self, X: Floats, include_noise: bool) -> Iterator[tuple[Integers, slice, Floats]]:
        """Some of the checked places (c,), some of the samples, and their values (c, k, s), one after the other."""
        model, k = self.model, len(self.model.y_mean_)
        progress, runs = model._check_progress(), self._runs()
        order = _together(model._inner(X))
        chunks = [order[chunk] for chunk in memory.batches(len(X), PLACES_AT_ONCE)]
        rng = np.random.default_rng([self.seed, k]) if include_noise else None
        for r, run in enumerate(runs if chunks else []):
            functions = self._functions(run)
            # Threads share a chunk. Those of BLAS are limited once for all: after each change they spin for a while.
            with single_threaded_blas() if model._draws_in_threads else nullcontext():
                for c, chunk in enumerate(chunks):
                    drawn, means = functions(model._seen_by_functions(X[chunk]))
                    drawn, means = model._with_drift_drawn(X[chunk], drawn, means, self.seed, run)
                    drawn = np.moveaxis(drawn.reshape(len(drawn), -1, k), 1, 2)
                    values = model._finite(model._draws_in_units(X[chunk], drawn, means, rng))
                    yield chunk, slice(run.start // k, run.stop // k), values
                    if progress is not None:
                        progress("samples", (r + (c + 1) / len(chunks)) / len(runs), float(run.stop))

    def _runs(self) -> list[range]:
        """Functions that are made together, as many as there is room for; those of a sample are not taken apart."""
        k, each = len(self.model.y_mean_), self.model._bytes_per_function()
        most = max(int(WORK_SHARE * memory.available() / (k * each)), 1)
        return [range(k * run.start, k * run.stop) for run in memory.batches(self.n_samples, most)]

    def _functions(self, run: range) -> Functions:
        """Some functions, made if they are new, and kept as long as there is room."""
        if run not in self._kept:
            made: Functions = self.model._functions_of(self.seed, run, self.exact)
            taken = (len(run) + sum(map(len, self._kept))) * self.model._bytes_per_function()
            if taken > KEPT_SHARE * memory.available():
                return made
            self._kept[run] = made
        return self._kept[run]


class SamplerOfTargets(Sampler):
    """Functions drawn for several targets, each by the regressor of its target."""

    def __init__(self, model: Any, samplers: list[Sampler]) -> None:
        super().__init__(model, samplers[0].n_samples, samplers[0].seed)
        self._samplers = samplers

    def _at(self, X: Floats, include_noise: bool) -> Floats:
        return np.stack([sampler._at(X, include_noise) for sampler in self._each()], axis=1)

    def _over_groups(self, *arguments: Any) -> Floats:
        return np.stack([sampler._over_groups(*arguments) for sampler in self._each()], axis=1)

    def _each(self) -> list[Sampler]:
        for sampler in self._samplers:
            sampler.exact = self.exact
        return self._samplers


def seeds_of_targets(random_state: Any, k: int) -> list[int]:
    """A seed for each of `k` targets, so that functions of different targets are independent."""
    return [int(seed) for seed in np.random.SeedSequence(seed_of(random_state)).generate_state(k)]


class Sampled:
    """Joint samples of a regressor.

    A subclass gives `_functions_of(seed, functions, exact)`, which answers with `Functions` whose number `i` is of
    target `i % k`, and `_bytes_per_function()`, the memory that one of them takes.
    """

    noise_variance_: float
    y_mean_: Any
    _single_target: bool
    _draws_in_threads = False  # whether functions are evaluated by threads of their own

    def sampler(self, n_samples: int = 1, random_state: Any = 0) -> Sampler:
        """Functions drawn from the posterior, which can be asked for anywhere and as often as need be.

        Parameters
        ----------
        n_samples : int, default=1
        random_state : int, RandomState instance or None, default=0
            The same integer gives the same functions; None new ones every time.

        Returns
        -------
        sampler : Sampler
            `sampler(X)` has the values of all functions at places, shape (m, n_samples).
        """
        check_n_samples(n_samples)
        ones = own_regressors(self)
        if ones:
            seeds = seeds_of_targets(random_state, len(ones))
            return SamplerOfTargets(self, [one.sampler(n_samples, s) for one, s in zip(ones, seeds, strict=True)])
        self._need_arrays("sampler")  # type: ignore[attr-defined]
        sampler = Sampler(self, int(n_samples), seed_of(random_state))
        self._bytes_per_function()  # refuses models that functions cannot be drawn from
        return sampler

    def _functions_of(self, seed: int, functions: range, exact: bool) -> Functions:
        raise NotImplementedError

    def _bytes_per_function(self) -> float:
        raise NotImplementedError

    def _seen_by_functions(self, X: Floats) -> Floats:
        """What `Functions` take of checked rows (m, n_features): points as the kernel sees them."""
        points: Floats = self._inner(X)  # type: ignore[attr-defined]
        return points

    def _draws_in_units(self, X: Floats, values: Floats, means: Floats, rng: np.random.Generator | None) -> Floats:  # noqa: ARG002
        """Draws (m, k, S) in the units of the targets, from what `Functions` give at places (m, d).

        With `rng`, noise is added. The draws may be overwritten.
        """
        values += self.y_mean_[:, None]
        return values if rng is None else values + self.noise_variance_**0.5 * rng.standard_normal(values.shape)


def _together(points: Floats) -> Integers:
    """Order of points (m, d) in which those of a chunk lie together, where there are several chunks."""
    m, d = points.shape
    if m <= PLACES_AT_ONCE or d > MAX_COLUMNS:
        return np.arange(m)
    sides = np.ptp(points, axis=0)
    unit = np.where(sides > 0, sides, 1.0) / (m / PLACES_AT_ONCE) ** (1 / d)
    cells = Cells.of(points / unit, 1.0)
    return np.arange(m) if cells is None else cells.order


def seed_of(random_state: Any) -> int:
    """Seed of 63 bits."""
    return int(check_random_state(random_state).randint(2**63 - 1, dtype=np.int64))


def check_n_samples(n_samples: Any) -> None:
    """Refuse what is no number of samples."""
    if not is_whole(n_samples, 0):
        raise ValueError(f"The 'n_samples' argument must be an integer of at least 0. Got {n_samples!r}.")
