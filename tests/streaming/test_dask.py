import os
import signal
import warnings
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import nearfield as nf
from nearfield.sources import SourceError, predict_to
from nearfield.streaming import sums as streaming

from ..warned import far_points, few_features

dask = pytest.importorskip("dask", reason="Dask is not installed")
da = pytest.importorskip("dask.array", reason="Dask is not installed")
dd = pytest.importorskip("dask.dataframe", reason="Dask is not installed")
distributed = pytest.importorskip("distributed", reason="Dask's distributed is not installed")

import cloudpickle

from nearfield.sources import DaskSource
from nearfield.streaming import dask as dask_source

pytestmark = far_points

PLANNED = {
    "length_scale": 1.0,
    "signal_variance": 1.0,
    "noise_variance": 0.09,
    "spacing": 1.5,
    "radius": 2.5,
    "features": nf.TaylorFeatures(7),
    "random_state": 0,
}


def make_data(n=4000, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 16, (n, 2))
    X[:, 0] = X[:, 0] ** 2 / 16
    return X, 3 + np.sin(X[:, 0]) * np.cos(X[:, 1]) + 0.3 * rng.standard_normal(n), rng.uniform(0.5, 2, n)


def places(n=1500):
    return np.random.default_rng(1).uniform(-5, 21, (n, 2))


@cache
def in_memory():
    return nf.LocalGPRegressor(**PLANNED).fit(*make_data())


def assert_close(answers, expected):
    for a, b in zip(answers, expected, strict=True):
        np.testing.assert_allclose(np.asarray(a), b, rtol=0, atol=1e-8)


@pytest.fixture(scope="module")
def cluster():
    """Two worker processes."""
    with (
        dask.config.set({"distributed.worker.daemon": True}),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", memory_limit=None
        ) as made,
        distributed.Client(made) as client,
    ):
        yield client


@pytest.fixture(params=["threads", "cluster"])
def scheduler(request):
    if request.param == "cluster":
        request.getfixturevalue("cluster")
        yield
    else:
        with dask.config.set(scheduler="threads"):
            yield


def as_arrays(X, y, w):
    # Columns in two chunks, and targets cut differently from the points.
    return da.from_array(X, chunks=(700, 1)), da.from_array(y, chunks=900), da.from_array(w, chunks=700)


def as_frames(X, y, w):
    table = pd.DataFrame(X, columns=["u", "v"]).assign(y=y, w=w)
    frame = dd.from_pandas(table, npartitions=6)
    return frame[["u", "v"]], frame["y"], frame["w"]


def as_unknown_sizes(X, y, w):
    return tuple(part.to_dask_array() for part in as_frames(X, y, w))


# ---- the same model as in memory ---------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [as_arrays, as_frames, as_unknown_sizes])
def test_dask_models_equal_those_in_memory(make, scheduler, monkeypatch):
    monkeypatch.setattr(streaming, "PART_BYTES", 1 << 19)  # sums travel in several parts
    expected = in_memory().predict(places(), return_std=True)
    X, y, w = make(*make_data())
    model = nf.LocalGPRegressor(**PLANNED).fit(DaskSource(X, y, w, sample_size=500))
    assert model.report_.n_samples == 4000
    asked = pd.DataFrame(places(), columns=["u", "v"]) if make is as_frames else places()
    assert_close(model.predict(asked, return_std=True), expected)


def test_collections_are_recognised_without_a_source(cluster):
    X, y, w = make_data()
    model = nf.LocalGPRegressor(**PLANNED).fit(da.from_array(X, chunks=(900, 2)), da.from_array(y, chunks=900), w)
    assert_close(model.predict(places(), return_std=True), in_memory().predict(places(), return_std=True))


@few_features
def test_a_global_map(cluster):
    given = {"length_scale": 1.0, "signal_variance": 1.0, "noise_variance": 0.09, "random_state": 0}
    model, whole = (nf.FeatureGPRegressor(nf.FourierFeatures(80, random_state=0), **given) for _ in range(2))
    X, y, w = make_data()
    whole.fit(X, y, w)
    model.fit(DaskSource(*as_arrays(X, y, w), sample_size=500))
    assert_close(model.predict(places(), return_std=True), whole.predict(places(), return_std=True))
    lazy = model.predict(da.from_array(places(), chunks=(400, 2)), return_std=True)
    assert_close(lazy, whole.predict(places(), return_std=True))


