"""The command line, `nearfield`.

Each command has a module of its name, and `app.py` lists them. `run.py` runs the one that was asked for, and turns what
goes wrong into one line and an exit code. Options that commands share are in `options.py`, what they say in
`messages.py` and `progress.py`, and the work they share in `columns.py`, `training.py`, `models.py` and `summary.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; exit codes are 0, 2 for what the user can correct, 130 for Ctrl-C and 141 for a closed pipe."""
    try:
        return _main(argv)
    except KeyboardInterrupt:  # while modules are imported; `run` takes care of it from then on
        print("nearfield: interrupted", file=sys.stderr)  # noqa: T201
        return 130


def _main(argv: Sequence[str] | None) -> int:
    try:
        import rich  # noqa: F401
        import typer  # noqa: F401
    except ImportError:
        print("nearfield: the command line needs two more packages: pip install 'nearfield[cli]'", file=sys.stderr)  # noqa: T201
        return 2
    from .run import run

    return run(argv)
