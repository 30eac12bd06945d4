"""The data sets of the paper: yacht, kin8nm and UK flats.

A file comes from the folder the caller names (`data_dir`, or the environment variable NEARFIELD_DATA), else from a
cache, else from its public source. Whatever the way, columns, rows and a checksum of the numbers must be right.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .common.files import atomic
from .common.types import Floats

VARIABLE = "NEARFIELD_DATA"


class DatasetError(ValueError):
    """A data set that is not there or not what it should be; the message says what to do."""


@dataclass(frozen=True)
class Source:
    """What a file must hold and where it comes from."""

    name: str
    file: str
    inputs: tuple[str, ...]  # columns of `X`, in order
    target: str  # column of `y`
    columns: tuple[str, ...]  # all columns of the file
    n_rows: int
    digest: str  # SHA-256 of inputs and target, see `digest_of`: the numbers count, not how the file is packed
    where: str  # for people: where the data are to be had
    url: str | None = None  # for `pooch`, where one public file holds all of it
    parse: Callable[[str], list[list[str]]] | None = None  # rows of numbers from the text of that public file

    @property
    def needs(self) -> str:
        """What the file must look like, in words."""
        return f"gzip CSV, {self.n_rows} rows, one header row: {', '.join(self.columns)}"


@dataclass(frozen=True, eq=False)
class Dataset:
    """Inputs `X` of shape (n, d), targets `y` of shape (n,), in raw units, and the names of their columns."""

    name: str
    X: Floats
    y: Floats
    inputs: tuple[str, ...]
    target: str


def _parse_spaced(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if line.strip()]


def _parse_arff(text: str) -> list[list[str]]:
    lines = iter(text.splitlines())
    for line in lines:
        if line.strip().lower() == "@data":
            break
    return [
        [c.strip() for c in line.split(",")] for line in lines if line.strip() and not line.lstrip().startswith("%")
    ]


_YACHT = ("lcb", "prismatic_coef", "length_displacement", "beam_draught", "length_beam", "froude")
_KIN8NM = tuple(f"theta{i}" for i in range(1, 9))
_FLATS = ("easting", "northing", "date", "new_build", "tenure", "ppd_category", "rec_status", "postcode", "price")

SOURCES = {
    "yacht": Source(
        "yacht",
        "yacht.csv.gz",
        _YACHT,
        "resid_resistance",
        (*_YACHT, "resid_resistance"),
        308,
        "9094835a50254fe3c7a325f1c3dee71dbda663bbd36f7015789a24b753147de2",
        "https://archive.ics.uci.edu/dataset/243/yacht+hydrodynamics",
        "https://archive.ics.uci.edu/ml/machine-learning-databases/00243/yacht_hydrodynamics.data",
        _parse_spaced,
    ),
    "kin8nm": Source(
        "kin8nm",
        "kin8nm.csv.gz",
        _KIN8NM,
        "y",
        (*_KIN8NM, "y"),
        8192,
        "53b5dc21f9f87a19216d1fa42cefc38872f41534ea9f9464de8d4d3c6efcf210",
        "https://www.openml.org/d/189",
        "https://www.openml.org/data/download/3626/dataset_2175_kin8nm.arff",
        _parse_arff,
    ),
    # The monthly files of the Land Registry are replaced every month, and their postcodes have to be joined with
    # coordinates: there is no one file to download.
    "uk_flats": Source(
        "uk_flats",
        "uk_flats_2020-12.csv.gz",
        ("lon", "lat"),
        "log_price",
        ("lon", "lat", *_FLATS, "log_price"),
        13_844,
        "87d68b26b0d0ec85c9e9f5771e5b7de6a7d820b5cdfbf81ac536c4059c3f5bb1",
        "HM Land Registry's Price Paid Data for December 2020, flats only "
        "(https://www.gov.uk/government/statistical-data-sets/price-paid-data-downloads), with the coordinates of the "
        "postcodes from OS Code-Point Open (https://osdatahub.os.uk/downloads/open/CodePointOpen)",
    ),
}


def load(name: str, data_dir: str | os.PathLike[str] | None = None) -> Dataset:
    """Load a data set by name: "yacht", "kin8nm" or "uk_flats".

    Parameters
    ----------
    name : str
    data_dir : path or None, default=None
        Folder with the file; None takes that of NEARFIELD_DATA. Without either, the cache, then the public source.

    Raises
    ------
    DatasetError
        Where the data are not to be had, or not as they should be.
    """
    if name not in SOURCES:
        raise DatasetError(f"There is no data set {name!r}: the choice is {', '.join(SOURCES)}.")
    source = SOURCES[name]
    return read(locate(source, data_dir), source)


def load_yacht(data_dir: str | os.PathLike[str] | None = None) -> Dataset:
    """Yacht hydrodynamics (UCI): 308 hulls, 6 inputs, residuary resistance."""
    return load("yacht", data_dir)


def load_kin8nm(data_dir: str | os.PathLike[str] | None = None) -> Dataset:
    """kin8nm (Delve, OpenML 189): 8192 positions of a robot arm of 8 joints, distance of its end from a target."""
    return load("kin8nm", data_dir)


def load_uk_flats(data_dir: str | os.PathLike[str] | None = None) -> Dataset:
    """UK flats: 13 844 sales, longitude and latitude in degrees, logarithm of the price."""
    return load("uk_flats", data_dir)


def locate(source: Source, data_dir: str | os.PathLike[str] | None = None) -> Path:
    """Path of a data set's file, downloaded into the cache where no folder is named and it is not there yet."""
    named = os.fspath(data_dir) if data_dir else os.environ.get(VARIABLE)
    if named:
        return _in_folder(Path(named), source)
    cached = cache_folder() / source.file
    if not cached.exists():
        _download(source, cached)
    return cached


