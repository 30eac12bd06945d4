"""`nearfield fit`: from a table to a model file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from ._data import Training
    from ._models import Made, Settings

EXAMPLES = """
**Examples**

- `nearfield fit stations.csv --target temperature --features lon,lat --out model.nf`

- `nearfield fit sales.parquet --target price --one-hot district --id sale --out price.nf`

- `zcat big.csv.gz | nearfield fit - --target y --tolerance 1e-2 --out y.nf --json`
"""

# Options that `fit` and `evaluate` share.
Data = Annotated[str, typer.Argument(help="Table: CSV, TSV, either in gzip, or Parquet; - is the standard input.")]
Target = Annotated[str, typer.Option("--target", "-t", help="Column to predict.")]
Features = Annotated[
    str | None,
    typer.Option(
        "--features", "-f", help="Columns to predict from, with commas. Default: all others that hold numbers."
    ),
]
Identifier = Annotated[str | None, typer.Option("--id", help="Column that names the rows; never a feature.")]
OneHot = Annotated[
    str | None, typer.Option("--one-hot", help="Text columns to turn into columns of zeros and ones, with commas.")
]
Method = Annotated[
    str,
    typer.Option(
        "--method",
        help="local: any number of rows; exact: up to some thousand rows; features: one global map of random features.",
    ),
]
Tolerance = Annotated[
    float,
    typer.Option("--tolerance", help="Largest distance of a local model from the exact one: nats of KL a test point."),
]
NScales = Annotated[
    str | None,
    typer.Option("--n-scales", help="Length scales in the kernel: a number or auto. Default: auto for local, else 1."),
]
Ard = Annotated[
    bool | None,
    typer.Option(
        "--ard/--no-ard",
        help="A length scale for every column, or one for all. Default: every column, unless they look like "
        "coordinates (see --scale).",
        show_default=False,
    ),
]
Scale = Annotated[
    bool | None,
    typer.Option(
        "--scale/--no-scale",
        help="Divide columns by their standard deviation for learning, or not. Default: yes, unless they look like "
        "coordinates: at most 3 columns of numbers whose spreads differ by less than a factor of 10. "
        "Length scales are given in the units of the table either way.",
        show_default=False,
    ),
]
NFeatures = Annotated[int, typer.Option("--n-features", help="Random features of --method features.")]
Seed = Annotated[int, typer.Option("--seed", help="For everything random: the same seed gives the same model.")]
NJobs = Annotated[int | None, typer.Option("--n-jobs", help="Threads. Default: every core.")]
Encoding = Annotated[str | None, typer.Option("--encoding", help="Of text. Default: UTF-8.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of words.")]


def command(
    data: Data,
    target: Target,
    out: Annotated[str, typer.Option("--out", "-o", help="Model file to write.")],
    features: Features = None,
    identifier: Identifier = None,
    one_hot: OneHot = None,
    method: Method = "local",
    tolerance: Tolerance = 1e-3,
    n_scales: NScales = None,
    ard: Ard = None,
    scale: Scale = None,
    n_features: NFeatures = 512,
    seed: Seed = 0,
    n_jobs: NJobs = None,
    encoding: Encoding = None,
    as_json: AsJson = False,
) -> None:
    """Fit a Gaussian process to a table and save it.

    Rows with missing values in a column that is used (empty, NA, NaN, null) are dropped and counted. Text where a
    number must be is an error that names column, row and value. The model file is written whole or not at all, holds
    the training data, and can be opened in Python with `nearfield.load`.
    """
    import os
    import time

    from .. import io
    from ..tables import check_writable
    from ._data import read_training
    from ._models import Settings, make, say_what_was_read
    from ._output import file_size, print_json
    from ._progress import bars
    from ._run import CommandError

    if out == "-":
        raise CommandError("A model goes to a file: give --out a name.")
    settings = Settings(method, tolerance, n_scales, ard, scale, n_features, seed, n_jobs)
    check_writable(out)
    start = time.perf_counter()
    training = read_training(data, target, features, identifier, one_hot, encoding)
    say_what_was_read(training, features is not None)
    with bars() as show:
        made = make(settings, training.X, training.y, training.recipe, show)
    seconds = time.perf_counter() - start
    io.save(made.model, out, describe(training, made, settings, identifier))
    if as_json:
        print_json({"model": out, "seconds": seconds, **summary(io.inspect(out))})
        return
    typer.echo(
        f"{target} from {', '.join(training.recipe.names)}: {len(training.y)} rows, {seconds:.1f} s\n"
        f"{account(made.model)}\n"
        f"Saved in {out} ({file_size(os.path.getsize(out))})."
    )


def describe(training: Training, made: Made, settings: Settings, identifier: str | None) -> dict[str, Any]:
    """The metadata of a model file: what the command line needs to know of a model besides the model."""
    from datetime import UTC, datetime
    from pathlib import Path

    from .. import __version__

    def moments(values: Any) -> dict[str, float]:
        return {
            "min": float(values.min()),
            "max": float(values.max()),
            "mean": float(values.mean()),
            "std": float(values.std()),
        }

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


def summary(file: Any) -> dict[str, Any]:
    """What a model file says, for machines."""
    state = file.state()
    return {
        "class": file.class_name,
        "library": file.library_version,
        "format": file.format_version,
        "checksum": file.digest,
        "bytes": file.n_bytes,
        "hyperparameters": {name: state[f"{name}_"] for name in ("length_scale", "signal_variance", "noise_variance")},
        "features": _feature_names(state),
        "targets": len(state["y_mean_"]),
        "report": state.get("report_"),
        "metadata": file.metadata,
    }


def _feature_names(state: dict[str, Any]) -> list[str]:
    names = state.get("feature_names_in_")
    return [f"x{i}" for i in range(state["n_features_in_"])] if names is None else list(names)


def account(model: Any) -> str:
    """What a model, or the state of one, says of itself, in lines."""
    state = model if isinstance(model, dict) else vars(model)
    if "report_" in state:
        return str(state["report_"])
    from ..report import _number

    lines = [
        f"  {name.replace('_', ' ').ljust(15)} {_number(state[f'{name}_'])}"
        for name in ("length_scale", "signal_variance", "noise_variance")
    ]
    if "statistics_" in state:
        lines.append(f"  features        {state['_width']}, of {state['statistics_'].n} samples")
    return "\n".join(lines)
