"""`nearfield evaluate`: how well a model predicts what it has not seen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import options
from .messages import CommandError, aligned, check_level, note, note_copies, note_training_rows, print_json
from .progress import bars

if TYPE_CHECKING:
    from ..common.distribution import PredictiveDistribution
    from .models import Made
    from .training import Training

EXAMPLES = """
**Examples**

- `nearfield evaluate stations.csv --target temperature --features lon,lat`

- `nearfield evaluate stations.csv --target temperature --features lon,lat --folds 5 --spatial-blocks`

- `nearfield evaluate sales.csv --target price --features lon,lat --drift "area,age,C(type)" --folds 5`

- `nearfield evaluate new.csv --model model.nf --json`
"""


def command(
    context: typer.Context,
    data: options.Data,
    target: Annotated[str | None, typer.Option("--target", "-t", help="Column to predict.")] = None,
    model: Annotated[
        str | None, typer.Option("--model", help="Score this model on all rows, instead of making new ones.")
    ] = None,
    features: options.Features = None,
    identifier: options.Identifier = None,
    one_hot: options.OneHot = None,
    drift: options.Drift = None,
    groups: options.Groups = None,
    hold_out: Annotated[float, typer.Option("--hold-out", help="Share of the rows that is held out.")] = 0.2,
    folds: Annotated[
        int | None, typer.Option("--folds", help="Cross-validate: every row is held out once, in so many models.")
    ] = None,
    relearn: Annotated[
        bool,
        typer.Option(
            "--relearn",
            help="Learn and choose everything for each fold, instead of once from the training rows of the first.",
        ),
    ] = False,
    spatial_blocks: Annotated[
        bool,
        typer.Option(
            "--spatial-blocks",
            help="Hold out whole regions instead of single rows, whose neighbours tell too much about them.",
        ),
    ] = False,
    n_blocks: Annotated[int, typer.Option("--n-blocks", help="Regions of --spatial-blocks.")] = 50,
    block_columns: Annotated[
        str | None,
        typer.Option("--block-columns", help="Columns that regions are made by, with commas. Default: all features."),
    ] = None,
    level: Annotated[float, typer.Option("--level", help="Probability of the intervals that are checked.")] = 0.95,
    method: options.Method = "local",
    tolerance: options.Tolerance = 1e-3,
    n_scales: options.NScales = None,
    ard: options.Ard = None,
    scale: options.Scale = False,
    sphere: options.Sphere = None,
    transform: options.Transform = "identity",
    noise: options.Noise = "auto",
    likelihood: options.Likelihood = "auto",
    kernel: options.KernelName = "gaussian",
    rotated: options.Rotated = False,
    n_features: options.NFeatures = 512,
    seed: options.Seed = 0,
    n_jobs: options.NJobs = None,
    encoding: options.Encoding = None,
    certify: Annotated[
        bool,
        typer.Option(
            "--certify",
            help="Hold a local model against the exact process at 64 of the rows it is scored on, by iteration.",
        ),
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Score predictions of rows that were held out: RMSE, NLL, CRPS and coverage.

    RMSE and CRPS are in the units of the target; NLL is the mean negative log likelihood; coverage is the share of
    rows inside their interval. The last line is what the mean of the training rows would reach. Neighbours of a row
    tell much about it, so single rows held out flatter a model that is to predict elsewhere: use --spatial-blocks then.
    """
    from .models import Settings

    check_level(level)
    if model is not None:
        _refuse_with_model(context)
        result = _score_model(data, model, target, level, encoding, certify)
    else:
        if target is None:
            raise CommandError("Name the column to predict with --target, or a model with --model.")
        of_process = (method, tolerance, n_scales, ard, scale, n_features, seed, n_jobs, sphere)
        settings = Settings(*of_process, transform, noise, likelihood, kernel, rotated)
        if folds is not None and folds < 2:
            raise CommandError(f"--folds must be at least 2, not {folds}.")
        if not 0 < hold_out < 1:
            raise CommandError(f"--hold-out must lie between 0 and 1, not {hold_out:g}.")
        from .training import read_training, say_what_was_read

        training = read_training(data, target, features, identifier, one_hot, encoding, drift, groups)
        say_what_was_read(training, features is not None)
        labels = _regions(training, block_columns, n_blocks, settings) if spatial_blocks else None
        splits = split(len(training.y), hold_out, folds, labels, seed)
        if certify and method != "local":
            raise CommandError("--certify is for local models.")
        result = _cross_validate(training, splits, settings, level, certify, relearn)
        result["split"] = ("spatial blocks" if spatial_blocks else "single rows") + (
            f", {folds} folds" if folds else f", {hold_out:.0%} held out"
        )
    if as_json:
        print_json(result)
    else:
        typer.echo(_words(result, level))


