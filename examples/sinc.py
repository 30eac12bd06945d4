"""The paper's one-dimensional example (Fig. 2): a Gaussian process and four approximations with D = 10 features.

Fifty noisy observations of sinc(5x). The length scale is short compared to the data, so a series around zero dies away
and takes mean and variance with it; centred on the test points it does not, and neither do local models.
"""

import argparse
from pathlib import Path

import matplotlib
import numpy as np

import nearfield as nf

matplotlib.use("Agg")
import matplotlib.pyplot as plt

D = 10
BLUE, ORANGE = "#0072b2", "#d55e00"


def main():
    """Fit all of them and draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("demo/sinc.png"), help="picture to write")
    path = parser.parse_args().out

    rng = np.random.default_rng(1)
    X = rng.uniform(-1.5, 1.5, (50, 1))
    y = np.sinc(5 * X[:, 0]) + 0.1 * rng.standard_normal(50)
    grid = np.linspace(-3, 3, 601)[:, None]

    exact = nf.ExactGPRegressor(noise_variance=0.01, random_state=0).fit(X, y)
    learnt = {
        "length_scale": exact.length_scale_,
        "signal_variance": exact.signal_variance_,
        "noise_variance": exact.noise_variance_,
    }
    print(f"Learnt length scale {exact.length_scale_:.3f}, signal variance {exact.signal_variance_:.3f}.")

    around_zero = nf.TaylorFeatures(D - 1, center=None)
    models = {
        "Fourier features": nf.FeatureGPRegressor(nf.FourierFeatures(D, random_state=0), **learnt),
        "Maclaurin series around zero": nf.FeatureGPRegressor(around_zero, **learnt),
        "Maclaurin series around each test point": nf.LocalGPRegressor.from_paper(D, centers="test", **learnt),
        "Local Taylor features, corrected": nf.LocalGPRegressor(
            spacing=1.0, radius=3.0, features=nf.TaylorFeatures(D - 1), **learnt
        ),
    }
    reference = exact.predict(grid, return_std=True, include_noise=True)
    panels = {"Exact Gaussian process": (*reference, None)}
    for name, model in models.items():
        mean, std = model.fit(X, y).predict(grid, return_std=True, include_noise=True)
        kl = nf.metrics.kl_divergence(mean, std**2, reference[0], reference[1] ** 2).mean()
        panels[name] = (mean, std, kl)
        print(f"{name:40} KL per grid point {kl:.2g}")
    local = models["Local Taylor features, corrected"].report_
    print(f"(Kernel space was cheaper for {local.n_kernel_space} of its {local.n_centers} centres.)")
    path.parent.mkdir(parents=True, exist_ok=True)
    draw(path, X, y, grid, reference, panels)
    print(f"Wrote {path}.")


def draw(path, X, y, grid, reference, panels):
    """Draw one panel a method, with the exact process dashed."""
    figure, axes = plt.subplots(len(panels), 1, figsize=(9, 11.5), sharex=True, sharey=True, layout="constrained")
    for ax, (name, (mean, std, kl)) in zip(axes, panels.items(), strict=True):
        ax.fill_between(grid[:, 0], mean - 1.96 * std, mean + 1.96 * std, color=BLUE, alpha=0.22, linewidth=0)
        ax.plot(grid, mean, color=BLUE, linewidth=2)
        if kl is not None:
            for edge in (-1.96, 0, 1.96):
                line = reference[0] + edge * reference[1]
                ax.plot(grid, line, color=ORANGE, linewidth=1.0, linestyle=(0, (4, 3)))
        ax.plot(X, y, ".", color="black", markersize=4)
        suffix = "" if kl is None else f": KL {kl:.2g} nats a point"
        ax.set_title(name + suffix, fontsize=13, loc="left")
        ax.set(xlim=(-3, 3), ylim=(-1.6, 2.1))
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(labelsize=11)
    axes[-1].set_xlabel("x; dots: data, shaded: 95 % of observations, dashed: the exact process", fontsize=12)
    figure.savefig(path, dpi=100)
    plt.close(figure)


if __name__ == "__main__":
    main()
