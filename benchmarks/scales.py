"""Several length scales against one, and against other libraries: end to end, everything learnt, several splits.

GPBoost and MuyGPyS take part where they are installed (see benchmarks/peers/README.md).
"""

import importlib.util
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingRegressor

import _common as common
import nearfield as nf

DATA = ("UK flats, cleaned", "Lucas County", "US elevation", "California", "power plant", "kin8nm", "airports")


def load(name, data_dir):
    if name == "UK flats, cleaned":
        path = Path(data_dir or "") / "uk_flats_2020-12.csv.gz"
        if not path.exists():
            return None
        table = pd.read_csv(path)
        table = table[table["rec_status"] != "D"].drop_duplicates()
        return table[["lon", "lat"]].to_numpy(), table["log_price"].to_numpy()
    if name == "airports":
        if importlib.util.find_spec("airportsdata") is None:
            return None
        import airportsdata

        rows = [(a["lat"], a["lon"], a["elevation"]) for a in airportsdata.load("ICAO").values()]
        lat, lon, elevation = np.array(rows, dtype=float).T
        lat, lon = np.radians(lat), np.radians(lon)
        X = 6.371 * np.column_stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)])
        return X, np.log1p(np.maximum(0.3048 * elevation, 0.0))
    return common.load(name, data_dir)


def nearfield(n_scales):
    def run(X, y, X_test, seed):
        model = nf.LocalGPRegressor(n_scales=n_scales, random_state=seed).fit(X, y)
        return (
            model.predict(X_test),
            model.predict_distribution(X_test),
            f"{model.kernel_.n_scales} scales, {model.report_.method}",
        )

    return run


def nll_and_coverage(y, mean, spread):
    """Mean NLL and coverage of 95 % intervals, of a predictive distribution, normal ones of some variances, or none."""
    if spread is None:
        return np.nan, np.nan
    if isinstance(spread, np.ndarray):
        return nf.metrics.mean_nll(y, mean, var=spread), nf.metrics.coverage(y, mean, var=spread)
    return -np.mean(spread.logpdf(y)), np.mean(np.abs(spread.cdf(y) - 0.5) <= 0.475)


def boosting(X, y, X_test, seed):
    model = HistGradientBoostingRegressor(random_state=seed).fit(X, y)
    return model.predict(X_test), None, ""


def gpboost(covariance, shape):
    def run(X, y, X_test, seed):
        import gpboost as gpb

        # The same in every run; targets centred, as ours are.
        options = {"cov_function": covariance, "gp_approx": "vecchia", "num_neighbors": 20, "seed": seed}
        if shape is not None:
            options["cov_fct_shape"] = shape
        model = gpb.GPModel(gp_coords=X, likelihood="gaussian", **options)
        model.fit(y=y - y.mean(), params={"trace": False})
        found = model.predict(gp_coords_pred=X_test, predict_var=True, predict_response=True)
        return found["mu"] + y.mean(), found["var"], ""

    return run


def muygps(X, y, X_test, seed):
    from MuyGPyS.gp import MuyGPS
    from MuyGPyS.gp.deformation import Isotropy, l2
    from MuyGPyS.gp.hyperparameter import AnalyticScale, Parameter
    from MuyGPyS.gp.kernels import Matern
    from MuyGPyS.gp.noise import HomoscedasticNoise
    from MuyGPyS.neighbors import NN_Wrapper
    from MuyGPyS.optimize import Bayes_optimize
    from MuyGPyS.optimize.batch import sample_batch

    np.random.seed(seed)  # noqa: NPY002 (the library draws its batch from the global state)
    centered = (y - y.mean())[:, None]
    neighbours = NN_Wrapper(X, 50, nn_method="exact", algorithm="ball_tree")
    extent = float(np.ptp(X, axis=0).max())
    model = MuyGPS(
        kernel=Matern(
            smoothness=Parameter(1.5),
            deformation=Isotropy(l2, length_scale=Parameter("log_sample", (1e-3 * extent, extent))),
        ),
        noise=HomoscedasticNoise("log_sample", (1e-4, 1.0)),
        scale=AnalyticScale(),
    )
    batch, batch_nn = sample_batch(neighbours, 500, len(X))
    crosswise, pairwise, batch_y, batch_nn_y = model.make_train_tensors(batch, batch_nn, X, centered)
    model = Bayes_optimize(model, batch_y, batch_nn_y, crosswise, pairwise, init_points=5, n_iter=20, verbose=False)
    model = model.optimize_scale(pairwise, batch_nn_y)
    nearest, _ = neighbours.get_nns(X_test)
    crosswise, pairwise, nn_y = model.make_predict_tensors(np.arange(len(X_test)), nearest, X_test, X, centered)
    K, k = model.kernel(pairwise), model.kernel(crosswise)
    mean = model.posterior_mean(K, k, nn_y).reshape(-1)
    scale = float(np.ravel(model.scale())[0])
    variance = np.ravel(model.posterior_variance(K, k)) * 1.0 + scale * float(model.noise())
    return mean + y.mean(), variance, ""


def main():
    parser = common.parser(__doc__)
    parser.add_argument("--data", nargs="*", default=DATA, choices=DATA)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--peer-seeds", type=int, default=5, help="seeds for the other GP libraries, which take longer")
    arguments = parser.parse_args()
    methods = {"nearfield, auto": nearfield("auto"), "nearfield, one scale": nearfield(1), "boosting": boosting}
    peers = {}
    if importlib.util.find_spec("gpboost"):
        peers |= {"GPBoost, gaussian": gpboost("gaussian", None), "GPBoost, Matern 3/2": gpboost("matern", 1.5)}
    if importlib.util.find_spec("MuyGPyS"):
        peers |= {"MuyGPyS, Matern 3/2": muygps}
    rows = []
    for name in arguments.data:
        loaded = load(name, arguments.data_dir)
        if loaded is None:
            print(f"({name} is not at hand)")
            continue
        X, y = loaded
        for label, run in (methods | peers).items():
            scores, note = [], ""
            for seed in range(arguments.peer_seeds if label in peers else arguments.seeds):
                train_X, train_y, test_X, test_y = common.split(X, y, int(0.75 * len(X)), seed)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    try:
                        (mean, spread, note), seconds = common.timed(
                            lambda: run(train_X, train_y, test_X, seed)  # noqa: B023
                        )
                    except Exception as error:
                        note = f"failed: {type(error).__name__}: {error}"[:80]
                        break
                scores.append(
                    [
                        nf.metrics.rmse(test_y, mean),
                        *nll_and_coverage(test_y, mean, spread),
                        seconds,
                    ]
                )
            if not scores:
                rows.append([name, label, "", "", "", "", note])
                continue
            rmse, nll, coverage, seconds = np.mean(scores, axis=0)
            rows.append(
                [
                    name,
                    label,
                    f"{rmse:.4g}",
                    f"{nll:.4f}",
                    f"{coverage:.3f}",
                    f"{seconds:.1f}",
                    f"{len(scores)}: {note}",
                ]
            )
            print(" | ".join(map(str, rows[-1])), flush=True)
    print()
    common.table(["data", "method", "RMSE", "mean NLL", "95 % cover", "s", "seeds, last"], rows)


if __name__ == "__main__":
    main()
