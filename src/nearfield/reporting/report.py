"""What a local model chose, why, and how far it is from the exact Gaussian process, in words and numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Report:
    """The account a fitted `LocalGPRegressor` gives of itself; print it.

    Attributes
    ----------
    n_samples, n_features : int
    method : str
        What was chosen, in words.
    reason : str
    divergence : float or None
        Mean KL divergence per test point from the exact Gaussian process, KL(model || exact), in nats, measured at
        probes; 0 for the exact process, None where it was not measured.
    divergence_error : float or None
        Its standard error.
    tolerance : float or None
    tolerance_met : bool or None
    n_probes : int
    n_centers : int
    n_kernel_space : int
        Centres solved in kernel space.
    n_components : int
        Features a centre, 0 where there are none.
    spacing, radius : float or None
        In length scales; None means a single centre, and all points.
    median_neighbours : int
    least_neighbours : int
        So many nearest points are taken where the radius holds fewer, and everywhere if there is no radius.
    degrees : tuple of int
        Of the Taylor features, one a length scale; none where there are others, or none.
    hyperparameters : dict
    variance_shares : tuple of float
        Share of each length scale in the signal variance.
    seconds : dict
        Stage -> time.
    model_bytes : int
        Memory of the fitted model, training data included.
    served : float
        Share of the samples that a centre is near to; for the others one is opened when they are asked for.
    n_measured : int
        Number of samples when the distance was measured, where data were taken in later; else 0.
    trials : tuple of (label, divergence, cost) of the candidates measured
    """

    n_samples: int
    n_features: int
    method: str
    reason: str
    divergence: float | None
    divergence_error: float | None
    tolerance: float | None
    tolerance_met: bool | None
    n_probes: int
    n_centers: int
    n_kernel_space: int
    n_components: int
    spacing: float | None
    radius: float | None
    median_neighbours: int
    hyperparameters: dict[str, float | NDArray[np.float64]]
    seconds: dict[str, float]
    model_bytes: int
    least_neighbours: int = 0
    degrees: tuple[int, ...] = ()
    variance_shares: tuple[float, ...] = (1.0,)
    served: float = 1.0
    n_measured: int = 0
    trials: tuple[tuple[str, float, float], ...] = field(default=(), repr=False)

    def __str__(self) -> str:
        return "\n".join([self.title, *(f"  {name:<15} {text}" for name, text in self.rows())])

    @property
    def title(self) -> str:
        """What it is the report of."""
        columns = "1 column" if self.n_features == 1 else f"{self.n_features} columns"
        return f"Local Gaussian process on {self.n_samples} samples of {columns}"

    def rows(self) -> list[tuple[str, str]]:
        """The report line by line, as (name, text)."""
        return [
            ("method", self.method),
            ("chosen because", self.reason),
            ("distance", self._distance()),
            ("hyperparameters", ", ".join(f"{k} = {_number(v)}" for k, v in self.hyperparameters.items())),
            *self._scales(),
            ("centres", self._centres()),
            ("neighbourhoods", self._neighbourhoods()),
            ("time", ", ".join(f"{k} {v:.2f} s" for k, v in self.seconds.items())),
            ("memory", f"{self.model_bytes / 2**20:.1f} MiB"),
        ]

    def _distance(self) -> str:
        if self.divergence is None and self.served < 1:
            return "not known, since some samples are far from all centres"
        if self.divergence is None:
            return "not measured, since everything was given"
        if self.divergence == 0 and self.radius is None and self.n_components == 0 and not self.least_neighbours:
            return "none: this is the exact Gaussian process"
        verdict = "within" if self.tolerance_met else "ABOVE"
        return (
            f"{self.divergence:.1e} nats of KL per test point from the exact Gaussian process "
            f"(standard error {self.divergence_error:.0e}, {self.n_probes} probes), "
            f"{verdict} the tolerance of {self.tolerance:g}"
            + (f"; measured at the fit, with {self.n_measured} samples" if self.n_measured else "")
        )

    def _scales(self) -> list[tuple[str, str]]:
        if len(self.variance_shares) == 1:
            return []
        lengths: Any = self.hyperparameters["length_scale"]
        parts = [f"{_number(v)} ({share:.0%})" for v, share in zip(lengths, self.variance_shares, strict=True)]
        return [("length scales", f"{', '.join(parts)} of the signal variance")]

    def _centres(self) -> str:
        text = f"{self.n_centers}"
        if self.n_centers == 0:
            text = "every test point"
        elif self.spacing is not None:
            share = "every point" if self.served == 1 else f"{self.served:.0%} of the points"
            text += f", {share} within {self.spacing:g} length scales of one"
        if self.n_components:
            degrees = ", ".join(map(str, self.degrees))
            kind = f"Taylor features of degree {degrees}" if self.degrees else "features"
            text += f"; {self.n_components} {kind} each"
        if self.n_components and self.n_kernel_space:
            text += f", {self.n_kernel_space} in kernel space instead"
        return text

    def _neighbourhoods(self) -> str:
        if self.radius is None:
            return f"the {self.least_neighbours} nearest points" if self.least_neighbours else "all points"
        least = f", the nearest {self.least_neighbours} at least" if self.least_neighbours else ""
        return f"within {self.radius:g} length scales, {self.median_neighbours} points in the median{least}"


def _number(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if hasattr(value, "tolist"):
        return "[" + ", ".join(_number(v) for v in value.tolist()) + "]"
    if isinstance(value, list):
        return "[" + ", ".join(_number(v) for v in value) + "]"
    return str(value)
