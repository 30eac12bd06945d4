"""Means and totals over sets of places, with standard deviations that know how places go together."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..common.arrays import as_doubles, side_by_side
from ..common.errors import OutOfReachError
from ..common.types import Floats, Integers
from ..common.validation import is_whole
from .area_groups import Groups
from .by_target import by_target
from .samples import Sampler, seed_of
from .twins import array_of, twin_of


class Areas(NamedTuple):
    """Weighted means or totals, one per group in sorted order.

    Attributes
    ----------
    mean : ndarray of shape (G,) or (G, n_targets)
    std : ndarray of the same shape
        Of the mean or total, correlations included.
    labels : ndarray of shape (G,)
    n_places : ndarray of shape (G,)
    weight : ndarray of shape (G,)
        Sum of the weights.
    mean_error, std_error : ndarrays of the shape of `std`
        Standard errors of `mean` and `std` where these are told from samples; 0 in closed form.
    """

    mean: Floats
    std: Floats
    labels: Any
    n_places: Integers
    weight: Floats
    mean_error: Floats
    std_error: Floats

    @staticmethod
    def of_targets(answers: list[Areas]) -> Areas:
        """Those of several targets, from those of each."""
        names = ("mean", "std", "mean_error", "std_error")
        return answers[0]._replace(**{name: side_by_side([getattr(a, name) for a in answers]) for name in names})

    def to_frame(self) -> Any:
        """The same as a pandas DataFrame, indexed by group."""
        import pandas as pd

        columns: dict[str, Any] = {"n_places": self.n_places, "weight": self.weight}
        for name in ("mean", "std", "mean_error", "std_error"):
            values = getattr(self, name)
            named = (
                {name: values} if values.ndim == 1 else {f"{name}_{j}": values[:, j] for j in range(values.shape[1])}
            )
            columns |= named
        return pd.DataFrame(columns, index=pd.Index(self.labels, name="group"))


class Aggregated:
    """Sums of a regressor over sets of places.

    A subclass gives `_variances_of_sums`.
    """

    noise_variance_: float
    y_mean_: Any
    _single_target: bool

    @by_target(Areas.of_targets)
    def predict_areas(
        self,
        X: Any,
        groups: Any,
        weights: Any = None,
        *,
        total: bool = False,
        include_noise: bool = False,
        method: str = "auto",
        n_samples: int = 500,
        random_state: Any = 0,
    ) -> Areas:
        """Weighted means, or totals, over sets of places, with standard deviations that include the correlations.

        Parameters
        ----------
        X : array of shape (m, n_features)
            Places, such as the cells of a grid.
        groups : array of shape (m,)
            Label of the area that each place belongs to; where it is missing (None or NaN), to none.
        weights : array of shape (m,) or None, default=None
            How much each place counts, such as its population or the size of its cell; None counts all alike.
        total : bool, default=False
            Weighted totals instead of means.
        include_noise : bool, default=False
            Of observations at the places, each with noise of its own, instead of the function without noise.
        method : {"auto", "exact", "samples"}, default="auto"
            "exact": in closed form, by the covariances of the exact process. "samples": from functions drawn as
            `sampler` does. "auto" takes the closed form unless it is out of reach, or the target is transformed.
        n_samples : int, default=500
            Number of functions drawn.
        random_state : int, RandomState or None, default=0
            For these.

        Returns
        -------
        areas : Areas
            `mean`, `std`, `labels`, ..., one per group in sorted order; `to_frame()` makes a DataFrame of it.
        """
        twin = twin_of(self)
        if twin is not None:
            options = {"include_noise": include_noise, "n_samples": n_samples, "random_state": random_state}
            areas: Areas = twin.predict_areas(array_of(X), groups, weights, total=total, method=method, **options)
            return areas
        self._need_arrays("predict_areas")  # type: ignore[attr-defined]
        if method not in ("auto", "exact", "samples"):
            raise ValueError(f"The 'method' argument must be 'auto', 'exact' or 'samples'. Got {method!r}.")
        if not is_whole(n_samples, 2):
            raise ValueError(f"The 'n_samples' argument must be an integer of at least 2. Got {n_samples!r}.")
        points: Floats = self._validate_test(X)  # type: ignore[attr-defined]
        chosen = Groups.of(len(points), groups, weights, bool(total))
        variance = None
        if method != "samples":
            try:
                variance = self._variances_of_sums(points, chosen)
            except (OutOfReachError, MemoryError):
                if method == "exact":
                    raise
        if variance is not None:
            return self._in_closed_form(points, chosen, variance, bool(include_noise))
        sampler = Sampler(self, int(n_samples), seed_of(random_state))
        draws = sampler.areas(X, groups, weights, total=bool(total), include_noise=bool(include_noise))
        return self._from_draws(points, chosen, draws)

    def _in_closed_form(self, X: Floats, groups: Groups, variance: Floats, include_noise: bool) -> Areas:
        """From variances (G,) of the sums."""
        if include_noise:
            noise: Floats = self._noise_at(X)  # type: ignore[attr-defined]
            inside = groups.owner >= 0
            variance = variance + np.bincount(
                groups.owner[inside], (groups.weights**2 * noise)[inside], len(groups.labels)
            )
        mean, std = self._sums_of_means(X, groups), np.sqrt(variance)
        std = std if mean.ndim == 1 else np.repeat(std[:, None], mean.shape[1], axis=1)
        none = np.zeros_like(std)
        return Areas(mean, std, groups.labels, groups.n_places, groups.total, none, none)

    def _from_draws(self, X: Floats, groups: Groups, draws: Floats) -> Areas:
        """From draws (G, S) or (G, k, S) of the sums."""
        S, std = draws.shape[-1], draws.std(axis=-1, ddof=1)
        if self._means_add_up():
            mean, mean_error = self._sums_of_means(X, groups), np.zeros_like(std)
        else:  # the mean of what is transformed is not that of the transformation
            mean, mean_error = draws.mean(axis=-1), std / S**0.5
        error = std / (2.0 * (S - 1)) ** 0.5
        return Areas(mean, std, groups.labels, groups.n_places, groups.total, mean_error, error)

    def _means_add_up(self) -> bool:
        """Whether predictions are means of the function, and not of transformed observations."""
        return True

    def _sums_of_means(self, X: Floats, groups: Groups) -> Floats:
        """Weighted sums (G,) or (G, k) of the predictions at checked places."""
        mean = as_doubles(self._predict_points(X, False, False))  # type: ignore[attr-defined]
        return groups.sums(mean)

    def _variances_of_sums(self, X: Floats, groups: Groups) -> Floats | None:
        """Variances (G,) of weighted sums over checked places, in closed form; None where there is none."""
        raise NotImplementedError
