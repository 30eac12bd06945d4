"""Files by the thousand in children that live long, each file with a limit of time and of memory.

A child answers for many files, since starting Python takes longer than most of them. It notes the number of each file
before it opens it: where the child dies or runs out of time, that file is to blame, and a new child goes on behind it.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import nearfield

from .watch import Memory, Watch

SECONDS = 60  # a file
ADDRESS_SPACE = 1 << 30  # bytes that a child may take beyond what it has when it starts
PER_CHILD = 5000
ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "LOKY_MAX_CPU_COUNT"), "1")  # problems are small

# A file of b bytes that is refused may take BASE + FACTOR * b bytes before it is; a header of JSON takes the most.
BASE, FACTOR = 48 << 20, 64


class Defect(Exception):  # noqa: N818
    """What a file must not bring about."""


class Target(Protocol):
    """What is to be tried."""

    name: str

    def prepare(self, folder: Path) -> None:
        """Make the files to start from, once."""

    def load(self, folder: Path) -> None:
        """Take them up, in each child, and do everything once as it should be done."""

    def write(self, rng: random.Random, folder: Path) -> Path:
        """An altered file; the same for the same generator."""

    def attempt(self, path: Path, rng: random.Random) -> bool:
        """Use the file: True where it was taken, False where it was refused properly; raises otherwise."""


@dataclass
class Result:
    """Counts of a run."""

    name: str
    n_files: int = 0
    taken: int = 0
    refused: int = 0
    defects: Counter[str] = field(default_factory=Counter)
    first: dict[str, int] = field(default_factory=dict)
    peak: int = 0
    n_bytes: int = 0
    seconds: float = 0.0

    def add(self, line: dict[str, Any]) -> None:
        """Count one file."""
        self.n_files += 1
        self.peak = max(self.peak, line.get("peak", 0))
        self.n_bytes += line.get("bytes", 0)
        defect = line.get("defect")
        if defect is None:
            self.taken += line["taken"]
            self.refused += not line["taken"]
        else:
            self.defects[defect] += 1
            self.first.setdefault(defect, line["file"])

    def __str__(self) -> str:
        return (
            f"{self.name}: {self.n_files} files, {self.n_bytes / 2**20:.0f} MiB: {self.refused} refused, {self.taken} "
            f"taken, {sum(self.defects.values())} defects; "
            f"{self.seconds:.0f} s, at most {self.peak / 2**20:.0f} MiB a file"
        )


def generator(seed: int, number: int) -> random.Random:
    """The random numbers of one file."""
    return random.Random(f"{seed}/{number}")


def run_here(target: Target, folder: Path, seed: int, numbers: Sequence[int], watch: Watch, report: Any) -> None:
    """Try some files in this process; `report(line)` is told of each."""
    memory = Memory()
    for number in numbers:
        rng = generator(seed, number)
        report({"file": number, "begins": True})
        path = target.write(rng, folder)
        size = path.stat().st_size
        line: dict[str, Any] = {"file": number, "bytes": size, "taken": False}
        watch.seen.clear()
        memory.start()
        watch.armed = True
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                line["taken"] = target.attempt(path, rng)
        except BaseException as error:
            watch.armed = False
            line["defect"] = str(error) if isinstance(error, Defect) else describe(error)
            line["trace"] = traceback.format_exc()
        watch.armed = False
        line["peak"] = memory.peak()
        if watch.seen:
            line["defect"] = f"forbidden: {watch.seen[0]}"
        elif not line["taken"] and "defect" not in line and line["peak"] > BASE + FACTOR * size:
            line["defect"] = "a file that was refused took too much memory"
            line["trace"] = f"{line['peak'] / 2**20:.0f} MiB for {size} bytes"
        report(line)


def describe(error: BaseException) -> str:
    """Kind of an error and the place of the library that it came from, to tell defects apart."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if is_library(f)]
    place = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "elsewhere"
    return f"{type(error).__name__} at {place}"


def is_library(frame: traceback.FrameSummary) -> bool:
    """Whether a line is one of the library's own."""
    return Path(nearfield.__file__).parent in Path(frame.filename).parents


def require_sentence(error: BaseException, path: Path) -> None:
    """An error that people can read: one line, which names the file."""
    text = str(error)
    if "\n" in text.strip():
        raise Defect(f"message of several lines: {describe(error)}") from error
    if path.name not in text and not (isinstance(error, OSError) and error.filename):
        raise Defect(f"message that does not name the file: {describe(error)}: {text[:80]}") from error


# ---- children --------------------------------------------------------------------------------------------------------


