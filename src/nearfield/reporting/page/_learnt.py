"""Sections of the page about the model itself: what was learnt, what was chosen and why, how far from exact."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from ..report import Report
from ._maps import Subject
from ._numbers import number
from ._svg import Chart, Scale


def learnt(subject: Subject) -> str:
    """Hyperparameters in plain words."""
    model = subject.model
    kernel, noise = model.kernel_, float(model.noise_variance_)
    total = kernel.variance + noise
    target = f"<b>{escape(subject.fitted_target)}</b>"
    if learnt_nothing(model):
        points = model._training_points()
        same = points is not None and np.all(np.ptp(points, axis=0) == 0)
        why = "All rows have the same inputs" if same else f"{target} is {number(float(model.y_mean_[0]))} in every row"
        guessed = "length scales and variances are guesses"
        return f"<p>{why}, so there was nothing to learn: {guessed}.</p>{_scales_table(subject)}"
    parts = [
        f"<p>Around its mean of {number(float(model.y_mean_[0]))}, {target} varies with a standard deviation of "
        f"{number(kernel.variance**0.5)} that the inputs account for, and {number(noise**0.5)} that they do not: "
        f"noise makes up {_percent(noise / total)} of the variance.</p>"
    ]
    if np.all(np.isfinite(kernel.length_scales)):
        parts.append(
            "<p>The length scale says how far a value reaches: one length scale apart, values correlate by 0.61, two "
            "apart by 0.14, three apart by 0.01.</p>"
        )
        parts.append(_scales_table(subject))
    else:
        parts.append("<p>The feature map was given with a length scale of its own.</p>")
    return "".join([*parts, _how(subject)])


def _scales_table(subject: Subject) -> str:
    """A row for each length scale; with one per column a row for each column instead."""
    kernel = subject.model.kernel_
    deviations = [number(variance**0.5) for variance in kernel.variances]
    shares = [_share(variance / kernel.variance) for variance in kernel.variances]
    names = [f"scale {j + 1}" for j in range(kernel.n_scales)] if kernel.n_scales > 1 else ["the only scale"]
    if kernel.length_scales.shape[1] == 1:
        lengths = [number(float(scale)) for scale in kernel.length_scales[:, 0]]
        every = "length scale" if len(subject.columns) == 1 else "length scale, every column"
        heads = ["", every, "standard deviation", "share of the signal variance"]
        return _table(heads, list(zip(names, lengths, deviations, shares, strict=True)))
    rows = [
        (escape(name), *(number(float(scale)) for scale in scales))
        for name, scales in zip(subject.columns, kernel.length_scales.T, strict=True)
    ]
    rows += [("<i>standard deviation</i>", *deviations), ("<i>share of the signal variance</i>", *shares)]
    heads = ["length scale of", *(["", ""] if kernel.n_scales == 1 else names)][: 1 + kernel.n_scales]
    return _table(heads, rows)


def _table(heads: Sequence[str], rows: Sequence[tuple[str, ...]]) -> str:
    head = "".join(f'<th scope="col">{h}</th>' if h else "<td></td>" for h in heads)
    body = "".join(
        f'<tr><th scope="row">{name}</th>{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>' for name, *cells in rows
    )
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _share(share: float) -> str:
    return f'<span class="share" style="--share:{100 * share:.1f}%"></span>{_percent(share)}'


def learnt_nothing(model: Any) -> bool:
    """Whether hyperparameters were to be learnt from a target or inputs that do not vary."""
    learned = getattr(model, "learned_", None)
    given = (model.length_scale, model.signal_variance, model.noise_variance)
    return learned is not None and learned.n_evaluations == 0 and any(value is None for value in given)


def _how(subject: Subject) -> str:
    learned = getattr(subject.model, "learned_", None)
    if learned is None or learned.n_evaluations == 0:
        return "<p>The hyperparameters were given.</p>" if learned is not None else ""
    where = "all of the data" if learned.n_blocks == 1 else f"{number(learned.n_blocks)} blocks of neighbouring points"
    text = f"Learnt from {where} in {number(learned.seconds, 2)} s."
    if not learned.converged:
        text += " The search was stopped before it had converged."
    if learned.on_bounds:
        sentences = learned.bounds_in_words(subject.columns)
        some, rest = sentences[:3], len(sentences) - 3
        text += f" On a bound of what was allowed: {escape('; '.join(some))}{f'; and {rest} more' if rest > 0 else ''}."
    return f"<p>{text}</p>"


def chosen(model: Any) -> str:
    """What was chosen and why, as the report has it."""
    report: Report | None = getattr(model, "report_", None)
    if report is None:
        kind = type(model).__name__
        text = {
            "ExactGPRegressor": "This is the exact Gaussian process: nothing was approximated.",
            "FeatureGPRegressor": "One feature map was given for all of the data; the distance from the exact process "
            "was not measured.",
        }.get(kind, "This model has no report of its choices.")
        return f"<p>{text}</p>"
    skipped = ("hyperparameters", "length scales", "distance")
    rows = [(name, text) for name, text in report.rows() if name not in skipped]
    lines = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(text)}</dd></div>" for name, text in rows)
    return f"<dl>{lines}</dl>"


def distance(model: Any) -> str:
    """How far from the exact process, with a picture of it against the tolerance."""
    report: Report | None = getattr(model, "report_", None)
    if report is None:
        return ""
    if report.divergence is None:
        return "<p>Not measured, since spacing, radius and features were given.</p>"
    if report.divergence == 0 or report.tolerance is None:
        return "<p>None: this is the exact Gaussian process.</p>"
    shift = (2 * report.divergence) ** 0.5
    verdict = "within" if report.tolerance_met else "<strong>above</strong>"
    return (
        f"<p>The predictive distributions are {number(report.divergence, 2)} nats of KL per point from those of the "
        f"exact Gaussian process (standard error {number(report.divergence_error or 0.0, 1)}, measured at "
        f"{number(report.n_probes)} probes), {verdict} the tolerance of {number(report.tolerance)}. That is as much as "
        f"moving every mean by {_percent(shift)} of its standard deviation.</p>"
        + (
            f'<figure class="meter">{_meter(report)}</figure>'
            if _can_be_drawn(report.divergence, report.tolerance)
            else ""
        )
    )


def _meter(report: Report) -> str:
    """Measured distance and tolerance on one logarithmic line."""
    assert report.divergence is not None
    assert report.tolerance is not None
    spread = report.divergence_error or 0.0
    spread = spread if _can_be_drawn(spread) else 0.0
    low = min(report.divergence - spread, report.divergence / 2, report.tolerance / 10)
    low = max(low, 1e-2 * report.divergence)
    high = 3 * max(report.divergence + spread, report.tolerance)
    scale = Scale(low, high, "", log=True)
    left, width = 26.0, 408.0

    def at(value: float) -> float:
        return left + width * float(scale(max(value, low)))

    ticks = "".join(
        f'<path class="rule" d="M{at(t):.1f} 18V42"/><text class="tick" x="{at(t):.1f}" y="57" text-anchor="middle">'
        f"{scale.text(t)}</text>"
        for t in scale.ticks()
    )
    limit, here = at(report.tolerance), at(report.divergence)
    bar = f"M{at(report.divergence - spread):.1f} 30H{at(report.divergence + spread):.1f}"
    side = "end" if here > 300 else "start"
    return (
        f'<svg viewBox="0 0 460 64" role="img" aria-label="Measured distance {number(report.divergence, 2)}, tolerance '
        f'{number(report.tolerance)}">{ticks}<rect class="allowed" x="{left}" y="24" width="{limit - left:.1f}" '
        f'height="12"/><rect class="beyond" x="{limit:.1f}" y="24" width="{left + width - limit:.1f}" height="12"/>'
        f'<text class="note" x="{limit:.1f}" y="13" text-anchor="middle">tolerance</text>'
        f'<path class="whisker" d="{bar}"/><circle class="here" cx="{here:.1f}" cy="30" r="6"/>'
        + (
            ""
            if abs(here - limit) < 80
            else f'<text class="note" x="{here:.1f}" y="13" text-anchor="{side}">measured</text>'
        )
        + "</svg>"
    )


def trials(model: Any) -> str:
    """Candidates that were measured: error against cost, and a table."""
    report: Report | None = getattr(model, "report_", None)
    if report is None or not report.trials:
        return ""
    shown = [t for t in report.trials if _can_be_drawn(*t[1:])]
    if not shown:
        return ""
    tolerance = report.tolerance if report.tolerance and _can_be_drawn(report.tolerance) else None
    errors = [t[1] for t in shown] + ([tolerance] if tolerance else [])
    chart = Chart(
        Scale.around([t[2] for t in shown], "cost (estimated operations)", log=True),
        Scale.around(errors, "KL from exact (nats per point)", log=True),
        f"Error against cost of {len(shown)} candidates; the one chosen is marked",
    )
    if tolerance:
        chart.line([chart.x.low, chart.x.high], [tolerance] * 2, "perfect")
        chart.words(chart.x.high, tolerance, "tolerance")
    rows = []
    for label, error, cost in shown:
        taken = label == report.method and error == report.divergence
        chart.mark(cost, error, "candidate taken" if taken else "candidate", f"{label}: {number(error, 2)} nats")
        rows.append(
            f"<tr{' class=taken' if taken else ''}><td>{escape(label)}{' (chosen)' if taken else ''}</td>"
            f"<td>{number(error, 2)}</td><td>{number(cost, 2)}</td></tr>"
        )
    ring = "; the ring is the one chosen" if any("(chosen)" in row for row in rows) else ""
    return (
        f"<figure>{chart.svg()}<figcaption>Every candidate that was measured{ring}: {escape(report.reason)}."
        f"</figcaption></figure><details><summary>The {len(shown)} candidates</summary>"
        '<div class="wide"><table><thead><tr><th scope="col">candidate</th><th scope="col">KL (nats per point)</th>'
        f'<th scope="col">operations</th></tr></thead><tbody>{"".join(rows)}</tbody></table></div></details>'
    )


def _can_be_drawn(*values: float) -> bool:
    """Whether a logarithmic axis can hold numbers, without ticks for hundreds of decades."""
    return all(1e-100 < value < 1e100 for value in values)


def _percent(share: float) -> str:
    return f"{number(100 * share, 3 if share > 0.1 else 2)} %"
