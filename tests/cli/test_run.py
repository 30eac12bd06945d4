"""The frame of the command line: exit codes and messages. Each command has tests of its own."""

import io
import subprocess
import sys

import pytest

pytest.importorskip("typer")

from rich.console import Console

from nearfield import __version__, cli
from nearfield.cli import app, progress


def test_the_version(capsys):
    assert cli.main(["--version"]) == 0
    assert __version__ in capsys.readouterr().out


@pytest.mark.parametrize("argv", [["nope"], ["--nope"]])
def test_a_wrong_word_is_one_line_and_code_2(capsys, argv):
    assert cli.main(argv) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert "nope" in captured.err


def test_no_command_shows_the_help(capsys):
    assert cli.main([]) == 2
    assert "Usage" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("error", "code"), [(KeyboardInterrupt(), 130), (ValueError("a\nb"), 2), (OSError(28, "full", "f"), 2)]
)
def test_what_goes_wrong_in_a_command_is_one_line(capsys, monkeypatch, error, code):
    def fail(**_):
        raise error

    monkeypatch.setattr(app, "app", fail)
    assert cli.main([]) == code
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("name", ["typer", "nearfield.cli.run", "nearfield.cli.app"])
def test_ctrl_c_during_imports_is_one_line(capsys, monkeypatch, name):
    class Interrupted:
        def find_spec(self, wanted, *_):
            if wanted == name:
                raise KeyboardInterrupt

    for module in {name, "nearfield.cli.run"}:
        monkeypatch.delitem(sys.modules, module)
        monkeypatch.delattr(cli, module.rpartition(".")[2], raising=False)
    monkeypatch.setattr(sys, "meta_path", [Interrupted(), *sys.meta_path])
    assert cli.main(["--version"]) == 130
    assert capsys.readouterr().err == "nearfield: interrupted\n"


def test_help_into_a_closed_pipe_ends_without_a_word():
    process = subprocess.Popen(
        [sys.executable, "-m", "nearfield", "--help"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    process.stdout.close()
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait() == 141


def test_one_bar_for_all_that_begins_alike(monkeypatch):
    made = []
    monkeypatch.setattr(progress, "errors", Console(file=io.StringIO(), force_terminal=True, width=100))
    original = progress.Progress.add_task
    monkeypatch.setattr(
        progress.Progress, "add_task", lambda self, name, **more: made.append(name) or original(self, name, **more)
    )
    with progress.bars() as show:
        show("learning: start 1", 0.5, -1.0)
        show("learning: refine", 2.0)
        show("tuning", -1.0)
    assert made == ["learning: start 1", "tuning"]


@pytest.mark.parametrize(
    ("terminal", "quiet", "drawn"), [(True, False, True), (True, True, False), (False, False, False)]
)
def test_bars_are_drawn_on_a_terminal_only(monkeypatch, terminal, quiet, drawn):
    screen = Console(file=io.StringIO(), force_terminal=terminal, width=100)
    monkeypatch.setattr(progress, "errors", screen)
    with progress.bars(quiet=quiet) as show:
        show("learning", 0.5)
    assert ("learning" in screen.file.getvalue()) == drawn


def test_without_typer_the_command_says_what_to_install():
    code = "import sys; sys.modules['typer'] = None; from nearfield.cli import main; sys.exit(main([]))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "nearfield[cli]" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "command", ["fit", "predict", "areas", "evaluate", "fill", "info", "report", "demo", "bench", "reproduce"]
)
def test_flags_have_no_type_in_the_help(command, capsys):
    assert cli.main([command, "--help"]) == 0
    assert "<bool>" not in capsys.readouterr().out
