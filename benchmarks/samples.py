"""Joint samples, areas and gradients beside the exact process, and a map of a million places from a million data.

`flats` (UK flats) and `matern` (a draw of a Matern 3/2 process): 10 000 training points, and the same hyperparameters
for the local model and the exact process. Draws at the same places: errors of their means and covariances in standard
errors (1 is chance alone), ratios of variances, standard deviations of means over 50 areas in closed form and from
draws, and the Kolmogorov-Smirnov test of maxima over areas, of draws with `exact=True` and of further exact draws too.
Gradients beside the exact process's and beside differences. `seams`: the largest step of draws along lines, across
borders of cells and inside of cells. `million`: times.
"""

import resource
import time
import warnings
from itertools import pairwise

import numpy as np
from scipy.stats import kstest
from sklearn.cluster import KMeans

import _common as common
import nearfield as nf

NAMES = ("flats", "matern", "seams", "million")
N_TRAIN, N_PLACES, N_AREAS = 10_000, 1000, 50


def problem(name, arguments):
    """Training data, places, and the settings of hyperparameters."""
    rng = np.random.RandomState(arguments.seed)
    if name == "flats":
        loaded = common.load("UK flats", arguments.data_dir)
        if loaded is None:
            return None
        X, y, places, _ = common.split(*loaded, N_TRAIN, arguments.seed, N_PLACES)
        learnt = nf.LocalGPRegressor(random_state=0, noise="constant", likelihood="gaussian").fit(X, y)
        return X, y, places, {**learnt.kernel_.parameters(), "noise_variance": learnt.noise_variance_}
    kernel = nf.mixtures.matern(1.5, length_scale=0.15)
    X, places = rng.uniform(0, 1, (N_TRAIN, 2)), rng.uniform(0, 1, (N_PLACES, 2))
    factor = np.linalg.cholesky(kernel(X, X) + 1e-8 * np.eye(N_TRAIN))
    y = factor @ rng.standard_normal(N_TRAIN) + 0.1**0.5 * rng.standard_normal(N_TRAIN)
    return X, y, places, {**kernel.parameters(), "noise_variance": 0.1}


def against_exact(name, arguments):
    given = problem(name, arguments)
    if given is None:
        return
    X, y, places, settings = given
    S = arguments.samples
    model = nf.LocalGPRegressor(**settings, tolerance=arguments.tolerance, random_state=0).fit(X, y)
    exact = nf.ExactGPRegressor(**settings).fit(X, y)
    report = model.report_
    print(
        f"{name}: {report.method}; {model.kernel_.n_scales} scales, long ones with {report.n_global} features", end=""
    )
    print("; the mean is exact" if report.exact_mean else "")
    mean, joint = exact.predict(places, return_cov=True)
    std = np.sqrt(np.diag(joint))
    draws, seconds = common.timed(lambda: model.sampler(S, random_state=1)(places))
    all_data, longer = common.timed(lambda: model.sampler(S, random_state=1, exact=True)(places))
    observed = np.sqrt(std**2 + settings["noise_variance"])
    bias = np.sqrt(np.mean(((model.predict(places) - mean) / observed) ** 2))
    error = (np.cov(draws) - joint) / np.outer(std, std) * S**0.5
    chance = np.sqrt(1 + (joint / np.outer(std, std)) ** 2)
    distance = np.linalg.norm(places[:, None] - places[None], axis=2)
    edges = np.quantile(distance[np.triu_indices(len(places), 1)], [0, 0.001, 0.01, 0.1, 1])
    by_distance = [
        np.sqrt(np.mean((error / chance)[(distance > low) & (distance <= high)] ** 2)) for low, high in pairwise(edges)
    ]
    ratios = draws.var(axis=1, ddof=1) / std**2
    rows = [
        ["mean of draws less the model's mean, in standard errors (rms)",
         f"{np.sqrt(np.mean(((draws.mean(axis=1) - model.predict(places)) / std * S**0.5) ** 2)):.2f}"],
        ["model's mean less the exact one, in standard deviations of an observation (rms)", f"{bias:.4f}"],
        ["variances of draws over exact ones: mean, and 5 to 95 % (chance alone: 1, "
         f"{1 - 1.64 * (2 / S) ** 0.5:.2f} to {1 + 1.64 * (2 / S) ** 0.5:.2f})",
         f"{ratios.mean():.3f}, {np.quantile(ratios, 0.05):.2f} to {np.quantile(ratios, 0.95):.2f}"],
        ["covariances, in standard errors (rms), by quantile of the distance of a pair: 0.1, 1, 10, 100 %",
         ", ".join(f"{each:.2f}" for each in by_distance)],
        [f"seconds for {S} draws at {len(places)} places; with exact=True", f"{seconds:.1f}; {longer:.1f}"],
    ]  # fmt: skip
    rows += areas(model, exact, places, joint, draws, all_data, arguments)
    rows += gradients(model, exact, places)
    common.table([name, ""], rows)


