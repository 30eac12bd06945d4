import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest

import nearfield as nf
from nearfield.common import memory
from nearfield.estimators.sampling import FeatureSums
from nearfield.features import taylor
from nearfield.kernels import Kernel
from nearfield.local import fast
from nearfield.local.features import LocalFeatures
from nearfield.local.frame import Frame
from nearfield.local.moments import MomentModel, MomentSums
from nearfield.local.plan import Plan
from nearfield.solvers.kernel_space import KernelSpace
from nearfield.sources import ArraySource, Batch, BatchSource, Source, SourceError
from nearfield.streaming import centers as coverage
from nearfield.streaming import sums as streaming
from nearfield.streaming.passes import Reduction
from nearfield.streaming.predictor import StreamedPredictor
from nearfield.streaming.sums import Finished, LocalSums, Points, limit_of

from ..warned import far_points, few_features

pytestmark = far_points

GIVEN = {"length_scale": 1.0, "signal_variance": 1.0, "noise_variance": 0.09, "random_state": 0}
TWO_SCALES = {"n_scales": 2, "length_scale": [1.0, 5.0], "signal_variance": [1.0, 2.0]}
PLANNED = {**GIVEN, "spacing": 1.75, "radius": 3.5, "features": nf.TaylorFeatures(12)}


def field(X):
    return 5 + np.sin(X[:, 0]) * np.cos(X[:, -1])


