"""Model files: what is loaded is what was saved, and what is damaged says so."""

import copy
import hashlib
import json
import pickle
import struct
import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.base import clone
from sklearn.kernel_approximation import RBFSampler

import nearfield as nf
from nearfield import io
from nearfield.hyperparameters.learned import OnBound
from nearfield.persistence import codec, container, files
from nearfield.solvers.feature_space import FeatureSpace

from ..warned import far_points, few_features

pytestmark = [far_points, few_features]

RNG = np.random.default_rng(0)
X = RNG.uniform(0, 12, (400, 2))
y = np.sin(X[:, 0]) * np.cos(X[:, 1]) + 0.1 * RNG.standard_normal(400)
NEW = RNG.uniform(-3, 16, (60, 2))  # inside and far outside the data
WEIGHTS = RNG.uniform(0.5, 2, 400)
FIXED = {"length_scale": 1.0, "signal_variance": 1.0, "noise_variance": 0.01, "random_state": 0}
LOCAL = {**FIXED, "spacing": 1.5, "radius": 3.0, "features": nf.TaylorFeatures(6)}


def local(**changes):
    return nf.LocalGPRegressor(**{**LOCAL, **changes})


def two_scales(cls, *args, **changes):
    given = {"length_scale": [1.0, 4.0], "signal_variance": [0.6, 0.4], "noise_variance": 0.01, "n_scales": 2}
    return cls(*args, random_state=0, **given, **changes)


MODELS = {
    "local": lambda: local().fit(X, y),
    "local, updated": lambda: local().fit(X[:300], y[:300]).partial_fit(X[300:], y[300:]),
    "local, kernel space": lambda: local(features="kernel").fit(X, y),
    "local, chosen": lambda: nf.LocalGPRegressor(**FIXED).fit(X, y),
    "local, several targets": lambda: local().fit(X, np.column_stack([y, 1000 - 2 * y])),
    "local, weights": lambda: local().fit(X, y, sample_weight=WEIGHTS),
    "local, blend": lambda: local(blend=True).fit(X, y),
    "local, one length scale per column": lambda: local(length_scale=[1.0, 2.0]).fit(X, y),
    "local, own centres": lambda: local(centers=X[:20]).fit(X, y),
    "local, no centres": lambda: local(centers="test").fit(X, y),
    "local, sketches": lambda: local(features=nf.MaclaurinFeatures(40, random_state=0), radius=None).fit(X, y),
    "local, two scales": lambda: two_scales(nf.LocalGPRegressor).fit(X, y),
    "the paper": lambda: nf.LocalGPRegressor.from_paper(32, sampling="tensor_srht", **FIXED).fit(X, y),
    "exact": lambda: nf.ExactGPRegressor(**FIXED).fit(X, y),
    "exact, learnt": lambda: nf.ExactGPRegressor(random_state=0, n_restarts=0).fit(X[:100], y[:100]),
    "exact, several targets": lambda: two_scales(nf.ExactGPRegressor).fit(X, np.column_stack([y, y**2])),
    "Fourier": lambda: nf.FeatureGPRegressor(nf.FourierFeatures(50, random_state=0), **FIXED).fit(X, y),
    "structured": lambda: nf.FeatureGPRegressor(
        nf.FourierFeatures(51, sampling="structured", random_state=0), **FIXED
    ).fit(np.tile(X, 3), y),
    "Taylor": lambda: nf.FeatureGPRegressor(nf.TaylorFeatures(6), **{**FIXED, "length_scale": 6.0}).fit(X, y),
    "Maclaurin": lambda: nf.FeatureGPRegressor(nf.MaclaurinFeatures(40, random_state=0), **FIXED).fit(X, y),
    "sketch": lambda: nf.FeatureGPRegressor(nf.PolynomialSketch(20, random_state=0)).fit(X, y),
    "several maps": lambda: two_scales(nf.FeatureGPRegressor, nf.FourierFeatures(30, random_state=0)).fit(X, y),
    "features, updated": lambda: (
        nf.FeatureGPRegressor(nf.FourierFeatures(50, random_state=0), **FIXED)
        .fit(X[:300], y[:300])
        .partial_fit(X[300:], y[300:])
    ),
}
FEW = ("local", "local, updated", "exact", "Fourier", "Maclaurin")


@pytest.fixture(scope="module")
def models():
    """Every model once: none of the tests changes them."""
    made = {}

    def get(name):
        if name not in made:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                made[name] = MODELS[name]()
        return made[name]

    return get


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.nf"


