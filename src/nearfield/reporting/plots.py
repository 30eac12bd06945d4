"""Pictures of predictions, maps, calibration and cost, with matplotlib (`pip install 'nearfield[plot]'`).

Each function draws on the Axes given and answers with it. Without one it takes the current Axes where those are empty,
and otherwise a new figure. Colours can be told apart by colour-blind readers, and maps use scales whose lightness rises
evenly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from .. import metrics
from ..common.distribution import PredictiveDistribution
from ..common.types import Floats
from .inputs import (
    check_level,
    column_names,
    distribution,
    given_or_training,
    noise_unless_told,
    padded_ranges,
    predict,
)
from .numbers import counted, round_numbers, tick_label
from .variograms import distance_unit, empirical_variogram, model_variogram

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from .report import Report


BLUE, ORANGE, GREEN, INK, GREY = "#0072b2", "#d55e00", "#009e73", "#22303a", "#8a949b"
MEAN_COLOURS, STD_COLOURS = "viridis", "inferno"
LEVELS = np.linspace(0.02, 0.98, 49)


def prediction(
    model: Any,
    X: ArrayLike | None = None,
    y: ArrayLike | None = None,
    *,
    level: float = 0.95,
    include_noise: bool | None = None,
    n_points: int = 400,
    ax: Axes | None = None,
) -> Axes:
    """Mean with central intervals, of a model with one column.

    Parameters
    ----------
    model : fitted regressor with one column
    X, y : arrays of shape (n, 1) and (n,), default=None
        Observations to show; `X` also says how far the curve goes. Without it, as far as the training data.
    level : float, default=0.95
        Probability of the intervals.
    include_noise : bool, default=None
        Intervals of observations; otherwise of the function without noise. None is True now, with a warning, and will
        be False: then noise is left out everywhere unless it is asked for.
    n_points : int, default=400
    ax : matplotlib Axes, default=None

    Returns
    -------
    ax : matplotlib Axes
    """
    points = _points(model, X, 1)
    check_level(level)
    (low, high), name = padded_ranges(points)[0], column_names(model)[0]
    x = np.linspace(low, high, n_points)
    found = distribution(model, x[:, None], noise_unless_told(include_noise, "plotting.prediction"))
    _require_single(found.mean)
    ax = _axes(ax)
    lower, upper = found.interval(level)
    ax.fill_between(x, lower, upper, color=BLUE, alpha=0.2, linewidth=0, label=f"{100 * level:g} % interval")
    ax.plot(x, found.mean, color=BLUE, linewidth=2.2, label="mean")
    if y is not None:
        targets = np.asarray(y, dtype=np.float64)
        size = 4 if len(targets) < 500 else 2
        ax.plot(points[:, 0], targets, "o", color=INK, markersize=size, markeredgewidth=0, alpha=0.5, label="data")
    ax.set(xlim=(low, high), xlabel=name)
    ax.legend(framealpha=0.9, edgecolor="none")  # points may lie behind it
    return _plain(ax)


def mean_map(model: Any, X: ArrayLike | None = None, *, ax: Axes | None = None, **options: Any) -> Axes:
    """Map of the mean, of a model with two columns.

    Parameters
    ----------
    model : fitted regressor with two columns
    X : array of shape (n, 2), default=None
        Points to show; they also say how far the map goes. Without it, as far as the training data, without points.
    ax : matplotlib Axes, default=None
    **options
        `size=200`, the number of grid points along each axis, and arguments of `Axes.pcolormesh`.

    Returns
    -------
    ax : matplotlib Axes
    """
    return _map(model, X, ax, 0, "mean", {"cmap": MEAN_COLOURS, **options})


def std_map(model: Any, X: ArrayLike | None = None, *, ax: Axes | None = None, **options: Any) -> Axes:
    """Map of the standard deviation of the function without noise; arguments and answer are those of `mean_map`."""
    return _map(model, X, ax, 1, "standard deviation", {"cmap": STD_COLOURS, **options})


def variogram(
    model: Any,
    X: ArrayLike | None = None,
    y: ArrayLike | None = None,
    *,
    n_bins: int = 20,
    max_distance: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Empirical semivariogram of the data, with the curve of the model's kernel and noise in it.

    Half the mean squared difference of two targets against their distance, less the drift where there is one. The model
    was not fitted to it but by likelihood; far from the curve, its kernel does not suit the data, or these have a
    trend. Distances are in km on the earth, and in length scales where columns have their own.

    Parameters
    ----------
    model : fitted regressor with one length scale for all columns, or with one component
    X, y : arrays of shape (n, n_features) and (n,), default=None
        Observations; without them, those the model was trained on.
    n_bins : int, default=20
        Of distances.
    max_distance : float, default=None
        Largest distance; a third of the largest there is, without it.
    ax : matplotlib Axes, default=None

    Returns
    -------
    ax : matplotlib Axes
    """
    if len(getattr(model, "estimators_", ())) > 1:
        raise ValueError(
            f"Pictures are of one target at a time, and this model has {len(model.estimators_)}: give the regressor of "
            "one of them, `model.estimators_[i]`."
        )
    return draw_variogram(model, empirical_variogram(model, X, y, n_bins, max_distance), _axes(ax))


