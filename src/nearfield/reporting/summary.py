"""What a fitted model says of itself: the words that printing, notebooks, the command line and the page share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .numbers import counted, number

if TYPE_CHECKING:
    from .report import Report

HYPERPARAMETERS = ("length_scale", "signal_variance", "noise_variance")
FEATURES = "Gaussian process"  # with one feature map for all data
EXACT_MEAN = "that of the exact Gaussian process, by iteration; local models give the variances"
EXACT = "none: this is the exact Gaussian process"


@dataclass(frozen=True)
class Summary:
    """A title, and lines of a name and a text each."""

    title: str
    lines: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        return "\n".join([self.title, *(f"  {name:<15} {text}" for name, text in self.lines)])

    def __getitem__(self, name: str) -> str:
        return dict(self.lines)[name]


def summarise(model: Any) -> Summary:
    """Summary of a fitted model: from its `report_` where it has one, otherwise from its other attributes."""
    report = getattr(model, "report_", None)
    if report is not None:
        return summarise_report(report)
    method, distance = "the exact Gaussian process", EXACT
    sums = getattr(model, "statistics_", None)
    if sums is not None:
        method = f"one feature map for all points: {counted(len(sums.gram), 'feature')}, {counted(sums.n, 'sample')}"
        distance = "not measured, since the data came from a source"
    values = {name: getattr(model, f"{name}_") for name in HYPERPARAMETERS}
    return Summary(
        f"Gaussian process of {counted(model.n_features_in_, 'column')}",
        (("method", method), ("distance", distance), ("hyperparameters", _hyperparameters(values))),
    )


def summarise_report(report: Report) -> Summary:
    """Summary of a model, from its report."""
    if report.kind == FEATURES:  # there are no centres to speak of
        lines = (("method", report.method), ("distance", _distance(report)))
        hyperparameters = ("hyperparameters", _hyperparameters(report.hyperparameters))
        return Summary(f"{report.kind} of {counted(report.n_features, 'column')}", (*lines, hyperparameters))
    return Summary(
        f"{report.kind} on {report.n_samples} samples of {counted(report.n_features, 'column')}",
        (
            ("method", report.method),
            ("chosen because", report.reason),
            ("distance", _distance(report)),
            ("hyperparameters", _hyperparameters(report.hyperparameters)),
            *([("length scales", _scales(report))] if len(report.variance_shares) > 1 else []),
            *(
                [("long scales", f"{counted(report.n_global, 'feature')} over the whole domain")]
                if report.n_global
                else []
            ),
            *([("mean", EXACT_MEAN)] if report.exact_mean else []),
            *([("target", f"transformed: {report.target}")] if report.target else []),
            *([("noise", report.noise)] if report.noise else []),
            *([("left out", _left_out(report))] if report.left_out else []),
            ("centres", _centres(report)),
            ("neighbourhoods", _neighbourhoods(report)),
            ("time", ", ".join(f"{stage} {seconds:.2f} s" for stage, seconds in report.seconds.items())),
            ("memory", f"{report.model_bytes / 2**20:.1f} MiB"),
        ),
    )


def _hyperparameters(values: dict[str, Any]) -> str:
    own = "that of the feature map"
    return ", ".join(f"{name} = {own if value is None else number(value)}" for name, value in values.items())


def _distance(report: Report) -> str:
    if report.divergence is None and report.served < 1:
        return "not known, since some samples are far from all centres"
    if report.divergence is None and report.kind == FEATURES:
        return "not measured, since the feature map brings its own kernel"
    if report.divergence is None:
        return "not measured, since everything was given"
    if report.is_exact:
        return EXACT
    error = report.divergence_error
    error_text = "not known" if error is None or not np.isfinite(error) else f"{error:.0e}"
    return (
        f"{report.divergence:.1e} nats of KL per test point from the exact Gaussian process "
        f"(standard error {error_text}, {report.n_probes} probes)"
        + ("" if report.tolerance is None else f", {_verdict(report)} the tolerance of {report.tolerance:g}")
        + _in_gaps(report)
        + (f"; measured at the fit, with {report.n_measured} samples" if report.n_measured else "")
    )


def _verdict(report: Report) -> str:
    return "within" if report.tolerance_met else "ABOVE"


def _in_gaps(report: Report) -> str:
    gaps = "" if report.divergence_in_gaps is None else f"; {report.divergence_in_gaps:.1e} in gaps"
    largest = report.divergence_largest
    return gaps if largest is None else f"{gaps}; {largest:.1e} at worst"


def _left_out(report: Report) -> str:
    scores = report.left_out
    return (
        f"{int(scores['samples'])} samples one by one: RMSE {number(scores['rmse'])}, NLL {scores['nll']:.3f}, CRPS "
        f"{number(scores['crps'])}, {scores['coverage']:.1%} in 95 % intervals"
    )


def _scales(report: Report) -> str:
    lengths: Any = report.hyperparameters["length_scale"]
    shares = [f"{number(v)} ({share:.0%})" for v, share in zip(lengths, report.variance_shares, strict=True)]
    return f"{', '.join(shares)} of the signal variance"


def _centres(report: Report) -> str:
    text = str(report.n_centers) if report.n_centers else "every test point"
    if report.least_neighbours and report.radius is None and report.n_centers and report.n_features <= 3:
        text += ", of cells as small as the data are dense; models are made when they are first asked for, and kept"
    if report.n_centers and report.spacing is not None:
        share = "every point" if report.served == 1 else f"{report.served:.0%} of the points"
        text += f", {share} within {report.spacing:g} length scales of one"
    if report.n_components:
        degrees = ", ".join(map(str, report.degrees))
        text += f"; {report.n_components} {f'Taylor features of degree {degrees}' if degrees else 'features'} each"
        if report.n_kernel_space:
            text += f", {report.n_kernel_space} in kernel space instead"
    return text


def _neighbourhoods(report: Report) -> str:
    if report.radius is None:
        return (
            f"the {report.least_neighbours} nearest points, more in gaps" if report.least_neighbours else "all points"
        )
    least = f", the nearest {report.least_neighbours} at least" if report.least_neighbours else ""
    return f"within {report.radius:g} length scales, {report.median_neighbours} points in the median{least}"
