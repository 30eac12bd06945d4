"""`nearfield predict`: from a model file and a table to a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from .messages import CommandError, note, print_json, refuse_overwriting
from .options import AsJson, Encoding
from .progress import bars

if TYPE_CHECKING:
    from ..streaming.tables import Table, TableRows
    from .columns import Recipe

EXAMPLES = """
**Examples**

- `nearfield predict model.nf new.csv --noise --out predictions.csv`

- `nearfield predict model.nf new.parquet --id station --noise --level 0.9 --out predictions.parquet`

- `zcat new.csv.gz | nearfield predict model.nf - --noise | head`
"""


def command(
    model: Annotated[str, typer.Argument(help="Model file.")],
    data: Annotated[str, typer.Argument(help="Table with the columns the model was made from; - is standard input.")],
    out: Annotated[
        str, typer.Option("--out", "-o", help="Table to write: .csv, .tsv, either with .gz, or .parquet; - is stdout.")
    ] = "-",
    level: Annotated[float, typer.Option("--level", help="Probability of the interval from lower to upper.")] = 0.95,
    noise: Annotated[
        bool | None,
        typer.Option(
            "--noise/--latent",
            help="std and interval of observations with noise, or of the smooth function behind them. Default: "
            "observations now; the function in the next release, as in Python.",
            show_default=False,
        ),
    ] = None,
    identifier: Annotated[
        str | None, typer.Option("--id", help="Columns to keep, with commas. Default: all of them.")
    ] = None,
    keep_all: Annotated[
        bool | None,
        typer.Option(
            "--all/--none", help="Keep all columns, as by default without --id, or none of them.", show_default=False
        ),
    ] = None,
    prefix: Annotated[str, typer.Option("--prefix", help="Put before the names of the new columns.")] = "",
    batch_size: Annotated[
        int | None,
        typer.Option(
            "--batch-size",
            help="Rows read, predicted and written at a time. Default: 10000, or 200000 for a model so large that each "
            "batch makes its parts anew.",
        ),
    ] = None,
    encoding: Encoding = None,
    as_json: AsJson = False,
) -> None:
    """Predict for every row of a table: mean, std, lower and upper.

    Rows come out in the order they went in, one for one, with the columns that they had. Where a feature is missing, or
    has a category that the model has not seen, the new columns are empty, and such rows are counted. An output file is
    written whole or not at all; standard output receives each batch as soon as it is done.
    """
    from ..streaming.tables import check_writable, open_table, write_table
    from .columns import load_model, recipe_of
    from .models import rows_at_a_time

    if not 0 < level < 1:
        raise CommandError(f"--level must lie between 0 and 1, not {level:g}.")
    if batch_size is not None and batch_size < 1:
        raise CommandError(f"--batch-size must be at least 1, not {batch_size}.")
    if as_json and out == "-":
        raise CommandError("--json needs --out FILE, since the table goes to the standard output.")
    refuse_overwriting(out, table=data, model=model)
    check_writable(out)
    gp, metadata = load_model(model)
    with open_table(data, encoding) as table, bars(quiet=out == "-") as show:
        kept = _kept(table, identifier, keep_all)
        recipe = recipe_of(gp, metadata, table, kept)
        rows = _Rows(gp, recipe, level, latent=noise is False)
        new = [prefix + name for name in _new_columns(len(gp.y_mean_))]
        for name in new:
            if name in kept:
                raise CommandError(
                    f"{table.name} has a column {name!r} already: use --prefix for the new ones, or --id or --none."
                )
        kinds = [*(table.field(name) for name in kept), *["float64"] * len(new)]
        with write_table(out, [*kept, *new], kinds, table.delimiter) as writer:
            for batch in table.batches(batch_size or rows_at_a_time(gp)):
                writer.write([*(batch.cells(name) for name in kept), *rows.predict(batch)])
                show("predicting", table.done())
    rows.say(table.name)
    if noise is None:
        note("std and interval are those of observations; the next release gives the function's unless you say --noise")
    if as_json:
        counts = {"rows": rows.unused.n_rows, "missing": rows.unused.n_missing, "unknown": rows.unused.unknown}
        print_json({"out": out, **counts, "columns": new})


class _Rows:
    """Predictions, batch by batch, and what is to be said of them in the end."""

    def __init__(self, gp: Any, recipe: Recipe, level: float, latent: bool) -> None:
        from scipy.special import ndtri

        from ..estimators.extent import Outside
        from .columns import Unused

        self._gp, self._recipe, self._latent = gp, recipe, latent
        self._width = float(ndtri(0.5 + level / 2))
        self.unused, self._outside = Unused(), Outside(gp)

    def predict(self, batch: TableRows) -> list[Any]:
        """Means, standard deviations and bounds of a batch, in the order of `_new_columns`."""
        import numpy as np

        from .models import predict

        X, unknown = self._recipe.matrix(batch)
        complete = ~np.isnan(X).any(axis=1)
        mean = np.full((len(X), len(self._gp.y_mean_)), np.nan)
        std = mean.copy()
        self._gp._check_degrees(X, first=self.unused.n_rows + 1)
        if complete.any():
            mean[complete], std[complete] = predict(self._gp, X[complete], self._latent)
        self.unused.add(~complete, unknown)
        self._outside.add(X)
        half = self._width * std
        return [values[:, i] for i in range(mean.shape[1]) for values in (mean, std, mean - half, mean + half)]

    def say(self, name: str) -> None:
        """Count what could not be predicted."""
        if self.unused.n_rows == 0:
            note(f"{name} has a header and no rows, and so has the output")
        self.unused.say("no prediction for")
        message = self._outside.message(counted_from=1)
        if message is not None:
            note(message)


def _new_columns(n_targets: int) -> list[str]:
    names = ["mean", "std", "lower", "upper"]
    return names if n_targets == 1 else [f"{name}_{i}" for i in range(n_targets) for name in names]


def _kept(table: Table, identifier: str | None, keep_all: bool | None) -> list[str]:
    """Columns of the table that are written again: all, unless others are named or none is wanted."""
    from .columns import require_columns, split_names

    named = split_names(identifier)
    require_columns(table, named)
    if keep_all is None:
        keep_all = not named
    return list(table.columns) if keep_all else named
