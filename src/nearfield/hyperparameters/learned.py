"""What learning found, and what a user should know of how it went."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sklearn.exceptions import ConvergenceWarning

from ..common.types import Floats
from ..kernels import Kernel
from ..kernels.families import FAMILIES

ADVICE = {
    ("length_scale", False): "the target varies faster than the points are spaced; more data or a fixed value are "
    "needed",
    ("length_scale", True): "the target hardly changes over the data's extent in this direction",
    ("signal_variance", False): "no signal was found beyond noise",
    ("signal_variance", True): "the trend exceeds the data; subtract it first",
    ("noise_variance", False): "the data look free of noise; fix noise_variance if you know it",
    ("noise_variance", True): "nothing but noise was found",
}
"""What an estimate on its lower or upper bound says, by its kind."""


@dataclass(frozen=True)
class OnBound:
    """An estimate that sits on a bound of what learning allows."""

    kind: str  # "length_scale", "signal_variance" or "noise_variance"
    component: int | None  # which Gaussian of the kernel; None for the noise
    column: int | None  # column that a length scale belongs to; None where it belongs to all of them
    value: float
    at_upper: bool

    def rescaled(self, units: Floats) -> list[OnBound]:
        """The same for columns multiplied by `units` (d,); a length scale of all columns becomes one per column."""
        if self.kind != "length_scale":
            return [self]
        if len(units) == 1:
            return [replace(self, value=float(self.value * units[0]))]
        columns = range(len(units)) if self.column is None else [self.column]
        return [replace(self, column=column, value=float(self.value * units[column])) for column in columns]

    def in_words(self, columns: Sequence[str] | None, n_scales: int) -> str:
        """Name, value and advice; Gaussians are numbered where there are several, columns without names are x0, ..."""
        name = self.kind.replace("_", " ")
        if self.component is not None and n_scales > 1:
            name += f" {self.component + 1}"
        if self.column is not None:
            name += f" of {f'x{self.column}' if columns is None else columns[self.column]}"
        return f"{name} = {self.value:.3g} ({ADVICE[self.kind, self.at_upper]})"


@dataclass(frozen=True, eq=False)
class Learned:
    """Hyperparameters, and how they were found.

    The likelihood is per point, of the blocks used (of all data where `n_blocks` is 1); NaN where nothing was to be
    learnt, and minus infinity where it could not be evaluated, so that what was to be learnt is a guess.
    """

    kernel: Kernel
    noise_variance: float
    log_likelihood: float = float("nan")
    n_blocks: int = 0
    block_size: int = 0
    n_evaluations: int = 0
    seconds: float = 0.0
    converged: bool = True
    on_bounds: tuple[OnBound, ...] = ()  # estimates that sit on a bound
    compared: tuple[tuple[str, float], ...] = ()  # kernels that were compared, and their likelihoods
    silent: tuple[int, ...] = ()  # columns that one component does without, and which no other was given
    standard_errors: Floats | None = None  # of the logarithms of length scales, variances and noise; NaN where given
    ard_reason: str = ""  # why columns share a length scale, or do not, where the data decided it

    @property
    def is_ard(self) -> bool:
        """Whether each column has a length scale of its own."""
        return bool(self.kernel.length_scales.shape[1] > 1)

    @property
    def surprising_bounds(self) -> tuple[OnBound, ...]:
        """Estimates on a bound that are worth a warning.

        Columns without effect have length scales as long as is allowed, which is no surprise where nobody asked for a
        length scale per column, unless it is so of all of them.
        """
        silent = [b for b in self.on_bounds if b.kind == "length_scale" and b.column is not None and b.at_upper]
        if not self.ard_reason or len(silent) == self.kernel.length_scales.size:
            return self.on_bounds
        return tuple(b for b in self.on_bounds if b not in silent)

    def rescaled(self, units: Floats) -> Learned:
        """What learning from the same data finds where their columns are multiplied by `units` (d,)."""
        kernel = replace(self.kernel, length_scales=self.kernel.length_scales * units)
        return replace(self, kernel=kernel, on_bounds=tuple(e for b in self.on_bounds for e in b.rescaled(units)))

    def kernel_in_words(self) -> str:
        """Family of the kernel, and what it was compared with; empty for the Gaussian one, if that was asked for."""
        family = FAMILIES[self.kernel.family].label
        if not self.compared:
            return "" if self.kernel.family == "gaussian" else family
        others = ", ".join(f"{name} {value:.4f}" for name, value in self.compared)
        return f"{family}, the best of these by log likelihood per sample: {others}"

    def bounds_in_words(self, columns: Sequence[str] | None = None) -> list[str]:
        """Name, value and advice per estimate on a bound; `columns` are the names of the data's columns, if any."""
        return [estimate.in_words(columns, self.kernel.n_scales) for estimate in self.on_bounds]


class OnBoundWarning(ConvergenceWarning):  # type: ignore[misc]
    """Some estimates sit on a bound."""


def on_bounds_message(learned: Learned, columns: Sequence[str] | None) -> str:
    """Sentence that names the estimates on a bound that are worth a warning."""
    told = replace(learned, on_bounds=learned.surprising_bounds)
    return f"These estimates sit on a bound: {'; '.join(told.bounds_in_words(columns))}."


def not_converged_message(log_likelihood: float, seconds: float, n_evaluations: int, time_budget: float) -> str:
    """Sentence for learning that did not come to a maximum."""
    if log_likelihood == -math.inf:
        return (
            "The likelihood could be evaluated nowhere: covariance matrices cannot be factored in the digits of a "
            "computer. Hyperparameters that were to be learnt are guesses; where signal_variance or noise_variance are "
            "given, a smaller one or a larger one avoids this."
        )
    by_time = "" if seconds <= time_budget else " It was time that ended it, and another run may end elsewhere."
    return (
        f"Learning stopped after {seconds:.2g} s and {n_evaluations} evaluations before it converged.{by_time} The "
        f"best found so far is used; raise time_budget ({time_budget:g} s) or fix some hyperparameters."
    )