def cache_folder() -> Path:
    """Where downloads are kept: `nearfield` in the user's cache folder."""
    base = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA") or Path.home() / ".cache"
    return Path(base) / "nearfield"


def _in_folder(folder: Path, source: Source) -> Path:
    if not folder.is_dir():
        raise DatasetError(f"The data folder {folder} does not exist.")
    path = folder / source.file
    if not path.is_file():
        raise DatasetError(f"{folder} has no {source.file} ({source.needs}). It is to be had from {source.where}.")
    return path


def _download(source: Source, target: Path) -> None:
    by_hand = (
        f"Get it from {source.where} and put it, as {source.file} ({source.needs}), into a folder named by --data-dir, "
        f"the data_dir argument or {VARIABLE}."
    )
    if source.url is None or source.parse is None:
        raise DatasetError(f"{source.name} cannot be downloaded as one file. {by_hand}")
    try:
        import pooch
    except ImportError:
        raise DatasetError(
            f"Downloading {source.name} needs pooch: pip install 'nearfield[data]'. Or: {by_hand}"
        ) from None
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        # The hash of the packing is the server's affair: what counts is that of the numbers, checked below.
        raw = pooch.retrieve(source.url, None, fname=f"{source.name}.raw", path=target.parent, progressbar=False)
        rows = source.parse(Path(raw).read_text(encoding="utf-8", errors="replace"))
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DatasetError(f"{source.name} could not be downloaded from {source.url} ({reason}). {by_hand}") from None
    with atomic(target) as temporary:
        with gzip.open(temporary, "wt", newline="", encoding="utf-8") as stream:
            writer = csv.writer(stream)
            writer.writerow(source.columns)
            writer.writerows(rows)
        try:
            read(temporary, source)
        except DatasetError as error:
            Path(raw).unlink(missing_ok=True)
            raise DatasetError(f"What {source.url} holds is not {source.name}: {error} {by_hand}") from None
    Path(raw).unlink(missing_ok=True)


def read(path: Path, source: Source) -> Dataset:
    """Read a file and verify columns, rows and checksum."""
    header, rows = _rows(path)
    if tuple(header) != source.columns:
        missing = [c for c in source.columns if c not in header]
        fault = f"lacks {', '.join(missing)}" if missing else f"has the columns {', '.join(header)}"
        raise DatasetError(f"{path} {fault}; it must be {source.needs}.")
    if len(rows) != source.n_rows:
        raise DatasetError(
            f"{path} has {len(rows)} rows, but {source.name} has {source.n_rows}; get it from {source.where}."
        )
    wanted = [header.index(c) for c in (*source.inputs, source.target)]
    table = np.empty((len(rows), len(wanted)))
    for number, row in enumerate(rows):
        try:
            table[number] = [float(row[i]) for i in wanted]
        except (ValueError, IndexError):
            raise DatasetError(f"{path} has something other than numbers in line {number + 2}.") from None
    if not np.all(np.isfinite(table)):
        raise DatasetError(f"{path} has missing or infinite numbers; get it from {source.where}.")
    if digest_of(table) != source.digest:
        raise DatasetError(
            f"{path} has the wrong checksum: its numbers are not those of {source.name}. Get it from {source.where}."
        )
    return Dataset(source.name, table[:, :-1], table[:, -1], source.inputs, source.target)


def digest_of(table: Floats) -> str:
    """SHA-256 of numbers, to nine significant digits: the same however they were written or packed."""
    text = "\n".join(",".join(f"{value:.9g}" for value in row) for row in np.asarray(table, np.float64) + 0.0)
    return hashlib.sha256(text.encode()).hexdigest()


def _rows(path: Path) -> tuple[list[str], Sequence[list[str]]]:
    try:
        with gzip.open(path, "rb") as stream:
            text = stream.read().decode("utf-8")
    except (OSError, EOFError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise DatasetError(f"{path} cannot be read as a gzip CSV file ({reason}).") from None
    table = [row for row in csv.reader(io.StringIO(text)) if row]
    if not table:
        raise DatasetError(f"{path} is empty.")
    return table[0], table[1:]
