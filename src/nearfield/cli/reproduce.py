"""`nearfield reproduce`: the paper, figure by figure."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from .progress import bars


class Protocol(StrEnum):
    """Where the hyperparameters come from."""

    published = "published"
    converged = "converged"
    both = "both"


def command(
    figures: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FIGURE]...",
            help="vanishing, sinc, uk-map, clusters, features, variances; all of them without names.",
            show_default=False,
        ),
    ] = None,
    data_dir: Annotated[
        str | None,
        typer.Option(
            envvar="NEARFIELD_DATA",
            help="Folder with yacht.csv.gz, kin8nm.csv.gz and uk_flats_2020-12.csv.gz. Without it they are downloaded.",
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option(help="Folder for pictures, numbers and index.html; a run goes on from what is in it.")
    ] = Path("reproduction"),
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Splits of each data set; by default 10, fewer where they cost most.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Smaller training sets, fewer cells: two minutes.")] = False,
    protocol: Annotated[
        Protocol, typer.Option(help="Hyperparameters of the paper, learnt ones, or both.")
    ] = Protocol.both,
    so_far: Annotated[
        bool, typer.Option("--so-far", help="Compute no more of clusters and features: show what earlier runs left.")
    ] = False,
) -> None:
    """Run the experiments of the paper again: pictures, numbers and verdicts in one page.

    Each figure is written as PNG and PDF, with every number as CSV and a summary in Markdown that holds our results
    against the published ones. An interrupted run goes on where it stopped.
    """
    from ..reproduction import Settings
    from ..reproduction import reproduce as run
    from ..reproduction.settings import PROTOCOLS

    chosen = PROTOCOLS if protocol is Protocol.both else (protocol.value,)
    settings = Settings(out, Path(data_dir) if data_dir else None, seeds, quick, chosen, compute=not so_far)
    with bars() as show:
        sections = run(settings, figures or (), show)
    for section in sections:
        typer.echo(f"\n{section.title}")
        for line in section.findings:
            typer.echo(f"  {line}")
    typer.echo(f"\n{out / 'index.html'}")
