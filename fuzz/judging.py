"""One data set, fitted with the defaults: what came of it, in figures, and what is wrong with them.

`measure` fits and predicts; `judge` names what fails, from the figures alone, so that figures of an earlier version
can be judged again. The failures, and how much chance is allowed, for which rows that are equal count once:

crash
    Any exception but a refusal. A refusal is a `ValueError` that the library itself raises, in one line.
time
    No answer within the limit of processor time.
not finite, rows
    A mean, standard deviation or bound that is not finite; another number of answers than of rows.
worse than the mean
    The mean squared error is above that of the mean of the training targets by more than three standard errors. Two
    are possible: of the differences row by row, and of the squared errors of the mean. The smaller counts, as a
    single absurd answer makes the first as large as itself.
far from exact
    For made-up data: the RMSE is above 1.25 times that of `ExactGPRegressor` with plain noise, by as much again.
NLL
    The mean negative log likelihood is above that of a normal with the mean and variance of the training targets by
    more than 0.05 and three standard errors. Again the smaller of two: of the differences, and of the normal's own.
covers too little
    Fewer test rows lie inside their 95 % intervals than in one of 2000 cases by chance. The level is learnt from n
    rows, so that a perfect method's coverage is beta distributed and the number of rows inside beta-binomial.
too wide
    Intervals of half the width still hold more than 95 %, by the same limits. Not asked where one value is more
    than 5 % of the targets, as intervals around rounded or counted things hold more than they say for good reasons,
    nor where the intervals are below a hundredth of the targets' spread, which is nearly a function and nobody's
    worry.
"""

from __future__ import annotations

import re
import time
import traceback
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import betabinom, norm

import nearfield as nf

from .runner import describe, is_library

LEVEL = 0.95
CHANCE = 5e-4  # of a coverage beyond its limit, on either side
ERRORS = 3.0  # standard errors
EXTRA_NLL = 0.05
COMMON = 0.05  # share of one value that makes a target a counted or rounded one
NARROW = 0.01  # widths below this share of the targets' spread are not called too wide
BESIDE_EXACT = 1.25
ROUNDING = 1e-9  # of the spread; errors below it are equal

Figures = Mapping[str, Any]


@dataclass(frozen=True)
class Case:
    """Rows to learn from, (n, d) and (n,), and rows to predict, (m, d) and (m,)."""

    name: str
    X: Any
    y: Any
    X_test: Any
    y_test: Any
    ard: bool | str
    label: str = ""


def measure(case: Case, beside: str = "", make: Callable[..., Any] = nf.LocalGPRegressor) -> dict[str, Any]:
    """Figures of one case, as JSON holds them; with the error of "exact" or "boosting" beside ours."""
    figures: dict[str, Any] = {
        "name": case.name,
        "label": case.label,
        "n": len(case.y),
        "m": len(case.y_test),
        "d": case.X.shape[1],
        "distinct": [
            len(np.unique(np.column_stack(rows), axis=0)) for rows in ((case.X, case.y), (case.X_test, case.y_test))
        ],
        "common": float(np.unique(case.y, return_counts=True)[1].max() / len(case.y)),
        "spread": float(np.std(case.y)),
        "mse_of_mean": float(np.mean((case.y_test - case.y.mean()) ** 2)),
    }
    began = time.process_time()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            model = make(ard=case.ard, random_state=0).fit(case.X, case.y)
            mean, std = model.predict(case.X_test, return_std=True, include_noise=True)
            low, high = model.predict_interval(case.X_test, LEVEL)
            density = model.predict_distribution(case.X_test).logpdf(case.y_test)
        except Exception as error:
            figures |= _of_error(error)
        else:
            figures |= _of_answers(case, *(np.asarray(a) for a in (mean, std, low, high, density)))
        figures["seconds"] = time.process_time() - began
        figures["warnings"] = sorted({_kind(w) for w in said})
        if beside:
            other = (case.y_test - _other(beside, case.ard).fit(case.X, case.y).predict(case.X_test)) ** 2
            figures[beside] = float(np.sqrt(other.mean()))
            if figures.get("finite"):
                figures[f"{beside}_errors"] = [_error((case.y_test - mean) ** 2 - other), _error(other)]
    return figures


