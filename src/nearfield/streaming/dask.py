"""Dask collections as sources: every pass is a tree of tasks over the partitions, and no machine sees all of X."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from functools import reduce
from typing import Any, NamedTuple

import cloudpickle
import dask
import dask.array as da
import numpy as np

from ..common.threads import n_threads
from ..local.engine import RaggedEngine
from .batches import PARTITION_BITS, Batch, check_batch, rebatched
from .passes import Reduction
from .source import SAMPLE_ROWS, Source, column_of

FAN_IN = 8  # states merged by one task
LARGE = 1 << 20  # bytes, from where on models are sent by themselves


class DaskSource(Source):
    """A Dask array or data frame, with targets and weights whose partitions have the same rows.

    Parameters
    ----------
    X : dask.array.Array of shape (n, d), or dask.dataframe.DataFrame
    y : Dask array, series or data frame, or None
        Or an array in memory, where the sizes of the partitions of X are known.
    sample_weight : Dask array or series, or None
    sample_size : int
        See `Source`.
    """

    def __init__(self, X: Any, y: Any = None, sample_weight: Any = None, *, sample_size: int = SAMPLE_ROWS) -> None:
        super().__init__(sample_size)
        if X.ndim != 2:
            raise ValueError(f"The 'X' argument must have two dimensions. Got {X.ndim}.")
        columns = getattr(X, "columns", None)
        if columns is not None and all(isinstance(name, str) for name in columns):
            self.names = tuple(columns)
        self.single_target = y is None or np.ndim(y) == 1
        if isinstance(X, da.Array):
            X = X.rechunk({1: -1})
            self.sizes = tuple(X.chunks[0])
            self.n_rows = None if np.isnan(sum(self.sizes)) else int(sum(self.sizes))
            joined = None
        else:
            joined = _joined(X, y, sample_weight)
            self.sizes = (np.nan,) * (X.npartitions if joined is None else len(joined))
        # Tasks of X, targets and weights, one triple per partition.
        self._partitions = joined or list(
            zip(_tasks(X), self._aligned(y, "y"), self._aligned(sample_weight, "sample_weight"), strict=True)
        )

    def _aligned(self, values: Any, name: str) -> list[Any]:
        """Tasks of the partitions of `values`, cut as those of X."""
        if values is None:
            return [None] * len(self.sizes)
        sizes_known = self.n_rows is not None
        if not dask.is_dask_collection(values):
            if not sizes_known:
                raise ValueError(
                    f"The {name!r} argument must be a Dask collection, since the sizes of X's partitions are not known."
                )
            values = da.from_array(np.asarray(values), chunks=(self.sizes, *np.shape(values)[1:]))
        if isinstance(values, da.Array):
            values = values.rechunk(dict.fromkeys(range(1, values.ndim), -1))
            if sizes_known and not np.isnan(values.shape[0]):
                if values.shape[0] != self.n_rows:
                    raise ValueError(f"The {name!r} argument has {values.shape[0]} rows, but X has {self.n_rows}.")
                values = values.rechunk({0: self.sizes})
        tasks = _tasks(values)
        if len(tasks) != len(self.sizes):
            raise ValueError(
                f"The {name!r} argument has {len(tasks)} partitions, but X has {len(self.sizes)}; they must match."
            )
        return tasks

    def raw(self) -> Iterator[tuple[Any, Any, Any, str]]:
        """See `Source`: one partition after the other, each computed by itself."""
        for i, tasks in enumerate(self._partitions):
            X, y, weights = dask.compute(*tasks)
            yield X, y, weights, f"Partition {i}"

    def of_target(self, j: int) -> DaskSource:
        """See `Source`."""
        one, column = copy.copy(self), dask.delayed(column_of, pure=False)
        one.single_target = True
        one._partitions = [(X, None if y is None else column(y, j), weights) for X, y, weights in self._partitions]
        return one

    def run(self, reduction: Reduction, report: Callable[[int], None]) -> Any:
        """See `Source`: chains of partitions side by side, their states merged in a tree."""
        if self._partitions[0][1] is None:
            raise ValueError("The 'y' argument must be given with a Dask collection: a fit needs targets.")
        shared = dask.delayed(_for_workers(reduction), pure=False, traverse=False)
        n, n_chains = len(self._partitions), self._n_chains()
        leaves = [self._chain(shared, range(i, n, n_chains)) for i in range(n_chains)]
        n_rows = dask.delayed(sum)([leaf[0] for leaf in leaves])
        results = [_tree(shared, [leaf[1][part] for leaf in leaves]) for part in range(reduction.n_parts)]
        n_seen, *finished = dask.compute(n_rows, *results)
        report(n_seen)
        return reduction.join(finished)

    def _n_chains(self) -> int:
        """Enough to keep every thread busy, and no more: each sends its sums over the network."""
        return min(2 * _n_threads(), len(self._partitions))

    def _chain(self, shared: Any, numbers: range) -> Any:
        """Task whose result is the number of rows used of some partitions, and the parts of their state."""
        state = None
        for number in numbers:
            state = dask.delayed(_step, pure=False)(shared, state, number, *self._partitions[number])
        return dask.delayed(_parts_of, nout=2, pure=False)(shared, state)

    def predict(self, model: Any, return_std: bool, include_noise: bool) -> Any:
        """Dask arrays of a fitted model's means, and standard deviations on request, one chunk per partition."""
        k = len(model.y_mean_)
        shared = _on_workers(_for_workers(model))
        answer = dask.delayed(_predict, pure=False)
        blocks = [
            da.from_delayed(
                answer(shared, i, X, return_std, include_noise), shape=(size, (1 + return_std) * k), dtype=np.float64
            )
            for i, ((X, _, _), size) in enumerate(zip(self._partitions, self.sizes, strict=True))
        ]
        both = da.concatenate(blocks, allow_unknown_chunksizes=True)
        mean, std = both[:, :k], both[:, k:]
        if model._single_target:
            mean, std = mean[:, 0], std[:, 0] if return_std else std
        return (mean, std) if return_std else mean