def run(target: Target, n_files: int, seed: int = 0, keep: Path | None = None, module: str | None = None) -> Result:
    """Try `n_files` files in children, one child at a time."""
    result, start = Result(target.name), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="fuzz-") as name:
        folder = Path(name)
        target.prepare(folder)
        first = 0
        while first < n_files:
            stop = min(first + PER_CHILD, n_files)
            first = _child(module or f"fuzz.{target.name}", folder, seed, first, stop, result, keep)
    result.seconds = time.monotonic() - start
    return result


def _child(module: str, folder: Path, seed: int, first: int, stop: int, result: Result, keep: Path | None) -> int:
    """Run one child and answer with the number of the file to go on with."""
    command = [sys.executable, "-m", module, "--child", f"{first}:{stop}", "--folder", str(folder)]
    begun = first - 1
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(
            [*command, "--random-state", str(seed)],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**os.environ, **ONE_THREAD},
        ) as child,
    ):
        assert child.stdout is not None
        done = first - 1
        for text in child.stdout:
            line = json.loads(text)
            if line.get("begins"):
                begun = line["file"]
                continue
            done = line["file"]
            result.add(line)
            _keep(keep, result, line, seed)
        code = child.wait()
        errors.seek(0)
        words = errors.read()
    if code == 0 and done == stop - 1:
        return stop
    if begun < first:
        raise RuntimeError(f"The child could not start:\n{words[-3000:]}")
    kind = "no answer in time" if "Timeout" in words else f"the process ended with {code}"
    line = {"file": begun, "defect": kind, "trace": words[-6000:]}
    if begun > done:
        result.add(line)
        _keep(keep, result, line, seed)
    return begun + 1


def _keep(keep: Path | None, result: Result, line: dict[str, Any], seed: int) -> None:
    """Tell of the first defect of each kind, and how to have its file again."""
    defect = line.get("defect")
    if defect is None or result.defects[defect] > 1:
        return
    print(f"{result.name}: file {line['file']} of seed {seed}: {defect}", file=sys.stderr, flush=True)
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        (keep / f"{result.name}-{line['file']}.txt").write_text(f"{defect}\n\n{line.get('trace', '')}")


def _serve(target: Target, folder: Path, seed: int, first: int, stop: int) -> None:
    """What a child does: numbers and outcomes go to the standard output, a line each."""
    channel = os.fdopen(os.dup(1), "w", buffering=1)
    with open(os.devnull, "w") as nothing:
        os.dup2(nothing.fileno(), 1)  # what the library prints is not for the parent
    own = folder / f"child-{os.getpid()}"
    own.mkdir()
    target.load(folder)
    _limit_memory()
    watch = Watch(own)

    def report(line: dict[str, Any]) -> None:
        if line.get("begins"):
            faulthandler.dump_traceback_later(SECONDS, exit=True)
        else:
            faulthandler.cancel_dump_traceback_later()
        channel.write(json.dumps(line) + "\n")

    run_here(target, own, seed, range(first, stop), watch, report)


def _limit_memory() -> None:
    with contextlib.suppress(OSError):
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * os.sysconf("SC_PAGE_SIZE") + ADDRESS_SPACE
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def main(target: Target, n_files: int, argv: Sequence[str] | None = None) -> int:
    """The command line of a target: 0 where there is no defect."""
    parser = argparse.ArgumentParser(prog=f"python -m fuzz.{target.name}")
    parser.add_argument("--files", type=int, default=n_files, help="how many (default: %(default)s)")
    parser.add_argument("--random-state", type=int, default=0, help="seed (default: %(default)s)")
    parser.add_argument("--keep", type=Path, help="folder for the traces of defects")
    parser.add_argument("--only", type=int, help="make this one file again, keep it, and try it in this process")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.child:
        first, _, stop = options.child.partition(":")
        _serve(target, options.folder, options.random_state, int(first), int(stop))
        return 0
    if options.only is not None:
        return _again(target, options.random_state, options.only)
    result = run(target, options.files, options.random_state, options.keep)
    print(result)
    for defect, count in result.defects.most_common():
        print(f"  {count} x {defect}, first in file {result.first[defect]}")
    return 1 if result.defects else 0


def _again(target: Target, seed: int, number: int) -> int:
    """One file in this process, for a debugger; it is kept."""
    folder = Path(tempfile.mkdtemp(prefix="fuzzed-"))
    target.prepare(folder)
    target.load(folder)
    rng, own = generator(seed, number), folder / "own"
    own.mkdir()
    path = target.write(rng, own)
    print(path)
    print("taken" if target.attempt(path, rng) else "refused")
    return 0
