"""`anisotropy="rotated"`: equal to a process of rotated columns, in the columns of the user."""

import numpy as np
import pytest
from sklearn.base import clone

import nearfield as nf
from nearfield.common.axes import angles_of
from nearfield.kernels import Kernel

DEGREES, LENGTHS, NOISE = 35.0, (3.0, 0.8), 0.05
GIVEN = {"length_scale": LENGTHS, "signal_variance": 1.0, "noise_variance": NOISE}
MAKERS = {
    "exact": lambda **options: nf.ExactGPRegressor(random_state=0, n_jobs=1, **options),
    "local": lambda **options: nf.LocalGPRegressor(random_state=0, n_jobs=1, **options),
    "features": lambda **options: nf.FeatureGPRegressor(
        nf.FourierFeatures(300, random_state=0), random_state=0, n_jobs=1, **options
    ),
}


@pytest.fixture(scope="module")
def data():
    rng = np.random.RandomState(0)
    X = rng.uniform(0, 10, (560, 2))
    angle = np.radians(DEGREES)
    turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    K = Kernel(np.array([LENGTHS]), np.ones(1))(X @ turn.T, X @ turn.T)
    y = 3.0 + np.linalg.cholesky(K + NOISE * np.eye(len(X))) @ rng.standard_normal(len(X))
    return X[:500], y[:500], X[500:], y[500:]


@pytest.fixture(scope="module")
def models(data):
    X, y, *_ = data
    return {name: make(anisotropy="rotated", **GIVEN).fit(X, y) for name, make in MAKERS.items()}


@pytest.fixture(scope="module")
def learnt(data):
    X, y, *_ = data
    return nf.ExactGPRegressor(anisotropy="rotated", n_restarts=0, random_state=0).fit(X, y)


@pytest.mark.parametrize("name", MAKERS)
def test_it_is_the_process_of_rotated_columns(data, models, name):
    X, y, places, _ = data
    model = models[name]
    turn = model.rotation_
    np.testing.assert_allclose(turn @ turn.T, np.eye(2), atol=1e-12)
    plain = MAKERS[name](**GIVEN).fit(X @ turn.T, y)
    for answer, expected in zip(
        model.predict(places, return_std=True), plain.predict(places @ turn.T, return_std=True), strict=True
    ):
        np.testing.assert_allclose(answer, expected, rtol=1e-8, atol=1e-8)
    assert model.log_marginal_likelihood() == pytest.approx(plain.log_marginal_likelihood(), rel=1e-8)


def test_angle_and_lengths_of_a_draw_are_found(learnt):
    assert abs(angles_of(learnt.rotation_)[0] - DEGREES) < 3.0
    np.testing.assert_allclose(learnt.length_scale_, LENGTHS, rtol=0.25)
    assert learnt.noise_variance_ == pytest.approx(NOISE, rel=0.3)


def test_it_predicts_better_than_length_scales_of_the_columns(data, learnt):
    X, y, places, truth = data
    axes = nf.ExactGPRegressor(ard=True, n_restarts=0, random_state=0).fit(X, y)
    errors = [np.sqrt(np.mean((model.predict(places) - truth) ** 2)) for model in (learnt, axes)]
    assert errors[0] < errors[1]
    assert learnt.log_marginal_likelihood() > axes.log_marginal_likelihood() + 10


def test_several_components_have_lengths_of_their_own(data):
    X, y, *_ = data
    model = nf.ExactGPRegressor(
        anisotropy="rotated",
        length_scale=[[3.0, 0.8], [6.0, 5.0]],
        signal_variance=[0.7, 0.3],
        noise_variance=NOISE,
        random_state=0,
    ).fit(X, y)
    plain = nf.ExactGPRegressor(**model.kernel_.parameters(), noise_variance=NOISE).fit(X @ model.rotation_.T, y)
    assert model.kernel_.length_scales.shape == (2, 2)
    assert model.log_marginal_likelihood() == pytest.approx(plain.log_marginal_likelihood(), rel=1e-8)


