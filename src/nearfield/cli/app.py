"""Which commands there are."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from .. import __version__
from . import areas, bench, demo, evaluate, fill, fit, info, predict, report, reproduce


class Command(TyperCommand):
    """A command whose help shows no type beside flags, which take no value."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Parameters of the command, and the flag for help."""
        params: list[Any] = super().get_params(ctx)
        for param in params:
            if getattr(param, "is_flag", False):
                param.metavar = ""
        return params


app = typer.Typer(
    name="nearfield",
    help="Gaussian-process regression at scale, with a measured distance from the exact process.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"nearfield {__version__}")
        raise typer.Exit()


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and stop.")
    ] = False,
) -> None:
    del version


app.command("fit", cls=Command, epilog=fit.EXAMPLES, no_args_is_help=True)(fit.command)
app.command("predict", cls=Command, epilog=predict.EXAMPLES, no_args_is_help=True)(predict.command)
app.command("areas", cls=Command, epilog=areas.EXAMPLES, no_args_is_help=True)(areas.command)
app.command("evaluate", cls=Command, epilog=evaluate.EXAMPLES, no_args_is_help=True)(evaluate.command)
app.command("fill", cls=Command, epilog=fill.EXAMPLES, no_args_is_help=True)(fill.command)
app.command("info", cls=Command, epilog=info.EXAMPLES, no_args_is_help=True)(info.command)
app.command("report", cls=Command, epilog=report.EXAMPLES, no_args_is_help=True)(report.command)
app.command("demo", cls=Command, epilog=demo.EXAMPLES)(demo.command)
app.command("bench", cls=Command, epilog=bench.EXAMPLES)(bench.command)
app.command("reproduce", cls=Command)(reproduce.command)
