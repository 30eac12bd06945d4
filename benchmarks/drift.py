"""Covariates: as a drift, through a boosting mean, or in the process, beside boosting alone and linear alone.

*trials*: five settings of the boosting mean, each fitted to four fifths of the training rows of a split of its own
(`--seed 100`), and scored on the rest; `CHOSEN` is what was best. *prices*: Lucas County (25 357 sales) and
California (20 640 districts) with their covariates; nine rows of ten to train, the rest to test; RMSE, mean NLL,
coverage of 95 % intervals and seconds of CPU to fit and predict. Roles of columns are chosen once, below. GPBoost is
there where it can be imported; with `OMP_NUM_THREADS=1` all methods have one core. *coverage*: data made with known
coefficients, a rough process and hyperparameters learnt each time; how often 95 % intervals hold the truth. *rows*:
what ten drift columns cost, with `OPENBLAS_NUM_THREADS=1`.

    python benchmarks/drift.py [trials] [prices] [coverage] [rows] [--seeds 1] [--only Lucas] [--methods drift]
"""

import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import norm
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import _common as common
import nearfield as nf


def lucas(data_dir):
    """Sales with what is known of a house before it is sold; the assessor's value is left out, which is a price."""
    table = pd.read_csv(Path(data_dir) / "lucas_county_house_sales.csv.gz")
    columns = pd.DataFrame({"east": table["x_coord"] / 1e3, "north": table["y_coord"] / 1e3})
    columns["log_area"], columns["log_lot"] = np.log(table["TLA"]), np.log(table["lotsize"].clip(lower=100))
    columns["age"], columns["age2"] = table["age"], table["age"] ** 2
    for name in ("rooms", "beds", "baths", "halfbaths", "garagesqft", "frontage", "depth"):
        columns[name] = table[name].astype(float)
    for name in ("stories", "wall", "garage", "syear"):
        columns[name] = table[name].astype(str)
    return columns, table["log_price"].to_numpy(), ["east", "north"]


def california(data_dir):
    """Districts: rooms, bedrooms and people per household, income and age, as logarithms where they are sizes."""
    table = pd.read_csv(Path(data_dir) / "california_housing.csv.gz")
    columns = pd.DataFrame({"lon": table["longitude"], "lat": table["latitude"], "age": table["housing_median_age"]})
    for name, source in (("rooms", "total_rooms"), ("bedrooms", "total_bedrooms"), ("people", "population")):
        columns[f"log_{name}"] = np.log(table[source] / table["households"])
    columns["log_households"] = np.log(table["households"])
    columns["income"], columns["log_income"] = table["median_income"], np.log(table["median_income"])
    return columns, np.log(table["median_house_value"].to_numpy(float)), ["lon", "lat"]


DATA = {"Lucas County": lucas, "California": california}


def encoded(X):
    """Categories as columns of zeros and ones, numbers in units of their spread."""
    words = [name for name in X if X[name].dtype.kind not in "fiu"]
    numbers = [name for name in X if name not in words]
    hot = OneHotEncoder(drop="first", sparse_output=False, handle_unknown="ignore")
    return make_column_transformer((hot, words), (StandardScaler(), numbers))


def boosting(max_iter=400, learning_rate=0.06, max_leaf_nodes=31):
    return HistGradientBoostingRegressor(
        max_iter=max_iter, learning_rate=learning_rate, max_leaf_nodes=max_leaf_nodes, random_state=0
    )


TRIALS = [(400, 0.06, 31), (150, 0.1, 15), (600, 0.03, 15), (300, 0.06, 8), (800, 0.03, 6)]  # see `boosting`
CHOSEN = {"Lucas County": TRIALS[4], "California": TRIALS[1]}  # by `trials`


def with_normal_errors(make):
    """A regressor alone: normal errors of one size, that of cross-fitted residuals."""

    def run(X, y, X_test, y_test, _):
        model = make(X)
        spread = float(np.std(y - cross_val_predict(model, X, y, cv=5)))
        mean = model.fit(X, y).predict(X_test)
        return mean, norm(mean, spread).logpdf(y_test), (mean - 1.96 * spread, mean + 1.96 * spread)

    return run


def ours(**parameters):
    """A local model; `drift` True takes all columns that are no coordinates."""

    def run(X, y, X_test, y_test, places):
        given = {"random_state": 0, **parameters}
        setting = given.pop("setting", CHOSEN["Lucas County" if "east" in places else "California"])
        if given.pop("everything", False):
            transform = encoded(X).fit(X)
            X, X_test = transform.transform(X), transform.transform(X_test)
            given |= {"ard": True, "n_scales": 1, "tolerance": 1e-2}
        else:
            given["coordinates"] = places
        if given.get("drift") is True:
            given["drift"] = [name for name in X if name not in places]
        if given.get("mean") is True:
            given["mean"] = make_pipeline(encoded(X), boosting(*setting))
        model = nf.LocalGPRegressor(**given).fit(X, y)
        answer = model.predict_distribution(X_test)
        return answer.mean, answer.logpdf(y_test), answer.interval(0.95)

    return run


