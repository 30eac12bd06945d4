"""Rasters with chunks of Dask: one task per slice, which is filled when it is computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import dask
import dask.array as da
import numpy as np

from ..common.types import Floats
from .slices import Filler, gaps_of


def filled(
    array: Any, kept: Sequence[Any], places: Sequence[dict[Any, int]], filler: Filler, is_series: bool
) -> tuple[da.Array, da.Array, da.Array]:
    """Means and standard deviations with the chunks of a DataArray, and the distance from the exact process per slice.

    Parameters
    ----------
    array : DataArray with chunks
    kept : sequence of str
        Dimensions of a slice.
    places : sequence of dict
        Where the slices to fill are in the other dimensions, the fullest first.
    filler : Filler
    is_series : bool
        Whether hyperparameters are learnt once, from the fullest slice: at once, and not when it is computed.
    """
    learnt: dict[str, Any] = {}
    if is_series and len(places) > 1:
        learnt = filler(array.isel(places[0]).compute(), learnt).learnt
    # Slices side by side leave the cores to each other, and have no line of progress to share.
    n_jobs = {"n_jobs": 1} if len(places) > 1 and filler.regressor.n_jobs is None else {}
    quiet = replace(filler, regressor=filler.regressor.set_params(progress=None, **n_jobs), progress=None)
    others = [dim for dim in array.dims if dim not in kept]
    shape = tuple(array.sizes[dim] for dim in others)
    apart = array.transpose(*others, *kept)
    tasks = {tuple(place[dim] for dim in others): _task(apart.isel(place), quiet, learnt) for place in places}
    size, dtype = apart.shape[len(others) :], np.float32 if array.dtype == np.float32 else np.float64
    gaps = gaps_of(apart)
    as_is = [apart.where(~gaps).data.astype(dtype), da.where(gaps.data, np.nan, 0.0).astype(dtype)]

    def joined(part: int) -> da.Array:
        """All slices of the array, of means or of standard deviations."""
        rows = [
            da.from_delayed(tasks[index][part], size, dtype) if index in tasks else as_is[part][index]
            for index in np.ndindex(shape)
        ]
        whole = da.stack(rows).reshape((*shape, *size))
        return whole.transpose([apart.dims.index(dim) for dim in array.dims]).rechunk(array.chunks)

    nothing = da.full((), np.nan)
    distances = [da.from_delayed(tasks[i][2], (), float) if i in tasks else nothing for i in np.ndindex(shape)]
    chunks = tuple(array.chunksizes[dim] for dim in others)
    return joined(0), joined(1), da.stack(distances).reshape(shape).rechunk(chunks)


def _task(part: Any, filler: Filler, learnt: dict[str, Any]) -> Any:
    """Means, standard deviations and distance of one slice, to be computed; its chunks are put together for it."""
    return dask.delayed(_fill, nout=3, pure=False)(part, dask.delayed(filler, traverse=False, pure=False), learnt)


def _fill(part: Any, filler: Filler, learnt: dict[str, Any]) -> tuple[Floats, Floats, Floats]:
    answer = filler(part, learnt)
    dtype = np.float32 if part.dtype == np.float32 else np.float64
    distance = np.nan if answer.divergence is None else answer.divergence
    return answer.mean.astype(dtype), answer.std.astype(dtype), np.asarray(distance, dtype=float)
