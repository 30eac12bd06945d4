"""The report as one web page: what was learnt and chosen, how far from exact, maps, slices and calibration.

The page holds all it needs and asks for nothing outside. Charts are SVG: pictures of `plots`, or written here where a
small script makes them answer the pointer. The script draws the map.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_X_y

from ... import __version__
from ...common.files import atomic
from ...common.left_out import LeftOut
from ...common.types import Floats
from ..inputs import column_names, of_first_target, points_in_memory, used_columns
from ..numbers import counted, typeset, with_powers
from . import drift, figures, learnt, scores, slices, variogram
from .maps import Projection, map_of, plane_of
from .subject import Subject

OTHERS_HELD = "Along the coordinates, the other columns at their medians or most common categories."

__all__ = ["Projection", "build", "save", "write"]


def build(
    model: Any,
    X: ArrayLike | None = None,
    y: ArrayLike | None = None,
    *,
    columns: Sequence[str] | None = None,
    target: str = "target",
    title: str | None = None,
    projection: Projection | None = None,
    inverse: Callable[[Floats], Floats] | None = None,
    progress: Callable[..., None] | None = None,
) -> Page:
    """HTML of the report of a fitted regressor.

    Parameters
    ----------
    model : fitted regressor of nearfield
    X, y : arrays of shape (m, n_features) and (m,), default=None
        Data that the model has not seen, for scores, calibration and residuals.
    columns : sequence of str, default=None
        Names of the columns; by default those the model was fitted with.
    target : str, default="target"
        Name of the target.
    title : str, default=None
    projection : Projection, default=None
        Coordinates of a map for models that have other than two columns.
    inverse : callable, default=None
        Undoes an increasing transformation of the target in maps and slices: they show medians. Scores stay in the
        units of the model.
    progress : callable, default=None
        Called as `progress("predicting", done)` with `done` from 0 to 1, from the start for each map, slice or data.

    Returns
    -------
    html : Page
        A string, which notebooks show as a page.
    """
    model._need_arrays("The page")
    names = [str(c) for c in (column_names(model) if columns is None else columns)]
    if len(names) != model.n_features_in_:
        raise ValueError(f"columns must name the {model.n_features_in_} columns of the model. Got {len(names)} names.")
    if y is not None and X is None:
        raise ValueError("y was given without X.")
    X = None if X is None else points_in_memory(model, X)
    k, model = len(model.y_mean_), of_first_target(model)
    subject = Subject(model, names, target, inverse, progress)
    held_out = None if X is None or y is None else _held_out(subject, X, y)
    data: dict[str, Any] = {}
    shown: dict[str, str] = {}
    plane = projection or plane_of(subject, X)
    if plane is not None:
        data["map"] = map_of(subject, X, plane)
        others = "" if projection is not None or len(used_columns(model)) == 2 else f"<p>{OTHERS_HELD}</p>"
        shown["Map"] = others + _resource("map.html")
    if plane is None or (projection is None and len(used_columns(model)) > 2):
        html, sliced = slices.section(subject, X, None if held_out is None else held_out.y)
        data |= sliced
        shown["The curve" if len(names) == 1 else "Slices"] = html
    sections = {
        "What was learnt": learnt.learnt(subject),
        "Drift": drift.section(subject, plane),
        "Variogram": variogram.section(subject),
        "Distance from the exact process": learnt.distance(model),
        **shown,
        "Against the data": "" if X is None or held_out is None else scores.section(subject, X, held_out, plane),
        "What was chosen, and why": learnt.chosen(model) + learnt.trials(model),
    }
    script = _resource("page.js")
    html = Template(_resource("page.html")).substitute(
        title=escape(title or f"Gaussian process of {target}"),
        lead=_lead(model, target, k),
        cards=_cards(subject, held_out),
        sections="".join(_section(i, name, body) for i, (name, body) in enumerate(sections.items()) if body),
        data=json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c"),
        style=_resource("page.css"),
        script=script,
        # The browser runs this script and no other, whatever a model file or a name may have smuggled in.
        digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        footer=_footer(held_out is not None or bool(getattr(getattr(model, "report_", None), "trials", ()))),
    )
    return Page(html)


class Page(str):
    """The HTML of a page; notebooks show it in a frame of its own."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return f'<iframe srcdoc="{escape(self)}" style="width:100%;height:50rem;border:0" title="report"></iframe>'


