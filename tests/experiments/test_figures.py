"""The figures without data: what they state must hold."""

import numpy as np
import pytest
from scipy.special import gammaincc

pytest.importorskip("matplotlib")

from nearfield.experiments import sinc, vanishing, variances
from nearfield.features import sketch


def test_the_kernel_vanishes_as_the_theorem_says():
    grid = np.linspace(0, 5, 11)
    for norm, expected in ((x, gammaincc(vanishing.DEGREE + 1, x**2)) for x in grid):
        truncated, exact = vanishing.kernels(np.array([norm]), float(norm), 0)
        assert truncated[0] == pytest.approx(expected, abs=1e-12)
        assert exact[0] == pytest.approx(1.0)
    truncated, exact = vanishing.kernels(grid, 2.0, 90)
    np.testing.assert_allclose(truncated, exact, atol=1e-14)


def test_sinc_collapses_around_zero_and_not_around_the_test_points():
    found = sinc.experiment(0)
    far = np.abs(found.grid) > 1.0
    mean, std = found.curves["Maclaurin around zero"]
    assert np.max(std[far]) < 1e-6
    assert np.ptp(mean[far]) < 1e-6
    exact = found.curves["exact"]
    for name in ("Maclaurin around the test points", "ours"):
        np.testing.assert_allclose(found.curves[name][0], exact[0], atol=0.05)
        np.testing.assert_allclose(found.curves[name][1][far], exact[1][far], rtol=0.2)
        assert found.divergences[name] < 0.05 * found.divergences["Maclaurin around zero"]
    assert 0.05 < found.length_scale < 0.25


@pytest.mark.parametrize("sampling", variances.SAMPLINGS)
@pytest.mark.parametrize("D", [4, 12])
def test_measured_variances_are_those_of_table_1(sampling, D):
    rng = np.random.RandomState(5)
    x, y = rng.standard_normal((2, 8)) / 3
    measured, error = variances.measure(x, y, 2, D, sampling, 6000, seed=1)
    assert abs(measured - float(sketch.kernel_variance(x, y, 2, D, sampling))) < 5 * error
