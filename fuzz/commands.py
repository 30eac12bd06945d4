"""The command line on altered files and with altered arguments: an answer, or one line and exit code 2."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import random
import re
import sys
import warnings
from html.parser import HTMLParser
from pathlib import Path

import numpy as np

from nearfield.cli import main

from . import mutations, runner
from .models import Models, Parts, value
from .parquet import Parquet
from .texts import Texts

OUTPUTS = ("out.csv", "out.csv", "out.parquet", "out.tsv.gz", "-", "-", "no/such/out.csv", ".")
WORDS = (
    *(
        "",
        "0",
        "1",
        "-1",
        "2",
        "1e9",
        "nan",
        "inf",
        "-inf",
        "0.5",
        "0.95",
        "1e-300",
        "auto",
        "lon",
        "lat",
        "z",
        "kind",
        "lon,lat",
    ),
    *(
        "no",
        "-",
        "--",
        "é",
        "\0",
        "\n",
        '"',
        "a" * 3000,
        "../../etc/passwd",
        "exact",
        "features",
        "local",
        "99999999999999999999",
    ),
)
OPTIONS = {
    "fit": (
        "--features",
        "--id",
        "--one-hot",
        "--method",
        "--tolerance",
        "--n-scales",
        "--n-features",
        "--seed",
        "--n-jobs",
    ),
    "predict": (
        "--level",
        "--latent",
        "--noise",
        "--id",
        "--all",
        "--none",
        "--prefix",
        "--batch-size",
        "--encoding",
        "--json",
    ),
    "evaluate": (
        "--target",
        "--hold-out",
        "--folds",
        "--spatial-blocks",
        "--n-blocks",
        "--block-columns",
        "--level",
        "--json",
    ),
    "info": ("--json",),
    "report": ("--title", "--target", "--encoding"),
}
FLAGS = (
    "--latent",
    "--noise",
    "--all",
    "--none",
    "--sphere",
    "--no-sphere",
    "--json",
    "--spatial-blocks",
    "--ard",
    "--no-ard",
    "--scale",
)


_INTERNAL = re.compile(
    r"object is not|object has no|Unknown format|unsupported|operand|broadcast|NoneType|out of bounds|out of range for"
    r"|codec can't|Expecting|unhashable|recursion|invalid literal|could not convert|not subscriptable|mismatch|ufunc"
    r"|dtype"
)


class Commands:
    """See `runner.Target`."""

    name = "commands"

    def __init__(self) -> None:
        self.models, self.texts, self.parquet = Models(), Texts(), Parquet()

    def prepare(self, folder: Path) -> None:
        """Proper models and tables."""
        for name, target in (("models", self.models), ("parquet", self.parquet)):
            (folder / name).mkdir()
            target.prepare(folder / name)
        rng = np.random.default_rng(0)
        rows = [
            f"{a:.3f},{b:.3f},{np.sin(a) + b:.3f},{'red' if a < 4 else 'blue'}" for a, b in rng.uniform(0, 8, (30, 2))
        ]
        (folder / "proper.csv").write_text("\n".join(["lon,lat,z,kind", *rows, ""]))
        for method in ("exact", "features", "local"):
            options = (
                ["--n-features", "20"] if method == "features" else ["--one-hot", "kind"] if method == "exact" else []
            )
            out = folder / "models" / f"{method}-command.nf"
            with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
                arguments = [
                    "fit",
                    str(folder / "proper.csv"),
                    "--target",
                    "z",
                    "--features",
                    "lon,lat",
                    "--method",
                    method,
                ]
                if main([*arguments, *options, "--out", str(out)]):
                    raise RuntimeError("a proper fit failed")

    def load(self, folder: Path) -> None:
        """Take all up, and run every command once."""
        self.folder = folder
        self.models.load(folder / "models")
        self.parquet.load(folder / "parquet")
        self.made = sorted((folder / "models").glob("*-command.nf"))
        self.parts = [Parts.of(path.read_bytes()) for path in self.made]
        model, data = str(self.made[0]), str(folder / "proper.csv")
        for out in ("load.csv", "load.parquet"):
            called(["predict", model, data, "--out", str(folder / out)])
        called(["evaluate", data, "--target", "z", "--method", "exact", "--spatial-blocks", "--n-blocks", "4"])
        called(["evaluate", data, "--model", model, "--json"])
        called(["info", model])
        called(["report", model, data, "--out", str(folder / "load.html")])
        called(["fit", data, "--target", "z", "--out", str(folder / "load.nf"), "--json"])

    def write(self, rng: random.Random, folder: Path) -> Path:
        """What the command is to read first: an altered model or table, or a proper one where the arguments are odd."""
        for old in folder.iterdir():
            if old.is_file():
                old.unlink()
        self.command = rng.choice(("fit", "predict", "predict", "evaluate", "info", "info", "report"))
        self.is_model = self.command != "fit" and not (self.command == "evaluate" and rng.random() < 0.5)
        which = rng.random()
        path = folder / "proper.csv"
        path.write_bytes((self.folder / "proper.csv").read_bytes())
        if not self.is_model:
            if which < 0.6:
                path = self.texts.write(rng, folder)
            elif which < 0.8:
                path = self.parquet.write(rng, folder)
        elif which < 0.25:
            path = self.models.write(rng, folder)
        elif which < 0.7:
            parts = rng.choice(self.parts)
            key = rng.choice(("metadata", "metadata", "state", "parameters", "library"))
            header = {**parts.header, key: mutations.tree_altered([parts.header[key]], rng, value)}
            header[key] = header[key][0] if isinstance(header[key], list) and header[key] else header[key]
            path = folder / "altered.nf"
            path.write_bytes(Parts(header, parts.arrays).sealed())
        else:
            path = folder / "proper.nf"
            path.write_bytes(rng.choice(self.made).read_bytes())
        return path

    def attempt(self, path: Path, rng: random.Random) -> bool:
        """Run the command."""
        folder = path.parent
        arguments, out = self.arguments(path, rng)
        target = None if out in (None, "-") else folder / str(out)
        kept = target is not None and target.parent.is_dir() and not target.is_dir() and rng.random() < 0.3
        if kept and target is not None:
            target.write_bytes(b"as it was")
        before = {other.name for other in folder.iterdir()}
        with contextlib.chdir(folder):
            code, printed, errors = called(arguments)
        check_words(code, printed, errors, arguments)
        left = {other.name for other in folder.iterdir()} - before
        if code:
            if left or (kept and target is not None and target.read_bytes() != b"as it was"):
                raise runner.Defect("a command that failed wrote a file")
        elif left - {str(out)} and not self.odd_arguments:
            raise runner.Defect("a file was written that was not asked for")
        elif target is not None and target.suffix == ".html" and target.exists():
            HTMLParser().feed(target.read_text(encoding="utf-8"))
        elif out == "out.csv" and not self.odd_arguments:
            check_predictions(folder / out, errors)
        return code == 0

    def arguments(self, path: Path, rng: random.Random) -> tuple[list[str], str | None]:
        """The command, and the file it is to write."""
        folder, command, out = path.parent, self.command, None
        data = folder / "proper.csv" if rng.random() < 0.8 else None
        if self.is_model and data is None:
            data = (self.texts if rng.random() < 0.6 else self.parquet).write(rng, folder)
        if command == "fit":
            method = rng.choice(("exact", "exact", "exact", "features", "local"))
            out = rng.choice(("out.nf", "out.nf", "out.nf", "-", ".", "no/out.nf"))
            given = [str(path), "--target", "z", "--out", str(folder / out) if out != "-" else out, "--method", method]
            given += ["--n-features", "10"]
        elif command == "predict":
            out = rng.choice(OUTPUTS)
            given = [str(path), str(data), "--out", out if out == "-" else str(folder / out)]
        elif command == "evaluate":
            given = (
                [str(data), "--model", str(path)]
                if self.is_model
                else [str(path), "--target", "z", "--method", "exact"]
            )
        elif command == "info":
            given = [str(path), *(["--json"] if rng.random() < 0.5 else [])]
        else:
            out = rng.choice(("out.html", "out.html", "-"))
            given = [
                str(path),
                *([str(data)] if rng.random() < 0.6 else []),
                "--out",
                out if out == "-" else str(folder / out),
            ]
        if rng.random() < 0.4:
            for _ in range(rng.choice((1, 1, 2))):
                option = rng.choice(OPTIONS[command])
                given += [option] if option in FLAGS else [option, rng.choice(WORDS)]
        self.odd_arguments = rng.random() < 0.03
        if self.odd_arguments:
            given = mutations.tree_altered(given, rng, lambda draw: draw.choice(WORDS))
        return [command, *map(str, given)], out


def called(arguments: list[str]) -> tuple[int, str, str]:
    """Exit code and what was printed, of the command line run in this process as `main` runs it."""
    out, errors = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors), warnings.catch_warnings():
        warnings.simplefilter("default")
        try:
            code = main(arguments)
        except SystemExit as stop:
            raise runner.Defect(f"SystemExit {stop.code!r}") from stop
    out.flush()
    return code, out.buffer.getvalue().decode(), errors.getvalue()  # type: ignore[attr-defined]


def check_predictions(path: Path, errors: str) -> None:
    """Rows without a prediction must have been told of."""
    with path.open(encoding="utf-8", newline="") as lines:
        header, *rows = csv.reader(lines)
    places = [i for i, name in enumerate(header) if name.endswith(("mean", "std"))]
    if "no prediction for" not in errors and not all(
        np.isfinite(float(row[i] or "nan")) for row in rows for i in places
    ):
        raise runner.Defect("a prediction that is no number")


def check_words(code: int, printed: str, errors: str, arguments: list[str]) -> None:
    """One line where it failed, notes at most where it did not."""
    lines = [line for line in errors.splitlines() if line.strip()]
    if "Traceback" in errors or code not in (0, 2):
        raise runner.Defect(f"exit code {code}: {errors[-200:]}")
    refusals = [line for line in lines if line.startswith("nearfield:")]
    others = [line for line in lines if not line.startswith(("nearfield:", "note:"))]
    if others:
        raise runner.Defect(f"a line that is neither a note nor the complaint: {others[0][:100]!r}")
    if code == 2 and len(arguments) == 1 and "Usage: nearfield" in printed:
        return  # a command alone shows its help
    if len(refusals) != (1 if code else 0):
        raise runner.Defect(f"{len(refusals)} complaints with exit code {code}")
    if refusals and _INTERNAL.search(refusals[0]):
        raise runner.Defect(f"a message in Python's words: {refusals[0][:200]!r}")
    if code == 0 and "--json" in arguments and printed.strip():
        json.loads(printed)
    if any(not (c.isprintable() or c in "\n\t") for c in errors):
        raise runner.Defect("a message that could steer the terminal")


TARGET = Commands()

if __name__ == "__main__":
    sys.exit(runner.main(TARGET, 3000))
