"""Sections of the page about the model itself: what was learnt, what was chosen and why, how far from exact."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from html import escape
from typing import Any

import numpy as np

from ...common.types import Floats
from .. import plots
from ..inputs import axes_in_words, named_length_scales
from ..numbers import round_numbers, tick_label, typeset, with_powers
from ..report import Report
from ..summary import summarise
from .figures import figure
from .subject import Subject


def learnt(subject: Subject) -> str:
    """Hyperparameters in plain words."""
    model = subject.model
    kernel, noise = model.kernel_, float(model.noise_variance_)
    total, mean = kernel.variance + noise, typeset(float(model.y_mean_[0]))
    around = f"mean of {mean}" if not has_drift(model) else "drift"
    target = f"<b>{escape(subject.fitted_target)}</b>"
    if learnt_nothing(model):
        points = model._training_points()
        same = points is not None and len(points) and np.all(np.ptp(points, axis=0) == 0)
        why = "All rows have the same inputs" if same else f"{target} is {mean} in every row"
        guessed = "so there was nothing to learn: length scales and variances are guesses"
        return f"<p>{why}, {guessed}.</p>{_scales_table(subject)}"
    text = (
        f"<p>Around its {around}, {target} varies with a standard deviation of "
        f"{typeset(kernel.variance**0.5)} that the inputs account for, and {typeset(noise**0.5)} that they do not: "
        f"noise makes up {_percent(noise / total)} of the variance.</p>"
    )
    if np.all(np.isfinite(kernel.length_scales)):
        text += (
            f"<p>The length scale says how far a value reaches: {_reach(kernel)}.{_axes(subject)}</p>"
            f"{_scales_table(subject)}"
        )
    else:
        text += "<p>The feature map was given with a length scale of its own.</p>"
    return text + _how(subject)


def _axes(subject: Subject) -> str:
    """Where rotated axes are, measured from columns by their names."""
    words = axes_in_words(subject.model, subject.columns)
    return f" Length scales belong to {escape(words)}." if words else ""


def _scales_table(subject: Subject) -> str:
    """A row per length scale; where columns have their own, a row per column instead."""
    kernel = subject.model.kernel_
    deviations, shares = [typeset(v**0.5) for v in kernel.variances], kernel.variances / kernel.variance
    bars = [f'<span class="share" style="--share:{100 * share:.1f}%"></span>{_percent(share)}' for share in shares]
    names = [f"scale {j + 1}" for j in range(kernel.n_scales)] if kernel.n_scales > 1 else ["the only scale"]
    columns, scales_by_column = named_length_scales(subject.model, subject.columns)
    if len(columns) == 1:
        lengths = [typeset(float(scale)) for scale in kernel.length_scales[:, 0]]
        shared = (
            "length scale"
            if len(subject.columns) == 1
            else f"length scale{'' if columns[0].startswith('on ') else ','} {escape(columns[0])}"
        )
        heads = ["", shared, "standard deviation", "share of the signal variance"]
        return table(heads, list(zip(names, lengths, deviations, bars, strict=True)))
    rows = [
        (escape(columns[j]), *(typeset(float(scale)) for scale in scales_by_column[:, j]))
        for j in _by_weight(subject, scales_by_column)
    ]
    rows += [("<i>standard deviation</i>", *deviations), ("<i>share of the signal variance</i>", *bars)]
    heads = ["length scale of", *(["", ""] if kernel.n_scales == 1 else names)][: 1 + kernel.n_scales]
    return table(heads, rows)


def _by_weight(subject: Subject, scales: Floats) -> list[int]:
    """Columns of length scales (J, q): those that are shortest beside the range of their column first."""
    report: Report | None = getattr(subject.model, "report_", None)
    extents = np.asarray(report.extents if report is not None else ())
    if len(extents) != scales.shape[1]:
        return list(range(scales.shape[1]))
    relative = scales.min(axis=0) / np.where(extents > 0, extents, np.inf)
    return [int(j) for j in np.argsort(np.where(relative > 0, relative, np.inf), kind="stable")]


def table(heads: Sequence[str], rows: Sequence[tuple[str, ...]]) -> str:
    """HTML of a table whose first column names the rows."""
    head = "".join(f'<th scope="col">{h}</th>' if h else "<td></td>" for h in heads)
    body = "".join(
        f'<tr><th scope="row">{name}</th>{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>' for name, *cells in rows
    )
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def has_drift(model: Any) -> bool:
    """Whether the mean is more than a constant."""
    return hasattr(model, "drift_coef_") or hasattr(model, "mean_")


def learnt_nothing(model: Any) -> bool:
    """Whether hyperparameters were to be learnt from a target or inputs that do not vary."""
    learned = getattr(model, "learned_", None)
    given = (model.length_scale, model.signal_variance, model.noise_variance)
    return learned is not None and learned.n_evaluations == 0 and any(value is None for value in given)


def _how(subject: Subject) -> str:
    learned = getattr(subject.model, "learned_", None)
    if learned is None or learned.n_evaluations == 0:
        return "<p>The hyperparameters were given.</p>" if learned is not None else ""
    text = f"Learnt in {typeset(learned.seconds, 2)} s, from {_where(learned)}."
    if not learned.converged:
        text += " The search was stopped before it had converged."
    if learned.on_bounds:
        bounds = learned.bounds_in_words(
            subject.columns if subject.model._inner_names() is None else subject.model._inner_names()
        )
        more = f"; and {len(bounds) - 3} more" if len(bounds) > 3 else ""
        text += f" On a bound of what was allowed: {escape('; '.join(bounds[:3]))}{more}."
    return f"<p>{text}</p>"


def _where(learned: Any) -> str:
    """What the likelihood was that of."""
    if learned.n_blocks == 1:
        return "the likelihood of all the data"
    size = f"about {typeset(learned.block_size)} " if learned.block_size > 1 else ""
    return f"the likelihood of {typeset(learned.n_blocks)} groups of {size}neighbouring points"


def _reach(kernel: Any) -> str:
    """How alike values are at one to three length scales."""
    plain = replace(kernel, length_scales=np.ones((1, 1)), variances=np.ones(1))
    one, two, three = plain(np.array([[1.0], [2.0], [3.0]]), np.zeros((1, 1)))[:, 0]
    return f"one length scale apart, values correlate by {one:.2f}, two apart by {two:.2f}, three apart by {three:.2f}"


def chosen(model: Any) -> str:
    """What was chosen and why: the lines of the summary that other sections do not show."""
    shown_elsewhere = ("hyperparameters", "length scales", "distance", "of the function", "drift")
    lines = (line for line in summarise(model).lines if line[0] not in shown_elsewhere)
    entries = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(text)}</dd></div>" for name, text in lines)
    return f"<dl>{entries}</dl>"


def distance(model: Any) -> str:
    """How far from the exact process, with a picture of it against the tolerance."""
    text = with_powers(summarise(model)["distance"])
    text = f"{text[0].upper()}{escape(text[1:])}."
    report: Report | None = getattr(model, "report_", None)
    if report is None or report.divergence is None or report.is_exact:
        return f"<p>{text}</p>"
    text = text.replace("ABOVE", "<strong>above</strong>")
    shift = _percent((2 * report.divergence) ** 0.5)
    meter = _meter(report.divergence, report.divergence_error or 0.0, report.tolerance or 0.0)
    moved = f"That is as much as moving every mean by {shift} of the standard deviation of an observation"
    if report.divergence_of_function is not None:
        moved += f", or by {_percent((2 * report.divergence_of_function) ** 0.5)} of that of the function"
    return f"<p>{text} {moved}.</p>{meter}"


def _meter(measured: float, error: float, tolerance: float) -> str:
    """Measured distance and tolerance on one logarithmic line; nothing where that cannot hold them."""
    if not _can_be_drawn(measured, tolerance):
        return ""
    spread = error if _can_be_drawn(error) else 0.0
    low = max(min(measured - spread, measured / 2, tolerance / 10), 1e-2 * measured)
    high = 3 * max(measured + spread, tolerance)
    left, width = 26.0, 408.0

    def at(value: float) -> float:
        return left + width * float(np.log(max(value, low) / low) / np.log(high / low))

    ticks = "".join(
        f'<path class="rule" d="M{at(tick):.1f} 18V42"/>'
        f'<text class="tick" x="{at(tick):.1f}" y="57" text-anchor="middle">{tick_label(tick, log=True)}</text>'
        for tick in round_numbers(low, high, log=True)
    )
    limit, here = at(tolerance), at(measured)

    def label(x: float, text: str, to_the_left: bool) -> str:
        """Each label goes away from the other, unless that would take it beyond the edge."""
        side = "end" if (to_the_left and x > 75) or x > 385 else "start"
        x += 4 if side == "start" else -4
        return f'<text class="note" x="{x:.1f}" y="13" text-anchor="{side}">{text}</text>'

    labels = label(here, "measured", here <= limit) + label(limit, "tolerance", here > limit)
    return (
        '<figure class="meter"><svg viewBox="0 0 460 64" role="img" '
        f'aria-label="Measured distance {typeset(measured, 2)}, tolerance {typeset(tolerance)}">{ticks}'
        f'<rect class="allowed" x="{left}" y="24" width="{limit - left:.1f}" height="12"/>'
        f'<rect class="beyond" x="{limit:.1f}" y="24" width="{left + width - limit:.1f}" height="12"/>'
        f'<path class="whisker" d="M{at(measured - spread):.1f} 30H{at(measured + spread):.1f}"/>'
        f'<circle class="here" cx="{here:.1f}" cy="30" r="6"/>{labels}</svg></figure>'
    )


def trials(model: Any) -> str:
    """Candidates that were measured: error against cost, and a table."""
    report: Report | None = getattr(model, "report_", None)
    drawn = () if report is None else tuple(trial for trial in report.trials if _can_be_drawn(*trial[1:]))
    if report is None or not drawn:
        return ""
    tolerance = report.tolerance if _can_be_drawn(report.tolerance or 0.0) else None
    rows, ring = [], ""
    for label, error, cost in drawn:
        name = escape(label)
        if label == report.method and error == report.divergence_of_trial:
            name, ring = f'<span class="taken">{name} (chosen)</span>', "; the ring is the one chosen"
        rows.append((name, typeset(error, 2), typeset(cost, 2)))
    chart = figure(
        "trials",
        lambda ax: plots.error_against_cost(replace(report, trials=drawn, tolerance=tolerance), ax=ax),
        f"Error against cost of {len(drawn)} candidates{ring}",
        f"Every candidate that was measured{ring}: {escape(report.reason)}.{_cheaper(report, drawn)}",
    )
    rows_table = table(["candidate", "KL (nats per point)", "operations"], rows)
    return f"{chart}<details><summary>The {len(drawn)} candidates</summary>{rows_table}</details>"


def _cheaper(report: Report, drawn: Sequence[tuple[str, float, float]]) -> str:
    """A sentence about candidates that are cheaper than the one chosen, and yet below the tolerance."""
    costs = [cost for label, error, cost in drawn if label == report.method and error == report.divergence_of_trial]
    if not costs or report.tolerance is None:
        return ""
    below = [1 for _, error, cost in drawn if cost < costs[0] and error < report.tolerance]
    if not below:
        return ""
    return (
        " Cheaper ones below the line met the tolerance too narrowly for their error of measurement, or not in gaps, "
        "or not for the function."
    )


def _can_be_drawn(*values: float) -> bool:
    """Whether a logarithmic axis can hold numbers, without ticks for hundreds of decades."""
    return all(1e-100 < value < 1e100 for value in values)


def _percent(share: float) -> str:
    return f"{typeset(100 * share, 3 if share > 0.1 else 2)} %"
