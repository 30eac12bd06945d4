"""What a fitted model says of itself: the words that printing, notebooks, the command line and the page share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from .inputs import axes_in_words, named_length_scales
from .numbers import counted, number

if TYPE_CHECKING:
    from .report import Report

HYPERPARAMETERS = ("length_scale", "signal_variance", "noise_variance")
MOST_SCALES = 12  # columns in the table of length scales
FEATURES = "Gaussian process"  # with one feature map for all data
ON_HOST = "on the host in double precision, since columns of these tensors have roles"
EXACT_MEAN = "that of the exact Gaussian process, solved for all data; local models give the variances"
EXACT = "none: this is the exact Gaussian process"


@dataclass(frozen=True)
class Summary:
    """A verdict, where there is one, a title, and lines of a name and a text each."""

    title: str
    lines: tuple[tuple[str, str], ...]
    verdict: str = ""

    def __str__(self) -> str:
        indent = "\n" + " " * 18  # for tables of several lines
        heads = [self.verdict, self.title] if self.verdict else [self.title]
        return "\n".join([*heads, *(f"  {name:<15} {text.replace(chr(10), indent)}" for name, text in self.lines)])

    def __getitem__(self, name: str) -> str:
        return dict(self.lines)[name]

    def to_html(self) -> str:
        """The same as a table for notebooks."""
        rows = "".join(
            f"<tr><th style='text-align:left;vertical-align:top;white-space:nowrap'>{escape(name)}</th>"
            f"<td style='text-align:left'>{f'<pre>{escape(text)}</pre>' if chr(10) in text else escape(text)}</td></tr>"
            for name, text in self.lines
        )
        verdict = f"<strong>{escape(self.verdict)}</strong><br>" if self.verdict else ""
        caption = f"<caption style='text-align:left'>{verdict}{escape(self.title)}</caption>"
        return f"<table>{caption}<tbody>{rows}</tbody></table>"


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
    names, scales = named_length_scales(model)
    table = _table_of_scales(names, scales, (), model.kernel_.variances / model.kernel_.variance)
    values = {name: getattr(model, f"{name}_") for name in HYPERPARAMETERS}
    unit = " km" if getattr(model, "_sphere", None) is not None else ""
    coef = getattr(model, "drift_coef_", None)
    return Summary(
        f"Gaussian process of {counted(model.n_features_in_, 'column')}",
        (
            ("method", method),
            ("distance", distance),
            *_axes(axes_in_words(model)),
            *_shared_or_not(getattr(getattr(model, "learned_", None), "ard_reason", "")),
            *_hyperparameters(values, table, unit),
            *_drift(() if coef is None else coef.first_target()),
        ),
    )


def summarise_report(report: Report) -> Summary:
    """Summary of a model, from its report."""
    summary = _summary(report)
    if not report.of_target:
        return summary
    return replace(summary, lines=(("about", report.of_target), *summary.lines))


def _summary(report: Report) -> Summary:
    if report.kind == FEATURES:  # there are no centres to speak of
        lines = (("method", report.method), *_distances(report))
        further = (*_reported_scales(report), *_drift(report.drift), *_host(report))
        title = f"{report.kind} of {counted(report.n_features, 'column')}"
        return Summary(title, (*lines, *further), report.verdict)
    return Summary(
        f"{report.kind} on {report.n_samples} samples of {counted(report.n_features, 'column')}",
        (
            ("method", _method(report)),
            ("chosen because", report.reason),
            *_distances(report),
            *_reported_scales(report),
            *(
                [("long scales", f"{counted(report.n_global, 'feature')} over the whole domain")]
                if report.n_global
                else []
            ),
            *([("mean", EXACT_MEAN)] if report.exact_mean else []),
            *_drift(report.drift),
            *([("target", f"transformed: {report.target}")] if report.target else []),
            *([("noise", report.noise)] if report.noise else []),
            *([("left out", _left_out(report))] if report.left_out else []),
            *_host(report),
            ("centres", _centres(report)),
            ("neighbourhoods", _neighbourhoods(report)),
            *([("predictions", _cost_of_std(report))] if report.is_exact else []),
            ("time", _time(report)),
            ("memory", f"{report.model_bytes / 2**20:.1f} MiB{_before_models(report)}"),
        ),
        report.verdict,
    )


def _host(report: Report) -> list[tuple[str, str]]:
    return [("computed", report.host)] if report.host else []


def _hyperparameters(values: dict[str, Any], table: str = "", unit: str = "") -> list[tuple[str, str]]:
    """Lines of the hyperparameters: length scales in a table of their own where each column has one."""
    own = "that of the feature map"
    units = {"length_scale": unit}
    words = [
        f"{name} = {own if value is None else number(value) + units.get(name, '')}"
        for name, value in values.items()
        if not (table and name == "length_scale")
    ]
    return [("hyperparameters", ", ".join(words)), *([("length scales", table)] if table else [])]


def _drift(rows: Sequence[tuple[str, float, float]]) -> list[tuple[str, str]]:
    """A table of coefficients."""
    if not rows:
        return []
    cells = [("", "coefficient", "standard error"), *((n, number(v), number(e)) for n, v, e in rows[:MOST_SCALES])]
    widths = [max(len(row[i]) for row in cells) for i in range(3)]
    lines = [f"{a.ljust(widths[0])}  {b.rjust(widths[1])}  {c.rjust(widths[2])}" for a, b, c in cells]
    left = len(rows) - MOST_SCALES
    return [("drift", "\n".join([*lines, *([f"and {left} more columns: see drift_coef_"] if left > 0 else [])]))]


def _reported_scales(report: Report) -> list[tuple[str, str]]:
    lengths, shares = report.hyperparameters.get("length_scale"), np.asarray(report.variance_shares)
    table = ""
    if report.columns and lengths is not None:
        table = _table_of_scales(report.columns, np.reshape(lengths, (len(shares), -1)), report.extents, shares)
    if not table and len(shares) > 1:
        table = _shares(lengths, shares, " km" if report.metric == "sphere" else "")
    lines = _hyperparameters(report.hyperparameters, table, " km" if report.metric == "sphere" else "")
    kernel = [("kernel", report.kernel)] if report.kernel else []
    shared = _shared_or_not(report.ard_reason)
    return [*kernel, *_axes(report.rotation), *shared, *lines, *_without_effect(report), *_how_sure(report)]


def _without_effect(report: Report) -> list[tuple[str, str]]:
    """Columns that learning found to do nothing."""
    names = [report.columns[i] if i < len(report.columns) else f"x{i}" for i in report.silent]
    return [("no effect", f"{', '.join(names)}: the likelihood is the same without")] if names else []


def _shared_or_not(words: str) -> list[tuple[str, str]]:
    """Whether columns share a length scale, and why."""
    return [("columns", f"length scales: {words}")] if words else []


def _axes(words: str) -> list[tuple[str, str]]:
    return [("rotated", words)] if words else []


def _how_sure(report: Report) -> list[tuple[str, str]]:
    """Standard errors, where there are few enough to be read in a line."""
    errors, J = np.asarray(report.standard_errors), len(report.variance_shares)
    if len(errors) != 2 * J + 1 or np.isnan(errors).all():
        return []

    def listed(values: Any) -> str:
        unknown = ("not identified by the data", "beyond 100 %")
        return ", ".join(f"{v:.1%}" if v < 1 else unknown[int(v >= 1)] for v in values)

    names = ("length scale", "signal variance", "noise variance")
    parts = (errors[:J], errors[J:-1], errors[-1:])
    words = [
        f"{name} {listed(values)}" for name, values in zip(names, parts, strict=True) if not np.isnan(values).all()
    ]
    return [("known to within", f"{'; '.join(words)} (standard errors)")]


def _table_of_scales(names: Sequence[str], scales: Any, extents: Sequence[float], shares: Any) -> str:
    """A row per column, those with the shortest length scales beside their range first; nothing for a single one."""
    if scales.shape[1] != len(names) or len(names) < 2:
        return ""
    ranges = np.asarray(extents if len(extents) == len(names) else np.ones(len(names)))
    relative = scales.min(axis=0) / np.where(ranges > 0, ranges, np.nan)
    order = np.argsort(np.where(np.isnan(relative), np.inf, relative), kind="stable")
    heads = ["", *(f"{share:.0%}" for share in shares)] if len(shares) > 1 else ["", "length scale"]
    rows = [heads + (["range of the data"] if len(extents) else [])]
    for j in order[:MOST_SCALES]:
        rows.append([names[j], *(number(float(v)) for v in scales[:, j])])
        if len(extents):
            rows[-1].append(number(float(ranges[j])))
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [
        "  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))])
        for row in rows
    ]
    if len(shares) > 1:
        lines[0] += ", by their shares of the signal variance"
    left = len(names) - MOST_SCALES
    return "\n".join([*lines, *([f"and {left} more columns, which matter less"] if left > 0 else [])])


def _shares(lengths: Any, shares: Any, unit: str) -> str:
    words = [f"{number(v)}{unit} ({share:.0%})" for v, share in zip(lengths, shares, strict=True)]
    return f"{', '.join(words)} of the signal variance"


def _method(report: Report) -> str:
    """What was chosen; features that no centre needs are not."""
    if report.n_components and report.n_centers and report.n_kernel_space == report.n_centers:
        return f"kernel matrices: all neighbourhoods have fewer points than {report.n_components} features"
    return report.method


def _cost_of_std(report: Report) -> str:
    return f"each standard deviation takes n² = {float(report.n_samples) ** 2:.1e} operations, each mean n"


def _time(report: Report) -> str:
    stages = ", ".join(f"{stage} {seconds:.2f} s" for stage, seconds in report.seconds.items())
    if _makes_later(report):
        return f"{stages}; local models are built by the first predictions"
    if _makes_each(report):
        return f"{stages}; each test point gets a model of its own, which is not kept"
    return stages


def _before_models(report: Report) -> str:
    return " before local models are built" if _makes_later(report) else ""


def _makes_later(report: Report) -> bool:
    """Whether models are made where and when they are asked for."""
    by_number = bool(report.least_neighbours) and report.radius is None
    return by_number and report.n_centers > 0 and report.n_features <= 3


def _makes_each(report: Report) -> bool:
    """Whether test points share no models."""
    return bool(report.least_neighbours) and report.radius is None and report.n_centers == 0


def _lengths(report: Report) -> str:
    """Which length scale distances are counted in."""
    if len(report.variance_shares) > 1:
        return "times the shortest length scale"
    if len(report.columns) < 2:
        return "length scales"
    return f"length scales, of each {'axis' if report.rotation else 'column'} its own,"


def _distances(report: Report) -> tuple[tuple[str, str], ...]:
    """Lines on the distance of observations, and on that of the function where it is known."""
    of_function = _of_function(report)
    return (("distance", _distance(report)), *([("of the function", of_function)] if of_function else []))


def _distance(report: Report) -> str:
    if report.divergence is None and report.served < 1:
        return "not known, since some samples are far from all centres"
    if report.divergence is None and report.kind == FEATURES:
        return "not measured, since the feature map brings its own kernel"
    if report.divergence is None:
        return "not measured, since everything was given"
    if report.is_exact:
        return EXACT
    if not report.verified:
        return (
            f"not verified: {report.divergence:.1e} nats of KL per test point beside larger neighbourhoods "
            f"({report.n_probes} probes), which with so many columns are not the exact Gaussian process"
        )
    return (
        f"{report.divergence:.1e} nats of KL per test point from the exact Gaussian process"
        + _bound(report.divergence_upper)
        + f", {report.n_probes} probes"
        + ("" if report.tolerance is None else f", {_verdict(report)} the tolerance of {report.tolerance:g}")
        + _in_gaps(report)
        + (f"; measured at the fit, with {report.n_measured} samples" if report.n_measured else "")
    )


def _bound(upper: float | None) -> str:
    return "" if upper is None else f" (at most {upper:.1e} with 95 % confidence)"


def _of_function(report: Report) -> str:
    """The distance of what `predict` returns; empty where it is not known, or there is none."""
    if report.divergence_of_function is None or report.is_exact:
        return ""
    return (
        f"{report.divergence_of_function:.1e} nats of KL per test point{_bound(report.divergence_of_function_upper)} "
        "without noise, as predict returns it"
        + ("" if report.tolerance is None else "; ten times the tolerance is allowed")
    )


def _verdict(report: Report) -> str:
    return "within" if report.tolerance_met else "ABOVE"


def _in_gaps(report: Report) -> str:
    near, gaps = report.divergence_near_data, report.divergence_in_gaps
    places = ((near if gaps is not None else None, "near data"), (gaps, "in gaps"))
    figures = [f"{figure:.1e} {where}" for figure, where in places if figure not in (None, report.divergence)]
    figures += [] if report.divergence_largest is None else [f"{report.divergence_largest:.1e} at worst"]
    return f"; {', '.join(figures)}" if figures else ""


def _left_out(report: Report) -> str:
    scores = report.left_out
    return (
        f"{int(scores['samples'])} samples one by one: RMSE {number(scores['rmse'])}, NLL {scores['nll']:.3f}, CRPS "
        f"{number(scores['crps'])}, {scores['coverage']:.1%} in 95 % intervals"
    )


def _centres(report: Report) -> str:
    text = str(report.n_centers) if report.n_centers else "every test point"
    if _makes_later(report):
        text += ", on cells adapted to the data density; each model is built on first use and kept"
    if report.n_centers and report.spacing is not None:
        share = "every point" if report.served == 1 else f"{report.served:.0%} of the points"
        text += f", {share} within {report.spacing:g} {_lengths(report)} of one"
    if report.n_components and report.n_kernel_space < max(report.n_centers, 1):
        degrees = ", ".join(map(str, report.degrees))
        text += f"; {report.n_components} {f'Taylor features of degree {degrees}' if degrees else 'features'} each"
        if report.n_kernel_space:
            text += f"; {report.n_kernel_space} of them use the kernel matrix of their points instead"
    return text


def _neighbourhoods(report: Report) -> str:
    if report.radius is None and not report.least_neighbours:
        return "all points"
    if report.radius is None:
        return f"the {report.least_neighbours} nearest points{', more in gaps' if _makes_later(report) else ''}"
    least = f", the nearest {report.least_neighbours} at least" if report.least_neighbours else ""
    reach = f"within {report.radius:g} {_lengths(report).rstrip(',')}"
    return f"{reach}, {report.median_neighbours} points in the median{least}"
