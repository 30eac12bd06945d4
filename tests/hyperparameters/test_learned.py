"""What is said of estimates on their bounds."""

import numpy as np
import pytest

from nearfield.hyperparameters.learned import ADVICE, Learned, OnBound, on_bounds_message
from nearfield.kernels import Kernel

ONE, TWO = Kernel.gaussian(1.0), Kernel(np.array([[1.0, 2.0], [3.0, 4.0]]), np.ones(2))


@pytest.mark.parametrize(
    ("kernel", "estimate", "columns", "name"),
    [
        (ONE, OnBound("length_scale", 0, None, 57.34, True), None, "length scale = 57.3 ("),
        (ONE, OnBound("length_scale", 0, 1, 57.34, True), None, "length scale of x1 = 57.3 ("),
        (ONE, OnBound("length_scale", 0, 1, 57.34, True), ["height", "width"], "length scale of width = 57.3 ("),
        (TWO, OnBound("length_scale", 1, 0, 0.5, False), ["height", "width"], "length scale 2 of height = 0.5 ("),
        (TWO, OnBound("signal_variance", 0, None, 1e-6, False), None, "signal variance 1 = 1e-06 ("),
        (TWO, OnBound("noise_variance", None, None, 0.1, True), None, "noise variance = 0.1 ("),
    ],
)
def test_an_estimate_is_named_with_its_column_and_advice(kernel, estimate, columns, name):
    learned = Learned(kernel, 0.1, on_bounds=(estimate,))
    (words,) = learned.bounds_in_words(columns)
    assert words.startswith(name)
    assert words.endswith(f"({ADVICE[estimate.kind, estimate.at_upper]})")
    assert on_bounds_message(learned, columns) == f"These estimates sit on a bound: {words}."
