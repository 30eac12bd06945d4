"""A map of the earth's elevation from its airports, with its uncertainty. Run it by `make demo`.

The package `airportsdata` lists about 28 000 airports with latitude, longitude and elevation, so nothing is downloaded.
The earth is round and longitude wraps, so the inputs are points of a sphere in three dimensions, in thousand km;
length scales are then straight-line distances, which differ from those along the ground by under 1 % up to 3000 km.

The target is the cube root of the elevation in metres: of the transformations compared by `--transforms` it has the
least held-out NLL. Quantiles carry over: the map shows the cubed median.
"""

import argparse
import sys
import time
from pathlib import Path

import airportsdata
import matplotlib
import numpy as np
from scipy.spatial import cKDTree
from scipy.special import ndtr
from threadpoolctl import threadpool_limits

import nearfield as nf

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap, Normalize, PowerNorm

EARTH = 6.371  # radius, thousand km
METRES = 0.3048  # in a foot
VIEW = (-92.0, 22.0)  # longitude and latitude in the middle of the picture

# name -> (transform of an elevation in metres, logarithm of its derivative)
TRANSFORMS = {
    "none": (lambda e: e, np.zeros_like),
    "asinh(e / 100 m)": (lambda e: np.arcsinh(e / 100), lambda e: -0.5 * np.log(1e4 + e**2)),
    "signed square root": (lambda e: np.sign(e) * np.sqrt(abs(e)), lambda e: -np.log(2) - 0.5 * np.log(abs(e))),
    "cube root": (np.cbrt, lambda e: -np.log(3) - 2 / 3 * np.log(abs(e))),
}

# Lightness rises all the way, so that the colours can be told apart without seeing hues.
RELIEF = LinearSegmentedColormap.from_list("relief", ["#0f3a4c", "#2f6660", "#7d8a58", "#cda96d", "#f2dcb8", "#fffaf2"])
UNKNOWN = np.array([0.90, 0.92, 0.94])
INK = "#22303a"


