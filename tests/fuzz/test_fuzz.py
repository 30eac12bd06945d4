"""A small share of the files that `make fuzz` tries, in this process."""

import sys
from pathlib import Path

import pytest

pytest.importorskip("typer")
pytest.importorskip("pyarrow")
sys.path.insert(0, str(Path(__file__).parents[2]))

from fuzz import commands, models, mutations, parquet, runner, texts, watch


@pytest.fixture(scope="module")
def hook(tmp_path_factory):
    """An audit hook stays for good, so there is one for all."""
    return watch.Watch(tmp_path_factory.mktemp("hook"))


@pytest.fixture
def watched(hook, tmp_path):
    hook.folder = str(tmp_path)
    return hook


@pytest.mark.parametrize(
    ("target", "n_files"),
    [(models.TARGET, 300), (texts.TARGET, 300), (parquet.TARGET, 300), (commands.TARGET, 30)],
    ids=lambda value: getattr(value, "name", ""),
)
def test_no_file_does_more_than_be_refused_or_taken(target, n_files, watched, tmp_path):
    own = tmp_path / "own"
    own.mkdir()
    target.prepare(tmp_path)
    target.load(tmp_path)
    result = runner.Result(target.name)
    told = []

    def report(line):
        if "begins" not in line:
            result.add(line)
            told.append(line.get("trace", ""))

    runner.run_here(target, own, 12, range(n_files), watched, report)
    assert result.defects == {}, "\n".join(told)
    assert result.taken > 0
    assert result.refused > n_files / 4


# ---- the fuzzer itself: it must notice what it is there to notice ----------------------------------------------------


class Bad:
    """A target with one fault."""

    name = "bad"

    def __init__(self, fault):
        self.fault = fault

    def write(self, rng, folder):
        path = folder / "file"
        path.write_bytes(rng.randbytes(10))
        return path

    def attempt(self, path, rng):
        return self.fault(path)


def outcome(fault, watched, folder):
    lines = []
    runner.run_here(Bad(fault), folder, 0, [0], watched, lines.append)
    return lines[-1].get("defect", "")


def raises(error):
    raise error


FAULTS = {
    "TypeError": lambda path: raises(TypeError("x")),
    "forbidden: compile": lambda path: eval("1 + 1"),
    "forbidden: exec": lambda path: exec((lambda: 1).__code__),
    "forbidden: open": lambda path: Path(path.parents[1], "elsewhere").write_text("x"),
    "forbidden: os.system": lambda path: __import__("os").system("true"),
    "too much memory": lambda path: len(bytearray(200 << 20)) == 0,
    "does not name the file": lambda path: runner.require_sentence(ValueError("no"), path),
    "several lines": lambda path: runner.require_sentence(ValueError(f"{path}\nno"), path),
}


@pytest.mark.parametrize("words", FAULTS)
def test_faults_are_noticed(words, watched, tmp_path):
    own = tmp_path / "own"
    own.mkdir()
    watched.folder = str(own)
    assert words in outcome(FAULTS[words], watched, own)


def test_what_is_allowed_is_no_fault(watched, tmp_path):
    assert outcome(lambda path: path.read_bytes() == b"", watched, tmp_path) == ""
    assert outcome(lambda path: path.with_name("other").write_text("x") > 0, watched, tmp_path) == ""


def test_the_same_seed_makes_the_same_files(tmp_path):
    for target in (models.TARGET, texts.TARGET, parquet.TARGET):
        folder = tmp_path / target.name
        folder.mkdir()
        target.prepare(folder)
        target.load(folder)
        made = [[target.write(runner.generator(3, i), folder).read_bytes() for i in range(30)] for _ in range(2)]
        assert made[0] == made[1]
        assert len(set(made[0])) > 20


def test_a_child_that_dies_or_hangs_is_found_out_and_the_rest_is_still_tried(tmp_path, monkeypatch):
    module = tmp_path / "dying.py"
    module.write_text(
        "import os, sys, time\n"
        "from fuzz import runner\n"
        "class Dying:\n"
        "    name = 'dying'\n"
        "    def prepare(self, folder): pass\n"
        "    def load(self, folder): runner.SECONDS = 1\n"
        "    def write(self, rng, folder):\n"
        "        path = folder / 'file'; path.write_text('x'); self.n = getattr(self, 'n', -1) + 1; return path\n"
        "    def attempt(self, path, rng):\n"
        "        number = int(rng.random() * 1000)\n"
        "        if number == FIRST: os.abort()\n"
        "        if number == SECOND: time.sleep(60)\n"
        "        return True\n"
        f"FIRST, SECOND = {[int(runner.generator(0, i).random() * 1000) for i in (1, 3)]}\n"
        "TARGET = Dying()\n"
        "if __name__ == '__main__': sys.exit(runner.main(TARGET, 5))\n"
    )
    root = Path(__file__).parents[2]
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{root}:{root / 'src'}")
    monkeypatch.syspath_prepend(str(tmp_path))
    import dying

    result = runner.run(dying.TARGET, 5, module="dying")
    assert (result.n_files, result.taken) == (5, 3)
    assert result.defects == {"the process ended with -6": 1, "no answer in time": 1}
    assert result.first == {"the process ended with -6": 1, "no answer in time": 3}


def test_mutations_alter():
    rng = runner.generator(0, 0)
    data = bytes(range(200))
    assert sum(mutations.bytes_altered(data, rng) != data for _ in range(200)) > 180
    tree = {"a": [1, 2.0, {"b": None}], "c": "x"}
    changed = [mutations.tree_altered(tree, rng) for _ in range(200)]
    assert sum(repr(c) != repr(tree) for c in changed) > 150
    assert tree == {"a": [1, 2.0, {"b": None}], "c": "x"}