@pytest.mark.usefixtures("few_probes")
def test_the_local_model_is_within_its_tolerance(data, models):
    X, y, places, _ = data
    local = nf.LocalGPRegressor(
        anisotropy="rotated", spacing=0.5, radius=6.0, noise="constant", likelihood="gaussian", random_state=0, **GIVEN
    ).fit(X, y)
    assert len(local.centers_) > 10
    assert np.all((local.centers_ > -2) & (local.centers_ < 12))  # in the columns of the user
    np.testing.assert_allclose(local.rotation_, models["exact"].rotation_)
    (mean, std), (expected, deviation) = (m.predict(places, return_std=True) for m in (local, models["exact"]))
    divergence = np.log(deviation / std) + (std**2 + (mean - expected) ** 2) / (2 * deviation**2) - 0.5
    assert np.mean(divergence) < 1e-3, np.mean(divergence)


@pytest.mark.parametrize("name", MAKERS)
def test_gradients_are_by_the_columns_of_the_user(data, models, name):
    places, model = data[2][:5], models[name]
    gradient, std = model.predict_gradient(places, return_std=True)
    for j, step in enumerate(1e-4 * np.eye(2)):
        slope = (model.predict(places + step) - model.predict(places - step)) / 2e-4
        np.testing.assert_allclose(gradient[:, j], slope, rtol=1e-4, atol=1e-5)
        if name != "local":
            pairs = np.concatenate([places[:1] + step, places[:1] - step])
            _, cov = model.predict(pairs, return_cov=True)
            spread = cov[0, 0] + cov[1, 1] - 2 * cov[0, 1]
            assert std[0, j] == pytest.approx(np.sqrt(spread) / 2e-4, rel=1e-3)


@pytest.mark.parametrize("name", MAKERS)
def test_a_file_holds_the_rotation(data, models, name, tmp_path):
    places, model = data[2], models[name]
    nf.io.save(model, tmp_path / "model.nf")
    again = nf.io.load(tmp_path / "model.nf")
    assert again.anisotropy == "rotated"
    np.testing.assert_array_equal(again.rotation_, model.rotation_)
    for answer, expected in zip(
        again.predict(places, return_std=True), model.predict(places, return_std=True), strict=True
    ):
        np.testing.assert_allclose(answer, expected, rtol=1e-10)
    model.__dict__["_rotation"], kept = 1.1 * model.rotation_, model.rotation_
    with pytest.raises(ValueError, match="cannot be saved"):
        nf.io.save(model, tmp_path / "other.nf")
    model.__dict__["_rotation"] = kept


@pytest.mark.usefixtures("quick_pages")
@pytest.mark.parametrize("name", MAKERS)
def test_points_pages_grids_and_reports_are_in_the_columns_of_the_user(data, models, name):
    X, y, *_ = data
    model = models[name]
    if name != "features":
        np.testing.assert_allclose(model._training_points(), X, atol=1e-12)
    summary = nf.reporting.summary.summarise(model)
    first, second = angles_of(model.rotation_)
    assert summary["rotated"] == f"axes at {first:.1f} and {second:.1f} degrees, from x0 towards x1"
    assert f"axis at {second:.1f} degrees" in summary["length scales"]
    grid = model.predict_grid({"x0": (0, 10), "x1": (2, 8)}, size=4)
    point = [[float(grid.x0[1]), float(grid.x1[3])]]
    assert float(grid["mean"].sel(x0=point[0][0], x1=point[0][1])) == pytest.approx(float(model.predict(point)[0]))
    assert grid.attrs["length_scale_axes"] == summary["rotated"]
    page = model.to_html(None, X[:50], y[:50])
    assert f"axis at {first:.1f} degrees" in page
    assert f"Length scales belong to {summary['rotated']}." in page
    assert model.sample_y(X[:3], 2, random_state=0).shape == (3, 2)


def test_left_out_predictions_and_profiles_know_the_axes(data, models):
    X, y, *_ = data
    model = models["exact"]
    plain = MAKERS["exact"](**GIVEN).fit(X @ model.rotation_.T, y)
    np.testing.assert_allclose(model.loo_.residuals, plain.loo_.residuals, atol=1e-8)
    labels = np.arange(len(X)) % 3
    for name in ("exact", "features"):
        left = models[name].cross_validate(labels)
        turned = MAKERS[name](**GIVEN).fit(X @ model.rotation_.T, y).cross_validate(labels)
        np.testing.assert_allclose(left.residuals, turned.residuals, atol=1e-7)
    for name in MAKERS:
        points, *_ = models[name]._rows_of_process()
        np.testing.assert_allclose(points, X @ models[name].rotation_.T, atol=1e-10)


