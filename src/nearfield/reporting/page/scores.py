"""Section of the page about data with targets: scores, calibration and residuals."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

import numpy as np
from scipy.special import ndtr, ndtri

from ... import metrics
from ...common.left_out import LeftOut
from ...common.types import Floats
from .. import plots
from ..numbers import typeset
from ..training_rows import TrainingRows
from .coverage import words_and_charts
from .figures import figure
from .maps import Projection
from .subject import Subject, subsample

MAX_DOTS = 2000


@dataclass(frozen=True)
class Score:
    """A score with what it means; `is_off` where it is worse than chance explains."""

    name: str
    value: str
    meaning: str
    is_off: bool = False


def scores(held_out: LeftOut, training_mean: float) -> list[Score]:
    """Each score, beside what the mean of the training data would reach."""
    alone = typeset(metrics.rmse(held_out.y, np.full_like(held_out.y, training_mean)))
    covered = held_out.coverage()
    verdict, is_off = coverage_verdict(covered, len(held_out))
    return [
        Score("RMSE", typeset(held_out.rmse), f"root of the mean squared error; the training mean alone: {alone}"),
        Score("NLL", typeset(held_out.nll), "mean negative log likelihood; lower is better"),
        Score("CRPS", typeset(held_out.crps), "continuous ranked probability score; lower is better"),
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


def bias_verdict(z: Floats) -> str:
    """A sentence where observations, as normal scores (n,), are above or below 0 more often than by chance."""
    excess = float(np.mean(ndtr(z))) - 0.5
    if abs(excess) <= 3 / np.sqrt(12 * len(z)):
        return ""
    way, slope = ("low", "rises") if excess > 0 else ("high", "falls")
    return f" It {slope} to the right: predictions are too {way} more often than by chance."


def section(subject: Subject, X: Floats, held_out: LeftOut, plane: Projection | None = None) -> str:
    """Scores and charts of predictions at `X`; says so where the model was trained on such inputs."""
    rows = "".join(
        f'<tr><th scope="row">{score.name}</th><td{off(score)}>{score.value}</td>'
        f'<td class="words">{score.meaning}</td></tr>'
        for score in scores(held_out, subject.model._level_of_targets())
    )
    lead = f"{len(held_out)} observations of {escape(subject.scored_target)}, noise taken into account."
    n_seen = TrainingRows(subject.model).count(X)
    if n_seen:
        lead += (
            f" <strong>The model was trained on the inputs of {n_seen} of them</strong>, so these scores flatter it."
        )
    coordinates, names = (None, ("", "")) if plane is None else (plane.from_inputs, plane.names)
    words, charts = words_and_charts(np.asarray(X), held_out, coordinates, names)
    return (
        f'<p>{lead}</p><div class="wide"><table><tbody>{rows}</tbody></table></div>'
        f'{words}<div class="charts">{_charts(held_out)}{charts}</div>'
    )


def off(score: Score) -> str:
    """An attribute that colours a score which is off."""
    return ' class="off"' if score.is_off else ""


def _charts(held_out: LeftOut) -> str:
    y, mean = held_out.y, held_out.mean
    # Normal scores have the probabilities that the distributions state, whatever their shape.
    z = held_out.distribution.scores(y)
    worst = max(abs(held_out.coverage(level) - level) for level in plots.LEVELS)
    outside = np.mean(np.abs(z) > ndtri(0.975))
    rows = subsample(np.arange(len(y)), MAX_DOTS)
    drawn = "" if len(rows) == len(y) else f" {len(rows)} of {len(y)} are drawn."
    calibration = figure(
        "calibration",
        lambda ax: plots.calibration(y, held_out.distribution, ax=ax).set_aspect("auto"),
        f"Calibration: coverage differs from its nominal value by at most {typeset(100 * worst, 2)} percentage points",
        "Calibration. On the dashed line, intervals hold what they promise; below it they are too narrow.",
    )
    probabilities = figure(
        "probabilities",
        lambda ax: plots.probabilities(y, held_out.distribution, ax=ax),
        "Histogram of where observations fall in their predictive distributions; flat is perfect",
        "Where observations fall. Flat is perfect; raised ends mean intervals too narrow, a hump too wide."
        + bias_verdict(z),
    )
    residuals = figure(
        "residuals",
        lambda ax: plots.residuals(mean[rows] + z[rows], mean[rows], std=np.ones(len(rows)), ax=ax),
        f"Residuals against predictions; {typeset(100 * float(outside), 2)} % lie outside of the 95 % interval",
        f"Residuals. 19 of 20 belong between the dashed lines, without a pattern.{drawn}",
    )
    return calibration + probabilities + residuals
