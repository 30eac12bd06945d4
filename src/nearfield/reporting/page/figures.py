"""Pictures of `plots` as figures of the page: SVG in its type and its colours, light or dark."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import escape
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..plots import BLUE, GREY, INK, ORANGE
from .svg import HEIGHT, WIDTH

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MISSING = "Charts are left out, since they need matplotlib: pip install 'nearfield[plot]'."
_STYLE = Path(__file__).with_name("page.mplstyle")
_COLOURS = {BLUE: "accent", ORANGE: "warm", GREY: "soft", INK: "ink", "#ffffff": "card"}  # drawn, and on the page
_COLOURS |= {"#111111": "ink", "#222222": "soft", "#333333": "rule"}  # in the style


def available() -> bool:
    """Whether there is a matplotlib to draw with."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        return False
    return True


def figure(name: str, draw: Callable[[Axes], Any], description: str, caption: str) -> str:
    """HTML of what `draw` draws on the Axes it is given; nothing without matplotlib.

    `name` keeps its ids apart from those of other figures; `description` is for those who do not see it.
    """
    if not available():
        return ""
    from matplotlib import style
    from matplotlib.figure import Figure

    svg = StringIO()
    with style.context(["default", _STYLE, {"svg.hashsalt": name}]):
        picture = Figure()
        ax = picture.subplots()
        draw(ax)
        if ax.get_xscale() == "linear":
            ax.locator_params("x", nbins=5, steps=(1, 2, 5, 10))  # labels may be long
        if ax.get_yscale() == "linear":
            ax.locator_params("y", nbins=5, steps=(1, 2, 5, 10))
        picture.patch.set_visible(False)
        ax.patch.set_visible(False)
        for line in ax.lines:
            line.set_rasterized(False)  # pixels have a colour of their own
        picture.savefig(svg, format="svg", metadata={"Date": None})
    return f"<figure>{_embedded(svg.getvalue(), description)}<figcaption>{caption}</figcaption></figure>"


def _embedded(svg: str, description: str) -> str:
    """What matplotlib wrote as an element of HTML that touches no other, in the colours and letters of the page."""
    svg = svg[svg.index(">", svg.index("<svg")) + 1 :]
    svg = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", svg, flags=re.S)
    svg = re.sub(r"[ \n]+", " ", svg).replace("> <", "><")
    svg = re.sub(r"<[^>]*>", lambda tag: re.sub(r"\d+\.\d{3,}", lambda x: f"{round(float(x[0]), 2):g}", tag[0]), svg)
    svg = re.sub(r'<g id="[^"]*"', "<g", svg).replace("xlink:href", "href")  # to ids of groups nothing refers
    svg = re.sub(r'font: [^;"]*?([\d.]+px)[^;"]*', r"font-size: \1", svg)  # matplotlib 3.9 and 3.10
    svg = re.sub(r'font-family: [^;"]*;', "", svg)
    svg = re.sub(r'<g([^>]*)>(?=<use [^>]*style="([^"]*)")', r'<g\1 style="\2">', svg)  # once for all marks of a kind
    svg = re.sub(r'(<use [^>]*?) style="[^"]*"', r"\1", svg)
    svg = re.sub("|".join(_COLOURS), lambda colour: f"var(--{_COLOURS[colour[0]]})", svg)
    label = escape(description)
    return f'<svg class="plot" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">{svg.strip()}'
