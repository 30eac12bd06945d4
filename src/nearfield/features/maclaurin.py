r"""Maclaurin features of the Gaussian kernel: low degrees exactly, higher ones by polynomial sketches.

.. math:: \hat k(z, z') = e^{-(|z|^2 + |z'|^2)/2} \sum_{n=0}^p \frac{1}{n!} \phi_n(z)' \phi_n(z')
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from ..common.arrays import Array, namespace
from ..common.validation import check_integer, check_option, check_random_state, describe, is_whole
from . import allocation, sketch, taylor
from .base import ShiftedFeatures

SAMPLE_SIZE = 500


@dataclass(frozen=True, eq=False)
class MaclaurinMap:
    """Monomials written out, and sketches of higher degrees each with a weight on its kernel."""

    monomials: taylor.TaylorMap
    sketches: tuple[tuple[float, sketch.Sketch], ...]

    @property
    def n_components(self) -> int:
        """Number of columns `D`."""
        return self.monomials.n_components + sum(s.n_components for _, s in self.sketches)

    @property
    def degree(self) -> int:
        """Largest degree of the series that is present."""
        return max([self.monomials.degree, *(s.degree for _, s in self.sketches)])


def sample(
    z: NDArray[np.float64],
    n_components: int,
    sampling: str,
    rng: np.random.RandomState,
    *,
    method: str = "optimal",
    exact_degrees: int | None = None,
    max_degree: int = 15,
) -> MaclaurinMap:
    """Choose the degrees on scaled and centred points `z` of shape (m, d) and draw the sketches.

    Parameters
    ----------
    method : {"optimal", "random"}
        How the columns are shared out among the degrees.
    exact_degrees : int or None
        Degrees written out exactly; None leaves it to the allocation ("random" then writes out the constant only).
    """
    d = z.shape[1]
    if method == "random":
        exponents = taylor.sample(d, exact_degrees or 0).exponents
        counts, weights = allocation.random_counts(n_components - len(exponents), max_degree, exact_degrees or 0, rng)
    else:
        if len(z) > SAMPLE_SIZE:
            z = z[rng.choice(len(z), SAMPLE_SIZE, replace=False)]
        chosen = allocation.optimal(np.asarray(z, np.float64), n_components, sampling, max_degree, exact_degrees)
        exponents, counts, weights = chosen.exponents, chosen.counts, dict.fromkeys(chosen.counts, 1.0)
    sketches = tuple((weights[n], sketch.sample(d, n, count, sampling, rng)) for n, count in counts.items())
    return MaclaurinMap(taylor.from_exponents(exponents), sketches)


def apply(maclaurin: MaclaurinMap, z: Array) -> Array:
    """Features `(..., n, D)` of scaled and centred points `z` of shape (..., n, d)."""
    xp = namespace(z)
    blocks = [taylor.apply(maclaurin.monomials, z)]
    half_square = 0.5 * xp.sum(z * z, axis=-1, keepdims=True)
    for weight, part in maclaurin.sketches:
        n = part.degree
        # A sketch of degree n is homogeneous: prefactor and factorial go into its n factors, and nothing overflows.
        shrunk = z * xp.exp(-(half_square + 0.5 * float(gammaln(n + 1))) / n)
        blocks.append(sketch.apply(part, shrunk) * weight**0.5)
    return blocks[0] if len(blocks) == 1 else xp.concat(blocks, axis=-1)


class MaclaurinFeatures(ShiftedFeatures):
    """Maclaurin features of the Gaussian kernel around the mean of the training points.

    The kernel is `variance * exp(-|x - x'|^2 / (2 length_scale^2))`. Its series around the centre is truncated; low
    degrees are written out as monomials, higher ones estimated by polynomial sketches, and the columns are
    shared out to minimise the error on a sample of the training points.

    Parameters
    ----------
    n_components : int, default=256
        Number of features, at least 1. Where fewer say all there is to say (one column, a low `max_degree`), the map
        has fewer.
    length_scale : float or array of shape (n_features,), default=1.0
        Length scale, one or one per column.
    variance : float, default=1.0
        Kernel value at distance zero.
    sampling : {"rademacher", "gaussian", "tensor_srht"}, default="rademacher"
        Kind of the sketches, see `PolynomialSketch`.
    allocation : {"optimal", "random"}, default="optimal"
        Degrees by least expected error, or drawn at random as by Kar and Karnick.
    exact_degrees : "auto" or int, default="auto"
        Degrees written out exactly. 0 is the map of the paper, with only the constant exact. "auto" chooses by the same
        criterion, and falls to monomials alone where a sketch would add more variance than it removes bias.
    max_degree : int, default=15
        Largest degree considered.
    center : "mean", None or array of shape (n_features,), default="mean"
        Point of expansion: the mean of the training points, the origin, or a given point.
    random_state : int, RandomState instance or None, default=None
        For what is drawn; None is new random numbers every time.

    Attributes
    ----------
    center_ : ndarray of shape (n_features,)
    map_ : MaclaurinMap
        The monomials and sketches.
    n_features_in_ : int
    feature_names_in_ : ndarray of str, where X has column names
    """

    def __init__(
        self,
        n_components: int = 256,
        *,
        length_scale: Any = 1.0,
        variance: float = 1.0,
        sampling: str = "rademacher",
        allocation: str = "optimal",
        exact_degrees: Any = "auto",
        max_degree: int = 15,
        center: Any = "mean",
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.length_scale = length_scale
        self.variance = variance
        self.sampling = sampling
        self.allocation = allocation
        self.exact_degrees = exact_degrees
        self.max_degree = max_degree
        self.center = center
        self.random_state = random_state

    def _sample(self, z: NDArray[Any]) -> MaclaurinMap:
        n_components = check_integer(self, "n_components", 1)
        max_degree = check_integer(self, "max_degree", 1)
        return sample(
            np.asarray(z, dtype=np.float64),
            n_components,
            check_option(self, "sampling", sketch.SAMPLINGS),
            check_random_state(self.random_state),
            method=check_option(self, "allocation", ("optimal", "random")),
            exact_degrees=self._check_exact_degrees(z.shape[1], n_components, max_degree),
            max_degree=max_degree,
        )

    def _check_exact_degrees(self, n_variables: int, n_components: int, max_degree: int) -> int | None:
        value = self.exact_degrees
        if isinstance(value, str) and value == "auto":
            return None
        if not is_whole(value, 0) or int(value) > max_degree:
            raise ValueError(
                f"{describe(self, 'exact_degrees')} must be 'auto' or an integer from 0 to max_degree={max_degree}. "
                f"Got {value!r}."
            )
        needed = taylor.n_monomials(n_variables, int(value))
        if needed > n_components:
            raise ValueError(
                f"{describe(self, 'exact_degrees')} is too large: degree {value} in {n_variables} columns needs "
                f"{needed} monomials, but n_components={n_components}."
            )
        return int(value)

    def _apply(self, z: Array) -> Array:
        return apply(self.map_, z)
