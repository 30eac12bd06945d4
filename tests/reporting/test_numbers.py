import numpy as np
import pytest

from nearfield.reporting.numbers import counted, number, round_numbers, tick_label, typeset, with_powers


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


@pytest.mark.parametrize(
    ("low", "high", "log"),
    [(-3, 17, False), (0.2, 0.4, False), (1e-7, 30.0, True), (2, 7, True), (2.2e9, 4.9e9, True), (1e-90, 1e90, True)],
)
def test_round_numbers_are_few_and_on_the_axis(low, high, log):
    ticks = round_numbers(low, high, log)
    assert 2 <= len(ticks) <= 8
    assert all(low <= tick <= high for tick in ticks)


def test_round_numbers_of_a_logarithmic_axis():
    assert round_numbers(3e-4, 0.2, log=True) == pytest.approx([1e-3, 1e-2, 1e-1])
    assert round_numbers(2e-3, 0.07, log=True) == pytest.approx([2e-3, 5e-3, 1e-2, 2e-2, 5e-2])
    assert round_numbers(2.2, 4.9, log=True) == [3, 4]


@pytest.mark.parametrize(
    ("value", "log", "text"), [(0.001, False, "0.001"), (0.001, True, "10⁻³"), (0.5, True, "0.5"), (1.0, True, "1")]
)
def test_labels(value, log, text):
    assert tick_label(value, log) == text