def write(model: Any, path: str | Path, X: ArrayLike | None = None, y: ArrayLike | None = None, **options: Any) -> None:
    """Write the page of `build` to a file, whole or not at all."""
    save(build(model, X, y, **options), path)


def save(page: str, path: str | Path) -> None:
    """Write a page to a file, whole or not at all."""
    with atomic(path) as temporary:
        temporary.write_text(page, encoding="utf-8")


def _held_out(subject: Subject, X: ArrayLike, y: ArrayLike) -> LeftOut:
    """Observations of the first target beside their distributions."""
    points, targets = check_X_y(X, y, multi_output=True, y_numeric=True, ensure_all_finite="allow-nan")
    observed = np.asarray(targets, dtype=np.float64).reshape(len(points), -1)[:, 0]
    found = subject.distribution(points)
    # Without noise, predictions of training points are certain, which no score can divide by.
    least = 1e-9 * (np.ptp(observed) or 1.0)
    return LeftOut(observed, replace(found, std=np.maximum(found.std, least), scale=np.maximum(found.scale, least)))


def _lead(model: Any, target: str, k: int) -> str:
    points, kind = model._training_points(), type(model).__name__
    size = "" if points is None else f", learnt from {typeset(len(points))} samples"
    several = "" if k == 1 else f" It is one of {k} targets; this page is about the first."
    report = getattr(model, "report_", None)
    verdict = "" if report is None else f" {escape(with_powers(report.verdict))}"
    return (
        f"{'An' if kind[0] in 'AEIOU' else 'A'} {escape(kind)} that predicts <b>{escape(target)}</b> from "
        f"{counted(model.n_features_in_, 'column')}{size}.{several}{verdict}"
    )


def _cards(subject: Subject, held_out: LeftOut | None) -> str:
    model = subject.model
    report = getattr(model, "report_", None)
    cards: list[tuple[str, str, str]] = []
    colours: dict[str, str] = {}
    if report is not None and report.divergence is not None:
        value, words = "none", "this is the exact process"
        if not report.is_exact:
            verdict = "within" if report.tolerance_met else "above" if report.verified else "not verified against"
            limit = "" if report.tolerance is None else f"; {verdict} {report.tolerance:g}"
            value, words = typeset(report.divergence, 2), f"nats of KL per point{limit}"
        cards.append(("Distance from exact", value, words))
        if report.divergence_of_function is not None and not report.is_exact:
            value = typeset(report.divergence_of_function, 2)
            cards.append(("Distance of the function", value, "the same without noise, as predict returns it"))
    if not learnt.learnt_nothing(model):
        noise = model.noise_variance_ / (model.kernel_.variance + model.noise_variance_)
        cards.append(("Noise", f"{typeset(100 * noise, 2)} %", "of the variance of the target"))
    if report is not None and report.n_centers > 1:
        cards.append(("Local models", typeset(report.n_centers), f"of {report.median_neighbours} points in the median"))
    if held_out is not None:
        for score in scores.scores(held_out, model._level_of_targets()):
            if score.name in ("RMSE", "coverage"):
                words = score.meaning.partition(";")[0] + (" of the transformed target" if subject.inverse else "")
                name = score.name.capitalize() if score.name.islower() else score.name
                cards.append((name, score.value, words))
                colours[name] = scores.off(score)
    return "".join(
        f'<div class="card"><span>{escape(name)}</span><b{colours.get(name, "")}>{value}</b>'
        f"<small>{escape(words)}</small></div>"
        for name, value, words in cards
    )


def _section(index: int, name: str, body: str) -> str:
    return f'<section aria-labelledby="s{index}"><h2 id="s{index}">{escape(name)}</h2>{body}</section>'


def _footer(has_figures: bool) -> str:
    missing = f" {figures.MISSING}" if has_figures and not figures.available() else ""
    return f"Made by nearfield {__version__} on {date.today().isoformat()}.{missing}"


def _resource(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")
