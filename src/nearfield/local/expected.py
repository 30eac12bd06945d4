"""What a choice by radius will come to, before anything is measured: by experience with even data."""

from __future__ import annotations

from math import gamma
from typing import Any

import numpy as np

from ..common.samples import some_rows
from ..features import taylor
from ..kernels import Kernel
from .neighbourhoods import TrainingSet
from .plan import kernel_cost, moments_cost
from .probes import cell_radius
from .thinning import MAX_AVERAGES

MAX_FEATURES = 1300
RADII = (1.5, 1.75, 2.0, 2.25, 2.5, 2.75, 3.0, 3.25, 3.5, 3.75, 4.0, 4.25, 4.5, 4.75, 5.0, 5.5, 6.0, 6.5, 7.0, 7.5, 8.0)
# Digits of the divergence at a radius of 3, of even data in one to three columns, 14 points per unit of volume, whose
# noise is a tenth of the variance; and how many more there are with the radius, noise and density. By measurement.
DIGITS_AT_3 = {1: 3.3, 2: 2.95, 3: 1.75}
DENSITY_WITHIN = 2.0  # length scales
DIGITS_PER_RADIUS, DIGITS_PER_NOISE, DIGITS_PER_DENSITY = 0.63, 0.65, 0.5
IN_GAPS = (0.3, 0.8)  # digits that gaps ask for beside them, of even data and of others
COUNTED = 100  # points whose neighbours are counted
MEASURED = 150  # neighbourhoods that a choice takes, about
FURTHER_TRIALS = 5e8  # operations worth, that it takes where data are not even
EVEN, FAIRLY_EVEN = 0.97, 0.9  # see `evenness`: where data are dense and even, and where they are so but for their ends
RATIO, RICHNESS = 0.6, 1.1  # of spacing and radius, of degree and squared radius, that are seldom far from the best


def expected_cost(kernel: Kernel, data: TrainingSet, tolerance: float) -> float:
    """About what a choice by radius will cost, and what it takes to find it, in the units of `Trial.cost`.

    For one Gaussian; infinite where no candidate may have as many features as would be needed.
    """
    n, d = data.X.shape
    if d not in DIGITS_AT_3:
        return np.inf
    some = data.X[some_rows(n, COUNTED)]
    counts = data.counts(some, DENSITY_WITHIN)
    radius = radius_for(kernel, data, digits_in_gaps(counts) - np.log10(tolerance), counts)
    degree = int(np.ceil(RICHNESS * radius**2))
    if (D := taylor.n_monomials(d, degree)) > MAX_FEATURES:
        return np.inf
    near = float(np.mean(data.counts(some, radius)))
    in_cell = max(near * (RATIO * cell_radius(d)) ** d, 1.0)
    n_moments = taylor.n_monomials(d, 2 * degree)
    each = min(kernel_cost(near), moments_cost(near, D, n_moments))
    measured = MEASURED * min(kernel_cost(near), moments_cost(min(near, MAX_AVERAGES), D, n_moments))
    further = 0.0 if evenness(counts) > FAIRLY_EVEN else FURTHER_TRIALS
    return float(n * each / in_cell + measured + further)


def evenness(sizes: Any) -> float:
    """Harmonic mean of the sizes of some neighbourhoods (m,) over their mean: 1 where all are alike."""
    return float(1 / np.mean(1 / sizes) / np.mean(sizes))


def digits_in_gaps(sizes: Any) -> float:
    """Digits that gaps ask for beside those of other places, by sizes of neighbourhoods (m,)."""
    return IN_GAPS[0 if evenness(sizes) > FAIRLY_EVEN else 1]


def radius_for(kernel: Kernel, data: TrainingSet, digits: float, counts: Any) -> float:
    """Radius at which the divergence has so many digits, about, by what is known of even data in up to three columns.

    `counts` (m,) are numbers of points within `DENSITY_WITHIN` of some of them.
    """
    d = data.X.shape[1]
    density = float(np.mean(counts)) / (np.pi ** (d / 2) / gamma(d / 2 + 1) * DENSITY_WITHIN**d)
    noise = max(data.typical_noise / kernel.variance, 1e-12)
    at_3 = DIGITS_AT_3[d] + DIGITS_PER_NOISE * np.log10(noise / 0.1) + DIGITS_PER_DENSITY * np.log10(density / 14.0)
    return float(np.clip(3.0 + (digits - at_3) / DIGITS_PER_RADIUS, RADII[0], RADII[-1]))
