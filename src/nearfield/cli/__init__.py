"""The command line, `nearfield`.

`_app.py` says which commands there are, one module a command does the work, `_run.py` turns what goes wrong into one
line and an exit code.
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
    from ._run import run

    return run(argv)
