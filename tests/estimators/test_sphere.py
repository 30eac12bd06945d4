import numpy as np
import pytest

import nearfield as nf
from nearfield.common.sphere import EARTH_RADIUS, Sphere

GIVEN = {"length_scale": 1500.0, "signal_variance": 1.0, "noise_variance": 0.01}


def places(n, seed=0):
    """Places (n, 2) all over the globe, as many per area everywhere."""
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.uniform(-180, 180, n), np.degrees(np.arcsin(rng.uniform(-1, 1, n)))])


def field(X):
    x, y, z = Sphere().points(X[:, :2])[:, :3].T / EARTH_RADIUS
    return np.sin(3 * x) + np.cos(4 * y * z) + z


def chords(A, B):
    """Chords (n, m) by the haversine formula."""
    (a, b), (c, d) = (np.radians(P).T for P in (A, B))
    across = np.cos(b)[:, None] * np.cos(d) * np.sin((a[:, None] - c) / 2) ** 2
    return 2 * EARTH_RADIUS * np.sqrt(np.sin((b[:, None] - d) / 2) ** 2 + across)


def exact_process(X, y, X_new):
    """Mean and standard deviation by the formulas, with chords as distances."""
    K = np.exp(-0.5 * (chords(X, X) / 1500) ** 2) + 0.01 * np.eye(len(X))
    k = np.exp(-0.5 * (chords(X_new, X) / 1500) ** 2)
    mean = y.mean() + k @ np.linalg.solve(K, y - y.mean())
    return mean, np.sqrt(1 - np.einsum("ij,ji->i", k, np.linalg.solve(K, k.T)))


@pytest.fixture(scope="module")
def local():
    X = places(2500)
    return nf.LocalGPRegressor(metric="sphere", random_state=0, **GIVEN).fit(X, field(X))


@pytest.mark.parametrize("regressor", [nf.ExactGPRegressor, nf.LocalGPRegressor])
def test_equal_to_the_exact_process_with_chords(regressor):
    X, X_new = places(300), places(50, 1)
    model = regressor(metric="sphere", **GIVEN).fit(X, field(X))
    np.testing.assert_allclose(model.predict(X_new, return_std=True), exact_process(X, field(X), X_new), atol=1e-8)
    assert model.metric_ == "sphere"
    assert model.n_features_in_ == 2
    np.testing.assert_allclose(model._training_points(), X, atol=1e-9)


def test_local_models_are_as_near_to_it_as_they_say(local):
    X_new = places(200, 1)
    exact = nf.ExactGPRegressor(metric="sphere", **GIVEN).fit(places(2500), field(places(2500)))
    (m, s), (mr, sr) = (g.predict(X_new, return_std=True, include_noise=True) for g in (local, exact))
    assert nf.metrics.kl_divergence(m, s**2, mr, sr**2).mean() < 1e-3
    certificate = local.certify(X_new, n_probes=20, random_state=0)
    assert certificate.X.shape == (20, 2)
    assert certificate.divergence < 1e-3
    assert local.centers_.shape[1] == 2


def test_no_seam_at_the_date_line_and_the_poles(local):
    lat = np.linspace(-89, 89, 60)
    for east, west in ((180.0, -180.0), (190.0, -170.0), (359.0, -1.0)):
        answers = [local.predict(np.column_stack([np.full(60, lon), lat]), return_std=True) for lon in (east, west)]
        np.testing.assert_allclose(*answers, atol=1e-10)
    around = np.column_stack([np.linspace(-180, 180, 37), np.full(37, 90.0)])
    for pole in (around, -around):
        assert np.ptp(local.predict(pole)) < 1e-10
    # Steps across the line are as small as steps elsewhere.
    lon = np.linspace(170, 190, 401)
    steps = np.abs(np.diff(local.predict(np.column_stack([lon, np.full(401, 20.0)]))))
    assert steps[195:205].max() < 2 * steps.max(initial=1e-4, where=np.abs(np.arange(400) - 200) > 10)


