"""Altered Parquet files, and proper ones of odd types: refused in a sentence that names the file, or read."""

from __future__ import annotations

import datetime
import decimal
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from nearfield import sources
from nearfield.streaming.tables import open_table, write_table

from . import mutations, runner
from .texts import every_cell, properly, source_rows, training

N = 12


def columns() -> dict[str, Any]:
    """A column of every type that Parquet has."""
    day = datetime.date(2024, 1, 31)
    moment = datetime.datetime(2024, 1, 31, 12, tzinfo=datetime.UTC)
    numbers = [float(i) for i in range(N)]
    return {
        "float": pa.array(numbers),
        "float32": pa.array(numbers, pa.float32()),
        "half": pa.array(np.arange(N).astype(np.float16)),
        "int8": pa.array(range(N), pa.int8()),
        "uint64": pa.array([2**64 - 1 - i for i in range(N)], pa.uint64()),
        "int64": pa.array([(-1) ** i * (2**63 - 1) for i in range(N)], pa.int64()),
        "bool": pa.array([i % 2 == 0 for i in range(N)]),
        "holes": pa.array([None if i % 3 == 0 else float(i) for i in range(N)]),
        "odd": pa.array([np.nan, np.inf, -np.inf, 1e308, 5e-324, -0.0, *numbers[6:]]),
        "null": pa.nulls(N),
        "empty": pa.nulls(N, pa.float64()),
        "decimal": pa.array([decimal.Decimal(i) / 4 for i in range(N)], pa.decimal128(20, 2)),
        "large": pa.array([decimal.Decimal(10) ** 60 + i for i in range(N)], pa.decimal256(70, 2)),
        "words": pa.array([f"word {i % 3}" for i in range(N)]),
        "digits": pa.array([f"{i}.5" for i in range(N)]),
        "choices": pa.array([f"word {i % 3}" for i in range(N)]).dictionary_encode(),
        "codes": pa.array(numbers).dictionary_encode(),
        "binary": pa.array([bytes([i, 255, 0]) for i in range(N)]),
        "fixed": pa.array([bytes([i, 255]) for i in range(N)], pa.binary(2)),
        "date": pa.array([day] * N),
        "time": pa.array([datetime.time(1, 2, i) for i in range(N)]),
        "moment": pa.array([moment] * N),
        "far": pa.array([2**62 + i for i in range(N)], pa.timestamp("us")),
        "duration": pa.array([datetime.timedelta(i) for i in range(N)]),
        "list": pa.array([[1.0] * (i % 3) for i in range(N)]),
        "struct": pa.array([{"a": i, "b": None} for i in range(N)]),
        "map": pa.array([[("k", i)] for i in range(N)], pa.map_(pa.string(), pa.int64())),
        "deep": pa.array([[[{"a": [i]}]] for i in range(N)]),
    }


def tables() -> dict[str, pa.Table]:
    """Tables that are proper Parquet, if not all proper for a model."""
    rng = np.random.default_rng(0)
    plain = {name: pa.array(rng.uniform(0, 9, 40)) for name in ("lon", "lat", "z")}
    plain["kind"] = pa.array([f"k{i % 3}" for i in range(40)])
    made = {
        "plain": pa.table(plain),
        "rows": pa.table(plain).slice(0, 0),
        "none": pa.table({}),
        "one": pa.table(plain).slice(0, 1),
    }
    odd = columns()
    for name, column in odd.items():
        made[f"of {name}"] = pa.table({"lon": column, "z": odd["float"], "kind": column})
        made[f"z {name}"] = pa.table({"lon": odd["float"], "z": column})
    made["repeated"] = pa.Table.from_arrays([odd["float"]] * 3, names=["z", "lon", "lon"])
    made["unnamed"] = pa.Table.from_arrays([odd["float"]] * 3, names=["z", "", "\u202e\n"])
    made["wide"] = pa.table({f"c{i}": odd["float"] for i in range(300)} | {"z": odd["float"]})
    made["all"] = pa.table({**odd, "z": odd["float"]})
    made["constant"] = pa.table({"lon": np.zeros(30_000), "z": np.zeros(30_000)})
    return made


class Parquet:
    """See `runner.Target`."""

    name = "parquet"

    def prepare(self, folder: Path) -> None:
        """Write the proper files."""
        for i, (name, table) in enumerate(tables().items()):
            for j, compression in enumerate(
                ("none", "snappy", "gzip", "zstd") if name in ("plain", "all") else ("snappy",)
            ):
                path = folder / f"{i:03d}-{j}.parquet"
                options = {"row_group_size": 16} if name in ("plain", "all") else {}
                pq.write_table(table, path, compression=compression, use_dictionary=j != 1, **options)

    def load(self, folder: Path) -> None:
        """Read the proper files: none of them may do more than be refused."""
        paths = sorted(folder.glob("*.parquet"))
        self.whole = [path.read_bytes() for path in paths]
        taken = [self.attempt(path, random.Random(0)) for path in paths]
        if not any(taken):
            raise RuntimeError("no proper file was taken")

    def write(self, rng: random.Random, folder: Path) -> Path:
        """An altered file; most often in the footer, which says where all else is."""
        data = rng.choice(self.whole)
        if rng.random() < 0.04:
            pass
        elif rng.random() < 0.5:
            length = min(int.from_bytes(data[-8:-4], "little") + 8, len(data))
            footer = data[-length:-8] if rng.random() < 0.8 else data[-length:]
            changed = mutations.bytes_altered(footer, rng)
            if len(footer) == length - 8:  # the length of the footer is made right again, so that it is read
                changed += len(changed).to_bytes(4, "little") + b"PAR1"
            data = data[:-length] + changed
        else:
            data = mutations.bytes_altered(data, rng, self.whole)
        path = folder / "altered.parquet"
        path.write_bytes(data)
        return path

    def attempt(self, path: Path, rng: random.Random) -> bool:
        """Read it in the three ways there are, and write what was read."""
        whole = properly(path, lambda: every_cell(path, None, rng.choice((6, 10_000))))
        trained = properly(path, lambda: training(path, None, rng))
        sourced = properly(path, lambda: source_rows(sources.ParquetSource(path, target="z")))
        copied = properly(path, lambda: copy(path, path.with_name(rng.choice(("copy.csv", "copy.parquet")))))
        return whole or trained or sourced or copied


def copy(path: Path, out: Path) -> None:
    """Columns carried over into another file, as `nearfield predict --all` does."""
    out.unlink(missing_ok=True)
    try:
        with open_table(str(path)) as table:
            kinds = [table.field(name) for name in table.columns]
            with write_table(str(out), table.columns, kinds) as writer:
                for batch in table.batches():
                    writer.write([batch.cells(name) for name in table.columns])
    except BaseException as error:
        if out.exists():
            raise runner.Defect("half a file was written") from None
        if "cannot be written as text" in str(error) and "\n" not in str(error):
            return
        raise
    if [other.name for other in out.parent.glob(".*")]:
        raise runner.Defect("a temporary file was left")


TARGET = Parquet()

if __name__ == "__main__":
    sys.exit(runner.main(TARGET, 10_000))
