"""A map of the earth's elevation from its airports, with its uncertainty: what `nearfield demo` does.

The package `airportsdata` lists about 28 000 airports with latitude, longitude and elevation, so nothing is downloaded.
The earth is round and longitude wraps: `metric="sphere"` takes degrees of longitude and latitude, and measures in km.

The process is one of the cube root of the elevation in metres: of the transformations compared by `examples/demo.py
--transforms` it has the least held-out NLL. Answers are in metres: the map shows the median.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial import cKDTree
from sklearn.preprocessing import FunctionTransformer

from .. import metrics
from ..common.distribution import PredictiveDistribution
from ..common.files import atomic, make_folder
from ..common.left_out import LeftOut
from ..common.sphere import EARTH_RADIUS, Sphere
from ..common.types import Booleans, Floats, Integers
from ..estimators import LocalGPRegressor
from ..reporting import page as webpage
from ..reporting import plots as plotting

Progress = Callable[..., None]


def _cube(z: Floats) -> Floats:
    return z**3


METRES = 0.3048  # in a foot
VIEW = (-92.0, 22.0)  # longitude and latitude in the middle of the picture
UNKNOWN = np.array([0.90, 0.92, 0.94])
# Lightness rises all the way, so that the colours can be told apart without seeing hues.
RELIEF = ["#0f3a4c", "#2f6660", "#7d8a58", "#cda96d", "#f2dcb8", "#fffaf2"]
CUBE_ROOT = FunctionTransformer(np.cbrt, _cube)
PICTURES = ("map.png", "calibration.png", "report.html")
_CHUNK = 50_000


# ---- data --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Airports:
    """Cleaned data, some of it held out at random."""

    places: Floats  # (n, 2): longitude and latitude in degrees
    elevation: Floats  # (n,): in metres
    train: Integers  # rows
    test: Integers
    n_unknown: int  # rows dropped, since 0 stands for an elevation that is not known,
    n_repeated: int  # or since they come twice


def load() -> Airports:
    """The airports, five sixths to train and one sixth to test."""
    import airportsdata

    rows = airportsdata.load("ICAO").values()
    table = np.array([(row["lon"], row["lat"], METRES * row["elevation"]) for row in rows])
    # Elevations of 1, 2, 3 ... feet occur some tens of times each, 0 far more often.
    has_elevation = table[:, 2] != 0
    _, first = np.unique(table[:, :2], axis=0, return_index=True)
    once = np.zeros(len(table), dtype=bool)
    once[first] = True
    kept = table[has_elevation & once]
    order = np.random.default_rng(0).permutation(len(kept))
    held_out = len(kept) // 6
    dropped = (int(np.sum(~has_elevation)), int(np.sum(has_elevation & ~once)))
    return Airports(kept[:, :2], kept[:, 2], order[held_out:], order[:held_out], *dropped)


# ---- the steps ---------------------------------------------------------------------------------------------------


def prepare(folder: Path) -> None:
    """Refuse before anything is computed where a package is missing or the folder cannot be written; make it."""
    try:
        import airportsdata  # noqa: F401
        import matplotlib  # noqa: F401
    except ImportError:
        raise ImportError("The demo needs more packages: pip install 'nearfield[demo]'") from None
    make_folder(folder)


def fit(
    data: Airports, tolerance: float = 1e-2, n_scales: Any = 1, progress: Progress | None = None
) -> LocalGPRegressor:
    """Learn, choose and fit on the airports to train with; for the parameters see `LocalGPRegressor`."""
    model = LocalGPRegressor(
        metric="sphere", n_scales=n_scales, tolerance=tolerance, target=CUBE_ROOT, random_state=0, progress=progress
    )
    model.fit(data.places[data.train], data.elevation[data.train])
    model.progress = None
    return model


def draw(
    folder: Path, data: Airports, model: LocalGPRegressor, size: int = 900, progress: Progress | None = None
) -> None:
    """Write map.png, with globes of `size` pixels across, calibration.png and report.html."""
    tell: Progress = progress or (lambda *_: None)
    X, y, train, test = data.places, data.elevation, data.train, data.test
    draw_globes(folder / "map.png", model, X[train], size, lambda done: tell("drawing the map", done))
    draw_calibration(folder / "calibration.png", y[test], model.predict_distribution(X[test]))
    webpage.write(
        model,
        folder / "report.html",
        X[test],
        y[test],
        columns=["longitude (degrees)", "latitude (degrees)"],
        target="elevation (m)",
        title="The elevation of the earth, from its airports",
        progress=lambda _, done: tell("writing the page", done),
    )


def summary(data: Airports) -> str:
    """What was read, and what was dropped."""
    n = len(data.elevation)
    return (
        f"{n + data.n_unknown + data.n_repeated} airports; dropped {data.n_unknown} with an elevation of exactly 0 "
        f"(not known) and {data.n_repeated} listed twice.\n{len(data.train)} to train, {len(data.test)} to test."
    )


# ---- scores ------------------------------------------------------------------------------------------------------


def scores(data: Airports, model: LocalGPRegressor) -> str:
    """Scores in metres at the airports held out, and the distance from the exact process."""
    truth, X = data.elevation[data.test], data.places
    found = LeftOut(truth, model.predict_distribution(X[data.test]))
    chords = Sphere().points(X)
    nearest = data.elevation[data.train][cKDTree(chords[data.train]).query(chords[data.test])[1]]
    lines = [
        f"RMSE            {found.rmse:.0f} m (the nearest airport's elevation: {metrics.rmse(truth, nearest):.0f} m)",
        f"median error    {np.median(np.abs(truth - found.distribution.ppf(0.5))):.0f} m (of the predicted median)",
        f"95 % coverage   {100 * found.coverage():.1f} %",
        f"NLL             {found.nll:.3f} (elevation in metres)",
        distance(model),
    ]
    return "\n".join(lines)


def scales(model: LocalGPRegressor) -> str:
    """The length scales in kilometres."""
    kilometres = " and ".join(f"{scale:.0f} km" for scale in np.ravel(model.length_scale_))
    return f"The learnt length scale is {kilometres}."


def distance(model: LocalGPRegressor) -> str:
    """How far the model is from the exact process."""
    report = model.report_
    return (
        f"The exact GP is {report.divergence:.1e} nats of KL per test point away, measured at {report.n_probes} probes "
        f"(at most {report.divergence_upper:.1e} with 95 % confidence, asked for at most {report.tolerance:g})."
    )


# ---- pictures ----------------------------------------------------------------------------------------------------


def globe(size: int) -> tuple[Booleans, Floats, Floats]:
    """Which pixels (size, size) show the earth, their places in degrees, and the rotation to the viewer's axes."""
    lon = np.radians(VIEW[0])
    outward = _directions(np.array([VIEW]))[0]
    east = np.array([-np.sin(lon), np.cos(lon), 0.0])
    turn = np.stack([east, np.cross(outward, east), outward])
    side = np.linspace(-1, 1, size)
    across, up = np.meshgrid(side, side)
    inside = across**2 + up**2 <= 1
    toward = np.sqrt(np.maximum(1 - across[inside] ** 2 - up[inside] ** 2, 0.0))
    return inside, Sphere().places(np.column_stack([across[inside], up[inside], toward]) @ turn), turn


