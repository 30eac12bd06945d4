"""What learning finds: images with gaps, Matern fields, and draws whose hyperparameters are known.

`gaps`: everything learnt on data with gaps (needs NEARFIELD_DATA), scores at the test rows, beside the hyperparameters
found. `kernels`: the same with each kernel by name. `recovery`: draws of a Matern 3/2 process, the length scale, and
what short distances tell, the ratio of variance and cubed length scale, over the truth. `maximum`: how far the maximum
of the likelihood of all data, block by block, is below that of the exact likelihood, per point.
"""

import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.optimize import minimize

import _common as common
import nearfield as nf
from nearfield.hyperparameters.likelihood import Stack, squared_differences
from nearfield.kernels import Kernel

GAPS = ("cloudy_field", "us_elevation_gaps")
FIELDS = {"kaust_matern_smooth": "matern32", "kaust_matern_rough": "matern12"}
PLAIN = {"ard": False, "noise": "constant", "likelihood": "gaussian", "random_state": 0}


def read(folder, name):
    table = pd.read_csv(Path(folder or "") / f"{name}.csv.gz")
    X, y, is_test = table.iloc[:, :2].to_numpy(float), table.iloc[:, -1].to_numpy(float), table["is_test"] == 1
    return X[~is_test], y[~is_test], X[is_test], y[is_test]


def score(name, model, X, y, X_test, y_test):
    start = time.perf_counter()
    model.fit(X, y)
    fitted = time.perf_counter()
    mean, std = model.predict(X_test, return_std=True, include_noise=True)
    seconds = fitted - start, time.perf_counter() - fitted
    nll = nf.metrics.mean_nll(y_test, mean, std=std)
    rmse, inside = np.sqrt(np.mean((y_test - mean) ** 2)), np.mean(np.abs(y_test - mean) < 1.96 * std)
    print(f"{name:<36} {rmse:9.4g} {nll:8.4f} {inside:7.1%} {seconds[0]:7.1f} {seconds[1]:7.1f}  ", end="")
    print(np.array2string(np.ravel(model.length_scale_), precision=3), flush=True)


def gaps(folder):
    print(f"{'':<36} {'RMSE':>9} {'NLL':>8} {'95 %':>7} {'fit s':>7} {'pred s':>7}  length scales")
    for name in GAPS:
        score(name, nf.LocalGPRegressor(**PLAIN), *read(folder, name))


def kernels(folder):
    print(f"{'':<36} {'RMSE':>9} {'NLL':>8} {'95 %':>7} {'fit s':>7} {'pred s':>7}  length scales")
    for name, kernel in FIELDS.items():
        data = read(folder, name)
        for chosen in (kernel, "gaussian", "auto"):
            score(f"{name}, {chosen}", nf.LocalGPRegressor(**PLAIN, kernel=chosen), *data)


def draw(kernel, noise, n, side, seed):
    rng = np.random.RandomState(seed)
    X = rng.uniform(0, side, (n, 2))
    L = np.linalg.cholesky(kernel(X, X) + 1e-9 * np.eye(n))
    return X, L @ rng.standard_normal(n) + noise**0.5 * rng.standard_normal(n)


def recovery(n_draws=20, n=3000):
    truth, ratios, errors = Kernel(np.array([[1.0]]), np.array([1.0]), "matern32"), [], []
    for seed in range(n_draws):
        X, y = draw(truth, 0.05, n, 25.0, seed)
        model = nf.ExactGPRegressor(kernel="matern32", ard=False, n_restarts=0, random_state=0).fit(X, y)
        length, variance = model.length_scale_, model.signal_variance_
        ratios.append((length, variance / length**3, model.noise_variance_ / 0.05))
        errors.append(np.log([length, variance, model.noise_variance_ / 0.05]) / model.learned_.standard_errors)
    names = ("length scale", "variance / length scale cubed", "noise variance")
    for name, values in zip(names, np.array(ratios).T, strict=True):
        print(f"{name:<30} over the truth: mean {values.mean():.3f}, {values.min():.3f} to {values.max():.3f}")
    print(f"errors in standard errors, rms: {np.sqrt(np.mean(np.square(errors), axis=0)).round(2)}")


def maximum(folder, n=10_000, device="cpu"):
    cases = {"Matern 3/2": (*draw(Kernel(np.array([[1.0]]), np.array([1.0]), "matern32"), 0.1, n, 30.0, 0), "matern32")}
    for name in ("UK flats", "Lucas County"):
        data = common.load(name, folder)
        if data is not None:
            rows = np.random.RandomState(0).permutation(len(data[0]))[:n]
            cases[name] = data[0][rows], data[1][rows], "gaussian"
    for name, (X, y, kernel) in cases.items():
        model = nf.LocalGPRegressor(
            kernel=kernel, ard=False, noise="constant", likelihood="gaussian", random_state=0
        ).fit(X, y)
        J, log_likelihood = model.kernel_.n_scales, exact_log_likelihood(X, y - y.mean(), device)

        def loss(theta, J=J, log_likelihood=log_likelihood, family=kernel):
            made = Kernel(np.exp(theta[:J])[:, None], np.exp(theta[J:-1]), family)
            value, gradient = log_likelihood(made, float(np.exp(theta[-1])))
            return -value / n, -gradient / n

        start = np.log([*model.kernel_.length_scales[:, 0], *model.kernel_.variances, model.noise_variance_])
        best = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 60, "ftol": 1e-9})
        print(f"{name:<20} {n} points, {J} scales: {loss(start)[0] - best.fun:.1e} nats per point below", flush=True)
        print(f"    learnt {np.exp(start).round(4)}, best {np.exp(best.x).round(4)}", flush=True)


def exact_log_likelihood(X, y, device):
    """Function of a kernel and a noise variance, with its gradient."""
    if device == "cpu":
        return Stack(squared_differences(X[None], False), y[None, :, None])
    from nearfield.hyperparameters.blocks import Block
    from nearfield.tensors import learning

    return learning.Stack([Block(X, y[:, None])], device).log_likelihood


if __name__ == "__main__":
    parser = common.parser(__doc__)
    parser.add_argument("what", choices=["gaps", "kernels", "recovery", "maximum"])
    parser.add_argument("--points", type=int, default=3000, help="of which the exact likelihood is maximised")
    parser.add_argument("--device", default="cpu", help="that it is maximised on, such as cuda")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    if arguments.what == "recovery":
        recovery()
    elif arguments.what == "maximum":
        maximum(arguments.data_dir, arguments.points, arguments.device)
    else:
        {"gaps": gaps, "kernels": kernels}[arguments.what](arguments.data_dir)
