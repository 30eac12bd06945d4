import numpy as np
import pytest

from nearfield.reporting.numbers import counted, number, typeset, with_powers


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.25, "0.25"),
        (123.456, "123.5"),
        (3.4e-7, "3.4e-07"),
        (12_345, "12345"),
        (np.float64(0.5), "0.5"),
        (np.array([[0.25, 123.456], [1.0, 2.0]]), "[[0.25, 123.5], [1, 2]]"),
        ([1.5, 2], "[1.5, 2]"),
    ],
)
def test_plain_numbers(value, text):
    assert number(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (12345.678, "12\u202f346"),
        (-0.01234567, "\N{MINUS SIGN}0.01235"),
        (1e-7, "10⁻⁷"),
        (3.4e-7, "3.4\u00a0\N{MULTIPLICATION SIGN}\u00a010⁻⁷"),
        (-2e8, "\N{MINUS SIGN}2\u00a0\N{MULTIPLICATION SIGN}\u00a010⁸"),
        (100.0, "100"),
        (float("nan"), "none"),
    ],
)
def test_numbers_for_readers(value, text):
    assert typeset(value) == text


def test_powers_within_a_sentence():
    times = "\u00a0\N{MULTIPLICATION SIGN}\u00a0"
    assert with_powers("3.50e-04 nats of 1e+20, 12 probes") == f"3.5{times}10⁻⁴ nats of 10²⁰, 12 probes"


def test_plurals():
    assert (counted(1, "column"), counted(2, "column")) == ("1 column", "2 columns")
