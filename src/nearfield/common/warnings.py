"""Warnings that point at the user's own line."""

from __future__ import annotations

import sys
import warnings


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the first line outside this package on the way up, however deep the call."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "nearfield":
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level + 1)
