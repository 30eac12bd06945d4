"""The account that a local model gives of itself: set at the fit, renewed when data are taken in later."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np

from ..common.types import Floats
from ..common.warnings import warn
from ..local.centers import Placement
from ..local.choices import Choice
from ..reporting.report import Report
from ._parameters import LocalParameters


class Clock:
    """Seconds between laps."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, stage: str) -> None:
        """End a stage."""
        now = time.perf_counter()
        self.laps[stage] = now - self._last
        self._last = now


class Reporting(LocalParameters):
    """What was found and chosen, in `report_` and in warnings."""

    report_: Report
    _predictor: Any

    def _warn_unmet(self, choice: Choice) -> None:
        if not choice.met:
            warn(
                f"tolerance={self.tolerance:g} could not be met: {choice.divergence:.1e} nats of KL per test point "
                "from the exact Gaussian process were reached. A larger tolerance accepts it; radius, spacing and "
                "features can be set by hand."
            )

    def _make_report(self, choice: Choice, clock: Clock, median_neighbours: int, served: float) -> None:
        """Set `report_`, and warn of what it has to say; `served` is the share of samples that have a centre nearby."""
        measured = not np.isnan(choice.divergence)
        if measured and served < 1 and not self.open_centers:
            measured = False
            warn(
                f"{1 - served:.2g} of the samples are farther from all centres than the measurements assume, and "
                "open_centers=False opens none for them: how far the model is from the exact Gaussian process is not "
                "known. More centres, or open_centers=True, would tell."
            )
        elif measured:
            self._warn_unmet(choice)
        predictor, radius = self._predictor, self.radius_
        exact = predictor.plan.is_exact
        self.report_ = Report(
            n_samples=predictor.n_samples,
            n_features=self.n_features_in_,
            method="the exact Gaussian process" if exact else choice.candidate.label,
            reason=choice.reason,
            divergence=choice.divergence if measured else None,
            divergence_error=choice.error if measured else None,
            tolerance=float(self.tolerance) if measured else None,
            tolerance_met=choice.met if measured else None,
            n_probes=choice.n_probes,
            n_centers=len(self.centers_),
            n_kernel_space=predictor.n_kernel_space,
            n_components=0 if self.feature_map_ is None else self.feature_map_.n_components,
            spacing=self.spacing_,
            radius=radius,
            median_neighbours=median_neighbours,
            least_neighbours=predictor.plan.count or 0,
            degrees=() if self.feature_map_ is None else self.feature_map_.degrees,
            hyperparameters={
                "length_scale": self.length_scale_,
                "signal_variance": self.signal_variance_,
                "noise_variance": self.noise_variance_,
            },
            variance_shares=tuple((self.kernel_.variances / self.kernel_.variance).tolist()),
            seconds=clock.laps,
            model_bytes=predictor.n_bytes,
            served=served,
            trials=tuple((t.candidate.label, t.divergence, t.cost) for t in choice.trials),
        )

    def _renew_report(self, median_neighbours: int) -> None:
        """Say what has changed with data taken in later, and that the distance was measured before."""
        predictor, before = self._predictor, self.report_
        self.report_ = replace(
            before,
            n_samples=predictor.n_samples,
            n_kernel_space=predictor.n_kernel_space,
            median_neighbours=median_neighbours,
            model_bytes=predictor.n_bytes,
            n_measured=before.n_measured or before.n_samples,
        )

    def _share_served(self, placement: Placement, X: Floats) -> float:
        """Share of the samples that are as near to a centre as the measurements assume."""
        return 1.0 if self._are_spaced() else float(np.mean(placement.serves(X)))
