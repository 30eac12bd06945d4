"""Sentences and tables about the agreement with the paper, from comparisons made by hand."""

from pathlib import Path

import pytest

from nearfield.reproduction import comparing, published
from nearfield.reproduction.settings import Settings
from nearfield.reproduction.sweeps import Curve
from nearfield.reproduction.verdicts import AGREES, DIFFERS, NONE, Comparison


def found(mean, published=None, z=None, verdict=NONE):
    return Comparison(mean, 0.1, 5, published, 0.1, 5, z, verdict)


def curve(data="yacht", method="fourier", D=32, spacing=None, sampling="orthogonal"):
    return Curve(data, "published", method, sampling, D, spacing)


def test_agreement_counts_what_was_judged_and_names_what_is_outside():
    compared = {
        curve(): {"kl": found(1.0, 1.1, -0.5, AGREES), "rmse": found(2.0, 1.0, 4.25, DIFFERS)},
        curve(D=64): {"kl": found(1.0), "rmse": found(2.0, 2.1, -1.0, AGREES)},
        curve("kin8nm"): {"kl": found(1.0, 9.0, -7.0, DIFFERS), "rmse": found(1.0)},
    }
    agreeing, total, outside = comparing.agreement(compared, "yacht")
    assert (agreeing, total) == (2, 3)
    assert len(outside) == 1
    assert "D = 32: RMSE 2 against 1 (+4.2 s.e.)" in outside[0]
    yacht, kin8nm = comparing.agreement_findings(compared, ["yacht", "kin8nm", "uk_flats"])
    assert "2 of 3 values (67%) within 3 standard errors. Outside: " in yacht
    assert "0 of 1 values (0%)" in kin8nm


def test_the_order_of_flats_is_a_rank_correlation():
    ours, theirs = [1.0, 2.0, 4.0, 3.0], [2.0, 4.0, 6.0, 8.0]  # ranks 1 2 4 3 against 1 2 3 4: 1 - 6 * 2 / (4 * 15)
    compared = {
        curve("uk_flats", D=D): {"kl": found(a, b), "rmse": found(1.0)}
        for D, a, b in zip((32, 64, 128, 256), ours, theirs, strict=True)
    }
    rank, size, median = comparing.order_of_flats(compared)
    assert (rank, size, median) == (pytest.approx(0.8), 4, pytest.approx(0.5))
    assert "over 4 cells is 0.80; ours is 0.5 times" in comparing.agreement_findings(compared, ["uk_flats"])[-1]
    assert comparing.order_of_flats(dict(list(compared.items())[:2])) is None


def test_factors_are_of_the_best_published_figure():
    best, whose = published.best("yacht", 32, "kl_sum")
    rmse, _ = published.best("yacht", 32, "rmse")
    compared = {
        curve(method="ours"): {"kl": found(best / 8), "rmse": found(rmse / 2)},
        curve(method="ours", D=64): {"kl": found(0.0), "rmse": found(1.0)},
        curve(): {"kl": found(best), "rmse": found(rmse)},  # not ours: no row
    }
    table = comparing.factors(compared, Settings(Path()))
    assert len(table.rows) == 2
    assert whose in table.rows[0]
    assert [float(table.rows[0][i]) for i in (5, 8)] == pytest.approx([8, 2])
    assert "exact" in table.rows[1]
    assert comparing.factors({curve(): compared[curve()]}, Settings(Path())) is None
