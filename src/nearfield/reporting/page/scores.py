"""Section of the page about data with targets: scores, calibration and residuals."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

import numpy as np
from scipy.special import ndtr, ndtri

from ... import metrics
from ...common.types import Floats
from .. import plots
from ..numbers import typeset
from ..training_rows import TrainingRows
from .figures import figure
from .subject import Subject, subsample

MAX_DOTS = 2000


@dataclass(frozen=True)
class Score:
    """A score with what it means; `is_off` where it is worse than chance explains."""

    name: str
    value: str
    meaning: str
    is_off: bool = False


def scores(y: Floats, mean: Floats, std: Floats, training_mean: float) -> list[Score]:
    """Each score, beside what the mean of the training data would reach."""
    alone = typeset(metrics.rmse(y, np.full_like(y, training_mean)))
    covered = metrics.coverage(y, mean, std=std)
    verdict, is_off = coverage_verdict(covered, len(y))
    return [
        Score(
            "RMSE", typeset(metrics.rmse(y, mean)), f"root of the mean squared error; the training mean alone: {alone}"
        ),
        Score("NLL", typeset(metrics.mean_nll(y, mean, std=std)), "mean negative log likelihood; lower is better"),
        Score("CRPS", typeset(metrics.crps(y, mean, std=std)), "continuous ranked probability score; lower is better"),
        Score(
            "coverage",
            f"{typeset(100 * covered, 3)} %",
            f"of the observations are inside their 95 % intervals; {verdict}",
            is_off,
        ),
    ]


def coverage_verdict(covered: float, n: int, level: float = 0.95) -> tuple[str, bool]:
    """What a coverage of `n` observations says of the intervals, and whether it is off by more than chance allows."""
    error = 2 * float(np.sqrt(level * (1 - level) / n))
    if abs(covered - level) <= error:
        return f"as promised, within the {typeset(100 * error, 2)} points that chance allows", False
    way = "narrow: the noise may vary, or have outliers" if covered < level else "wide: the noise may vary"
    return f"chance allows {typeset(100 * error, 2)} points, so the intervals are too {way}", True


def bias_verdict(y: Floats, mean: Floats, std: Floats) -> str:
    """A sentence where observations fall above or below the middle of their distributions more often than by chance."""
    excess = float(np.mean(ndtr((y - mean) / std))) - 0.5
    if abs(excess) <= 3 / np.sqrt(12 * len(y)):
        return ""
    way, slope = ("low", "rises") if excess > 0 else ("high", "falls")
    return f" It {slope} to the right: predictions are too {way} more often than by chance."


def section(subject: Subject, X: Floats, y: Floats, mean: Floats, std: Floats) -> str:
    """Scores and three charts of predictions at `X`; says so where the model was trained on such inputs."""
    rows = "".join(
        f'<tr><th scope="row">{score.name}</th><td{off(score)}>{score.value}</td>'
        f'<td class="words">{score.meaning}</td></tr>'
        for score in scores(y, mean, std, float(subject.model.y_mean_[0]))
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


def off(score: Score) -> str:
    """An attribute that colours a score which is off."""
    return ' class="off"' if score.is_off else ""


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
        "Where observations fall. Flat is perfect; raised ends mean intervals too narrow, a hump too wide."
        + bias_verdict(y, mean, std),
    )
    residuals = figure(
        "residuals",
        lambda ax: plots.residuals(y[rows], mean[rows], std[rows], ax=ax),
        f"Residuals against predictions; {typeset(100 * float(outside), 2)} % lie outside of the 95 % interval",
        f"Residuals. 19 of 20 belong between the dashed lines, without a pattern.{drawn}",
    )
    return calibration + probabilities + residuals
