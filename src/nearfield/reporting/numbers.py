"""Numbers as text, plain for terminals and typeset for the page and pictures; and round ones for an axis."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

MINUS, TIMES = "\N{MINUS SIGN}", "\N{MULTIPLICATION SIGN}"
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def number(value: Any, digits: int = 4) -> str:
    """Plain text: 0.012, 3.4e-07; arrays and lists in brackets, integers with all of their digits."""
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, list):
        return f"[{', '.join(number(entry, digits) for entry in value)}]"
    return f"{value:.{digits}g}" if isinstance(value, float) else str(value)


def typeset(value: float, digits: int = 4) -> str:
    """As people write it: 12 300, 0.012, 3.4 x 10⁻⁷; "none" for what is not finite."""
    if not np.isfinite(value):
        return "none"
    exponent = int(np.floor(np.log10(abs(value)))) if value else 0
    if not -4 <= exponent < 6:
        return with_powers(f"{value:.{digits - 1}e}")
    text = f"{value:.{max(digits - 1 - exponent, 0)}f}"
    whole, dot, decimals = _without_zeros(text).partition(".")
    if len(whole.lstrip("-")) > 4:
        whole = f"{int(whole):,}".replace(",", "\u202f")
    return f"{whole}{dot}{decimals}".replace("-", MINUS)


def with_powers(text: str) -> str:
    """Text with its numbers such as 3.40e-07 written as 3.4 x 10⁻⁷."""
    return re.sub(r"(-?)(\d+(?:\.\d+)?)e([+-]\d+)", _power, text)


def _power(match: re.Match[str]) -> str:
    sign, mantissa, exponent = match.groups()
    mantissa = _without_zeros(mantissa)
    power = f"10{str(int(exponent)).translate(_RAISED)}"
    return sign.replace("-", MINUS) + (power if mantissa == "1" else f"{mantissa}\u00a0{TIMES}\u00a0{power}")


def _without_zeros(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text


def counted(n: int, noun: str) -> str:
    """`1 column`, `2 columns`."""
    return f"{n} {noun}{'s' * (n != 1)}"


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
    is_decade = abs(exponent) >= 2 and abs(exponent - round(exponent)) < 1e-9
    return with_powers(f"1e{round(exponent):+d}") if is_decade else typeset(value, 3)
