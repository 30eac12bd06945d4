import io
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import nearfield as nf
from nearfield.common import progress
from nearfield.common.progress import ProgressLine
from nearfield.sources import ArraySource

NOTEBOOK = SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=object()))


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


def test_the_time_left_is_that_of_a_step():
    screen, times = Screen(), iter([0.0, 50.0, 60.0])
    line = ProgressLine(screen, lambda: next(times))
    line("learning: start 1", 0.5)
    line("learning: refine", 0.0)
    line("learning: refine", 0.1)
    assert screen.getvalue().rstrip().endswith("90 s left")


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
    options = {"features": nf.TaylorFeatures(5), "random_state": 0}
    model = nf.LocalGPRegressor(**given, **options, progress=progress).fit(source)
    model.predict(source)
    shown = [line.split()[0] for line in capsys.readouterr().err.splitlines()]
    assert shown == (["sample", "centres", "sums", "prediction"] if progress else [])


class Bar:
    """What tqdm is asked for."""

    def __init__(self, made, **options):
        self.options, self.shown, self.closed, self.n = options, [], False, 0
        made.append(self)

    def set_description_str(self, text, **_):
        self.text = text

    def refresh(self):
        self.shown.append((self.text, self.n))

    def close(self):
        self.closed = True


def test_notebooks_have_one_bar_at_a_time_that_goes():
    made = []
    bar = progress.NotebookBar(lambda **options: Bar(made, **options))
    for stage, done in (("learning: start 1", 0.5), ("learning: refine", 0.9), ("tuning", 0.2), ("tuning", 1.0)):
        bar(stage, done, 0.0)
    assert [b.closed for b in made] == [True, True]
    assert made[0].shown == [("learning: start 1", 50), ("learning: refine", 90)]
    assert made[1].shown == [("tuning", 20), ("tuning", 100)]
    assert all(b.options["leave"] is False for b in made)


class Place:
    """Where a notebook shows something, and what it has shown there."""

    def __init__(self):
        self.texts = []

    def update(self, text):
        self.texts.append(text)


def test_without_widgets_a_bar_is_drawn_in_one_place_and_goes(monkeypatch):
    places = []

    def show(text, display_id):
        assert display_id
        places.append(Place())
        places[-1].update(text)
        return places[-1]

    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(HTML=str, display=show))
    monkeypatch.setitem(sys.modules, "IPython", NOTEBOOK)
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    bar = progress.display()
    for stage, done in (("learning: start <1>", 0.5), ("learning: refine", 0.9), ("tuning", 0.2), ("tuning", 1.0)):
        bar(stage, done, 0.0)
    (place,) = places
    assert place.texts == [
        '<progress value="50" max="100"></progress> learning: start &lt;1&gt;',  # the next comes too soon to be drawn
        "",
        '<progress value="20" max="100"></progress> tuning',
        "",
    ]


def test_in_a_kernel_nothing_is_written_to_standard_error():
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed")
    nbformat = pytest.importorskip("nbformat")
    code = [
        "import numpy as np, nearfield as nf",
        "X = np.linspace(0, 9, 60)[:, None]",
        "model = nf.LocalGPRegressor(n_scales=1, n_restarts=0, random_state=0, progress=True).fit(X, np.sin(X[:, 0]))",
        "model.report_",
    ]
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("\n".join(code))])
    nbclient.NotebookClient(book, timeout=120, kernel_name="python3").execute()
    outputs = book.cells[0].outputs
    bars = [output.data["text/html"] for output in outputs if output.output_type == "display_data"]
    assert set(bars) == {""}  # one per stage, and each went
    assert "<table" in outputs[-1].data["text/html"]
    written = "".join(output.text for output in outputs if output.output_type == "stream")
    assert all("Warning" in line or line.startswith(" ") for line in written.splitlines() if line)


def test_what_is_shown_depends_on_where(monkeypatch):
    terminal = SimpleNamespace(get_ipython=lambda: SimpleNamespace())
    for ipython in (None, SimpleNamespace(get_ipython=lambda: None), terminal):
        monkeypatch.setitem(sys.modules, "IPython", ipython)
        assert isinstance(progress.display(), progress.ProgressLine)
    monkeypatch.setitem(sys.modules, "IPython", NOTEBOOK)
    monkeypatch.setitem(sys.modules, "ipywidgets", object())
    monkeypatch.setitem(sys.modules, "tqdm.auto", SimpleNamespace(tqdm=Bar))
    assert progress.display().make_bar is Bar
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    assert isinstance(progress.display().make_bar(), progress.HtmlBar)
