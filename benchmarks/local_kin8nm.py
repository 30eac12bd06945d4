"""kin8nm at the published hyperparameters: one centre, exact low degrees, against the published best."""

import _common as common
import nearfield as nf

HYPERPARAMETERS = {"length_scale": 2.15, "signal_variance": 0.0695, "noise_variance": 0.1353}
PUBLISHED_BEST = {32: None, 64: None, 128: 20.3, 256: 10.5, 512: 5.2, 1024: None}


def main():
    arguments = common.parser(__doc__).parse_args()
    loaded = common.load("kin8nm", arguments.data_dir)
    if loaded is None:
        return
    X, y, X_test, y_test = common.split(*loaded, 7372, arguments.seed)
    exact = nf.ExactGPRegressor(**HYPERPARAMETERS).fit(X, y)
    mean_ref, std_ref = exact.predict(X_test, return_std=True, include_noise=True)
    rows = []
    for D, published in PUBLISHED_BEST.items():
        given = {"radius": None, "centers": "mean", "random_state": 0, **HYPERPARAMETERS}
        models = {
            "ours": nf.LocalGPRegressor(features=nf.MaclaurinFeatures(D), **given),
            "paper": nf.LocalGPRegressor.from_paper(
                D, sampling="tensor_srht", centers="mean", random_state=0, **HYPERPARAMETERS
            ),
        }
        row = [D]
        for model in models.values():
            (mean, std), seconds = common.timed(
                lambda: model.fit(X, y).predict(X_test, return_std=True, include_noise=True)  # noqa: B023
            )
            kl = nf.metrics.kl_divergence(mean, std**2, mean_ref, std_ref**2).sum()
            row += [f"{kl:.3g}", f"{nf.metrics.rmse(y_test, mean):.4f}", f"{seconds:.2f}"]
        rows.append([*row, published or ""])
    print(f"{len(X)} training, {len(X_test)} test points; exact RMSE {nf.metrics.rmse(y_test, mean_ref):.4f}\n")
    common.table(["D", "KL sum, ours", "RMSE", "s", "KL sum, paper's map", "RMSE", "s", "published best KL"], rows)


if __name__ == "__main__":
    main()
