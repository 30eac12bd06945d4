"""Small data sets in the files' format, made on the spot, and settings that take moments."""

import dataclasses
import gzip

import numpy as np
import pytest

from nearfield import datasets
from nearfield.reproduction import settings as settings_module

N_ROWS = 90


def _table(name, rng):
    d = len(datasets.SOURCES[name].inputs)
    X = rng.uniform(-1, 1, (N_ROWS, d))
    if name == "uk_flats":
        X = X * [2.0, 1.5] + [-1.0, 52.0]
    y = np.sin(2 * X[:, 0]) + 0.5 * X[:, -1] + 0.1 * rng.standard_normal(N_ROWS)
    return np.round(np.column_stack([X, y]), 6)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A data folder with all three files, 90 rows each."""
    rng = np.random.RandomState(0)
    where = tmp_path / "data"
    where.mkdir()
    for name, source in list(datasets.SOURCES.items()):
        table = _table(name, rng)
        lines = []
        for row in table:
            values = dict(zip((*source.inputs, source.target), row, strict=True))
            lines.append(",".join(str(values.get(column, "x")) for column in source.columns))
        with gzip.open(where / source.file, "wt") as stream:
            stream.write("\n".join([",".join(source.columns), *lines]) + "\n")
        changed = dataclasses.replace(source, n_rows=N_ROWS, digest=datasets.digest_of(table))
        monkeypatch.setitem(datasets.SOURCES, name, changed)
    return where


@pytest.fixture
def tiny(monkeypatch):
    """`--quick` with next to nothing in it."""
    monkeypatch.setattr(settings_module, "_QUICK_SIZES", dict.fromkeys(settings_module.DATA, (50, 20)))
    monkeypatch.setattr(settings_module.Settings, "spacings", (4.0, 2.0))
    monkeypatch.setattr(settings_module.Settings, "cluster_sizes", (8, 16))
    monkeypatch.setattr(settings_module.Settings, "feature_sizes", (8, 16))


@pytest.fixture
def no_pictures(monkeypatch):
    """Picture files without a picture, where it is not the subject: matplotlib takes longer than all else."""
    figure = pytest.importorskip("matplotlib.figure")
    monkeypatch.setattr(figure.Figure, "savefig", lambda _, path, **__: path.touch())
