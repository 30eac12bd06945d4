"""`nearfield info`: what a model file holds."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from .messages import CommandError, as_json_text, file_size, printable
from .options import AsJson
from .summary import account, feature_names, summary

EXAMPLES = """
**Examples**

- `nearfield info model.nf`

- `nearfield info model.nf --json | jq .hyperparameters`
"""


def command(model: Annotated[str, typer.Argument(help="Model file.")], as_json: AsJson = False) -> None:
    """Show what a model file holds, after checking that it is whole and unaltered.

    Opening a model file runs none of its maker's code.
    """
    from ..persistence import files as io

    file = io.inspect(model)
    file.state()  # says what is wrong with the model itself
    try:
        told = as_json_text({"model": model, **summary(file)}) if as_json else printable(_words(file))
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError):
        # Whoever wrote it had other ideas.
        raise CommandError(f"{model} is intact, but describes itself in a way that cannot be read here.") from None
    typer.echo(told)


def _words(file: Any) -> str:
    state, metadata = file.state(), file.metadata
    lines = [
        f"{file.path}: {file.class_name}, {file_size(file.n_bytes)}",
        f"  written by      nearfield {file.library_version}, format {file.format_version}"
        + (f", {metadata['created']}" if "created" in metadata else ""),
        f"  checksum        right, SHA-256 {file.digest[:16]}...",
    ]
    if "target" in metadata and "columns" in metadata:
        lines += _training(metadata)
    else:
        lines.append(f"  features        {', '.join(feature_names(state))}")
    return "\n".join([*lines, account(state)])


def _training(metadata: dict[str, Any]) -> list[str]:
    rows = f"{metadata.get('rows_used', '?')} rows of {metadata.get('source', '?')}"
    if metadata.get("rows_dropped"):
        rows += f", without {metadata['rows_dropped']} with missing values"
    lines = [
        f"  trained on      {rows}",
        f"  target          {metadata['target']}{_range(metadata.get('target_summary'))}",
    ]
    for column in metadata["columns"]:
        kind = (
            f", one of {', '.join(column['categories'])}"
            if column["kind"] == "one-hot"
            else _range(metadata.get("summary", {}).get(column["name"]))
        )
        lines.append(f"  feature         {column['name']}{kind}")
    if metadata.get("id"):
        lines.append(f"  rows named by   {metadata['id']}")
    return lines


def _range(moments: dict[str, float] | None) -> str:
    if not moments:
        return ""
    return f", from {moments['min']:g} to {moments['max']:g}, mean {moments['mean']:.4g}"
