"""How the authors' program shares out features among degrees, where that differs from the paper's words.

The paper takes the truncation `p` with the least variance plus bias. The program published with it
(https://github.com/joneswack/dp-rfs) tries `p` from 2 on, and averages the bias over all pairs of sample points, each
point with itself included. Both matter for kin8nm, where `p = 1` looks best for few Rademacher features and `p = 3` for
many TensorSRHT ones, and neither predicts as well.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.special import gammainc

from ..common.types import Floats
from ..features import allocation, maclaurin, sketch, taylor
from ..local.features import LocalFeatures
from ..local.plan import Plan

SAMPLE_SIZE, MIN_DEGREE, MAX_DEGREE = 500, 2, 15


def counts(z: Floats, D: int, sampling: str) -> dict[int, int]:
    """Features of each degree, for scaled and centred sample points `z` of shape (m, d)."""
    errors = allocation.degree_errors(z, MAX_DEGREE, sampling)
    # A point with itself: what the series of degree n lacks of 1 is a tail of the Poisson distribution.
    own = np.stack([gammainc(n + 1, np.einsum("ij,ij->i", z, z)) ** 2 for n in range(MAX_DEGREE + 1)]).mean(axis=1)
    bias = errors.bias + (own - errors.bias) / len(z)
    if D - 1 >= MIN_DEGREE:
        bias[:MIN_DEGREE] = np.inf
    shares, _ = allocation.optimal_counts(replace(errors, bias=bias), D - 1, at_least_one=True)
    return shares


def authors_plan(plan: Plan, Z: Floats, D: int, sampling: str, seed: int) -> Plan:
    """The plan with a map allocated as the authors did; `Z` are training points in length scales."""
    rng = np.random.RandomState(seed)
    sample = Z[rng.choice(len(Z), min(len(Z), SAMPLE_SIZE), replace=False)]
    shares = counts(sample - sample.mean(axis=0), D, sampling)
    d = Z.shape[1]
    sketches = tuple((1.0, sketch.sample(d, n, count, sampling, rng)) for n, count in shares.items())
    drawn = maclaurin.MaclaurinMap(taylor.sample(d, 0), sketches)
    return replace(plan, features=LocalFeatures.of(plan.kernel, (drawn,)))