def draw_variogram(model: Any, data: tuple[Floats, Floats, Floats], ax: Axes) -> Axes:
    """Draw what `empirical_variogram` gave, with the curve of the model."""
    distances, halves, counts = data
    ax.scatter(distances, halves, s=10 + 60 * counts / counts.max(), color=INK, alpha=0.7, label="data", zorder=3)
    h = np.linspace(0, float(distances.max()) * 1.03, 300)
    ax.plot(h, model_variogram(model, h), color=BLUE, linewidth=2.2, label="model")
    ax.axhline(float(model.noise_variance_), color=GREY, linewidth=1, linestyle="--", label="noise")
    unit = distance_unit(model)
    ax.set(xlabel=f"distance ({unit})" if unit else "distance", ylabel="semivariance", xlim=(0, h[-1]), ylim=(0, None))
    ax.legend(framealpha=0.9, edgecolor="none")
    return _plain(ax)


def samples(
    sampler: Any,
    X: ArrayLike | None = None,
    *,
    which: int = 0,
    n_points: int = 400,
    ax: Axes | None = None,
    **options: Any,
) -> Axes:
    """Functions drawn from the posterior: all as curves, for one column, or one as a map, for two.

    Parameters
    ----------
    sampler : Sampler
        As `model.sampler(n_samples)` gives it.
    X : array of shape (n, 1) or (n, 2), default=None
        Points that say how far the picture goes; on a map they are shown. Without it, as far as the training data.
    which : int, default=0
        Number of the function to draw a map of.
    n_points : int, default=400
        Of curves.
    ax : matplotlib Axes, default=None
    **options
        Of a map: `size=200`, the number of grid points along each axis, and arguments of `Axes.pcolormesh`; of curves,
        arguments of `Axes.plot`.

    Returns
    -------
    ax : matplotlib Axes
    """
    model = sampler.model
    if sampler.n_samples == 0:
        raise ValueError("The 'sampler' argument has no functions to draw.")
    if model.n_features_in_ == 2:
        if not -sampler.n_samples <= which < sampler.n_samples:
            raise ValueError(f"The 'which' argument must be the number of one of {sampler.n_samples} functions.")
        style = {"cmap": MEAN_COLOURS, **options}
        return _drawn_map(model, X, ax, lambda grid: _values(sampler, grid)[:, which], "sample", style)
    points = _points(model, X, 1)
    (low, high), name = padded_ranges(points)[0], column_names(model)[0]
    x = np.linspace(low, high, n_points)
    drawn = _values(sampler, x[:, None])
    ax = _axes(ax)
    ax.plot(x, drawn, **{"color": BLUE, "linewidth": 1.2, "alpha": max(0.9 / sampler.n_samples**0.5, 0.1), **options})
    ax.set(xlim=(low, high), xlabel=name)
    return _plain(ax)


def _values(sampler: Any, places: Floats) -> Floats:
    """Values (m, S) at places (m, d)."""
    drawn: Floats = sampler._at(places, False)
    if drawn.ndim > 2:
        raise ValueError(f"Pictures are of one target at a time; this model has {drawn.shape[1]}.")
    return drawn


