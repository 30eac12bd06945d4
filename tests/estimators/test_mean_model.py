"""Any regressor as the mean of a process."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeRegressor

import nearfield as nf
from nearfield.common.validation import spawn

from ..warned import discrete_targets

GIVEN = {"length_scale": 1.0, "signal_variance": 0.5, "noise_variance": 0.05, "random_state": 0}
RNG = np.random.default_rng(0)
N = 300
X = np.column_stack([RNG.uniform(0, 8, (N, 2)), RNG.uniform(-2, 2, N)])
Y = np.sin(X[:, 0]) * np.cos(X[:, 1]) + np.where(X[:, 2] > 0.3, 3.0, 0.0) + 0.2 * RNG.standard_normal(N)
PLACES = np.column_stack([RNG.uniform(0, 8, (50, 2)), RNG.uniform(-2, 2, 50)])
REGRESSORS = {
    "exact": lambda **given: nf.ExactGPRegressor(**{**GIVEN, **given}),
    "local": lambda **given: nf.LocalGPRegressor(**{**GIVEN, **given}),
    "feature": lambda **given: nf.FeatureGPRegressor(nf.TaylorFeatures(40), **{**GIVEN, **given}),
}


@pytest.fixture(params=REGRESSORS)
def regressor(request):
    return REGRESSORS[request.param]


def cross_fitted(mean, y, purpose):
    """What the mean says of each row without it, in the five folds of `random_state=3`."""
    held_out = np.empty(N)
    for train, test in KFold(5, shuffle=True, random_state=spawn(3, purpose)).split(X):
        held_out[test] = clone(mean).fit(X[train], y[train]).predict(X[test])
    return held_out


def test_the_process_is_one_of_cross_fitted_residuals(regressor):
    tree = DecisionTreeRegressor(max_leaf_nodes=8, random_state=0)
    model = regressor(coordinates=[0, 1], mean=tree, random_state=3).fit(X, Y)
    held_out = cross_fitted(tree, Y, "mean")
    residuals = regressor(coordinates=[0, 1]).fit(X, Y - held_out)
    expected = clone(tree).fit(X, Y).predict(PLACES) + residuals.predict(PLACES)
    np.testing.assert_allclose(model.predict(PLACES), expected, rtol=1e-9)
    np.testing.assert_allclose(
        model.predict(PLACES, return_std=True)[1], residuals.predict(PLACES, return_std=True)[1], rtol=1e-9
    )
    np.testing.assert_allclose(model.loo_.mean, residuals.loo_.mean + held_out, rtol=1e-8)
    np.testing.assert_allclose(model.loo_.residuals, residuals.loo_.residuals, atol=1e-8)
    blocks = np.arange(N) % 4
    np.testing.assert_allclose(
        model.cross_validate(blocks).mean, residuals.cross_validate(blocks).mean + held_out, rtol=1e-8
    )
    parts = model.predict_parts(PLACES)
    np.testing.assert_allclose(parts.drift.mean, model.mean_.predict(PLACES) + model.y_mean_)
    np.testing.assert_allclose(parts.total.mean, model.predict(PLACES))
    assert not hasattr(tree, "tree_")


def test_a_second_round_fits_the_mean_to_what_the_process_leaves(regressor):
    tree = DecisionTreeRegressor(max_leaf_nodes=8, random_state=0)
    model = regressor(coordinates=[0, 1], mean=tree, mean_rounds=2, random_state=3).fit(X, Y)
    rest = Y - regressor(coordinates=[0, 1]).fit(X, Y - cross_fitted(tree, Y, "mean")).loo_.mean
    residuals = regressor(coordinates=[0, 1]).fit(X, Y - cross_fitted(tree, rest, "mean 1"))
    expected = clone(tree).fit(X, rest).predict(PLACES) + residuals.predict(PLACES)
    np.testing.assert_allclose(model.predict(PLACES), expected, rtol=1e-7)


def test_rounds_lead_from_ordinary_to_generalised_least_squares():
    """A linear mean beside a strong process: its coefficient comes ever closer to that of a drift."""
    given = {"length_scale": 1.0, "signal_variance": 2.0, "noise_variance": 0.02, "coordinates": [0, 1]}
    distances = []
    for seed in range(3):
        rng = np.random.RandomState(seed)
        places = rng.uniform(0, 8, (150, 2))
        covariate = np.sin(places[:, 0]) + 0.5 * rng.standard_normal(150)
        squares = np.sum((places[:, None] - places[None]) ** 2, axis=2)
        root = np.linalg.cholesky(2.0 * np.exp(-0.5 * squares) + 0.02 * np.eye(150))
        points, y = np.column_stack([places, covariate]), covariate + root @ rng.standard_normal(150)
        best = nf.ExactGPRegressor(**given, drift=[2]).fit(points, y).drift_coef_["x2"].value
        models = [
            nf.ExactGPRegressor(**given, mean=LinearRegression(), mean_rounds=n, random_state=0) for n in (1, 2, 4)
        ]
        distances.append([abs(model.fit(points, y).mean_.coef_[2] - best) for model in models])
    ordinary, second, fourth = np.mean(distances, axis=0)
    assert second < 0.8 * ordinary
    assert fourth < 0.4 * ordinary


def test_a_number_of_rounds_that_is_none(regressor):
    with pytest.raises(ValueError, match=r"'mean_rounds' parameter of .* must be an integer of at least 1. Got 0"):
        regressor(coordinates=[0, 1], mean=LinearRegression(), mean_rounds=0).fit(X, Y)


def test_a_linear_mean_beside_a_drift(regressor):
    """What the mean leaves of a trend, the drift takes: together they are the drift alone."""
    both = regressor(coordinates=[0, 1], drift=[2], mean=LinearRegression(), random_state=0).fit(X, Y)
    assert both.drift_coef_["x2"].value == pytest.approx(0.0, abs=0.2)
    assert both.score(X, Y) > 0.6


def test_boosting_finds_steps_and_more_rows_are_taken_in():
    boosting = HistGradientBoostingRegressor(max_iter=25, random_state=0)
    model = nf.LocalGPRegressor(**GIVEN, coordinates=[0, 1], mean=boosting).fit(X[:200], Y[:200])
    plain = nf.LocalGPRegressor(**GIVEN, coordinates=[0, 1], drift=[2]).fit(X[:200], Y[:200])
    held_out = X[200:], Y[200:]
    assert nf.metrics.rmse(Y[200:], model.predict(X[200:])) < 0.8 * nf.metrics.rmse(Y[200:], plain.predict(X[200:]))
    before = model.mean_
    model.partial_fit(*held_out)
    assert model.mean_ is before
    assert len(model.loo_) == N
    np.testing.assert_allclose(model.loo_.mean + model.loo_.residuals, Y)


@pytest.mark.parametrize(
    "mean",
    [
        DummyRegressor(),
        make_pipeline(StandardScaler(), make_pipeline(DummyRegressor())),
        TransformedTargetRegressor(DummyRegressor(), func=np.negative, inverse_func=np.negative),
        GridSearchCV(make_pipeline(DummyRegressor()), {"dummyregressor__strategy": ["mean"]}, cv=2),
    ],
    ids=lambda mean: type(mean).__name__,
)
@discrete_targets
@pytest.mark.parametrize("rounds", [1, 2])
def test_weights_reach_the_mean_model_in_whatever_it_is_wrapped(mean, rounds):
    y, weights = np.where(np.arange(N) % 2, 100.0, 2.5), np.where(np.arange(N) % 2, 1e-9, 1.0)
    model = nf.ExactGPRegressor(**GIVEN, mean=mean, mean_rounds=rounds).fit(X, y, weights)
    np.testing.assert_allclose(model.mean_.predict(X[:3]), 2.5, atol=1e-3)


def test_a_mean_model_without_weights_says_so():
    nearest = KNeighborsRegressor(3)
    model = nf.ExactGPRegressor(**GIVEN, mean=nearest)
    with pytest.warns(UserWarning, match="The mean model KNeighborsRegressor takes no sample_weight"):
        model.fit(X, Y, np.linspace(1, 2, N))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(X, Y)


def test_categories_reach_the_mean_model():
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    frame = pd.DataFrame({"x": X[:, 0], "y": X[:, 1], "kind": np.where(X[:, 2] > 0.3, "high", "low")})
    mean = make_pipeline(make_column_transformer((OneHotEncoder(), ["kind"])), LinearRegression())
    model = nf.ExactGPRegressor(**GIVEN, coordinates=["x", "y"], mean=mean).fit(frame, Y)
    assert model.score(frame, Y) > 0.9
    given = model.mean_.predict(frame[:5])
    np.testing.assert_allclose(model.predict_parts(frame[:5]).drift.mean, given + model.y_mean_)


@pytest.fixture
def table():
    """Columns of every type, some of them with missing values, and targets that depend on most."""
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    rng = np.random.default_rng(1)
    kind, rooms = rng.integers(0, 3, N), rng.integers(1, 5, N)
    frame = pd.DataFrame(
        {
            "x": X[:, 0],
            "kind": pd.Categorical.from_codes(kind, ["low", "mid", "high"]),
            "y": X[:, 1],
            "area": X[:, 2],
            "rooms": rooms,
            "new": rng.uniform(size=N) < 0.5,
            "heat": rng.choice(["gas", "oil"], N),
        }
    )
    y = np.sin(X[:, 0]) + 3.0 * (kind == 2) + 0.5 * rooms + X[:, 2] + 0.1 * rng.standard_normal(N)
    return frame, y


class Seen(LinearRegression):
    """A regressor that takes note of what it gets."""

    def fit(self, X, y):
        self.given_ = X
        return super().fit(X[["area", "rooms", "new"]], y)

    def predict(self, X):
        self.asked_ = X
        return super().predict(X[["area", "rooms", "new"]])


def test_a_mean_model_gets_columns_of_the_types_that_they_have(table):
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    frame, y = table
    frame = frame.astype({"area": np.float32})
    model = nf.ExactGPRegressor(**GIVEN, coordinates=["x", "y"], groups=["rooms"], mean=Seen()).fit(frame, y)
    model.predict(frame[:9])
    for given, expected in ((model.mean_.given_, frame), (model.mean_.asked_, frame[:9])):
        pd.testing.assert_frame_equal(given, expected, check_categorical=False)
    model.predict(frame[:9].assign(rooms=1))
    other = model.mean_.asked_
    assert list(other["rooms"]) == [1] * 9


@pytest.mark.usefixtures("quick_pages")
def test_boosting_of_categories_with_missing_values(table, regressor):
    frame, y = table
    frame.loc[::7, "area"] = np.nan
    frame.loc[::11, "kind"] = None
    frame.loc[::13, "heat"] = None
    columns = ["kind", "area", "rooms", "new"]
    boosting = HistGradientBoostingRegressor(max_iter=20, categorical_features="from_dtype", random_state=0)
    mean = make_pipeline(FunctionTransformer(lambda X: X[columns]), boosting)
    model = regressor(coordinates=["x", "y"], mean=mean, random_state=0).fit(frame, y)
    by_hand = clone(mean).fit(frame, y)
    np.testing.assert_allclose(model.predict_parts(frame).drift.mean, by_hand.predict(frame) + model.y_mean_)
    assert model.score(frame, y) > 0.8
    assert len(model.loo_) == N
    np.testing.assert_allclose(model.sample_y(frame[:20], 200).mean(axis=1), model.predict(frame[:20]), atol=0.3)
    if regressor is REGRESSORS["exact"]:
        assert np.isfinite(model.predict_grid(size=5)["mean"]).all()
        assert "area" in model.to_html(X=frame, y=y)
    for broken in (frame.assign(x=np.nan), frame.assign(area=np.inf)):
        with pytest.raises(ValueError, match="of X contains NaN or infinity"):
            regressor(coordinates=["x", "y"], mean=mean).fit(broken, y)
    with pytest.raises(ValueError, match="The mean model LinearRegression failed to fit: Input X contains NaN"):
        regressor(coordinates=["x", "y"], mean=LinearRegression()).fit(frame[["x", "y", "area"]], y)


@pytest.mark.parametrize("dtype", [object, "category"])
def test_words_are_categories_to_boosting_that_takes_these_by_the_type_of_a_column(table, dtype):
    frame, y = table
    frame.loc[::13, "heat"] = None
    boosting = HistGradientBoostingRegressor(max_iter=20, categorical_features="from_dtype", random_state=0)
    for mean in (boosting, TransformedTargetRegressor(boosting)):
        model = nf.ExactGPRegressor(**GIVEN, coordinates=["x", "y"], mean=mean)
        model.fit(frame.astype({"heat": dtype, "kind": dtype}), y)
        by_hand = clone(mean).fit(frame.astype({"heat": "category", "kind": "category"}), y)
        expected = by_hand.predict(frame.astype({"heat": "category", "kind": "category"}))
        np.testing.assert_allclose(model.predict_parts(frame).drift.mean, expected + model.y_mean_)
        np.testing.assert_allclose(model.predict(frame[:5]), model.predict(frame)[:5])


def test_boosting_by_name_takes_words_missing_values_weights_and_several_targets(table, regressor):
    frame, y = table
    frame.loc[::7, "area"] = np.nan
    frame.loc[::11, "kind"] = None
    frame.loc[::13, "heat"] = None
    targets, weights = np.column_stack([y, -2 * y]), np.random.default_rng(0).uniform(0.5, 2, N)
    model = regressor(coordinates=["x", "y"], mean="boosting", random_state=0).fit(frame, targets, weights)
    assert model.mean == "boosting"
    assert model.score(frame, targets) > 0.8
    alone = regressor(coordinates=["x", "y"], mean="boosting", random_state=0).fit(frame, y, weights)
    np.testing.assert_allclose(alone.predict(frame[:9]), model.predict(frame[:9])[:, 0], rtol=1e-7)
    rows = frame.astype(object).to_numpy()
    of_rows = regressor(coordinates=[0, 2], mean="boosting", random_state=0).fit(rows, y, weights)
    np.testing.assert_allclose(of_rows.predict(rows[:9]), alone.predict(frame[:9]), rtol=1e-7)
    trees = alone.mean_[-1]
    assert isinstance(trees, HistGradientBoostingRegressor)
    assert trees.is_categorical_.sum() == 2  # kind and heat


def test_boosting_by_name_takes_more_categories_than_trees_do():
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    frame = pd.DataFrame({"x": X[:, 0], "y": X[:, 1], "name": [f"n{i}" for i in range(N)]})
    model = nf.ExactGPRegressor(**GIVEN, coordinates=["x", "y"], mean="boosting").fit(frame, Y)
    assert np.isfinite(model.predict(frame[:5])).all()


def test_model_files_know_types_and_missing_values(table, tmp_path):
    pytest.importorskip("skops", reason="skops is not installed")
    frame, y = table
    frame.loc[::7, "area"] = np.nan  # which nobody looks at
    frame.loc[::7, "heat"] = None
    mean = make_pipeline(make_column_transformer((OneHotEncoder(), ["kind", "rooms", "heat"])), Ridge())
    model = nf.ExactGPRegressor(**GIVEN, coordinates=["x", "y"], mean=mean).fit(frame, y)
    nf.save(model, tmp_path / "model.nf")
    np.testing.assert_allclose(nf.load(tmp_path / "model.nf").predict(frame), model.predict(frame))


def test_refusals(tmp_path):
    class Failing(LinearRegression):
        def fit(self, *_, **__):
            raise RuntimeError("no licence")

    with pytest.raises(ValueError, match="The mean model Failing failed to fit: no licence"):
        nf.ExactGPRegressor(**GIVEN, mean=Failing()).fit(X, Y)

    class Forgetful(LinearRegression):
        def predict(self, X):
            if len(X) == 3:
                raise RuntimeError("no more")
            return np.full(len(X), np.nan) if len(X) == 4 else super().predict(X)

    forgetful = nf.ExactGPRegressor(**GIVEN, mean=Forgetful()).fit(X, Y)
    with pytest.raises(ValueError, match="The mean model Forgetful failed to predict: no more"):
        forgetful.predict(X[:3])
    with pytest.raises(ValueError, match="The mean model Forgetful predicts what is no finite number"):
        forgetful.predict(X[:4])
    with pytest.raises(ValueError, match=r"'mean' parameter .* must be None, 'boosting' or a regressor"):
        nf.ExactGPRegressor(**GIVEN, mean="forest").fit(X, Y)
    with pytest.raises(ValueError, match=r"at least 10 samples to be cross-fitted. Got 6"):
        nf.ExactGPRegressor(**GIVEN, mean=LinearRegression()).fit(X[:6], Y[:6])
    forest = RandomForestRegressor(3, random_state=0)
    with pytest.raises(
        ValueError, match=r"RandomForestRegressor cannot be stored .* and 'mean_?' of this ExactGPRegressor"
    ):
        nf.save(nf.ExactGPRegressor(**GIVEN, mean=forest).fit(X, Y), tmp_path / "model.nf")
    with pytest.raises(ValueError, match=r"'mean' parameter .* but not rows of a source"):
        nf.FeatureGPRegressor(nf.TaylorFeatures(4), mean=LinearRegression()).fit(nf.sources.ArraySource(X, Y))
