"""Checks of parameters, in one sentence that names the parameter and what it takes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import utils
from sklearn.utils.validation import assert_all_finite, validate_data


def as_numbers(value: Any) -> NDArray[np.float64]:
    """Numbers given by a user as float64; NaN for words that look like numbers, truth values, and all else."""
    with suppress(TypeError, ValueError):
        numbers = np.asarray(value)
        if numbers.dtype.kind in "iufO":
            return numbers.astype(np.float64)
    return np.array([np.nan])


LARGEST_TARGET = 1e150
"""Variances of targets beyond this, or that vary by less than its inverse, are no numbers in double precision."""


def refuse_masked(values: Any, name: str, where: str = "") -> None:
    """Refuse masked values, which NumPy would take for data."""
    if not np.ma.is_masked(values):
        return
    mask = np.ma.getmaskarray(values)
    n_rows = int(mask.reshape(len(mask), -1).any(axis=1).sum())
    rows = f"~np.ma.getmaskarray({name}){'.any(axis=1)' if mask.ndim > 1 else ''}"
    raise ValueError(
        f"{where}Input {name} has masked values in {n_rows} of its {len(mask)} rows, which would be taken for data: "
        f"keep the other rows, those of {rows}, in all arguments."
    )


def refuse_without_squares(y: NDArray[np.float64]) -> None:
    """Refuse targets (n, k) whose variance overflows or underflows."""
    largest, spread = float(np.max(np.abs(y), initial=0.0)), float(np.max(np.ptp(y, axis=0), initial=0.0))
    if largest > LARGEST_TARGET or 0 < spread < 1 / LARGEST_TARGET:
        size = largest if largest > LARGEST_TARGET else spread
        what = "reaches" if largest > LARGEST_TARGET else "varies by"
        raise ValueError(
            f"Input y {what} {size:.3g}, the square of which is no number in double precision: divide y by {size:.0e}, "
            "and multiply predictions by that."
        )


def without_na(values: Any) -> Any:
    """The same with NaN for pandas' NA, which is no number to NumPy; a data frame stays one."""
    if hasattr(values, "isna"):
        if not np.any(values.isna()):
            return values
        array = without_na(np.asarray(values, dtype=object))
        return array if values.ndim == 1 else type(values)(array, index=values.index, columns=values.columns)
    if isinstance(values, list | tuple) or getattr(values, "dtype", None) == np.dtype(object):
        with suppress(ValueError):  # rows of different lengths, which others refuse
            array = np.asarray(values, dtype=object)
            is_na = np.array([type(value).__name__ == "NAType" for value in array.ravel()], dtype=bool)
            if is_na.any():
                return np.where(is_na.reshape(array.shape), np.nan, array)
    return values


def is_whole(value: Any, minimum: int) -> bool:
    """Whether a value is an integer of at least `minimum`; True and False are none."""
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= minimum


def check_random_state(random_state: Any) -> np.random.RandomState:
    """As in scikit-learn, but None is a new source of random numbers: NumPy's global one stays untouched."""
    return unseeded_random_state() if random_state is None else utils.check_random_state(random_state)


def unseeded_random_state() -> np.random.RandomState:
    """A new source of random numbers, which differ from run to run. The library has no other; its tests replace it."""
    return np.random.RandomState()


def spawn(random_state: Any, purpose: str) -> np.random.RandomState:
    """Random numbers for one purpose, independent of those for every other.

    The same integer and purpose give the same numbers. A RandomState gives a new seed at each call, None a fresh one.
    """
    if random_state is None:
        return unseeded_random_state()
    seed = check_random_state(random_state).randint(2**32, size=4, dtype=np.uint64)
    sequence = np.random.SeedSequence([*seed.tolist(), *purpose.encode()])
    return np.random.RandomState(np.random.MT19937(sequence))


def describe(estimator: object, name: str) -> str:
    """Opening of every message: which parameter of which estimator."""
    return f"The {name!r} parameter of {type(estimator).__name__}"


def check_integer(estimator: object, name: str, minimum: int) -> int:
    """Integer parameter of at least `minimum`."""
    value = getattr(estimator, name)
    if not is_whole(value, minimum):
        raise ValueError(f"{describe(estimator, name)} must be an integer of at least {minimum}. Got {value!r}.")
    return int(value)


def check_option(estimator: object, name: str, options: Sequence[str]) -> str:
    """Parameter that is one of some words."""
    value = getattr(estimator, name)
    if not isinstance(value, str) or value not in options:
        choices = ", ".join(repr(option) for option in options)
        raise ValueError(f"{describe(estimator, name)} must be one of {choices}. Got {value!r}.")
    return value


def check_bool(estimator: object, name: str) -> bool:
    """Truth value."""
    value = getattr(estimator, name)
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{describe(estimator, name)} must be True or False. Got {value!r}.")
    return bool(value)


def check_positive(estimator: object, name: str) -> float:
    """Positive, finite number."""
    value = getattr(estimator, name)
    if not isinstance(value, Real) or isinstance(value, bool) or not (0 < float(value) < np.inf):
        raise ValueError(f"{describe(estimator, name)} must be a positive, finite number. Got {value!r}.")
    return float(value)


def check_time_budget(estimator: object) -> float:
    """Positive number of seconds; infinity is no limit."""
    value = getattr(estimator, "time_budget", None)
    if not isinstance(value, Real) or isinstance(value, bool) or not float(value) > 0:
        raise ValueError(
            f"{describe(estimator, 'time_budget')} must be a positive number of seconds, or infinity for no limit. "
            f"Got {value!r}."
        )
    return float(value)