def test_further_data_are_rotated_too(data, models):
    X, y, places, _ = data
    features = clone(models["features"]).fit(X, y)
    features.partial_fit(places, np.full(len(places), 3.0))
    turn = features.rotation_
    plain = MAKERS["features"](**GIVEN).fit(X @ turn.T, y)
    plain.partial_fit(places @ turn.T, np.full(len(places), 3.0))
    np.testing.assert_allclose(features.predict(places), plain.predict(places @ turn.T), atol=1e-8)


def test_a_drift_and_named_coordinates_go_with_it(data):
    pd = pytest.importorskip("pandas")
    X, y, places, _ = data
    height = np.random.RandomState(1).normal(size=len(X))
    frame = pd.DataFrame({"height": height, "north": X[:, 1], "east": X[:, 0]})
    model = nf.ExactGPRegressor(
        anisotropy="rotated", coordinates=["east", "north"], drift=["height"], random_state=0, **GIVEN
    ).fit(frame, y + 2.0 * height)
    assert abs(angles_of(model.rotation_)[0] - DEGREES) < 4.0
    assert model.drift_coef_.values[1] == pytest.approx(2.0, abs=0.15)
    assert "from east towards north" in str(nf.reporting.summary.summarise(model))
    at = pd.DataFrame({"height": np.zeros(len(places)), "north": places[:, 1], "east": places[:, 0]})
    plain = nf.ExactGPRegressor(anisotropy="rotated", drift=[], random_state=0, **GIVEN).fit(X, y)
    assert np.sqrt(np.mean((model.predict(at) - plain.predict(places)) ** 2)) < 0.2


def test_a_refit_forgets_the_rotation(data):
    X, y, *_ = data
    model = nf.ExactGPRegressor(anisotropy="rotated", random_state=0, **GIVEN).fit(X[:100], y[:100])
    assert clone(model).get_params()["anisotropy"] == "rotated"
    model.set_params(anisotropy="axes").fit(X[:100], y[:100])
    assert not hasattr(model, "rotation_")
    plain = nf.ExactGPRegressor(**GIVEN).fit(X[:100], y[:100])
    np.testing.assert_array_equal(model.predict(X), plain.predict(X))


@pytest.mark.parametrize("make", MAKERS.values())
@pytest.mark.parametrize(
    ("options", "columns", "message"),
    [
        ({}, 1, "two or three coordinates, and the process lives in one column"),
        ({}, 4, "two or three coordinates, and the process lives in 4 columns"),
        ({"metric": "sphere"}, 2, "metric='sphere' is neither"),
        ({"length_scale": 2.0}, 2, "one number per rotated axis"),
        ({"anisotropy": "skewed"}, 2, "anisotropy"),
    ],
)
def test_what_cannot_be_rotated_is_refused(make, options, columns, message):
    X, y = np.random.RandomState(0).uniform(size=(20, columns)), np.arange(20.0)
    with pytest.raises(ValueError, match=message):
        make(**{"anisotropy": "rotated", **options}).fit(X, y)


@pytest.mark.parametrize("name", ["local", "features"])
def test_sources_are_refused_in_fit_and_taken_in_predictions(data, models, name):
    X, y, places, _ = data
    with pytest.raises(ValueError, match="takes no source"):
        MAKERS[name](anisotropy="rotated").fit(nf.sources.ArraySource(X, y))
    with pytest.raises(ValueError, match="takes no source"):
        clone(models[name]).fit(X[:50], y[:50]).partial_fit(nf.sources.ArraySource(X, y))
    answers = models[name].predict(nf.sources.ArraySource(places))
    np.testing.assert_allclose(answers, models[name].predict(places), atol=1e-10)


def test_columns_of_unlike_units_are_told(data):
    X, y, *_ = data
    with pytest.warns(UserWarning, match="rotated axes are directions among columns of like units"):
        nf.ExactGPRegressor(anisotropy="rotated", n_restarts=0, random_state=0).fit(X[:60] * [1, 1e5], y[:60])


def test_tensors_and_maps_without_length_scales_are_refused(data):
    from sklearn.kernel_approximation import RBFSampler

    X, y, *_ = data
    with pytest.raises(ValueError, match="RBFSampler, which has no length scales"):
        nf.FeatureGPRegressor(RBFSampler(random_state=0), anisotropy="rotated", random_state=0).fit(X[:50], y[:50])
    torch = pytest.importorskip("torch")
    with pytest.raises(ValueError, match="X is a tensor"):
        nf.ExactGPRegressor(anisotropy="rotated").fit(torch.tensor(X), torch.tensor(y))
