"""Coefficients of a drift with standard errors, as a table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import norm

from ..common.arrays import side_by_side
from ..common.types import Floats


class Coefficient(NamedTuple):
    """A coefficient of a drift; for several targets the value is (k,), and the error too where they differ in it."""

    value: Any
    std_error: Any


@dataclass(frozen=True, eq=False)
class DriftCoefficients:
    """Coefficients of a drift by generalised least squares; print it, or ask for `to_frame()`.

    `coef["area"]` is a pair of value and standard error; `np.asarray(coef)` are the values.

    Attributes
    ----------
    names : tuple of str
    values : ndarray of shape (p,) or (p, n_targets)
    covariance : ndarray of shape (p, p), or (p, p, n_targets)
        Of the errors of the values; of shape (p, p) where it is the same for all targets.
    """

    names: tuple[str, ...]
    values: Floats
    covariance: Floats

    @property
    def std_errors(self) -> Floats:
        """Standard errors (p,), or (p, n_targets) where the targets differ in them."""
        errors: Floats = np.sqrt(np.clip(np.diagonal(self.covariance).T, 0.0, None))
        return errors

    @staticmethod
    def of_targets(answers: list[DriftCoefficients]) -> DriftCoefficients:
        """Those of several targets, from those of each."""
        values = side_by_side([each.values for each in answers])
        return DriftCoefficients(answers[0].names, values, side_by_side([each.covariance for each in answers]))

    def interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """Lower and upper ends of central intervals, in the shape of the values."""
        half = norm.ppf(0.5 + 0.5 * level) * self.std_errors
        half = half if self.values.ndim == half.ndim else half[:, None]
        return self.values - half, self.values + half

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __getitem__(self, name: str) -> Coefficient:
        if name not in self.names:
            raise KeyError(f"The drift has no column {name!r}: it has {', '.join(map(repr, self.names))}.")
        i = self.names.index(name)
        value, error = self.values[i], self.std_errors[i]
        return Coefficient(*(each if np.ndim(each) else float(each) for each in (value, error)))

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.array(self.values, dtype=dtype)

    def rows(self, level: float = 0.95) -> list[tuple[str, float, float, float, float, float]]:
        """Name, value, standard error, their ratio, and the interval; row by row, target by target."""
        values, (lower, upper) = self.values.reshape(len(self), -1), self.interval(level)
        errors = np.broadcast_to(self.std_errors.reshape(len(self), -1), values.shape)
        lower, upper = lower.reshape(values.shape), upper.reshape(values.shape)
        result = []
        for t in range(values.shape[1]):
            for i, name in enumerate(self.names):
                value, error = float(values[i, t]), float(errors[i, t])
                ratio = value / error if error > 0 else float("nan")
                label = name if values.shape[1] == 1 else f"{name} [{t}]"
                result.append((label, value, error, ratio, float(lower[i, t]), float(upper[i, t])))
        return result

    def first_target(self) -> tuple[tuple[str, float, float], ...]:
        """Name, value and standard error of each coefficient for the first target."""
        values, errors = (each.reshape(len(self), -1)[:, 0] for each in (self.values, self.std_errors))
        return tuple(zip(self.names, values.tolist(), errors.tolist(), strict=True))

    def to_frame(self, level: float = 0.95) -> Any:
        """The same as a pandas DataFrame, indexed by name."""
        import pandas as pd

        columns = ["coef", "std_error", "z", "lower", "upper"]
        rows = self.rows(level)
        return pd.DataFrame([row[1:] for row in rows], columns=columns, index=[row[0] for row in rows])

    def __str__(self) -> str:
        rows = self.rows()
        width = max([len(row[0]) for row in rows], default=0)
        lines = [f"{'':{width}}  {'coef':>11} {'std error':>11} {'z':>8}   95 % interval"]
        for name, value, error, ratio, lower, upper in rows:
            lines.append(f"{name:{width}}  {value:11.4g} {error:11.3g} {ratio:8.1f}   {lower:.4g} to {upper:.4g}")
        return "\n".join(lines)

    __repr__ = __str__
