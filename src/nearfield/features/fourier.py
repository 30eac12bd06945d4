r"""Random Fourier features of the Gaussian kernel, in the sine-and-cosine form.

.. math:: \phi(z) = D^{-1/2} \sqrt 2 \, (\cos \Omega z, \sin \Omega z)

with `D / 2` frequencies. It has less variance than the form with random phases, and a constant norm. Where `D` is
odd, the last frequency has a single column, a cosine with a random phase, which is unbiased too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..common.arrays import Array, like, namespace
from ..common.validation import check_integer, check_option, check_random_state
from ..common.warnings import warn
from .base import GaussianKernelFeatures
from .hadamard import hadamard_transform, next_power_of_two, pad_columns

SAMPLINGS = ("gaussian", "orthogonal", "structured")

# How many different frequencies the structured kind can draw where the variables are few.
_FEW_STRUCTURED = {1: 2, 2: 4, 3: 15, 4: 24}


@dataclass(frozen=True, eq=False)
class DenseFrequencies:
    """Frequencies written out."""

    frequencies: NDArray[np.float64]  # (ceil(D / 2), d)
    n_components: int  # number of columns `D`
    phase: float  # of the single column that an odd `D` leaves over


@dataclass(frozen=True, eq=False)
class StructuredFrequencies:
    """Frequencies in blocks `sqrt(d) H S_3 H S_2 H S_1` of normalised Hadamard matrices and random signs (SORF)."""

    signs: NDArray[np.float64]  # (3, blocks, padded d)
    n_components: int  # for this and the next see `DenseFrequencies`
    phase: float


Frequencies = DenseFrequencies | StructuredFrequencies


def sample(n_variables: int, n_components: int, sampling: str, rng: np.random.RandomState) -> Frequencies:
    """Draw the frequencies of `n_components` columns for the kernel of unit length scale."""
    count = -(-n_components // 2)
    phase = rng.uniform(0, 2 * np.pi)
    if sampling == "gaussian":
        return DenseFrequencies(rng.standard_normal((count, n_variables)), n_components, phase)
    if sampling == "orthogonal":
        blocks = -(-count // n_variables)
        directions, r = np.linalg.qr(rng.standard_normal((blocks, n_variables, n_variables)))
        # Rows orthonormal and uniform (the sign of R's diagonal), with the norms that Gaussian rows would have.
        directions = directions * np.sign(np.diagonal(r, axis1=-2, axis2=-1))[:, None, :]
        rows = np.swapaxes(directions, -1, -2).reshape(-1, n_variables)[:count]
        norms = np.sqrt(rng.chisquare(n_variables, size=count))
        return DenseFrequencies(rows * norms[:, None], n_components, phase)
    width = next_power_of_two(n_variables)
    signs = np.where(rng.random_sample((3, -(-count // width), width)) < 0.5, -1.0, 1.0)
    return StructuredFrequencies(signs, n_components, phase)


def apply(frequencies: Frequencies, z: Array) -> Array:
    """Features `(..., n, D)` of scaled points `z` of shape (..., n, d)."""
    xp = namespace(z)
    if isinstance(frequencies, DenseFrequencies):
        angles = z @ like(frequencies.frequencies.T, z)
    else:
        angles = _structured_angles(frequencies, z)
    pairs = frequencies.n_components // 2
    paired, single = angles[..., :pairs], angles[..., pairs:] + frequencies.phase
    return xp.concat([xp.cos(paired), xp.sin(paired), xp.cos(single)], axis=-1) * (2 / frequencies.n_components) ** 0.5


def _structured_angles(frequencies: StructuredFrequencies, z: Array) -> Array:
    signs = like(frequencies.signs, z)
    _, blocks, width = signs.shape
    turned = pad_columns(z, width)[..., None, :]
    for i in range(3):
        turned = hadamard_transform(turned * signs[i])
    # Three unnormalised transforms are d^1.5 too long, and the frequencies have norm sqrt(d).
    angles = namespace(z).reshape(turned, (*z.shape[:-1], blocks * width)) / width
    return angles[..., : -(-frequencies.n_components // 2)]


class FourierFeatures(GaussianKernelFeatures):
    """Random Fourier features of the Gaussian kernel `variance * exp(-|x - x'|^2 / (2 length_scale^2))`.

    Parameters
    ----------
    n_components : int, default=256
        Number of features. An even number is best: each frequency has a cosine and a sine.
    length_scale : float or array of shape (n_features,), default=1.0
        Length scale, one or one per column.
    variance : float, default=1.0
        Kernel value at distance zero.
    sampling : {"gaussian", "orthogonal", "structured"}, default="gaussian"
        How the frequencies are drawn. Orthogonal ones have less error. Structured ones need O(log d) per feature
        instead of O(d). They are made for many columns: all have the same norm, a bias that only a large d makes small,
        and below 5 columns only a handful of them exist.
    random_state : int, RandomState instance or None, default=None
        For what is drawn; None is new random numbers every time.

    Attributes
    ----------
    map_ : DenseFrequencies or StructuredFrequencies
        The frequencies drawn.
    n_features_in_ : int
    feature_names_in_ : ndarray of str, where X has column names
    """

    def __init__(
        self,
        n_components: int = 256,
        *,
        length_scale: Any = 1.0,
        variance: float = 1.0,
        sampling: str = "gaussian",
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.length_scale = length_scale
        self.variance = variance
        self.sampling = sampling
        self.random_state = random_state

    def _sample(self, z: NDArray[Any]) -> Frequencies:
        n_components = check_integer(self, "n_components", 1)
        sampling = check_option(self, "sampling", SAMPLINGS)
        d = z.shape[1]
        if sampling == "structured" and d in _FEW_STRUCTURED:
            warn(
                f"sampling='structured' approximates the kernel poorly here: with {d} column{'s' * (d > 1)} only "
                f"{_FEW_STRUCTURED[d]} distinct frequencies exist, whatever n_components. Use sampling='orthogonal'.",
            )
        return sample(d, n_components, sampling, check_random_state(self.random_state))

    def _apply(self, z: Array) -> Array:
        return apply(self.map_, z)
