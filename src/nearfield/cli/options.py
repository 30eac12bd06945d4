"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

Data = Annotated[str, typer.Argument(help="Table: CSV, TSV, either in gzip, or Parquet; - is the standard input.")]
Target = Annotated[str, typer.Option("--target", "-t", help="Column to predict.")]
Features = Annotated[
    str | None,
    typer.Option(
        "--features", "-f", help="Columns to predict from, with commas. Default: all others that hold numbers."
    ),
]
Identifier = Annotated[str | None, typer.Option("--id", help="Column that names the rows; never a feature.")]
OneHot = Annotated[
    str | None, typer.Option("--one-hot", help="Text columns to turn into columns of zeros and ones, with commas.")
]
Drift = Annotated[
    str | None,
    typer.Option(
        "--drift",
        help="What enters linearly, beside the process of the features: columns, with commas, text as C(column); or "
        "linear or quadratic, in the features.",
    ),
]
Groups = Annotated[
    str | None,
    typer.Option(
        "--groups",
        help="Columns of categories, with commas, whose values have normal effects with a learnt variance (random "
        "effects). Values that the model has not seen are no error when it predicts.",
    ),
]
Method = Annotated[
    str,
    typer.Option(
        "--method",
        help="local: any number of rows; exact: up to some thousand rows; features: one global map of random features.",
    ),
]
Tolerance = Annotated[
    float,
    typer.Option("--tolerance", help="Largest distance of a local model from the exact one, nats per test point."),
]
Distance = Annotated[
    float, typer.Option("--tolerance", min=1e-9, help="Distance from the exact process, nats per test point.")
]
NScales = Annotated[
    str | None,
    typer.Option("--n-scales", help="Length scales in the kernel: a number or auto. Default: auto for local, else 1."),
]
Ard = Annotated[
    bool | None,
    typer.Option(
        "--ard/--no-ard",
        help="A length scale for every column, or one for all. Default: every column beyond three columns; in two or "
        "three, the likelihood of up to 1000 rows decides.",
        show_default=False,
    ),
]
Scale = Annotated[
    bool,
    typer.Option(
        "--scale/--no-scale",
        help="Divide columns by their standard deviation for learning, or not. It matters where they share a length "
        "scale (--no-ard). Length scales are given in the units of the table either way.",
    ),
]
Sphere = Annotated[
    bool | None,
    typer.Option(
        "--sphere/--no-sphere",
        help="Take longitude and latitude in degrees as places on the earth, with distances in km, or as they are. "
        "Default: yes, where two columns are named so (lon, long, lng, longitude; lat, latitude). With --sphere and "
        "other names, the first two features are longitude and latitude.",
        show_default=False,
    ),
]
Transform = Annotated[
    str,
    typer.Option(
        "--transform",
        help="Of the target, for a local model: identity, log, sqrt, boxcox, yeojohnson, or auto. Answers are in the "
        "units of the table either way.",
    ),
]
Noise = Annotated[
    str,
    typer.Option(
        "--noise",
        help="Of a local model: constant, local (of another size in each place), or auto, by what fits.",
    ),
]
Likelihood = Annotated[
    str,
    typer.Option(
        "--likelihood", help="Tails of a local model's noise: gaussian, student (heavy ones), or auto, by what fits."
    ),
]
KernelName = Annotated[
    str,
    typer.Option(
        "--kernel",
        help="gaussian, matern12, matern32, matern52, rational_quadratic, or auto, which compares the first four.",
    ),
]
Rotated = Annotated[
    bool,
    typer.Option("--rotated", help="Learn directions that length scales belong to, of two or three coordinates."),
]
NFeatures = Annotated[int, typer.Option("--n-features", help="Random features of --method features.")]
Seed = Annotated[int, typer.Option("--seed", help="For everything random: the same seed gives the same model.")]
NJobs = Annotated[int | None, typer.Option("--n-jobs", help="Threads. Default: every core.")]
Encoding = Annotated[str | None, typer.Option("--encoding", help="Of text. Default: UTF-8.")]
TableOut = Annotated[
    str, typer.Option("--out", "-o", help="Table to write: .csv, .tsv, either with .gz, or .parquet; - is stdout.")
]
Level = Annotated[float, typer.Option("--level", help="Probability of the interval from lower to upper.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of words.")]
