"""Where intervals hold what they promise: coverage by region of the map, and by predicted value."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from sklearn.cluster import MiniBatchKMeans

from ...common.left_out import LeftOut
from ...common.types import Booleans, Floats
from ..numbers import typeset
from ..plots import BLUE, GREY, ORANGE
from .figures import figure
from .subject import subsample

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEVEL = 0.95
N_GROUPS, LEAST_PER_GROUP = 10, 50
MAX_DOTS = 400


class Group(NamedTuple):
    """Some of the observations: where they are, which share is inside its interval, and what chance may add to it."""

    place: Floats
    share: float
    error: float

    @property
    def is_off(self) -> bool:
        """Whether the share is off by more than chance explains; of ten groups, a chance of one in ten."""
        return abs(self.share - LEVEL) > 1.3 * self.error


def words_and_charts(
    X: Floats, held_out: LeftOut, coordinates: Callable[[Floats], Floats] | None, names: tuple[str, str]
) -> tuple[str, str]:
    """A sentence and the charts, each empty for few observations.

    `coordinates` takes inputs (n, d) to places on the map (n, 2), whose axes have `names`; None where there is no map.
    """
    if len(held_out) < LEAST_PER_GROUP * N_GROUPS:
        return "", ""
    low, high = held_out.distribution.interval(LEVEL)
    inside = (held_out.y >= low) & (held_out.y <= high)
    places = X if coordinates is None else coordinates(X)
    regions, tenths = _by_region(places, inside), _by_value(held_out.mean, inside)

    def between(groups: list[Group]) -> str:
        shares = [100 * group.share for group in groups]
        return f"{typeset(min(shares), 3)} and {typeset(max(shares), 3)} %"

    where = "regions of the map" if coordinates is not None else "regions of the inputs"
    words = (
        f"<p>In {len(regions)} {where}, between {between(regions)} are inside their {LEVEL:.0%} intervals; by "
        f"tenths of the predicted value, between {between(tenths)}.</p>"
    ).replace("95%", "95 %")
    by_value = figure(
        "coverage-by-value",
        lambda ax: _draw_by_value(ax, tenths),
        f"Coverage of 95 % intervals by tenths of the predicted value: between {between(tenths)}",
        "Coverage by predicted value, in tenths. Bars are what chance explains; orange is off by more.",
    )
    if coordinates is None:
        return words, by_value
    by_region = figure(
        "coverage-by-region",
        lambda ax: _draw_by_region(ax, regions, subsample(places, MAX_DOTS), names),
        f"Coverage of 95 % intervals by region of the map: between {between(regions)}",
        "Coverage by region, in per cent. Orange is off by more than chance explains.",
    )
    return words, by_value + by_region


def _by_region(places: Floats, inside: Booleans) -> list[Group]:
    spread = places.std(axis=0)
    labels = MiniBatchKMeans(N_GROUPS, n_init=3, random_state=0).fit_predict(places / np.where(spread > 0, spread, 1.0))
    return [_group(places[labels == label], inside[labels == label]) for label in np.unique(labels)]


def _by_value(mean: Floats, inside: Booleans) -> list[Group]:
    return [_group(mean[rows, None], inside[rows]) for rows in np.array_split(np.argsort(mean), N_GROUPS)]


def _group(places: Floats, inside: Booleans) -> Group:
    error = 2 * float(np.sqrt(LEVEL * (1 - LEVEL) / len(inside)))
    return Group(np.median(places, axis=0), float(np.mean(inside)), error)


def _draw_by_value(ax: Axes, groups: list[Group]) -> None:
    ax.axhline(100 * LEVEL, color=GREY, linestyle="--", linewidth=1.5)
    for group in groups:
        colour = ORANGE if group.is_off else BLUE
        ax.errorbar(group.place[0], 100 * group.share, 100 * group.error, color=colour, marker="o", capsize=3)
    ax.set(xlabel="predicted mean", ylabel="inside the 95 % interval (%)")
    ax.set_ylim(top=101)
    ax.spines[["top", "right"]].set_visible(False)


def _draw_by_region(ax: Axes, groups: list[Group], places: Floats, names: tuple[str, str]) -> None:
    ax.plot(*places.T, ".", color=GREY, markersize=3, markeredgewidth=0)
    for group in groups:
        label, colour = f"{100 * group.share:.0f}", ORANGE if group.is_off else BLUE
        box = {"boxstyle": "round,pad=0.25", "facecolor": colour, "edgecolor": "none"}
        ax.text(
            float(group.place[0]), float(group.place[1]), label, color="#ffffff", ha="center", va="center", bbox=box
        )
    ax.set(xlabel=names[0], ylabel=names[1])
    ax.spines[["top", "right"]].set_visible(False)
