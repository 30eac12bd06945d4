"""The site: notebooks of the examples, and a reference that says what the signatures do."""

import ast
import importlib.util
from pathlib import Path

import pytest

pytest.importorskip("latex2mathml", reason="latex2mathml is not installed: pip install '.[docs]'")

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture(scope="module")
def hooks():
    spec = importlib.util.spec_from_file_location("hooks", ROOT / "docs" / "hooks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.stem)
def test_examples_are_notebooks_too(hooks, path):
    cells = hooks.notebook(path)["cells"]
    assert cells[0]["cell_type"] == "markdown"
    assert cells[0]["source"].startswith("# ")
    for cell in cells[1:]:
        ast.parse(cell["source"])
    assert "def main" in cells[2]["source"]
    assert '"""' + cells[0]["source"][2:20] not in cells[2]["source"]
