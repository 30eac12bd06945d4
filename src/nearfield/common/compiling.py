"""Loops compiled by Numba, which is there on all usual machines: how they are, and how to come by them."""

from __future__ import annotations

import logging
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from .telling import tell

_logger = logging.getLogger(__name__)
STAGE = "loading compiled loops"


@cache
def loops(module: str) -> Any:
    """A module of compiled loops, by its full name; None without Numba.

    They are compiled when first used, and kept on disk if they can be.
    """
    if find_spec("numba") is None:
        return None
    _logger.info("%s; the first time on a machine they are compiled, which takes some seconds", STAGE)
    tell(STAGE, 0.0)
    try:
        return import_module(module)
    except ImportError as error:  # a Numba that does not go with the NumPy installed says so
        _logger.warning("Numba cannot be used: %s", error)
        return None


def _nothing() -> None:
    """A function to try."""


@cache
def options() -> dict[str, Any]:
    """Options of `numba.njit`; loops are kept where there is a folder for it: beside their file, or the user's own."""
    import numba

    try:
        numba.njit(cache=True)(_nothing)
        can_be_kept = True
    except RuntimeError:
        can_be_kept = False
    return {"cache": can_be_kept, "nogil": True, "fastmath": {"reassoc", "contract", "nsz", "arcp"}}
