"""Other libraries beside nearfield: same data, same split, same fixed hyperparameters, one table and two pictures.

    python benchmarks/peers/compare.py [closeness] [growth] [--only NAME ...] [--out FOLDER]

*closeness*: KL divergence from the exact Gaussian process per test point, and the time to fit and to predict with
standard deviations, on UK flats and on points of the plane; the median of five runs where they take less than a second.
*growth*: time against the number of points, without imports. Every library is given the same kernel, a Gaussian, and
the same noise; libraries that are not installed are left out. End-to-end comparisons, in which each library learns for
itself, are in `benchmarks/scales.py`.
"""

import argparse
import importlib.util
import json
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
from scipy.linalg import cholesky, solve_triangular

import _common as common
import nearfield as nf

FLATS = (0.248, 0.507, 0.202)  # length scale, signal variance, noise variance: the published values
PLANE = (1.0, 1.0, 0.1)
LIMIT = 900  # seconds after which a library is given up
QUICK, REPEATS = 1.0, 5  # seconds, below which a run is repeated


# ---- the methods: (X, y, X_test, (length scale, variance, noise)) -> mean and variance of observations -------------


def local(tolerance):
    def run(X, y, X_test, kernel):
        model = nf.LocalGPRegressor(**named(kernel), n_scales=1, tolerance=tolerance, random_state=0).fit(X, y)
        mean, std = model.predict(X_test, return_std=True, include_noise=True)
        return mean, std**2

    return run


def by_hand(spacing, radius, degree):
    def run(X, y, X_test, kernel):
        given = {"spacing": spacing, "radius": radius, "features": nf.TaylorFeatures(degree)}
        model = nf.LocalGPRegressor(**named(kernel), n_scales=1, **given).fit(X, y)
        mean, std = model.predict(X_test, return_std=True, include_noise=True)
        return mean, std**2

    return run


def exact(X, y, X_test, kernel):
    mean, std = nf.ExactGPRegressor(**named(kernel)).fit(X, y).predict(X_test, return_std=True, include_noise=True)
    return mean, std**2


def named(kernel):
    return dict(zip(("length_scale", "signal_variance", "noise_variance"), kernel, strict=True))


def sklearn_exact(X, y, X_test, kernel):
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel

    length, variance, noise = kernel
    gp = GaussianProcessRegressor(ConstantKernel(variance) * RBF(length), alpha=noise, optimizer=None)
    mean, std = gp.fit(X, y - y.mean()).predict(X_test, return_std=True)
    return mean + y.mean(), std**2 + noise


def sklearn_features(kind, n_components):
    """A feature map of scikit-learn with the Bayesian linear model of the known variances, in closed form."""

    def run(X, y, X_test, kernel):
        from sklearn.kernel_approximation import Nystroem, RBFSampler

        length, variance, noise = kernel
        gamma = 0.5 / length**2
        make = {"RBFSampler": RBFSampler, "Nystroem": Nystroem}[kind]
        features = make(gamma=gamma, n_components=n_components, random_state=0).fit(X)
        return linear(lambda part: variance**0.5 * features.transform(part), X, y, X_test, noise)

    return run


