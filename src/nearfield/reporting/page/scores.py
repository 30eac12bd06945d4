"""Section of the page about data with targets: scores, calibration and residuals."""

from __future__ import annotations

from html import escape

import numpy as np
from scipy.special import ndtri

from ... import metrics
from ...common.types import Floats
from .. import plots
from ..numbers import typeset
from .figures import figure
from .subject import subsample

MAX_DOTS = 2000


def scores(y: Floats, mean: Floats, std: Floats) -> list[tuple[str, str, str]]:
    """Name, value and meaning of each score."""
    variance = std**2
    spread = typeset(float(np.std(y)))
    return [
        ("RMSE", typeset(metrics.rmse(y, mean)), f"root of the mean squared error; predicting the mean: {spread}"),
        ("NLL", typeset(metrics.mean_nll(y, mean, variance)), "mean negative log likelihood; lower is better"),
        ("CRPS", typeset(metrics.crps(y, mean, variance)), "continuous ranked probability score; lower is better"),
        (
            "coverage",
            f"{typeset(100 * metrics.coverage(y, mean, variance), 3)} %",
            "of the observations are inside their 95 % intervals",
        ),
    ]


def section(y: Floats, mean: Floats, std: Floats, target: str, n_trained_on: int = 0) -> str:
    """Scores and three charts; `n_trained_on` of the rows have inputs that the model was trained on."""
    rows = "".join(
        f'<tr><th scope="row">{name}</th><td>{value}</td><td class="words">{meaning}</td></tr>'
        for name, value, meaning in scores(y, mean, std)
    )
    flattery = (
        f" <strong>The model was trained on the inputs of {n_trained_on} of them</strong>, so these scores flatter it."
        if n_trained_on
        else ""
    )
    return (
        f"<p>{len(y)} observations of {escape(target)}, noise taken into account.{flattery}</p>"
        f'<div class="wide"><table><tbody>{rows}</tbody></table></div>'
        f'<div class="charts">{_charts(y, mean, std)}</div>'
    )


def _charts(y: Floats, mean: Floats, std: Floats) -> str:
    worst = max(abs(metrics.coverage(y, mean, std**2, level) - level) for level in plots.LEVELS)
    outside = np.mean(np.abs(y - mean) > ndtri(0.975) * std)
    rows = subsample(np.arange(len(y)), MAX_DOTS)
    drawn = "" if len(rows) == len(y) else f" {len(rows)} of {len(y)} are drawn."
    return "".join(
        (
            figure(
                "calibration",
                lambda ax: plots.calibration(y, mean, std, ax=ax).set_aspect("auto"),
                f"Calibration: coverage differs from its nominal value by at most {typeset(100 * worst, 2)} percentage "
                "points",
                "Calibration. On the dashed line, intervals hold what they promise; below it they are too narrow.",
            ),
            figure(
                "probabilities",
                lambda ax: plots.probabilities(y, mean, std, ax=ax),
                "Histogram of where observations fall in their predictive distributions; flat is perfect",
                "Where observations fall. Flat is perfect; raised ends mean intervals too narrow, a hump too wide.",
            ),
            figure(
                "residuals",
                lambda ax: plots.residuals(y[rows], mean[rows], std[rows], ax=ax),
                f"Residuals against predictions; {typeset(100 * float(outside), 2)} % lie outside of the 95 % interval",
                f"Residuals. 19 of 20 belong between the dashed lines, without a pattern.{drawn}",
            ),
        )
    )