def test_learning_and_tuning_from_partitions():
    X, y, w = make_data()
    options = {"length_scale": 1.0, "signal_variance": 1.0, "tolerance": 3e-2, "random_state": 0}
    model = nf.LocalGPRegressor(**options).fit(DaskSource(*as_arrays(X, y, w), sample_size=1000))
    assert model.noise_variance_ == pytest.approx(0.09, rel=0.4)  # weights of about 1 scale it
    assert model.report_.tolerance_met


def test_partial_fit_takes_a_collection_in():
    X, y, w = make_data()
    half = slice(0, 2000), slice(2000, None)
    model = nf.LocalGPRegressor(**PLANNED).fit(
        DaskSource(*as_arrays(X[half[0]], y[half[0]], w[half[0]]), sample_size=500)
    )
    model.partial_fit(*as_arrays(X[half[1]], y[half[1]], w[half[1]]))
    whole = nf.LocalGPRegressor(**PLANNED).fit(X[half[0]], y[half[0]], w[half[0]])
    whole.partial_fit(X[half[1]], y[half[1]], w[half[1]])
    assert_close(model.predict(places(), return_std=True), whole.predict(places(), return_std=True))


@pytest.mark.parametrize("n_targets", [1, 2])
def test_files_of_few_columns_are_not_put_together_differently(n_targets, tmp_path):
    """Dask reads small columns of several files as one partition, but not always those of X and y alike."""
    X, y, w = make_data()
    table = pd.DataFrame(X, columns=["u", "v"]).assign(y=y, z=-y, w=w, other="words", more=1.0, still_more=2.0)
    for i, part in enumerate(np.array_split(np.arange(len(X)), 7)):
        table.iloc[part].to_parquet(tmp_path / f"{i}.parquet")
    frame = dd.read_parquet(tmp_path)
    targets = frame["y"] if n_targets == 1 else frame[["y", "z"]]
    model = nf.LocalGPRegressor(**PLANNED).fit(DaskSource(frame[["u", "v"]], targets, frame["w"], sample_size=500))
    whole = nf.LocalGPRegressor(**PLANNED).fit(X, y if n_targets == 1 else np.stack([y, -y], axis=1), w)
    expected = whole.predict(X, return_std=True)
    assert_close(model.predict(pd.DataFrame(X, columns=["u", "v"]), return_std=True), expected)
    assert_close(model.predict(frame[["u", "v"]], return_std=True), expected)


def test_targets_from_another_file(tmp_path):
    X, y, _ = make_data()
    for i, part in enumerate(np.array_split(np.arange(len(X)), 4)):
        pd.DataFrame(X[part], columns=["u", "v"]).to_parquet(tmp_path / f"X-{i}.parquet")
        pd.DataFrame({"y": y[part]}).to_parquet(tmp_path / f"y-{i}.parquet")
    points, targets = (dd.read_parquet(tmp_path / f"{name}-*.parquet") for name in ("X", "y"))
    source = DaskSource(points, targets["y"], sample_size=500)
    for part, (some, theirs, *_) in zip(np.array_split(np.arange(len(X)), 4), source.raw(), strict=True):
        np.testing.assert_array_equal(some, X[part])  # they were in any order, and targets in another
        np.testing.assert_array_equal(theirs, y[part])
    model = nf.LocalGPRegressor(**PLANNED).fit(source)
    expected = nf.LocalGPRegressor(**PLANNED).fit(X, y).predict(X, return_std=True)
    assert_close(model.predict(points, return_std=True), expected)


# ---- a lost worker -----------------------------------------------------------------------------------------------


def kill_in_third_pass(block, folder, block_info=None):
    """The block, but the worker that computes block 3 for the third time dies of it."""
    if block_info[0]["chunk-location"][0] == 3:
        seen = Path(folder) / "seen"
        with seen.open("a") as file:
            file.write(f"{os.getpid()}\n")
        if len(seen.read_text().split()) == 3:
            os.kill(os.getpid(), signal.SIGKILL)
    return block


