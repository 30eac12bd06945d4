"""Section of the page about data with targets: scores, calibration and residuals."""

from __future__ import annotations

from html import escape

import numpy as np
from scipy.special import ndtri

from ... import metrics
from ...common.types import Floats
from .. import plots
from ..numbers import typeset
from ..training_rows import TrainingRows
from .figures import figure
from .subject import Subject, subsample

MAX_DOTS = 2000


def scores(y: Floats, mean: Floats, std: Floats) -> list[tuple[str, str, str]]:
    """Name, value and meaning of each score."""
    spread, inside = typeset(float(np.std(y))), typeset(100 * metrics.coverage(y, mean, std=std), 3)
    return [
        ("RMSE", typeset(metrics.rmse(y, mean)), f"root of the mean squared error; predicting the mean: {spread}"),
        ("NLL", typeset(metrics.mean_nll(y, mean, std=std)), "mean negative log likelihood; lower is better"),
        ("CRPS", typeset(metrics.crps(y, mean, std=std)), "continuous ranked probability score; lower is better"),
        ("coverage", f"{inside} %", "of the observations are inside their 95 % intervals"),
    ]


def section(subject: Subject, X: Floats, y: Floats, mean: Floats, std: Floats) -> str:
    """Scores and three charts of predictions at `X`; says so where the model was trained on such inputs."""
    rows = "".join(
        f'<tr><th scope="row">{name}</th><td>{value}</td><td class="words">{meaning}</td></tr>'
        for name, value, meaning in scores(y, mean, std)
    )
    lead = f"{len(y)} observations of {escape(subject.fitted_target)}, noise taken into account."
    n_seen = TrainingRows(subject.model).count(X)
    if n_seen:
        lead += (
            f" <strong>The model was trained on the inputs of {n_seen} of them</strong>, so these scores flatter it."
        )
    return (
        f'<p>{lead}</p><div class="wide"><table><tbody>{rows}</tbody></table></div>'
        f'<div class="charts">{_charts(y, mean, std)}</div>'
    )


def _charts(y: Floats, mean: Floats, std: Floats) -> str:
    worst = max(abs(metrics.coverage(y, mean, std=std, level=level) - level) for level in plots.LEVELS)
    outside = np.mean(np.abs(y - mean) > ndtri(0.975) * std)
    rows = subsample(np.arange(len(y)), MAX_DOTS)
    drawn = "" if len(rows) == len(y) else f" {len(rows)} of {len(y)} are drawn."
    calibration = figure(
        "calibration",
        lambda ax: plots.calibration(y, mean, std, ax=ax).set_aspect("auto"),
        f"Calibration: coverage differs from its nominal value by at most {typeset(100 * worst, 2)} percentage points",
        "Calibration. On the dashed line, intervals hold what they promise; below it they are too narrow.",
    )
    probabilities = figure(
        "probabilities",
        lambda ax: plots.probabilities(y, mean, std, ax=ax),
        "Histogram of where observations fall in their predictive distributions; flat is perfect",
        "Where observations fall. Flat is perfect; raised ends mean intervals too narrow, a hump too wide.",
    )
    residuals = figure(
        "residuals",
        lambda ax: plots.residuals(y[rows], mean[rows], std[rows], ax=ax),
        f"Residuals against predictions; {typeset(100 * float(outside), 2)} % lie outside of the 95 % interval",
        f"Residuals. 19 of 20 belong between the dashed lines, without a pattern.{drawn}",
    )
    return calibration + probabilities + residuals
