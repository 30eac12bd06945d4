"""What learning found, and what a user should know of how it went."""

from __future__ import annotations

from dataclasses import dataclass

from ..kernels import Kernel


@dataclass(frozen=True, eq=False)
class Learned:
    """Hyperparameters, and how they were found.

    Attributes
    ----------
    kernel : Kernel
    noise_variance : float
    log_likelihood : float
        Per point, of the blocks used (of all data where `n_blocks` is 1); NaN where nothing was to be learnt.
    n_blocks, block_size : int
    n_evaluations : int
    seconds : float
    converged : bool
    on_bounds : tuple of str
        Names of the estimates that sit on a bound.
    """

    kernel: Kernel
    noise_variance: float
    log_likelihood: float = float("nan")
    n_blocks: int = 0
    block_size: int = 0
    n_evaluations: int = 0
    seconds: float = 0.0
    converged: bool = True
    on_bounds: tuple[str, ...] = ()


def messages(learned: Learned, time_budget: float) -> list[str]:
    """What a user should know of how learning went: nothing, where all went well."""
    sentences = []
    if not learned.converged:
        sentences.append(early_stop(learned.seconds, learned.n_evaluations, time_budget))
    if learned.on_bounds:
        sentences.append(f"These estimates sit on a bound: {'; '.join(learned.on_bounds)}.")
    return sentences


def early_stop(seconds: float, n_evaluations: int, time_budget: float) -> str:
    """Sentence for learning that ended before its maximum."""
    return (
        f"Learning stopped after {seconds:.2g} s and {n_evaluations} evaluations before it converged. The best found "
        f"so far is used; raise time_budget ({time_budget:g} s) or fix some hyperparameters."
    )
