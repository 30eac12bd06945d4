"""`nearfield info`."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

import nearfield as nf

from ..warned import few_features


def test_what_people_read(runs, model):
    out, err = runs("info", model)
    assert err == ""
    assert "ExactGPRegressor" in out
    assert "trained on      120 rows of stations.csv" in out
    assert "target          temp, from" in out
    assert "feature         lon, from" in out
    assert "rows named by   station" in out
    assert "noise_variance = " in out
    assert hashlib.sha256(Path(model).read_bytes()[:-32]).hexdigest()[:16] in out


def test_what_machines_read(runs, model):
    result = json.loads(runs("info", model, "--json")[0])
    gp = nf.load(model)
    assert result["class"] == "ExactGPRegressor"
    assert result["hyperparameters"]["length_scale"] == gp.length_scale_
    assert result["hyperparameters"]["noise_variance"] == gp.noise_variance_
    assert result["features"] == ["lon", "lat"]
    assert result["targets"] == 1
    assert result["metadata"]["target"] == "temp"
    assert result["format"] == 1


@pytest.mark.parametrize(
    "gp",
    [
        nf.LocalGPRegressor(length_scale=1.0, signal_variance=1.0, noise_variance=0.1, random_state=0),
        nf.FeatureGPRegressor(
            nf.FourierFeatures(20, random_state=0), length_scale=1.0, signal_variance=1.0, random_state=0
        ),
        nf.FeatureGPRegressor(nf.PolynomialSketch(20, random_state=0), random_state=0),
    ],
)
@few_features
def test_models_saved_in_python(runs, rows, tmp_path, gp):
    path = tmp_path / "m.nf"
    nf.save(gp.fit(rows[0], np.column_stack([rows[1], rows[1]])), path)
    assert "features        x0, x1" in runs("info", path)[0]
    result = json.loads(runs("info", path, "--json")[0])
    assert result["targets"] == 2
    assert result["report"]["n_samples"] == len(rows[0])


def test_a_file_that_describes_itself_strangely(runs, fails, rows, tmp_path):
    path = tmp_path / "m.nf"
    gp = nf.ExactGPRegressor(length_scale=1.0, signal_variance=1.0, noise_variance=0.1).fit(rows[0], rows[1])
    nf.save(gp, path, {"target": "t", "columns": 5})
    assert "cannot be read here" in fails("info", path)
    nf.save(gp, path, {"target": "\x1b[2Jt", "columns": []})
    assert "\x1b" not in runs("info", path)[0]


def test_what_is_no_model_is_one_line(fails, model, csv, tmp_path):
    assert "not a nearfield model" in fails("info", csv)
    assert "No such file" in fails("info", tmp_path / "none")
    assert "Is a directory" in fails("info", tmp_path)
    content = bytearray(Path(model).read_bytes())
    content[len(content) // 2] ^= 1
    path = tmp_path / "m.nf"
    path.write_bytes(content)
    assert "altered" in fails("info", path)
