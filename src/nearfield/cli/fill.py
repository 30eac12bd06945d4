"""`nearfield fill`: the gaps of a raster."""

from __future__ import annotations

from typing import Annotated

import typer

from .messages import CommandError, refuse_overwriting
from .options import NJobs, NScales, Tolerance
from .progress import bars

EXAMPLES = """
**Examples**

- `nearfield fill image.nc --variable temperature --out filled.nc`

- `nearfield fill stack.nc --variable ndvi --dims time,y,x --std --out filled.nc`

- `nearfield fill elevation.tif --max-distance 5000 --out filled.tif`
"""


def command(
    raster: Annotated[str, typer.Argument(help="Raster with gaps: NetCDF (.nc), or GeoTIFF (.tif) with rioxarray.")],
    out: Annotated[str, typer.Option("--out", "-o", help="Raster to write, .nc or .tif.")],
    variable: Annotated[
        str | None, typer.Option("--variable", help="Variable of a NetCDF file. Default: the only one.")
    ] = None,
    dims: Annotated[
        str | None,
        typer.Option(
            "--dims",
            help="Dimensions that the field varies over, with commas. Default: the last two; slices along others are "
            "filled apart.",
        ),
    ] = None,
    std: Annotated[
        bool, typer.Option("--std", help="Write the standard deviation, too: variables mean and std, or two bands.")
    ] = False,
    smooth: Annotated[
        bool, typer.Option("--smooth", help="Replace values that are there by the mean of the process, too.")
    ] = False,
    max_distance: Annotated[
        float | None,
        typer.Option("--max-distance", help="Leave gaps farther from all values than this; km for lon and lat."),
    ] = None,
    max_std: Annotated[
        float | None, typer.Option("--max-std", help="Leave gaps where the standard deviation is larger.")
    ] = None,
    tolerance: Tolerance = 1e-3,
    n_scales: NScales = None,
    n_jobs: NJobs = None,
) -> None:
    """Fill the gaps of a raster from the cells around them.

    Coordinates are taken as they are: longitude and latitude are places on the earth, times count in days. Attributes,
    coordinate reference system and encoding are kept. The file is written whole or not at all.
    """
    import time

    from .columns import split_names
    from .models import Settings

    settings = Settings(tolerance=tolerance, n_scales=n_scales, n_jobs=n_jobs)
    for name, value in (("--max-distance", max_distance), ("--max-std", max_std)):
        if value is not None and not value > 0:
            raise CommandError(f"{name} must be positive, not {value:g}.")
    try:
        from ..raster import files, fill
    except ImportError as error:
        raise CommandError(str(error)) from None
    files.check_name(raster)
    files.check_name(out)
    refuse_overwriting(out, raster=raster)
    began = time.perf_counter()
    array = files.read(raster, variable)
    n_gaps = int(array.isnull().sum())
    with bars() as show:
        answer = fill(
            array,
            std,
            dims=split_names(dims) or None,
            smooth=smooth,
            max_distance=max_distance,
            max_std=max_std,
            progress=show,
            tolerance=settings.tolerance,
            n_scales=settings.scales(),
            n_jobs=settings.n_jobs,
        )
    files.write(answer, out)
    filled = answer["mean"] if std else answer
    left = int(filled.isnull().sum())
    name = variable or array.name or "raster"
    typer.echo(
        f"{name}: {n_gaps - left} of {array.size} cells filled"
        + (f", {left} left" if left else "")
        + f", {time.perf_counter() - began:.1f} s. Wrote {out}."
    )
    if "kl_from_exact_in_nats_per_point" in filled.attrs:
        distance = filled.attrs["kl_from_exact_in_nats_per_point"]
        typer.echo(f"The exact Gaussian process is {distance:.1e} nats of KL per cell away, as measured in the gaps.")