def calibration(
    y: ArrayLike,
    predicted: metrics.Predicted,
    *unnamed: object,
    std: ArrayLike | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Share of observations inside central intervals, against their probability; the diagonal is perfect.

    Parameters
    ----------
    y : array
        Observations.
    predicted : PredictiveDistribution, or array of the shape of `y`
        What `predict_distribution` gives for their places; or means, with `std`.
    std : array of the shape of `y`, or None
        Standard deviations of observations, noise included, where `predicted` are means of normal distributions.
    ax : matplotlib Axes, default=None

    Returns
    -------
    ax : matplotlib Axes
    """
    _, scores = _scored("calibration", y, predicted, unnamed, std)
    ax = _axes(ax)
    covered = [np.mean(np.abs(scores) <= ndtri(0.5 + level / 2)) for level in LEVELS]
    ax.plot([0, 100], [0, 100], color=GREY, linewidth=1.5, linestyle="--", label="perfect")
    ax.plot(100 * LEVELS, 100 * np.array(covered), color=BLUE, linewidth=3, label="this model")
    ax.set(xlim=(0, 100), ylim=(0, 100), aspect="equal")
    ax.set(xlabel="probability of the interval (%)", ylabel="observations inside (%)")
    ax.legend(frameon=False)  # where the curve is not
    return _plain(ax)


def probabilities(
    y: ArrayLike,
    predicted: metrics.Predicted,
    *unnamed: object,
    std: ArrayLike | None = None,
    n_bins: int = 20,
    ax: Axes | None = None,
) -> Axes:
    """Histogram of the predictive probability of a value below the observed; flat is perfect.

    Arguments and answer are those of `calibration`. A hump in the middle means intervals that are too wide, raised
    ends ones that are too narrow, a slope predictions that are too high or too low.
    """
    _, scores = _scored("probabilities", y, predicted, unnamed, std)
    ax = _axes(ax)
    ax.hist(ndtr(scores), bins=n_bins, range=(0, 1), density=True, color=BLUE, edgecolor="white")
    ax.axhline(1, color=GREY, linewidth=1.5, linestyle="--")
    ax.set(xlim=(0, 1), xlabel="predictive probability of a lower value", ylabel="density")
    return _plain(ax)


def residuals(
    y: ArrayLike,
    predicted: metrics.Predicted,
    *unnamed: object,
    std: ArrayLike | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Errors in predicted standard deviations against the predicted mean; 95 % belong between the dashed lines.

    Arguments and answer are those of `calibration`. Errors of distributions that are not normal are shown as those of a
    normal one with the same probability.
    """
    mean, scores = _scored("residuals", y, predicted, unnamed, std)
    ax = _axes(ax)
    crowd = float(np.clip(600 / len(mean), 0.1, 0.8))
    ax.axhline(0, color=GREY, linewidth=1)
    for bound in (-ndtri(0.975), ndtri(0.975)):
        ax.axhline(bound, color=GREY, linewidth=1.2, linestyle="--")
    ax.plot(mean, scores, "o", color=BLUE, markersize=4, markeredgewidth=0, alpha=crowd, rasterized=True)
    ax.set(xlabel="predicted mean", ylabel="error (standard deviations)")
    return _plain(ax)


def error_against_cost(report: Report, *, ax: Axes | None = None) -> Axes:
    """What was measured when the model was chosen: distance from the exact process against cost.

    Parameters
    ----------
    report : Report
        `model.report_`; one that has trials.
    ax : matplotlib Axes, default=None

    Returns
    -------
    ax : matplotlib Axes
    """
    if not report.trials:
        raise ValueError("This report has no trials: nothing was measured, since everything was given or exact.")
    ax = _axes(ax)
    cost = np.array([trial[2] for trial in report.trials])
    error = np.array([trial[1] for trial in report.trials])
    ax.loglog(cost, error, "o", color=BLUE, markersize=8, alpha=0.75, markeredgewidth=0, label="candidate")
    chosen = (error == report.divergence_of_trial) & np.array([trial[0] == report.method for trial in report.trials])
    if chosen.any():
        marks = {"markersize": 15, "markerfacecolor": "none", "markeredgewidth": 2.2, "color": ORANGE}
        ax.loglog(cost[chosen], error[chosen], "o", **marks, label="chosen")
    if report.tolerance is not None:
        ax.axhline(report.tolerance, color=GREY, linewidth=1.5, linestyle="--", label="tolerance")
    for axis in (ax.xaxis, ax.yaxis):
        _label_decades(axis)
    ax.set(xlabel="cost (estimated operations)", ylabel="KL from exact (nats per point)")
    if len(ax.lines) > 1:
        ax.legend(frameon=False)
    return _plain(ax)


def detached_figure(width: float, height: float) -> Any:
    """A figure of so many inches that needs no display and is nobody's current one."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


# ---- helpers -----------------------------------------------------------------------------------------------------


def _axes(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError("Plotting needs matplotlib: pip install 'nearfield[plot]'.") from None
    current = plt.gca()
    return plt.subplots()[1] if current.has_data() else current


def _plain(ax: Axes) -> Axes:
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _label_decades(axis: Any) -> None:
    """Labels at few round numbers of a logarithmic axis, wherever it is moved to."""
    from matplotlib.ticker import Locator, NullLocator

    class RoundNumbers(Locator):
        def __call__(self) -> list[float]:
            low, high = sorted(axis.get_view_interval())
            return round_numbers(low, high, log=True)

    axis.set_major_locator(RoundNumbers())
    axis.set_major_formatter(lambda value, _: tick_label(value, log=True))
    axis.set_minor_locator(NullLocator())


def _points(model: Any, X: ArrayLike | None, d: int) -> Floats:
    model._need_arrays("A picture")
    if model.n_features_in_ != d:
        raise ValueError(f"This picture is for models with {counted(d, 'column')}. Got {model.n_features_in_}.")
    return given_or_training(model, X)


def _predict(model: Any, points: Floats, include_noise: bool) -> tuple[Floats, Floats]:
    mean, std = predict(model, points, include_noise)
    _require_single(mean)
    return mean, std


def _require_single(mean: Floats) -> None:
    if mean.ndim > 1:
        raise ValueError(f"Pictures are of one target at a time; this model has {mean.shape[1]}.")


def _map(model: Any, X: ArrayLike | None, ax: Axes | None, which: int, label: str, options: dict[str, Any]) -> Axes:
    return _drawn_map(model, X, ax, lambda grid: _predict(model, grid, False)[which], label, options)


def _drawn_map(
    model: Any,
    X: ArrayLike | None,
    ax: Axes | None,
    function: Callable[[Floats], Floats],
    label: str,
    options: dict[str, Any],
) -> Axes:
    """Map of a function of places (m, 2)."""
    points, size = _points(model, X, 2), int(options.pop("size", 200))
    sides = [np.linspace(low, high, size) for low, high in padded_ranges(points, model=model)]
    grid = np.stack(np.meshgrid(*sides), axis=-1)
    values = function(grid.reshape(-1, 2)).reshape(size, size)
    ax = _axes(ax)
    picture = ax.pcolormesh(*sides, values, shading="gouraud", rasterized=True, **options)
    assert ax.figure is not None
    bar = ax.figure.colorbar(picture, ax=ax, label=label)
    bar.outline.set_visible(False)
    if X is not None:
        ax.plot(*points.T, ".", color="black", markersize=2.5, markeredgewidth=0, alpha=0.5)
    names = column_names(model)
    ax.set(xlim=sides[0][[0, -1]], ylim=sides[1][[0, -1]], xlabel=names[0], ylabel=names[1])
    return _plain(ax)


def _scored(
    name: str, y: ArrayLike, predicted: metrics.Predicted, unnamed: tuple[object, ...], std: ArrayLike | None
) -> tuple[Floats, Floats]:
    """Means (n,) of predictions, and normal scores (n,) of the observations in their distributions."""
    metrics.refuse_unnamed(name, unnamed)
    if np.size(y) == 0:
        raise ValueError("The 'y' argument has no observations.")
    metrics.rmse(y, predicted)  # one shape, and finite
    if isinstance(predicted, PredictiveDistribution):
        if std is not None:
            raise TypeError(f"{name} takes no std= beside distributions, which have their own.")
        return np.ravel(predicted.mean), np.ravel(predicted.scores(y))
    if std is None:
        raise TypeError(
            f"{name} takes what predict_distribution gives, or means and the std= of observations, by name."
        )
    metrics.rmse(y, std)
    observed, mean, spread = (np.ravel(np.asarray(a, dtype=np.float64)) for a in (y, predicted, std))
    if np.any(spread <= 0):
        raise ValueError("The 'std' argument must be positive everywhere; predict it with include_noise=True.")
    return mean, (observed - mean) / spread