def test_grids_and_pictures_live_in_degrees(local, tmp_path):
    pytest.importorskip("xarray")
    grid = local.predict_grid({"x0": (170.0, 190.0), "x1": (-10.0, 10.0)}, size=5)
    assert dict(grid.sizes) == {"x0": 5, "x1": 5}
    np.testing.assert_allclose(grid["mean"][:, 2], local.predict(np.column_stack([grid.x0, np.zeros(5)])), atol=1e-12)
    small = nf.ExactGPRegressor(metric="sphere", **GIVEN).fit(places(20), field(places(20)))
    page = nf.webpage.build(small, places(30, 1), field(places(30, 1)))
    assert '"bounds":[[-180.0,180.0],[' in page
    plt = pytest.importorskip("matplotlib.pyplot")
    ax = nf.plotting.mean_map(local, size=8)
    assert ax.get_xlim() == (-180.0, 180.0)
    assert ax.get_ylim() == (-90.0, 90.0)
    plt.close(ax.figure)


def test_data_across_the_date_line_have_a_small_map():
    X = np.array([[177.0, -17.0], [179.5, -18.0], [-179.0, -16.0], [-178.0, -19.0]])
    model = nf.ExactGPRegressor(metric="sphere", **GIVEN).fit(X, [1.0, 2.0, 3.0, 2.0])
    assert np.ptp(model._training_points()[:, 0]) == pytest.approx(5.0)
    pytest.importorskip("xarray")
    assert np.ptp(model.predict_grid(size=3).x0.values) == pytest.approx(5.0)


def test_further_columns_have_length_scales_of_their_own():
    X = np.column_stack([places(150), np.random.default_rng(1).uniform(0, 10, 150)])
    y = field(X) * np.cos(X[:, 2] / 4)
    learnt = nf.ExactGPRegressor(metric="sphere", random_state=0).fit(X, y)
    assert np.shape(learnt.length_scale_) == (2,)
    assert 500 < learnt.length_scale_[0] < 10_000
    assert 1 < learnt.length_scale_[1] < 40
    lengths = learnt.kernel_.length_scales[0]
    assert lengths[0] == lengths[1] == lengths[2]
    # The optimum is one: no length scale can be moved to gain likelihood.
    best = learnt.log_marginal_likelihood()
    for factors in ([1.02, 1], [0.98, 1], [1, 1.02], [1, 0.98]):
        moved = nf.ExactGPRegressor(
            metric="sphere",
            length_scale=learnt.length_scale_ * factors,
            signal_variance=learnt.signal_variance_,
            noise_variance=learnt.noise_variance_,
        ).fit(X, y)
        assert moved.log_marginal_likelihood() < best + 1e-6


def test_columns_are_found_by_their_names(local):
    pd = pytest.importorskip("pandas")
    X, X_new = places(100), places(9, 1)
    frame = pd.DataFrame(X, columns=["Longitude", "Latitude"])
    by_name = nf.ExactGPRegressor(metric="sphere", **GIVEN).fit(frame[["Latitude", "Longitude"]], field(X))
    by_order = nf.ExactGPRegressor(metric="sphere", **GIVEN).fit(X, field(X))
    new = pd.DataFrame(X_new, columns=frame.columns)[["Latitude", "Longitude"]]
    np.testing.assert_allclose(by_name.predict(new), by_order.predict(X_new), atol=1e-12)
    with pytest.raises(ValueError, match="'Latitude' must hold latitudes"):
        by_name.predict(new + 80)


def test_a_warning_where_degrees_of_the_globe_are_taken_for_lengths():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(places(30), columns=["lon", "lat"])
    with pytest.warns(UserWarning, match="metric='sphere' measures in km"):
        nf.ExactGPRegressor(**GIVEN).fit(frame, field(places(30)))


@pytest.mark.filterwarnings("error")
def test_no_warning_for_a_small_region_or_a_plane_on_purpose():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(places(30), columns=["lon", "lat"])
    nf.ExactGPRegressor(metric="euclidean", **GIVEN).fit(frame, field(places(30)))
    nf.ExactGPRegressor(**GIVEN).fit(frame / 40, field(places(30)))


