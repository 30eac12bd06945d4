"""Missing values, in whatever way a table has them: refused in a sentence that says where, or counted as no group."""

import numpy as np
import pytest

import nearfield as nf

pd = pytest.importorskip("pandas", reason="pandas is not installed")

GIVEN = {"length_scale": 1.0, "signal_variance": 1.0, "noise_variance": 0.1}
N = 20
X = pd.DataFrame(np.random.default_rng(0).uniform(size=(N, 2)), columns=["a", "b"])
Y = X["a"] + 1
MODELS = {
    "plain": nf.ExactGPRegressor(**GIVEN),
    "roles": nf.ExactGPRegressor(**GIVEN, drift="linear"),
    "local": nf.LocalGPRegressor(**GIVEN),
}
every_model = pytest.mark.parametrize("name", MODELS)


def lacking(values, how):
    """The same with a missing value in row 3, in the last column: NA among objects, of a type that knows it, a list."""
    values = values.astype("Float64" if how == "nullable" else object)
    values.iloc[(3, -1) if values.ndim == 2 else 3] = pd.NA
    return {"list": lambda: values.to_numpy().tolist(), "array": values.to_numpy}.get(how, lambda: values)()


@every_model
@pytest.mark.parametrize("how", ["objects", "nullable", "list", "array"])
def test_they_are_refused(name, how):
    model = MODELS[name]
    with pytest.raises(ValueError, match=r"contains NaN"):
        model.fit(lacking(X, how), Y)
    with pytest.raises(ValueError, match="Input y contains NaN"):
        model.fit(X, lacking(Y, how))
    with pytest.raises(ValueError, match="Input sample_weight contains NaN"):
        model.fit(X, Y, lacking(Y, how))


@every_model
@pytest.mark.parametrize("how", ["objects", "nullable"])
def test_they_are_refused_with_their_place_in_a_table(name, how):
    model = MODELS[name]
    with pytest.raises(ValueError, match=r"row 3"):
        model.fit(lacking(X, how), Y)
    model.fit(X, Y)
    with pytest.raises(ValueError, match="row 3"):
        model.predict(lacking(X, how))
    with pytest.raises(ValueError, match="contains NaN"):
        model.score(X, lacking(Y, how))


@pytest.mark.parametrize("labels", [["north", "south"], [1, 2]])
@pytest.mark.parametrize("is_nullable", [False, True])
def test_a_place_without_a_label_is_in_no_area(labels, is_nullable):
    groups = pd.Series(labels * (N // 2), dtype=object)
    groups = groups.convert_dtypes() if is_nullable else groups
    groups[3] = pd.NA
    areas = MODELS["plain"].fit(X, Y).predict_areas(X, groups)
    assert list(areas.labels) == labels
    assert list(areas.n_places) == [N // 2, N // 2 - 1]


@pytest.mark.parametrize("role", ["drift", "groups"])
@pytest.mark.parametrize("dtype", ["string", "category", object])
def test_categories_that_are_missing_are_refused_with_their_column(role, dtype):
    site = pd.Series(["north", "south"] * (N // 2), dtype=dtype)
    site[3] = pd.NA
    model = nf.ExactGPRegressor(**GIVEN, coordinates=["a", "b"], **{role: ["site"]})
    with pytest.raises(ValueError, match=r"Column 'site' of X contains NaN: a missing value in row 3"):
        model.fit(X.assign(site=site), Y)
