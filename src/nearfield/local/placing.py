"""Centres as they were asked for, for the approximation that was chosen."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.spatial import cKDTree
from sklearn.neighbors import KDTree

from ..common.types import Floats
from . import centers, graded
from .centers import Placement
from .choices import Candidate
from .frame import Frame
from .request import LocalRequest


def place_centers(
    request: LocalRequest,
    candidate: Candidate,
    frame: Frame,
    X: Floats,
    rng: np.random.RandomState,
    tree: KDTree | None = None,
) -> Placement:
    """Centres for points `X` (n, d) in length scales; `tree` is their index, where there is one."""
    plan = candidate.plan
    if plan.is_exact:  # all models would be the same
        return Placement(centers.middle(X)[None], None, None)
    if candidate.near is not None and request.are_spaced and plan.count is not None:
        return _graded(candidate, X, request.n_jobs)
    kind = request.centers_in(frame)
    if candidate.cell_points is None:
        return centers.place(kind, X, candidate.finite_spacing, request.n_centers, rng)
    assert plan.count is not None
    tree = KDTree(X) if tree is None else tree
    chosen = Placement(X[:0], None, None, reach=np.empty(0))
    if not request.are_spaced:
        chosen = centers.place(kind, X, None, request.n_centers, rng)
        if len(chosen.centers) == 0:  # each test point will be one
            return chosen
        chosen = replace(chosen, reach=centers.reach_of(chosen.centers, plan.count, tree))
        if not request.open_centers:
            return chosen
    return centers.completed(chosen, X, candidate.cell_points, plan.count, tree)


def _graded(candidate: Candidate, X: Floats, n_jobs: int | None) -> Placement:
    """One centre per cell of the box around the data."""
    plan = candidate.plan
    assert plan.count is not None
    assert candidate.near is not None
    low, high = graded.covering_box(X, plan.kernel.length_scales)
    middles, sizes, _ = graded.cells(low, high, cKDTree(X), plan.count, candidate.near, n_jobs)
    return Placement(middles, None, None, sizes=sizes)


def share_covered(request: LocalRequest, placement: Placement, X: Floats) -> float:
    """Share of the points (n, d) that are as near to a centre as the measurements assume."""
    return 1.0 if request.are_spaced else float(np.mean(placement.covers(X)))