def points(model):
    return np.tile(NEW, model.n_features_in_ // 2)


def assert_same(a, b):
    for left, right in zip(a.predict(points(a), return_std=True), b.predict(points(b), return_std=True), strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_loaded_predicts_as_the_model_saved(models, path, name):
    model = models(name)
    nf.save(model, path)
    loaded = nf.load(path)
    assert type(loaded) is type(model)
    assert set(vars(loaded)) == set(vars(model))
    assert_same(model, loaded)
    assert_same(model, copy.deepcopy(loaded))
    assert repr(clone(loaded)) == repr(clone(model))


@pytest.mark.parametrize("name", ["local", "local, updated", "local, several targets", "features, updated", "sketch"])
def test_a_model_loaded_takes_in_more_data(models, path, name):
    model = copy.deepcopy(models(name))
    nf.save(model, path)
    loaded = nf.load(path)
    more = y[:30] if model._single_target else np.column_stack([y[:30], y[:30]])
    model.partial_fit(X[:30] + 0.2, more)
    loaded.partial_fit(X[:30] + 0.2, more)
    assert_same(model, loaded)


def test_what_a_model_says_of_itself_survives(models, path):
    model = models("local, chosen")
    nf.save(model, path)
    loaded = nf.load(path)
    assert str(loaded.report_) == str(model.report_)
    assert loaded.report_ == model.report_
    np.testing.assert_array_equal(loaded.centers_, model.centers_)
    assert loaded.length_scale_ == model.length_scale_
    assert loaded.learned_.seconds == model.learned_.seconds


def test_estimates_on_a_bound_survive(models, path):
    model = copy.copy(models("exact"))
    sitting = (OnBound("length_scale", 0, None, 2.5, True), OnBound("noise_variance", None, None, 1e-8, False))
    model.learned_ = replace(model.learned_, on_bounds=sitting)
    nf.save(model, path)
    assert nf.load(path).learned_.on_bounds == sitting


def test_files_with_sentences_on_bounds_are_read_without_these(models, path):
    # As earlier versions wrote them; values there may be in other units than those of the data.
    model = copy.copy(models("exact"))
    model.learned_ = replace(model.learned_, on_bounds=("length scale 1 = 57.3 (the target hardly changes)",))
    nf.save(model, path)
    assert nf.load(path).learned_.on_bounds == ()
    assert_same(nf.load(path), model)


@pytest.mark.parametrize(
    "estimate",
    [
        OnBound("length_scale", 0, 1, 2.5, True),  # of a kernel with one length scale for all columns
        OnBound("length_scale", 1, None, 2.5, True),
        OnBound("length_scale", -1, None, 2.5, True),
        OnBound("weight", 0, None, 2.5, True),
        OnBound("noise_variance", None, None, np.nan, True),
        "noise variance",
    ],
)
def test_estimates_on_a_bound_that_no_model_has_are_refused(models, path, estimate):
    model = copy.copy(models("exact"))
    sitting = (OnBound("noise_variance", None, None, 1.0, True), estimate)
    model.learned_ = replace(model.learned_, on_bounds=sitting)
    with pytest.raises(ValueError, match="cannot be saved"):
        nf.save(model, path)


def test_likelihoods_survive(models, path):
    for name in ("exact", "Fourier"):
        nf.save(models(name), path)
        assert nf.load(path).log_marginal_likelihood() == pytest.approx(models(name).log_marginal_likelihood())


def test_column_names_survive(path):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=["lon", "lat"])
    nf.save(local().fit(frame, y), path)
    loaded = nf.load(path)
    assert loaded.feature_names_in_.tolist() == ["lon", "lat"]
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(frame[["lat", "lon"]])


def test_what_belongs_to_the_process_is_not_stored(path):
    model = local(progress=lambda *_: None, random_state=np.random.RandomState(0)).fit(X, y)
    nf.save(model, path)
    loaded = nf.load(path)
    assert loaded.progress is None
    assert loaded.random_state is None
    assert_same(model, loaded)


def test_the_same_model_makes_the_same_file(models, tmp_path):
    for name in FEW:
        nf.save(models(name), tmp_path / "a")
        nf.save(nf.load(tmp_path / "a"), tmp_path / "b")
        assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_file_is_about_as_large_as_the_data(models, path):
    nf.save(models("local, kernel space"), path)
    assert path.stat().st_size < 2 * 8 * 400 * (2 + 1 + 1)
    nf.save(models("exact"), path)
    assert path.stat().st_size < 2 * 8 * 400 * (2 + 1 + 1)


def test_metadata_comes_back(models, path):
    metadata = {"target": "price", "columns": ["lon", "lat"], "nested": {"n": 1, "share": 0.5, "none": None}}
    nf.save(models("exact"), path, metadata)
    model, found = nf.load_with_metadata(path)
    assert found == metadata
    assert_same(model, models("exact"))
    nf.save(models("exact"), path)
    assert nf.load_with_metadata(path)[1] == {}


@pytest.mark.parametrize("metadata", [{"a": object()}, {"a": float("nan")}, {1: 2}, {"a": (1,)}, [1]])
def test_metadata_that_json_would_not_give_back_is_refused(models, path, metadata):
    with pytest.raises(ValueError, match="metadata"):
        nf.save(models("exact"), path, metadata)
    assert not path.exists()


def test_what_cannot_be_saved_says_so(path):
    with pytest.raises(ValueError, match=r"Only .* can be saved"):
        nf.save(RBFSampler(), path)
    with pytest.raises(ValueError, match="not fitted"):
        nf.save(nf.ExactGPRegressor(), path)
    foreign = nf.FeatureGPRegressor(RBFSampler(n_components=10, random_state=0)).fit(X, y)
    with pytest.raises(ValueError, match=r"RBFSampler.*feature_map.*pickle or skops"):
        nf.save(foreign, path)
    assert not path.exists()


@pytest.mark.parametrize("size", [1e-149, 1e-75, 1e-51, 1e51, 1e70, 1e140, 1e149])
@pytest.mark.parametrize("make", [nf.ExactGPRegressor, nf.LocalGPRegressor, local, nf.FeatureGPRegressor])
def test_targets_of_every_size_that_is_fitted_are_loaded(path, make, size):
    maps = [nf.TaylorFeatures(6)] if make is nf.FeatureGPRegressor else []
    fixed = {"length_scale": 3.0, "signal_variance": size**2, "noise_variance": 0.1 * size**2, "random_state": 0}
    model = make(*maps, **fixed).fit(X[:40], size * y[:40])
    nf.save(model, path)
    for again, first in zip(nf.load(path).predict(NEW, True), model.predict(NEW, True), strict=True):
        np.testing.assert_allclose(again / size, first / size, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("make", [nf.ExactGPRegressor, local])
def test_what_could_not_be_loaded_is_not_saved(path, make, monkeypatch):
    model = make(**FIXED).fit(X[:40], y[:40])
    nf.save(model, path)
    before = path.read_bytes()
    monkeypatch.setattr(model, "kernel_", replace(model.kernel_, variances=np.array([1e305])))
    with pytest.raises(ValueError, match=r"cannot be saved, since .* beyond what a model file may hold"):
        nf.save(model, path)
    assert path.read_bytes() == before


def test_a_file_that_fails_to_be_written_leaves_the_old_one(models, path, monkeypatch):
    nf.save(models("exact"), path)
    before = path.read_bytes()
    monkeypatch.setattr(container, "_CHUNK", "no number")
    with pytest.raises(TypeError):
        nf.save(models("local"), path)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


# ---- damage --------------------------------------------------------------------------------------------------------


def regions(size):
    """Places in every part of a file, and many in its beginning."""
    return sorted({*range(120), *np.linspace(120, size - 1, 150).astype(int).tolist(), *range(size - 33, size)})


def test_an_altered_byte_anywhere_is_noticed(models, path):
    nf.save(models("local, sketches"), path)
    whole = path.read_bytes()
    for place in regions(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        with pytest.raises(ValueError, match=r"altered|not a nearfield model|truncated|version") as caught:
            nf.load(path)
        assert "\n" not in str(caught.value)


def test_a_file_cut_anywhere_is_noticed(models, path):
    nf.save(models("Fourier"), path)
    whole = path.read_bytes()
    for length in regions(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match="truncated" if length else "empty"):
            nf.load(path)
    path.write_bytes(whole + b"\0")
    with pytest.raises(ValueError, match="altered"):
        nf.load(path)


def sealed(header, arrays=(), *, version=1):
    """A file with a right checksum, whatever it says."""
    text = json.dumps(header).encode()
    body = text + bytes(-(40 + len(text)) % 64) + b"".join(a.tobytes() for a in arrays)
    start = struct.pack("<16sIIQQ", container.MAGIC, version, 0, 40 + len(body) + 32, len(text))
    return start + body + hashlib.sha256(start + body).digest()


def test_a_newer_version_says_to_update(path):
    path.write_bytes(sealed({}, version=7))
    with pytest.raises(ValueError, match=r"version 7 .* up to version 1: update nearfield"):
        nf.load(path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"lon,lat\n1,2\n", "not a nearfield model"),
        (pickle.dumps([1]), "pickle"),
        (b"PK\x03\x04 and so on", "zip"),
        (container.MAGIC.replace(b"\r\n", b"\n") + bytes(60), "text mode"),
        (sealed({}), "do not fit together"),
        (sealed([]), "do not fit together"),
        (sealed({"arrays": []}), "holds no model"),
        (sealed({"arrays": [], "format": "nearfield model", "class": "os.system", "metadata": {}}), "holds no model"),
    ],
)
def test_what_is_no_model_says_so_in_one_sentence(path, content, words):
    path.write_bytes(content)
    with pytest.raises(ValueError, match=words) as caught:
        nf.load(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_does_not_exist_or_is_none(tmp_path):
    with pytest.raises(FileNotFoundError):
        nf.load(tmp_path / "no")
    with pytest.raises(OSError):
        nf.load(tmp_path)
    with pytest.raises(ValueError, match="regular file"):
        nf.load("/dev/zero")


@pytest.mark.parametrize("shape", [[2**40], [2**62, 4], [-1], [1.5], ["3"], [3, 10**30]])
def test_shapes_larger_than_the_file_are_refused_without_allocating(path, shape):
    path.write_bytes(sealed({"arrays": [{"dtype": "<f8", "shape": shape, "order": "C"}]}, [np.zeros(3)]))
    with pytest.raises(ValueError, match="do not fit together"):
        nf.load(path)


@pytest.mark.parametrize("dtype", ["|O", "<U8", "|V8", "<M8[s]", "<f16", None, 3])
def test_types_other_than_numbers_are_refused(path, dtype):
    path.write_bytes(sealed({"arrays": [{"dtype": dtype, "shape": [1], "order": "C"}]}, [np.zeros(4)]))
    with pytest.raises(ValueError, match="do not fit together"):
        nf.load(path)


def test_a_header_nested_without_end_is_refused(path):
    text = b'{"a":' + b"[" * 200_000 + b"]" * 200_000 + b"}"
    start = struct.pack("<16sIIQQ", container.MAGIC, 1, 0, 40 + len(text) + 32, len(text))
    path.write_bytes(start + text + hashlib.sha256(start + text).digest())
    with pytest.raises(ValueError, match="do not fit together"):
        nf.load(path)


def reseal(path, change):
    """Change header or arrays of a file and make its checksum right again, as someone with bad intent would."""
    content = container.read(path)
    header = {key: value for key, value in content.header.items() if key != "arrays"}
    arrays = [np.array(a, order="K") for a in content.arrays]
    change(header, arrays)
    with path.open("wb") as handle:
        container.write(handle, header, arrays)


def feature_fields(header):
    """Fields of the first local model in feature space."""
    return next(stored for stored in header["parts"]["models"] if stored)["fields"]


def hostile(where, value):
    def change(header, _):
        *outer, last = where
        for key in outer:
            header = header[key]
        header[last] = value

    return change


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("exact", hostile(["parts", "X"], {"object": "system", "fields": {}})),
        ("exact", hostile(["parts", "X"], {"object": "__import__", "fields": {"name": "os"}})),
        ("exact", hostile(["parts", "X"], {"array": 10_000})),
        ("exact", hostile(["parts", "X"], {"array": "x"})),
        ("exact", hostile(["parts", "X"], 3)),
        ("exact", hostile(["parts"], {})),
        ("exact", hostile(["state", "predict"], 3)),
        ("exact", hostile(["state", "__class__"], 3)),
        ("exact", hostile(["parameters", "nope"], 3)),
        ("exact", hostile(["parts", "coefficients"], {"array": 0})),
        ("Fourier", hostile(["state", "_width"], 10**6)),
        ("Fourier", hostile(["state", "feature_map_", "state", "transform"], 1)),
        ("Fourier", hostile(["state", "statistics_", "fields", "gram"], {"array": 0})),
        ("local", hostile(["parts", "placement", "fields", "centers"], {"array": 0})),
        ("local", hostile(["parts", "data"], None)),
        ("local", hostile(["parameters", "n_jobs"], 10**9)),
        ("local, updated", hostile(["parts", "models"], [None])),
        ("local, updated", hostile(["parts", "models"], 5)),
        ("local, updated", lambda header, _: feature_fields(header).update(n=-1)),
        ("local, updated", lambda header, _: feature_fields(header).update(targets={"array": 0})),
        ("local, updated", lambda header, _: feature_fields(header).update(precision={"array": 0})),
    ],
)
def test_a_file_made_to_mislead_is_refused_in_one_sentence(models, path, name, change):
    nf.save(models(name), path)
    reseal(path, change)
    with pytest.raises(ValueError, match="can make no model of it"):
        nf.load(path)


