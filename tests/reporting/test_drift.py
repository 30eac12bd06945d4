"""What reports, grids and pages say of a drift."""

import re

import numpy as np
import pytest

import nearfield as nf

pd = pytest.importorskip("pandas", reason="pandas is not installed")

pytestmark = pytest.mark.usefixtures("quick_pages")
RNG = np.random.default_rng(0)
N = 120
X = pd.DataFrame(
    {
        "kind": RNG.choice(["flat", "house", "villa"], N, p=[0.6, 0.2, 0.2]),
        "lon": RNG.uniform(5, 8, N),
        "lat": RNG.uniform(45, 48, N),
        "area": RNG.uniform(50, 200, N),
        "note": RNG.choice(["a", "b"], N),
    }
)
Y = 0.02 * X["area"] + 2.0 * (X["kind"] == "villa") + np.sin(2 * X["lon"]) + 0.1 * RNG.standard_normal(N)
GIVEN = {"length_scale": 60.0, "signal_variance": 0.5, "noise_variance": 0.02, "metric": "sphere"}
ROLES = {"coordinates": ["lon", "lat"], "drift": ["area", "kind"]}


@pytest.fixture(scope="module", params=[nf.LocalGPRegressor, nf.ExactGPRegressor])
def model(request):
    return request.param(**GIVEN, **ROLES).fit(X, Y)


def test_summaries_have_the_coefficients(model):
    from nearfield.reporting.summary import summarise

    lines = summarise(model)["drift"].splitlines()
    assert lines[0].split() == ["coefficient", "standard", "error"]
    assert [line.split()[0] for line in lines[1:]] == ["intercept", "area", "kind=house", "kind=villa"]
    assert float(lines[2].split()[1]) == pytest.approx(model.drift_coef_["area"].value, rel=1e-3)
    plain = type(model)(**GIVEN, coordinates=["lon", "lat"]).fit(X, Y)
    assert "drift" not in dict(summarise(plain).lines)


def test_pages_have_coefficients_a_map_and_slices(model):
    page = model.to_html(None, X, Y)
    assert "Drift</h2>" in page
    assert 'scope="row">kind=villa</th>' in page
    assert "The process alone" in page or "need matplotlib" in page
    assert '"names":["lon","lat"]' in page
    assert "along area" in page
    assert "along note" not in page  # a column without a role
    plain = type(model)(**{**GIVEN, "metric": "euclidean"}).fit(X[["lon", "lat"]], Y)
    assert "Drift</h2>" not in plain.to_html()


def test_pages_have_the_effects_of_groups():
    effects = {"flat": 0.0, "house": 1.0, "villa": 2.0}
    y = X["kind"].map(effects) + 0.1 * np.sin(2 * X["lon"]) + 0.05 * np.random.default_rng(1).standard_normal(N)
    model = nf.ExactGPRegressor(**GIVEN, coordinates=["lon", "lat"], groups=["kind"]).fit(X, y)
    page = model.to_html(None, X, y)
    assert "Drift</h2>" in page
    row = page[page.index('scope="row">kind</th>') :]
    levels, spread = re.match(r".*?</th><td>(\d+)</td><td>([\d.]+)</td><td>flat: ", row).groups()
    assert levels == "3"
    assert float(spread) == pytest.approx(model.group_variance_["kind"] ** 0.5, rel=1e-3)
    assert row.index("flat: ") < row.index("villa: ") < row.index("</tr>")


def test_grids_hold_covariates(model):
    pytest.importorskip("xarray", reason="xarray is not installed")
    grid = model.predict_grid({"lon": [6.0, 7.0], "lat": [46.0]})
    place = pd.DataFrame(
        {"kind": "flat", "lon": [6.0, 7.0], "lat": 46.0, "area": X["area"].median(), "note": "a"},
    )
    np.testing.assert_allclose(grid["mean"].values.ravel(), model.predict(place))
    villa = model.predict_grid({"lon": [6.0, 7.0], "lat": [46.0], "kind": "villa"})
    expected = model.predict(place.assign(kind="villa"))
    np.testing.assert_allclose(villa["mean"].values.ravel(), expected)
    with pytest.raises(ValueError, match=r"'kind' has the categories 'flat', 'house', 'villa'. Got 'castle'"):
        model.predict_grid({"lon": [6.0], "lat": [46.0], "kind": "castle"})


def test_the_level_of_the_targets_is_their_mean(model):
    assert model._level_of_targets() == pytest.approx(Y.mean())
