"""Many cases in children with a limit of time, one table of the worst, and what has changed since an earlier run.

A child takes names, a line each, and answers with figures. Where it runs out of time it is ended; the case at hand
is to blame, and a new child takes the rest. The limit is one of processor time, so that it does not matter what
else the machine does; a child that hangs is ended after ten times that on the clock.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import json
import os
import queue
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from .judging import Case, Figures, judge, kind, measure
from .runner import ONE_THREAD

GRAVE = ("crash", "time", "rows", "not finite", "worse than the mean")  # no share of these is allowed
ALLOWED = 0.05  # share of cases that may fail in other ways, of which some are chance


class Source(Protocol):
    """Where cases come from."""

    name: str
    beside: str

    def names(self) -> Sequence[str]:
        """All, in random order."""

    def sample(self, n: int) -> Sequence[str]:
        """Always the same n of them."""

    def case(self, name: str) -> Case:
        """The case of that name."""


def main(source: Source, argv: Sequence[str] | None = None) -> int:
    """The command line of a source: 0 where nothing grave failed, and little else."""
    parser = argparse.ArgumentParser(prog=f"python -m fuzz.{source.name}")
    parser.add_argument("--sample", type=int, metavar="N", help="a fixed sample instead of all")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these cases alone")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: %(default)s)")
    parser.add_argument("--limit", type=float, default=300, help="processor seconds a case (default: %(default)s)")
    parser.add_argument("--worst", type=int, default=20, help="lines of the table (default: %(default)s)")
    parser.add_argument("--out", type=Path, help="file for the figures; cases that are in it already are not run again")
    parser.add_argument("--against", type=Path, help="such a file of another version, to compare with")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.child:
        _serve(source, options.limit)
        return 0
    names = options.only or (source.sample(options.sample) if options.sample else source.names())
    known = {name: f for name, f in read(options.out).items() if name in set(names)}
    found = dict(known)
    for figures in run(f"fuzz.{source.name}", [n for n in names if n not in known], options.jobs, options.limit):
        found[figures["name"]] = figures
        if options.out:
            with options.out.open("a") as file:
                file.write(json.dumps(figures) + "\n")
    print("\n".join([*worst(found.values(), options.worst), "", *summary(found.values())]))
    if options.against:
        print("\n".join(["", *changes(read(options.against), found)]))
    return verdict(found.values(), len(names))


def read(path: Path | None) -> dict[str, Figures]:
    """Figures of a file by name; none where there is no file."""
    if path is None or not path.exists():
        return {}
    return {figures["name"]: figures for figures in map(json.loads, path.read_text().splitlines())}


def verdict(found: Any, wanted: int) -> int:
    """0 where every case has been tried, none failed gravely, and at most a share of `ALLOWED` in another way."""
    failures = [{kind(f) for f in judge(figures)} for figures in found]
    grave = sum(bool(kinds & set(GRAVE)) for kinds in failures)
    others = sum(bool(kinds - set(GRAVE)) for kinds in failures)
    return int(len(failures) < wanted or grave > 0 or others > ALLOWED * wanted)


# ---- what is printed -------------------------------------------------------------------------------------------------


def worst(found: Any, n: int) -> list[str]:
    """A line for each of the worst that fail: the gravest first, then by NLL."""
    failing = [(figures, judge(figures)) for figures in found]
    failing = sorted(((f, said) for f, said in failing if said), key=lambda pair: _badness(*pair))[:n]
    lines = [
        f"{'case':<34} {'rows x columns':<16} {'RMSE':>6} {'other':>6} {'NLL':>8} {'inside':>7} {'s':>5}  what fails"
    ]
    for figures, said in failing:
        lines.append(f"{figures['name']:<34} {figures.get('label', ''):<16} {_numbers(figures)}  {'; '.join(said)}")
    return lines


def summary(found: Any) -> list[str]:
    """Counts by kind, and of warnings."""
    found = list(found)
    kinds = Counter(kind(f) for figures in found for f in judge(figures))
    refused = [figures for figures in found if figures.get("refused")]
    answered = [figures for figures in found if "rmse" in figures]
    better = sum(f["rmse"] <= f.get("boosting", f.get("exact", 0.0)) for f in answered)
    inside, m = sum(f["inside"] for f in answered), sum(f["m"] for f in answered)
    mean = sum(f["inside"] / f["m"] for f in answered) / max(len(answered), 1)
    failing = sum(bool(judge(figures)) for figures in found)
    lines = [
        f"{len(found)} cases: {failing} fail ({', '.join(f'{n} {k}' for k, n in kinds.most_common()) or 'none'}), "
        f"{len(refused)} refused; 95 % intervals hold {100 * mean:.1f} % on average over cases, "
        f"{100 * inside / max(m, 1):.1f} % of all rows; RMSE not above the other's on {better} of {len(answered)}"
    ]
    lines += [f"  refused: {f['name']}: {f['error']}" for f in refused]
    said = Counter(w for figures in found for w in figures.get("warnings", ()))
    return lines + [f"  {n} x {text}" for text, n in said.most_common()]


def changes(before: dict[str, Figures], after: dict[str, Figures]) -> list[str]:
    """What both have, by kind before and after, and the cases whose failures differ."""
    both = [name for name in after if name in before]
    old, new = ({name: judge(side[name]) for name in both} for side in (before, after))
    counts = [Counter(kind(f) for said in side.values() for f in said) for side in (old, new)]
    lines = [
        f"{len(both)} cases in both: {sum(map(bool, old.values()))} failed, {sum(map(bool, new.values()))} fail now"
    ]
    lines += [f"  {k:<22} {counts[0][k]:>5} -> {counts[1][k]}" for k in sorted(counts[0] | counts[1])]
    for name in both:
        if {kind(f) for f in old[name]} != {kind(f) for f in new[name]}:
            lines.append(f"  {name}: {'; '.join(old[name]) or 'well'} -> {'; '.join(new[name]) or 'well'}")
    return lines


def _numbers(figures: Figures) -> str:
    """RMSE and the other's in units of the mean's, NLL above the normal's, coverage, seconds."""
    unit = figures.get("mse_of_mean", 0.0) ** 0.5 or 1.0
    values = [
        (figures.get("rmse", float("nan")) / unit, "6.2f"),
        (figures.get("boosting", figures.get("exact", float("nan"))) / unit, "6.2f"),
        (figures.get("nll", float("nan")) - figures.get("nll_of_normal", float("nan")), "+8.2f"),
        (100 * figures.get("inside", float("nan")) / figures.get("m", 1), "6.1f"),
        (figures.get("seconds", float("nan")), "6.1f"),
    ]
    return " ".join(format(value, shape) for value, shape in values)


