"""Arrays packed small for the script of the page."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np

from ...common.types import Floats

STEPS = 65534  # the value above it stands for "none"


def pack(values: Floats) -> dict[str, Any]:
    """Numbers in 16 bits each, between their extremes; what is not finite becomes the value for "none".

    The error is at most half of (hi - lo) / 65534, far less than a colour or a label can show.
    """
    flat = np.asarray(values, dtype=np.float64).ravel()
    finite = np.isfinite(flat)
    low, high = (float(flat[finite].min()), float(flat[finite].max())) if finite.any() else (0.0, 0.0)
    width = high - low
    steps = np.full(flat.shape, STEPS + 1, dtype="<u2")
    steps[finite] = np.rint((flat[finite] - low) / width * STEPS) if width > 0 else 0
    return {"lo": low, "hi": high, "data": base64.b64encode(steps.tobytes()).decode("ascii")}
