"""Centres as they were asked for, for the approximation that was chosen."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.spatial import cKDTree

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
    grid: Callable[[float], Placement] | None = None,
) -> Placement:
    """Centres for points `X` (n, d) in length scales; `grid` gives those of a lattice, which may be there already."""
    plan = candidate.plan
    if plan.is_exact:  # all models would be the same
        return Placement(centers.middle(X)[None], None, None)
    kind = request.centers_in(frame)
    if plan.count is None:
        is_grid = isinstance(kind, str) and centers.kind_for(kind, X.shape[1]) == "grid"
        if grid is not None and is_grid and candidate.finite_spacing is not None:
            return grid(candidate.finite_spacing)
        return centers.place(kind, X, candidate.finite_spacing, request.n_centers, rng)
    if candidate.near is None and request.are_spaced:  # each test point will be one
        return Placement(X[:0], None, None)
    chosen = X[:0] if request.are_spaced else centers.place(kind, X, None, request.n_centers, rng).centers
    if len(chosen) == 0 and not request.are_spaced:  # here too
        return Placement(chosen, None, None)
    if candidate.near is None:
        reach = centers.NEAR * cKDTree(X).query(chosen, [min(plan.count, len(X))])[0][:, 0]
        return Placement(chosen, None, None, reach=reach)
    if request.are_spaced or request.open_centers:
        return graded.place(chosen, X, plan.kernel, plan.count, candidate.near, request.n_jobs)
    sizes = graded.sizes_around(chosen, cKDTree(X), plan.count, candidate.near)
    return Placement(chosen, None, None, sizes=sizes, n_chosen=len(chosen))


def share_covered(request: LocalRequest, placement: Placement, X: Floats) -> float:
    """Share of the points (n, d) that are as near to a centre as the measurements assume."""
    return 1.0 if request.are_spaced else float(np.mean(placement.covers(X)))
