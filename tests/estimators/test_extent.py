"""Questions outside of the data, and data that are not what they should be: one sentence each."""

import warnings
from contextlib import contextmanager

import numpy as np
import pytest

import nearfield as nf

from ..warned import on_bounds

FIXED = {"length_scale": 1.0, "signal_variance": 1.0, "noise_variance": 0.01}
X = np.column_stack([np.random.default_rng(0).uniform(0, 5, 60), np.random.default_rng(1).uniform(40, 45, 60)])
Y = np.sin(X[:, 0])
MODELS = {
    "exact": nf.ExactGPRegressor(**FIXED),
    "local": nf.LocalGPRegressor(**FIXED),
    "features": nf.FeatureGPRegressor(nf.FourierFeatures(1500, random_state=0), **FIXED, random_state=0),
}


@pytest.mark.parametrize("name", MODELS)
def test_points_far_outside_are_told_once_with_their_number_and_first_row(name):
    model = MODELS[name].fit(X, Y)
    places = np.concatenate([X[:3], [[5.0, 60.0]], X[:2], [[-9.0, 42.0]]])
    with pytest.warns(UserWarning, match=r"2 of 7 points lie more than 3 length scales outside .* in row 3: the prior"):
        model.predict(places)


@pytest.mark.filterwarnings("error")
def test_nothing_is_said_of_points_at_the_edge():
    model = nf.ExactGPRegressor(**FIXED).fit(X, Y)
    model.predict([[7.9, 42.0], [2.0, 37.2]])
    model.predict(np.empty((0, 2)))
    model.predict_grid({"x0": (0.0, 50.0), "x1": 42.0}, size=3)  # asked for by their coordinates


def test_only_coordinates_can_be_swapped():
    wide = np.column_stack([X, X[:, ::-1]])
    for coordinates, places, is_hinted in (
        ([0], wide[:, [1, 0, 2, 3]], False),
        ([2], wide[:, [1, 0, 3, 2]], False),
        ([0, 3], wide + np.array([40.0, 0, 0, 0]), False),
        ([2, 3], wide[:, [0, 1, 3, 2]], True),
    ):
        model = nf.ExactGPRegressor(**FIXED, coordinates=coordinates).fit(wide, Y)
        with pytest.warns(UserWarning, match="lie more than") as told:
            model.predict(places)
        assert ("coordinates swapped" in str(told[0].message)) == is_hinted


def test_swapped_columns_are_recognised():
    model = nf.ExactGPRegressor(**FIXED).fit(X, Y)
    with pytest.warns(UserWarning, match="With the first two coordinates swapped they would be inside"):
        model.predict(X[:, ::-1])
    sphere = nf.ExactGPRegressor(metric="sphere", **{**FIXED, "length_scale": 100.0}).fit(X, Y)
    with pytest.warns(UserWarning, match="60 of 60 points .* With the first two coordinates swapped"):
        sphere.predict(X[:, ::-1])


def test_the_longest_scale_decides_and_later_data_and_files_count(tmp_path):
    two = nf.ExactGPRegressor(length_scale=[1.0, 9.0], signal_variance=[1.0, 1.0], noise_variance=0.01).fit(X, Y)
    local = nf.LocalGPRegressor(**FIXED).fit(X, Y).partial_fit(X + 20, Y)
    nf.save(two, tmp_path / "m.nf")
    for model, place in ((two, [[12.0, 42.0]]), (local, [[24.0, 62.0]]), (nf.load(tmp_path / "m.nf"), [[12.0, 42.0]])):
        with nothing_said():
            model.predict(place)
    with pytest.warns(UserWarning, match="The point lies more than 3"):
        nf.load(tmp_path / "m.nf").predict([[50.0, 42.0]])


def test_far_extrapolation_is_told_however_long_the_longest_scale():
    scales = {"length_scale": [100.0, 40_000.0], "signal_variance": [1.0, 1.0], "noise_variance": 0.01}
    flat = {**scales, "length_scale": [1.0, 400.0]}
    for model in (nf.ExactGPRegressor(**flat), nf.ExactGPRegressor(**scales, metric="sphere")):
        model.fit(X, Y)
        with pytest.warns(UserWarning, match="60 of 60 points .* than 2 times as far .* extrapolated.* swapped"):
            model.predict(X[:, ::-1])
        with nothing_said():
            model.predict(X + np.array([9.0, 0.0]))
    trend = nf.ExactGPRegressor(**flat, drift="linear").fit(X, Y)
    with nothing_said():
        trend.predict(X[:, ::-1])


@contextmanager
def nothing_said():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.mark.parametrize("name", MODELS)
def test_gaps_are_named_by_row_and_column(name):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X.copy(), columns=["east", "north"])
    frame.iloc[7, 1] = np.nan
    with pytest.raises(ValueError, match=r"Input X contains NaN in row 7, column 'north' \(counted from 0\)\. Drop"):
        MODELS[name].fit(frame, Y)
    model = MODELS[name].fit(X, Y)
    bad = X.copy()
    bad[[4, 9], 0] = np.inf
    with pytest.raises(ValueError, match=r"infinity in row 4, column 0 .*; 2 of 60 rows have such"):
        model.predict(bad)
    with pytest.raises(ValueError, match=r"Input y contains NaN in row 2 "):
        MODELS[name].fit(X, np.where(np.arange(60) == 2, np.nan, Y))


def test_times_are_refused_with_a_way_out():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X.copy(), columns=["a", "b"]).assign(when=pd.date_range("2024-01-01", periods=60))
    with pytest.raises(ValueError, match=r"Column 'when' of ExactGPRegressor holds times: .* np\.timedelta64"):
        nf.ExactGPRegressor(**FIXED).fit(frame, Y)
    frame["when"] = (frame["when"] - frame["when"].min()) / np.timedelta64(1, "D")
    nf.ExactGPRegressor(**FIXED).fit(frame, Y)
    with pytest.raises(ValueError, match="X of ExactGPRegressor holds times"):
        nf.ExactGPRegressor(**FIXED).fit(np.array(["2024-01-01", "2024-01-02"], dtype="M8[D]")[:, None], [1.0, 2.0])


@on_bounds
def test_columns_of_unlike_units_are_told():
    unlike = X * [1.0, 1e5]
    with pytest.warns(UserWarning, match=r"Column 1 spreads \d+ times as wide as column 0"):
        nf.ExactGPRegressor(ard=False, random_state=0, signal_variance=1.0, noise_variance=0.01).fit(unlike, Y)
    with nothing_said():
        nf.ExactGPRegressor(**FIXED).fit(unlike, Y)  # as given