def linear(transform, X, y, X_test, noise):
    Phi = transform(X)
    A = Phi.T @ Phi / noise
    A.flat[:: len(A) + 1] += 1.0
    L = cholesky(A, lower=True)
    b = solve_triangular(L, Phi.T @ (y - y.mean()) / noise, lower=True)
    mean, variance = np.empty(len(X_test)), np.empty(len(X_test))
    for part in np.array_split(np.arange(len(X_test)), max(len(X_test) // 20_000, 1)):
        half = solve_triangular(L, transform(X_test[part]).T, lower=True)
        mean[part], variance[part] = half.T @ b + y.mean(), np.sum(half**2, axis=0) + noise
    return mean, variance


def sparse(n_inducing):
    """The closed-form sparse posterior (Titsias 2009) with k-means inducing points."""

    def run(X, y, X_test, kernel):
        from scipy.spatial.distance import cdist
        from sklearn.cluster import MiniBatchKMeans

        length, variance, noise = kernel
        Z = MiniBatchKMeans(n_inducing, random_state=0, n_init=1, batch_size=4096).fit(X).cluster_centers_

        def k(A, B):
            return variance * np.exp(-0.5 * cdist(A / length, B / length, "sqeuclidean"))

        root = cholesky(k(Z, Z) + 1e-8 * variance * np.eye(len(Z)), lower=True)
        whitened = solve_triangular(root, k(Z, X), lower=True)
        B = np.eye(len(Z)) + whitened @ whitened.T / noise
        L = cholesky(B, lower=True)
        c = solve_triangular(L, whitened @ (y - y.mean()), lower=True) / noise
        mean, var = np.empty(len(X_test)), np.empty(len(X_test))
        for part in np.array_split(np.arange(len(X_test)), max(len(X_test) // 20_000, 1)):
            cross = solve_triangular(root, k(Z, X_test[part]), lower=True)
            half = solve_triangular(L, cross, lower=True)
            mean[part] = half.T @ c + y.mean()
            var[part] = variance - np.sum(cross**2, axis=0) + np.sum(half**2, axis=0) + noise
        return mean, var

    return run


def gpytorch_exact(X, y, X_test, kernel):
    import gpytorch
    import torch

    length, variance, noise = kernel
    X, X_test = torch.as_tensor(X), torch.as_tensor(X_test)
    targets = torch.as_tensor(y - y.mean())

    class Model(gpytorch.models.ExactGP):
        def __init__(self, likelihood):
            super().__init__(X, targets, likelihood)
            self.mean_module = gpytorch.means.ZeroMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    likelihood = gpytorch.likelihoods.GaussianLikelihood().double()
    model = Model(likelihood).double()
    model.initialize(**{"covar_module.base_kernel.lengthscale": length, "covar_module.outputscale": variance})
    likelihood.initialize(noise=noise)
    model.eval()
    likelihood.eval()
    with torch.no_grad(), gpytorch.settings.max_cholesky_size(10**6):
        found = likelihood(model(X_test))
        return found.mean.numpy() + y.mean(), found.variance.numpy()


def gpytorch_svgp(n_inducing, epochs=20):
    """Stochastic variational inference at fixed hyperparameters: only the variational distribution is learnt."""

    def run(X, y, X_test, kernel):
        import gpytorch
        import torch
        from sklearn.cluster import MiniBatchKMeans

        torch.manual_seed(0)
        length, variance, noise = kernel
        Z = MiniBatchKMeans(n_inducing, random_state=0, n_init=1, batch_size=4096).fit(X).cluster_centers_
        X, X_test = torch.as_tensor(X), torch.as_tensor(X_test)
        targets = torch.as_tensor(y - y.mean())

        class Model(gpytorch.models.ApproximateGP):
            def __init__(self):
                distribution = gpytorch.variational.NaturalVariationalDistribution(n_inducing)
                strategy = gpytorch.variational.VariationalStrategy(
                    self, torch.as_tensor(Z), distribution, learn_inducing_locations=False
                )
                super().__init__(strategy)
                self.mean_module = gpytorch.means.ZeroMean()
                self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

            def forward(self, x):
                return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

        likelihood = gpytorch.likelihoods.GaussianLikelihood().double()
        model = Model().double()
        model.initialize(**{"covar_module.base_kernel.lengthscale": length, "covar_module.outputscale": variance})
        likelihood.initialize(noise=noise)
        optimizer = gpytorch.optim.NGD(model.variational_parameters(), num_data=len(X), lr=0.1)
        objective = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=len(X))
        model.train()
        for _ in range(epochs):
            for chosen in torch.randperm(len(X)).split(1024):
                optimizer.zero_grad()
                (-objective(model(X[chosen]), targets[chosen])).backward()
                optimizer.step()
        model.eval()
        likelihood.eval()
        with torch.no_grad():
            parts = [likelihood(model(part)) for part in X_test.split(20_000)]
            mean = torch.cat([p.mean for p in parts]).numpy() + y.mean()
            return mean, torch.cat([p.variance for p in parts]).numpy()

    return run


def gpboost(n_neighbours, n_inducing=None):
    def run(X, y, X_test, kernel):
        import gpboost as gpb

        length, variance, noise = kernel
        options = {"gp_approx": "vecchia", "num_neighbors": n_neighbours}
        if n_inducing is not None:
            options |= {"gp_approx": "full_scale_vecchia", "num_ind_points": n_inducing}
        model = gpb.GPModel(gp_coords=X, cov_function="gaussian", likelihood="gaussian", seed=0, **options)
        model.set_prediction_data(num_neighbors_pred=n_neighbours)
        found = model.predict(
            y=y - y.mean(),
            gp_coords_pred=X_test,
            cov_pars=np.array([noise, variance, length * 2**0.5]),
            predict_var=True,
            predict_response=True,
        )
        return found["mu"] + y.mean(), found["var"]

    return run


def muygps(n_neighbours):
    def run(X, y, X_test, kernel):
        from MuyGPyS.gp import MuyGPS
        from MuyGPyS.gp.deformation import F2, Isotropy
        from MuyGPyS.gp.hyperparameter import FixedScale, Parameter
        from MuyGPyS.gp.kernels import RBF
        from MuyGPyS.gp.noise import HomoscedasticNoise
        from MuyGPyS.neighbors import NN_Wrapper

        length, variance, noise = kernel
        # Its kernel is exp(-d^2 / l^2) of a unit variance; the answers are scaled afterwards.
        model = MuyGPS(
            kernel=RBF(deformation=Isotropy(F2, length_scale=Parameter(length))),
            noise=HomoscedasticNoise(noise / variance),
            scale=FixedScale(),
        )
        neighbours = NN_Wrapper(X, n_neighbours, nn_method="exact", algorithm="ball_tree")
        targets = (y - y.mean())[:, None]
        mean, var = np.empty(len(X_test)), np.empty(len(X_test))
        for part in np.array_split(np.arange(len(X_test)), max(len(X_test) // 20_000, 1)):
            nearest, _ = neighbours.get_nns(X_test[part])
            crosswise, pairwise, nn_y = model.make_predict_tensors(
                np.arange(len(part)), nearest, X_test[part], X, targets
            )
            K, k = model.kernel(pairwise), model.kernel(crosswise)
            mean[part] = np.ravel(model.posterior_mean(K, k, nn_y)) + y.mean()
            var[part] = variance * np.ravel(model.posterior_variance(K, k)) + noise
        return mean, var

    return run


# Spacing and radius in length scales, and degree of the features.
HAND_SETTINGS = ((2.5, 3.0, 8), (2.0, 3.5, 12), (2.0, 4.0, 16), (2.05, 4.5, 20), (1.5, 5.0, 24), (1.0, 6.0, 36))


def methods():
    """Family -> {setting: method}."""
    found = {
        "nearfield": {f"tolerance {t:g}": local(t) for t in (1e-1, 1e-2, 1e-3, 5e-4, 1e-4, 1e-6)},
        "nearfield, by hand": {
            f"spacing {s:g}, radius {r:g}, degree {p}": by_hand(s, r, p) for s, r, p in HAND_SETTINGS
        },
        "scikit-learn RBFSampler": {f"{m}": sklearn_features("RBFSampler", m) for m in (1024, 4096)},
        "scikit-learn Nystroem": {f"{m}": sklearn_features("Nystroem", m) for m in (512, 1024)},
        "sparse GP, k-means": {f"{m}": sparse(m) for m in (256, 512, 1024, 2048)},
        "scikit-learn exact": {"": sklearn_exact},
    }
    if importlib.util.find_spec("gpytorch"):
        found["GPyTorch exact"] = {"": gpytorch_exact}
        found["GPyTorch SVGP"] = {f"{m}": gpytorch_svgp(m) for m in (512, 1024)}
    if importlib.util.find_spec("gpboost"):
        found["GPBoost Vecchia"] = {f"{m}": gpboost(m) for m in (20, 40, 80)}
        found["GPBoost full-scale Vecchia"] = {f"500 + {m}": gpboost(m, 500) for m in (30, 60)}
    if importlib.util.find_spec("MuyGPyS"):
        found["MuyGPyS"] = {f"{m}": muygps(m) for m in (50, 100)}
    return found


# ---- the two questions -------------------------------------------------------------------------------------------


class TooLongError(Exception):
    pass


def limited(run, *arguments):
    """Answers and seconds; a library that takes too long or fails is named with the reason."""

    def stop(*_):
        raise TooLongError

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(LIMIT)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            laps = []
            while not laps or (laps[0] < QUICK and len(laps) < REPEATS):
                began = time.perf_counter()
                mean, variance = run(*arguments)
                laps.append(time.perf_counter() - began)
            return mean, variance, float(np.median(laps)), ""
    except TooLongError:
        return None, None, np.nan, f"over {LIMIT} s"
    except Exception as error:
        return None, None, np.nan, f"{type(error).__name__}: {error}"[:60]
    finally:
        signal.alarm(0)


def closeness(arguments):
    sets = {}
    flats = common.load("UK flats", arguments.data_dir)
    if flats is not None:
        sets["UK flats"] = (*common.split(*flats, 10_000, arguments.seed), FLATS)
    X, y = common.plane(20_000, arguments.seed, density=30.0)
    sets["plane"] = (X[:10_000], y[:10_000], X[10_000:], y[10_000:], PLANE)
    records = []
    for name, (X, y, X_test, y_test, kernel) in sets.items():
        mean_ref, variance_ref, seconds, _ = limited(exact, X, y, X_test, kernel)
        records.append(record(name, "nearfield exact", "", 0.0, seconds, y_test, mean_ref, variance_ref))
        for family, settings in methods().items():
            if arguments.only and not family.startswith(tuple(arguments.only)):
                continue
            for setting, run in settings.items():
                mean, variance, seconds, why = limited(run, X, y, X_test, kernel)
                if mean is None:
                    print(f"{name}, {family} {setting}: {why}", flush=True)
                    continue
                kl = float(nf.metrics.kl_divergence(mean, variance, mean_ref, variance_ref).mean())
                records.append(record(name, family, setting, kl, seconds, y_test, mean, variance))
                print(records[-1], flush=True)
    header = ["data", "method", "setting", "KL a point", "RMSE", "mean NLL", "s"]
    rows = [
        [
            r["data"],
            r["family"],
            r["setting"],
            f"{r['kl']:.1e}" if r["kl"] > 1e-9 else "0",
            f"{r['rmse']:.4f}",
            f"{r['nll']:.4f}",
            f"{r['seconds']:.2f}",
        ]
        for r in records
    ]
    print()
    common.table(header, rows)
    for name in sets:
        verdict(name, [r for r in records if r["data"] == name])
    return records


def record(data, family, setting, kl, seconds, y_test, mean, variance):
    return {
        "data": data,
        "family": family,
        "setting": setting,
        "kl": kl,
        "seconds": seconds,
        "rmse": float(nf.metrics.rmse(y_test, mean)),
        "nll": float(nf.metrics.mean_nll(y_test, mean, var=variance)),
    }


def verdict(name, records):
    """Who is the fastest within a distance of the exact process."""
    for limit in (1e-2, 1e-3, 1e-4):
        good = [r for r in records if r["kl"] <= limit and "exact" not in r["family"]]
        ours, given = (
            min((r["seconds"] for r in good if r["family"] == own), default=np.nan)
            for own in ("nearfield", "nearfield, by hand")
        )
        print(f"{name}, KL of {limit:g} a point: nearfield {ours:.2f} s, by hand {given:.2f} s; ", end="")
        peers = [r for r in good if not r["family"].startswith("nearfield")]
        if not peers:
            print("no other approximation reaches it")
            continue
        best = min(peers, key=lambda r: r["seconds"])
        seconds = best["seconds"]
        print(f"next {best['family']} {best['setting']} {seconds:.2f} s, ", end="")
        print(f"{seconds / ours:.1f} and {seconds / given:.1f} times as long")


def growers():
    """Methods that are tried on ever more points."""
    chosen = {
        "nearfield": local(1e-3),
        "HistGradientBoosting (no uncertainty)": boosting,
        "sparse GP, k-means, 512": sparse(512),
    }
    if importlib.util.find_spec("gpytorch"):
        chosen["GPyTorch SVGP, 512, 2 epochs"] = gpytorch_svgp(512, 2)
    if importlib.util.find_spec("MuyGPyS"):
        chosen["MuyGPyS, 50"] = muygps(50)
    if importlib.util.find_spec("gpboost"):
        chosen["GPBoost Vecchia, 20"] = gpboost(20)
    return chosen


def grow_one(family, size, seed):
    X, y = common.plane(2 * size, seed, density=30.0)
    X, y, X_test, y_test = X[:size], y[:size], X[size:], y[size:]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        growers()[family](X[:600], y[:600], X_test[:600], PLANE)  # what there is to import
        (mean, variance), seconds = common.timed(lambda: growers()[family](X, y, X_test, PLANE))
    nll = None if variance is None else float(nf.metrics.mean_nll(y_test, mean, var=variance))
    rmse = float(nf.metrics.rmse(y_test, mean))
    print(json.dumps({"n": size, "family": family, "seconds": seconds, "rmse": rmse, "nll": nll}))


def growth(arguments):
    """Each in a process of its own, which can be ended."""
    records, over = [], set()
    for size in (int(n) for n in arguments.sizes):
        for family in growers():
            if family in over:
                continue
            command = [sys.executable, __file__, "--one", family, str(size), "--seed", str(arguments.seed)]
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=arguments.limit, check=True)
                records.append(json.loads(done.stdout.strip().splitlines()[-1]))
                print(records[-1], flush=True)
            except subprocess.TimeoutExpired:
                over.add(family)
                print(f"{size}: {family}: over {arguments.limit} s", flush=True)
            except subprocess.CalledProcessError as error:
                over.add(family)
                print(f"{size}: {family}: failed: {error.stderr.strip().splitlines()[-1][:80]}", flush=True)
    print()
    rows = [
        [f"{r['n']:.0e}", r["family"], f"{r['seconds']:.2f}", f"{r['rmse']:.4f}", f"{r['nll'] or np.nan:.4f}"]
        for r in records
    ]
    common.table(["N, and as many test points", "method", "s", "RMSE", "mean NLL"], rows)
    return records


def boosting(X, y, X_test, kernel):
    from sklearn.ensemble import HistGradientBoostingRegressor

    del kernel
    return HistGradientBoostingRegressor(random_state=0).fit(X, y).predict(X_test), None


# ---- pictures ----------------------------------------------------------------------------------------------------

COLOURS = dict(
    zip(
        [
            "nearfield",
            "sparse GP",
            "GPBoost Vecchia",
            "GPBoost full-scale",
            "MuyGPyS",
            "GPyTorch",
            "scikit-learn",
            "Hist",
        ],
        ["#d55e00", "#0072b2", "#009e73", "#56b4e9", "#cc79a7", "#7f7f7f", "#e69f00", "#bcbd22"],
        strict=True,
    )
)


def colour(family):
    return next((c for start, c in COLOURS.items() if family.startswith(start)), "black")


def draw(results, folder):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    folder.mkdir(parents=True, exist_ok=True)
    if results.get("closeness"):
        records = [r for r in results["closeness"] if "exact" not in r["family"]]
        names = list(dict.fromkeys(r["data"] for r in records))
        figure, axes = plt.subplots(1, len(names), figsize=(7 * len(names), 5.4), layout="constrained", squeeze=False)
        for ax, name in zip(axes[0], names, strict=True):
            for family in dict.fromkeys(r["family"] for r in records):
                line = [  # in the order of settings, the dearer the later
                    (r["seconds"], max(r["kl"], 1e-9)) for r in records if (r["data"], r["family"]) == (name, family)
                ]
                if line:
                    width = 3 if family.startswith("nearfield") else 1.6
                    style = "o--" if "hand" in family else "o-"
                    ax.loglog(*zip(*line, strict=True), style, color=colour(family), linewidth=width, label=family)
            time_of_exact = min(
                r["seconds"] for r in results["closeness"] if r["data"] == name and "exact" in r["family"]
            )
            ax.axvline(time_of_exact, color="0.6", linestyle="--", label="an exact GP takes so long")
            ax.set_xlabel("seconds, fit and prediction with standard deviations", fontsize=13)
            ax.set_ylabel("KL from the exact GP, nats a point", fontsize=13)
            ax.set_title(f"{name}: 10 000 training points", fontsize=14)
            ax.grid(alpha=0.25)
        axes[0][-1].legend(fontsize=10, loc="center left", bbox_to_anchor=(1.02, 0.5), frameon=False)
        figure.savefig(folder / "error-against-time.png", dpi=90)
        plt.close(figure)
    if results.get("growth"):
        figure, ax = plt.subplots(figsize=(9.5, 5.4), layout="constrained")
        for family in dict.fromkeys(r["family"] for r in results["growth"]):
            line = [(r["n"], r["seconds"]) for r in results["growth"] if r["family"] == family]
            style = "o--" if "exact" in family or "Hist" in family else "o-"
            ax.loglog(*zip(*line, strict=True), style, color=colour(family), label=family, linewidth=2)
        ax.set_xlabel("training points, and as many test points", fontsize=13)
        ax.set_ylabel("seconds, fit and prediction", fontsize=13)
        ax.grid(alpha=0.25)
        ax.legend(fontsize=11, loc="center left", bbox_to_anchor=(1.02, 0.5), frameon=False)
        figure.savefig(folder / "time-against-n.png", dpi=90)
        plt.close(figure)


def main():
    parser = common.parser(__doc__.splitlines()[0])
    parser.add_argument("questions", nargs="*", default=["closeness", "growth"])
    parser.add_argument("--only", nargs="*", help="libraries whose names start so, in closeness (default: all)")
    parser.add_argument("--sizes", type=float, nargs="*", default=[1e4, 1e5, 1e6])
    parser.add_argument("--limit", type=int, default=LIMIT, help="seconds after which growth gives a library up")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, default=Path("out/peers"), help="folder for the pictures and the numbers")
    arguments = parser.parse_args()
    if arguments.one:
        grow_one(arguments.one[0], int(arguments.one[1]), arguments.seed)
        return
    arguments.out.mkdir(parents=True, exist_ok=True)
    path = arguments.out / "results.json"
    results = json.loads(path.read_text()) if path.exists() else {}
    for question in arguments.questions:
        results[question] = {"closeness": closeness, "growth": growth}[question](arguments)
        path.write_text(json.dumps(results, indent=1))
    draw(results, arguments.out)


if __name__ == "__main__":
    main()
