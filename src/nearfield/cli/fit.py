"""`nearfield fit`: from a table to a model file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import options
from .messages import CommandError, file_size, print_json, refuse_overwriting
from .progress import bars

if TYPE_CHECKING:
    from .models import Made, Settings
    from .training import Training

EXAMPLES = """
**Examples**

- `nearfield fit stations.csv --target temperature --features lon,lat --out model.nf`

- `nearfield fit sales.parquet --target price --one-hot district --id sale --out price.nf`

- `nearfield fit sales.csv --target price --features lon,lat --drift "area,age,C(type)" --out price.nf`

- `zcat big.csv.gz | nearfield fit - --target y --tolerance 1e-2 --out y.nf --json`
"""


def command(
    data: options.Data,
    target: options.Target,
    out: Annotated[str, typer.Option("--out", "-o", help="Model file to write.")],
    features: options.Features = None,
    identifier: options.Identifier = None,
    one_hot: options.OneHot = None,
    drift: options.Drift = None,
    groups: options.Groups = None,
    method: options.Method = "local",
    tolerance: options.Tolerance = 1e-3,
    n_scales: options.NScales = None,
    ard: options.Ard = None,
    scale: options.Scale = False,
    sphere: options.Sphere = None,
    transform: options.Transform = "identity",
    noise: options.Noise = "auto",
    likelihood: options.Likelihood = "auto",
    kernel: options.KernelName = "gaussian",
    rotated: options.Rotated = False,
    n_features: options.NFeatures = 512,
    seed: options.Seed = 0,
    n_jobs: options.NJobs = None,
    encoding: options.Encoding = None,
    as_json: options.AsJson = False,
) -> None:
    """Fit a Gaussian process to a table and save it.

    Rows with missing values in a column that is used (empty, NA, NaN, null) are dropped and counted. Text where a
    number must be is an error that names column, row and value. The model file is written whole or not at all, holds
    the training data, and can be opened in Python with `nearfield.load`.
    """
    import os
    import time

    from ..persistence import files as io
    from ..streaming.tables import check_writable
    from .models import Settings, make
    from .summary import account, summary
    from .training import read_training, say_what_was_read

    if out == "-":
        raise CommandError("A model goes to a file: give --out a name.")
    of_process = (method, tolerance, n_scales, ard, scale, n_features, seed, n_jobs, sphere)
    settings = Settings(*of_process, transform, noise, likelihood, kernel, rotated)
    refuse_overwriting(out, table=data)
    check_writable(out)
    start = time.perf_counter()
    training = read_training(data, target, features, identifier, one_hot, encoding, drift, groups)
    say_what_was_read(training, features is not None)
    with bars() as show:
        made = make(settings, training.X, training.y, training.recipe, show)
    seconds = time.perf_counter() - start
    io.save(made.model, out, describe(training, made, settings, identifier))
    if as_json:
        print_json({"model": out, "seconds": seconds, **summary(io.inspect(out))})
        return
    typer.echo(
        f"{target} from {_columns(training)}: {len(training.y)} rows, {seconds:.1f} s{_on_earth(made)}\n"
        f"{account(made.model)}\n"
        f"Saved in {out} ({file_size(os.path.getsize(out))})."
    )


def _columns(training: Training) -> str:
    recipe, further = training.recipe, training.recipe.names[training.recipe.n_process or len(training.recipe.names) :]
    groups = [recipe.names[j] for j in recipe.levels]
    drift = [name for name in further if name not in groups]
    parts = [f"with a drift of {', '.join(drift)}"] * bool(drift) + [f"with groups of {', '.join(groups)}"] * bool(
        groups
    )
    return ", ".join([*recipe.process, *parts])


def _on_earth(made: Made) -> str:
    return "; distances are in km on the earth" if made.model.metric_ == "sphere" else ""


def describe(training: Training, made: Made, settings: Settings, identifier: str | None) -> dict[str, Any]:
    """The metadata of a model file: what the command line needs to know of a model besides the model."""
    from datetime import UTC, datetime
    from pathlib import Path

    from .. import __version__

    def moments(values: Any) -> dict[str, float]:
        return {name: float(getattr(values, name)()) for name in ("min", "max", "mean", "std")}

    names = training.recipe.names
    return {
        "made_by": f"nearfield {__version__}",
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "source": training.name if training.name == "standard input" else Path(training.name).name,
        "target": training.target,
        "columns": training.recipe.to_json(),
        "id": identifier,
        "method": settings.method,
        "seed": settings.seed,
        "rows": training.n_rows,
        "rows_used": len(training.y),
        "rows_dropped": training.n_dropped,
        "missing": training.missing,
        "left_out": training.left_out,
        "learnt_in_units": dict(zip(names, made.units.tolist(), strict=True)),
        "summary": {name: moments(training.X[:, i]) for i, name in enumerate(names)},
        "target_summary": moments(training.y),
    }
