"""The pipeline: from training data, wherever they are, and a request to a fitted local model.

Hyperparameters are learnt, an approximation is chosen, centres are placed, models are made. Data in memory, in a source
and on a device go through the same steps; what differs is behind `TrainingData` and the engine of the predictor.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from ..common import memory
from ..common.arrays import Array, as_doubles, is_tensor, namespace, on_host, weighted_mean
from ..common.types import Floats
from ..common.warnings import warn
from ..hyperparameters.learning import Learned, LearningRequest
from ..reporting.report import Report
from ..solvers.drift import Coefficients
from . import by_landmarks, choices, exact_budget, graded, mixture
from .centers import Placement
from .choices import Candidate, Choice, exact
from .distance import SETTINGS, Distance
from .drift import find_coefficients
from .engine import Engine, RaggedEngine
from .frame import Frame
from .global_part import GlobalPart
from .iteration import ExactMean, solve_mean
from .neighbourhoods import TrainingSet
from .predictor import LocalPredictor, Predictor
from .request import LocalRequest

if TYPE_CHECKING:
    from .in_memory import InMemory

Random = np.random.RandomState


class TrainingData(Protocol):
    """Training data, wherever they are: the steps of the pipeline that depend on it."""

    @property
    def n_features(self) -> int:
        """Number of columns."""

    @property
    def n_drift(self) -> int | None:
        """Number of drift columns, which are further targets; None where the mean of the targets is taken out."""

    @property
    def groups(self) -> tuple[slice, ...]:
        """Drift columns whose coefficients share a prior variance, which is to be learnt."""

    @property
    def mean(self) -> Array:
        """What is taken out of the targets: their weighted mean (k,), or with drift columns zeros (k + p,)."""

    @property
    def weight(self) -> float:
        """Sum of the sample weights."""

    def learn(self, request: LearningRequest, rng: Random) -> Learned:
        """Hyperparameters."""

    def in_frame(self, frame: Frame) -> FramedData:
        """The same in length scales, ready to be approximated."""


class FramedData(Protocol):
    """Training data in length scales: the rest of the pipeline."""

    @property
    def part(self) -> GlobalPart | None:
        """Long scales that local models leave out."""

    @property
    def n_in_memory(self) -> float:
        """Number of samples, where all are at hand; infinite where they are not."""

    @property
    def for_mixtures(self) -> TrainingSet | None:
        """Samples that tell how many Gaussians another kernel takes; None where they are not at hand."""

    def split(self, request: LocalRequest, rng: Random) -> FramedData:
        """The same with the long scales set apart, where there are any."""

    def prefers_exact_mean(self, request: LocalRequest) -> bool:
        """Whether an exact mean is known to be cheaper than what neighbours could do."""

    def solve_mean(self, request: LocalRequest, rng: Random) -> ExactMean | None:
        """The mean of the exact process; None where that is out of reach."""

    def choose(self, request: LocalRequest, rng: Random, exact_mean: bool) -> Choice:
        """Spacing, neighbourhoods and features, for variances alone where the mean is exact."""

    def place(self, request: LocalRequest, choice: Choice, rng: Random) -> tuple[Placement, float]:
        """Centres, and the share of the samples that are as near to one as the measurements assume."""

    def fit(self, request: LocalRequest, candidate: Candidate, placement: Placement) -> Predictor:
        """Models around the centres."""


class Clock:
    """Seconds that the stages took."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self.start = self._last = time.perf_counter()

    def lap(self, stage: str) -> None:
        """End a stage."""
        now = time.perf_counter()
        self.laps[stage] = now - self._last
        self._last = now