def test_local_models_of_earlier_files_are_read_and_go_on(path, monkeypatch):
    """They held matrices, were called `FeatureModel`, and did not tell the sums that only their likelihood needs."""
    monkeypatch.setattr("nearfield.local.features.moments_of", lambda *_: None)
    model = MODELS["local, updated"]()
    nf.save(model, path)

    def earlier(header, _):
        for stored in filter(None, header["parts"]["models"]):
            fields = {name: stored["fields"][name] for name in ("factor", "cross", "coefficients")}
            stored.update(object="FeatureModel", fields=fields)

    reseal(path, earlier)
    for _ in range(2):  # what such a model does not know is not in its own file either
        loaded = nf.load(path)
        spaces = [m for m in loaded._predictor.models if isinstance(m, FeatureSpace)]
        assert len(spaces) > 3
        assert all(np.isnan(space.log_likelihood()).all() for space in spaces)
        assert_same(model, loaded)
        nf.save(loaded, path)
    for each in (model, loaded):
        each.partial_fit(X[:30] + 0.2, y[:30])
    assert_same(model, loaded)


def test_moments_of_the_wrong_number_are_refused(models, path):
    nf.save(models("local, updated"), path)

    def shrink(header, arrays):
        first = feature_fields(header)["moments"]["array"]
        arrays[first] = arrays[first][:3]

    reseal(path, shrink)
    with pytest.raises(ValueError):
        nf.load(path).predict(X, return_std=True)


