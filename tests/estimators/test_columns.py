"""Columns with roles: how they are named, what they may hold, and what is refused."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, SplineTransformer, StandardScaler

import nearfield as nf

pd = pytest.importorskip("pandas", reason="pandas is not installed")

N = 90
GIVEN = {"length_scale": 1.0, "signal_variance": 0.5, "noise_variance": 0.1}


def houses(n=N, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "east": rng.uniform(0, 5, n),
            "note": rng.choice(["fine", "bad"], n),
            "north": rng.uniform(0, 5, n),
            "area": rng.uniform(50, 200, n),
            "type": rng.choice(["flat", "house", "villa"], n),
            "rooms": rng.integers(1, 4, n),
        }
    )


X = houses()
Y = 0.02 * X["area"] + 1.0 * (X["type"] == "villa") + np.sin(X["east"]) + 0.1 * X["rooms"]
Y = Y.to_numpy() + 0.1 * np.random.default_rng(1).standard_normal(N)
ROLES = {"coordinates": ["east", "north"], "drift": ["area", "type"]}


def by_hand(X):
    """The same columns as numbers: the drift's after the coordinates."""
    indicators = [(X["type"] == level).astype(float) for level in ("house", "villa")]
    return np.column_stack([X["east"], X["north"], X["area"], *indicators])


@pytest.fixture(scope="module")
def model():
    return nf.ExactGPRegressor(**GIVEN, **ROLES).fit(X, Y)


def test_names_categories_and_numbers_are_the_same_model(model):
    other = nf.ExactGPRegressor(**GIVEN, coordinates=[0, 1], drift=[2, 3, 4]).fit(by_hand(X), Y)
    np.testing.assert_allclose(model.predict(X), other.predict(by_hand(X)))
    assert model.drift_coef_.names == ("intercept", "area", "type=house", "type=villa")
    np.testing.assert_allclose(model.drift_coef_.values, other.drift_coef_.values)
    assert list(model.coordinates_) == [0, 2]
    assert list(model.feature_names_in_) == list(X.columns)
    frame = model.drift_coef_.to_frame()
    assert list(frame.index) == list(model.drift_coef_.names)
    assert "type=villa" in str(model.drift_coef_)
    assert list(model.predict_parts(X[:4]).to_frame().columns) == [
        *("drift", "drift_std", "process", "process_std", "total", "total_std")
    ]


@pytest.mark.parametrize(
    "drift",
    [
        make_column_transformer((OneHotEncoder(drop="first"), ["type"]), ("passthrough", ["area"])),
        make_column_transformer((OneHotEncoder(), ["type"]), ("passthrough", ["area"])),
        lambda table: [name for name in table.columns if name in ("area", "type")],
        np.array(["type", "area"]),
        [4, 3],
    ],
    ids=["transformer", "levels that add up to one", "function", "array", "numbers"],
)
def test_a_drift_can_be_said_in_other_ways(model, drift):
    other = nf.ExactGPRegressor(**GIVEN, coordinates=["east", "north"], drift=drift).fit(X, Y)
    np.testing.assert_allclose(other.predict(X, return_std=True), model.predict(X, return_std=True), rtol=1e-7)


def test_coordinates_by_a_selector_and_shared_columns():
    selector = make_column_selector(pattern="east|north")
    chosen = nf.ExactGPRegressor(**GIVEN, coordinates=selector, drift=["east", "north"]).fit(X, Y)
    linear = nf.ExactGPRegressor(**GIVEN, coordinates=["east", "north"], drift="linear").fit(X, Y)
    np.testing.assert_allclose(chosen.predict(X), linear.predict(X))
    assert linear.drift_coef_.names == ("intercept", "east", "north")


def test_numbers_taken_for_categories():
    roles = {"coordinates": ["east", "north"]}
    first = nf.ExactGPRegressor(**GIVEN, **roles, drift=["C(rooms)"]).fit(X, Y)
    assert first.drift_coef_.names == ("intercept", "rooms=2", "rooms=3")
    tens = nf.ExactGPRegressor(**GIVEN, **roles, drift=["C(rooms)"]).fit(X.assign(rooms=X["rooms"] * 5), Y)
    assert tens.drift_coef_.names == ("intercept", "rooms=10", "rooms=15")  # compared to 5, the least
    second = nf.ExactGPRegressor(**GIVEN, **roles, drift=["rooms"]).fit(
        X.assign(rooms=X["rooms"].astype("category")), Y
    )
    np.testing.assert_allclose(first.predict(X.assign(rooms=X["rooms"].astype(float))), second.predict(X))