TREES = 50  # of GPBoost, each of which takes a step of its process


def gpboost(trees):
    """GPBoost's Vecchia process, with a linear mean or boosted trees; their defaults otherwise."""

    def run(X, y, X_test, y_test, places):
        import gpboost as gpb

        rest = X.drop(columns=places)
        transform = encoded(rest).fit(rest)
        F, F_test = (transform.transform(table.drop(columns=places)) for table in (X, X_test))
        if trees:  # which find their own way in space as well
            F, F_test = (np.column_stack([a, b[places]]) for a, b in ((F, X), (F_test, X_test)))
        process = gpb.GPModel(
            gp_coords=X[places].to_numpy(),
            cov_function="matern",
            cov_fct_shape=1.5,
            gp_approx="vecchia",
            num_neighbors=20,
        )
        if trees:
            data = gpb.Dataset(F, label=y)
            # Steps of a length of their own: with fixed ones, trees and process together overshoot (twice the RMSE).
            given = {"learning_rate": 0.1, "max_depth": 4, "line_search_step_length": True, "verbose": -1}
            booster = gpb.train(params=given, train_set=data, gp_model=process, num_boost_round=TREES)
            answer = booster.predict(
                data=F_test, gp_coords_pred=X_test[places].to_numpy(), predict_var=True, pred_latent=False
            )
            mean, variance = answer["response_mean"], answer["response_var"]
        else:
            columns = np.column_stack([np.ones(len(F)), F])
            process.fit(y=y, X=columns)
            answer = process.predict(
                gp_coords_pred=X_test[places].to_numpy(),
                X_pred=np.column_stack([np.ones(len(F_test)), F_test]),
                predict_var=True,
            )
            mean, variance = answer["mu"], answer["var"]
        std = np.sqrt(variance)
        return mean, norm(mean, std).logpdf(y_test), (mean - 1.96 * std, mean + 1.96 * std)

    return run


METHODS = {
    "linear alone": with_normal_errors(lambda X: make_pipeline(encoded(X), LinearRegression())),
    "boosting alone": with_normal_errors(lambda X: make_pipeline(encoded(X), boosting())),
    "process of coordinates": ours(),
    "drift and process": ours(drift=True),
    "boosting and process": ours(mean=True),
    "boosting and process in turn": ours(mean=True, mean_rounds=3),
    "all columns in the process": ours(everything=True),
    "GPBoost, linear": gpboost(False),
    "GPBoost, trees": gpboost(True),
}


