"""The local predictor becomes the exact Gaussian process as its radius and degree grow."""

import warnings

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import nearfield as nf

from ..small import exact_up_to
from .problems import problems

layouts = ("uniform", "clusters", "grid", "repeats", "collinear", "line")


def divergence(one, other):
    """KL a point of two lists of normal distributions with standard deviations above zero."""
    (m0, s0), (m1, s1) = one, other
    ratio = (s1 / s0) ** 2
    return 0.5 * np.mean(ratio - 1 - np.log(ratio) + ((m1 - m0) / s0) ** 2)


def answers(gp, problem):
    """Means and standard deviations of observations at the training points."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gp.fit(problem.X, problem.y, problem.weights)
    return gp.predict(problem.X, return_std=True, include_noise=True)


@given(problem=problems(noise=(1e-3, 10.0), length=(0.3, 3.0), max_columns=3, layouts=layouts))
def test_radius_and_degree(problem):
    exact = answers(nf.ExactGPRegressor(**problem.hyperparameters), problem)
    distances = []
    for degree, radius in ((1, 1.0), (14, 5.0), (16, 100.0)):
        gp = nf.LocalGPRegressor(
            **problem.hyperparameters,
            n_scales=1,
            features=nf.TaylorFeatures(degree=degree),
            radius=radius,
            spacing=0.7,
            random_state=0,
        )
        distances.append(divergence(exact, answers(gp, problem)))
    assert distances[1] < 1e-3
    assert distances[2] < max(1e-4, distances[0])


@settings(max_examples=max(settings().max_examples // 20, 3))  # each takes seconds
@given(
    problem=problems(min_samples=501, max_samples=900, noise=(1e-3, 10.0), max_columns=10, layouts=layouts),
    centers=st.sampled_from(["auto", "net", "farthest", "mean", 6, "test"]),
    several=st.booleans(),
)
def test_tolerance_is_kept(problem, centers, several):
    """With the choice left to the library, and a tolerance that it says is met; fewer points are solved exactly."""
    given = problem.hyperparameters
    if several:
        length, variance = given["length_scale"], given["signal_variance"]
        given = {**given, "length_scale": [length, 5 * length], "signal_variance": [variance / 2] * 2, "n_scales": 2}
    exact = answers(nf.ExactGPRegressor(**given), problem)
    gp = nf.LocalGPRegressor(**{"n_scales": 1, **given}, tolerance=1e-3, centers=centers, random_state=0)
    with exact_up_to(500):
        distance = divergence(exact, answers(gp, problem))
    assert distance < 3e-3 or gp.report_.tolerance_met is False