def _badness(figures: Figures, said: Sequence[str]) -> tuple[float, float]:
    grave = min((GRAVE.index(k) for k in map(kind, said) if k in GRAVE), default=len(GRAVE))
    return grave, figures.get("nll_of_normal", 0.0) - figures.get("nll", 0.0)


# ---- children --------------------------------------------------------------------------------------------------------


def run(module: str, names: Sequence[str], jobs: int, limit: float) -> Iterator[Figures]:
    """Figures of all names, as they come; of what did not end well, how it `ended`."""
    waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
    done: queue.SimpleQueue[Figures | BaseException] = queue.SimpleQueue()
    for name in names:
        waiting.put(name)
    for _ in range(min(jobs, len(names))):
        threading.Thread(target=_feed, args=(module, waiting, done, limit), daemon=True).start()
    for _ in names:
        figures = done.get()
        if isinstance(figures, BaseException):
            raise figures
        yield figures


def _feed(module: str, waiting: Any, done: Any, limit: float) -> None:
    """Give names to children, one child after the other, until none is left."""
    try:
        while not waiting.empty():
            with _Child(module, limit) as child:
                while child.alive:
                    done.put(child.ask(waiting.get_nowait()))
    except queue.Empty:
        return
    except BaseException as error:
        done.put(error)


class _Child:
    """A process that measures what it is asked for, until it dies."""

    def __init__(self, module: str, limit: float) -> None:
        command = [sys.executable, "-m", module, "--child", "--limit", str(limit)]
        self._words = tempfile.TemporaryFile("w+")  # noqa: SIM115
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self._words}
        self._process = subprocess.Popen(command, text=True, env={**os.environ, **ONE_THREAD}, **pipes)
        self.alive = True

    def __enter__(self) -> _Child:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()
        self._words.close()

    def ask(self, name: str) -> Figures:
        process, began = self._process, time.monotonic()
        with contextlib.suppress(BrokenPipeError):  # it has died already, and does not answer
            print(name, file=process.stdin, flush=True)
        answer = process.stdout.readline()
        if answer:
            return json.loads(answer)
        self.alive = False
        code = process.wait()
        self._words.seek(0)
        words = self._words.read()
        late = code == -signal.SIGXCPU or "Timeout" in words
        ended = "time: no answer" if late else f"crash: the process ended with {code}: {words[-300:]}"
        return {"name": name, "ended": ended, "seconds": time.monotonic() - began}


def _serve(source: Source, limit: float) -> None:
    """What a child does: names in, figures out, a line each."""
    channel = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what the library prints is not for the parent
    for line in sys.stdin:
        resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time() + limit) + 1, resource.RLIM_INFINITY))
        faulthandler.dump_traceback_later(10 * limit, exit=True)
        figures = measure(source.case(line.strip()), source.beside)
        faulthandler.cancel_dump_traceback_later()
        channel.write(json.dumps(figures) + "\n")