def main():
    """Load, fit, score and draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("demo"), help="folder for the pictures (default: demo)")
    parser.add_argument("--size", type=int, default=900, help="pixels across a globe (default: 900)")
    parser.add_argument("--tolerance", type=float, default=1e-2, help="KL per test point that may be lost")
    parser.add_argument("--scales", default="1", help="number of length scales, or auto (default: 1)")
    parser.add_argument("--transforms", action="store_true", help="compare transformations of the target, then stop")
    parser.add_argument("--exact", action="store_true", help="also fit the exact GP: some 5 GiB and several minutes")
    arguments = parser.parse_args()
    began = time.perf_counter()

    places, elevation = load()
    train, test = split(len(elevation))
    n_scales = "auto" if arguments.scales == "auto" else int(arguments.scales)
    options = {"n_scales": n_scales, "tolerance": arguments.tolerance, "random_state": 0}
    if arguments.transforms:
        compare_transforms(places, elevation, train, test, options)
        return
    X, y = on_sphere(places), np.cbrt(elevation)

    say("Learning the hyperparameters, choosing and fitting ...")
    model = nf.LocalGPRegressor(**options, progress=show_progress()).fit(X[train], y[train])
    say(model.report_)
    scales = " and ".join(f"{1000 * scale:.0f} km" for scale in np.atleast_1d(model.length_scale_))
    say(f"The learnt length scale is {scales}.\n")

    mean, std = model.predict(X[test], return_std=True, include_noise=True)
    score(X[train], elevation[train], X[test], elevation[test], mean, std)
    distance(model.report_)
    if arguments.exact:
        compare_with_exact(model, X[train], y[train], X[test], mean, std)

    arguments.out.mkdir(parents=True, exist_ok=True)
    say("\nPredicting the picture", end=" ... ")
    start = time.perf_counter()
    inside, pixels, turn = globe(arguments.size)
    answers = model.predict(pixels, return_std=True)
    say(f"{len(pixels)} points in {time.perf_counter() - start:.1f} s")
    prior_std = np.sum(model.signal_variance_) ** 0.5
    draw_maps(arguments.out / "map.png", inside, answers, prior_std, X[train] / EARTH @ turn.T, turn)
    draw_calibration(arguments.out / "calibration.png", y[test], mean, std)
    say(f"Wrote {arguments.out / 'map.png'} and {arguments.out / 'calibration.png'}.")
    say(f"All done in {time.perf_counter() - began:.0f} s.")


# ---- data --------------------------------------------------------------------------------------------------------


def load():
    """Longitude and latitude in degrees (n, 2) and elevation in metres (n,), cleaned."""
    airports = list(airportsdata.load("ICAO").values())
    table = np.array([(a["lon"], a["lat"], METRES * a["elevation"]) for a in airports])
    # Elevations of 1, 2, 3 ... feet occur some tens of times each, 0 far more often: it stands for "not known".
    known = table[:, 2] != 0
    _, first = np.unique(table[:, :2], axis=0, return_index=True)
    once = np.zeros(len(table), dtype=bool)
    once[first] = True
    kept = table[known & once]
    say(f"{len(table)} airports; dropped {np.sum(~known)} with an elevation of exactly 0 (not known)", end=" ")
    say(f"and {np.sum(known & ~once)} listed twice, {len(kept)} left.")
    return kept[:, :2], kept[:, 2]


def split(n):
    """Five sixths to train, one sixth to test, at random."""
    order = np.random.default_rng(0).permutation(n)
    say(f"{n - n // 6} to train, {n // 6} to test.")
    return order[n // 6 :], order[: n // 6]


def on_sphere(places):
    """Longitude and latitude in degrees (n, 2) to points of the sphere (n, 3), in thousand km."""
    lon, lat = np.radians(places).T
    return EARTH * np.column_stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)])


# ---- scores ------------------------------------------------------------------------------------------------------


def score(X_train, e_train, X_test, e_test, mean, std):
    """Print scores in metres from means and standard deviations of the cube root."""
    expected = mean**3 + 3 * mean * std**2  # the mean of the cube
    nearest = e_train[cKDTree(X_train).query(X_test)[1]]
    z = np.cbrt(e_test)
    rmse, baseline = nf.metrics.rmse(e_test, expected), nf.metrics.rmse(e_test, nearest)
    coverage = nf.metrics.coverage(z, mean, std**2)
    say(f"RMSE            {rmse:.0f} m (the nearest airport's elevation: {baseline:.0f} m)")
    say(f"median error    {np.median(abs(e_test - mean**3)):.0f} m (of the predicted median)")
    say(f"95 % coverage   {100 * coverage:.1f} %")
    say(f"NLL             {nll(e_test, mean, std, 'cube root'):.3f} (elevation in metres)")


def nll(e_test, mean, std, name):
    """Mean negative log likelihood of elevations in metres, whatever the scale that was modelled."""
    transform, log_derivative = TRANSFORMS[name]
    return nf.metrics.mean_nll(transform(e_test), mean, std**2) - log_derivative(e_test).mean()


def distance(report):
    """Print how far the model is from the exact GP."""
    say(
        f"The exact GP is {report.divergence:.1e} nats of KL per test point away, measured at {report.n_probes} probes "
        f"(standard error {report.divergence_error:.0e}, asked for at most {report.tolerance:g})."
    )


def compare_with_exact(model, X, y, X_test, mean, std):
    """Print the true distance at the test points."""
    say("Fitting the exact GP at the same hyperparameters", end=" ... ")
    start = time.perf_counter()
    exact = nf.ExactGPRegressor(
        length_scale=model.length_scale_,
        signal_variance=model.signal_variance_,
        noise_variance=model.noise_variance_,
        n_scales=np.size(model.length_scale_),
    )
    with threadpool_limits(1):  # some versions of OpenBLAS crash when they factorise so large a matrix in threads
        exact_mean, exact_std = exact.fit(X, y).predict(X_test, return_std=True, include_noise=True)
    kl = nf.metrics.kl_divergence(mean, std**2, exact_mean, exact_std**2)
    say(f"{time.perf_counter() - start:.0f} s")
    say(f"True distance at the {len(X_test)} test points: {kl.mean():.1e} nats of KL per point.")


def compare_transforms(places, elevation, train, test, options):
    """Print the held-out NLL of each transformation of the target."""
    X = on_sphere(places)
    for name, (transform, _) in TRANSFORMS.items():
        model = nf.LocalGPRegressor(**options).fit(X[train], transform(elevation[train]))
        mean, std = model.predict(X[test], return_std=True, include_noise=True)
        covered = nf.metrics.coverage(transform(elevation[test]), mean, std**2)
        say(f"{name:20} NLL {nll(elevation[test], mean, std, name):.3f}, 95 % coverage {100 * covered:.1f} %")


# ---- pictures ----------------------------------------------------------------------------------------------------


def globe(size):
    """Which pixels (size, size) show the earth, their points on the sphere, and the rotation to the viewer's axes."""
    lon, lat = np.radians(VIEW)
    outward = np.array([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)])
    east = np.array([-np.sin(lon), np.cos(lon), 0.0])
    turn = np.stack([east, np.cross(outward, east), outward])
    side = np.linspace(-1, 1, size)
    across, up = np.meshgrid(side, side)
    inside = across**2 + up**2 <= 1
    toward = np.sqrt(1 - across[inside] ** 2 - up[inside] ** 2)
    return inside, EARTH * np.column_stack([across[inside], up[inside], toward]) @ turn, turn


