"""All figures, or some, into one folder."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

from .. import __version__, datasets
from ..common.files import make_folder
from ..datasets import Dataset
from . import clusters, features, sinc, uk_map, vanishing, variances
from .cache import Cache
from .cells import Laboratory, Progress
from .drawing import require_matplotlib
from .report import Row, Section, recall_sections, save_page, save_section
from .settings import PROTOCOLS, Settings

Runner = Callable[[Laboratory], tuple[Section, list[Row]]]
_MODULES = (vanishing, sinc, uk_map, clusters, features, variances)
FIGURES: dict[str, tuple[Runner, tuple[str, ...]]] = {m.NAME: (m.run, tuple(m.DATA)) for m in _MODULES}


def silent(*_: object) -> None:
    """Progress that nobody watches."""


def reproduce(settings: Settings, figures: Sequence[str] = (), show: Progress = silent) -> list[Section]:
    """Run the figures named, all without names, and write pictures, numbers, summaries and `index.html`.

    Everything that can be wrong is found out before the first file is written. What was computed is kept in the output
    folder, and a second run goes on from there.

    Parameters
    ----------
    settings : Settings
    figures : sequence of str
        Keys of `FIGURES`.
    show : callable
        Called as `show(stage, done)` with `done` from 0 to 1.

    Returns
    -------
    sections : list of Section
        Those of the figures named.
    """
    chosen = check_figures(figures)
    unknown = [p for p in settings.protocols if p not in PROTOCOLS]
    if unknown or not settings.protocols:
        raise ValueError(f"There is no protocol {', '.join(unknown)!r}: the choice is {', '.join(PROTOCOLS)}.")
    require_matplotlib()
    needed = dict.fromkeys(name for figure in chosen for name in FIGURES[figure][1])
    loaded: dict[str, Dataset] = {name: datasets.load(name, settings.data_dir) for name in needed}
    make_folder(settings.out)
    laboratory = Laboratory(settings, loaded, Cache(settings.out / "cells"), show)
    remembered = settings.out / "cells" / "sections"
    sections = []
    for name in chosen:
        with warnings.catch_warnings():  # few features, and places far from the data, are what is studied here
            warnings.simplefilter("ignore", UserWarning)
            section, rows = FIGURES[name][0](laboratory)
        save_section(section, rows, settings.out, remembered)
        sections.append(section)
        save_page(recall_sections(list(FIGURES), remembered), settings.out / "index.html", _subtitle(settings))
    return sections


def check_figures(figures: Sequence[str]) -> list[str]:
    """The figures named, in the order of the paper; all where none is."""
    for name in figures:
        if name not in FIGURES:
            raise ValueError(f"There is no figure {name!r}: the choice is {', '.join(FIGURES)}.")
    return [name for name in FIGURES if not figures or name in figures]


def _subtitle(settings: Settings) -> str:
    kind = "a quick look, with smaller training sets and fewer seeds" if settings.quick else "a full run"
    return f"nearfield {__version__}, {kind}; hyperparameters {' and '.join(settings.protocols)}."
