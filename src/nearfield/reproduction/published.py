"""The paper's own results."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib import resources


@dataclass(frozen=True)
class Published:
    """Mean and standard deviation over `runs` of one cell of the published table.

    `kl_sum` is the sum over `n_test` points of KL(approximation || exact), both of observations.
    """

    kl_sum: float
    kl_sum_std: float
    rmse: float
    rmse_std: float
    runs: int
    n_test: int
    n_centers: float | None


Key = tuple[str, str, str, float | None, int]


@cache
def table() -> dict[Key, Published]:
    """All published cells by (data, method, sampling, spacing in length scales or None for one map, D)."""
    text = resources.files(__package__).joinpath("published.csv").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    cells = {}
    for row in csv.DictReader(lines):
        spacing = float(row["spacing"]) if row["spacing"] else None
        key = (row["data"], row["method"], row["sampling"], spacing, int(row["D"]))
        numbers = {name: float(row[name]) for name in ("kl_sum", "kl_sum_std", "rmse", "rmse_std")}
        n_centers = float(row["n_centers"]) if row["n_centers"] else None
        cells[key] = Published(**numbers, runs=int(row["runs"]), n_test=int(row["n_test"]), n_centers=n_centers)
    return cells


def best(data: str, D: int, measure: str) -> tuple[float, str]:
    """The smallest published mean of "kl_sum" (per test point) or "rmse" for a data set and `D`, and whose it is."""
    values = []
    for (name, method, sampling, spacing, size), cell in table().items():
        if name == data and size == D:
            value = cell.rmse if measure == "rmse" else cell.kl_sum / cell.n_test
            where = "" if spacing is None else f", {spacing:g} l"
            values.append((value, f"{method} {sampling}{where}"))
    return min(values)
