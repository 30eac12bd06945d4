"""Table 1: the variances of polynomial sketches, measured and in closed form."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..common.threads import single_threaded_blas
from ..common.types import Floats
from ..features import sketch
from .cells import Laboratory
from .drawing import SAMPLING_NAMES, panels
from .report import Row, Section, Table, number, save_picture

NAME, TITLE, DATA = "variances", "Table 1: variances of the sketches", ()
SAMPLINGS = ("gaussian", "rademacher", "tensor_srht")
DEGREES = (1, 2, 3, 4)
VARIABLES = 8
SIZES = (4, 8, 12, 32)  # below, at, and between multiples of the block of TensorSRHT
BATCH = 2000
LIMIT = 4.0  # standard errors that the measured variance may be off


def measure(x: Floats, y: Floats, degree: int, D: int, sampling: str, n_draws: int, seed: int) -> tuple[float, float]:
    """Mean squared error of estimates of `(x'y)^degree` over independent draws, and its standard error."""
    rng = np.random.RandomState(seed)
    points, true = np.stack([x, y]), float(x @ y) ** degree
    squares = []
    for n in _batches(n_draws):
        # Whole blocks per draw, of which it keeps the first D features, as a sketch of its own would.
        width = -(-D // len(x)) * len(x)
        drawn = sketch.apply(sketch.sample(len(x), degree, n * width, sampling, rng), points)
        products = (drawn[0] * drawn[1]).reshape(n, width)[:, :D].sum(axis=1) * (n * width / D)
        squares.append((products - true) ** 2)
    errors = np.concatenate(squares)
    return float(errors.mean()), float(errors.std(ddof=1) / n_draws**0.5)


def _batches(n_draws: int) -> list[int]:
    return [min(BATCH, n_draws - start) for start in range(0, n_draws, BATCH)]


def run(laboratory: Laboratory) -> tuple[Section, list[Row]]:
    """Compute, draw and describe."""
    n_draws = 20_000 if laboratory.settings.quick else 1_000_000
    rng = np.random.RandomState(0)
    x, y = rng.standard_normal((2, VARIABLES))
    y = x * 0.6 + 0.8 * y
    x, y = x / np.linalg.norm(x), y / np.linalg.norm(y)
    rows: list[Row] = []
    cases = [(s, n, D) for s in SAMPLINGS for n in DEGREES for D in SIZES]
    for number_, (sampling, degree, D) in enumerate(cases):
        laboratory.show(NAME, number_ / len(cases))
        rows.append(_case(laboratory, x, y, sampling, degree, D, n_draws))
    laboratory.show(NAME, 1.0)
    picture = save_picture(_draw(rows), laboratory.settings.out, NAME)
    agreeing = sum(r["verdict"] == "agrees" for r in rows)
    lower = [
        next(r["closed_form"] for r in rows if (r["sampling"], r["degree"], r["D"]) == ("tensor_srht", n, 8))
        < next(r["closed_form"] for r in rows if (r["sampling"], r["degree"], r["D"]) == ("rademacher", n, 8))
        for n in DEGREES
    ]
    findings = [
        f"{agreeing} of {len(rows)} measured variances ({n_draws} draws each) are within {LIMIT:g} standard errors of "
        "Table 1.",
        "TensorSRHT has less variance than Rademacher at D = d for degree "
        + ", ".join(str(n) for n, better in zip(DEGREES, lower, strict=True) if better)
        + " of these points.",
    ]
    table = []
    for r in rows:
        case = [SAMPLING_NAMES[r["sampling"]], str(r["degree"]), str(r["D"])]
        z = "" if r["z"] is None else f"{r['z']:+.1f}"
        table.append([*case, number(r["closed_form"]), number(r["measured"]), z, r["verdict"]])
    header = ["sketch", "degree", "D", "closed form", "measured", "standard errors", "verdict"]
    caption = f"Variance of the kernel estimate against D, d = {VARIABLES}: closed form (lines) and measured (points)"
    return Section(NAME, TITLE, [(picture, caption)], findings, [Table("Variances", header, table)]), rows


def _case(
    laboratory: Laboratory, x: Floats, y: Floats, sampling: str, degree: int, D: int, n_draws: int
) -> dict[str, Any]:
    case = {"sampling": sampling, "degree": degree, "D": D}
    key = {"kind": "variance", "revision": 2, **case, "draws": n_draws, "d": len(x)}
    stored = laboratory.cache.get(key)
    if stored is None:
        with single_threaded_blas():
            measured, error = measure(x, y, degree, D, sampling, n_draws, seed=D)
        stored = {"measured": measured, "error": error}
        laboratory.cache.put(key, stored)
    closed = float(sketch.kernel_variance(x, y, degree, D, sampling))
    gap = stored["measured"] - closed
    # An orthogonal transform of degree one leaves rounding alone, where a ratio to its spread says nothing.
    nothing = max(closed, stored["measured"]) < 1e-12
    z = None if nothing else gap / stored["error"]
    return {
        **case,
        "closed_form": closed,
        "measured": stored["measured"],
        "standard_error": stored["error"],
        "z": z,
        "verdict": "agrees" if z is None or abs(z) <= LIMIT else "differs",
    }


def _draw(rows: list[Row]) -> Any:
    figure, axes = panels(1, len(DEGREES), 13, 3.4)
    for axis, degree in zip(axes[0], DEGREES, strict=True):
        for colour, sampling in zip(("C0", "C1", "C2"), SAMPLINGS, strict=True):
            chosen = [r for r in rows if r["sampling"] == sampling and r["degree"] == degree]
            sizes = [r["D"] for r in chosen]
            # Of degree one, whole blocks of an orthogonal transform have no variance at all: no place on this axis.
            closed, measured = ([r[k] if r[k] > 1e-12 else np.nan for r in chosen] for k in ("closed_form", "measured"))
            axis.plot(sizes, closed, "-_", ms=12, color=colour, label=SAMPLING_NAMES[sampling])
            axis.errorbar(sizes, measured, [2 * r["standard_error"] for r in chosen], fmt="o", ms=4, color=colour)
        axis.set(
            xscale="log", yscale="log", title=f"degree {degree}", xlabel="D", xticks=list(SIZES), xticklabels=SIZES
        )
        largest = max(r["closed_form"] for r in rows if r["degree"] == degree)
        axis.set_ylim(largest * 1e-3, largest * 3)
        axis.minorticks_off()
    axes[0, 0].set_ylabel("variance")
    axes[0, 0].legend(frameon=False)
    return figure