def _directions(places: Floats) -> Floats:
    """Longitude and latitude in degrees (n, 2) as vectors of length 1 (n, 3)."""
    result: Floats = Sphere().points(places) / EARTH_RADIUS
    return result


def draw_globes(path: Path, model: LocalGPRegressor, X: Floats, size: int, tell: Callable[[float], None]) -> None:
    """Draw the median elevation beside what is left of the prior uncertainty."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LinearSegmentedColormap, Normalize, PowerNorm

    inside, pixels, turn = globe(size)
    answers = []
    for start in range(0, len(pixels), _CHUNK):
        answers.append(np.stack(_median_and_share_left(model, pixels[start : start + _CHUNK])))
        tell(min(start + _CHUNK, len(pixels)) / len(pixels))
    median, left = np.concatenate(answers, axis=1)
    relief = LinearSegmentedColormap.from_list("relief", RELIEF)
    height, share = PowerNorm(0.5, 0, 4000, clip=True), Normalize(0, 100)
    opacity = np.clip((1 - left) / 0.5, 0, 1)[:, None]  # colours fade where the airports say little
    bars = [ScalarMappable(height, relief), ScalarMappable(share, "YlGnBu")]
    pictures = [opacity * bars[0].to_rgba(median)[:, :3] + (1 - opacity) * UNKNOWN, bars[1].to_rgba(100 * left)[:, :3]]
    titles = ["Elevation, from airports alone", "Uncertainty that is left"]
    labels = ["median of the elevation (m); grey where little is known", "standard deviation (% of the prior's)"]
    seen = _directions(X) @ turn.T
    seen = seen[seen[:, 2] > 0]

    figure = plotting.detached_figure(14, 8.4)
    for ax, picture, title, label, bar in zip(figure.subplots(1, 2), pictures, titles, labels, bars, strict=True):
        image = np.ones((*inside.shape, 4))
        image[inside, :3] = picture
        image[~inside, 3] = 0
        ax.imshow(image, origin="lower", extent=(-1, 1, -1, 1), interpolation="bilinear")
        _draw_frame(ax, turn)
        ax.plot(seen[:, 0], seen[:, 1], ".", color="black", markersize=1.0, markeredgewidth=0, alpha=0.45)
        ax.set_title(title, fontsize=19, color=plotting.INK, pad=10)
        ticks = [0, 250, 1000, 2000, 3000, 4000] if bar is bars[0] else None
        scale = figure.colorbar(bar, ax=ax, orientation="horizontal", shrink=0.72, aspect=32, pad=0.03, ticks=ticks)
        scale.set_label(label, fontsize=14, color=plotting.INK)
        scale.ax.tick_params(labelsize=13, colors=plotting.INK)
        scale.outline.set_visible(False)
    with atomic(path) as temporary:
        figure.savefig(temporary, dpi=110)


def _median_and_share_left(model: LocalGPRegressor, X: Floats) -> tuple[Floats, Floats]:
    """Median (m,) of the elevation in metres, and what is left of the prior's standard deviation, of the cube root."""
    mean, variance = model._moments(X)  # of the cube root, whose mean is its median
    return model._in_units(mean), np.sqrt(variance / model.kernel_.variance)


