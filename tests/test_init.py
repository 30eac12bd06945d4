"""The package: what it offers, and that it loads nothing before it is needed."""

import pkgutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import nearfield as nf


def test_everything_offered_is_there():
    for name in nf.__all__:
        assert getattr(nf, name) is not None
        assert name in dir(nf)


def test_every_public_module_is_there_without_an_import_of_its_own():
    names = [module.name for module in pkgutil.iter_modules(nf.__path__)]
    modules = [name for name in names if not name.startswith("_") and (Path(nf.__path__[0]) / f"{name}.py").exists()]
    assert {"datasets", "io", "metrics", "mixtures", "plotting", "sources", "webpage"} <= set(modules)
    # In a process of its own, since other tests import them; and each anew, since they import each other.
    code = f"""
import sys
for name in {modules}:
    for other in [other for other in sys.modules if other.partition(".")[0] == "nearfield"]:
        del sys.modules[other]
    import nearfield as nf
    print(getattr(nf, name).__name__)
"""
    assert run(code).split() == [f"nearfield.{name}" for name in modules]
    assert set(modules) <= set(nf.__all__)


def test_nothing_else_is():
    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        _ = nf.nothing_of_the_kind


OPTIONAL = {
    "airportsdata", "dask", "distributed", "geopandas", "h5netcdf", "matplotlib", "pandas", "pooch", "pyarrow",
    "pyproj", "requests", "rich", "rioxarray", "shapely", "skops", "torch", "tqdm", "typer", "xarray",
}  # fmt: skip

USE = """
import numpy as np
from nearfield import ExactGPRegressor, FeatureGPRegressor, FourierFeatures, LocalGPRegressor

X = np.random.default_rng(0).uniform(size=(60, 2))
y = np.sin(6 * X[:, 0])
fixed = {"length_scale": 0.3, "noise_variance": 0.01, "signal_variance": 1.0}
features = FourierFeatures(n_components=8, random_state=0)
for model in (ExactGPRegressor(**fixed), FeatureGPRegressor(features, **fixed), LocalGPRegressor(**fixed)):
    assert model.fit(X, y).predict(X, return_std=True)[0].shape == (60,)
"""

# As though none were installed.
HIDE = f"""
import sys

class Hide:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {OPTIONAL}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Hide())
"""

# scikit-learn imports some of them for itself where they are installed, so sys.modules would not tell who asked.
WATCH = """
import builtins

asked, real = set(), builtins.__import__

def watched(name, globals=None, locals=None, fromlist=(), level=0):
    if level == 0 and str((globals or {}).get("__name__")).startswith("nearfield"):
        asked.add(name.partition(".")[0])
    return real(name, globals, locals, fromlist, level)

builtins.__import__ = watched
"""


def test_importing_the_package_loads_no_other():
    others = OPTIONAL | {"joblib", "numpy", "scipy", "sklearn"}
    assert run(f"import sys, nearfield; print(sorted({others} & set(sys.modules)))") == "[]"


def test_arrays_ask_for_no_optional_package():
    asked = run(f"{WATCH}\n{USE}\nprint(*asked)").split()
    assert {"numpy", "scipy", "sklearn"} <= set(asked)  # the watch works
    assert OPTIONAL.isdisjoint(asked)


def test_what_arrays_ask_for_is_declared_as_a_dependency():
    names = {"array_api_compat": "array-api-compat", "sklearn": "scikit-learn"}
    asked = set(run(f"{WATCH}\n{USE}\nprint(*asked)").split()) - sys.stdlib_module_names - {"nearfield"}
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = {line.partition(">=")[0] for line in project["dependencies"]}
    assert {names.get(name, name) for name in asked} <= declared


def test_arrays_need_no_optional_package():
    run(f"{HIDE}\n{USE}\nassert {OPTIONAL}.isdisjoint(sys.modules)")


def run(code):
    """What a program prints that must succeed in a process of its own."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
