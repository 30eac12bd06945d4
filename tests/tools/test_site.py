"""The site: notebooks of the examples, and a reference that says what the signatures do."""

import ast
import importlib.util
import inspect
from pathlib import Path

import numpy as np
import pytest

import nearfield as nf

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


REGRESSORS = [nf.LocalGPRegressor, nf.ExactGPRegressor, nf.FeatureGPRegressor]
MAPS = [nf.FourierFeatures, nf.TaylorFeatures, nf.MaclaurinFeatures, nf.PolynomialSketch]


def sections(thing):
    """Sections of a docstring as the site renders them, by kind."""
    griffe = pytest.importorskip("griffe", reason="griffe is not installed: pip install '.[docs]'")
    parsed = griffe.Docstring(inspect.getdoc(thing)).parse("numpy")
    return {section.kind.value: section.value for section in parsed}


@pytest.mark.parametrize("cls", [*REGRESSORS, *MAPS], ids=lambda cls: cls.__name__)
def test_every_parameter_has_a_line_of_its_own_with_the_default_of_the_signature(cls):
    told = {entry.name: entry for entry in sections(cls)["parameters"]}
    signature = inspect.signature(cls).parameters
    assert list(told) == list(signature)
    for name, parameter in signature.items():
        assert told[name].description.strip(), name
        if parameter.default is not inspect.Parameter.empty:
            assert ast.literal_eval(str(told[name].default)) == parameter.default, name


@pytest.mark.parametrize("cls", REGRESSORS, ids=lambda cls: cls.__name__)
def test_every_fitted_attribute_is_described(cls):
    X = np.random.default_rng(0).uniform(0, 3, (30, 2))
    given = {"length_scale": 1.0, "signal_variance": 1.0, "noise_variance": 0.1, "random_state": 0}
    first = [nf.FourierFeatures(300, random_state=0)] if cls is nf.FeatureGPRegressor else []
    model = cls(*first, **given).fit(X, X[:, 0])
    told = {entry.name: entry for entry in sections(cls)["attributes"]}
    fitted = {name for name in vars(model) if name.endswith("_") and not name.startswith("_")}
    assert fitted <= set(told)
    assert all(entry.description.strip() for entry in told.values())
    on_request = {"feature_names_in_", "drift_coef_", "group_effects_", "mean_", "rotation_"}
    assert all(hasattr(model, name) for name in set(told) - on_request)
