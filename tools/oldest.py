"""The oldest versions the package promises to work with, one a line: `>=` in pyproject.toml turned into `==`.

    python tools/oldest.py test dask

prints those of the dependencies and of the named extras, for `pip install -r`.
"""

import re
import sys
import tomllib
from pathlib import Path

PYPROJECT = Path(__file__).resolve().parent.parent / "pyproject.toml"


def oldest(project: dict, extras: list[str]) -> list[str]:
    """Pins of the dependencies and extras; an extra that names others, as in `nearfield[cli,plot]`, stands for them."""
    pins = set()
    wanted = list(project["dependencies"])
    for extra in extras:
        wanted += project["optional-dependencies"][extra]
    while wanted:
        requirement = wanted.pop().partition(";")[0].strip()  # markers hold where this is run
        if own := re.fullmatch(rf"{project['name']}\[(.+)\]", requirement):
            for extra in own[1].split(","):
                wanted += project["optional-dependencies"][extra.strip()]
        elif floor := re.fullmatch(r"([\w.\[\],-]+)>=([\w.]+)(?:,.*)?", requirement):
            pins.add(f"{floor[1]}=={floor[2]}")
        else:
            raise SystemExit(f"pyproject.toml: {requirement!r} names no oldest version; write it with >=.")
    return sorted(pins)


if __name__ == "__main__":
    print("\n".join(oldest(tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"], sys.argv[1:])))
