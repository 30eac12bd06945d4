"""What learning is asked for: hyperparameters that are given, and how the others are to be learnt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..common.types import Floats

Progress = Callable[[str, float, float], None]
"""Called as `progress(stage, done, value)`, with `done` from 0 to 1 and the likelihood per point reached."""


@dataclass(frozen=True, eq=False)
class Fixed:
    """Hyperparameters that are given; None means to be learnt.

    Attributes
    ----------
    length_scales : ndarray of shape (J, q) or None
        One row per Gaussian; one column for all columns of the data, or one per column.
    variances : ndarray of shape (J,) or None
    noise_variance : float or None
    """

    length_scales: Floats | None = None
    variances: Floats | None = None
    noise_variance: float | None = None

    @property
    def is_complete(self) -> bool:
        """Whether nothing is left to be learnt."""
        return all(v is not None for v in (self.length_scales, self.variances, self.noise_variance))


@dataclass(frozen=True, eq=False)
class LearningRequest:
    """What to learn and with how much effort; the parameters of an estimator, checked.

    Attributes
    ----------
    fixed : Fixed
    n_scales : int or None
        Number of Gaussians wanted where neither length scales nor signal variances are given; None learns it.
    n_given : int
        Number of Gaussians where length scales or signal variances are given, or `n_scales` is 1.
    ard : bool
        Learn one length scale per column.
    n_restarts : int
        Random starts besides the systematic ones.
    time_budget : float
        Seconds after which the best hyperparameters so far are returned, with a warning.
    n_jobs : int or None
        Threads; None uses every core.
    progress : callable or None
    columns : sequence of str or None
        Names of the columns of the data, for warnings.
    """

    fixed: Fixed = Fixed()
    n_scales: int | None = 1
    n_given: int = 1
    ard: bool = False
    n_restarts: int = 2
    time_budget: float = 60.0
    n_jobs: int | None = None
    progress: Progress | None = None
    columns: Sequence[str] | None = None
