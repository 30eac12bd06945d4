"""Tables and models for the tests of the commands."""

import numpy as np
import pytest

pytest.importorskip("typer")

from nearfield import cli


@pytest.fixture(scope="session")
def rows():
    """Places (120, 2), a smooth target with noise, and a town for each."""
    rng = np.random.default_rng(0)
    places = rng.uniform(0, 10, (120, 2))
    target = np.sin(places[:, 0]) + 0.5 * np.cos(places[:, 1]) + 0.05 * rng.standard_normal(120)
    return places, target, rng.choice(["Bath", "York"], 120)


@pytest.fixture(scope="session")
def lines(rows):
    """The table as lines of CSV, without line ends: station, lon, lat, town, temp."""
    places, target, towns = (column.tolist() for column in rows)
    return [
        "station,lon,lat,town,temp",
        *(
            f"S{i:03},{p[0]!r},{p[1]!r},{town},{y!r}"
            for i, (p, town, y) in enumerate(zip(places, towns, target, strict=True))
        ),
    ]


@pytest.fixture
def csv(tmp_path, lines):
    path = tmp_path / "stations.csv"
    path.write_text("\n".join(lines) + "\n")
    return str(path)


@pytest.fixture(scope="session")
def model(tmp_path_factory, lines):
    """A model file that no test changes."""
    folder = tmp_path_factory.mktemp("model")
    (folder / "stations.csv").write_text("\n".join(lines) + "\n")
    path = str(folder / "model.nf")
    argv = ["fit", str(folder / "stations.csv"), "--target", "temp", "--id", "station", "--method", "exact"]
    assert cli.main([*argv, "--features", "lon,lat", "--out", path]) == 0
    return path


@pytest.fixture
def fails(capsys):
    """Run a command that must fail: code 2, nothing on standard output, and the last line is the complaint."""

    def run(*argv, notes=0):
        capsys.readouterr()
        assert cli.main([str(a) for a in argv]) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        complaint = captured.err.splitlines()
        assert len(complaint) == 1 + notes, captured.err
        assert complaint[-1].startswith("nearfield: ")
        return complaint[-1]

    return run


@pytest.fixture
def runs(capsys):
    """Run a command that must succeed; gives standard output and standard error."""

    def run(*argv):
        capsys.readouterr()
        code = cli.main([str(a) for a in argv])
        captured = capsys.readouterr()
        assert code == 0, captured.err
        return captured.out, captured.err

    return run