@dataclass(frozen=True, eq=False)
class FittedLocal:
    """A fitted local model.

    Attributes
    ----------
    learned : Learned
        Kernel and noise variance, and how they were found.
    frame : Frame
        Units of the predictor.
    y_mean : array of shape (k,)
        Mean of the targets seen so far.
    weight : float
        Sum of the sample weights seen so far.
    spacing : float or None
        Covering radius of the centres, in length scales.
    predictor : Predictor
    report : Report
    global_part : GlobalPart or None
        Long scales, where local models are left with the short ones.
    exact_mean : ExactMean or None
        The mean, where it is not left to the local models.
    drift : Coefficients or None
        Of drift columns, which are targets after those given, `y` being (n, k + p) here; None without a drift.
    """

    learned: Learned
    frame: Frame
    y_mean: Array
    weight: float
    spacing: float | None
    predictor: Predictor
    report: Report
    global_part: GlobalPart | None = None
    exact_mean: ExactMean | None = None
    drift: Coefficients | None = None

    @property
    def centers(self) -> Array:
        """Centres in the units of the data, (C, d)."""
        return self.frame.positions(self.predictor.placement.centers)

    def predict(self, X: Array, with_variance: bool, blend: bool, columns: Floats | None = None) -> tuple[Array, Array]:
        """Means (m, k), less the mean of the targets, and latent variances (m,) at points (m, d).

        With `blend` they are continuous from centre to centre. With a drift, `columns` (m, p) are those of the points.
        """
        mean, variance = self.predict_targets(X, with_variance, blend)
        if self.drift is None or columns is None:
            return mean, variance
        k = mean.shape[1] - self.drift.size
        return self.drift.completed(mean[:, :k], variance, columns - mean[:, k:], with_variance)

    def predict_targets(self, X: Array, with_variance: bool, blend: bool) -> tuple[Array, Array]:
        """The same by the process alone, at known coefficients, for all targets, drift columns included."""
        mean, variance = self.predict_all(self.frame.points(X), with_variance, blend)
        if self.drift is not None:  # nothing was taken off
            return mean[:, :-1], variance
        # Targets were stored less an offset, and the last column answers for a constant: so any mean can be taken out.
        return mean[:, :-1] - mean[:, -1:] * (self.y_mean - self.frame.offset), variance

    def predict_all(self, points: Array, with_variance: bool, blend: bool) -> tuple[Array, Array]:
        """Means (m, k + 1) of all targets as they are stored, and latent variances (m,), at points in length scales."""
        if self.exact_mean is not None and not with_variance:
            return self.exact_mean(points), namespace(points).zeros_like(points[:, 0])
        if self.exact_mean is not None and self.exact_mean.variances is not None:
            return self.exact_mean(points), self.exact_mean.variance(points)
        if self.exact_mean is not None and self.global_part is None:
            alone = self.predictor.variances_alone(points, blend)
            if alone is not None:
                return self.exact_mean(points), alone
        predict = self.predictor.predict_blended if blend else self.predictor.predict
        mean, variance = predict(points, with_variance)
        if self.global_part is not None:
            mean, variance = self.global_part.completed(points, mean, variance)
        return (mean if self.exact_mean is None else self.exact_mean(points)), variance

    def updated(self, X: Array, y: Array, weights: Array | None, forget: bool) -> FittedLocal:
        """The model with more points (n, d), targets (n, k) and weights (n,); with `forget`, with these alone."""
        rows = self.frame.rows(X, y, weights)
        parts: dict[str, Any] = {}
        if self.global_part is None and self.exact_mean is None:
            predictor = self.predictor.with_points("partial_fit needs", 0).updated(*rows, forget)
        else:
            predictor, parts = self._updated_whole(*rows, forget)
        if self.drift is not None:
            whole = replace(self, predictor=predictor, **parts)
            parts["drift"] = replace(whole.found_coefficients(self.drift.size), prior=self.drift.prior)
        before, added = 0.0 if forget else self.weight, float(len(y) if weights is None else weights.sum())
        mean = self.y_mean  # stays where all was forgotten
        if added > 0 and self.drift is None:
            mean = (mean * before + weighted_mean(y, weights) * added) / (before + added)
        result = replace(self.with_predictor(predictor, mean, before + added), **parts)
        return result if (self.exact_mean is None) == (result.exact_mean is None) else result._without_exact_mean()

    def of_other_rows(self, data: InMemory) -> FittedLocal:
        """The model of other data at these hyperparameters, with these centres and this approximation.

        What is taken out of the targets, coefficients of a drift and variances of groups are found from the new data,
        whose drift may have other columns.
        """
        p, k = data.n_drift, data.y.shape[1]
        drift = None if p is None else Coefficients(np.zeros((p, p)), np.zeros((p, k)))
        blank = replace(self, frame=replace(self.frame, offset=data.mean), y_mean=data.mean, drift=drift)
        return blank.updated(data.X, data.targets, data.weights, True).with_group_variances(data.groups)

    def with_group_variances(self, groups: Sequence[slice]) -> FittedLocal:
        """The model with a learnt prior variance for each group of drift columns."""
        if self.drift is None or not groups:
            return self
        unit = self.learned.kernel.variance + self.learned.noise_variance
        return replace(self, drift=self.drift.with_learnt_prior(groups, unit))

    def _without_exact_mean(self) -> FittedLocal:
        """The model after an exact mean was lost: the report no longer claims it, nor any distance."""
        warn(
            "The exact mean could not be solved for again with the new samples: means are now those of local models, "
            "which were chosen for variances alone. Fit again to all samples."
        )
        report = replace(
            self.report,
            exact_mean=False,
            divergence=None,
            divergence_error=None,
            divergence_upper=None,
            divergence_of_function=None,
            divergence_of_function_upper=None,
            divergence_near_data=None,
            divergence_in_gaps=None,
            divergence_largest=None,
            tolerance=None,
            tolerance_met=None,
        )
        return replace(self, report=report)

    def found_coefficients(self, n_drift: int) -> Coefficients:
        """What the data say of so many drift columns."""
        kernel = self.frame.kernel if self.global_part is None else self.global_part.kernel
        n_jobs = getattr(self.predictor.engine, "n_jobs", None)
        given = (kernel, self.global_part, self.exact_mean, self.predictor, self.training_set())
        return find_coefficients(*given, n_drift, n_jobs)

    def training_set(self) -> TrainingSet:
        """Points, targets less the offset and noise variances, on the host."""
        data, part = self.predictor.with_points("this needs", 0).data, self.global_part
        if part is None and isinstance(data, TrainingSet) and data.y.dtype == np.float64:
            return data
        y = data.y if part is None else part.original(data.X, data.y)
        return TrainingSet.of(*(as_doubles(values) for values in (data.X, y[:, :-1], data.noise)))

    def on_host(self, n_jobs: int | None) -> FittedLocal:
        """The same model on NumPy arrays, its local models made again in double precision."""
        predictor = self.predictor.with_points("this needs", 0)
        data = predictor.data
        arrays = TrainingSet(as_doubles(data.X), as_doubles(data.y), as_doubles(data.noise))
        tensors = {name: on_host(value) for name, value in vars(predictor.placement).items() if is_tensor(value)}
        given: dict[str, Any] = {name: as_doubles(v) if v.dtype.kind == "f" else v for name, v in tensors.items()}
        made = LocalPredictor.fit(
            predictor.plan,
            arrays,
            replace(predictor.placement, **given),
            predictor.open_centers,
            RaggedEngine(n_jobs),
            predictor.depth,
        )
        frame = replace(self.frame, offset=as_doubles(self.frame.offset))
        return replace(self, frame=frame, y_mean=as_doubles(self.y_mean), predictor=made)

    def _updated_whole(self, X: Array, y: Array, noise: Array, forget: bool) -> tuple[LocalPredictor, dict[str, Any]]:
        """Predictor with more points, and what knows all data: long scales, and the exact mean."""
        predictor, part = self.predictor.with_points("partial_fit needs", 0), self.global_part
        old = predictor.data
        xp, n_before = namespace(X), 0 if forget else len(old.X)
        if n_before:
            before = old.y if part is None else part.original(old.X, old.y)
            X, noise = xp.concat([old.X, X]), xp.concat([old.noise, noise])
            y = xp.concat([before[:, :-1], y])
        n_jobs = getattr(predictor.engine, "n_jobs", None)
        on_host = TrainingSet.of(as_doubles(X), as_doubles(y), as_doubles(noise))
        data = predictor.engine.training_set(X, y, noise, predictor.plan)
        if part is not None:
            part = part.updated(on_host, n_before, n_jobs)
            data = replace(data, y=part.targets(data.X, data.y))
        exact_mean = self.exact_mean
        if exact_mean is not None:
            kernel, tolerance = exact_mean.kernel, self.report.tolerance or 1e-3
            given = (kernel, part, on_host, tolerance, np.random.RandomState(0), n_jobs, None)
            exact_mean = solve_mean(*given, on_host.y.shape[1] - 1 - (0 if self.drift is None else self.drift.size))
        p = predictor
        placement = graded.covering(p.placement, as_doubles(X), p.plan.kernel, p.plan.count, n_jobs)
        predictor = LocalPredictor.fit(p.plan, data, placement, p.open_centers, p.engine, p.depth)
        return replace(predictor, is_updated=True), {"global_part": part, "exact_mean": exact_mean}

    def with_predictor(self, predictor: Predictor, y_mean: Array, weight: float) -> FittedLocal:
        """The model after data were taken in; the report says that the distance was measured before."""
        before = self.report
        report = replace(
            before,
            n_samples=predictor.n_samples,
            n_kernel_space=predictor.n_kernel_space,
            median_neighbours=predictor.median_neighbours(),
            model_bytes=predictor.n_bytes,
            n_measured=before.n_measured or before.n_samples,
        )
        return replace(self, predictor=predictor, y_mean=y_mean, weight=weight, report=report)

    def with_engine(self, engine: Engine) -> FittedLocal:
        """The same model, computed with by another engine, as one with fewer threads."""
        return replace(self, predictor=replace(self.predictor, engine=engine))

    def rescaled(self, units: Floats) -> FittedLocal:
        """The model for data whose columns are multiplied by `units` (d,), with the same predictions."""
        learned = self.learned.rescaled(units)
        hyperparameters = {**self.report.hyperparameters, "length_scale": learned.kernel.plain()[0]}
        return replace(
            self,
            learned=learned,
            frame=self.frame.rescaled(units),
            report=replace(self.report, hyperparameters=hyperparameters),
        )


