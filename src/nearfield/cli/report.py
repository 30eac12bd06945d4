"""`nearfield report`: a web page that explains a model."""

from __future__ import annotations

import warnings
from typing import Annotated, Any

import typer

from .messages import CommandError, file_size, note, note_training_rows, refuse_overwriting
from .options import Encoding
from .progress import bars

EXAMPLES = """
**Examples**

- `nearfield report model.nf --out report.html`

- `nearfield report model.nf held-out.csv --title "Rain in June" --out report.html`
"""


def command(
    model: Annotated[str, typer.Argument(help="Model file.")],
    data: Annotated[
        str | None,
        typer.Argument(
            help="Table with the model's columns and its target, best with rows it has not seen; - is stdin."
        ),
    ] = None,
    out: Annotated[str, typer.Option("--out", "-o", help="Page to write; - is standard output.")] = "report.html",
    title: Annotated[str | None, typer.Option("--title", help="Heading of the page.")] = None,
    target: Annotated[
        str | None, typer.Option("--target", help="Column with the truth. Default: the target of fit.")
    ] = None,
    encoding: Encoding = None,
) -> None:
    """Explain a model on one web page that needs nothing else and asks nobody.

    What was learnt and chosen, and why; the distance from the exact process; maps for two columns, slices for others.
    With DATA also scores, calibration and residuals.
    """
    from ..reporting import page as webpage
    from ..reporting.training_rows import TrainingRows
    from ..streaming.tables import check_writable
    from .columns import load_model

    refuse_overwriting(out, table=data, model=model)
    check_writable(out)
    with bars(quiet=out == "-") as show:
        show("reading", 0.0)
        gp, metadata = load_model(model)
        if data is None and gp._training_points() is None:
            raise CommandError(f"{model} does not keep its training data: give DATA, a table of rows to draw from.")
        name = target or (metadata["target"] if isinstance(metadata.get("target"), str) else None)
        X, y = (None, None) if data is None else _read(gp, metadata, data, name, encoding)
        show("reading", 1.0)
        with warnings.catch_warnings():
            # `_read` has put the columns in their order, but an array has no names.
            warnings.filterwarnings("ignore", message="X does not have valid feature names")
            page = webpage.build(gp, X, y, target=name or "target", title=title, progress=show)
    if X is not None and y is not None:
        note_training_rows(TrainingRows(gp).count(gp._rows_of_source(X)), len(X))
    if X is not None and y is None:
        note(f"{data} has no column {name!r}: no scores" if name else "no scores: --target names the column of truth")
    if out == "-":
        typer.echo(page)
        return
    webpage.save(page, out)
    typer.echo(f"Wrote {out} ({file_size(len(page.encode()))}).")


def _read(gp: Any, metadata: dict[str, Any], data: str, target: str | None, encoding: str | None) -> tuple[Any, Any]:
    """Features (n, p) and, where the table has the target, its values (n,), of rows without missing values."""
    import numpy as np

    from ..streaming.tables import open_table
    from .columns import Unused, complete_rows, recipe_of, require_columns

    unused = Unused()
    with open_table(data, encoding) as table:
        if target is not None and target != metadata.get("target"):
            require_columns(table, [target])
        truth = target if target in table.columns else None
        recipe = recipe_of(gp, metadata, table, [] if truth is None else [truth])
        pairs = list(complete_rows(table, recipe, truth, unused))
    X, y = (np.concatenate(arrays) for arrays in zip(*pairs, strict=True)) if pairs else (np.empty((0, 1)), np.empty(0))
    if len(X) == 0:
        raise CommandError(f"{table.name} has no row with all columns that the model needs.")
    unused.say("dropped")
    return X, y if truth is not None else None