LEAST_MEMORY_BUDGET = 2**26
"""Bytes that the smallest pieces of a fit may take: 64 MiB."""


def check_memory_budget(estimator: object) -> float | None:
    """Number of bytes, at least `LEAST_MEMORY_BUDGET`; None is the usual number."""
    value = getattr(estimator, "memory_budget", None)
    if value is None:
        return None
    if not isinstance(value, Real) or isinstance(value, bool) or not float(value) >= LEAST_MEMORY_BUDGET:
        raise ValueError(
            f"{describe(estimator, 'memory_budget')} must be None or a number of bytes, at least 2**26 (64 MiB), which "
            f"the smallest pieces of a fit take; 2**30 is one GiB. Got {value!r}."
        )
    return float(value)


def check_n_targets(k: int, expected: int) -> None:
    """Refuse targets of another number than those fitted, before arithmetic would spread them over each other."""
    if k != expected:
        raise ValueError(f"The 'y' argument must have {expected} targets as in fit. Got {k}.")


def check_length_scale(estimator: object, n_columns: int, name: str = "length_scale") -> NDArray[np.float64]:
    """Positive length scales, one or one per column.

    Returns
    -------
    length_scale : ndarray of shape (1,) or (n_columns,)
    """
    value: Any = getattr(estimator, name)
    expected = f"must be a positive number, or {n_columns} of them (one per column of X)"
    try:
        scales = np.atleast_1d(np.asarray(value, dtype=np.float64))
    except (TypeError, ValueError):
        raise ValueError(f"{describe(estimator, name)} {expected}. Got {value!r}.") from None
    if scales.ndim != 1 or scales.size not in (1, n_columns) or not np.all((scales > 0) & np.isfinite(scales)):
        raise ValueError(f"{describe(estimator, name)} {expected}. Got {value!r}.")
    return scales


def validated(estimator: object, X: Any, y: Any = "no_validation", **options: Any) -> Any:
    """scikit-learn's `validate_data`, with a sentence of ours for words, and `y` as float64.

    Numbers that are written as text are numbers.
    """
    alone = isinstance(y, str) and y == "no_validation"
    refuse_times(estimator, X)
    refuse_masked(X, "X")
    X, y = without_na(X), without_na(y)
    try:
        if alone:
            return validate_data(estimator, X, **options)
        points, targets = validate_data(estimator, X, y, **options)
        targets = np.asarray(targets, dtype=np.float64)
    except ValueError as error:
        # NumPy names the word that is no number, but neither the argument nor what it takes.
        word = str(error).removeprefix("could not convert string to float: ")
        if word == str(error):
            if "NaN" in word or "infinity" in word:
                refuse_gaps(X, "X")
                refuse_gaps(None if alone else y, "y")
            raise
        name = "y" if not alone and _are_numbers(X) else "X"
        word = word.removeprefix("np.str_(").removesuffix(")")
        hint = (
            ", or name the column in drift"
            if name == "X" and hasattr(X, "columns") and hasattr(estimator, "drift")
            else ""
        )
        raise ValueError(
            f"Input {name} of {type(estimator).__name__} must hold numbers only. Got "
            f"{column_at_fault(X) if name == 'X' else ''}{word}; encode such values as numbers first{hint}."
        ) from None
    assert_all_finite(targets, input_name="y")  # None is found only once it is a number
    return points, targets


def refuse_times(estimator: object, X: Any) -> None:
    """Refuse columns of dates and times, which would silently become nanoseconds since 1970."""
    dtypes: Any = getattr(X, "dtypes", None)
    kinds = {str(name): dtype for name, dtype in dtypes.items()} if hasattr(dtypes, "items") else {}
    at_fault = [name for name, dtype in kinds.items() if getattr(dtype, "kind", "") in ("m", "M")]
    if not at_fault and not kinds and getattr(getattr(X, "dtype", None), "kind", "") not in ("m", "M"):
        return
    if at_fault or not kinds:
        name = f"Column {at_fault[0]!r}" if at_fault else "X"
        raise ValueError(
            f"{name} of {type(estimator).__name__} holds times: make them numbers in a unit of your choice, such as "
            "days, by (times - times.min()) / np.timedelta64(1, 'D')."
        )


def refuse_gaps(values: Any, name: str) -> None:
    """Name the first NaN or infinity of a table or an array, by row (the first is 0) and column; pass where none is."""
    try:
        numbers = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        return
    if numbers.ndim not in (1, 2):
        return
    wrong = np.argwhere(~np.isfinite(numbers))
    if len(wrong) == 0:
        return
    row, *column = wrong[0].tolist()
    value = numbers[tuple(wrong[0])]
    kind = "NaN" if np.isnan(value) else "infinity"
    names = getattr(values, "columns", None)
    where = f"row {row}"
    if column:
        where += f", column {column[0] if names is None else repr(str(names[column[0]]))}"
    n_rows = len({int(r) for r in wrong[:, 0]})
    more = f"; {n_rows} of {len(numbers)} rows have such" if n_rows > 1 else ""
    raise ValueError(f"Input {name} contains {kind} in {where} (counted from 0){more}. Drop such rows, or fill them.")


def column_at_fault(table: Any) -> str:
    """Opening of a message that names the first column of a data frame that does not hold numbers."""
    for name in getattr(table, "columns", ()):
        if not _are_numbers(table[name]):
            return f"column {name!r}: "
    return ""


def _are_numbers(values: Any) -> bool:
    try:
        np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        return False
    return True
