"""Make the pictures of the documentation: `python docs/make_images.py`, with the extra `examples` installed.

`map.png` is the picture of `make demo`, made smaller; run that first. The others are computed here, and those of the
gallery by the examples (`--gallery` makes no others; `flats.py` takes part where NEARFIELD_DATA names its folder).
"""

# ruff: noqa: T201

import os
import subprocess
import sys
from pathlib import Path

import matplotlib
import numpy as np
from PIL import Image
from scipy.special import gammaincc

import nearfield as nf

matplotlib.use("Agg")
import matplotlib.pyplot as plt

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
GALLERY = (
    "globe",
    "satellite",
    "spacetime",
    "rain",
    "terrain",
    "prices",
    "trend",
    "photograph",
    "seattle",
    "clock",
    "regions",
    "tolerance",
    "columns",
    "flats",
)
COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7"]


def main():
    """Make every picture."""
    (IMAGES / "gallery").mkdir(parents=True, exist_ok=True)
    draw_gallery()
    if "--gallery" in sys.argv:
        return
    plt.rcParams.update({"font.size": 13, "axes.spines.top": False, "axes.spines.right": False})
    draw_reach()
    draw_cells()
    draw_radius()
    subprocess.run([sys.executable, ROOT / "examples" / "sinc.py", "--out", IMAGES / "sinc.png"], check=True)
    shrink(IMAGES / "sinc.png", IMAGES / "sinc.png", 900)
    if (ROOT / "demo" / "map.png").exists():
        shrink(ROOT / "demo" / "map.png", IMAGES / "map.png", 1300)
        shrink(ROOT / "demo" / "calibration.png", IMAGES / "calibration.png", 1000)


def draw_gallery():
    """Run the examples of the gallery."""
    for name in GALLERY:
        if name == "flats" and "NEARFIELD_DATA" not in os.environ:
            continue
        path = IMAGES / "gallery" / f"{name}.png"
        command = [sys.executable, ROOT / "examples" / f"{name}.py", "--out", path]
        subprocess.run(command, check=True, env={**os.environ, "MPLBACKEND": "Agg"})
        shrink(path, path, 1050)


def draw_reach():
    """Share of the prior variance that features of a degree can represent, by distance from the centre."""
    distance = np.linspace(0, 8, 400)
    figure, ax = plt.subplots(figsize=(8.5, 4.2), layout="constrained")
    for degree, colour in zip((4, 9, 16, 36), COLOURS, strict=True):
        ax.plot(distance, 100 * gammaincc(degree + 1, distance**2), color=colour, linewidth=2.5)
        label = f"degree {degree}" if degree == 36 else f"{degree}"
        ax.text(degree**0.5 + 0.2, 60, label, color=colour, fontsize=14)
    ax.set(xlim=(0, 8), ylim=(0, 102))
    ax.set_xlabel("distance from the centre (length scales)")
    ax.set_ylabel("prior variance represented (%)")
    save(figure, "reach.png")


