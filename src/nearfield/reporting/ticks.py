"""Round numbers along an axis, and their labels."""

from __future__ import annotations

import numpy as np

from .numbers import typeset, with_powers


def round_numbers(low: float, high: float, log: bool = False) -> list[float]:
    """Few round numbers from `low` to `high`; on a logarithmic axis decades, or where those are few what is between."""
    if log:
        first, last = int(np.ceil(np.log10(low))), int(np.floor(np.log10(high)))
        if last > first:
            return [10.0**exponent for exponent in range(first, last + 1, (last - first) // 6 + 1)]
        between = [f * 10.0**exponent for exponent in range(first - 1, last + 1) for f in (1, 2, 5)]
        between = [value for value in between if low <= value <= high]
        if len(between) > 1:
            return between
    rough = (high - low) / (3 if log else 5)  # labels of the former are long
    power = 10.0 ** np.floor(np.log10(rough))
    step = power * next(f for f in (1, 2, 5, 10) if f * power >= rough * 0.999)
    return [float(k * step) for k in range(int(np.ceil(low / step)), int(np.floor(high / step)) + 1)]


def tick_label(value: float, log: bool = False) -> str:
    """A number at an axis; decades of a logarithmic axis as powers, which are short."""
    exponent = float(np.log10(value)) if log else 0.0
    if abs(exponent) >= 2 and abs(exponent - round(exponent)) < 1e-9:
        return with_powers(f"1e{round(exponent):+d}")
    return typeset(value, 3)