def test_parameters_and_data_that_do_not_fit():
    X, y = places(20), field(places(20))
    for metric in ("globe", None, 3):
        with pytest.raises(ValueError, match="'metric' parameter of ExactGPRegressor must be one of"):
            nf.ExactGPRegressor(metric=metric, **GIVEN).fit(X, y)
    with pytest.raises(ValueError, match="two columns at least"):
        nf.ExactGPRegressor(metric="sphere", **GIVEN).fit(X[:, :1], y)
    with pytest.raises(ValueError, match="Are the two swapped"):
        nf.ExactGPRegressor(metric="sphere", **GIVEN).fit(X[:, ::-1], y)
    model = nf.ExactGPRegressor(metric="sphere", **GIVEN).fit(X, y)
    with pytest.raises(ValueError, match="latitudes from -90 to 90"):
        model.predict([[0.0, 91.0]])
    with pytest.raises(ValueError, match="one in km for the sphere, then one per further column"):
        nf.ExactGPRegressor(**{**GIVEN, "length_scale": [1.0, 2.0]}, metric="sphere").fit(X, y)
    # A model that is fitted to arrays predicts for a source.
    local = nf.LocalGPRegressor(metric="sphere", **GIVEN).fit(X, y)
    np.testing.assert_allclose(local.predict(nf.sources.ArraySource(X)), local.predict(X), atol=1e-12)


def test_more_data_later_and_model_files(local, tmp_path):
    X, y = places(200), field(places(200))
    model = nf.LocalGPRegressor(metric="sphere", random_state=0, **GIVEN).fit(X[:150], y[:150])
    model.partial_fit(X[150:], y[150:])
    whole = nf.ExactGPRegressor(metric="sphere", **GIVEN).fit(X, y)
    np.testing.assert_allclose(model.predict(X[:9] + 1), whole.predict(X[:9] + 1), atol=1e-7)
    waves = nf.FourierFeatures(200, random_state=0)
    features = nf.FeatureGPRegressor(waves, metric="sphere", random_state=0, **GIVEN).fit(X, y)
    for before in (model, whole, features, local):
        nf.save(before, tmp_path / "m.nf")
        after = nf.load(tmp_path / "m.nf")
        assert after.metric_ == "sphere"
        np.testing.assert_allclose(after.predict(X[:9] + 1), before.predict(X[:9] + 1), atol=1e-10)


def test_rows_trained_on_are_recognised_on_either_side_of_the_line():
    from nearfield.reporting.training_rows import TrainingRows

    X = np.array([[180.0, 0.0], [-170.0, 10.0], [20.0, 30.0]])
    model = nf.ExactGPRegressor(metric="sphere", **GIVEN).fit(X, [1.0, 2.0, 3.0])
    assert TrainingRows(model).count(np.array([[-180.0, 0.0], [190.0, 10.0], [20.0, 31.0]])) == 2


def test_tensors():
    torch = pytest.importorskip("torch")
    X, X_new = places(60), places(9, 1)
    model = nf.ExactGPRegressor(metric="sphere", **GIVEN)
    numbers = model.fit(X, field(X)).predict(X_new)
    tensors = model.fit(torch.tensor(X), torch.tensor(field(X))).predict(torch.tensor(X_new))
    np.testing.assert_allclose(tensors.numpy(), numbers, atol=1e-9)


def test_dense_data_need_no_iteration():
    """Cells are measured as if centred on the globe, as they are, and neighbourhoods as the sheets that they are."""
    rng = np.random.RandomState(3)
    places = np.column_stack([rng.uniform(-5, 5, 3000), rng.uniform(43, 50, 3000)])
    target = np.sin(places[:, 0]) + np.cos(places[:, 1]) + 0.3 * rng.standard_normal(3000)
    train, test = slice(2600), slice(2600, None)
    given = {"length_scale": 130.0, "signal_variance": 1.3, "noise_variance": 0.09, "metric": "sphere"}
    model = nf.LocalGPRegressor(**given, tolerance=1e-2, random_state=0).fit(places[train], target[train])
    assert not model.report_.exact_mean
    assert model.report_.n_centers > 1
    exact = nf.ExactGPRegressor(**given).fit(places[train], target[train])
    answers = [each.predict(places[test], return_std=True, include_noise=True) for each in (model, exact)]
    (mean, std), (true_mean, true_std) = answers
    distance = nf.metrics.kl_divergence(mean, std**2, true_mean, true_std**2).mean()
    assert distance < 1e-2
    assert distance / 4 < model.report_.divergence < 4 * distance