def plane(n, seed=0, side=20.0, n_waves=400):
    """Points of a square and a draw of about a Gaussian process of length scale 1, with noise of variance 0.1."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, side, (n, 2))
    frequencies, phases = rng.standard_normal((n_waves, 2)), rng.uniform(0, 2 * np.pi, n_waves)
    y = (2 / n_waves) ** 0.5 * np.cos(X @ frequencies.T + phases).sum(axis=1)
    return X, y + 0.1**0.5 * rng.standard_normal(n)


GIVEN = {"length_scale": 1.0, "signal_variance": 1.0, "noise_variance": 0.1}


def draw_cells():
    """Cells, their centres, and the neighbourhood of one of them, over the predicted mean."""
    X, y = plane(1500, side=10.0)
    kept = np.hypot(X[:, 0] - 7.4, X[:, 1] - 2.8) > 1.8  # a hole in the data
    X, y = X[kept], y[kept]
    model = nf.LocalGPRegressor(spacing=1.25, radius=2.5, features=nf.TaylorFeatures(8), **GIVEN).fit(X, y)
    side = np.linspace(0, 10, 201)
    grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    mean = model.predict(grid).reshape(len(side), -1)
    centers = model.centers_
    one = centers[np.argmin(np.hypot(*(centers - [3.5, 6.0]).T))]
    inside = np.hypot(*(X - one).T) <= 2.5

    figure, ax = plt.subplots(figsize=(7.4, 6.2), layout="constrained")
    image = ax.imshow(mean, origin="lower", extent=(0, 10, 0, 10), cmap="cividis")
    nearest = np.argmin(((grid[:, None] - centers) ** 2).sum(axis=-1), axis=1).reshape(mean.shape)
    borders = np.zeros_like(nearest, dtype=bool)
    borders[:, 1:] |= nearest[:, 1:] != nearest[:, :-1]
    borders[1:] |= nearest[1:] != nearest[:-1]
    ax.imshow(np.dstack([np.ones((*borders.shape, 3)), borders]), origin="lower", extent=(0, 10, 0, 10))
    ax.plot(*X.T, ".", color="black", markersize=2.5, alpha=0.6)
    ax.plot(*X[inside].T, ".", color="#d55e00", markersize=5)
    ax.add_patch(plt.Circle(one, 2.5, fill=False, color="#d55e00", linewidth=2))
    ax.plot(*centers.T, "+", color="white", markersize=10, markeredgewidth=2)
    ax.plot(*one, "+", color="#d55e00", markersize=14, markeredgewidth=3)
    ax.set(xlim=(0, 10), ylim=(0, 10), xlabel="length scales", ylabel="length scales")
    figure.colorbar(image, ax=ax, shrink=0.85, label="predicted mean (prior standard deviations)")
    save(figure, "cells.png")


def draw_radius():
    """KL from the exact process against the radius, for two degrees, with and without correction."""
    X, y = plane(6000)
    X_test, _ = plane(2000, seed=1)
    exact = nf.ExactGPRegressor(**GIVEN).fit(X, y)
    mean_ref, std_ref = exact.predict(X_test, return_std=True, include_noise=True)
    radii = np.arange(2.0, 6.01, 0.5)

    def divergence(radius, features, **options):
        model = nf.LocalGPRegressor(spacing=1.5, radius=radius, features=features, **options, **GIVEN).fit(X, y)
        mean, std = model.predict(X_test, return_std=True, include_noise=True)
        return nf.metrics.kl_divergence(mean, std**2, mean_ref, std_ref**2).mean()

    figure, ax = plt.subplots(figsize=(8.5, 5), layout="constrained")
    for degree, colour in ((8, COLOURS[0]), (16, COLOURS[1])):
        features = nf.TaylorFeatures(degree)
        for correction, style in ((True, "-"), (False, ":")):
            values = [divergence(r, features, correction=correction) for r in radii]
            print(f"degree {degree}, correction {correction}: " + ", ".join(f"{v:.1e}" for v in values))
            label = f"degree {degree}, {'corrected' if correction else 'not corrected'}"
            ax.semilogy(radii, values, style, color=colour, linewidth=2.5, marker="o", label=label)
    values = [divergence(r, "kernel", tolerance=1.0) for r in radii]
    print("kernel space: " + ", ".join(f"{v:.1e}" for v in values))
    ax.semilogy(radii, values, "--", color="0.4", linewidth=2, label="kernel space: the radius alone")
    ax.set_xlabel("radius of the neighbourhoods (length scales)")
    ax.set_ylabel("KL per test point (nats)")
    ax.legend(frameon=False, fontsize=12)
    save(figure, "radius.png")


def save(figure, name):
    """Write a picture of the documentation."""
    figure.savefig(IMAGES / name, dpi=90)
    plt.close(figure)
    shrink(IMAGES / name, IMAGES / name, 900)


def shrink(source, target, width):
    """Write a smaller copy with a palette."""
    with Image.open(source) as image:
        image = image.convert("RGBA")
        flat = Image.new("RGB", image.size, "white")
        flat.paste(image, mask=image.getchannel("A"))
    if flat.width > width:
        flat = flat.resize((width, round(flat.height * width / flat.width)), Image.Resampling.LANCZOS)
    flat.quantize(256, kmeans=3, dither=Image.Dither.NONE).save(target, optimize=True)
    print(f"{target.relative_to(ROOT)}: {target.stat().st_size // 1024} kB")


if __name__ == "__main__":
    main()
