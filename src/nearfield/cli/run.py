"""Run the application: what goes wrong becomes one line on standard error and an exit code."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any

import typer
from rich.markup import escape

from . import app
from .messages import CommandError, errors, printable

# Typer carries a click of its own or takes the installed one, by its version; this is the base of either's errors.
UsageError: type[Any] = typer.BadParameter.__mro__[1]


def run(argv: Sequence[str] | None) -> int:
    """Run the command in `argv` (that of the process where None) and answer with the exit code."""
    shown = warnings.showwarning
    warnings.showwarning = _show_warning
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("default", UserWarning)  # a note is printed, whatever filters the process has
            code = app.app(args=None if argv is None else list(argv), prog_name="nearfield", standalone_mode=False)
        sys.stdout.flush()
        if code == 130:  # Typer may have caught the Ctrl-C
            raise KeyboardInterrupt
        return code if isinstance(code, int) else 0
    except typer.Exit as stop:
        return int(stop.exit_code)
    except (typer.Abort, KeyboardInterrupt):
        return fail("interrupted", 130)
    except BrokenPipeError:
        return _closed_pipe()
    except SystemExit as stop:  # Typer's own answer to a closed pipe, whatever the mode
        if isinstance(stop.__context__, BrokenPipeError):
            return _closed_pipe()
        raise
    except UsageError as error:
        message = error.format_message()
        if not message:  # no command was named, and the help has been shown
            return 2
        return fail(f"{message.rstrip('.')}. See {error.ctx.command_path if error.ctx else 'nearfield'} --help.", 2)
    except (CommandError, ValueError, OSError, MemoryError, ImportError) as error:
        return fail(_one_line(error), 2)
    finally:
        warnings.showwarning = shown


def _closed_pipe() -> int:
    """Whoever reads has had enough, as `head` does: stop without a word, as if by SIGPIPE."""
    # What is left in the buffer must not raise again when Python closes it.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 128 + 13


def fail(message: str, code: int) -> int:
    """Print the one line and answer with the exit code."""
    errors.print(f"[bold red]nearfield:[/] {escape(printable(message))}")
    return code


def _one_line(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        name = str(error.filename or "")
        # A name may hold an end of line, and the message is one line.
        return f"{name if name.isprintable() else repr(name)}: {error.strerror}" if name else error.strerror
    return " ".join(str(error).split()) or type(error).__name__


def _show_warning(message: Any, *_: Any, **__: Any) -> None:
    errors.print(f"[yellow]note:[/] {escape(' '.join(str(message).split()))}")