class _Chosen(NamedTuple):
    """How the exact process is approximated, or that it is not."""

    frame: Frame
    framed: FramedData
    choice: Choice
    exact_mean: ExactMean | None = None


def fit(data: TrainingData, request: LocalRequest, rngs: tuple[Random, ...], clock: Clock | None = None) -> FittedLocal:
    """Learn, choose, place, make models, and say what was done; `rngs` are for the first three."""
    clock = clock or Clock()
    learned = data.learn(request.learning, rngs[0])
    clock.lap("learning")
    frame = Frame.of(learned.kernel, learned.noise_variance, data.mean)
    framed = data.in_frame(frame)
    if request.is_free and exact_budget.is_preferred(framed.n_in_memory, data.n_features, request.budget.seconds):
        chosen = _exactly(data, learned, frame, choices.without_measuring(learned.kernel, int(framed.n_in_memory)))
    else:
        chosen = _approximation(data, request, learned, frame, rngs[1], clock)
    framed, choice, exact_mean = chosen.framed, chosen.choice, chosen.exact_mean
    placement, covered = framed.place(request, choice, rngs[2])
    clock.lap("centres")
    predictor = framed.fit(request, choice.candidate, placement)
    clock.lap("fitting")
    spacing = choice.candidate.finite_spacing
    _warn(request, choice, covered, framed.n_in_memory)
    fitted = FittedLocal(
        learned,
        chosen.frame,
        data.mean,
        data.weight,
        spacing,
        predictor,
        _report(request, learned, choice, predictor, covered, clock, data.n_features, framed.part, exact_mean),
        framed.part,
        exact_mean,
    )
    if data.n_drift is not None:
        fitted = replace(fitted, drift=fitted.found_coefficients(data.n_drift)).with_group_variances(data.groups)
        clock.lap("drift")
    return fitted