def test_a_small_file_cannot_ask_for_a_large_model(models, path, monkeypatch):
    updated = local(features="kernel").fit(X, y).partial_fit(X[:5] + 0.1, y[:5])
    enlarged = hostile(["parts", "plan", "fields", "radius"], 1e9)  # every model would hold all points
    nf.save(models("local, kernel space"), path)
    reseal(path, enlarged)
    exact = models("exact")
    monkeypatch.setattr("nearfield.common.memory.available", lambda: 10**7)
    assert nf.load(path)._predictor.models == []  # each is made when it is asked, and let go
    monkeypatch.setattr("nearfield.common.memory.available", lambda: 10**6)
    with pytest.raises(MemoryError, match="model of a single centre"):
        nf.load(path)
    nf.save(updated, path)
    reseal(path, enlarged)
    with pytest.raises(MemoryError, match="local models"):
        nf.load(path)
    nf.save(exact, path)
    loaded = nf.load(path)
    monkeypatch.setattr("nearfield.common.memory.available", lambda: 10**4)
    monkeypatch.setattr("nearfield.solvers.kernel_space.LARGE", 10)
    np.testing.assert_array_equal(loaded.predict(X[:5]), exact.predict(X[:5]))  # means need no matrix
    with pytest.raises(MemoryError, match="which variances take"):
        loaded.predict(X[:5], return_std=True)


