"""Gross outliers among left-out residuals: more of them, and farther out, than the tails of the rest account for."""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq
from scipy.spatial import cKDTree
from scipy.special import stdtr, stdtrit

from ..common.types import Booleans, Floats, Integers
from .tails import LEAST_DOF, MOST_DOF

N_NEIGHBOURS = 16  # that an outlier harms
FAR = 8.0  # scales
MANY = 3.0  # times as many as expected are no outliers yet
MOST = 0.02  # of all: more are no outliers, but what the data are like
HARMFUL = 0.1  # share of all squares, with which they are worth a refit


def precisions_without_outliers(standardised: Floats) -> Floats | None:
    """Relative precisions (n,) that make outliers harmless, 1 for all else; None where there are none to speak of.

    Size and tails of the rest are told by the middle of the standardised residuals (n,), which outliers do not reach.
    """
    sizes = np.abs(standardised)
    half, most = np.quantile(sizes, [0.5, 0.9])
    if half <= 0:
        return None
    dof = _dof_of_ratio(float(most / half))
    squares = (sizes * stdtrit(dof, 0.75) / half) ** 2
    is_far = squares > FAR**2
    share = float(np.mean(is_far))
    if not MANY * 2 * stdtr(dof, -FAR) < share <= MOST or squares[is_far].sum() < HARMFUL * squares.sum():
        return None
    return np.where(is_far, (dof + 1) / (dof + squares), 1.0)


def neighbours_of(X: Floats, is_outlier: Booleans) -> Integers:
    """Rows of the points (n, d) next to outliers (n,), which are not among them."""
    near = cKDTree(X).query(X[is_outlier], min(N_NEIGHBOURS, len(X)))[1]
    rows = np.unique(near)
    return np.asarray(rows[~is_outlier[rows]], dtype=np.int64)


def _dof_of_ratio(ratio: float) -> float:
    """Degrees of freedom for which the 0.9 quantile of absolute values is so many times the median."""

    def excess(dof: float) -> float:
        return float(stdtrit(dof, 0.95) / stdtrit(dof, 0.75)) - ratio

    if excess(LEAST_DOF) <= 0:
        return LEAST_DOF
    return MOST_DOF if excess(MOST_DOF) >= 0 else float(brentq(excess, LEAST_DOF, MOST_DOF))
