"""What commands say: notes on standard error, results on standard output, in words or in JSON."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape

errors = Console(stderr=True, highlight=False, soft_wrap=True)


class CommandError(Exception):
    """Something the user can correct; its message is the one line they see."""


def printable(text: str) -> str:
    """Text without the characters that would steer a terminal: file and column names may be a stranger's."""
    return "".join(c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text)


def note(message: str) -> None:
    """One line on standard error."""
    errors.print(f"[yellow]note:[/] {escape(printable(message))}")


def refuse_overwriting(out: str, **inputs: str | None) -> None:
    """Refuse an output that is one of the inputs, whatever it is called; `inputs` are paths by what they hold."""
    if out == "-" or not Path(out).is_file():
        return
    for what, path in inputs.items():
        with suppress(OSError):  # a file that is not there is another's to complain of
            if path is not None and os.path.samefile(0 if path == "-" else path, out):
                raise CommandError(f"--out is the {what} itself: give another name.")


def check_table_out(out: str, as_json: bool, **inputs: str | None) -> None:
    """Refuse a table to write that overwrites an input, is mixed with JSON, or cannot be written; before any work."""
    from ..streaming.tables import check_writable

    if as_json and out == "-":
        raise CommandError("--json needs --out FILE, since the table goes to the standard output.")
    refuse_overwriting(out, **inputs)
    check_writable(out)


def check_level(level: float) -> None:
    """Refuse a probability of an interval that is none."""
    if not 0 < level < 1:
        raise CommandError(f"--level must lie between 0 and 1, not {level:g}.")


def print_json(value: Any) -> None:
    """One object of JSON on standard output."""
    typer.echo(as_json_text(value))


def as_json_text(value: Any) -> str:
    """One object of JSON."""
    return json.dumps(plain(value), indent=2, allow_nan=False, ensure_ascii=False)


def plain(value: Any) -> Any:
    """Value in the types of JSON: arrays become lists, and numbers that are not finite become null."""
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not -float("inf") < value < float("inf"):
        return None
    return value


def aligned(rows: list[list[str]]) -> str:
    """Rows of words in columns, the first flush left and the others flush right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [
        "  ".join(
            cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
    return "\n".join(line.rstrip() for line in lines)


def note_training_rows(n: int, of: int) -> None:
    """Say that scores are partly those of training data."""
    if n:
        from ..reporting.numbers import counted

        note(
            f"{n} of {counted(of, 'row')} {'has' if n == 1 else 'have'} inputs the model was trained on: scores flatter"
        )


def note_copies(n: int, of: int) -> None:
    """Say that scores are partly those of rows with the same inputs as training rows."""
    if n:
        from ..reporting.numbers import counted

        note(
            f"{n} of {counted(of, 'test row')} {'has' if n == 1 else 'have'} an exact copy (same inputs) among the "
            "training rows of their fold, so that scores look better than on new places"
        )


def file_size(n_bytes: float) -> str:
    """Size in the unit people would use."""
    for unit in ("bytes", "kB", "MB"):
        if n_bytes < 1000:
            return f"{n_bytes:.3g} {unit}"
        n_bytes /= 1000
    return f"{n_bytes:.3g} GB"
