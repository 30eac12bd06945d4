"""Models of every kind that tests of samples, areas and gradients share, and the exact process beside them."""

from functools import cache

import numpy as np
import pytest

from nearfield import ExactGPRegressor, LocalGPRegressor, MaclaurinFeatures, TaylorFeatures
from nearfield.local import by_number, by_radius, in_memory

from ..small import exact_at_most, exact_up_to

NOISE, SIDE = 0.05, 4.4
PLAIN = {"length_scale": 0.7, "signal_variance": 1.3}
THREE = {"length_scale": [0.4, 1.5, 8.0], "signal_variance": [0.5, 1.0, 2.0]}
TAYLOR = {"features": TaylorFeatures(16), "radius": 4.0, "spacing": 1.5}
KINDS = {
    "chosen": (PLAIN, {}),
    "features": (PLAIN, TAYLOR),
    "nearest": (PLAIN, {**TAYLOR, "blend": False}),
    "per column": ({"length_scale": [0.5, 1.1], "signal_variance": 1.3}, TAYLOR),
    "kernel space": (PLAIN, {"features": "kernel", "radius": 4.0, "spacing": 1.0}),
    "sketches": (PLAIN, {"features": MaclaurinFeatures(60, random_state=0), "radius": 2.0, "spacing": 1.0}),
    "no centres": (PLAIN, {"features": "kernel", "radius": 4.0, "spacing": 1.5, "centers": "test"}),
    "all points": (PLAIN, {"centers": "mean", "radius": None, "features": TaylorFeatures(40)}),
    "long scales": (THREE, {"tolerance": 1e-3}),
    "exact mean": (
        {"length_scale": [[0.15, 0.2], [0.6, 0.55], [8.0, 8.0]], "signal_variance": [0.3, 1.0, 2.0]},
        {"tolerance": 1e-3},
    ),
    "by number": ({"length_scale": [0.1, 0.2, 0.4], "signal_variance": [0.3, 1.0, 1.0]}, {"tolerance": 1e-2}),
}


def training(n=700, seed=0):
    """Points of a square and a smooth target with noise."""
    rng = np.random.RandomState(seed)
    X = rng.uniform(0, SIDE, (n, 2))
    return X, np.sin(X[:, 0]) * np.cos(0.8 * X[:, 1]) + X[:, 0] / 3 + NOISE**0.5 * rng.standard_normal(n)


def places(n=150, seed=9, beyond=0.3):
    """Places in the square, and somewhat beyond it."""
    return np.random.RandomState(seed).uniform(-beyond, SIDE + beyond, (n, 2))


@cache
def exact(name):
    """The exact process with the kernel of a kind."""
    return ExactGPRegressor(**KINDS[name][0], noise_variance=NOISE).fit(*training())


@cache
def local(name):
    """A local model of a kind, where the exact process is not there to fall back upon."""
    kernel, approximation = KINDS[name]
    with exact_up_to(0), pytest.MonkeyPatch.context() as patch:
        exact_at_most(patch, 0)
        patch.setattr(by_number, "NEIGHBOURHOODS", 24)
        patch.setattr(by_number, "PLACES", 64)
        for number in ("LEAST", "MOST", "GAPS"):
            patch.setattr(by_radius, number, 16)
        for question in ("prefers_exact_mean", "_can_afford_mean"):
            patch.setattr(in_memory.FramedArrays, question, lambda *_: name == "exact mean")
        model = LocalGPRegressor(**kernel, noise_variance=NOISE, random_state=0, **approximation)
        return model.fit(*training())