def _tasks(collection: Any) -> list[Any]:
    """One task per partition."""
    # Optimised on its own, a data frame may put partitions of few columns together, and no longer match others.
    return list(np.ravel(collection.to_delayed(optimize_graph=False)))


def _joined(X: Any, y: Any, sample_weight: Any) -> list[Any] | None:
    """Tasks of a data frame with targets and weights from the same one, so that each file is read once.

    None where they are of another kind, or cannot be put side by side.
    """
    frame, d = X, len(X.columns)
    if any(values is not None and not hasattr(values, "npartitions") for values in (y, sample_weight)):
        return None
    targets = [] if y is None else [y] if y.ndim == 1 else [y[name] for name in y.columns]
    names = [f"__nearfield_{i}" for i in range(len(targets) + 1)]
    try:
        for name, column in zip(names, targets, strict=False):
            frame = _beside(frame, name, column)
        if sample_weight is not None:
            frame = _beside(frame, names[-1], sample_weight)
        tasks = list(np.ravel(frame.to_delayed()))
    except (ValueError, NotImplementedError, TypeError):
        return None
    k = len(targets)
    cut = dask.delayed(_cut, nout=3, pure=False)
    cuts = [cut(task, d, k, y is not None and y.ndim == 1, sample_weight is not None) for task in tasks]
    return [(X, y if k else None, w if sample_weight is not None else None) for X, y, w in cuts]


def _beside(frame: Any, name: str, column: Any) -> Any:
    """A data frame with a column of its own; one of another frame Dask would shuffle, like indices in any order."""
    joined = frame.assign(**{name: column})
    if type(joined.expr).__name__ != "Assign":
        raise ValueError("not of the same frame")
    return joined


def _cut(frame: Any, d: int, k: int, single: bool, weighted: bool) -> tuple[Any, Any, Any]:
    """Points, targets and weights of a joined partition."""
    y = frame.iloc[:, d] if single else frame.iloc[:, d : d + k]
    return frame.iloc[:, :d], y if k else None, frame.iloc[:, -1] if weighted else None


