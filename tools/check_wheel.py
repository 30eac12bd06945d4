"""Build sdist and wheel, install the wheel alone into an empty environment, and use it there as a stranger would.

    python tools/check_wheel.py

needs the package `build`. What fails says so; what passes prints one line.
"""

import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

USE = """
import sys
import numpy as np
import nearfield

assert "site-packages" in nearfield.__file__, nearfield.__file__
X = np.random.default_rng(0).uniform(-3, 3, size=(300, 2))
y = np.sin(X[:, 0]) * np.cos(X[:, 1])
fixed = {"length_scale": 1.0, "noise_variance": 1e-4, "signal_variance": 1.0, "random_state": 0}
mean, std = nearfield.LocalGPRegressor(**fixed).fit(X[:250], y[:250]).predict(X[250:], return_std=True)
exact = nearfield.ExactGPRegressor(**fixed).fit(X[:250], y[:250]).predict(X[250:])
assert np.abs(mean - exact).max() < 0.02, np.abs(mean - exact).max()
assert np.all(std > 0)
"""


def main() -> None:
    """Check the files of both archives, then an installation of the wheel."""
    with tempfile.TemporaryDirectory() as folder:
        wheel, sdist = build(Path(folder))
        check_files(wheel, sdist)
        check_installed(wheel, Path(folder) / "env")
        print(f"{wheel.name}: {wheel.stat().st_size / 1e3:.0f} kB, installs and works without any extra")


def build(folder: Path) -> tuple[Path, Path]:
    """The wheel, made from the sdist and not from the checkout, and that sdist."""
    run(sys.executable, "-m", "build", "--outdir", folder, ROOT, cwd=folder)
    return next(folder.glob("*.whl")), next(folder.glob("*.tar.gz"))


def check_files(wheel: Path, sdist: Path) -> None:
    """The wheel has every file of the package and nothing else; the sdist can be tested."""
    source = ROOT / "src"
    package = {p.relative_to(source).as_posix() for p in (source / "nearfield").rglob("*") if p.is_file()}
    package = {name for name in package if "__pycache__" not in name}
    assert {"nearfield/py.typed", "nearfield/reproduction/published.csv", "nearfield/reporting/page/page.js"} <= package
    inside = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert inside == package, f"only in the wheel or only in src: {sorted(inside ^ package)}"

    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {"LICENSE", "README.md", "pyproject.toml", "tests/conftest.py", *(f"src/{name}" for name in package)}
    assert wanted <= names, f"not in the sdist: {sorted(wanted - names)}"


def check_installed(wheel: Path, env: Path) -> None:
    """It imports, fits and predicts near the exact process; the command line says what it wants, in one line."""
    venv.create(env, with_pip=True)
    scripts = env / ("Scripts" if sys.platform == "win32" else "bin")
    run(scripts / "python", "-m", "pip", "install", "--quiet", wheel, cwd=env)
    run(scripts / "python", "-I", "-c", USE, cwd=env)
    done = subprocess.run([scripts / "nearfield", "--help"], capture_output=True, text=True, check=False, cwd=env)
    assert done.returncode == 2, done
    assert done.stderr.count("\n") == 1, done.stderr
    assert "pip install 'nearfield[cli]'" in done.stderr, done.stderr


def run(*command: object, cwd: Path) -> None:
    """Run a command outside the checkout; its output is shown only where it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd)
    if done.returncode:
        raise SystemExit(f"{command} failed:\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    main()
