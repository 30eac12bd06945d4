"""Comparison with published values."""

import math

import numpy as np
import pytest

from nearfield.reproduction import published
from nearfield.reproduction.verdicts import AGREES, DIFFERS, NONE, OTHER_SIZE, SAME_SIZE, compare


def test_the_standard_error_is_that_of_both_means():
    values = [9.0, 10.0, 11.0, 12.0]
    found = compare(values, 10.0, 2.0, 16)
    error = math.sqrt(np.var(values, ddof=1) / 4 + 4.0 / 16)
    assert found.z == pytest.approx(0.5 / error)
    assert found.verdict == AGREES


@pytest.mark.parametrize(("shift", "verdict"), [(2.99, AGREES), (-2.99, AGREES), (3.01, DIFFERS), (-3.01, DIFFERS)])
def test_three_standard_errors_are_the_limit(shift, verdict):
    values = np.array([-1.0, 1.0])  # spread sqrt(2), error of the mean 1
    assert compare(values + shift, 0.0, 0.0, 5).verdict == verdict


def test_one_seed_borrows_the_published_spread():
    found = compare([1.0], 0.0, 0.5, 1)
    assert found.z == pytest.approx(1.0 / math.hypot(0.5, 0.5))


def test_other_data_are_compared_in_size():
    assert compare([0.1, 0.2], 0.06, 0.001, 10, same_data=False).verdict == SAME_SIZE
    assert compare([0.1, 0.2], 0.6, 0.001, 10, same_data=False).verdict == OTHER_SIZE


def test_what_was_not_published_has_no_verdict():
    found = compare([1.0, 2.0])
    assert found.verdict == NONE
    assert found.z is None


def test_the_published_table():
    table = published.table()
    assert len(table) == 384
    cell = table["kin8nm", "maclaurin", "tensor_srht", None, 512]
    assert (cell.kl_sum, cell.rmse, cell.runs, cell.n_test) == (5.32964, 0.13193, 80, 820)
    assert published.best("kin8nm", 128, "kl_sum") == (pytest.approx(21.07056 / 820), "fourier gaussian")
