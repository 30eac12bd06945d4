"""Section of the page about data with targets: scores, calibration and residuals."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np
from scipy.special import ndtri
from sklearn.cluster import MiniBatchKMeans

from ... import metrics
from ...common.left_out import LeftOut
from ...common.types import Floats
from .. import plots
from ..numbers import typeset
from ..training_rows import TrainingRows
from .figures import figure
from .subject import Subject, subsample

MAX_DOTS = 2000
N_GROUPS, LEAST_PER_GROUP = 10, 50


def scores(held_out: LeftOut) -> list[tuple[str, str, str]]:
    """Name, value and meaning of each score."""
    spread, inside = typeset(float(np.std(held_out.y))), typeset(100 * held_out.coverage(), 3)
    return [
        ("RMSE", typeset(held_out.rmse), f"root of the mean squared error; predicting the mean: {spread}"),
        ("NLL", typeset(held_out.nll), "mean negative log likelihood; lower is better"),
        ("CRPS", typeset(held_out.crps), "continuous ranked probability score; lower is better"),
        ("coverage", f"{inside} %", "of the observations are inside their 95 % intervals"),
    ]


def section(subject: Subject, X: Floats, held_out: LeftOut) -> str:
    """Scores and three charts of predictions at `X`; says so where the model was trained on such inputs."""
    rows = "".join(
        f'<tr><th scope="row">{name}</th><td>{value}</td><td class="words">{meaning}</td></tr>'
        for name, value, meaning in scores(held_out)
    )
    lead = f"{len(held_out)} observations of {escape(subject.scored_target)}, noise taken into account."
    n_seen = TrainingRows(subject.model).count(X)
    if n_seen:
        lead += (
            f" <strong>The model was trained on the inputs of {n_seen} of them</strong>, so these scores flatter it."
        )
    return (
        f'<p>{lead}</p><div class="wide"><table><tbody>{rows}</tbody></table></div>'
        f'{_by_group(np.asarray(X), held_out)}<div class="charts">{_charts(held_out)}</div>'
    )


def _by_group(X: Floats, held_out: LeftOut) -> str:
    """Coverage in regions of the inputs, and by predicted value, in a sentence; none for few observations."""
    if len(held_out) < LEAST_PER_GROUP * N_GROUPS:
        return ""
    low, high = held_out.distribution.interval(0.95)
    inside = (held_out.y >= low) & (held_out.y <= high)
    spread = X.std(axis=0)
    regions = MiniBatchKMeans(N_GROUPS, n_init=3, random_state=0).fit_predict(X / np.where(spread > 0, spread, 1.0))
    shares = [inside[regions == region].mean() for region in np.unique(regions)]
    tenths = [inside[rows].mean() for rows in np.array_split(np.argsort(held_out.mean), N_GROUPS)]

    def between(values: Sequence[float]) -> str:
        return f"{typeset(100 * min(values), 3)} and {typeset(100 * max(values), 3)} %"

    return (
        f"<p>In {len(shares)} regions of the inputs, between {between(shares)} are inside their 95 % intervals; by "
        f"tenths of the predicted value, between {between(tenths)}.</p>"
    )


def _charts(held_out: LeftOut) -> str:
    y, mean = held_out.y, held_out.mean
    # Normal scores have the probabilities that the distributions state, whatever their shape.
    z = held_out.distribution.scores(y)
    zeros, ones = np.zeros_like(z), np.ones_like(z)
    worst = max(abs(metrics.coverage(z, zeros, ones, level) - level) for level in plots.LEVELS)
    outside = np.mean(np.abs(z) > ndtri(0.975))
    rows = subsample(np.arange(len(y)), MAX_DOTS)
    drawn = "" if len(rows) == len(y) else f" {len(rows)} of {len(y)} are drawn."
    calibration = figure(
        "calibration",
        lambda ax: plots.calibration(z, zeros, ones, ax=ax).set_aspect("auto"),
        f"Calibration: coverage differs from its nominal value by at most {typeset(100 * worst, 2)} percentage points",
        "Calibration. On the dashed line, intervals hold what they promise; below it they are too narrow.",
    )
    probabilities = figure(
        "probabilities",
        lambda ax: plots.probabilities(z, zeros, ones, ax=ax),
        "Histogram of where observations fall in their predictive distributions; flat is perfect",
        "Where observations fall. Flat is perfect; raised ends mean intervals too narrow, a hump too wide.",
    )
    residuals = figure(
        "residuals",
        lambda ax: plots.residuals(mean[rows] + z[rows], mean[rows], ones[rows], ax=ax),
        f"Residuals against predictions; {typeset(100 * float(outside), 2)} % lie outside of the 95 % interval",
        f"Residuals. 19 of 20 belong between the dashed lines, without a pattern.{drawn}",
    )
    return calibration + probabilities + residuals
