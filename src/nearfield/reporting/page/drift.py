"""What the page shows of a drift: coefficients with intervals, effects of groups, a map of the process alone."""

from __future__ import annotations

from html import escape

import numpy as np

from ..numbers import typeset
from ..plots import MEAN_COLOURS
from .figures import figure
from .learnt import table
from .maps import Projection
from .subject import Subject

CELLS = 60  # along the sides of the map


def section(subject: Subject, plane: Projection | None) -> str:
    """Coefficients of the drift, effects of groups, and a map of what the process adds; nothing without either."""
    coef, groups = getattr(subject.model, "drift_coef_", None), _groups(subject)
    if coef is None and not groups:
        return ""
    text = ""
    if coef is not None:
        rows = [
            (escape(name), typeset(value), typeset(error), f"{typeset(low)} to {typeset(high)}")
            for name, value, error, _, low, high in coef.rows()[: len(coef)]
        ]
        text = (
            f"<p>What is known enters linearly: <b>{escape(subject.fitted_target)}</b> is a sum of these columns, "
            "times coefficients found by generalised least squares, and the process.</p>"
        ) + table(["", "coefficient", "standard error", "95 % interval"], rows)
    return text + groups + ("" if plane is None else _process(subject, plane))


def _groups(subject: Subject) -> str:
    """Each column of groups with the spread of its effects, and the lowest and highest of them."""
    variances = getattr(subject.model, "group_variance_", {})
    if not variances:
        return ""
    effects = subject.model.group_effects_
    known = {name: value for name, value, *_ in effects.rows()[: len(effects)]}
    rows = []
    for column, variance in variances.items():
        of_levels = {name.split("=", 1)[1]: value for name, value in known.items() if name.startswith(f"{column}=")}
        ends = min(of_levels, key=of_levels.__getitem__), max(of_levels, key=of_levels.__getitem__)
        low, high = (f"{escape(level)}: {typeset(of_levels[level])}" for level in ends)
        rows.append((escape(column), str(len(of_levels)), typeset(variance**0.5), low, high))
    text = "<p>Each level of a group has an effect of its own, drawn to zero by as much as few rows tell of it.</p>"
    return text + table(["group", "levels", "standard deviation of effects", "lowest", "highest"], rows)


def _process(subject: Subject, plane: Projection) -> str:
    """A map of the process without the drift."""
    (x0, x1), (y0, y1) = plane.bounds
    across, up = np.linspace(x0, x1, CELLS), np.linspace(y0, y1, CELLS)
    places = plane.to_inputs(np.stack(np.meshgrid(across, up), axis=-1).reshape(-1, 2))
    mean, _ = subject.model._parts_at(places)[0]
    values = mean[:, 0].reshape(CELLS, CELLS)
    limit = float(np.abs(values).max()) or 1.0

    def draw(ax: object) -> None:
        drawn = ax.imshow(  # type: ignore[attr-defined]
            values, origin="lower", extent=(x0, x1, y0, y1), aspect="auto", cmap=MEAN_COLOURS, interpolation="bilinear"
        )
        ax.grid(visible=False)  # type: ignore[attr-defined]
        ax.set(xlabel=plane.names[0], ylabel=plane.names[1])  # type: ignore[attr-defined]
        ax.figure.colorbar(drawn, ax=ax)  # type: ignore[attr-defined]

    return figure(
        "process",
        draw,
        f"Map of the process alone: up to {typeset(limit)} from the drift",
        "The process alone: by how much the drift is off, from place to place.",
    )
