"""Altered CSV and TSV files, plain and in gzip: refused in a sentence that names the file, or read row by row."""

from __future__ import annotations

import gzip
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np

from nearfield import sources
from nearfield.cli.messages import CommandError
from nearfield.cli.training import read_training
from nearfield.streaming.tables import BadValueError, open_table, text

from . import mutations, runner

CELLS = (
    *(
        "",
        " ",
        "NA",
        "nan",
        "NaN",
        "null",
        "None",
        "#N/A",
        "inf",
        "-inf",
        "Infinity",
        "1e999",
        "-1e400",
        "1e151",
        "1e-400",
    ),
    *(
        "1,5",
        "1.234,5",
        "1_000",
        "1 000",
        "0x10",
        "1e",
        "--1",
        "+1",
        ".5",
        "5.",
        "1d3",
        "٣",
        "\uff11\uff12",
        "½",
        "\u22121",
        "1\u00a0000",
    ),
    *(
        "2024-01-31",
        "31.12.2024",
        "01/02/03",
        "12:30",
        "TRUE",
        "false",
        "text",
        "é",
        "\ufeff",
        "\u202e",
        "\x1b[31m",
        "\x00",
    ),
    *(
        '"',
        '""',
        '"a',
        'a"b',
        '"a,b"',
        '"a\nb"',
        "'",
        "=1+1",
        "\\",
        "\t",
        ";",
        "|",
        "a\rb",
        "x" * 200,
        "9" * 400,
        "\U0001f30d",
    ),
)
ENCODINGS = ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32", "latin-1", "cp1252", "utf-7", "shift_jis")


def table(rng: random.Random, n_rows: int, n_columns: int, delimiter: str) -> list[list[str]]:
    """A proper table: a header and numbers, the last two columns target and words."""
    names = ["lon", "lat", "height", *(f"c{i}" for i in range(n_columns))][: max(n_columns - 2, 1)]
    rows = [[*names, "z", "kind"]]
    for _ in range(n_rows):
        numbers = [f"{rng.uniform(-10, 10):.{rng.randrange(8)}f}" for _ in range(len(names) + 1)]
        rows.append([*numbers, rng.choice(("red", "green", "blue"))])
    return [[cell.replace(delimiter, " ") for cell in row] for row in rows]


def altered_rows(rows: list[list[str]], rng: random.Random) -> list[list[str]]:
    """Cells, rows and columns that are wrong."""
    for _ in range(rng.choice((0, 1, 1, 2, 5))):
        row = rng.randrange(len(rows))
        kind = rng.randrange(9)
        if kind < 4 and rows[row]:
            rows[row][rng.randrange(len(rows[row]))] = rng.choice(CELLS)
        elif kind == 4:
            column, cell = rng.randrange(len(rows[0]) or 1), rng.choice(CELLS)
            rows = [rows[0], *([*r[:column], cell, *r[column + 1 :]] for r in rows[1:])]
        elif kind == 5:
            rows[row] = rows[row][: rng.randrange(len(rows[row]) + 1)]
        elif kind == 6:
            rows[row] = rows[row] + [rng.choice(CELLS) for _ in range(rng.choice((1, 2, 50)))]
        elif kind == 7:
            rows.insert(row, rng.choice(([], [""], [" "], ["", ""], list(rows[row]))))
        elif rows[0]:
            rows[0][rng.randrange(len(rows[0]))] = rng.choice(
                (*rows[0], "", " ", "1.5", "x" * 300, "a,b", '"', "z ", "\0")
            )
    return rows


def joined(rows: list[list[str]], delimiter: str, rng: random.Random) -> str:
    """The text of a table, with line ends of one kind or of all."""
    ends = rng.choice((["\n"], ["\r\n"], ["\r"], ["\n", "\r\n", "\r", "\n\n", "\x0b", "\u2028"]))
    quoted = rng.random() < 0.2
    lines = []
    for row in rows:
        cells = [f'"{cell}"' if quoted or (delimiter in cell and rng.random() < 0.5) else cell for cell in row]
        lines.append(delimiter.join(cells) + rng.choice(ends))
    text = "".join(lines)
    return text.rstrip("\r\n") if rng.random() < 0.2 else text


