"""The defaults on data made up anew, one case for each number, beside the exact process.

    python -m fuzz.made_up                  # 300 cases
    python -m fuzz.made_up --only 17        # that case again

A case draws where its points lie (evenly, in towns, on a raster with a gap, along a line, several rows at each
place), a function of several length scales with or without a trend, columns without effect, noise (none, plain,
with heavy tails, of local size) and units. The gap is to be predicted too.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from .judging import Case
from .many import main

CASES = 300
ROWS = (150, 3000)
TEST = 0.25
GAP = 0.12  # half the side of the gap in a raster of side 1
LAYOUTS = ("evenly", "towns", "raster", "line", "repeats")
NOISES = ("none", "plain", "heavy", "local")


def made_up(number: int, rows: tuple[int, int] = ROWS) -> Case:
    """The case of a number, with about as many rows as asked for."""
    rng = np.random.default_rng(number)
    n = int(np.exp(rng.uniform(*np.log(rows))))
    d = int(rng.choice([1, 2, 2, 3, 5, 8, 12]))
    layout = str(
        rng.choice(LAYOUTS if d == 2 else [kind for kind in LAYOUTS if kind != "raster" and (d, kind) != (1, "line")])
    )
    noise = str(rng.choice(NOISES))
    X = places(rng, layout, n, d)
    useful = X[:, : d if d <= 3 else int(rng.integers(2, d + 1))]
    f = function(rng, useful)
    y = f + 0.3 * np.std(f) * errors(rng, noise, useful[:, 0])
    if rng.random() < 0.3:
        y = y + np.std(f) * 10 ** rng.uniform(0, 2) * useful[:, 0]
    test = rng.random(len(X)) < TEST
    if layout == "raster":
        test |= (np.abs(X - rng.uniform(0.3, 0.7, 2)) < GAP).all(axis=1)
    has_units = bool(d > 1 and rng.random() < (0.9 if d > 3 else 0.3))
    X = (X + rng.choice([0.0, 10.0])) * 10 ** rng.uniform(-4, 4, d if has_units else 1)
    y = y * 10 ** rng.uniform(-4, 4)
    label = f"{len(X)} x {d} {layout}, noise {noise}{', units' * has_units}"
    return Case(str(number), X[~test], y[~test], X[test], y[test], "auto", label)


def places(rng: Any, layout: str, n: int, d: int) -> Any:
    """Points (n, d) in about the unit cube; of a raster, as many as its sides allow."""
    X = rng.uniform(size=(n, d))
    if layout == "towns":
        town, width = rng.integers(10, size=n), 10 ** rng.uniform(-2.5, -1, (10, 1))
        inside = rng.uniform(size=(10, d))[town] + width[town] * rng.standard_normal((n, d))
        X = np.where(rng.random((n, 1)) < 0.8, inside, X)
    elif layout == "raster":
        side = np.arange(int(np.sqrt(n))) / int(np.sqrt(n))
        X = np.column_stack([axis.ravel() for axis in np.meshgrid(side, side)])
    elif layout == "line":
        X[:, 1:] *= 1e-3
    elif layout == "repeats":
        X = X[rng.integers(n // 3, size=n)]
    return X


def function(rng: Any, X: Any) -> Any:
    """A draw (n,) of a process with two length scales, by waves of random direction and phase."""
    y = np.zeros(len(X))
    for height, length in zip((1.0, rng.uniform(0.3, 3.0)), 10 ** rng.uniform(-1.5, 0.3, 2), strict=True):
        waves = rng.standard_normal((X.shape[1], 200)) / (length * np.sqrt(X.shape[1]))
        y += height * np.cos(X @ waves + rng.uniform(0, 2 * np.pi, 200)).sum(axis=1) / 10.0
    return y


def errors(rng: Any, noise: str, x: Any) -> Any:
    """Errors of about unit size, of places with first coordinates x."""
    if noise == "none":
        return np.zeros(len(x))
    if noise == "heavy":
        return rng.standard_t(3, len(x))
    size = 0.2 + 2.0 * (x > np.median(x)) if noise == "local" else 1.0
    return size * rng.standard_normal(len(x))


class MadeUp:
    """Where `many.main` finds names and cases."""

    name = "made_up"
    beside = "exact"

    def names(self) -> list[str]:
        return self.sample(CASES)

    def sample(self, n: int) -> list[str]:
        return [str(number) for number in range(n)]

    def case(self, name: str) -> Case:
        return made_up(int(name))


if __name__ == "__main__":
    sys.exit(main(MadeUp()))