def trials(options):
    """Scores of settings of the boosting mean, on a part of the training rows of one split."""
    for name, load in DATA.items():
        if options.only and options.only not in name:
            continue
        X, y, places = load(options.data_dir)
        order = np.random.RandomState(options.seed).permutation(len(y))[: options.rows]
        order = order[len(order) // 10 :]  # the training rows
        held_out, train = order[: len(order) // 5], order[len(order) // 5 :]
        print(f"\n{name}, split {options.seed}: trees, learning rate and leaves of boosting, RMSE and NLL", flush=True)
        for setting in TRIALS:
            run = ours(mean=True, setting=setting)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                mean, density, _ = run(X.iloc[train], y[train], X.iloc[held_out], y[held_out], places)
            print(f"{setting!s:20} {nf.metrics.rmse(y[held_out], mean):8.4f} {-density.mean():8.4f}", flush=True)


def prices(options):
    """A line per method and split as soon as it is known, and means over the splits at the end."""
    for name, load in DATA.items():
        if options.only and options.only not in name:
            continue
        if not options.data_dir:
            print("(no data: name their folder by --data-dir or NEARFIELD_DATA)")
            return
        X, y, places = load(options.data_dir)
        chosen = {method: run for method, run in METHODS.items() if options.methods in method}
        results = {method: [] for method in chosen}
        heading = f"{'RMSE':>8} {'NLL':>8} {'95 %':>7} {'CPU s':>8}"
        print(f"\n{name}\n{'':30} {heading}", flush=True)
        for seed in range(options.seed, options.seed + options.seeds):
            order = np.random.RandomState(seed).permutation(len(y))[: options.rows]
            test, train = order[: len(order) // 10], order[len(order) // 10 :]
            for method, run in chosen.items():
                start = time.process_time()
                try:
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        mean, density, (low, high) = run(X.iloc[train], y[train], X.iloc[test], y[test], places)
                except ImportError:
                    continue
                inside = np.mean((low <= y[test]) & (y[test] <= high))
                scores = nf.metrics.rmse(y[test], mean), -density.mean(), inside, time.process_time() - start
                results[method].append(scores)
                print(f"{method:28} {seed} {_in_line(scores)}", flush=True)
        print("means", flush=True)
        for method, rows in results.items():
            print(f"{method:30} {_in_line(np.mean(rows, axis=0)) if rows else '(not installed)'}", flush=True)


def _in_line(scores):
    rmse, nll, inside, seconds = scores
    return f"{rmse:8.4f} {nll:8.4f} {100 * inside:6.1f}% {seconds:8.1f}"


def coverage(options, n=200, draws=200):
    """A rough process (two short scales), a covariate that varies in space, and one that does not."""
    truth, inside, naive = np.array([1.0, 2.0, -1.0]), [], []
    for seed in range(draws):
        rng = np.random.RandomState(options.seed + seed)
        places = rng.uniform(0, 10, (n, 2))
        smooth = np.sin(places[:, 0] / 2) + 0.3 * rng.standard_normal(n)
        F = np.column_stack([np.ones(n), smooth, rng.standard_normal(n)])
        squares = np.sum((places[:, None] - places[None]) ** 2, axis=2)
        K = 0.6 * np.exp(-0.5 * squares / 0.7**2) + 0.6 * np.exp(-0.5 * squares / 2.0**2) + 0.1 * np.eye(n)
        y = F @ truth + np.linalg.cholesky(K) @ rng.standard_normal(n)
        model = nf.ExactGPRegressor(coordinates=[0, 1], drift=[2, 3], n_scales=2, n_restarts=0, n_jobs=1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            lower, upper = model.fit(np.column_stack([places, F[:, 1:]]), y).drift_coef_.interval()
        inside.append((lower <= truth) & (truth <= upper))
        ordinary = np.linalg.lstsq(F, y, rcond=None)[0]
        variance = np.sum((y - F @ ordinary) ** 2) / (n - 3)
        half = 1.96 * np.sqrt(np.diag(np.linalg.inv(F.T @ F)) * variance)
        naive.append(np.abs(ordinary - truth) <= half)
    print(f"\n95 % intervals of coefficients, {draws} draws of {n} points, hyperparameters by restricted likelihood")
    for name, rows in (("drift_coef_", inside), ("ordinary least squares", naive)):
        shares = ", ".join(f"{100 * share:.1f} %" for share in np.mean(rows, axis=0))
        print(f"{name:24} intercept, smooth and rough covariate: {shares}", flush=True)


def rows(options, n=1_000_000):
    """Seconds of CPU, on one thread, to fit and predict with and without ten drift columns, hyperparameters given.

    In turn, and the least of several: others may be using the machine.
    """
    n = min(n, options.rows or n)
    X, y = common.plane(n, options.seed)
    rng = np.random.RandomState(1)
    F = rng.standard_normal((n, 10))
    wide, target = np.column_stack([X, F]), y + F @ rng.standard_normal(10)
    given = {"length_scale": 1.0, "signal_variance": 1.0, "noise_variance": 0.1, "n_scales": 1, "random_state": 0}
    given |= {"n_jobs": 1, "coordinates": [0, 1]}
    first = nf.LocalGPRegressor(drift=[2], **given).fit(wide[:250_000], target[:250_000])
    first.predict(wide[:250_000], return_std=True)  # compiled loops are made once
    print(f"\n{n} rows: seconds of CPU to fit, and to predict as many with std", flush=True)
    least = {}
    for _ in range(REPEATS):
        for name, drift, values in (("without", "constant", y), ("ten drift columns", list(range(2, 12)), target)):
            start = time.process_time()
            model = nf.LocalGPRegressor(drift=drift, **given).fit(wide, values)
            fitted = time.process_time()
            model.predict(wide, return_std=True)
            seconds = fitted - start, time.process_time() - fitted
            del model
            least[name] = min(least.get(name, seconds), seconds, key=sum)
    for name, (fit, predict) in least.items():
        print(f"{name:20} {fit:7.1f} {predict:7.1f}")
    print(f"{sum(least['ten drift columns']) / sum(least['without']):.2f} times as long in all")


REPEATS = 3  # of what is timed

PARTS = {"trials": trials, "prices": prices, "coverage": coverage, "rows": rows}

if __name__ == "__main__":
    arguments = common.parser(__doc__.splitlines()[0])
    arguments.add_argument("parts", nargs="*", help=", ".join(PARTS))
    arguments.add_argument("--seeds", type=int, default=1, help="number of splits, from --seed on")
    arguments.add_argument("--rows", type=int, default=None, help="use so many at most")
    arguments.add_argument("--only", default="", help="part of the name of a data set")
    arguments.add_argument("--methods", default="", help="part of the names of methods")
    chosen = arguments.parse_args()
    for part in chosen.parts or PARTS:
        PARTS[part](chosen)
