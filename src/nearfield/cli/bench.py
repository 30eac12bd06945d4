"""`nearfield bench`: how fast it is on this machine."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from .messages import aligned, print_json
from .options import AsJson, Distance
from .progress import bars

EXAMPLES = """
**Examples**

- `nearfield bench`

- `nearfield bench 1000000 --tolerance 1e-2`
"""

DENSITY = 15.0  # points per squared length scale


def command(
    sizes: Annotated[
        list[int] | None,
        typer.Argument(metavar="[N]...", min=10, help="Training points, and as many test points; 10000 and 100000."),
    ] = None,
    tolerance: Distance = 1e-3,
    as_json: AsJson = False,
) -> None:
    """Time a fit and predictions with standard deviations on this machine, on points drawn in the plane.

    The hyperparameters are given; 15 points per squared length scale.
    """
    records = []
    with bars() as show:
        for n in sizes or [10_000, 100_000]:
            records.append(_measure(n, tolerance, show))
    if as_json:
        print_json(records)
        return
    header = ["points", "fit (s)", "predict (s)", "RMSE", "95 % cover", "KL from exact", "centres"]
    row = "{points}|{fit:.2f}|{predict:.2f}|{rmse:.4f}|{percent:.1f} %|{divergence:.1e}|{centres}"
    rows = [row.format(percent=100 * r["coverage"], **r).split("|") for r in records]
    typer.echo(aligned([header, *rows]))


def _measure(n: int, tolerance: float, show: Any) -> dict[str, Any]:
    import numpy as np

    from .. import LocalGPRegressor, metrics

    rng = np.random.RandomState(0)
    X = rng.uniform(0, (n / DENSITY) ** 0.5, (2 * n, 2))
    frequencies, phases = rng.standard_normal((2, 100)), rng.uniform(0, 2 * np.pi, 100)
    y = 0.1**0.5 * rng.standard_normal(2 * n)
    for rows in np.array_split(np.arange(2 * n), max(n // 10_000, 1)):
        y[rows] += (2 / 100) ** 0.5 * np.cos(X[rows] @ frequencies + phases).sum(axis=1)
    given: dict[str, Any] = {"length_scale": 1.0, "signal_variance": 1.0, "noise_variance": 0.1, "n_scales": 1}
    began = time.perf_counter()
    model = LocalGPRegressor(**given, tolerance=tolerance, random_state=0, progress=show).fit(X[:n], y[:n])
    fitted = time.perf_counter()
    mean, std = model.predict(X[n:], return_std=True, include_noise=True)
    return {
        "points": n,
        "fit": fitted - began,
        "predict": time.perf_counter() - fitted,
        "rmse": metrics.rmse(y[n:], mean),
        "coverage": metrics.coverage(y[n:], mean, std=std),
        "divergence": model.report_.divergence,
        "centres": model.report_.n_centers,
    }