def test_a_worker_killed_in_the_middle_costs_nothing_but_time(cluster, tmp_path):
    X, y, w = make_data()
    dX = da.from_array(X, chunks=(400, 2)).map_blocks(kill_in_third_pass, folder=str(tmp_path), dtype=float)
    source = DaskSource(dX, da.from_array(y, chunks=400), da.from_array(w, chunks=400), sample_size=500)
    model = nf.LocalGPRegressor(**PLANNED).fit(source)
    pids = (tmp_path / "seen").read_text().split()
    assert len(pids) >= 4  # sample, centres, sums, and the sums again
    assert_close(model.predict(places(), return_std=True), in_memory().predict(places(), return_std=True))


# ---- predictions -------------------------------------------------------------------------------------------------


def test_predictions_are_lazy_and_keep_their_partitions(scheduler):
    model, test = in_memory(), places()
    expected = model.predict(test, return_std=True)
    mean, std = model.predict(da.from_array(test, chunks=((500, 0, 1000), 2)), return_std=True)
    assert isinstance(mean, da.Array)
    assert mean.chunks == std.chunks == ((500, 1000),)
    assert_close(dask.compute(mean, std), expected)
    assert_close([model.predict(da.from_array(test, chunks=(500, 1)))], expected[:1])


def test_large_models_are_sent_by_themselves(cluster, monkeypatch):
    """Not in the graph, of which Dask would warn; a worker that is lost afterwards does not take them along."""
    cluster.wait_for_workers(2)  # another test may have killed one, and models are sent to those that are there
    model, test = in_memory(), da.from_array(places(), chunks=(300, 2))
    in_graph = model.predict(test)
    monkeypatch.setattr(dask_source, "LARGE", 0)
    mean, std = model.predict(test, return_std=True)
    sizes = [len(cloudpickle.dumps(dict(lazy.__dask_graph__()))) for lazy in (in_graph, mean)]
    assert sizes[1] < 0.1 * sizes[0]
    with dask.config.set(scheduler="threads"):  # while there is a cluster, too
        assert_close([model.predict(test)], [in_graph.compute()])
    lost, *_ = cluster.run(os.getpid).values()
    os.kill(lost, signal.SIGKILL)
    assert_close(dask.compute(mean, std), model.predict(places(), return_std=True))
    cluster.wait_for_workers(2)


def test_predictions_for_a_data_frame(tmp_path):
    test = places()
    X, y, w = as_frames(*make_data())
    model = nf.LocalGPRegressor(**PLANNED).fit(X, y, w)
    assert list(model.feature_names_in_) == ["u", "v"]
    frame = dd.from_pandas(pd.DataFrame(test, columns=["u", "v"]), npartitions=4)
    expected = in_memory().predict(test, return_std=True)
    assert_close(model.predict(frame, return_std=True), expected)
    predict_to(model, frame, tmp_path / "out.parquet")
    written = pd.read_parquet(tmp_path / "out.parquet")
    assert_close([written["mean"], written["std"]], expected)
    with pytest.raises(SourceError, match="columns v, u, but the model was fitted with u, v"):
        model.predict(frame[["v", "u"]])


def test_targets_as_a_list():
    X, y, _ = make_data(600)
    model = nf.LocalGPRegressor(**PLANNED).fit(da.from_array(X, chunks=(250, 2)), y.tolist())
    expected = nf.LocalGPRegressor(**PLANNED).fit(X, y)
    assert_close([model.predict(places(100))], [expected.predict(places(100))])


def test_several_targets():
    X, y, _ = make_data()
    Y = np.stack([y, -y], axis=1)
    model = nf.LocalGPRegressor(**PLANNED)
    model.fit(DaskSource(da.from_array(X, chunks=(900, 2)), da.from_array(Y, chunks=(900, 1)), sample_size=500))
    expected = nf.LocalGPRegressor(**PLANNED).fit(X, Y).predict(places(), return_std=True)
    lazy = model.predict(da.from_array(places(), chunks=(900, 2)), return_std=True)
    assert lazy[0].shape == (1500, 2)
    assert_close(lazy, expected)


# ---- bad input ---------------------------------------------------------------------------------------------------


