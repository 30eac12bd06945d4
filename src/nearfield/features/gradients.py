"""Derivatives of features with respect to the logarithms of the length scales, for learning in feature space."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..common.types import Floats
from . import fourier, taylor


def is_differentiable(features: object) -> bool:
    """Whether `length_scale_gradients` knows the map that this transformer samples."""
    if isinstance(features, fourier.FourierFeatures):
        return bool(features.sampling != "structured")
    return isinstance(features, taylor.TaylorFeatures)


def length_scale_gradients(feature_map: object, z: Floats) -> Floats:
    """Differentiate the features of `x` at `z = x / l` with respect to each `log l_c`.

    Parameters
    ----------
    feature_map : TaylorMap or DenseFrequencies
    z : ndarray of shape (n, d)
        Scaled points.

    Returns
    -------
    gradients : ndarray of shape (d, D, n)
        One derivative per column of `z`; with one length scale for all, their sum.
    """
    if isinstance(feature_map, taylor.TaylorMap):
        rows = taylor.feature_rows(feature_map, z)
        powers = feature_map.exponents.T[:, :, None]
        result: Floats = rows * ((z * z).T[:, None, :] - powers)
        return result
    if isinstance(feature_map, fourier.DenseFrequencies):
        # A quarter turn takes each cosine to a sine; for the single column of an odd number it is in the phase.
        rows = fourier.apply(replace(feature_map, phase=feature_map.phase - np.pi / 2), z).T
        pairs = feature_map.n_components // 2
        turned = np.concatenate([rows[pairs : 2 * pairs], -rows[:pairs], rows[2 * pairs :]])
        frequencies = np.concatenate([feature_map.frequencies[:pairs], feature_map.frequencies])
        gradients: Floats = turned * frequencies.T[:, :, None] * z.T[:, None, :]
        return gradients
    raise TypeError(f"There are no length scale derivatives for {type(feature_map).__name__}.")
