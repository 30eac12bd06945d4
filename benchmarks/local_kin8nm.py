"""kin8nm at the published hyperparameters: one centre, exact low degrees, against the published best and the limit.

The limit is what the leading D eigenvectors of the kernel matrix give. As features they are of no use, since they take
that matrix; but none of the same number come closer to it.
"""

from scipy.sparse.linalg import eigsh
from sklearn.preprocessing import FunctionTransformer

import _common as common
import nearfield as nf
from nearfield.kernels import Kernel

HYPERPARAMETERS = {"length_scale": 2.15, "signal_variance": 0.0695, "noise_variance": 0.1353}
PUBLISHED_BEST = {32: 36.1, 64: 26.4, 128: 21.1, 256: 10.9, 512: 5.2, 1024: 2.5}


def main():
    arguments = common.parser(__doc__).parse_args()
    loaded = common.load("kin8nm", arguments.data_dir)
    if loaded is None:
        return
    X, y, X_test, y_test = common.split(*loaded, 7372, arguments.seed)
    exact = nf.ExactGPRegressor(**HYPERPARAMETERS).fit(X, y)
    mean_ref, std_ref = exact.predict(X_test, return_std=True, include_noise=True)
    kernel = Kernel.gaussian(HYPERPARAMETERS["length_scale"])
    values, vectors = eigsh(kernel(X, X), k=max(PUBLISHED_BEST))  # the largest come last; takes a few minutes
    rows = []
    for D, published in PUBLISHED_BEST.items():
        given = {"radius": None, "centers": "mean", "random_state": 0, **HYPERPARAMETERS}
        models = {
            "ours": nf.LocalGPRegressor(features=nf.MaclaurinFeatures(D), **given),
            "paper": nf.LocalGPRegressor.from_paper(
                D, sampling="tensor_srht", centers="mean", random_state=0, **HYPERPARAMETERS
            ),
            "limit": nf.FeatureGPRegressor(
                FunctionTransformer(lambda Z, D=D: kernel(Z, X) @ (vectors[:, -D:] / values[-D:] ** 0.5)),
                signal_variance=HYPERPARAMETERS["signal_variance"],
                noise_variance=HYPERPARAMETERS["noise_variance"],
            ),
        }
        row = [D]
        for model in models.values():
            (mean, std), seconds = common.timed(
                lambda: model.fit(X, y).predict(X_test, return_std=True, include_noise=True)  # noqa: B023
            )
            kl = nf.metrics.kl_divergence(mean, std**2, mean_ref, std_ref**2).sum()
            row += [f"{kl:.3g}", f"{nf.metrics.rmse(y_test, mean):.4f}", f"{seconds:.2f}"]
        rows.append([*row, published])
    print(f"{len(X)} training, {len(X_test)} test points; exact RMSE {nf.metrics.rmse(y_test, mean_ref):.4f}\n")
    columns = [name for method in ("ours", "paper's map", "the limit") for name in (f"KL sum, {method}", "RMSE", "s")]
    common.table(["D", *columns, "published best KL"], rows)


if __name__ == "__main__":
    main()