def rare(rng: random.Random) -> bytes:
    """Tables out of all proportion, and things that are no tables."""
    kind = rng.randrange(12)
    if kind == 0:
        return b"a,b\n" + b"1," * rng.choice((1000, 50_000)) + b"\n"
    if kind == 1:
        return ",".join(f"c{i}" for i in range(rng.choice((2000, 30_000)))).encode() + b"\n1,2\n"
    if kind == 2:
        return b"a,z\n1,2\n" + b"3" * rng.choice((131_071, 131_073, 2_000_000)) + b",4\n"
    if kind == 3:
        return b'a,z\n1,"' + b"2\n" * rng.choice((1000, 200_000))
    if kind == 4:
        return b"\n" * rng.choice((1, 10, 100_000)) + b"a,z\n1,2\n"
    if kind == 5:
        return b"a,z\n" + b"\n" * 100_000 + b"1,2\n3,4\n"
    if kind == 6:
        return rng.choice(
            (b"", b"\n", b" ", b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff", b"\xff\xfea", b"a", b"a\n", b"a,z\n")
        )
    if kind == 7:
        return rng.choice((b"PAR1", b"PAR1PAR1", b"PK\x03\x04", b"\x1f\x8b", b"\x1f\x8b\x08\x00", b"\x89nearfield\r\n"))
    if kind == 8:
        return rng.randbytes(rng.choice((1, 10, 1000)))
    if kind == 9:  # a small file that is large inside
        return gzip.compress(rng.choice((b"\0", b"1", b"a,", b'"', b'"\n",')) * rng.choice((10**6, 10**7)), 6)
    if kind == 10:
        return b"a,a\n" + b"1,2\n" * 5
    return b"z," * 30_000 + b"end\n" + b"1," * 30_000 + b"2\n"


class Texts:
    """See `runner.Target`."""

    name = "texts"

    def prepare(self, folder: Path) -> None:
        """Nothing: tables are made as they are needed."""

    def load(self, folder: Path) -> None:
        """Read a proper table, so that all is imported."""
        path = folder / "proper.csv"
        path.write_text("lon,lat,z,kind\n1,2,3,red\n4,5,6,blue\n0,1,2,red\n")
        if not self.attempt(path, random.Random(0)):
            raise RuntimeError("a proper table was refused")

    def write(self, rng: random.Random, folder: Path) -> Path:
        """An altered table."""
        if rng.random() < 0.06:
            data = rare(rng)
        else:
            delimiter = rng.choice(",,,,;\t|")
            rows = altered_rows(
                table(rng, rng.choice((0, 1, 2, 3, 8, 30)), rng.choice((1, 2, 3, 4, 4, 5, 9)), delimiter), rng
            )
            data = joined(rows, delimiter, rng).encode(rng.choice((*(["utf-8"] * 12), *ENCODINGS)), "replace")
            if rng.random() < 0.35:
                data = mutations.bytes_altered(data, rng)
            if rng.random() < 0.12:
                data = gzip.compress(data, mtime=0)
                if rng.random() < 0.6:
                    data = mutations.bytes_altered(data, rng)
        for old in (".csv", ".tsv", ".txt", ".csv.gz"):
            (folder / f"altered{old}").unlink(missing_ok=True)
        path = folder / f"altered{rng.choice(('.csv', '.csv', '.csv', '.tsv', '.txt', '.csv.gz'))}"
        path.write_bytes(data)
        return path

    def attempt(self, path: Path, rng: random.Random) -> bool:
        """Read it in all the ways there are."""
        encoding = rng.choice((None, None, None, None, "latin-1", "utf-16", "utf-8", "cp1252", "no-such"))
        whole = properly(path, lambda: every_cell(path, encoding, rng.choice((1, 3, 10_000))))
        trained = properly(path, lambda: training(path, encoding, rng))
        sourced = properly(path, lambda: source_rows(sources.CSVSource(path, target="z")))
        require_the_same(path, encoding)
        return whole or trained or sourced


def properly(path: Path, work: Any) -> bool:
    """Whether it worked; errors must be of the documented kinds, in one sentence that names the file."""
    try:
        work()
    except (ValueError, OSError, MemoryError, CommandError) as error:
        if "There is no encoding" not in str(error):
            if isinstance(error, CommandError):  # which is put into one line when it is shown
                error = CommandError(" ".join(str(error).split()))
            runner.require_sentence(error, path)
        return False
    return True


def every_cell(path: Path, encoding: str | None, size: int) -> None:
    """All there is to ask of a table."""
    with open_table(str(path), encoding) as table:
        for batch in table.batches(size):
            for column in table.columns[:30]:
                texts, cells = batch.texts(column), batch.cells(column)
                if not len(texts) == len(cells) == batch.n_rows:
                    raise runner.Defect("cells were lost")
                numbers, words = batch.count_numbers(column)
                try:
                    values = batch.numbers(column)
                except BadValueError as error:
                    runner.require_sentence(error, path)
                    continue
                if len(values) != batch.n_rows or not np.all(np.isfinite(values) | np.isnan(values)):
                    raise runner.Defect("a number that is infinite, or lost")
                if words or numbers != np.count_nonzero(~np.isnan(values)):
                    raise runner.Defect("numbers were counted otherwise than read")
            if not 0 <= table.done() <= 1:
                raise runner.Defect("more than the whole was read")


def require_the_same(path: Path, encoding: str | None) -> None:
    """Numbers and messages must not depend on whether pyarrow reads what is plain."""
    answers, by_pyarrow = [], text._plain_numbers
    for plain_numbers in (by_pyarrow, lambda *_: None):
        text._plain_numbers = plain_numbers
        try:
            with open_table(str(path), encoding) as table:
                columns = [name for name in ("lon", "z") if name in table.columns] or table.columns[:1]
                answers.append(repr([row for batch in table.numbers(columns) for row in np.stack(batch, 1).tolist()]))
        except (ValueError, OSError) as error:
            answers.append(str(error))
        finally:
            text._plain_numbers = by_pyarrow
    if answers[0] != answers[1]:
        raise runner.Defect(f"with pyarrow {answers[0][:200]}, without {answers[1][:200]}")


def training(path: Path, encoding: str | None, rng: random.Random) -> None:
    """What `nearfield fit` reads."""
    data = read_training(
        str(path),
        "z",
        rng.choice((None, None, "lon", "lon,lat")),
        rng.choice((None, None, "kind", "lon")),
        rng.choice((None, None, "kind")),
        encoding,
    )
    n, d = data.X.shape
    if len(data.recipe.names) != d or len(data.y) != n or n + data.n_dropped != data.n_rows:
        raise runner.Defect("rows or columns were lost")
    if not (np.all(np.isfinite(data.X)) and np.all(np.isfinite(data.y))):
        raise runner.Defect("training data that are not finite")


def source_rows(source: Any) -> None:
    """What a fit from files reads."""
    for batch in source.batches():
        if not (np.all(np.isfinite(batch.X)) and np.all(np.isfinite(batch.targets))):
            raise runner.Defect("training data that are not finite")


TARGET = Texts()

if __name__ == "__main__":
    sys.exit(runner.main(TARGET, 20_000))
