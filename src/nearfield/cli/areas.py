"""`nearfield areas`: means or totals over areas, from a model file and a table of places."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from .messages import CommandError, check_level, check_table_out, note, print_json
from .options import AsJson, Encoding, Level, Seed, TableOut

if TYPE_CHECKING:
    from ..estimators.areas import Areas

EXAMPLES = """
**Examples**

- `nearfield areas model.nf grid.csv --group district --weight population --out districts.csv`

- `nearfield areas model.nf grid.csv --group catchment --weight cell_area --total`

- `nearfield areas model.nf grid.csv --group district --above 25`
"""


def command(
    model: Annotated[str, typer.Argument(help="Model file.")],
    data: Annotated[str, typer.Argument(help="Table of places with the columns the model was made from; - is stdin.")],
    group: Annotated[str, typer.Option("--group", "-g", help="Column that names the area of each place.")],
    weight: Annotated[
        str | None, typer.Option("--weight", "-w", help="Column of weights. Default: all places count alike.")
    ] = None,
    total: Annotated[bool, typer.Option("--total", help="Weighted totals instead of means.")] = False,
    above: Annotated[
        float | None,
        typer.Option("--above", help="Add the chance that this is exceeded somewhere in the area, from samples."),
    ] = None,
    method: Annotated[
        str, typer.Option("--method", help="exact: in closed form; samples; auto: whichever is within reach.")
    ] = "auto",
    n_samples: Annotated[int, typer.Option("--n-samples", help="Functions drawn where samples are needed.")] = 500,
    level: Level = 0.95,
    out: TableOut = "-",
    seed: Seed = 0,
    encoding: Encoding = None,
    as_json: AsJson = False,
) -> None:
    """Means or totals over areas, with standard deviations that include how neighbouring places go together.

    Errors of places that are close to each other have much in common, so that they do not average out as those of
    independent places would. Rows without a group or with a feature missing are left out, and counted. Standard
    deviations are those of the function without noise. `mean_error` and `std_error` are Monte Carlo errors: 0 where the
    answer is in closed form.
    """
    from ..streaming.tables import open_table, write_table
    from .columns import load_model

    check_level(level)
    if method not in ("auto", "exact", "samples"):
        raise CommandError(f"--method must be auto, exact or samples, not {method!r}.")
    if n_samples < 2:
        raise CommandError(f"--n-samples must be at least 2, not {n_samples}.")
    check_table_out(out, as_json, table=data, model=model)
    gp, metadata = load_model(model)
    with open_table(data, encoding) as table:
        X, labels, weights = _places(gp, metadata, table, group, weight)
        delimiter = table.delimiter
    vars(gp).pop("feature_names_in_", None)  # columns are in the model's order by now
    try:
        areas = gp.predict_areas(X, labels, weights, total=total, method=method, n_samples=n_samples, random_state=seed)
    except ValueError as error:
        raise CommandError(str(error)) from None
    chance = None if above is None else gp.sampler(n_samples, seed).above(X, above, labels)
    names, columns = _columns(areas, group, level, above, chance)
    with write_table(out, names, [None, *["float64"] * (len(names) - 1)], delimiter) as writer:
        writer.write(columns)
    if areas.std_error.any():
        note(f"standard deviations are from {n_samples} samples, each to about {0.5**0.5 / (n_samples - 1) ** 0.5:.1%}")
    if as_json:
        print_json({"out": out, "areas": len(areas.labels), "rows": len(X), "columns": names})


def _places(gp: Any, metadata: dict[str, Any], table: Any, group: str, weight: str | None) -> tuple[Any, Any, Any]:
    """Features (n, p), labels (n,) and weights (n,) or None of the rows that lack none of them."""
    import numpy as np

    from .columns import Unused, recipe_of, require_columns, require_room

    kept = [group, *([] if weight is None else [weight])]
    require_columns(table, kept)
    recipe = recipe_of(gp, metadata, table, kept)
    unused, rows = Unused(), []
    for batch in table.batches():
        X, unknown = recipe.matrix(batch)
        labels = np.array(batch.texts(group), dtype=object)
        weights = np.ones(len(X)) if weight is None else batch.numbers(weight)
        used = ~np.isnan(X).any(axis=1) & ~np.isnan(weights) & np.array([each is not None for each in labels])
        unused.add(~used, unknown)
        require_room(table, unused.n_rows, X.shape[1] + 2)
        rows.append((X[used], labels[used], weights[used]))
    unused.say("left out")
    if not rows or not sum(len(X) for X, _, _ in rows):
        raise CommandError(f"{table.name} has no rows with a group, all features and a weight.")
    X, labels, weights = (np.concatenate(each) for each in zip(*rows, strict=True))
    return X, labels, None if weight is None else weights


def _columns(areas: Areas, group: str, level: float, above: float | None, chance: Any) -> tuple[list[str], list[Any]]:
    """Names and values of the columns to write."""
    from scipy.special import ndtri

    wide = float(ndtri(0.5 + level / 2))
    names, columns = [group, "n_places", "weight"], [list(areas.labels), areas.n_places, areas.weight]
    several = areas.mean.ndim > 1
    for j in range(areas.mean.shape[1] if several else 1):
        mean, std, mean_error, std_error = (
            values[:, j] if several else values for values in (areas.mean, areas.std, areas.mean_error, areas.std_error)
        )
        answers = {"mean": mean, "std": std, "lower": mean - wide * std, "upper": mean + wide * std}
        answers |= {"mean_error": mean_error, "std_error": std_error}
        if above is not None:
            answers[f"above_{above:g}"] = chance[:, j] if several else chance
        names += [f"{name}_{j}" if several else name for name in answers]
        columns += list(answers.values())
    return names, columns