def areas(model, exact, places, joint, draws, all_data, arguments):
    labels = KMeans(N_AREAS, n_init=1, random_state=0).fit_predict(places / places.std(axis=0))
    A = (labels == np.arange(N_AREAS)[:, None]) / np.bincount(labels, minlength=N_AREAS)[:, None]
    truth = np.sqrt(np.einsum("gi,ij,gj->g", A, joint, A))
    closed, seconds = common.timed(lambda: model.predict_areas(places, labels))
    from_draws = (A @ draws).std(axis=1, ddof=1)
    other = exact.sample_y(places, arguments.samples, random_state=2)
    p = [p_values(labels, each, other) for each in (draws, all_data)]
    p.append(p_values(labels, exact.sample_y(places, arguments.samples, random_state=3), other))
    alone = np.sqrt((A**2) @ np.diag(joint))
    spread = np.quantile((from_draws / truth) ** 2, [0, 1])
    return [
        ["areas: variances in closed form over exact ones, least and largest",
         f"{((closed.std / truth) ** 2).min():.5f}, {((closed.std / truth) ** 2).max():.5f} ({seconds:.1f} s)"],
        ["areas: variances from draws over exact ones: mean, least and largest",
         f"{np.mean((from_draws / truth) ** 2):.3f}, {spread[0]:.3f}, {spread[1]:.3f}"],
        ["areas: std if places were independent, over exact", f"{np.median(alone / truth):.2f}"],
        ["maxima over areas, Kolmogorov-Smirnov beside exact draws: areas with p < 0.05 (of 50), least p",
         "; ".join(f"{name} {np.sum(each < 0.05)}, {min(each):.4f}"
                   for name, each in zip(("draws", "exact=True", "other exact draws"), p, strict=True))],
    ]  # fmt: skip


def p_values(labels, draws, other):
    """Of the hypothesis that maxima over each area have the same distribution."""
    groups = [labels == g for g in range(N_AREAS)]
    return np.array([kstest(draws[own].max(axis=0), other[own].max(axis=0)).pvalue for own in groups])


def gradients(model, exact, places):
    (slope, std), (expected, exact_std) = (each.predict_gradient(places, return_std=True) for each in (model, exact))
    unit = np.broadcast_to(np.atleast_2d(model.kernel_.length_scales)[0], places.shape[1])
    rows = []
    worst = 0.0
    for c in range(places.shape[1]):
        e = 1e-4 * unit[c] * np.eye(places.shape[1])[c]
        near, far = (model.predict(places + i * e) - model.predict(places - i * e) for i in (1, 2))
        differences = (8 * near - far) / (12 * e[c])
        worst = max(worst, np.quantile(np.abs(slope[:, c] - differences) / np.abs(slope).max(), 0.99))
    rows.append(["gradients: from differences of predictions, over the largest (99 % of places)", f"{worst:.0e}"])
    rows.append(["gradients: error beside exact, in exact standard deviations (rms); std over exact (5, 50, 95 %)",
                 f"{np.sqrt(np.mean(((slope - expected) / exact_std) ** 2)):.3f}; "
                 + ", ".join(f"{q:.2f}" for q in np.quantile(std / exact_std, [0.05, 0.5, 0.95]))])  # fmt: skip
    return rows


def seams(arguments):
    """Steps of draws along lines at a resolution at which the function hardly changes."""
    X, y = common.plane(20_000, arguments.seed)
    rows = []
    for blend in (True, False):
        model = nf.LocalGPRegressor(
            length_scale=1.0, signal_variance=1.0, noise_variance=0.1, blend=blend, random_state=0
        ).fit(X, y)
        side = X.max()
        lines = np.linspace(0.1 * side, 0.9 * side, 8)
        x = np.linspace(0.05 * side, 0.95 * side, 40_000)
        across, inside = [], []
        sampler = model.sampler(20, random_state=0)
        for height in lines:
            places = np.column_stack([x, np.full_like(x, height)])
            steps = np.abs(np.diff(sampler(places), axis=0)).max(axis=1)
            _, owner = model._predictor.engine.nearest(model._predictor.placement, places, True)
            border = np.diff(owner) != 0
            across.append(steps[border].max())
            inside.append(steps[~border].max())
        rows.append(["blended" if blend else "by the nearest centre", f"{max(across):.1e}", f"{max(inside):.1e}"])
    common.table([f"largest step of 20 draws, {x[1] - x[0]:.4f} length scales apart", "across borders", "inside"], rows)


def million(arguments):
    n = arguments.n
    X, y = common.plane(n, arguments.seed, n_waves=50)
    model = nf.LocalGPRegressor(length_scale=1.0, signal_variance=1.0, noise_variance=0.1, random_state=0)
    _, fit = common.timed(lambda: model.fit(X, y))
    axis = np.linspace(0, X.max(), int(n**0.5))
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    model.predict(grid[:1000], return_std=True)  # loads compiled loops
    model.sample_y(grid[:1000], 6)  # likewise
    before = time.process_time()
    _, predict = common.timed(lambda: model.predict(grid, return_std=True))
    between = time.process_time()
    sampler = model.sampler(100, random_state=0)
    _, first = common.timed(lambda: sampler(grid))
    after = time.process_time()
    _, again = common.timed(lambda: sampler(grid))
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    common.table(
        [f"{n} data, {len(grid)} places", "seconds", "of processors"],
        [
            ["fit", f"{fit:.1f}", ""],
            ["mean and std", f"{predict:.1f}", f"{between - before:.1f}"],
            ["100 draws", f"{first:.1f}", f"{after - between:.1f}"],
            ["the same again", f"{again:.1f}", ""],
            ["largest memory of the process", f"{most:.1f} GiB", ""],
        ],
    )


def main():
    parser = common.parser(__doc__)
    parser.add_argument("--data", nargs="*", default=NAMES, choices=NAMES)
    parser.add_argument("--samples", type=int, default=2000)
    parser.add_argument("--tolerance", type=float, default=1e-4)
    parser.add_argument("--n", type=int, default=1_000_000)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in arguments.data:
        if name in ("flats", "matern"):
            against_exact(name, arguments)
        else:
            {"seams": seams, "million": million}[name](arguments)
        print(flush=True)


if __name__ == "__main__":
    main()
