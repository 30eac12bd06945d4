"""`ard="auto"`: columns share a length scale, or each has its own, and what the user sees of that."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import Nystroem

import nearfield as nf
from nearfield import io, sources

REGRESSORS = {
    "exact": lambda **options: nf.ExactGPRegressor(random_state=0, n_restarts=0, **options),
    "local": lambda **options: nf.LocalGPRegressor(random_state=0, n_restarts=0, n_scales=1, **options),
    "feature": lambda **options: nf.FeatureGPRegressor(
        nf.FourierFeatures(100, random_state=0), random_state=0, n_restarts=0, **options
    ),
}
every_regressor = pytest.mark.parametrize("make", REGRESSORS.values(), ids=REGRESSORS)
RNG = np.random.default_rng(0)
ISOTROPIC = RNG.uniform(0, 3, (160, 2))
ISOTROPIC_Y = np.sin(2 * ISOTROPIC[:, 0]) * np.cos(2 * ISOTROPIC[:, 1]) + 0.1 * RNG.standard_normal(160)
UNLIKE = RNG.standard_normal((200, 2)) * [100.0, 1.0]
UNLIKE_Y = np.sin(2 * UNLIKE[:, 1]) + 0.1 * RNG.standard_normal(200)


@every_regressor
def test_columns_of_different_units_are_found_by_the_defaults(make):
    model = make().fit(UNLIKE, UNLIKE_Y)
    places = np.random.default_rng(1).standard_normal((200, 2)) * [100.0, 1.0]
    error = model.predict(places) - np.sin(2 * places[:, 1])
    assert np.sqrt(np.mean(error**2)) < 0.1
    assert model.ard_
    assert "one per column" in str(getattr(model, "report_", model.learned_.ard_reason))


@every_regressor
def test_columns_of_one_unit_share_a_length_scale_by_the_defaults(make):
    model = make().fit(ISOTROPIC, ISOTROPIC_Y)
    assert not model.ard_
    assert np.ndim(model.length_scale_) == 0
    assert "one for all columns" in str(getattr(model, "report_", model.learned_.ard_reason))


@every_regressor
def test_the_answer_is_that_of_saying_so(make):
    for X, y in ((ISOTROPIC, ISOTROPIC_Y), (UNLIKE, UNLIKE_Y)):
        found = make().fit(X, y)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            told = make(ard=found.ard_).fit(X, y)
        np.testing.assert_array_equal(found.predict(X[:20]), told.predict(X[:20]))
        assert told.learned_.ard_reason == ""


@every_regressor
@pytest.mark.parametrize("d", [2, 3, 5])
def test_predictions_are_the_same_in_other_units(make, d):
    """Each column times 1000: what is left is how near to the maximum the optimiser comes."""
    rng = np.random.default_rng(d)
    X, places = rng.uniform(0, 2, (250, d)), rng.uniform(0.2, 1.8, (100, d))
    y = np.sin(2 * X[:, 0]) + 0.7 * np.cos(X[:, 1]) + 0.1 * rng.standard_normal(250)
    answers = []
    for column in (None, *range(d)):
        units = np.ones(d)
        if column is not None:
            units[column] = 1000.0
        model = make(ard="auto").fit(X * units, y)
        answers.append(np.array(model.predict(places * units, return_std=True)))
        assert model.ard_
    for other in answers[1:]:
        np.testing.assert_allclose(other, answers[0], atol=0.01)  # a tenth of the noise


@every_regressor
def test_predictions_hardly_depend_on_units_where_columns_share_a_length_scale(make):
    places = np.random.default_rng(1).uniform(0.3, 2.7, (100, 2))
    shared = make().fit(ISOTROPIC, ISOTROPIC_Y)
    own = make().fit(ISOTROPIC * [1000.0, 1.0], ISOTROPIC_Y)
    assert not shared.ard_
    assert own.ard_
    (a, std), b = shared.predict(places, return_std=True), own.predict(places * [1000.0, 1.0])
    assert np.sqrt(np.mean((a - b) ** 2)) < 0.5 * np.sqrt(np.mean(std**2))


@every_regressor
def test_length_scales_that_are_given_decide(make):
    rest = {"signal_variance": 1.0, "noise_variance": 0.1}
    assert not make(length_scale=1.0, **rest).fit(ISOTROPIC, ISOTROPIC_Y).ard_
    model = make(length_scale=[2.0, 1.0], **rest).fit(ISOTROPIC, ISOTROPIC_Y)
    assert model.ard_
    assert model.learned_.ard_reason == ""


def test_only_coordinates_count():
    """Four columns, of which two are places and the others enter the mean."""
    rng = np.random.default_rng(2)
    X = np.column_stack([ISOTROPIC, 1e6 * rng.standard_normal(160), rng.standard_normal(160)])
    y = ISOTROPIC_Y + 1e-6 * X[:, 2]
    model = nf.ExactGPRegressor(coordinates=[0, 1], drift=[2, 3], random_state=0).fit(X, y)
    assert not model.ard_


def test_places_on_the_earth_and_rotated_axes_are_as_they_were():
    rng = np.random.default_rng(0)
    places = np.column_stack([rng.uniform(0, 10, 80), rng.uniform(40, 50, 80)])
    y = np.sin(places[:, 0]) + 0.1 * rng.standard_normal(80)
    assert np.ndim(nf.ExactGPRegressor(metric="sphere", random_state=0).fit(places, y).length_scale_) == 0
    rotated = nf.ExactGPRegressor(anisotropy="rotated", random_state=0, n_restarts=0).fit(ISOTROPIC, ISOTROPIC_Y)
    assert rotated.ard_
    assert rotated.learned_.ard_reason == ""


def test_maps_of_others_have_no_length_scales_to_share():
    model = nf.FeatureGPRegressor(Nystroem(n_components=20, random_state=0)).fit(UNLIKE / [100.0, 1.0], UNLIKE_Y)
    assert not model.ard_


@pytest.mark.parametrize("kind", ["local", "feature"])
def test_streams_decide_by_their_sample(kind):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1500, 2)) * [100.0, 1.0]
    y = np.sin(2 * X[:, 1]) + 0.1 * rng.standard_normal(1500)
    model = REGRESSORS[kind]().fit(sources.ArraySource(X, y, batch_size=400, sample_size=600))
    assert model.ard_
    assert np.sqrt(np.mean((model.predict(X) - np.sin(2 * X[:, 1])) ** 2)) < 0.1


def test_tensors_decide_by_their_sample():
    torch = pytest.importorskip("torch")
    model = REGRESSORS["exact"]().fit(torch.as_tensor(UNLIKE), torch.as_tensor(UNLIKE_Y))
    assert model.ard_
    assert not REGRESSORS["exact"]().fit(torch.as_tensor(ISOTROPIC), torch.as_tensor(ISOTROPIC_Y)).ard_


def test_fits_with_other_weights_take_what_was_decided():
    """Outliers lose their weight in a second fit to the same rows."""
    y = UNLIKE_Y.copy()
    y[:3] += 30.0
    for make in (REGRESSORS["exact"], REGRESSORS["local"]):
        model = make(likelihood="auto").fit(UNLIKE, y)
        assert model.ard_
        assert "one per column" in model.learned_.ard_reason


@every_regressor
def test_model_files_keep_it(make, tmp_path):
    model = make().fit(UNLIKE, UNLIKE_Y)
    io.save(model, tmp_path / "m.nf")
    loaded = io.load(tmp_path / "m.nf")
    assert loaded.ard == "auto"
    assert loaded.ard_
    assert loaded.learned_.ard_reason == model.learned_.ard_reason
    assert str(getattr(loaded, "report_", "")) == str(getattr(model, "report_", ""))


@every_regressor
def test_a_column_without_effect_is_no_reason_for_a_warning(make):
    """Nobody asked for a length scale per column, and that of such a column is as long as is allowed."""
    model = make().fit(UNLIKE, UNLIKE_Y)
    assert [bound.column for bound in model.learned_.on_bounds] == [0]
    with pytest.warns(ConvergenceWarning, match="length scale of x0"):
        make(ard=True).fit(UNLIKE, UNLIKE_Y)


@every_regressor
@pytest.mark.parametrize("value", ["yes", 1, None, "Auto"])
def test_other_values_are_refused(make, value):
    with pytest.raises(ValueError, match=r"'ard' parameter of .* must be True, False or 'auto'\. Got"):
        clone(make(ard=value)).fit(UNLIKE[:30], UNLIKE_Y[:30])
