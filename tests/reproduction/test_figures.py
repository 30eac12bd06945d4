"""The figures without data: what they state must hold."""

import numpy as np
import pytest
from scipy.special import gammaincc

pytest.importorskip("matplotlib")

from nearfield.features import sketch
from nearfield.reproduction import sinc, vanishing, variances
from nearfield.reproduction.cache import Cache
from nearfield.reproduction.cells import Laboratory
from nearfield.reproduction.settings import Settings

from ..warned import far_points, few_features


def test_the_kernel_vanishes_as_the_theorem_says():
    grid = np.linspace(0, 5, 11)
    for norm, expected in ((x, gammaincc(vanishing.DEGREE + 1, x**2)) for x in grid):
        truncated, exact = vanishing.kernels(np.array([norm]), float(norm), 0)
        assert truncated[0] == pytest.approx(expected, abs=1e-12)
        assert exact[0] == pytest.approx(1.0)
    truncated, exact = vanishing.kernels(grid, 2.0, 90)
    np.testing.assert_allclose(truncated, exact, atol=1e-14)


@far_points
@few_features
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


def test_table_1_says_how_many_variances_agree_and_measures_them_once(tmp_path, monkeypatch):
    monkeypatch.setattr(variances, "DEGREES", (1, 2))
    monkeypatch.setattr(variances, "SIZES", (4, 8))
    settings = Settings(tmp_path, quick=True)
    laboratory = Laboratory(settings, {}, Cache(tmp_path), lambda *_: None)
    section, rows = variances.run(laboratory)
    assert len(rows) == 12
    assert all(row["verdict"] == "agrees" for row in rows)
    assert section.findings[0].startswith("12 of 12 measured variances (20000 draws each)")
    whole_block = next(r for r in rows if (r["sampling"], r["degree"], r["D"]) == ("tensor_srht", 1, 8))
    assert whole_block["z"] is None  # an orthogonal transform: rounding alone
    assert whole_block["measured"] < 1e-20
    monkeypatch.setattr(variances, "measure", None)
    assert variances.run(laboratory)[1] == rows


def test_a_variance_far_from_table_1_differs(tmp_path, monkeypatch):
    x = np.full(8, 8**-0.5)
    closed = float(sketch.kernel_variance(x, x, 2, 4, "gaussian"))
    monkeypatch.setattr(variances, "measure", lambda *_, **__: (closed + 5.0, 1.0))
    laboratory = Laboratory(Settings(tmp_path, quick=True), {}, Cache(tmp_path), lambda *_: None)
    row = variances._case(laboratory, x, x, "gaussian", 2, 4, 100)
    assert row["z"] == pytest.approx(5.0)
    assert row["verdict"] == "differs"