def _refuse_with_model(context: typer.Context) -> None:
    """Refuse options that say how models are made, where there is one."""
    given = [
        p.opts[0]
        for p in context.command.params
        if p.name not in ("data", "target", "model", "level", "encoding", "certify", "as_json")
        and getattr(context.get_parameter_source(p.name or ""), "name", "") == "COMMANDLINE"
    ]
    if given:
        raise CommandError(f"{', '.join(given)} cannot go with --model, which is scored as it is on all rows.")


# ---- splits ----------------------------------------------------------------------------------------------------------


def split(n: int, hold_out: float, folds: int | None, labels: Any, seed: int) -> list[Any]:
    """Test rows of each split, as arrays of row numbers.

    Parameters
    ----------
    n : int
        Number of rows.
    labels : ndarray of shape (n,) or None
        Rows with one label are held out together.
    """
    import numpy as np

    rng = np.random.default_rng(seed)
    groups = np.arange(n) if labels is None else labels
    sizes = np.bincount(groups)
    order = rng.permutation(np.flatnonzero(sizes))
    wanted = folds or 2
    if len(order) < wanted or n < 2 * wanted:
        regions = "" if labels is None else f" in {len(order)} regions"
        raise CommandError(f"{n} rows{regions} are too few to be split into {wanted} parts.")
    if folds is None:
        # Groups in random order until the share is reached, but never all of them.
        reached = np.cumsum(sizes[order])
        count = int(np.clip(np.searchsorted(reached, hold_out * n - 1e-9) + 1, 1, len(order) - 1))
        return [np.flatnonzero(np.isin(groups, order[:count]))]
    # Large groups first, each to the fold that is smallest.
    fold_of, totals = np.zeros(len(sizes), dtype=int), np.zeros(folds)
    if labels is None:
        fold_of[order] = np.arange(n) % folds
    else:
        for group in order[np.argsort(-sizes[order], kind="stable")]:
            fold_of[group] = int(np.argmin(totals))
            totals[fold_of[group]] += sizes[group]
    return [np.flatnonzero(fold_of[groups] == fold) for fold in range(folds)]


def _regions(training: Training, columns: str | None, n_blocks: int, settings: Any) -> Any:
    """Region of each row: clusters of the columns, each in units of its spread."""
    import numpy as np
    from sklearn.cluster import MiniBatchKMeans

    from ..common.sphere import N_CHORD_COLUMNS, Sphere
    from ..hyperparameters.space import spreads_of
    from .columns import split_names
    from .models import is_on_earth

    names = training.recipe.names
    chosen = split_names(columns) or training.recipe.process
    for name in chosen:
        if name not in names:
            raise CommandError(f"--block-columns: {name!r} is no feature; those are {', '.join(names)}.")
    if not 2 <= n_blocks <= len(training.y) // 2:
        raise CommandError(f"--n-blocks must lie between 2 and {len(training.y) // 2}, not {n_blocks}.")
    places = training.X[:, [names.index(name) for name in chosen]]
    spread = places.std(axis=0)
    if is_on_earth(settings, training.X, training.recipe) and chosen[:2] == names[:2]:
        places = Sphere().points(places)
        spread = spreads_of(places, N_CHORD_COLUMNS)
    places = places / np.where(spread > 0, spread, 1.0)
    return MiniBatchKMeans(n_blocks, random_state=settings.seed, n_init=3).fit_predict(places)