def test_empty_partitions_do_no_harm():
    X, y, w = make_data()
    chunks = (0, 1000, 0, 0, 2999, 1, 0)
    parts = [da.from_array(part, chunks=(chunks, *part.shape[1:])) for part in (X, y, w)]
    model = nf.LocalGPRegressor(**PLANNED).fit(DaskSource(*parts, sample_size=500))
    assert_close(model.predict(places(), return_std=True), in_memory().predict(places(), return_std=True))


def test_a_bad_partition_is_named(scheduler):
    X, y, w = make_data()
    X[1500, 1] = np.nan
    model = nf.LocalGPRegressor(**PLANNED)
    with pytest.raises(SourceError, match="Partition 2: column 1 of X has a NaN or infinity in row 100"):
        model.fit(*as_arrays(X, y, w))
    assert not hasattr(model, "kernel_")
    with pytest.raises(SourceError, match="Partition 2: column 1 of X has a NaN"):
        in_memory().predict(da.from_array(X, chunks=(700, 2))).compute()


def test_words_in_a_data_frame_are_named():
    frame = dd.from_pandas(pd.DataFrame({"u": [1.0, 2.0], "v": ["a", "b"], "y": [1.0, 2.0]}), npartitions=1)
    with pytest.raises(SourceError, match=r"Partition 0: X must hold numbers only \(column 'v'"):
        nf.LocalGPRegressor(**PLANNED).fit(frame[["u", "v"]], frame["y"])


def test_parts_that_do_not_match_are_refused():
    X, y, w = make_data()
    dX, dy, _ = as_arrays(X, y, w)
    with pytest.raises(ValueError, match="'y' argument has 3999 rows, but X has 4000"):
        nf.LocalGPRegressor(**PLANNED).fit(dX, dy[:-1])
    frame, series, _ = as_frames(X, y, w)
    with pytest.raises(ValueError, match="'y' argument has 3 partitions, but X has 6"):
        nf.LocalGPRegressor(**PLANNED).fit(frame, series.repartition(npartitions=3).to_dask_array())
    with pytest.raises(ValueError, match="'y' argument must be a Dask collection"):
        nf.LocalGPRegressor(**PLANNED).fit(frame, y)
    with pytest.raises(ValueError, match="'y' argument must be given with a Dask collection"):
        nf.LocalGPRegressor(**PLANNED).fit(dX)
    with pytest.raises(ValueError, match="'X' argument must have two dimensions"):
        nf.LocalGPRegressor(**PLANNED).fit(dy, dy)


def test_dask_is_imported_only_when_it_is_there(tmp_path):
    import subprocess
    import sys

    code = "import sys, nearfield, nearfield.sources; print(sorted({'dask', 'distributed'} & set(sys.modules)))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


@pytest.mark.parametrize("regressor", ["local", "features"])
def test_each_of_several_targets_has_variances_of_its_own(regressor):
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 16, (1200, 2))
    f = np.sin(X[:, 0]) * np.cos(X[:, 1])
    Y = np.column_stack([1000 * (f + 0.5 * rng.standard_normal(len(X))), f + 0.1 * rng.standard_normal(len(X))])
    given = {"length_scale": 1.4, "random_state": 0}
    model = nf.LocalGPRegressor(**given, noise="constant", likelihood="gaussian", tolerance=0.1)
    if regressor == "features":
        model = nf.FeatureGPRegressor(nf.FourierFeatures(80, random_state=0), **given)
    points, targets = da.from_array(X, chunks=(400, 2)), da.from_array(Y, chunks=(400, 2))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The model is .* from the exact Gaussian process")
        expected = model.fit(X, Y).predict(X[:50], return_std=True, include_noise=True)
        model.fit(points, targets)
    answer = model.predict(da.from_array(X[:50], chunks=(20, 2)), return_std=True, include_noise=True)
    for found, known in zip(answer, expected, strict=True):
        assert found.shape == (50, 2)
        np.testing.assert_allclose(np.asarray(found) / [1000, 1], known / [1000, 1], atol=1e-3)
    np.testing.assert_allclose(model.noise_variance_, [250_000, 0.01], rtol=0.3)