@pytest.mark.parametrize("regressor", [nf.ExactGPRegressor, nf.LocalGPRegressor])
def test_searches_clones_pickles_and_pipelines(regressor):
    model = regressor(**GIVEN, **ROLES)
    assert clone(model).get_params()["drift"] == ["area", "type"]
    search = GridSearchCV(model, {"drift": ["constant", ["area", "type"]]}, cv=3).fit(X, Y)
    assert search.best_params_["drift"] == ["area", "type"]
    assert np.mean(cross_val_score(model, X, Y, cv=3)) > 0.8
    again = pickle.loads(pickle.dumps(search.best_estimator_))
    np.testing.assert_array_equal(again.predict(X), search.predict(X))
    numbers = make_pipeline(StandardScaler(), regressor(**GIVEN, coordinates=[0, 1], drift=[2])).fit(by_hand(X), Y)
    assert numbers.score(by_hand(X), Y) > 0.5
    scaled = make_column_transformer(
        (StandardScaler(), ["area"]), remainder="passthrough", verbose_feature_names_out=False
    )
    frames = make_pipeline(scaled.set_output(transform="pandas"), model).fit(X, Y)
    np.testing.assert_allclose(frames.predict(X), model.fit(X, Y).predict(X), rtol=1e-6)


def test_weights_of_zero_and_distributions(model):
    weights = np.r_[np.ones(N - 10), np.zeros(10)]
    some = nf.ExactGPRegressor(**GIVEN, **ROLES).fit(X, Y, weights)
    same = nf.ExactGPRegressor(**GIVEN, **ROLES).fit(X[:-10], Y[:-10])
    np.testing.assert_allclose(some.predict(X), same.predict(X))
    assert model.predict_distribution(X).mean == pytest.approx(model.predict(X))
    assert model.sample_y(X[:5], 3).shape == (5, 3)
    assert model.predict_frame(X[:3], include_noise=False)["mean"].to_numpy() == pytest.approx(model.predict(X[:3]))
    assert model.score(X, Y) > 0.9


@pytest.mark.parametrize("regressor", [nf.ExactGPRegressor, nf.LocalGPRegressor, nf.FeatureGPRegressor])
def test_files(tmp_path, regressor):
    given = (nf.TaylorFeatures(12),) if regressor is nf.FeatureGPRegressor else ()
    for drift in (["area", "type"], "quadratic", [], None):
        model = regressor(*given, **GIVEN, coordinates=["east", "north"], drift=drift, random_state=0).fit(X, Y)
        nf.save(model, tmp_path / "model.nf")
        loaded = nf.load(tmp_path / "model.nf")
        answers, expected = (each.predict(X, return_std=True) for each in (loaded, model))
        np.testing.assert_allclose(answers, expected, rtol=1e-9)
        if drift is not None:
            np.testing.assert_allclose(loaded.drift_coef_.values, model.drift_coef_.values, rtol=1e-9)
            np.testing.assert_allclose(loaded.predict_parts(X).drift.std, model.predict_parts(X).drift.std, rtol=1e-9)
            assert loaded.log_marginal_likelihood() == pytest.approx(model.log_marginal_likelihood()) if given else True
        if not given:
            np.testing.assert_allclose(loaded.loo_.mean, model.loo_.mean, rtol=1e-8)


def test_a_grid_holds_or_varies_covariates(model):
    pytest.importorskip("xarray", reason="xarray is not installed")
    numbers = nf.ExactGPRegressor(**GIVEN, coordinates=["east", "north"], drift=["area"])
    numbers.fit(X[["east", "north", "area"]], Y)
    grid = numbers.predict_grid({"east": (0, 5), "north": (0, 5), "area": 100.0}, size=3)
    assert grid["mean"].shape == (3, 3)
    place = pd.DataFrame({"east": [2.5], "north": [5.0], "area": [100.0]})
    assert float(grid["mean"].sel(east=2.5, north=5.0)) == pytest.approx(numbers.predict(place)[0])


# ---- bad input -------------------------------------------------------------------------------------------------------


def fit(X=X, y=Y, regressor=nf.ExactGPRegressor, **parameters):
    return regressor(**{**GIVEN, **ROLES, **parameters}).fit(X, y)


def test_no_column_is_proposed_that_has_a_role_already():
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    table = pd.DataFrame(np.ones((20, 3)), columns=["easting_km", "northing_km", "depth"])
    for roles in (
        {"coordinates": ["easting_km", "northing_km", "northing"]},
        {"coordinates": ["easting_km", "northing_km"], "drift": ["northing"]},
    ):
        with pytest.raises(ValueError, match=r"names column 'northing', which X does not have. It has") as refused:
            nf.ExactGPRegressor(**GIVEN, **roles).fit(table, np.arange(20.0))
        assert "Do you mean" not in str(refused.value)