def _for_workers(thing: Any) -> Any:
    """A copy that leaves the cores of a worker to Dask, and its progress behind."""
    light = copy.copy(thing)
    if getattr(light, "n_jobs", 1) is None:
        light.n_jobs = 1
    if hasattr(light, "progress"):
        light.progress = None
    if hasattr(light, "_fitted"):
        light._fitted = light._fitted.with_engine(RaggedEngine(1))
    if getattr(light, "estimators_", ()):
        light.estimators_ = tuple(_for_workers(one) for one in light.estimators_)
    for name in ("model", "reduction"):
        if hasattr(light, name):
            setattr(light, name, _for_workers(getattr(light, name)))
    return light


def _on_workers(thing: Any) -> Any:
    """A task or future with something for all tasks: in the graph if it is small, else on every worker beforehand."""
    client: Any = getattr(dask.base.get_scheduler(), "__self__", None)  # of the cluster that computes collections
    has_workers = hasattr(client, "scatter") and not client.asynchronous and len(client.nthreads()) > 0
    if has_workers and _bytes_of(thing) >= LARGE:
        return client.scatter(thing, broadcast=True, hash=False)
    return dask.delayed(thing, pure=False, traverse=False)


def _bytes_of(thing: Any) -> int:
    """Size on the way to another process."""
    buffers: list[pickle.PickleBuffer] = []
    rest = cloudpickle.dumps(thing, protocol=5, buffer_callback=buffers.append)
    return len(rest) + sum(buffer.raw().nbytes for buffer in buffers)


def _n_threads() -> int:
    """Threads of the cluster, or of this machine where there is none."""
    try:
        from distributed import get_client

        return max(int(sum(get_client().nthreads().values())), 1)
    except (ImportError, ValueError):
        return n_threads(None)


class _Chained(NamedTuple):
    """What a chain has come to."""

    n: int  # rows seen
    state: Any
    held: list[Batch]  # rows seen that the state has yet to take in, fewer than are worth it


def _step(reduction: Reduction, before: _Chained | None, number: int, X: Any, y: Any, weights: Any) -> _Chained:
    """A chain with one more partition. What was before stays as it is: a task may be run again."""
    n, state, held = before or _Chained(0, reduction.start(), [])
    if len(X) == 0:
        return _Chained(n, state, held)
    where, first = f"Partition {number}", number << PARTITION_BITS
    batch = check_batch(X, y, weights, where, first, n_features=reduction.n_features)
    return _taken_in(reduction, _Chained(n + len(batch), state, [*held, batch]), least=reduction.batch_rows)


def _taken_in(reduction: Reduction, chain: _Chained, least: int) -> _Chained:
    """The chain with its rows taken into the state, if there are so many."""
    n, state, held = chain
    if sum(map(len, held)) < least:
        return chain
    state = reduction.owned(state)
    for batch in rebatched(held, reduction.batch_rows):
        state = reduction.update(state, batch)
    return _Chained(n, state, [])


def _parts_of(reduction: Reduction, chain: _Chained) -> tuple[int, list[Any]]:
    return chain.n, reduction.split(_taken_in(reduction, chain, least=1).state)


def _tree(reduction: Any, states: list[Any]) -> Any:
    """Task that merges the states of tasks, a few at a time, and finishes."""
    while len(states) > FAN_IN:
        groups = [states[i : i + FAN_IN] for i in range(0, len(states), FAN_IN)]
        states = [dask.delayed(_merged, pure=False)(reduction, group) for group in groups]
    return dask.delayed(_finished, pure=False)(reduction, states)


def _merged(reduction: Reduction, states: list[Any]) -> Any:
    return reduce(reduction.merge, states)


def _finished(reduction: Reduction, states: list[Any]) -> Any:
    # A task may be run again, so that its input must stay as it is.
    return reduction.finish(reduction.owned(_merged(reduction, states)))


def _predict(model: Any, number: int, X: Any, return_std: bool, include_noise: bool) -> Any:
    batch = check_batch(X, None, None, f"Partition {number}", 0, with_y=False)
    points = model._rows_of_source(batch.X)
    model._check_degrees(points)
    answer = model._predict_points(points, return_std, include_noise)
    answers = answer if return_std else (answer,)
    return np.concatenate([values.reshape(len(batch), -1) for values in answers], axis=1)