# ---- scores ----------------------------------------------------------------------------------------------------------


def _cross_validate(
    training: Training, splits: list[Any], settings: Any, level: float, certify: bool, relearn: bool
) -> dict[str, Any]:
    """Scores of all splits; hyperparameters and the approximation are those of the first unless learnt anew."""
    import numpy as np

    from .models import distribution, make

    X, y, recipe = training.X, training.y, training.recipe
    folds: list[dict[str, float]] = []
    answers, n_copies = [], 0
    unknown: dict[str, int] = {}
    same = np.unique(X, axis=0, return_inverse=True)[1].reshape(-1)  # one number for all rows with the same inputs
    made: Made | None = None
    with bars() as show:
        for i, held_out in enumerate(splits):
            train = np.setdiff1d(np.arange(len(y)), held_out)
            strange = recipe.unknown_in(X[train], X[held_out])
            unknown = {name: unknown.get(name, 0) + int(rows.sum()) for name, rows in strange.items()}
            test = held_out[~np.any([np.zeros(len(held_out), dtype=bool), *strange.values()], axis=0)]
            if not len(test):
                folds.append({"train": len(train), "test": 0})
                continue

            def report(stage: str, done: float, *_: object, number: int = i) -> None:
                show(stage if len(splits) == 1 else f"{number + 1} of {len(splits)}: {stage}", done)

            earlier = None if relearn else made
            try:
                made = make(settings, X[train], y[train], recipe, report, X[test], earlier)
            except ValueError as error:
                raise CommandError(str(error) if len(splits) == 1 else f"fold {i + 1}: {error}") from None
            found = distribution(made.model, X[test]).target(0)
            answers.append((*per_row(y[test], found, level), np.full(len(test), y[train].mean())))
            folds.append({"train": len(train), "test": len(test), **scores(*answers[-1][:4])})
            n_copies += int(np.isin(same[test], same[train]).sum())
            scored = test
    _note_unknown(unknown, sum(map(len, splits)))
    if made is None:
        raise CommandError("No test row is left to be scored.")
    n_scored = sum(len(answer[0]) for answer in answers)
    note_copies(n_copies, n_scored)
    return {
        "rows": len(y),
        "rows_dropped": training.n_dropped,
        "rows_not_scored": sum(map(len, splits)) - n_scored,
        "rows_with_copies": n_copies,
        **_overall(answers, level, training.target, recipe.names),
        "folds": folds,
        **(_certificate(made.model, X[scored]) if certify else {}),
    }


def _note_unknown(unknown: dict[str, int], n: int) -> None:
    """Say how many of `n` test rows cannot be predicted, because of which column of categories."""
    from ..reporting.numbers import counted

    for name, count in unknown.items():
        if count:
            note(
                f"not scored: {count} of {counted(n, 'test row')} with a category of {name!r} that no training row of "
                "the fold has, so that its effect is unknown"
            )


def _certificate(model: Any, X: Any) -> dict[str, Any]:
    """What the exact process says at some of the rows, of which the model was told nothing."""
    if not hasattr(model, "certify"):
        raise CommandError("--certify is for local models.")
    with bars() as show:
        model.set_params(progress=lambda stage, done, *_: show(stage, done))
        try:
            found = model._certify_points(model._rows_of_source(X), random_state=0)
        except ValueError as error:
            raise CommandError(f"--certify: {error}") from None
    return {
        "certificate": {
            "places": len(found.X),
            "divergence": found.divergence,
            "divergence_of_function": found.divergence_of_function,
            "largest": float(found.divergences.max()),
            "mean_bound_in_std": float((found.mean_bound / found.std).max()),
            "iterations": found.n_iterations,
            "converged": found.converged,
            "seconds": found.seconds,
            "words": str(found),
        }
    }


def _overall(answers: list[Any], level: float, target: str, features: list[str]) -> dict[str, Any]:
    """Scores of all rows together; `answers` are those of `per_row`, truth last but one, and what a mean says."""
    import numpy as np

    *rows, truth, baseline = (np.concatenate(arrays) for arrays in zip(*answers, strict=True))
    return {
        "level": level,
        "target": target,
        "features": features,
        "all": {"test": len(truth), **scores(*rows)},
        "rmse_of_the_mean": float(np.sqrt(np.mean((truth - baseline) ** 2))),
    }


