"""Altered files in large numbers, each the same for the same seed and number: `python -m fuzz.models --files 30000`.

`mutations.py` alters bytes and trees, `watch.py` looks for what no file may make the library do, `runner.py` runs the
files in children with limits of time and memory; `models`, `texts`, `parquet` and `commands` are what is tried.

And the defaults on data that nobody here has chosen: `zoo` has tables of R, `made_up` makes data up, `many.py` runs
them in children, and `judging.py` says what fails.
"""