def judge(figures: Figures) -> list[str]:
    """What fails, a few words each that begin with the kind; nothing where all is well."""
    if "error" in figures:
        return [] if figures["refused"] else [f"crash: {figures['error']}"]
    if "ended" in figures:
        return [figures["ended"]]
    if figures["answers"] != figures["m"]:
        return [f"rows: {figures['answers']} answers for {figures['m']}"]
    if not figures["finite"]:
        return ["not finite"]
    failures = []
    errors = ERRORS * (figures["m"] / figures["distinct"][1]) ** 0.5
    if figures["mse"] - figures["mse_of_mean"] > errors * min(figures["mse_errors"]):
        failures.append(f"worse than the mean: {figures['rmse'] / figures['mse_of_mean'] ** 0.5:.3g} of its RMSE")
    if "nll_of_normal" in figures:
        worse = figures["nll"] - figures["nll_of_normal"]
        if not worse <= max(EXTRA_NLL, errors * min(figures["nll_errors"])):
            failures.append(f"NLL: {figures['nll']:.3g}, of a normal {figures['nll_of_normal']:.3g}")
    least, most = limits(*figures["distinct"])
    inside, inside_half = (figures[key] / figures["m"] for key in ("inside", "inside_half"))
    if inside < least:
        failures.append(f"covers too little: {100 * inside:.1f} %, chance leaves {100 * least:.1f} %")
    wide = figures["common"] <= COMMON and figures["width"] > NARROW * figures["spread"]
    if wide and inside_half > most:
        failures.append(f"too wide: half of it covers {100 * inside_half:.1f} %")
    if "exact" in figures:
        allowed = BESIDE_EXACT * figures["exact"] + ROUNDING * figures["spread"]
        if figures["mse"] - allowed**2 > errors * min(figures["exact_errors"]):
            failures.append(f"far from exact: RMSE {figures['rmse']:.3g}, exact {figures['exact']:.3g}")
    return failures


def limits(n: int, m: int) -> tuple[float, float]:
    """Least and most share of m rows inside intervals whose level was learnt from n."""
    inside = betabinom(m, LEVEL * (n + 1), (1 - LEVEL) * (n + 1))
    return float(inside.ppf(CHANCE)) / m, float(inside.ppf(1 - CHANCE)) / m


def kind(failure: str) -> str:
    """The kind of a failure, to count by."""
    return failure.partition(":")[0]


def _of_answers(case: Case, mean: Any, std: Any, low: Any, high: Any, density: Any) -> dict[str, Any]:
    y, m = case.y_test, len(case.y_test)
    if not mean.shape == std.shape == low.shape == high.shape == (m,):
        return {"answers": len(mean)}
    figures: dict[str, Any] = {"answers": m, "finite": bool(np.isfinite([mean, std, low, high]).all())}
    if not figures["finite"]:
        return figures
    ours, of_mean = (y - mean) ** 2, (y - case.y.mean()) ** 2
    middle, half = (low + high) / 2, (high - low) / 2
    figures |= {
        "rmse": float(np.sqrt(ours.mean())),
        "mse": float(ours.mean()),
        "mse_errors": [_error(ours - of_mean), _error(of_mean)],
        "nll": float(-density.mean()),
        "inside": int(((y >= low) & (y <= high)).sum()),
        "inside_half": int((np.abs(y - middle) <= half / 2).sum()),
        "width": float(np.median(high - low)),
    }
    if np.std(case.y) > 0:
        of_normal = norm.logpdf(y, case.y.mean(), case.y.std())
        figures["nll_of_normal"] = float(-of_normal.mean())
        figures["nll_errors"] = [_error(of_normal - density), _error(of_normal)]
    return figures


def _of_error(error: Exception) -> dict[str, Any]:
    """What was raised, where, and whether it is a refusal: the library's own ValueError, in one line."""
    own = is_library(traceback.extract_tb(error.__traceback__)[-1])
    refused = own and type(error) is ValueError and "\n" not in str(error)
    return {"error": f"{describe(error)}: {str(error)[:200]}", "refused": refused}


def _other(name: str, ard: bool | str) -> Any:
    if name == "exact":
        return nf.ExactGPRegressor(ard=ard, random_state=0, noise="constant", likelihood="gaussian")
    from sklearn.ensemble import HistGradientBoostingRegressor

    return HistGradientBoostingRegressor(random_state=0)


def _kind(warning: warnings.WarningMessage) -> str:
    """Category and the first words of a warning, without its numbers."""
    return f"{warning.category.__name__}: {re.sub(r'[-+]?[0-9][0-9.,e+-]*', '#', str(warning.message))[:70]}"


def _error(values: Any) -> float:
    """Standard error of a mean."""
    return float(np.std(values) / np.sqrt(len(values)))
