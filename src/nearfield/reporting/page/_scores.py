"""Section of the page about data with known targets: scores, calibration and residuals."""

from __future__ import annotations

from html import escape

import numpy as np
from scipy.special import ndtr, ndtri

from ... import metrics
from ...common.types import Floats
from ._numbers import number
from ._svg import Chart, Scale

MAX_DOTS = 3000


def scores(y: Floats, mean: Floats, std: Floats) -> list[tuple[str, str, str]]:
    """Name, value and meaning of each score."""
    variance = std**2
    spread = float(np.std(y))
    return [
        (
            "RMSE",
            number(metrics.rmse(y, mean)),
            f"root of the mean squared error; predicting the mean: {number(spread)}",
        ),
        ("NLL", number(metrics.mean_nll(y, mean, variance)), "mean negative log likelihood; lower is better"),
        ("CRPS", number(metrics.crps(y, mean, variance)), "continuous ranked probability score; lower is better"),
        (
            "coverage",
            f"{number(100 * metrics.coverage(y, mean, variance), 3)} %",
            "of the observations are inside their 95 % intervals",
        ),
    ]


def section(y: Floats, mean: Floats, std: Floats, target: str, n_trained_on: int = 0) -> str:
    """Scores and three charts; `n_trained_on` of the rows have inputs that the model was trained on."""
    rows = "".join(
        f'<tr><th scope="row">{name}</th><td>{value}</td><td class="words">{meaning}</td></tr>'
        for name, value, meaning in scores(y, mean, std)
    )
    figures = "".join(
        f"<figure>{chart.svg()}<figcaption>{caption}</figcaption></figure>"
        for chart, caption in (_calibration(y, mean, std), _probabilities(y, mean, std), _residuals(y, mean, std))
    )
    flattery = (
        f" <strong>The model was trained on the inputs of {n_trained_on} of them</strong>, so these scores flatter it."
        if n_trained_on
        else ""
    )
    return (
        f"<p>{len(y)} observations of {escape(target)}, noise taken into account.{flattery}</p>"
        f'<div class="wide"><table><tbody>{rows}</tbody></table></div><div class="charts">{figures}</div>'
    )


def _calibration(y: Floats, mean: Floats, std: Floats) -> tuple[Chart, str]:
    levels = np.linspace(0.02, 0.98, 49)
    covered = [100 * metrics.coverage(y, mean, std**2, level) for level in levels]
    worst = float(np.abs(np.array(covered) - 100 * levels).max())
    chart = Chart(
        Scale(0, 100, "probability of the interval (%)"),
        Scale(0, 100, "observations inside (%)"),
        f"Calibration: coverage differs from its nominal value by at most {number(worst, 2)} percentage points",
    )
    chart.line([0, 100], [0, 100], "perfect")
    chart.line(100 * levels, covered, "curve")
    return chart, "Calibration. On the dashed line, intervals hold what they promise; below it they are too narrow."


def _probabilities(y: Floats, mean: Floats, std: Floats) -> tuple[Chart, str]:
    heights, edges = np.histogram(ndtr((y - mean) / std), bins=20, range=(0, 1), density=True)
    chart = Chart(
        Scale(0, 1, "predictive probability of a lower value"),
        Scale(0, max(1.5, 1.08 * float(heights.max())), "density"),
        "Histogram of where observations fall in their predictive distributions; flat is perfect",
    )
    chart.bars(edges.tolist(), heights)
    chart.line([0, 1], [1, 1], "perfect")
    return chart, "Where observations fall. Flat is perfect; raised ends mean intervals too narrow, a hump too wide."


def _residuals(y: Floats, mean: Floats, std: Floats) -> tuple[Chart, str]:
    z = (y - mean) / std
    bound = float(ndtri(0.975))
    rows = np.arange(len(y))
    if len(y) > MAX_DOTS:
        rows = np.random.default_rng(0).choice(len(y), MAX_DOTS, replace=False)
    outside = float(np.mean(np.abs(z) > bound))
    chart = Chart(
        Scale.around(mean[rows], "predicted mean"),
        Scale.around([*z[rows], -3.0, 3.0], "error (standard deviations)"),
        f"Residuals against predictions; {number(100 * outside, 2)} % lie outside of the 95 % interval",
    )
    for level in (-bound, bound):
        chart.line([chart.x.low, chart.x.high], [level, level], "perfect")
    chart.dots(mean[rows], z[rows], "dots", float(np.clip(600 / len(rows), 0.3, 0.8)))
    some = "" if len(rows) == len(y) else f" {len(rows)} of {len(y)} are drawn."
    return chart, f"Residuals. 19 of 20 belong between the dashed lines, without a pattern.{some}"
