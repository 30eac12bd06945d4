"""Which columns matter: a length scale for each, on the progress of diabetes.

442 patients and ten columns, from scikit-learn. So few rows are solved exactly. A column whose length scale is long
does not matter. Where a linear model is nearly right, as here, a process is hardly better; it adds intervals.
"""

import argparse
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import cross_val_predict

import nearfield as nf


def main():
    """Cross-validate a linear model and a process, fit the process to everything and draw."""
    warnings.simplefilter("ignore", ConvergenceWarning)  # length scales at their bound are the point here
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("demo/columns.png"), help="picture to write")
    path = parser.parse_args().out

    X, y = load_diabetes(return_X_y=True, as_frame=True)
    X = (X - X.mean()) / X.std()
    process = nf.LocalGPRegressor(n_scales=1, ard=True, n_restarts=0, random_state=0)
    models = {
        "ridge": RidgeCV(alphas=np.logspace(-2, 3, 20)),
        "Gaussian process": process,
    }
    for name, model in models.items():
        print(f"{name:17} cross-validated RMSE {nf.metrics.rmse(y, cross_val_predict(model, X, y, cv=5)):.1f}")

    process.fit(X, y)
    print(process.report_)
    order = np.argsort(process.length_scale_)
    for name, scale in zip(X.columns[order], process.length_scale_[order], strict=True):
        print(f"  {name:4} length scale {scale:8.1f} standard deviations")

    path.parent.mkdir(parents=True, exist_ok=True)
    draw(path, X, process, order)


def draw(path, X, model, order):
    """Draw the weight of each column, and what the three weightiest do while the others stay in the middle."""
    figure, axes = plt.subplots(1, 4, figsize=(10.5, 3.2), width_ratios=[1.3, 1, 1, 1], layout="constrained")
    axes[0].barh(X.columns[order[::-1]], 1 / model.length_scale_[order[::-1]], color="#0072b2")
    axes[0].set_title("1 / length scale", fontsize=11)
    steps = np.linspace(-2, 2, 81)
    for ax, column in zip(axes[1:], order, strict=False):
        points = np.zeros((len(steps), X.shape[1]))
        points[:, column] = steps
        mean, std = model.predict(type(X)(points, columns=X.columns), return_std=True)
        ax.fill_between(steps, mean - 1.96 * std, mean + 1.96 * std, color="#0072b2", alpha=0.2, lw=0)
        ax.plot(steps, mean, color="#0072b2")
        ax.set(title=X.columns[column], ylim=(40, 270), xlabel="standard deviations")
    axes[1].set_ylabel("progress of the disease")
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=100)
    print(f"Wrote {path}.")


if __name__ == "__main__":
    main()
