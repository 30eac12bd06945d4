r"""Polynomial sketches: random features of the polynomial kernel `(x'y)^n`.

.. math:: \phi_n(x) = (W_1 x \odot \cdots \odot W_n x) / \sqrt{D}

is unbiased for `(x'y)^n`. The variances are those of Table 1 of Wacker and Filippone (2022).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..common.arrays import Array, indices_like, like, namespace
from ..common.types import Integers
from ..common.validation import check_integer, check_option, check_random_state
from .base import FeatureMap
from .hadamard import hadamard_transform, next_power_of_two, pad_columns

SAMPLINGS = ("gaussian", "rademacher", "tensor_srht")


@dataclass(frozen=True, eq=False)
class DenseSketch:
    """Weights `W_1 ... W_n` written out: ndarray of shape (n, D, d)."""

    weights: NDArray[np.float64]

    @property
    def degree(self) -> int:
        """Degree `n` of the polynomial kernel."""
        return len(self.weights)

    @property
    def n_components(self) -> int:
        """Number of columns `D`."""
        return int(self.weights.shape[1])


@dataclass(frozen=True, eq=False)
class TensorSRHT:
    """Weights in blocks `P H diag(s)`, with `H` the Hadamard matrix of the padded dimension, never written out."""

    signs: NDArray[np.float64]  # (n, blocks, padded d): +1 and -1
    picks: Integers  # (n, D): where each feature is found among the blocks * padded d outputs of its factor

    @property
    def degree(self) -> int:
        """Degree `n` of the polynomial kernel."""
        return len(self.signs)

    @property
    def n_components(self) -> int:
        """Number of columns `D`."""
        return int(self.picks.shape[1])


Sketch = DenseSketch | TensorSRHT


def sample(n_variables: int, degree: int, n_components: int, sampling: str, rng: np.random.RandomState) -> Sketch:
    """Draw a sketch of `(x'y)^degree` with `n_components` features."""
    if sampling == "gaussian":
        return DenseSketch(rng.standard_normal((degree, n_components, n_variables)))
    if sampling == "rademacher":
        return DenseSketch(_random_signs(rng, (degree, n_components, n_variables)))
    width = next_power_of_two(n_variables)
    blocks = -(-n_components // width)
    # A fresh permutation within each block of each factor: the ranks of independent uniform numbers.
    shuffles = np.argsort(rng.random_sample((degree, blocks, width)), axis=-1)
    picks = (shuffles + width * np.arange(blocks)[:, None]).reshape(degree, -1)[:, :n_components]
    return TensorSRHT(_random_signs(rng, (degree, blocks, width)), picks)


def apply(sketch: Sketch, x: Array) -> Array:
    """Features `(..., n, D)` of points `x` of shape (..., n, d)."""
    factor = _dense_factor if isinstance(sketch, DenseSketch) else _srht_factor
    features = factor(sketch, x, 0)  # type: ignore[arg-type]
    for i in range(1, sketch.degree):
        features *= factor(sketch, x, i)  # type: ignore[arg-type]
    features *= sketch.n_components**-0.5
    return features


def _dense_factor(sketch: DenseSketch, x: Array, i: int) -> Array:
    return x @ like(sketch.weights[i].T, x)


def _srht_factor(sketch: TensorSRHT, x: Array, i: int) -> Array:
    xp = namespace(x)
    signs = like(sketch.signs[i], x)
    blocks, width = signs.shape
    signed = pad_columns(x, width)[..., None, :] * signs
    spread = xp.reshape(hadamard_transform(signed), (*x.shape[:-1], blocks * width))
    return xp.take(spread, indices_like(sketch.picks[i], x), axis=-1)


def _random_signs(rng: np.random.RandomState, shape: tuple[int, ...]) -> NDArray[np.float64]:
    return np.where(rng.random_sample(shape) < 0.5, -1.0, 1.0)


def factor_moments(
    norms: NDArray[np.float64], inner: NDArray[np.float64], shared: NDArray[np.float64], n_variables: int, sampling: str
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Moments of `a = (w'x)(w'y)` for a row `w` of one factor's weights (Table 1).

    Factors are independent, so a sketch of degree `n` has their `n`-th powers: a single feature has the variance
    `V = E[a^2]^n - E[a]^2n`, two of one block the covariance `C = E[a a']^n - E[a]^2n`, and `D` features the variance
    `V / D + c(D, d) / D^2 * C`.

    Parameters
    ----------
    norms, inner, shared : arrays of one shape
        `|x|^2 |y|^2`, `(x'y)^2` and `sum_i x_i^2 y_i^2` of pairs of points.

    Returns
    -------
    second : array
        `E[a^2]`.
    cross : array
        `E[a a']` for two rows of one block: for all but TensorSRHT they are independent and this is `E[a]^2 = inner`.
    """
    second = norms + 2 * inner if sampling == "gaussian" else norms + 2 * (inner - shared)
    width = next_power_of_two(n_variables)
    if sampling != "tensor_srht" or width == 1:
        return second, inner
    return second, inner - (norms + inner - 2 * shared) / (width - 1)


def block_pairs(n_components: Any, n_variables: int) -> Any:
    """`c(D, d)`: how many ordered pairs among `D` features of a TensorSRHT share a block."""
    width = next_power_of_two(n_variables)
    rest = n_components % width
    return n_components // width * width * (width - 1) + rest * (rest - 1)


def kernel_variance(
    x: NDArray[np.float64], y: NDArray[np.float64], degree: int, n_components: int, sampling: str
) -> NDArray[np.float64]:
    """Variance of the estimate of `(x'y)^degree` (Table 1), for rows `x` and `y` of shape (..., d)."""
    norms = (x * x).sum(-1) * (y * y).sum(-1)
    inner = (x * y).sum(-1) ** 2
    shared = (x * x * y * y).sum(-1)
    d = x.shape[-1]
    second, cross = factor_moments(norms, inner, shared, d, sampling)
    variance = np.maximum(second**degree - inner**degree, 0.0)
    covariance = cross**degree - inner**degree
    result: NDArray[np.float64] = variance / n_components + block_pairs(n_components, d) / n_components**2 * covariance
    return result


class PolynomialSketch(FeatureMap):
    """Random features of the polynomial kernel `(x'y)^degree`.

    Parameters
    ----------
    n_components : int, default=256
        Number of features.
    degree : int, default=2
        Degree of the kernel, at least 1.
    sampling : {"rademacher", "gaussian", "tensor_srht"}, default="rademacher"
        Distribution of the weights. Rademacher weights have less variance than Gaussian ones; TensorSRHT has less
        still for odd degrees, and costs O(log d) per feature instead of O(d).
    random_state : int, RandomState instance or None, default=None
        For what is drawn; None is new random numbers every time.

    Attributes
    ----------
    map_ : DenseSketch or TensorSRHT
        The weights drawn.
    n_features_in_ : int
    feature_names_in_ : ndarray of str, where X has column names
    """

    def __init__(
        self, n_components: int = 256, *, degree: int = 2, sampling: str = "rademacher", random_state: Any = None
    ) -> None:
        self.n_components = n_components
        self.degree = degree
        self.sampling = sampling
        self.random_state = random_state

    def _sample(self, X: NDArray[Any]) -> Sketch:
        return sample(
            X.shape[1],
            check_integer(self, "degree", 1),
            check_integer(self, "n_components", 1),
            check_option(self, "sampling", SAMPLINGS),
            check_random_state(self.random_state),
        )

    def _apply(self, X: Array) -> Array:
        return apply(self.map_, X)
