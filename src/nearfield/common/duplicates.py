"""Samples at the same place, of a function observed without noise."""

from __future__ import annotations

from typing import Any

import numpy as np

from .arrays import Array, on_host
from .types import Integers


def distinct_points(X: Array, y: Array, sample_weight: Any = None) -> Integers:
    """Each place once, for `noise_variance=0`: a place that comes twice says nothing new, or contradicts itself.

    Parameters
    ----------
    X : array or tensor of shape (n, d)
    y : array or tensor of shape (n, k)
    sample_weight : array, number or None, default=None
        Weights as the user gave them: where some are 0, `X` and `y` lack those rows, and messages count them.

    Returns
    -------
    kept : ndarray of shape (m,)
        Rows of `X`, in their order: the first at every place.

    Raises
    ------
    ValueError
        Where samples at the same place have different targets.
    """
    X, y = on_host(X), on_host(y)
    _, first, group = np.unique(X, axis=0, return_index=True, return_inverse=True)
    group = group.reshape(-1)
    # Values of one function computed in another order differ in their last digits.
    conflicts = np.flatnonzero(np.any(np.abs(y - y[first[group]]) > 1e-12 * np.abs(y).max(axis=0), axis=1))
    if len(conflicts):
        weights = np.ones(len(X)) if sample_weight is None else on_host(sample_weight).astype(np.float64)
        rows = np.flatnonzero(weights > 0) if weights.ndim else np.arange(len(X))
        i, j = sorted(int(rows[k]) for k in (conflicts[0], first[group[conflicts[0]]]))
        raise ValueError(
            f"Samples {i} and {j} are at the same place but have different targets, which noise_variance=0 does not "
            "allow. Give a positive noise_variance, or None to learn it."
        )
    kept: Integers = np.sort(first)
    return kept