def _draw_frame(ax: Any, turn: Floats) -> None:
    """Draw the edge of the globe, and meridians and parallels every 30 degrees."""
    from matplotlib.patches import Circle

    along = np.linspace(-180, 180, 721)
    lines = [np.column_stack([along, np.full(721, lat)]) for lat in range(-60, 90, 30)]
    lines += [np.column_stack([np.full(721, lon), along / 2]) for lon in range(-180, 180, 30)]
    for line in lines:
        points = _directions(line) @ turn.T
        points[points[:, 2] < 0] = np.nan
        ax.plot(points[:, 0], points[:, 1], color=plotting.INK, linewidth=0.5, alpha=0.25)
    ax.add_patch(Circle((0, 0), 1, fill=False, color=plotting.INK, linewidth=1.0))
    ax.set(xlim=(-1.01, 1.01), ylim=(-1.01, 1.01))
    ax.axis("off")


def draw_calibration(path: Path, y: Floats, distribution: PredictiveDistribution) -> None:
    """Draw how often intervals cover, and where observations fall in their distributions."""
    figure = plotting.detached_figure(12, 5.2)
    left, right = figure.subplots(1, 2)
    plotting.calibration(y, distribution, ax=left)
    left.set_title("Coverage of central intervals", color=plotting.INK)
    plotting.probabilities(y, distribution, ax=right)
    right.set_title("Where held-out airports fall (flat is perfect)", color=plotting.INK)
    for ax in (left, right):
        ax.tick_params(labelsize=12)
        if ax.get_legend() is not None:
            ax.legend(fontsize=13, frameon=False, loc="upper left")
        for text in (ax.xaxis.label, ax.yaxis.label, ax.title):
            text.set_fontsize(15)
    with atomic(path) as temporary:
        figure.savefig(temporary, dpi=110)