def test_a_model_too_large_to_keep_is_loaded_as_it_was(path, monkeypatch):
    """Where models are made anew at each prediction, loading must not ask for the memory of all of them."""
    monkeypatch.setattr("nearfield.common.memory.room", lambda: 0.0)
    model = local().fit(X, y)
    assert model._predictor.models == []
    nf.save(model, path)
    monkeypatch.setattr("nearfield.common.memory.available", lambda: 10**6)
    loaded = nf.load(path)
    assert loaded._predictor.models == []
    assert_same(model, loaded)
    loaded.partial_fit(X[:5] + 0.1, y[:5])
    nf.save(loaded, path)
    assert_same(nf.load(path), loaded)


# ---- any value, any array --------------------------------------------------------------------------------------------

arrays = hnp.arrays(
    st.sampled_from([np.float64, np.float32, np.int64, np.int32, np.bool_, np.uint8]),
    hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5),
)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
values = st.recursive(
    scalars | arrays,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(), inner, max_size=3)
    ),
    max_leaves=8,
)


def assert_equal(a, b):
    assert type(a) is type(b)
    if isinstance(a, np.ndarray):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
    elif isinstance(a, list | tuple):
        assert len(a) == len(b)
        for left, right in zip(a, b, strict=True):
            assert_equal(left, right)
    elif isinstance(a, dict):
        assert list(a) == list(b)
        assert_equal(list(a.values()), list(b.values()))
    elif isinstance(a, float):
        assert struct.pack("d", a) == struct.pack("d", b) or (a != a and b != b)  # the sign of zero counts
    else:
        assert a == b


