"""`nearfield demo`: a map from real data that needs no download."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from .messages import CommandError
from .options import Distance
from .progress import bars

EXAMPLES = """
**Examples**

- `nearfield demo`

- `nearfield demo --out pictures --scales auto`
"""


def command(
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="DIR", help="Folder for pictures and page; made if it is not there.")
    ] = Path("demo"),
    size: Annotated[int, typer.Option("--size", min=50, max=4000, help="Pixels across a globe.")] = 900,
    tolerance: Distance = 1e-2,
    scales: Annotated[str, typer.Option("--scales", help="Number of length scales in the kernel, or auto.")] = "1",
) -> None:
    """Map the elevation of the earth from its airports, with the uncertainty that is left.

    The data come with the package airportsdata, so nothing is downloaded. Writes map.png, calibration.png and
    report.html, and prints RMSE, coverage and the distance from the exact Gaussian process.
    """
    from . import airports

    began = time.perf_counter()
    n_scales = _number_of(scales)
    airports.prepare(out)
    data = airports.load()
    typer.echo(f"{airports.summary(data)}\n")
    with bars() as show:
        model = airports.fit(data, tolerance, n_scales, show)
    typer.echo(f"{model.report_}\n{airports.scales(model)}\n")
    typer.echo(f"{airports.scores(data, model)}\n")
    with bars() as show:
        airports.draw(out, data, model, size, show)
    typer.echo(f"Wrote {', '.join(str(out / name) for name in airports.PICTURES)}.")
    typer.echo(f"All done in {time.perf_counter() - began:.0f} s.")


def _number_of(scales: str) -> int | str:
    if scales == "auto":
        return scales
    if not scales.isdecimal() or not 1 <= int(scales) <= 9:
        raise CommandError(f"--scales must be auto or a whole number from 1 to 9, not {scales!r}.")
    return int(scales)
