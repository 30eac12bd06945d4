"""UK flats at the published hyperparameters: distance from the exact Gaussian process against time."""

import _common as common
import nearfield as nf

HYPERPARAMETERS = {"length_scale": 0.25, "signal_variance": 0.51, "noise_variance": 0.20}


def main():
    arguments = common.parser(__doc__).parse_args()
    loaded = common.load("UK flats", arguments.data_dir)
    if loaded is None:
        return
    X, y, X_test, y_test = common.split(*loaded, 10_000, arguments.seed)

    def run(model):
        def fit_and_predict():
            return model.fit(X, y).predict(X_test, return_std=True, include_noise=True)

        (mean, std), seconds = common.timed(fit_and_predict)
        return mean, std, seconds

    fixed = {"spacing": 2.0, "radius": 3.5, "features": nf.TaylorFeatures(12)}
    run(nf.LocalGPRegressor(**HYPERPARAMETERS, **fixed))  # the first call loads libraries
    mean_ref, std_ref, seconds_ref = run(nf.ExactGPRegressor(**HYPERPARAMETERS))
    models = {
        "fixed: spacing 2, radius 3.5, degree 12": nf.LocalGPRegressor(**HYPERPARAMETERS, **fixed),
        "the same, farthest points": nf.LocalGPRegressor(**HYPERPARAMETERS, **fixed, centers="farthest"),
        "automatic, tolerance 1e-3": nf.LocalGPRegressor(**HYPERPARAMETERS, random_state=0),
        "automatic, tolerance 1e-4": nf.LocalGPRegressor(**HYPERPARAMETERS, tolerance=1e-4, random_state=0),
    } | {
        f"paper, D = {D}": nf.LocalGPRegressor.from_paper(D, **HYPERPARAMETERS, random_state=0)
        for D in (128, 256, 1024)
    }
    rows = [["exact", "", "", "0", "", f"{nf.metrics.rmse(y_test, mean_ref):.4f}", f"{seconds_ref:.2f}", "1"]]
    for label, model in models.items():
        mean, std, seconds = run(model)
        kl = nf.metrics.kl_divergence(mean, std**2, mean_ref, std_ref**2)
        rows.append(
            [
                label,
                len(model.centers_),
                0 if model.feature_map_ is None else model.feature_map_.n_components,
                f"{kl.sum():.3g}",
                f"{kl.mean():.1e}",
                f"{nf.metrics.rmse(y_test, mean):.4f}",
                f"{seconds:.2f}",
                f"{seconds_ref / seconds:.0f}",
            ]
        )
    print(f"{len(X)} training and {len(X_test)} test points; KL(model || exact) of observations\n")
    common.table(["model", "centres", "D", "KL sum", "KL a point", "RMSE", "seconds", "times faster"], rows)


if __name__ == "__main__":
    main()
