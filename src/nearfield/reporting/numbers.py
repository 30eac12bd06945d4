"""Numbers as text: plain for terminals and files, typeset for the page."""

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
