"""One plain sentence on whether a fitted model can be relied on; if not, what is wrong and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import binomtest

if TYPE_CHECKING:
    from .report import Report


@dataclass(frozen=True)
class VerdictLimits:
    """From where on something counts as wrong."""

    coverage_error: float = 0.025
    """Largest difference between the share of left-out rows inside their 95 % intervals and 95 %: half of the 5 %
    that should lie outside."""

    chance: float = 1e-3
    """A difference that sampling makes with more than this probability is not held against the model."""

    signal_share: float = 1e-4
    """A signal variance below this share of the total variance explains nothing: its standard deviation is a
    hundredth of the data's."""


LIMITS = VerdictLimits()


def verdict(report: Report) -> str:
    """A sentence that starts with "Fine", or one that starts with "Look again" for each thing that is wrong."""
    problems = list(_problems(report))
    return " ".join(f"Look again: {problem}." for problem in problems) if problems else f"Fine: {_praise(report)}."


def _problems(report: Report) -> Iterator[str]:
    """What is wrong and what to do, the gravest first."""
    n_hyperparameters = sum(np.size(value) for value in report.hyperparameters.values() if value is not None)
    if not report.settled and report.n_samples <= n_hyperparameters:
        yield (
            f"{report.n_samples} samples do not determine the hyperparameters, which are guesses; give more samples, "
            "or the hyperparameters"
        )
    elif not report.settled:
        yield (
            "learning stopped before the hyperparameters settled, so that another run may find others; raise "
            "time_budget, or give some of the hyperparameters"
        )
    if _is_noise_alone(report):
        yield (
            "nothing but noise was found, so that every prediction is nearly the mean of the target; check that the "
            "columns have to do with the target, and that rows of X and y belong together"
        )
    if report.divergence is None and report.served < 1:
        yield (
            f"{1 - report.served:.0%} of the samples are far from all centres, so that the distance from the exact "
            "Gaussian process is not known; take more centres, or open_centers=True"
        )
    if not report.verified and report.tolerance is not None:
        yield (
            "how far predictions are from the exact Gaussian process is not verified, since it is too large for "
            "time_budget and memory_budget; raise them, fit fewer rows, or ask certify(X) at some places"
        )
    elif report.tolerance_met is False and report.divergence is not None:
        yield (
            f"predictions are {_distances(report)} from the exact Gaussian process, which with 95 % confidence is not "
            f"within the tolerance of {report.tolerance:g}; raise tolerance to accept that, or set radius, spacing and "
            "features by hand"
        )
    if report.variogram is not None:
        distance, ratio = report.variogram
        yield (
            f"rows {distance:.3g} length scales apart differ {'more' if ratio > 1 else 'less'} than the model expects "
            f"(the variogram of the data is {ratio:.2g} times that of the model); try another kernel, n_scales='auto' "
            "or a drift"
        )
    if _is_covered_badly(report):
        coverage = report.left_out["coverage"]
        yield (
            f"{coverage:.1%} of the left-out rows lie inside their 95 % intervals, which are too "
            f"{'narrow' if coverage < 0.95 else 'wide'}; try noise='auto' and likelihood='auto', or another unit of "
            "the target, such as its logarithm"
        )


def _is_noise_alone(report: Report) -> bool:
    signal, noise = (report.hyperparameters.get(name) for name in ("signal_variance", "noise_variance"))
    if signal is None or noise is None:
        return False
    total = float(np.sum(signal)) + float(np.sum(noise))
    return float(np.sum(signal)) < LIMITS.signal_share * total


def _is_covered_badly(report: Report) -> bool:
    scores = report.left_out
    if not scores or abs(scores["coverage"] - 0.95) <= LIMITS.coverage_error:
        return False
    n = int(scores["samples"])
    return bool(binomtest(round(scores["coverage"] * n), n, 0.95).pvalue < LIMITS.chance)


def _praise(report: Report) -> str:
    """What was found to be right: no more than was measured."""
    if report.is_exact:
        parts = ["this is the exact Gaussian process"]
    elif report.divergence is None:
        parts = ["nothing is known to be wrong, but the distance from the exact Gaussian process was not measured"]
    elif not report.verified:
        parts = ["nothing is known to be wrong, but the distance from the exact Gaussian process is not verified"]
    elif report.tolerance is None:
        parts = [f"predictions are {_distances(report)} from the exact Gaussian process"]
    else:
        parts = [
            f"predictions are {_distances(report)} from the exact Gaussian process, within the tolerance of "
            f"{report.tolerance:g}"
        ]
    if report.left_out:
        parts.append(f"{report.left_out['coverage']:.1%} of left-out rows lie inside their 95 % intervals")
    return ", and ".join(parts)


def _distances(report: Report) -> str:
    """That of observations, and that of the function where it is known."""
    text = f"{report.divergence:.1e} nats of KL per point"
    of_function = report.divergence_of_function
    return text if of_function is None else f"{text} (the function without noise: {of_function:.1e})"
