"""Which cells the clusters and the features figures are made of, and their results held against the paper's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from . import published
from .cells import Cell, Record, Results
from .settings import Settings
from .verdicts import Comparison, compare

SKETCHES = ("rademacher", "tensor_srht")
STRUCTURED_FROM = 5  # columns below which structured Fourier features have only a handful of frequencies
COLUMNS = {"uk_flats": 2, "yacht": 6, "kin8nm": 8}
LOCAL = 2.0  # theta of the features figure, in length scales


@dataclass(frozen=True)
class Curve:
    """One method with one setting, over all seeds."""

    data: str
    protocol: str
    method: str
    sampling: str
    D: int
    spacing: float | None

    def cell(self, seed: int) -> Cell:
        """Its cell of one seed."""
        return Cell(self.data, self.protocol, seed, self.method, self.sampling, self.D, self.spacing)

    def records(self, results: Results, settings: Settings) -> list[Record]:
        """Its results, one per seed; of a run that is not complete, those there are."""
        cells = [self.cell(seed) for seed in range(settings.n_seeds(self.data, self.protocol))]
        return [results[cell] for cell in cells if cell in results]


def fourier_samplings(data: str) -> tuple[str, ...]:
    """Kinds of Fourier features that make sense for a data set."""
    return ("gaussian", "structured", "orthogonal") if COLUMNS[data] >= STRUCTURED_FROM else ("gaussian", "orthogonal")


def cluster_curves(settings: Settings, data: str, protocol: str) -> Iterator[Curve]:
    """KL against theta."""
    for D in settings.cluster_sizes:
        for sampling in SKETCHES:
            for spacing in settings.spacings:
                yield Curve(data, protocol, "maclaurin", sampling, D, spacing)
        yield Curve(data, protocol, "ours", "", D, None)


def feature_curves(settings: Settings, data: str, protocol: str) -> Iterator[Curve]:
    """RMSE and KL against D."""
    for D in settings.feature_sizes:
        for sampling in fourier_samplings(data):
            yield Curve(data, protocol, "fourier", sampling, D, None)
        for sampling in SKETCHES:
            yield Curve(data, protocol, "maclaurin", sampling, D, None)
            yield Curve(data, protocol, "maclaurin", sampling, D, LOCAL)
        yield Curve(data, protocol, "ours", "", D, None)


def cells_of(curves: list[Curve], settings: Settings) -> list[Cell]:
    """Cells of the curves, seed by seed, so that each problem is made once."""
    most = max((settings.n_seeds(c.data, c.protocol) for c in curves), default=0)
    return [
        curve.cell(seed)
        for seed in range(most)
        for curve in curves
        if seed < settings.n_seeds(curve.data, curve.protocol)
    ]


def compare_curve(curve: Curve, records: list[Record], settings: Settings) -> dict[str, Comparison]:
    """KL per test point and RMSE against the published values, where there are any for this protocol and size."""
    kl, rmse = [r.kl_mean for r in records], [r.rmse for r in records]
    theirs = published.table().get((curve.data, curve.method, curve.sampling, curve.spacing, curve.D))
    if theirs is None or curve.protocol != "published" or not settings.is_full(curve.data):
        return {"kl": compare(kl), "rmse": compare(rmse)}
    same = curve.data != "uk_flats"
    m = theirs.n_test
    return {
        "kl": compare(kl, theirs.kl_sum / m, theirs.kl_sum_std / m, theirs.runs, same_data=same),
        "rmse": compare(rmse, theirs.rmse, theirs.rmse_std, theirs.runs, same_data=same),
    }
