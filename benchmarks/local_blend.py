"""A picture with and without blending: the seams between cells, and what blending does to the distance from exact."""

import numpy as np

import _common as common
import nearfield as nf

HYPERPARAMETERS = {"length_scale": 1.0, "signal_variance": 1.0, "noise_variance": 0.1}


def main():
    parser = common.parser(__doc__)
    parser.add_argument("--out", default="out/blend.png")
    arguments = parser.parse_args()
    from pathlib import Path

    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    X, y = common.plane(5000, arguments.seed, density=15.0)
    side = X.max()
    ticks = np.linspace(0.2 * side, 0.5 * side, 300)
    grid = np.stack(np.meshgrid(ticks, ticks), axis=-1).reshape(-1, 2)
    exact = nf.ExactGPRegressor(**HYPERPARAMETERS).fit(X, y)
    mean_ref, std_ref = exact.predict(grid, return_std=True, include_noise=True)
    rows, pictures = [], []
    for blend in (False, True):
        model = nf.LocalGPRegressor(**HYPERPARAMETERS, tolerance=1e-2, blend=blend, random_state=0).fit(X, y)
        (mean, std), seconds = common.timed(lambda: model.predict(grid, return_std=True, include_noise=True))  # noqa: B023
        kl = nf.metrics.kl_divergence(mean, std**2, mean_ref, std_ref**2).mean()
        error = (mean - mean_ref).reshape(300, 300)
        # The largest jump between neighbouring pixels of the error, which is smooth but for the seams.
        jump = max(np.abs(np.diff(error, axis=0)).max(), np.abs(np.diff(error, axis=1)).max())
        rows.append(["yes" if blend else "no", f"{kl:.2e}", f"{jump:.1e}", f"{seconds:.2f}"])
        pictures.append((error, model))
    common.table(["blend", "KL a point", "largest jump between pixels", "predict s"], rows)

    figure, axes = plt.subplots(1, 2, figsize=(11, 5), constrained_layout=True)
    limit = max(np.abs(error).max() for error, _ in pictures)
    for axis, (error, _), title in zip(axes, pictures, ("nearest centre", "blend=True"), strict=True):
        extent = (ticks[0], ticks[-1]) * 2
        image = axis.imshow(error, origin="lower", extent=extent, cmap="RdBu", vmin=-limit, vmax=limit)
        axis.set_title(f"mean minus exact mean: {title}")
    figure.colorbar(image, ax=axes)
    Path(arguments.out).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(arguments.out, dpi=90)
    print(f"picture: {arguments.out}")


if __name__ == "__main__":
    main()
