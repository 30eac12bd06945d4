"""What learning is asked for: hyperparameters that are given, and how the others are to be learnt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..common.budget import Progress
from ..common.types import Floats
from .learned import Learned
from .work import Work


@dataclass(frozen=True, eq=False)
class Fixed:
    """Hyperparameters that are given; None means to be learnt."""

    length_scales: Floats | None = None  # (J, q): one row per Gaussian; one column for all of the data's, or for each
    variances: Floats | None = None  # (J,)
    noise_variance: float | None = None

    @property
    def is_complete(self) -> bool:
        """Whether nothing is left to be learnt."""
        return all(v is not None for v in (self.length_scales, self.variances, self.noise_variance))


@dataclass(frozen=True, eq=False)
class LearningRequest:
    """What to learn and with how much effort; the parameters of an estimator, checked."""

    fixed: Fixed = Fixed()
    n_scales: int | None = 1  # number of Gaussians where neither length scales nor variances are given; None learns it
    n_given: int = 1  # number of Gaussians where they are, or `n_scales` is 1
    ard: bool = False  # learn one length scale per column
    n_restarts: int = 2  # random starts besides the systematic ones
    time_budget: float = 60.0  # seconds after which the best so far is returned, with a warning
    n_jobs: int | None = None  # threads; None uses every core
    progress: Progress | None = None
    columns: Sequence[str] | None = None  # names of the columns of the data, for warnings
    family: str = "gaussian"  # of the kernel; "auto" compares some
    tied: int = 0  # with `ard`, so many of the first columns share a length scale: x, y and z of the earth
    is_ard_open: bool = False  # whether the data decide `ard` first; see `decide_ard`
    ard_reason: str = ""  # how they did, in words; empty where they were not asked
    is_again: bool = False  # whether the same data were learnt from before, without the weights that they have now
    work: Work | None = None  # what learning may take, and earlier learning of the same fit has left; None is all

    @property
    def is_one_kernel(self) -> bool:
        """Whether the number of components is told, by itself or by what is given."""
        return self.n_scales == 1 or self.fixed.length_scales is not None or self.fixed.variances is not None

    def as_before(self, learned: Learned) -> LearningRequest:
        """The same for data learnt from before, with weights of the library's own.

        Columns share a length scale, or do not, as they did there.
        """
        again = replace(self, is_again=True)
        if not self.is_ard_open:
            return again
        return replace(again, is_ard_open=False, ard=learned.is_ard, ard_reason=learned.ard_reason)
