"""What a local model chose, why, and how far it is from the exact Gaussian process, in numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ..common.types import Floats
from .summary import summarise_report
from .verdict import verdict


@dataclass(frozen=True)
class Report:
    """The account a fitted `LocalGPRegressor` or `FeatureGPRegressor` gives of itself; print it.

    Attributes
    ----------
    n_samples, n_features : int
    method : str
        What was chosen, in words.
    reason : str
    divergence : float or None
        Mean KL divergence per test point from the exact Gaussian process, KL(model || exact), in nats, of noisy
        observations, at the hyperparameters found: what was measured among the data or in gaps, whichever is more, and
        what the iteration for an exact mean leaves; 0 for the exact process, None where it was not measured.
    divergence_error : float or None
        Its standard error.
    divergence_upper : float or None
        Its upper 95 % confidence bound, which decides whether the tolerance is met.
    divergence_of_function : float or None
        The same distance of what `predict` returns: the function without noise. It is never smaller than that of
        observations, and `tolerance` allows ten times as much. A variance below 1e-6 of the signal variance counts as
        so much.
    divergence_of_function_upper : float or None
        Its upper 95 % confidence bound, which has to be within ten times the tolerance.
    verified : bool
        Whether probes were held against the exact process, or, in up to three columns and for streams, against
        neighbourhoods whose own error is bounded and added. Where not, the tolerance counts as not met.
    divergence_near_data : float or None
        What was measured at probes among the data, half of it for the targets and half for draws of the process where
        there are features; None in reports of earlier versions.
    divergence_in_gaps : float or None
        The same at places that are farther from the data than these are from one another; None where there are none,
        or they are not known (more than three columns, sources).
    divergence_largest : float or None
        The largest that was measured around any probe.
    tolerance : float or None
    tolerance_met : bool or None
    n_probes : int
    n_centers : int
    n_kernel_space : int
        Centres solved in kernel space.
    n_components : int
        Features per centre, 0 where there are none.
    spacing, radius : float or None
        In length scales; None means a single centre, and all points.
    median_neighbours : int
    least_neighbours : int
        So many nearest points are taken where the radius holds fewer, and everywhere if there is no radius.
    degrees : tuple of int
        Of the Taylor features, one per length scale; empty where the features are others, or there are none.
    hyperparameters : dict
    variance_shares : tuple of float
        Share of each length scale in the signal variance.
    seconds : dict
        Time per stage.
    model_bytes : int
        Memory of the fitted model, training data included.
    served : float
        Share of the samples that a centre is near to; for the others one is opened when they are asked for.
    n_global : int
        Features of long scales over the whole domain, 0 where there are none.
    exact_mean : bool
        Whether the mean is that of the exact process, by iteration, and local models give the variances alone.
    kind : str
        Of model, in words.
    n_measured : int
        Number of samples when the distance was measured, where data were taken in later; else 0.
    columns : tuple of str
        What each of the length scales of a Gaussian belongs to, where there are several or it is the earth.
    extents : tuple of float
        Range of the data along each of these.
    metric : str
        "euclidean", or "sphere" where the first length scale is in km.
    rotation : str
        Directions of the axes that length scales belong to, in words; empty where these are the columns.
    noise : str
        What left-out residuals say of the noise, in words; empty where they were not asked.
    target : str
        Transformation of the target, in words; empty where there is none.
    kernel : str
        Family of the kernel, in words, and what it was compared with; empty for the Gaussian one.
    ard_reason : str
        Whether columns share a length scale, and why, in words; empty where the data were not asked.
    standard_errors : tuple of float
        Of the logarithms of all length scales, signal variances and the noise variance; NaN where one was given or the
        data do not tell it, empty where nothing was learnt.
    silent : tuple of int
        Columns that were found to have no effect, by number.
    drift : tuple of (name, value, standard error)
        Coefficients of the drift for the first target; empty where it has no columns.
    host : str
        Where tensors were computed with, in words; empty for arrays, and where they stayed on their device.
    of_target : str
        Which of several targets this is about, in words; empty where there is one, or one model serves all.
    left_out : dict
        Scores of left-out predictions of (a sample of) the training data: `rmse`, `nll`, `crps`, `coverage` of 95 %
        intervals, and the number of `samples`; empty where they were not asked.
    settled : bool
        Whether learning ended at a maximum of the likelihood, or had nothing to learn.
    variogram : tuple of (distance, ratio), or None
        Where the variogram of the data is farther from that of the model than chance allows: the distance between rows,
        in shortest length scales, and the data's semivariance over the model's. None where they agree, or were not
        compared: heavy-tailed noise, sources and tensors.
    trials : tuple of (label, divergence, cost) of the candidates measured
    """

    n_samples: int
    n_features: int
    method: str
    reason: str
    divergence: float | None
    divergence_error: float | None
    tolerance: float | None
    tolerance_met: bool | None
    n_probes: int
    n_centers: int
    n_kernel_space: int
    n_components: int
    spacing: float | None
    radius: float | None
    median_neighbours: int
    hyperparameters: dict[str, float | Floats | None]
    seconds: dict[str, float]
    model_bytes: int
    least_neighbours: int = 0
    degrees: tuple[int, ...] = ()
    variance_shares: tuple[float, ...] = (1.0,)
    served: float = 1.0
    n_measured: int = 0
    n_global: int = 0
    exact_mean: bool = False
    kind: str = "Local Gaussian process"
    divergence_upper: float | None = None
    divergence_of_function: float | None = None
    divergence_of_function_upper: float | None = None
    verified: bool = True
    divergence_near_data: float | None = None
    divergence_in_gaps: float | None = None
    divergence_largest: float | None = None
    columns: tuple[str, ...] = ()
    extents: tuple[float, ...] = ()
    metric: str = "euclidean"
    rotation: str = ""
    noise: str = ""
    target: str = ""
    kernel: str = ""
    standard_errors: tuple[float, ...] = ()
    silent: tuple[int, ...] = ()
    ard_reason: str = ""
    drift: tuple[tuple[str, float, float], ...] = ()
    host: str = ""
    of_target: str = ""
    left_out: dict[str, float] = field(default_factory=dict)
    settled: bool = True
    variogram: tuple[float, float] | None = None
    trials: tuple[tuple[str, float, float], ...] = field(default=(), repr=False)

    @staticmethod
    def of_targets(reports: Sequence[Report]) -> Report:
        """That of the target farthest from the exact process, with the times and the memory of all targets."""
        distances = [-1.0 if report.divergence is None else report.divergence for report in reports]
        worst = distances.index(max(distances))
        met = [report.tolerance_met for report in reports]
        stages = {stage: None for report in reports for stage in report.seconds}
        which = f"target {worst} of {len(reports)} targets, counted from 0"
        if distances[worst] > 0:
            which += ", which is the farthest from the exact process"
        return replace(
            reports[worst],
            of_target=which,
            tolerance_met=None if None in met else all(met),
            seconds={stage: sum(report.seconds.get(stage, 0.0) for report in reports) for stage in stages},
            model_bytes=sum(report.model_bytes for report in reports),
        )

    def __str__(self) -> str:
        return str(summarise_report(self))

    def _repr_html_(self) -> str:
        """Show a table in notebooks."""
        return summarise_report(self).to_html()

    @property
    def verdict(self) -> str:
        """One sentence: fine, or what is wrong and what to do."""
        return verdict(self)

    @property
    def divergence_of_trial(self) -> float | None:
        """What the trial that was chosen has in `trials`."""
        return self.divergence if self.divergence_near_data is None else self.divergence_near_data

    @property
    def is_exact(self) -> bool:
        """Whether this is the exact Gaussian process: all points, no features, and no distance from it."""
        return self.divergence == 0 and self.radius is None and not self.n_components and not self.least_neighbours
