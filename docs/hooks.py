"""What the site needs beyond MkDocs: formulas without JavaScript, and a reference that leaves no public name out."""

import ast
import inspect
import json
import re
from pathlib import Path

import latex2mathml.converter

import nearfield

EXAMPLE = re.compile(r'^\?\?\? example "examples/(\w+)\.py"$', re.MULTILINE)
NOTEBOOK = r'<a href="notebooks/\1.ipynb" download>Download as a notebook</a>' + "\n\n" + r"\g<0>"
FORMULA = re.compile(r"^```math\n(.*?)\n```$", re.MULTILINE | re.DOTALL)
ENTRIES = "<!-- every public name -->"

# Heading -> names in their order. What is public and not here comes last, so that nothing is left out.
GROUPS = {
    "Regressors": ["LocalGPRegressor", "ExactGPRegressor", "FeatureGPRegressor"],
    "Feature maps": ["TaylorFeatures", "MaclaurinFeatures", "FourierFeatures", "PolynomialSketch"],
    "Model files": ["save", "load", "load_with_metadata"],
    "Modules": [],
}


def on_page_markdown(markdown: str, **_) -> str:
    """Formulas become MathML, and the mark in the reference becomes its entries."""
    if ENTRIES in markdown:
        markdown = markdown.replace(ENTRIES, entries())
    markdown = EXAMPLE.sub(NOTEBOOK, markdown)
    return FORMULA.sub(lambda match: mathml(match[1]), markdown)


def on_post_build(config, **_) -> None:
    """Write every example as a notebook beside the pages."""
    folder = Path(config["site_dir"]) / "notebooks"
    folder.mkdir(parents=True, exist_ok=True)
    for path in sorted(Path("examples").glob("*.py")):
        (folder / f"{path.stem}.ipynb").write_text(json.dumps(notebook(path), indent=1), encoding="utf-8")


def notebook(path: Path) -> dict:
    """An example as a notebook: what it says of itself, its code, and its picture."""
    source = path.read_text(encoding="utf-8")
    docstring = ast.get_docstring(ast.parse(source)) or ""
    title, _, rest = docstring.partition("\n")
    code = source[source.index('"""', 3) + 3 :].strip()
    argv = f"import sys\n\nsys.argv = [{path.name!r}]  # a notebook has arguments of its own"
    cells = [("markdown", f"# {title}\n{rest}"), ("code", argv), ("code", code)]
    if f"demo/{path.stem}.png" in source:
        cells.append(("code", f'from IPython.display import Image\n\nImage("demo/{path.stem}.png")'))
    extra = {"code": {"execution_count": None, "outputs": []}, "markdown": {}}
    return {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}},
        "cells": [
            {"cell_type": kind, "id": f"cell-{i}", "metadata": {}, "source": text, **extra[kind]}
            for i, (kind, text) in enumerate(cells)
        ],
    }


def mathml(formula: str) -> str:
    """One displayed formula; browsers draw it by themselves."""
    rows = [latex2mathml.converter.convert(row, display="block") for row in formula.splitlines() if row.strip()]
    return "\n".join(f'<div class="formula">{row}</div>' for row in rows)


def entries() -> str:
    """Directives for every name in `nearfield.__all__`, under the headings of `GROUPS`."""
    known = [name for names in GROUPS.values() for name in names]
    others = [name for name in nearfield.__all__ if name not in known]
    parts = []
    for heading, names in GROUPS.items():
        shown = [name for name in names if name in nearfield.__all__] or (others if heading == "Modules" else [])
        parts += [f"## {heading}", *(directive(name) for name in shown)] if shown else []
    # The one module that is imported by its own name, since it needs xarray.
    parts.append("::: nearfield.raster\n    options:\n      show_root_full_path: true\n      members: [fill]")
    return "\n\n".join(parts)


def directive(name: str) -> str:
    """A class with its methods, a function, or a module with what it makes public."""
    thing = getattr(nearfield, name)
    if not inspect.ismodule(thing):
        return f"::: nearfield.{name}"
    public = getattr(thing, "__all__", None) or [
        key for key, value in vars(thing).items() if defined_in(value, thing) and not key.startswith("_")
    ]
    members = "\n".join(f"        - {key}" for key in public)
    return f"::: nearfield.{name}\n    options:\n      show_root_full_path: true\n      members:\n{members}"


def defined_in(value, module) -> bool:
    """Whether a class or function belongs to the module, not to one it imports."""
    return (inspect.isfunction(value) or inspect.isclass(value)) and value.__module__ == module.__name__
