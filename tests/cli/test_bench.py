"""`nearfield bench`."""

import json

import pytest

pytest.importorskip("typer")

from nearfield import cli


def test_a_line_a_size(capsys):
    assert cli.main(["bench", "300", "400"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["points", "300", "400"]


def test_numbers_for_machines(capsys):
    assert cli.main(["bench", "500", "--json"]) == 0
    (record,) = json.loads(capsys.readouterr().out)
    assert record["points"] == 500
    assert 0.3 < record["rmse"] < 0.45  # the noise has a standard deviation of 0.32
    assert 0.9 < record["coverage"] <= 1
    assert record["divergence"] == 0  # so few points are solved exactly


def test_sizes_are_checked(capsys):
    assert cli.main(["bench", "3"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
