import pytest

from nearfield.reporting.ticks import round_numbers, tick_label


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
