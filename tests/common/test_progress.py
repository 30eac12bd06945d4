import io

import numpy as np
import pytest

import nearfield as nf
from nearfield.common.progress import ProgressLine
from nearfield.sources import ArraySource


class Screen(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_sees_a_bar_and_the_time_left():
    screen, times = Screen(), iter([0.0, 3.0, 3.01, 12.0])
    line = ProgressLine(screen, lambda: next(times))
    line("sums", 0.0, 0.0)
    line("sums", 0.25, 500.0)
    line("sums", 0.26, 510.0)  # too soon after the last one to be drawn
    line("sums", 1.0, 2000.0)
    drawn = [part.rstrip() for part in screen.getvalue().split("\r\x1b[2K")[1:]]
    assert drawn == [
        f"{'sums':<28} [{'-' * 24}]   0 %  0",
        f"{'sums':<28} [{'#' * 6}{'-' * 18}]  25 %  9 s left",
        f"{'sums':<28} 12.0 s",
    ]


def test_a_file_sees_one_line_a_stage():
    file, times = io.StringIO(), iter(range(10))
    line = ProgressLine(file, lambda: next(times))
    for stage in ("sample", "sums"):
        for done in (0.0, 0.5, 1.0):
            line(stage, done, 1.0)
    assert file.getvalue().splitlines() == [f"{'sample':<28} 2.0 s", f"{'sums':<28} 2.0 s"]


@pytest.mark.parametrize("progress", [True, False, None])
def test_progress_on_standard_error(progress, capsys):
    X = np.random.default_rng(0).uniform(0, 5, (300, 2))
    source = ArraySource(X, X[:, 0], sample_size=100)
    given = {"length_scale": 1.0, "signal_variance": 1.0, "noise_variance": 0.1, "spacing": 1.0, "radius": 2.0}
    model = nf.LocalGPRegressor(**given, features=nf.TaylorFeatures(5), progress=progress).fit(source)
    model.predict(source)
    shown = [line.split()[0] for line in capsys.readouterr().err.splitlines()]
    assert shown == (["sample", "centres", "sums", "prediction"] if progress else [])