def make_data(n=3000, d=2, width=20.0, seed=0):
    """Points of a square with a hole, dense on one side and sparse on the other."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, width, (n, d))
    X[:, 0] = width * (X[:, 0] / width) ** 2
    X = X[np.linalg.norm(X - 0.6 * width, axis=1) > 0.2 * width]
    return X, field(X) + 0.3 * rng.standard_normal(len(X)), rng.uniform(0.2, 3.0, len(X))


def places(n=500, d=2, width=20.0, seed=1):
    """Test points inside the data, in the hole and outside."""
    return np.random.default_rng(seed).uniform(-0.4 * width, 1.4 * width, (n, d))


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    """Passes in many batches, so that states are continued; and sums that travel in several parts."""
    monkeypatch.setattr(Reduction, "batch_rows", 900)
    monkeypatch.setattr(streaming, "MOST_ROWS", 900)
    monkeypatch.setattr(streaming, "PART_BYTES", 1 << 20)


def assert_equal_models(first, second, X, atol=1e-8):
    for a, b in zip(first.predict(X, return_std=True), second.predict(X, return_std=True), strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=0, atol=atol)


# ---- the same model as in memory ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "weighted"),
    [
        ({}, False),
        ({}, True),
        ({"blend": True}, True),
        ({"open_centers": False}, False),
        ({"correction": False}, True),
        ({"features": "kernel"}, True),
        ({"features": nf.TaylorFeatures(4), "radius": 2.0, "spacing": 1.0}, True),
        ({"centers": np.random.default_rng(0).uniform(0, 20, (40, 2))}, False),
        ({**TWO_SCALES, "features": nf.TaylorFeatures(8)}, True),
        ({"ard": True, "length_scale": [1.0, 2.0]}, True),
    ],
    ids=["plain", "weighted", "blend", "closed", "uncorrected", "kernel", "small", "centres", "scales", "ard"],
)
def test_streamed_models_equal_those_in_memory(options, weighted):
    X, y, w = make_data()
    options = {**PLANNED, **options}
    w = w if weighted else None
    model = nf.LocalGPRegressor(**options).fit(X, y, w)
    streamed = nf.LocalGPRegressor(**options).fit(ArraySource(X, y, w, sample_size=500))
    np.testing.assert_allclose(streamed.centers_, model.centers_, rtol=0, atol=1e-12)
    np.testing.assert_allclose(streamed.y_mean_, model.y_mean_, rtol=1e-13)
    assert_equal_models(streamed, model, places())
    assert streamed.report_.n_samples == len(X)
    assert streamed.report_.median_neighbours == model.report_.median_neighbours
    assert streamed.report_.n_kernel_space == model.report_.n_kernel_space


@pytest.mark.parametrize(("d", "width"), [(1, 600.0), (2, 16.0), (3, 10.0)])
def test_sums_in_compiled_loops_give_the_same_models(d, width, monkeypatch):
    pytest.importorskip("numba")
    X, y, w = make_data(2000, d, width)
    options = {**PLANNED, "features": nf.TaylorFeatures(7), "radius": 2.4, "spacing": 1.2, "n_jobs": 2}
    answers, made = [], []
    for least in (10**9, 0):
        monkeypatch.setattr(fast, "MIN_CENTERS", least)
        model = nf.LocalGPRegressor(**options).fit(ArraySource(X[:1500], y[:1500], w[:1500], sample_size=300))
        model.partial_fit(ArraySource(X[1500:], y[1500:], w[1500:]))
        answers.append(model.predict(places(1000, d, width), return_std=True))
        made.append(model._predictor.state)
    for by_numpy, by_loops in zip(*answers, strict=True):
        np.testing.assert_allclose(by_loops, by_numpy, rtol=0, atol=1e-11)
    np.testing.assert_array_equal(made[0].counts, made[1].counts)
    assert {i: type(m) for i, m in made[0].models.items()} == {i: type(m) for i, m in made[1].models.items()}
    kinds = [type(model) for model in made[0].models.values()]
    assert min(kinds.count(KernelSpace), kinds.count(MomentModel)) >= 5


def test_copies_answer_the_same_and_go_on(monkeypatch):
    """Pickles hold stacks of arrays; those of earlier versions, a model for each place."""
    X, y, _ = make_data()
    model = nf.LocalGPRegressor(**PLANNED).fit(ArraySource(X[:2000], y[:2000], sample_size=500))
    again = pickle.loads(pickle.dumps(model))
    for kind in (StreamedPredictor, Finished):
        monkeypatch.setattr(kind, "__getstate__", lambda self: vars(self))
    old = pickle.loads(pickle.dumps(model))
    expected = model.predict(places(), return_std=True)
    more = ArraySource(X[2000:], y[2000:])
    continued = model.partial_fit(more).predict(places(), return_std=True)
    for each in (again, old):
        np.testing.assert_array_equal(each.predict(places(), return_std=True), expected)
        np.testing.assert_array_equal(each.partial_fit(more).predict(places(), return_std=True), continued)


def test_both_sides_are_met():
    """The test above would say little if all centres were solved on one side."""
    X, y, _ = make_data()
    streamed = nf.LocalGPRegressor(**PLANNED).fit(ArraySource(X, y, sample_size=500))
    kinds = [type(model) for model in streamed._predictor.models]
    assert min(kinds.count(KernelSpace), kinds.count(MomentModel)) >= 10
    assert any(model is not None for model in streamed._predictor.opened)


@pytest.mark.parametrize("d", [1, 3])
def test_streamed_models_in_other_dimensions(d):
    X, y, _ = make_data(2000, d, 10.0)
    options = {**PLANNED, "features": nf.TaylorFeatures(6), "radius": 2.2, "spacing": 1.1}
    model = nf.LocalGPRegressor(**options).fit(X, y)
    streamed = nf.LocalGPRegressor(**options).fit(ArraySource(X, y, sample_size=300))
    assert_equal_models(streamed, model, places(1000, d, 10.0))


def test_beyond_three_columns_centres_cover_every_row():
    X, y, _ = make_data(3000, 5, 4.0)
    options = {**GIVEN, "spacing": 2.0, "radius": 3.0, "features": nf.TaylorFeatures(2)}
    streamed = nf.LocalGPRegressor(**options).fit(ArraySource(X, y, sample_size=100))
    gaps = np.linalg.norm(X[:, None] - streamed.centers_, axis=2).min(axis=1)
    assert gaps.max() <= 2.0
    model = nf.LocalGPRegressor(**options, centers=streamed.centers_, open_centers=False).fit(X, y)
    assert_equal_models(streamed, model, places(500, 5, 4.0))


def test_several_targets():
    X, y, _ = make_data()
    Y = np.stack([y, 100 - 2 * y], axis=1)
    model = nf.LocalGPRegressor(**PLANNED).fit(X, Y)
    assert_equal_models(nf.LocalGPRegressor(**PLANNED).fit(ArraySource(X, Y, sample_size=500)), model, places())


def test_the_paper_s_predictor_streams_too():
    X, y, _ = make_data(2000)
    centers = np.random.default_rng(0).uniform(0, 20, (10, 2))
    make = lambda: nf.LocalGPRegressor.from_paper(60, centers=centers, **GIVEN)  # noqa: E731
    source = ArraySource(X, y, sample_size=len(X) - 1)  # the map is drawn from the sample
    streamed, model = make().fit(source), make().fit(X, y)
    assert streamed.predict(X[:50], return_std=True)[1].shape == (50,)
    assert np.abs(streamed.predict(X[:500]) - model.predict(X[:500])).mean() < 0.1


def test_a_single_centre():
    X, y, _ = make_data(2000, width=3.0)
    options = {**GIVEN, "radius": None, "features": nf.TaylorFeatures(20), "centers": np.full((1, 2), 1.5)}
    model = nf.LocalGPRegressor(**options).fit(X, y)
    assert_equal_models(nf.LocalGPRegressor(**options).fit(ArraySource(X, y, sample_size=99)), model, X[:300])


@pytest.mark.usefixtures("few_probes")
def test_a_source_of_few_rows_is_fitted_in_memory():
    X, y, w = make_data(2000)
    model = nf.LocalGPRegressor(**GIVEN).fit(X, y, w)
    streamed = nf.LocalGPRegressor(**GIVEN).fit(ArraySource(X, y, w, batch_size=300))
    assert streamed.report_.method == model.report_.method
    for a, b in zip(streamed.predict(X, return_std=True), model.predict(X, return_std=True), strict=True):
        np.testing.assert_array_equal(a, b)


# ---- learning and tuning -----------------------------------------------------------------------------------------


def test_what_is_learnt_and_chosen_is_near_the_exact_process_on_all_rows():
    X, y, _ = make_data(3000)
    streamed = nf.LocalGPRegressor(length_scale=1.3, signal_variance=0.3, random_state=0, tolerance=1e-2)
    streamed.fit(ArraySource(X, y, sample_size=1000))
    assert streamed.report_.tolerance_met
    assert streamed.report_.n_components > 0
    assert streamed.noise_variance_ == pytest.approx(0.09, rel=0.1)
    test = make_data(1000, seed=5)[0]
    exact = nf.ExactGPRegressor(
        length_scale=streamed.length_scale_,
        signal_variance=streamed.signal_variance_,
        noise_variance=streamed.noise_variance_,
        n_scales=1,
    ).fit(X, y)
    (m, s), (em, es) = (k.predict(test, return_std=True, include_noise=True) for k in (streamed, exact))
    assert nf.metrics.kl_divergence(m, s**2, em, es**2).mean() < 1e-2


@pytest.mark.usefixtures("few_probes")
def test_several_scales_are_read_into_memory_and_give_the_same_model():
    X, y, _ = make_data(2000)
    given = {"n_scales": 2, "length_scale": [1.0, 3.0], "signal_variance": [1.0, 1.0], "noise_variance": 0.1}
    model = nf.LocalGPRegressor(**given, random_state=0)
    streamed = model.fit(ArraySource(X, y, sample_size=500)).predict(X[:100], return_std=True)
    in_memory = model.fit(X, y).predict(X[:100], return_std=True)
    np.testing.assert_allclose(streamed, in_memory, rtol=1e-9)


def test_several_scales_that_do_not_fit_into_memory_are_refused(monkeypatch):
    X, y, _ = make_data(2000)
    given = {"n_scales": 2, "length_scale": [1.0, 3.0], "signal_variance": [1.0, 1.0], "noise_variance": 0.1}
    monkeypatch.setattr("nearfield.common.memory.available", lambda: 2**10)
    with pytest.raises(MemoryError, match=r"several length scales .* With n_scales=1"):
        nf.LocalGPRegressor(**given, random_state=0).fit(ArraySource(X, y, sample_size=500))


def test_centres_at_the_test_points_are_refused():
    X, y, _ = make_data(1000)
    with pytest.raises(ValueError, match="centers='test' needs all training points"):
        nf.LocalGPRegressor(**PLANNED, centers="test").fit(ArraySource(X, y, sample_size=500))


# ---- more data ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("blend", [False, True])
@pytest.mark.parametrize("as_arrays", [False, True])
def test_partial_fit_continues_a_streamed_model(as_arrays, blend):
    X, y, w = make_data()
    X[1500:] += 3.0  # new data reach places that had none
    streamed = nf.LocalGPRegressor(**PLANNED, blend=blend).fit(
        ArraySource(X[:1500], y[:1500], w[:1500], sample_size=500)
    )
    before = streamed.predict(X)
    first = streamed._fitted
    for part in (slice(1500, 2000), slice(2000, None)):
        if as_arrays:
            streamed.partial_fit(X[part], y[part], w[part])
        else:
            streamed.partial_fit(ArraySource(X[part], y[part], w[part]))
    model = nf.LocalGPRegressor(**PLANNED, blend=blend).fit(X[:1500], y[:1500], w[:1500])
    model.partial_fit(X[1500:], y[1500:], w[1500:])
    assert streamed.report_.n_samples == len(X)
    np.testing.assert_allclose(streamed.y_mean_, np.average(y, weights=w), rtol=1e-12)
    assert_equal_models(streamed, model, places(600))
    # The earlier predictor is a value of its own, which later data do not change.
    streamed._store(first)
    np.testing.assert_allclose(streamed.predict(X), before, rtol=0, atol=1e-12)


@pytest.mark.parametrize("streamed", [False, True])
def test_partial_fit_can_forget_everything(streamed):
    X, y, w = make_data()
    old, new = slice(0, 2000), slice(2000, None)
    model = nf.LocalGPRegressor(**PLANNED)
    if streamed:
        model.fit(ArraySource(X[old], y[old], w[old], sample_size=500))
        model.partial_fit(ArraySource(X[new], y[new], w[new]), forget=True)
    else:
        model.fit(X[old], y[old], w[old]).partial_fit(X[new], y[new], w[new], forget=True)
    fresh = nf.LocalGPRegressor(**PLANNED, centers=model.centers_, open_centers=False).fit(X[new], y[new], w[new])
    inside = X[::7]
    np.testing.assert_allclose(model.y_mean_, np.average(y[new], weights=w[new]), rtol=1e-12)
    model._store(replace(model._fitted, predictor=replace(model._predictor, open_centers=False)))
    assert_equal_models(model, fresh, inside)
    assert model.report_.n_samples == len(X[new])


SEVERAL = {"length_scale": [1.0, 4.0], "signal_variance": [0.6, 0.4], "noise_variance": 0.09, "n_scales": 2}
FORGETFUL = {
    "features": lambda: nf.LocalGPRegressor(**PLANNED),
    "blended": lambda: nf.LocalGPRegressor(**PLANNED, blend=True),
    "kernel space": lambda: nf.LocalGPRegressor(**{**PLANNED, "features": "kernel"}),
    "centres at test points": lambda: nf.LocalGPRegressor(**PLANNED, centers="test"),
    "nearest points": lambda: nf.LocalGPRegressor(**SEVERAL, random_state=0),
    "all points": lambda: nf.LocalGPRegressor.from_paper(20, **GIVEN),
    "one map": lambda: feature_model(),
}


@pytest.mark.parametrize(("sample_size", "n_targets"), [(200, 1), (200, 2), (5000, 2)])
@pytest.mark.parametrize("name", FORGETFUL)
def test_no_data_may_take_the_place_of_all(name, sample_size, n_targets, tmp_path):
    if sample_size == 200 and name in ("centres at test points", "nearest points"):
        pytest.skip("needs all data in memory")
    X, y, w = make_data(500)
    y = y if n_targets == 1 else np.stack([y, y + 100], axis=1)
    model = FORGETFUL[name]().fit(ArraySource(X, y, sample_size=sample_size))
    other = FORGETFUL[name]().fit(ArraySource(X, y, sample_size=sample_size)).partial_fit(X, y, w, forget=True)
    model.partial_fit(ArraySource(X, y, np.zeros(len(X))), forget=True)
    mean, std = model.predict(places(), return_std=True)
    np.testing.assert_allclose(mean, np.broadcast_to(y.mean(axis=0), mean.shape), rtol=1e-12)
    if name not in ("one map", "all points"):  # whose features are not quite the kernel
        np.testing.assert_allclose(std, 1.0, rtol=1e-12)
    if sample_size == 5000 or name == "one map":
        nf.save(model, tmp_path / "empty.nf")
        assert_equal_models(nf.load(tmp_path / "empty.nf"), model, places(100))
    model.partial_fit(ArraySource(X[:0], y[:0]))
    model.partial_fit(X, y, w)
    assert_equal_models(model, other, places())


def test_a_model_in_memory_takes_a_source_in():
    X, y, w = make_data(3000)
    model = nf.LocalGPRegressor(**PLANNED).fit(X[:1500], y[:1500], w[:1500])
    model.partial_fit(ArraySource(X[1500:], y[1500:], w[1500:], batch_size=400))
    whole = nf.LocalGPRegressor(**PLANNED).fit(X[:1500], y[:1500], w[:1500]).partial_fit(X[1500:], y[1500:], w[1500:])
    assert_equal_models(model, whole, places())


def test_partial_fit_of_an_unfitted_model_is_fit():
    X, y, _ = make_data(2000)
    model = nf.LocalGPRegressor(**PLANNED).partial_fit(ArraySource(X, y, sample_size=500))
    assert_equal_models(model, nf.LocalGPRegressor(**PLANNED).fit(X, y), places())


# ---- one global map ----------------------------------------------------------------------------------------------


def feature_model(**options):
    return nf.FeatureGPRegressor(nf.FourierFeatures(100, random_state=0), **{**GIVEN, **options})


@few_features
def test_a_global_map_streams(monkeypatch):
    monkeypatch.setattr(FeatureSums, "batch_rows", 300)
    X, y, w = make_data()
    model = feature_model().fit(X, y, w)
    streamed = feature_model().fit(ArraySource(X, y, w, sample_size=500))
    assert_equal_models(streamed, model, places())
    assert streamed.log_marginal_likelihood() == pytest.approx(model.log_marginal_likelihood(), rel=1e-10)

    halves = feature_model().fit(ArraySource(X[:2000], y[:2000], w[:2000], sample_size=500))
    halves.partial_fit(ArraySource(X[2000:], y[2000:], w[2000:]))
    assert_equal_models(halves, model, places())

    halves.partial_fit(ArraySource(X, y, w), forget=True)
    assert_equal_models(halves, model, places())
    assert_equal_models(halves.partial_fit(X, y, w, forget=True), model, places())


def test_a_global_map_learns_from_the_sample():
    X, y, _ = make_data()
    streamed = feature_model(noise_variance=None).fit(ArraySource(X, y, sample_size=1000))
    assert streamed.noise_variance_ == pytest.approx(0.09, rel=0.1)
    assert streamed.statistics_.n == len(X)


def test_the_covariance_of_a_source_is_refused():
    X, y, _ = make_data(100)
    with pytest.raises(ValueError, match="covariance of all rows of a source cannot be held"):
        feature_model().fit(X, y).predict(ArraySource(X), return_cov=True)


# ---- what goes wrong ---------------------------------------------------------------------------------------------


class Failing(Source):
    """Rows that end with an exception in the middle of a certain pass."""

    def __init__(self, error, n_pass):
        super().__init__(sample_size=500)
        self.error, self.left = error, n_pass

    def raw(self):
        X, y, _ = make_data()
        self.left -= 1
        yield X[:2000], y[:2000], None, "first half"
        if self.left == 0:
            raise self.error
        yield X[2000:], y[2000:], None, "second half"


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SourceError("broken")])
@pytest.mark.parametrize("n_pass", [1, 2, 3])
@pytest.mark.parametrize("fitted", [False, True])
def test_a_fit_that_fails_leaves_the_estimator_as_it_was(error, n_pass, fitted):
    model = nf.LocalGPRegressor(**PLANNED)
    X, y, _ = make_data(600, seed=3)
    if fitted:
        model.fit(X, y)
    before = dict(vars(model))
    with pytest.raises(type(error)):
        model.fit(Failing(error, n_pass))
    assert vars(model).keys() == before.keys()
    assert all(vars(model)[name] is before[name] for name in before)


@pytest.mark.parametrize("n_pass", [1, 2])
def test_a_partial_fit_that_fails_leaves_the_estimator_as_it_was(n_pass):
    X, y, _ = make_data()
    model = nf.LocalGPRegressor(**PLANNED).fit(ArraySource(X, y, sample_size=500))
    expected = model.predict(X)
    with pytest.raises(KeyboardInterrupt):
        model.partial_fit(Failing(KeyboardInterrupt(), n_pass))
    np.testing.assert_array_equal(model.predict(X), expected)


def test_an_iterator_that_ends_early_is_noticed():
    X, y, _ = make_data()
    left = iter([(X[:2000], y[:2000]), (X[2000:], y[2000:])])
    with pytest.raises(
        SourceError, match=f"gave 0 rows in the pass 'centres', but {len(X)} in the first.*fresh iterator"
    ):
        nf.LocalGPRegressor(**PLANNED).fit(BatchSource(lambda: left, sample_size=500))


def test_blending_must_be_asked_for_before_the_fit():
    X, y, _ = make_data()
    model = nf.LocalGPRegressor(**PLANNED, blend=False).fit(ArraySource(X, y, sample_size=500)).set_params(blend=True)
    with pytest.raises(ValueError, match="blend was False when the model was fitted from a source"):
        model.predict(X)


@pytest.mark.parametrize("n", [0, 1])
def test_too_few_rows(n):
    X, y, _ = make_data(100)
    with pytest.raises(SourceError, match=f"has {n} rows .*needs at least 2"):
        nf.LocalGPRegressor(random_state=0).fit(ArraySource(X[:n], y[:n]))


def test_one_row_is_enough_where_nothing_is_learnt():
    X, y, _ = make_data(100)
    model = nf.LocalGPRegressor(**GIVEN).fit(ArraySource(X[:1], y[:1]))
    same = nf.LocalGPRegressor(**GIVEN).fit(X[:1], y[:1])
    for one, other in zip(model.predict(X, return_std=True), same.predict(X, return_std=True), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


@pytest.mark.parametrize(("fitted", "given"), [(1, 2), (2, 1), (2, 3)])
@pytest.mark.parametrize("sample_size", [500, 5000])
@pytest.mark.parametrize("name", ["local", "feature"])
def test_other_numbers_of_targets_are_refused(name, sample_size, fitted, given):
    X, y, _ = make_data(1000)
    targets = [None, y, np.stack([y, y + 100], axis=1), np.stack([y, y, y], axis=1)]
    model = nf.LocalGPRegressor(**PLANNED) if name == "local" else feature_model()
    model.fit(ArraySource(X, targets[fitted], sample_size=sample_size))
    before = model.predict(X)
    with pytest.raises(ValueError, match=f"'y' argument must have {fitted} targets as in fit. Got {given}"):
        model.partial_fit(ArraySource(X, targets[given]))
    np.testing.assert_array_equal(model.predict(X), before)


def test_models_that_do_not_fit_are_refused_with_the_number(monkeypatch):
    X, y, _ = make_data()
    monkeypatch.setattr(memory, "available", lambda: 300_000)
    with pytest.raises(MemoryError, match=r"A model of \d+ centres with 91 features each needs .* KiB are free"):
        nf.LocalGPRegressor(**PLANNED).fit(ArraySource(X, y, sample_size=500))


def test_cells_that_do_not_fit_are_left_out_with_a_warning(monkeypatch):
    X, y, _ = make_data()
    closed = nf.LocalGPRegressor(**PLANNED, open_centers=False).fit(ArraySource(X, y, sample_size=500))
    needed, count = [], coverage.model_bytes
    monkeypatch.setattr(coverage, "model_bytes", lambda *args: needed.append(count(*args)) or needed[-1])
    nf.LocalGPRegressor(**PLANNED).fit(ArraySource(X, y, sample_size=500))
    assert needed[0] > closed._predictor.n_bytes
    assert 1.2 * needed[0] < sum(needed)
    monkeypatch.setattr(memory, "available", lambda: 1.2 * needed[0])
    with pytest.warns(UserWarning, match=r"no memory for the models of .* cells"):
        model = nf.LocalGPRegressor(**PLANNED).fit(ArraySource(X, y, sample_size=500))
    assert_equal_models(model, closed, places())


# ---- progress ----------------------------------------------------------------------------------------------------


def test_every_pass_reports_and_ends():
    X, y, _ = make_data()
    calls = []
    model = nf.LocalGPRegressor(**PLANNED, progress=lambda *call: calls.append(call))
    model.fit(ArraySource(X, y, sample_size=500)).predict(ArraySource(X, batch_size=500))
    stages = list(dict.fromkeys(stage for stage, _, _ in calls))
    assert stages == ["sample", "centres", "sums", "prediction"]
    for stage in stages:
        done = [share for s, share, _ in calls if s == stage]
        assert done == sorted(done)
        assert done[-1] == 1.0
        assert len(done) > 3 or stage == "sample"


def test_progress_must_be_callable():
    X, y, _ = make_data(100)
    with pytest.raises(ValueError, match=r"'progress' parameter .* must be None, True or callable"):
        nf.LocalGPRegressor(progress="yes").fit(ArraySource(X, y))


# ---- places ------------------------------------------------------------------------------------------------------


def make_sums(limit_degree=6):
    kernel = Kernel.gaussian(1.0)
    plan = Plan(kernel, 3.0, LocalFeatures.of(kernel, (taylor.sample(2, limit_degree),)))
    centers = np.array([[2.0, 2.0], [6.0, 2.0], [30.0, 30.0]])
    return LocalSums(plan, centers, Frame.of(Kernel.gaussian(1.0), 0.1, np.zeros(1)), 1)


def batch(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 8, (n, 2))
    return Batch(X, field(X)[:, None], None, np.arange(n))


def test_the_limit_is_where_kernel_space_ends():
    plan = make_sums().plan
    limit = limit_of(plan)
    assert plan.takes_kernel_space(int(limit))
    assert not plan.takes_kernel_space(int(limit) + 1)
    assert limit_of(Plan(plan.kernel, 3.0, None)) == np.inf
    assert limit_of(Plan(plan.kernel, None, plan.features, either_side=False)) < 0


@pytest.mark.parametrize("sizes", [(5, 7), (5, 400), (400, 5), (300, 300), (0, 20), (20, 0)])
def test_states_merge_without_being_changed(sizes):
    sums = make_sums()
    states = [sums.update(sums.start(), batch(n, i)) if n else sums.start() for i, n in enumerate(sizes)]
    copies = [copy.deepcopy(s.places) for s in states]
    merged = sums.merge(*states)
    both = sums.start()
    for i, n in enumerate(sizes):
        both = sums.update(both, batch(n, i)) if n else both
    assert merged.places.keys() == both.places.keys() <= {0, 1}
    np.testing.assert_array_equal(merged.counts, both.counts)
    for i, data in merged.places.items():
        assert type(data) is type(both.places[i])
        if isinstance(data, MomentSums):
            np.testing.assert_allclose(data.moments, both.places[i].moments, rtol=1e-10, atol=1e-9)
            np.testing.assert_allclose(data.targets, both.places[i].targets, rtol=1e-10)
            assert data.n == both.places[i].n == merged.counts[i]
        else:
            assert len(data) == len(both.places[i])
    for state, before in zip(states, copies, strict=True):
        assert state.places.keys() == before.keys()
        for i, data in before.items():
            now = state.places[i]
            np.testing.assert_array_equal(
                data.Z if isinstance(data, Points) else data.moments, now.Z if isinstance(now, Points) else now.moments
            )


def test_parts_hold_everything_once(monkeypatch):
    monkeypatch.setattr(streaming, "PART_BYTES", 5_000)
    sums = make_sums()
    state = sums.update(sums.start(), batch(300, 0))
    parts = sums.split(state)
    assert len(parts) == sums.n_parts == 2
    joined = sums.join([sums.models(sums.owned(part)) for part in parts])
    whole = sums.models(sums.owned(state))
    assert joined.models.keys() == whole.models.keys()
    assert (joined.n, joined.weight) == (whole.n, whole.weight)
    np.testing.assert_array_equal(joined.models[0].coefficients, whole.models[0].coefficients)