def _approximation(
    data: TrainingData, request: LocalRequest, learned: Learned, frame: Frame, rng: Random, clock: Clock
) -> _Chosen:
    """The cheapest approximation that is close enough, or the exact process where none is and it is affordable."""
    framed, of_kernel = data.in_frame(frame), Distance()
    samples = framed.for_mixtures if learned.kernel.family != "gaussian" and request.is_free else None
    if samples is not None:
        frame, of_kernel = mixture.refined(learned.kernel, frame, samples, request.tolerance, not data.n_drift)
        framed = data.in_frame(frame)
        clock.lap("kernel")
    framed = framed.split(request, rng)
    if framed.part is not None:
        clock.lap("long scales")
    is_tried = framed.prefers_exact_mean(request)
    exact_mean = framed.solve_mean(request, rng) if is_tried else None
    if exact_mean is not None:
        clock.lap("iteration")
    if exact_mean is None:
        choice = framed.choose(request, rng, exact_mean=False)
    else:
        choice, exact_mean = _beside(exact_mean, framed, request, rng)
    clock.lap("tuning")
    if exact_mean is None and not choice.met and not is_tried:
        exact_mean = framed.solve_mean(request, rng)
        clock.lap("iteration")
        if exact_mean is not None:
            choice, exact_mean = _beside(exact_mean, framed, request, rng)
            clock.lap("tuning of variances")
    if choice.near_data is not None:
        if exact_mean is not None:
            choice = choice.leaving(exact_mean.distance(choice.inverse_variance), request.tolerance)
        choice = choice.leaving(of_kernel, request.tolerance)
    affordable = exact_budget.answers_up_to(request.budget.seconds)
    if not choice.met and request.is_free and framed.n_in_memory <= affordable:
        choice = choices.as_a_last_resort(frame.kernel, choice)
    if request.progress is not None and choice.trials and choice.distance is not None:
        request.progress("tuning", 1.0, choice.distance.binding.mean)
    if not (request.is_free and choice.candidate.plan.is_exact):
        return _Chosen(frame, framed, choice, exact_mean)
    return _exactly(data, learned, frame, choice)


