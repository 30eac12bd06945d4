"""Noise that fits: from a model with normal noise of one size to what its left-out residuals call for.

Gross outliers lose their weight, and everything is learnt again; noise of local size goes back into the fit as weights;
what remains to be said of sizes and tails becomes the `NoiseModel`, and its probabilities are checked at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from sklearn.neighbors import KDTree

from ..common.budget import UNLIMITED, Budget
from ..common.telling import tell
from ..common.types import Floats, Integers
from ..hyperparameters.learning import Learned, LearningRequest
from ..hyperparameters.noise import (
    LEAST_GAIN,
    Kind,
    NoiseModel,
    Residuals,
    calibrated,
    choose,
    learn_anew,
    log_likelihood,
)
from ..hyperparameters.outliers import neighbours_of, precisions_without_outliers
from . import by_number, exact_budget
from .cells import MAX_COLUMNS, Cells
from .fit import FittedLocal
from .in_memory import InMemory
from .left_out import left_out

ROWS_TO_CHOOSE, ROWS_TO_LEARN = 5000, 50_000  # of which residuals are found
FEWEST_ROWS, MOST_ROWS = 300, 2000  # in many columns, where neighbours share nothing
TIME_SHARE, OPERATIONS_PER_SECOND = 1 / 3, 1e10
"""Share of `time_budget` that left-out residuals may take there, and a nominal speed for the models of single rows: two
cores do 1e10 operations a second with 50 neighbours, and 2.5e10 with 800."""
ROWS_PER_SECOND = 15_000.0
"""Nominal number of left-out residuals per second where rows share cells: two cores find 25 000 (`real.py`)."""
GROUP = 64  # neighbours among them, which share their cells
FEWEST = 50  # samples, from which noise of another kind can be learnt; whether it is, is a matter of evidence
LEAST_NOISE = 1e-4  # of the signal variance, with which there can be outliers
HELPFUL = 0.9  # of their size, to which residuals next to outliers must fall without them
ROUNDS = 3  # of learning without outliers
FIELD_ROUNDS = 2  # of refits with noise of local size


@dataclass(frozen=True, eq=False)
class Learnt(InMemory):
    """Training data whose hyperparameters are known."""

    learned: Learned = field(kw_only=True)

    def learn(self, request: LearningRequest, rng: np.random.RandomState) -> Learned:  # noqa: ARG002
        """See `TrainingData`."""
        return self.learned


Refit = Callable[[InMemory], FittedLocal]


@dataclass(frozen=True, eq=False)
class Settled:
    """A fitted model and its noise.

    Attributes
    ----------
    fitted : FittedLocal
    model : NoiseModel
    noise : ndarray of shape (n,) or None
        Noise variance that the model states for each sample, where the fit took others; None where it took these.
    residuals : Residuals or None
        Of the samples that this was told from.
    rows : ndarray of shape (m,) or None
        Which samples those are.
    """

    fitted: FittedLocal
    model: NoiseModel
    noise: Floats | None = None
    residuals: Residuals | None = None
    rows: Integers | None = None


def settle(
    fitted: FittedLocal,
    data: InMemory,
    noise: str,
    likelihood: str,
    refit: Refit,
    rng: np.random.RandomState,
    budget: Budget = UNLIMITED,
) -> Settled:
    """What the noise of a fitted model is; see `settled_state`."""
    ones = np.ones(len(data.X))
    start = _State(fitted, data, ones, ones, refit)
    if data.y.shape[1] > 1:
        return Settled(fitted, NoiseModel())
    tell("noise", 0.0)
    state, model, _, rows = settled_state(start, noise, likelihood, rng, budget=budget)
    tell("noise", 1.0)
    return Settled(state.fitted, model, state.changed_noise(), None if rows is None else state.left_out(rows), rows)


class State(Protocol):
    """A fitted model with one target, whose noise is to be settled.

    `points` (n, d) are those of the training data in the units of fields, `outliers` (n,) relative precisions that the
    fit gave to samples as such, 1 for most, and `variances` those of function and noise.
    """

    @property
    def points(self) -> Floats: ...  # noqa: D102

    @property
    def outliers(self) -> Floats: ...  # noqa: D102

    @property
    def variances(self) -> tuple[float, float]: ...  # noqa: D102

    @property
    def cost_of_residual(self) -> float:
        """Operations of a left-out residual, where each takes a model of its own; else next to nothing."""

    @property
    def cost_of_refit(self) -> float:
        """Operations of fitting again, where that is a factorisation for all samples; else next to nothing."""

    def residuals(self, rows: Integers) -> Residuals:
        """Left-out residuals of some rows."""

    def without(self, outliers: Floats) -> Self:
        """Everything learnt again with such precisions (n,) of outliers."""

    def with_factors(self, factors: Floats) -> Self:
        """Fitted again with noise times `factors` (n,), at the same kernel; the noise stated is their mean size."""

    def gain_of_factors(self, factors: Floats, model: NoiseModel, rows: Integers) -> float:
        """Nats per point that left-out residuals of some rows gain, where noise times `factors` goes into the fit.

        The function is better known then, so that the size of the noise is found again.
        """


S = TypeVar("S", bound=State)


def settled_state(
    state: S,
    noise: str,
    likelihood: str,
    rng: np.random.RandomState,
    with_function: bool = True,
    budget: Budget = UNLIMITED,
) -> tuple[S, NoiseModel, Residuals | None, Integers | None]:
    """What the noise of a fitted model is, the model fitted with it, and the residuals and rows that told it.

    `noise`, `likelihood` and `with_function` are as `choose` takes them. Nothing is chosen for few samples, which have
    normal noise of one size unless another is asked for, nor without noise; then there are no residuals. When the time
    is up, the model stays as it is, and fewer residuals tell of the noise.

    Raises
    ------
    ValueError
        Where another is asked for, and there are too few samples to learn it from.
    """
    n, is_asked = len(state.points), noise == "local" or likelihood == "student"
    if is_asked and n < FEWEST:
        raise ValueError(
            f"noise='local' and likelihood='student' need at least {FEWEST} samples to learn from. Got {n}."
        )
    function_variance, noise_variance = state.variances
    if n < FEWEST or (noise == "constant" and likelihood == "gaussian") or noise_variance == 0:
        return state, NoiseModel(), None, None
    points = state.points
    affordable = TIME_SHARE * budget.seconds * OPERATIONS_PER_SECOND / state.cost_of_residual
    n_refits = TIME_SHARE * budget.seconds * exact_budget.SETTINGS.operations_per_second / state.cost_of_refit
    if points.shape[1] > MAX_COLUMNS:
        few = many = np.sort(rng.permutation(n)[: int(np.clip(affordable, FEWEST_ROWS, MOST_ROWS))])
    else:
        most = int(np.clip(TIME_SHARE * budget.seconds * ROWS_PER_SECOND, ROWS_TO_CHOOSE, ROWS_TO_LEARN))
        few, many = (sample_rows(points, size, rng) for size in (ROWS_TO_CHOOSE, most))
    # Where there is next to no noise, a value that is not likely is the function's.
    if likelihood != "gaussian" and noise_variance > LEAST_NOISE * function_variance and n <= affordable:
        state = _without_outliers(state, few, int(min(ROUNDS, n_refits)), budget)
    rows, residuals = few, state.residuals(few)
    kind = choose(residuals, noise, likelihood, rng, with_function)
    model, scales = NoiseModel(), residuals.variance + residuals.noise
    if not kind.is_plain:
        if len(many) > len(few) and not budget.is_over:
            rows, residuals = many, state.residuals(many)
        model, scales = learn_anew(residuals, kind)
        if model.field is not None and not model.of_all and not budget.is_over:
            rounds = int(min(FIELD_ROUNDS, n_refits))
            state, residuals, model, scales = _with_field(state, residuals, (model, scales), kind, few, many, rounds)
    return state, calibrated(model, residuals.values, scales), residuals, rows


def sample_rows(X: Floats, most: int, rng: np.random.RandomState) -> Integers:
    """All rows of points (n, d), or a sample of about `most` in groups of neighbours, which share their cells."""
    if len(X) <= most:
        return np.arange(len(X))
    cells = Cells.of(X, 1.0)
    order = KDTree(X, leaf_size=GROUP).get_arrays()[1] if cells is None else cells.order
    groups = np.array_split(np.asarray(order, dtype=np.int64), max(len(X) // GROUP, 1))
    chosen = rng.permutation(len(groups))[: max(most * len(groups) // len(X), 1)]
    return np.sort(np.concatenate([groups[i] for i in chosen]))


@dataclass(frozen=True, eq=False)
class _State:
    """A fitted model, the data, and how precise the fit took samples to be, relative to what the model states.

    `outliers` (n,) are 1 but for outliers, and `factors` (n,) those of noise of local size, or 1.
    """

    fitted: FittedLocal
    data: InMemory
    outliers: Floats
    factors: Floats
    refit: Refit

    @property
    def points(self) -> Floats:
        """See `State`."""
        points: Floats = self.fitted.frame.points(self.data.X)
        return points

    @property
    def variances(self) -> tuple[float, float]:
        """See `State`."""
        return self.fitted.learned.kernel.variance, self.fitted.learned.noise_variance

    @property
    def cost_of_residual(self) -> float:
        """See `State`."""
        predictor, kernel = self.fitted.predictor, self.fitted.frame.kernel
        count = predictor.plan.count
        if count is None or len(predictor.placement.centers):
            return 1.0
        return float(by_number.cost(kernel.n_scales, min(count, len(self.data.X)), 1))

    @property
    def cost_of_refit(self) -> float:
        """See `State`."""
        return exact_budget.operations(len(self.data.X)) if self.fitted.predictor.plan.is_exact else 1.0

    def stated_noise(self) -> Floats:
        """Noise variances (n,) of observations."""
        noise: Floats = self.fitted.frame.noise(self.data.X, self.data.weights)
        return noise

    def changed_noise(self) -> Floats | None:
        """The same where the fit took others."""
        return None if np.all(self.outliers == 1) and np.all(self.factors == 1) else self.stated_noise()

    def residuals(self, rows: Integers) -> Residuals:
        """See `State`; as answers are off, which are not those of the exact process.

        How far they are apart was measured, as a share of the variances stated. Where these turn out to be far too
        large, as without any noise, it is what decides how large they must be.
        """
        found = self.left_out(rows)
        share = 2 * (self.fitted.report.divergence or 0.0)
        off = np.sqrt(share * (found.variance + found.noise)) * self._normals[rows]
        return replace(found, values=found.values + off)

    def left_out(self, rows: Integers) -> Residuals:
        """Left-out residuals of some rows, as if answers were those of the exact process."""
        values, variance = self._left_out
        new = rows[np.isnan(values[rows])]
        if len(new):
            jobs = getattr(self.fitted.predictor.engine, "n_jobs", None)
            residuals, variance[new] = left_out(self.fitted, jobs, new)
            values[new] = residuals[:, 0]
        points = self.fitted.frame.points(self.data.X[rows])
        return Residuals(points, values[rows], variance[rows], self.stated_noise()[rows])

    @cached_property
    def _normals(self) -> Floats:
        """Standard normal numbers (n,), always the same."""
        return np.random.RandomState(0).standard_normal(len(self.data.X))

    @cached_property
    def _left_out(self) -> tuple[Floats, Floats]:
        """Residuals (n,) and variances (n,) of the rows that were asked for; NaN for others."""
        return np.full(len(self.data.X), np.nan), np.full(len(self.data.X), np.nan)

    def without(self, outliers: Floats) -> _State:
        """See `State`."""
        return self._refitted(InMemory, outliers, self.factors)

    @cached_property
    def _refits(self) -> dict[bytes, _State]:
        """Fits with factors that were tried."""
        return {}

    def with_factors(self, factors: Floats) -> _State:
        """See `State`."""
        key = factors.tobytes()
        if key not in self._refits:
            self._refits[key] = self._fitted_with(factors)
        return self._refits[key]

    def _fitted_with(self, factors: Floats) -> _State:
        mean = float(np.mean(factors))
        learned = replace(self.fitted.learned, noise_variance=self.fitted.learned.noise_variance * mean)

        def known(X: Floats, y: Floats, weights: Floats | None, *drift: Any) -> InMemory:
            return Learnt(X, y, weights, *drift, learned=learned)

        return self._refitted(known, self.outliers, factors / mean)

    def gain_of_factors(self, factors: Floats, model: NoiseModel, rows: Integers) -> float:
        """See `State`; by local models before and after, since an exact mean takes long and gains the same.

        Where there is one model for all samples, the fit with these factors serves.
        """
        if self.fitted.predictor.plan.is_exact:
            again = self.with_factors(factors)
            return log_likelihood(model, again.residuals(rows)) - log_likelihood(model, self.residuals(rows))
        weights = self.outliers / factors
        weights = weights if self.data.weights is None else weights * self.data.weights
        before = self.fitted if self.fitted.exact_mean is None else replace(self.fitted, exact_mean=None)
        after = before.updated(self.data.X, self.data.targets, weights, True)
        old, new = (
            (self if fitted is self.fitted else replace(self, fitted=fitted)).residuals(rows)
            for fitted in (before, after)
        )
        return log_likelihood(model, new) - log_likelihood(model, old)

    def _refitted(self, make: Callable[..., InMemory], outliers: Floats, factors: Floats) -> _State:
        weights = outliers / factors
        weights = weights if self.data.weights is None else weights * self.data.weights
        data = make(self.data.X, self.data.y, weights, self.data.drift, self.data.groups)
        return _State(self.refit(data), self.data, outliers, factors, self.refit)


def _without_outliers(state: S, rows: Integers, rounds: int, budget: Budget) -> S:
    """Learnt again with gross outliers at next to no weight, as often as they change; the same if that is no help."""
    everything, again = np.arange(len(state.points)), state
    for _ in range(rounds):
        # The sample does for finding that there are none.
        if budget.is_over or _precisions(again.residuals(rows)) is None:
            break
        outliers = _precisions(again.residuals(everything))
        if outliers is None or np.array_equal(outliers < 1, again.outliers < 1):
            break
        again = again.without(outliers)
    if again is state:
        return state
    # Neighbours of an outlier are better predicted without it, and those of a peak are not.
    near = neighbours_of(state.points, again.outliers < 1)
    after, before = (np.mean(np.abs(found.residuals(near).values)) for found in (again, state))
    return again if after < HELPFUL * before else state


def _precisions(residuals: Residuals) -> Floats | None:
    standardised = residuals.values / np.sqrt(residuals.variance + residuals.noise)
    return precisions_without_outliers(standardised)


def _with_field(
    state: S,
    residuals: Residuals,
    learnt: tuple[NoiseModel, Floats],
    kind: Kind,
    few: Integers,
    many: Integers,
    rounds: int,
) -> tuple[S, Residuals, NoiseModel, Floats]:
    """Fitted again with noise of local size at the same kernel, as long as that makes left-out residuals likelier."""
    model, scales = learnt
    for _ in range(rounds):
        points = state.points
        factors = model.variance_factors(points)
        judges = few if points.shape[1] <= MAX_COLUMNS else few[::2]
        if state.gain_of_factors(factors, model, judges) < LEAST_GAIN:
            break
        state = state.with_factors(factors)
        residuals = state.residuals(many)
        model, scales = learn_anew(residuals, kind)
        if model.field is None:
            break
    return state, residuals, model, scales