def test_names_that_are_not_there():
    with pytest.raises(ValueError, match=r"'drift' parameter .* names column 'aera'.* Do you mean 'area'"):
        fit(drift=["aera"])
    with pytest.raises(ValueError, match=r"'coordinates' parameter .* names column 9, and X has 6 columns"):
        fit(coordinates=[0, 9])
    with pytest.raises(ValueError, match="X is an array without names: give the column's number"):
        fit(by_hand(X))
    with pytest.raises(ValueError, match="names column 'area' twice"):
        fit(drift=["area", "area"])
    with pytest.raises(ValueError, match="at least one column"):
        fit(coordinates=[])
    with pytest.raises(ValueError, match=r"must be 'constant', 'linear', 'quadratic', or names or numbers .* Got 1.5"):
        fit(drift=1.5)
    with pytest.raises(ValueError, match="names column 'cubic'"):
        fit(drift="cubic")


def test_columns_that_say_nothing_new():
    with pytest.raises(ValueError, match="Drift column 'area' is constant in the data, and the intercept"):
        fit(X.assign(area=3.0))
    with pytest.raises(ValueError, match="Drift column 'double' is a linear combination of 'area' in the data: leave"):
        fit(X.assign(double=2 * X["area"]), drift=["area", "double"])
    with pytest.raises(ValueError, match="'double' is a linear combination of 'area'"):
        fit(X.assign(double=2 * X["area"] + 1), drift=["area", "double"])
    with pytest.raises(ValueError, match="'type' has one category only, 'flat'"):
        fit(X.assign(type="flat"))
    few = X[:4].assign(type=["flat", "house", "flat", "house"])
    with pytest.raises(ValueError, match=r"The drift has 4 columns \('intercept', .*\), and there are 4 samples"):
        fit(few, Y[:4], drift=["area", "type", "east"])
    again = X.assign(copy=X["type"].str.upper())
    with (
        pytest.warns(
            UserWarning, match="Drift column 'copy=HOUSE' is a linear combination of 'type=house' in the data"
        ),
        pytest.warns(
            UserWarning, match="Drift column 'copy=VILLA' is a linear combination of 'type=villa' in the data"
        ),
    ):
        fitted = fit(again, drift=["type", "copy"])
    assert fitted.drift_coef_.names == ("intercept", "type=house", "type=villa")
    twice = FunctionTransformer(lambda table: np.column_stack([table["area"], table["area"]]))
    with pytest.warns(UserWarning, match="is a linear combination of 'functiontransformer0'"):
        fit(drift=twice)


def test_more_columns_than_rows():
    with pytest.raises(ValueError, match=r"drift has 4 columns \('intercept', 'area', .*\), and there are 3 samples"):
        fit(
            X[["east", "north", "area", "rooms"]].iloc[[0, 2, 5]].assign(x=[1.0, 0.0, 2.0]),
            Y[:3],
            drift=["area", "rooms", "x"],
        )


def test_a_transformer_that_fails_is_named_with_the_columns_of_words():
    named = "columns of categories: 'note', 'type'"
    with pytest.raises(ValueError, match=rf"The drift SplineTransformer failed to fit: .*{named}"):
        fit(drift=SplineTransformer())
    with pytest.raises(ValueError, match=rf"The mean model Ridge failed to fit: .*{named}"):
        fit(drift="constant", mean=Ridge(), random_state=0)


def test_cells_that_cannot_be_used(model):
    with pytest.raises(ValueError, match=r"Column 'area' of X must hold numbers. Got 'large' in row 0"):
        model.predict(X[:2].assign(area=["large", "small"]))
    with pytest.raises(ValueError, match="Column 'area' of X contains NaN or infinity: a missing value in row 1"):
        model.predict(X[:2].assign(area=[1.0, np.nan]))
    with pytest.raises(ValueError, match="Column 'type' of X contains NaN: a missing value in row 0"):
        model.predict(X[:1].assign(type=[None]))
    with pytest.raises(
        ValueError, match=r"'type' of X has the category 'castle' in row 1 .* it saw 'flat', 'house', 'villa'"
    ):
        model.predict(X[:2].assign(type=["flat", "castle"]))
    with pytest.raises(ValueError, match="X lacks the column 'area', which the model was fitted with"):
        model.predict(X.drop(columns="area"))
    with pytest.raises(ValueError, match="Column 'area' of X holds times"):
        model.predict(X.assign(area=pd.Timestamp("2024-01-01")))
    with pytest.raises(ValueError, match="Column 'note' holds categories, and the process lives in columns of numbers"):
        fit(coordinates=["east", "note"])
    with pytest.raises(ValueError, match="requires y"):
        fit(y=None)
    with pytest.raises(ValueError, match="1000: is it an identifier"):
        big = houses(1100).assign(type=[f"h{i}" for i in range(1100)])
        fit(big, np.zeros(1100))
