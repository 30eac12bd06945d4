"""A photograph of which nine pixels in ten are missing: many points, three targets at once, one model.

The picture of a flower comes with scikit-learn. Its colours are three targets that share a kernel. Pixels are points of
a plane, so local models do well: the work grows with the number of pixels, not with its cube.
"""

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_image

import nearfield as nf


def main():
    """Hide most pixels, predict them, and draw what was seen and what was made of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("demo/photograph.png"), help="picture to write")
    path = parser.parse_args().out

    image = load_sample_image("flower.jpg")[40:400:2, 140:520:2] / 255.0  # (180, 190, 3)
    height, width, _ = image.shape
    pixels = np.argwhere(np.ones((height, width))).astype(float)
    colours = image.reshape(-1, 3)
    seen = np.random.default_rng(0).random(len(pixels)) < 0.1

    model = nf.LocalGPRegressor(n_scales=1, ard=False, tolerance=1e-2, random_state=0).fit(pixels[seen], colours[seen])
    mean, std = model.predict(pixels, return_std=True, include_noise=True)
    error = nf.metrics.rmse(colours[~seen], mean[~seen])
    inside = nf.metrics.coverage(colours[~seen], mean[~seen], std=std[~seen])
    print(f"{seen.sum()} pixels seen, {(~seen).sum()} predicted; length scale {model.length_scale_:.1f} pixels")
    print(f"RMSE {error:.3f} of full brightness; 95 % intervals cover {100 * inside:.1f} %")
    print(model.report_)

    path.parent.mkdir(parents=True, exist_ok=True)
    draw(path, image, np.where(seen[:, None], colours, 1.0).reshape(image.shape), mean.reshape(image.shape))


def draw(path, image, seen, predicted):
    """Draw the three pictures side by side."""
    figure, axes = plt.subplots(1, 3, figsize=(10.5, 3.8), layout="constrained")
    titles = ["one pixel in ten", "predicted from these", "the photograph"]
    for ax, title, picture in zip(axes, titles, [seen, predicted, image], strict=True):
        ax.imshow(np.clip(picture, 0, 1))
        ax.set_title(title)
        ax.set_axis_off()
    figure.savefig(path, dpi=100)
    print(f"Wrote {path}.")


if __name__ == "__main__":
    main()
