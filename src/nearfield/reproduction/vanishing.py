"""Figure 1: the truncated series k_p vanishes far from its centre, the kernel k does not."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import gammaincc

from ..common.types import Floats
from ..features import taylor
from .cells import Laboratory
from .drawing import panels
from .report import Row, Section, Table, number, save_picture

NAME, TITLE, DATA = "vanishing", "Figure 1: the vanishing kernel", ()
DEGREE = 3
ANGLES = (0, 45, 90, 135, 180)
NORMS = (1.0, 2.0, 3.0)


def kernels(norm_x: Floats, norm_y: float, angle: float, degree: int = DEGREE) -> tuple[Floats, Floats]:
    """`k_p` by its explicit features and `k`, for points at an angle (in degrees) with norms in length scales."""
    radians = np.radians(angle)
    x = norm_x[:, None] * np.array([[1.0, 0.0]])
    y = norm_y * np.array([[np.cos(radians), np.sin(radians)]])
    series = taylor.sample(2, degree)
    truncated = (taylor.apply(series, x) @ taylor.apply(series, y).T)[:, 0]
    return truncated, np.exp(-0.5 * np.sum((x - y) ** 2, axis=1))


def run(laboratory: Laboratory) -> tuple[Section, list[Row]]:
    """Compute, draw and describe."""
    out = laboratory.settings.out
    grid = np.linspace(0.0, 6.0, 241)
    figure, axes = panels(1, len(NORMS) + 1, 13, 3.6, sharey=True)
    rows: list[Row] = []
    for axis, norm in zip(axes[0], NORMS, strict=False):
        for angle in ANGLES:
            truncated, exact = kernels(grid, norm, angle)
            (line,) = axis.plot(grid, exact, alpha=0.35, lw=3)
            axis.plot(grid, truncated, "--", color=line.get_color(), label=f"{angle}°")
            rows += [
                {"norm_x": x, "norm_y": norm, "angle": angle, "k_p": float(a), "k": float(b)}
                for x, a, b in zip(grid, truncated, exact, strict=True)
            ]
        axis.set(title=f"|y| = {norm:g} l", xlabel="|x| / l")
    axes[0, 0].legend(title="angle", frameon=False)
    axes[0, 0].set_ylabel("kernel")
    diagonal = np.concatenate([kernels(grid[i : i + 1], float(grid[i]), 0)[0] for i in range(len(grid))])
    axes[0, -1].plot(grid, np.ones_like(grid), alpha=0.35, lw=3, color="C0")
    axes[0, -1].plot(grid, diagonal, "--", color="C0")
    axes[0, -1].set(title="x = y", xlabel="|x| / l")
    rows += [
        {"norm_x": x, "norm_y": x, "angle": 0, "k_p": float(a), "k": 1.0} for x, a in zip(grid, diagonal, strict=True)
    ]
    picture = save_picture(figure, out, NAME)
    law = float(np.max(np.abs(diagonal - gammaincc(DEGREE + 1, grid**2))))
    right = float(np.max(np.abs(np.subtract(*kernels(grid, 2.0, 90)))))
    parallel = {norm: float(np.max(np.abs(np.subtract(*kernels(grid, norm, 0))))) for norm in NORMS}
    checks = [
        ["k_p(x, x) is P(Poisson(|x|²) <= p), largest error", "0", number(law), _yes(law < 1e-12)],
        ["error for orthogonal points", "0", number(right), _yes(right < 1e-12)],
        ["k_p(x, x) at |x| = 6 l", "0", number(float(diagonal[-1])), _yes(diagonal[-1] < 1e-6)],
        [
            "largest error of parallel points grows with |y| = 1, 2, 3",
            "grows",
            ", ".join(number(v) for v in parallel.values()),
            _yes(list(parallel.values()) == sorted(parallel.values())),
        ],
    ]
    holds = all(check[-1] == "yes" for check in checks)
    findings = [
        "As Theorem 3.1 says: k_p (dashed) goes to zero as the norms grow, whatever the angle; the error is largest "
        "for parallel points and zero for orthogonal ones."
        if holds
        else "NOT all that Theorem 3.1 says holds here: see the checks.",
    ]
    caption = (
        f"k_p (dashed) and k (solid, pale) for p = {DEGREE}, by the norms of the points and the angle between them"
    )
    return Section(
        NAME, TITLE, [(picture, caption)], findings, [Table("Checks", ["what", "theory", "ours", "holds"], checks)]
    ), rows


def _yes(truth: Any) -> str:
    return "yes" if truth else "no"