def _beside(mean: ExactMean, framed: FramedData, request: LocalRequest, rng: Random) -> tuple[Choice, ExactMean]:
    """How variances are found beside an exact mean, and the mean with what they need."""
    if mean.variances is None or not request.is_free:
        return framed.choose(request, rng, exact_mean=True), replace(mean, variances=None)
    return by_landmarks.choose(mean.kernel, request.tolerance, request.budget, mean)


def _exactly(data: TrainingData, learned: Learned, frame: Frame, choice: Choice) -> _Chosen:
    """The exact process, with the kernel itself where a mixture of Gaussians stood for it."""
    frame = frame.with_kernel(learned.kernel)
    choice = replace(choice, candidate=exact(frame.kernel), left=())
    return _Chosen(frame, data.in_frame(frame), choice)


def _is_measured(request: LocalRequest, choice: Choice, covered: float) -> bool:
    return choice.near_data is not None and (covered == 1 or request.open_centers)


def _warn(request: LocalRequest, choice: Choice, covered: float, n: float) -> None:
    """Warn where the distance from the exact process is not known or too large."""
    if choice.distance is not None and not _is_measured(request, choice, covered):
        warn(
            f"{1 - covered:.2g} of the samples are farther from all centres than the measurements assume, and "
            "open_centers=False opens none for them: how far the model is from the exact Gaussian process is not "
            "known. More centres, or open_centers=True, would tell."
        )
    elif not choice.met and choice.distance is not None:
        warn(_why_not_met(request, choice, choice.distance, n))


