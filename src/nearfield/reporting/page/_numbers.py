"""Numbers for readers, and arrays packed small for the script of the page."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np

from ...common.types import Floats

STEPS = 65534  # the value above it stands for "none"
MINUS, TIMES = "\N{MINUS SIGN}", "\N{MULTIPLICATION SIGN}"
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def number(value: float, digits: int = 4) -> str:
    """A number as people write it: 12 300, 0.012, 3.4 x 10⁻⁷."""
    if not np.isfinite(value):
        return "none"
    if value == 0:
        return "0"
    exponent = int(np.floor(np.log10(abs(value))))
    if -4 <= exponent < 6:
        text = f"{value:.{max(digits - 1 - exponent, 0)}f}"
        text = text.rstrip("0").rstrip(".") if "." in text else text
        whole, _, rest = text.partition(".")
        if len(whole.lstrip("-")) > 4:
            whole = f"{int(whole):,}".replace(",", "\u202f")
        return (f"{whole}.{rest}" if rest else whole).replace("-", MINUS)
    mantissa, exponent_text = f"{value:.{digits - 1}e}".split("e")
    mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
    raised = power(int(exponent_text))
    sign, size = (MINUS if value < 0 else ""), mantissa.lstrip("-")
    return f"{sign}{raised}" if size == "1" else f"{sign}{size}\u00a0{TIMES}\u00a0{raised}"


def power(exponent: int) -> str:
    """A power of ten."""
    return f"10{str(exponent).translate(_RAISED)}"


def pack(values: Floats) -> dict[str, Any]:
    """Numbers in 16 bits each, between their extremes; what is not finite becomes the value for "none".

    The error is at most half of (hi - lo) / 65534, far less than a colour or a label can show.
    """
    flat = np.asarray(values, dtype=np.float64).ravel()
    finite = np.isfinite(flat)
    low = float(flat[finite].min()) if finite.any() else 0.0
    high = float(flat[finite].max()) if finite.any() else 0.0
    width = high - low
    steps = np.full(flat.shape, STEPS + 1, dtype="<u2")
    steps[finite] = np.rint((flat[finite] - low) / width * STEPS) if width > 0 else 0
    return {"lo": low, "hi": high, "data": base64.b64encode(steps.tobytes()).decode("ascii")}


def unpack(packed: dict[str, Any]) -> Floats:
    """The numbers again, as the page's script sees them."""
    steps = np.frombuffer(base64.b64decode(packed["data"]), dtype="<u2").astype(np.float64)
    values: Floats = packed["lo"] + steps / STEPS * (packed["hi"] - packed["lo"])
    values[steps > STEPS] = np.nan
    return values
