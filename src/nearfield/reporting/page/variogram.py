"""What the page shows of a variogram: how unlike values are at a distance, in the data and in the model."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import plots
from ..numbers import typeset
from ..variograms import distance_unit, empirical_variogram, has_variogram, model_variogram
from .figures import figure
from .learnt import learnt_nothing
from .subject import Subject

FEW = 20  # observations: below, bins are of a few pairs
OFF = 0.25  # of the semivariance that dots may be from the curve, on the whole


def section(subject: Subject) -> str:
    """A chart with a sentence about it; nothing for models without training data, or without a single distance."""
    model = subject.model
    points = model._training_points()
    if points is None or len(points) < FEW or not has_variogram(model) or learnt_nothing(model):
        return ""
    try:
        data = empirical_variogram(model)
    except ValueError:  # all in one place, or targets that are not kept
        return ""
    distances, halves, counts = data
    unit = distance_unit(model)
    ends = ", ".join(f"{typeset(halves[i], 3)} at {_distance(distances[i], unit)}" for i in (0, -1))
    chart = figure(
        "variogram",
        lambda ax: plots.draw_variogram(model, data, ax),
        f"Variogram: half the mean squared difference of two values, {ends}",
        "Half the mean squared difference of two values, by how far apart they are: larger dots stand for more pairs.",
    )
    return f"<p>{_words(model, distances, halves, counts)}</p>{chart}" if chart else ""


def _words(model: Any, distances: Any, halves: Any, counts: Any) -> str:
    """What dots and curve are, and whether they agree."""
    text = (
        "Values that are close to each other differ by little more than noise, values far apart by as much as they "
        "vary at all. The dots are the data; the curve is what the model learnt, by likelihood and not from the dots."
    )
    curve = model_variogram(model, distances)
    scale = float(np.average(np.maximum(curve, halves), weights=counts))
    off = float(np.average(np.abs(halves - curve), weights=counts)) / scale if scale > 0 else 0.0
    if off <= OFF:
        return f"{text} On the whole they are {typeset(100 * off, 2)} % apart."
    above = float(np.average(halves - curve, weights=counts)) > 0
    why = (
        "dots that rise above the curve suggest a trend, which a drift or one more length scale would account for"
        if above
        else "where the curve is above the dots, the model leaves room for larger variations than these data show, as "
        "it does where the data do not reach far beyond a length scale"
    )
    return f"{text} On the whole they are <strong>{typeset(100 * off, 2)} %</strong> apart: {why}."


def _distance(value: float, unit: str) -> str:
    return f"{typeset(float(value), 3)} {unit}".strip()