def draw_maps(path, inside, answers, prior_std, airports, turn):
    """Draw the median elevation beside what is left of the prior uncertainty."""
    mean, left = answers[0], answers[1] / prior_std
    height, share = PowerNorm(0.5, 0, 4000, clip=True), Normalize(0, 100)
    known = np.clip((1 - left) / 0.5, 0, 1)[:, None]  # colours fade where the airports say little
    pictures = [
        known * RELIEF(height(mean**3))[:, :3] + (1 - known) * UNKNOWN,
        plt.get_cmap("YlGnBu")(share(100 * left))[:, :3],
    ]
    titles = ["Elevation, from airports alone", "Uncertainty that is left"]
    labels = ["median of the elevation (m); grey where little is known", "standard deviation (% of the prior's)"]
    bars = [(ScalarMappable(height, RELIEF), [0, 250, 1000, 2000, 3000, 4000]), (ScalarMappable(share, "YlGnBu"), None)]
    seen = airports[airports[:, 2] > 0]

    figure, axes = plt.subplots(1, 2, figsize=(14, 8.4), layout="constrained")
    for ax, picture, title, label, (bar, ticks) in zip(axes, pictures, titles, labels, bars, strict=True):
        image = np.ones((*inside.shape, 4))
        image[inside, :3] = picture
        image[~inside, 3] = 0
        ax.imshow(image, origin="lower", extent=(-1, 1, -1, 1), interpolation="bilinear")
        draw_graticule(ax, turn)
        ax.plot(seen[:, 0], seen[:, 1], ".", color="black", markersize=1.0, markeredgewidth=0, alpha=0.45)
        ax.add_patch(plt.Circle((0, 0), 1, fill=False, color=INK, linewidth=1.0))
        ax.set(xlim=(-1.01, 1.01), ylim=(-1.01, 1.01))
        ax.axis("off")
        ax.set_title(title, fontsize=19, color=INK, pad=10)
        scale = figure.colorbar(bar, ax=ax, orientation="horizontal", shrink=0.72, aspect=32, pad=0.03, ticks=ticks)
        scale.set_label(label, fontsize=14, color=INK)
        scale.ax.tick_params(labelsize=13, colors=INK)
        scale.outline.set_visible(False)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def draw_graticule(ax, turn):
    """Draw meridians and parallels every 30 degrees."""
    along = np.linspace(-180, 180, 721)
    lines = [np.column_stack([along, np.full(721, lat)]) for lat in range(-60, 90, 30)]
    lines += [np.column_stack([np.full(721, lon), along / 2]) for lon in range(-180, 180, 30)]
    for line in lines:
        points = on_sphere(line) / EARTH @ turn.T
        points[points[:, 2] < 0] = np.nan
        ax.plot(points[:, 0], points[:, 1], color=INK, linewidth=0.5, alpha=0.25)


def draw_calibration(path, y, mean, std):
    """Draw how often intervals cover, and where in its predictive distribution each observation falls."""
    levels = np.linspace(0.02, 0.98, 49)
    covered = [nf.metrics.coverage(y, mean, std**2, level) for level in levels]
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 5.2), layout="constrained")
    left.plot([0, 100], [0, 100], color="0.6", linewidth=1.5, label="perfect")
    left.plot(100 * levels, 100 * np.array(covered), color="#0072b2", linewidth=3, label="this model")
    left.set(xlim=(0, 100), ylim=(0, 100), aspect="equal")
    left.set_xlabel("nominal (%)", fontsize=14)
    left.set_ylabel("held-out airports inside (%)", fontsize=14)
    left.set_title("Coverage of central intervals", fontsize=16, color=INK)
    left.legend(fontsize=13, frameon=False, loc="upper left")
    right.hist(ndtr((y - mean) / std), bins=20, range=(0, 1), density=True, color="#0072b2", edgecolor="white")
    right.axhline(1, color="0.4", linewidth=1.5)
    right.set(xlim=(0, 1))
    right.set_xlabel("predictive probability of a lower elevation", fontsize=14)
    right.set_ylabel("density", fontsize=14)
    right.set_title("Where observations fall (flat is perfect)", fontsize=16, color=INK)
    for ax in (left, right):
        ax.tick_params(labelsize=12)
        ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110)
    plt.close(figure)


# ---- progress ----------------------------------------------------------------------------------------------------


def say(text, end="\n"):
    """Print at once."""
    print(text, end=end, flush=True)


def show_progress():
    """Callback for `progress=`: one line that is written over on a terminal, nothing elsewhere."""
    if not sys.stdout.isatty():
        return None

    def show(stage, done, _value):
        say(f"  {stage:28} {100 * done:3.0f} %", end="\r")

    return show


if __name__ == "__main__":
    main()