def per_row(y: Any, found: PredictiveDistribution, level: float) -> tuple[Any, ...]:
    """Squared errors, negative log likelihoods, CRPS, whether rows are in their intervals, and the truth, each (n,)."""
    from dataclasses import replace

    import numpy as np

    positive = replace(found, scale=np.maximum(found.scale, np.finfo(float).tiny ** 0.5))
    lower, upper = found.interval(level)
    return (y - found.mean) ** 2, -positive.logpdf(y), positive.crps(y), (y >= lower) & (y <= upper), y


def scores(squares: Any, nlls: Any, crps: Any, inside: Any) -> dict[str, float]:
    """RMSE, NLL, CRPS and coverage, from those of single rows."""
    import numpy as np

    return {
        "rmse": float(np.sqrt(np.mean(squares))),
        "nll": float(np.mean(nlls)),
        "crps": float(np.mean(crps)),
        "coverage": float(np.mean(inside)),
    }


def _score_model(
    data: str, path: str, target: str | None, level: float, encoding: str | None, certify: bool
) -> dict[str, Any]:
    import numpy as np

    from ..reporting.training_rows import TrainingRows
    from ..streaming.tables import open_table
    from .columns import Unused, complete_rows, load_model, recipe_of, require_columns
    from .models import distribution, mean_of_targets, rows_at_a_time

    gp, metadata = load_model(path)
    target = target or metadata.get("target")
    if not isinstance(target, str) or len(gp.y_mean_) != 1:
        raise CommandError(f"{path} does not say what it predicts, or predicts several targets: use --target.")
    answers, n_seen, training_rows, unused = [], 0, TrainingRows(gp), Unused()
    places = []
    with open_table(data, encoding) as table:
        require_columns(table, [target])
        recipe = recipe_of(gp, metadata, table, [target])
        for X, y in complete_rows(table, recipe, target, unused, rows_at_a_time(gp)):
            if len(X):
                n_seen += training_rows.count(gp._rows_of_source(X))
                places.append(X)
                answers.append(
                    (*per_row(y, distribution(gp, X).target(0), level), np.full(len(y), mean_of_targets(gp)))
                )
    if not answers:
        raise CommandError(f"{table.name} has no row with {target!r} and all features.")
    overall = _overall(answers, level, target, recipe.names)
    n_used = overall["all"]["test"]
    unused.say("dropped")
    note_training_rows(n_seen, n_used)
    return {
        "rows": unused.n_rows,
        "rows_dropped": unused.n_rows - n_used,
        "rows_trained_on": n_seen,
        **overall,
        "folds": [],
        "split": f"all rows, by {path}",
        **(_certificate(gp, np.concatenate(places)) if certify else {}),
    }


def _words(result: dict[str, Any], level: float) -> str:
    rows = [["", "train", "test", "RMSE", "NLL", "CRPS", f"in {level:.0%}"]]
    folds = result["folds"] if len(result["folds"]) > 1 else []
    for i, fold in enumerate([*folds, result["all"]]):
        name = f"fold {i + 1}" if i < len(folds) else "held out" if len(result["folds"]) == 1 else "all"
        train = fold.get("train") or (result["folds"][0]["train"] if len(result["folds"]) == 1 else "")
        rows.append(
            [
                name,
                str(train),
                str(fold["test"]),
                *(f"{fold[score]:.4g}" if score in fold else "" for score in ("rmse", "nll", "crps")),
                f"{fold['coverage']:.1%}" if "coverage" in fold else "",
            ]
        )
    rows.append(["mean alone", "", "", f"{result['rmse_of_the_mean']:.4g}", "", "", ""])
    certificate = f"\n{result['certificate']['words']}" if "certificate" in result else ""
    return f"{result['target']} from {', '.join(result['features'])}; {result['split']}\n{aligned(rows)}{certificate}"
