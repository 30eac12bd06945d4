"""`nearfield predict`: from a model file and a table to a table."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .messages import CommandError, check_level, check_table_out, note, print_json
from .options import AsJson, Encoding, Level, TableOut
from .progress import bars

if TYPE_CHECKING:
    from ..common.distribution import PredictiveDistribution
    from ..streaming.tables import Table, TableRows
    from .columns import Recipe

EXAMPLES = """
**Examples**

- `nearfield predict model.nf new.csv --noise --out predictions.csv`

- `nearfield predict model.nf new.parquet --id station --noise --level 0.9 --out predictions.parquet`

- `nearfield predict model.nf new.csv --noise --quantiles 0.1,0.9 --above 25 --out predictions.csv`

- `zcat new.csv.gz | nearfield predict model.nf - --noise | head`
"""


def command(
    model: Annotated[str, typer.Argument(help="Model file.")],
    data: Annotated[str, typer.Argument(help="Table with the columns the model was made from; - is standard input.")],
    out: TableOut = "-",
    level: Level = 0.95,
    quantiles: Annotated[
        str | None,
        typer.Option("--quantiles", help="Quantiles to add, with commas: 0.1,0.5,0.9 gives q0.1, q0.5, q0.9."),
    ] = None,
    above: Annotated[
        str | None,
        typer.Option("--above", help="Thresholds, with commas: 25 gives above_25, the probability of more than that."),
    ] = None,
    noise: Annotated[
        bool | None,
        typer.Option(
            "--noise/--latent",
            help="All of observations with noise, or of the smooth function behind them. Default: "
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
    """Predict for every row of a table: mean, std, lower and upper, quantiles and probabilities.

    Rows come out in the order they went in, one for one, with the columns that they had. Where a feature is missing, or
    has a category that the model has not seen, the new columns are empty, and such rows are counted. An output file is
    written whole or not at all; standard output receives each batch as soon as it is done.
    """
    from ..streaming.tables import open_table, write_table
    from .columns import load_model, recipe_of
    from .models import rows_at_a_time

    asked = _Asked(level, _numbers("--quantiles", quantiles), _numbers("--above", above))
    if batch_size is not None and batch_size < 1:
        raise CommandError(f"--batch-size must be at least 1, not {batch_size}.")
    check_table_out(out, as_json, table=data, model=model)
    gp, metadata = load_model(model)
    with open_table(data, encoding) as table, bars(quiet=out == "-") as show:
        kept = _kept(table, identifier, keep_all)
        recipe = recipe_of(gp, metadata, table, kept)
        rows = _Rows(gp, recipe, asked, latent=noise is False)
        new = [prefix + name for name in asked.columns(len(gp.y_mean_))]
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


@dataclass(frozen=True)
class _Asked:
    """What is asked for besides mean and standard deviation."""

    level: float
    quantiles: list[float]
    thresholds: list[float]

    def __post_init__(self) -> None:
        check_level(self.level)
        for q in self.quantiles:
            if not 0 < q < 1:
                raise CommandError(f"--quantiles must lie between 0 and 1, not {q:g}.")

    def columns(self, n_targets: int) -> list[str]:
        """Names of the new columns."""
        names = ["mean", "std", "lower", "upper"]
        names += [f"q{q:g}" for q in self.quantiles] + [f"above_{threshold:g}" for threshold in self.thresholds]
        if len(set(names)) < len(names):
            raise CommandError("--quantiles and --above must not name a number twice.")
        return names if n_targets == 1 else [f"{name}_{i}" for i in range(n_targets) for name in names]

    def values(self, found: PredictiveDistribution) -> list[Any]:
        """Their values, in that order, for one target."""
        return [
            found.mean,
            found.std,
            *found.interval(self.level),
            *(found.ppf(q) for q in self.quantiles),
            *(found.above(threshold) for threshold in self.thresholds),
        ]


def _numbers(option: str, text: str | None) -> list[float]:
    from .columns import split_names

    numbers = []
    for word in split_names(text):
        try:
            numbers.append(float(word))
        except ValueError:
            raise CommandError(f"{option} must be numbers with commas between them, not {word!r}.") from None
        if not math.isfinite(numbers[-1]):
            raise CommandError(f"{option} must be finite numbers, not {word!r}.")
    return numbers


class _Rows:
    """Predictions, batch by batch, and what is to be said of them in the end."""

    def __init__(self, gp: Any, recipe: Recipe, asked: _Asked, latent: bool) -> None:
        from ..estimators.extent import Outside
        from .columns import Unused

        self._gp, self._recipe, self._asked, self._latent = gp, recipe, asked, latent
        self.unused, self._outside = Unused(), Outside(gp)

    def predict(self, batch: TableRows) -> list[Any]:
        """Values of the new columns of a batch, in their order; empty where a row is not complete."""
        import numpy as np

        from .models import distribution

        X, unknown = self._recipe.matrix(batch)
        complete = ~np.isnan(X).any(axis=1)
        k = len(self._gp.y_mean_)
        columns = [np.full(len(X), np.nan) for _ in self._asked.columns(k)]
        self._gp._check_degrees(X, first=self.unused.n_rows + 1)
        if complete.any():
            found = distribution(self._gp, X[complete], self._latent)
            values = [each for i in range(k) for each in self._asked.values(found.target(i))]
            for column, each in zip(columns, values, strict=True):
                column[complete] = each
        self.unused.add(~complete, unknown)
        self._outside.add(X)
        return columns

    def say(self, name: str) -> None:
        """Count what could not be predicted."""
        if self.unused.n_rows == 0:
            note(f"{name} has a header and no rows, and so has the output")
        self.unused.say("no prediction for")
        message = self._outside.message(counted_from=1)
        if message is not None:
            note(message)


def _kept(table: Table, identifier: str | None, keep_all: bool | None) -> list[str]:
    """Columns of the table that are written again: all, unless others are named or none is wanted."""
    from .columns import require_columns, split_names

    named = split_names(identifier)
    require_columns(table, named)
    if keep_all is None:
        keep_all = not named
    return list(table.columns) if keep_all else named