@given(value=values)
@settings(max_examples=100)
def test_every_value_comes_back_through_a_file(tmp_path_factory, value):
    path = tmp_path_factory.getbasetemp() / "value"
    found = []
    header = {"value": codec.encode(value, found)}
    with path.open("wb") as handle:
        container.write(handle, header, found)
    content = container.read(path)
    assert_equal(codec.decode(content.header["value"], content.arrays), value)


@given(array=arrays, fortran=st.booleans())
@settings(max_examples=50)
def test_the_order_of_an_array_is_kept(tmp_path_factory, array, fortran):
    array = np.asarray(array, order="F" if fortran else "C")
    path = tmp_path_factory.getbasetemp() / "array"
    with path.open("wb") as handle:
        container.write(handle, {}, [array])
    (back,) = container.read(path).arrays
    assert back.flags.f_contiguous == array.flags.f_contiguous
    assert back.flags.writeable
    np.testing.assert_array_equal(back, array)


@pytest.mark.filterwarnings("ignore:radius")
@given(
    n=st.integers(2, 40),
    d=st.integers(1, 3),
    k=st.integers(1, 2),
    degree=st.integers(1, 4),
    spacing=st.floats(0.5, 3),
    radius=st.none() | st.floats(0.5, 5),
    scale=st.floats(1e-3, 1e3),
    updated=st.booleans(),
    blend=st.booleans(),
)
@settings(max_examples=25)
def test_every_local_model_comes_back(tmp_path_factory, n, d, k, degree, spacing, radius, scale, updated, blend):
    path = tmp_path_factory.getbasetemp() / "any"
    rng = np.random.default_rng(n)
    inputs, targets = scale * rng.uniform(0, 6, (n, d)), rng.standard_normal((n, k))
    model = nf.LocalGPRegressor(
        length_scale=scale, signal_variance=1.0, noise_variance=0.1, spacing=spacing, radius=radius, blend=blend,
        features=nf.TaylorFeatures(degree), random_state=0,
    ).fit(inputs, targets)  # fmt: skip
    if updated:
        model.partial_fit(inputs[:3] + 0.1 * scale, targets[:3])
    nf.save(model, path)
    loaded = nf.load(path)
    new = scale * rng.uniform(-2, 8, (20, d))
    for a, b in zip(model.predict(new, return_std=True), loaded.predict(new, return_std=True), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)
    assert loaded.report_.n_samples == model.report_.n_samples


# ---- scikit-learn habits ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_pickle_and_deepcopy(models, name):
    model = models(name)
    assert_same(model, pickle.loads(pickle.dumps(model)))
    assert_same(model, copy.deepcopy(model))


@pytest.mark.parametrize("name", FEW)
def test_a_clone_has_the_parameters_and_fits_again(models, name):
    model = models(name)
    again = clone(model)
    assert not hasattr(again, "kernel_")
    assert_same(again.fit(X, y), clone(model).fit(X, y))


@pytest.mark.parametrize("name", [*FEW, "local, kernel space", "the paper", "Taylor"])
def test_skops(models, path, name):
    skops = pytest.importorskip("skops.io")
    model = models(name)
    skops.dump(model, path)
    types = skops.get_untrusted_types(file=path)
    assert all(t.startswith(("nearfield.", "sklearn.")) for t in types)
    assert_same(model, skops.load(path, trusted=types))


def test_inspect_tells_without_making_the_model(models, path, monkeypatch):
    model = models("local, chosen")
    nf.save(model, path, {"target": "z"})
    monkeypatch.setattr(files, "_complete", None)
    file = io.inspect(path)
    assert (file.class_name, file.library_version, file.format_version) == ("LocalGPRegressor", nf.__version__, 1)
    assert file.metadata == {"target": "z"}
    assert file.n_bytes == path.stat().st_size
    assert file.digest == hashlib.sha256(path.read_bytes()[:-32]).hexdigest()
    assert file.state()["report_"] == model.report_
    assert file.parameters()["tolerance"] == 1e-3