def _why_not_met(request: LocalRequest, choice: Choice, distance: Distance, n: float) -> str:
    """In words, why the tolerance does not count as met, and what to do."""
    observations, function = distance.observations, distance.function
    if not choice.verified:
        return (
            f"How far predictions are from the exact Gaussian process is not verified{_limit(request, n)}: beside "
            f"larger neighbourhoods they are {observations.mean:.1e} nats of KL per test point from it, but with so "
            "many columns these are not the exact process. A larger time_budget and memory_budget, or fewer rows, "
            "allow the exact process; certify(X) tells the distance at some places."
        )
    limit = SETTINGS.function_ratio * request.tolerance
    return (
        f"tolerance={request.tolerance:g} could not be met{_limit(request, n)}: predictions are "
        f"{observations.mean:.1e} nats of KL per test point from the exact Gaussian process as noisy observations "
        f"(at most {observations.upper:.1e} with 95 % confidence), and {function.mean:.1e} as values of the function "
        f"without noise (at most {function.upper:.1e}, where {limit:g} is the limit). A larger tolerance accepts "
        "that; radius, spacing and features can be set by hand."
    )


def _limit(request: LocalRequest, n: float) -> str:
    """In words, the budget that kept `n` rows from a better answer; empty where it was neither."""
    if request.budget.is_over:
        return f" within time_budget={request.budget.seconds:g} s"
    if exact_budget.memory_is_short(n, request.budget.seconds):
        return f" within memory_budget={memory.readable(memory.budget())}"
    return ""


def _report(
    request: LocalRequest,
    learned: Learned,
    choice: Choice,
    predictor: Predictor,
    covered: float,
    clock: Clock,
    n_features: int,
    part: GlobalPart | None,
    exact_mean: ExactMean | None,
) -> Report:
    plan, kernel = predictor.plan, learned.kernel
    is_measured = _is_measured(request, choice, covered)
    distance = choice.distance if is_measured else None
    length_scale, signal_variance = kernel.plain()
    hyperparameters: dict[str, Any] = {
        "length_scale": length_scale,
        "signal_variance": signal_variance,
        "noise_variance": learned.noise_variance,
    }
    return Report(
        n_global=0 if part is None else part.n_components,
        kernel=learned.kernel_in_words(),
        settled=learned.converged,
        standard_errors=() if learned.standard_errors is None else tuple(learned.standard_errors.tolist()),
        exact_mean=exact_mean is not None,
        n_samples=predictor.n_samples,
        n_features=n_features,
        method="the exact Gaussian process" if plan.is_exact else choice.candidate.label,
        reason=choice.reason,
        divergence=None if distance is None else distance.observations.mean,
        divergence_error=None if distance is None else distance.observations.error,
        divergence_upper=None if distance is None else distance.observations.upper,
        divergence_of_function=None if distance is None else distance.function.mean,
        divergence_of_function_upper=None if distance is None else distance.function.upper,
        divergence_near_data=choice.near_data.observations.mean if is_measured and choice.near_data else None,
        divergence_in_gaps=choice.gaps.distance.observations.mean if is_measured and choice.gaps is not None else None,
        verified=choice.verified,
        divergence_largest=choice.largest if is_measured else None,
        tolerance=request.tolerance if is_measured else None,
        tolerance_met=choice.met if is_measured else None,
        n_probes=choice.n_probes,
        n_centers=len(predictor.placement.centers),
        n_kernel_space=predictor.n_kernel_space,
        n_components=0 if plan.features is None else plan.features.n_components,
        spacing=choice.candidate.finite_spacing,
        radius=plan.radius,
        median_neighbours=predictor.median_neighbours(),
        least_neighbours=plan.count or 0,
        degrees=() if plan.features is None else plan.features.degrees,
        hyperparameters=hyperparameters,
        variance_shares=tuple((kernel.variances / kernel.variance).tolist()),
        seconds=clock.laps,
        model_bytes=predictor.n_bytes,
        served=covered,
        trials=tuple((t.candidate.label, t.distance.observations.mean, t.cost) for t in choice.trials),
    )
