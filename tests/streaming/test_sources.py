import errno
import gzip
import sys

import numpy as np
import pytest

import nearfield as nf
from nearfield.sources import (
    ArraySource,
    BatchSource,
    CSVSource,
    ParquetSource,
    Source,
    SourceError,
    predict_batches,
    predict_to,
)
from nearfield.streaming import output

pa = pytest.importorskip("pyarrow", reason="files need pyarrow")
pa_csv = pytest.importorskip("pyarrow.csv")
pq = pytest.importorskip("pyarrow.parquet", reason="files need pyarrow")


def make_data(n=1000, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 5, (n, 2))
    return X, np.sin(X[:, 0]) + X[:, 1], rng.uniform(0.5, 2.0, n)


def table(X, y, w, **other):
    return pa.table({"u": X[:, 0], "v": X[:, 1], "y": y, "w": w, **other})


@pytest.fixture
def folder(tmp_path):
    """Three Parquet files of 1000 rows together, the second empty, with another file beside them."""
    X, y, w = make_data()
    place = tmp_path / "data"
    place.mkdir()
    for name, rows in (("a", slice(0, 400)), ("b", slice(0, 0)), ("c", slice(400, 1000))):
        pq.write_table(table(X[rows], y[rows], w[rows]), place / f"part-{name}.parquet", row_group_size=128)
    (place / "_SUCCESS").write_text("")
    (place / ".part-z.parquet").write_text("being written")
    return place


def read(source, with_y=True):
    batches = list(source.batches(with_y=with_y))
    X = np.concatenate([b.X for b in batches])
    if not with_y:
        return X
    return X, np.concatenate([b.targets for b in batches]), [b.weights for b in batches]


def small_model():
    X, y, _ = make_data(200)
    return nf.LocalGPRegressor(length_scale=1.0, signal_variance=1.0, noise_variance=0.1).fit(X, y)


# ---- what sources give -------------------------------------------------------------------------------------------


def csv_file(folder, path):
    path.write_text("u,y,v,w\n" + "\n".join(f"{a!r},{t!r},{b!r},{s!r}" for (a, b), t, s in zip(*lists(), strict=True)))
    return path


def lists():
    return [part.tolist() for part in make_data()]


def as_csv(folder, tmp_path):
    return CSVSource(csv_file(folder, tmp_path / "t.csv"), target="y", features=["u", "v"], sample_weight="w")


def as_zipped_csv(folder, tmp_path):
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(csv_file(folder, tmp_path / "t.csv").read_bytes()))
    return CSVSource(path, target="y", sample_weight="w")


def as_parquet(folder, tmp_path):
    return ParquetSource(folder, target="y", sample_weight="w", batch_size=100)


def as_memory_map(folder, tmp_path):
    X, y, w = make_data()
    mapped = np.memmap(tmp_path / "X.bin", dtype=np.float64, mode="w+", shape=X.shape)
    mapped[:] = X
    return ArraySource(mapped, y, w, batch_size=300)


def as_batches(folder, tmp_path):
    X, y, w = make_data()
    pieces = [slice(0, 10), slice(10, 10), slice(10, 900), slice(900, 1000)]
    return BatchSource(lambda: ((X[p], y[p], w[p]) for p in pieces))


EVERY = [as_parquet, as_csv, as_zipped_csv, as_memory_map, as_batches]


@pytest.mark.parametrize("make", EVERY)
def test_every_source_gives_all_rows_in_order_as_often_as_asked(make, folder, tmp_path):
    source = make(folder, tmp_path)
    for _ in range(2):
        X, y, w = read(source)
        np.testing.assert_array_equal(X, make_data()[0])
        np.testing.assert_array_equal(y[:, 0], make_data()[1])
        np.testing.assert_array_equal(np.concatenate(w), make_data()[2])
    np.testing.assert_array_equal(read(source, with_y=False), make_data()[0])
    assert source.single_target
    assert source.n_rows in (None, 1000)


def test_rows_have_numbers_of_their_own(folder):
    ids = np.concatenate([b.ids for b in ParquetSource(folder, target="y", batch_size=64).batches()])
    np.testing.assert_array_equal(ids, np.arange(1000))


def test_rows_of_weight_zero_are_left_out():
    X, y, w = make_data(100)
    w[::3] = 0
    [batch] = ArraySource(X, y, w).batches()
    np.testing.assert_array_equal(batch.ids, np.flatnonzero(w))
    # A source to predict from keeps them all.
    assert len(read(ArraySource(X, y, w), with_y=False)) == 100


def test_arrays_are_sliced_and_not_copied_whole():
    class Sliced:
        shape, largest = (1000, 2), 0

        def __len__(self):
            return 1000

        def __getitem__(self, rows):
            self.largest = max(self.largest, rows.stop - rows.start)
            return make_data()[0][rows]

        def __array__(self, *args, **kwargs):
            raise AssertionError("copied whole")

    X = Sliced()
    np.testing.assert_array_equal(read(ArraySource(X, batch_size=70), with_y=False), make_data()[0])
    assert X.largest == 70


def test_columns_are_taken_by_name_and_integers_are_numbers(tmp_path):
    pq.write_table(pa.table({"y": [1.0, 2.0], "b": [3, 4], "a": pa.array([5, 6], pa.int8())}), tmp_path / "t.parquet")
    assert ParquetSource(tmp_path / "t.parquet", target="y").names == ("b", "a")
    source = ParquetSource(tmp_path / "t.parquet", target=["y", "b"], features=["a"])
    X, y, _ = read(source)
    assert not source.single_target
    np.testing.assert_array_equal(X, [[5], [6]])
    np.testing.assert_array_equal(y, [[1, 3], [2, 4]])


def test_a_source_of_ones_own_needs_little():
    class Stripes(Source):
        names, n_rows = ("x",), 20

        def raw(self):
            for i in range(2):
                yield np.arange(10.0)[:, None] + 10 * i, np.arange(10.0), None, f"stripe {i}"

    model = nf.LocalGPRegressor(length_scale=3.0, signal_variance=1.0, noise_variance=0.1, random_state=0)
    model.fit(Stripes())
    assert list(model.feature_names_in_) == ["x"]
    assert model.predict(Stripes()).shape == (20,)


# ---- bad input ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: t.drop_columns("v"), r"part-bad.parquet: there is no column 'v'; its columns are 'u', 'y', 'w'"),
        (
            lambda t: t.set_column(0, "u", pa.array(["x"] * 5)),
            r"part-bad.parquet: column 'u' has 'x' in row 1, where a number must be",
        ),
        (
            lambda t: t.set_column(2, "y", pa.array([1.0, 2.0, None, 3.0, 4.0])),
            r"part-bad.parquet: column 'y' has no value in row 3",
        ),
        (
            lambda t: t.set_column(1, "v", pa.array([1.0, np.nan, 2.0, 3.0, 4.0])),
            r"part-bad.parquet: column 'v' has no value in row 2",
        ),
        (
            lambda t: t.set_column(1, "v", pa.array([1.0, np.inf, 2.0, 3.0, 4.0])),
            r"part-bad.parquet: column 'v' has 'inf' in row 2, which is infinite",
        ),
        (
            lambda t: t.set_column(3, "w", pa.array([1.0, -1.0, 2.0, 3.0, 4.0])),
            r"part-bad.parquet, from row 1 on: sample weights must be",
        ),
    ],
)
def test_a_bad_file_among_good_ones_is_named(folder, change, words):
    pq.write_table(change(table(*make_data(5))), folder / "part-bad.parquet")
    with pytest.raises(SourceError, match=words):
        read(ParquetSource(folder, target="y", features=["u", "v"], sample_weight="w"))


@pytest.mark.parametrize("options", [{"target": "y"}, {"target": ["v", "y"]}, {"target": "v", "sample_weight": "y"}])
def test_a_column_is_not_both_input_and_target_or_weight(folder, tmp_path, options):
    role = "sample weight" if "sample_weight" in options else "target"
    for source, path in ((ParquetSource, folder), (CSVSource, csv_file(folder, tmp_path / "t.csv"))):
        with pytest.raises(ValueError, match=f"'features' argument must not name the column 'y', which is the {role}"):
            source(path, features=["u", "y"], **options)


def test_a_file_cut_short_is_named(folder):
    whole = (folder / "part-c.parquet").read_bytes()
    (folder / "part-c.parquet").write_bytes(whole[:-100])
    with pytest.raises(SourceError, match=r"part-c.parquet is a damaged or truncated Parquet file"):
        ParquetSource(folder, target="y")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("u,y\n1,2\n3,x\n", r"t.csv: column 'y' has 'x' in row 2, where a number must be"),
        ("u,y\n1,2\n3,\n", r"t.csv: column 'y' has no value in row 2; drop or fill such rows"),
        ("u,y\n1,2\n3,N/A\n", r"t.csv: column 'y' has no value in row 2"),
        ("u,z\n1,2\n", r"t.csv: there is no column 'y'"),
        ("u,y\n1,2\n3\n", r"t.csv: row 2 has 1 field and the header has 2"),
        ("", r"t.csv is empty"),
    ],
)
@pytest.mark.parametrize("installed", [True, False])
def test_a_bad_csv_is_named(tmp_path, text, words, installed, monkeypatch):
    if not installed:
        monkeypatch.setitem(sys.modules, "pyarrow.csv", None)
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(SourceError, match=words):
        read(CSVSource(tmp_path / "t.csv", target="y", features=["u"]))


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("u;y\n1;2.5\n-3;1e-3\n", "utf-8"),
        ("u\ty\n1\t2.5\n-3\t1e-3\n", "utf-16"),
        ('"u", "y"\n"1", "2.5"\n"-3", " 1e-3"\n\n', "utf-8-sig"),
        ("u,y,ö\n1,2.5,é\n-3,1e-3,ü\n", "latin-1"),
        ("u:y\n1:2.5\n-3:1e-3\n", "utf-8"),
    ],
)
def test_csv_is_read_by_the_rules_of_the_command_line(tmp_path, text, encoding):
    (tmp_path / "t.csv").write_bytes(text.encode(encoding))
    options = {"encoding": "latin-1"} if encoding == "latin-1" else {"delimiter": ":"} if ":" in text else {}
    X, y, _ = read(CSVSource(tmp_path / "t.csv", target="y", features=["u"], **options))
    np.testing.assert_array_equal(np.hstack([X, y]), [[1, 2.5], [-3, 1e-3]])


def test_csv_in_an_encoding_that_was_not_named(tmp_path):
    (tmp_path / "t.csv").write_bytes("ö,y\n1,2\n".encode("latin-1"))
    with pytest.raises(SourceError, match=r"t.csv is not text in UTF-8: .* with encoding=, for example latin-1"):
        CSVSource(tmp_path / "t.csv", target="y")
    with pytest.raises(ValueError, match="'delimiter' argument must be one character, or None"):
        CSVSource(tmp_path / "t.csv", target="y", delimiter=", ")


def test_csv_and_parquet_have_one_idea_of_a_number(tmp_path):
    (tmp_path / "t.csv").write_text("u,v,y\n1,2.5,1\n0,+3,2\n")
    columns = {"u": [True, False], "v": ["2.5", "+3"], "y": pa.array([1, 2], pa.int8())}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    for source in (CSVSource(tmp_path / "t.csv", target="y"), ParquetSource(tmp_path / "t.parquet", target="y")):
        X, y, _ = read(source)
        np.testing.assert_array_equal(np.hstack([X, y]), [[1, 2.5, 1], [0, 3, 2]])


def test_paths_that_hold_nothing(tmp_path):
    with pytest.raises(SourceError, match=r"has no file that ends in \.parquet or \.pq"):
        ParquetSource(tmp_path)
    with pytest.raises(SourceError, match=r"nowhere\.parquet: there is no such file"):
        ParquetSource(tmp_path / "nowhere.parquet")
    with pytest.raises(SourceError, match="the list of paths is empty"):
        ParquetSource([])


def test_an_iterator_is_refused_with_the_reason():
    with pytest.raises(TypeError, match=r"function that returns a fresh iterator.*several passes"):
        BatchSource(iter([]))


def test_a_batch_that_fails_is_named():
    X, y, _ = make_data(30)

    def start():
        yield X[:10], y[:10]
        yield X[10:20], y[10:20]
        raise RuntimeError("the line is dead")

    with pytest.raises(
        SourceError, match=r"Batch 2 \(from row 20 on\) could not be read: RuntimeError: the line is dead"
    ):
        read(BatchSource(start))


@pytest.mark.parametrize(
    ("second", "words"),
    [
        ((np.ones((3, 3)), np.ones(3)), r"Batch 1 \(from row 10 on\): X has 3 columns, but 2 are expected"),
        ((np.ones((3, 2)), np.ones((3, 2))), r"Batch 1 .*: y has 2 columns, but 1 are expected"),
        ((np.ones((3, 2)), np.ones(4)), r"Batch 1 .*: y has shape \(4,\), but X has 3 rows"),
        ((np.ones((3, 2)),), r"Batch 1 .*: there are no targets"),
        ((np.ones(3), np.ones(3)), r"Batch 1 .*: X must have two dimensions"),
        ((np.full((3, 2), "x"), np.ones(3)), r"Batch 1 .*: X must hold numbers only"),
        ((1, 2, 3, 4), r"Batch 1 .* must be X, \(X, y\) or \(X, y, sample_weight\)\. Got 4 parts"),
    ],
)
def test_batches_that_do_not_match(second, words):
    X, y, _ = make_data(10)
    with pytest.raises(SourceError, match=words):
        read(BatchSource(lambda: iter([(X, y), second])))


def test_parameters_are_checked():
    X, y, _ = make_data(10)
    with pytest.raises(ValueError, match="'batch_size' argument must be an integer of at least 1"):
        ArraySource(X, y, batch_size=0)
    with pytest.raises(ValueError, match="'sample_size' argument must be an integer of at least 2"):
        ArraySource(X, y, sample_size=1)
    with pytest.raises(ValueError, match="'y' argument has 9 rows, but X has 10"):
        ArraySource(X, y[:9])
    with pytest.raises(ValueError, match="'X' argument must be an array of two dimensions"):
        ArraySource("data.parquet")


# ---- predictions -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", EVERY)
def test_predictions_keep_the_order_of_rows(make, folder, tmp_path):
    model, X = small_model(), make_data()[0]
    mean, std = model.predict(make(folder, tmp_path), return_std=True)
    expected, expected_std = model.predict(X, return_std=True)
    np.testing.assert_allclose(mean, expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(std, expected_std, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["out.parquet", "out.csv"])
@pytest.mark.parametrize("n_targets", [1, 2])
def test_predictions_to_a_file(name, n_targets, folder, tmp_path):
    X, y, _ = make_data()
    y = y if n_targets == 1 else np.stack([y, -y], axis=1)
    model = nf.LocalGPRegressor(length_scale=1.0, signal_variance=1.0, noise_variance=0.1).fit(X[:200], y[:200])
    assert predict_to(model, ArraySource(X, batch_size=77), tmp_path / name, include_noise=True) == 1000
    written = (pa_csv.read_csv if name.endswith("csv") else pq.read_table)(tmp_path / name)
    mean, std = model.predict(X, return_std=True, include_noise=True)
    names = ["mean", "std"] if n_targets == 1 else ["mean_0", "mean_1", "std_0", "std_1"]
    assert written.column_names == names
    both = np.concatenate([mean.reshape(1000, -1), std.reshape(1000, -1)], axis=1)
    np.testing.assert_allclose(np.stack([np.asarray(c) for c in written.columns], axis=1), both, rtol=1e-12)


def test_predictions_come_one_batch_at_a_time():
    X, _, _ = make_data()
    sizes = [len(mean) for mean, std in predict_batches(small_model(), ArraySource(X, batch_size=300))]
    assert sizes == [300, 300, 300, 100]


def test_no_rows_no_predictions(tmp_path):
    mean, std = small_model().predict(BatchSource(lambda: iter([])), return_std=True)
    assert mean.shape == std.shape == (0,)
    assert predict_to(small_model(), BatchSource(lambda: iter([])), tmp_path / "none.parquet") == 0
    assert pq.read_table(tmp_path / "none.parquet").column_names == ["mean", "std"]


class Interrupted(Source):
    """Rows that end with an exception after the first batch."""

    def __init__(self, error):
        super().__init__()
        self.error = error

    def raw(self):
        X, y, _ = make_data()
        yield X, y, None, "first"
        raise self.error


@pytest.mark.parametrize("name", ["out.parquet", "out.csv"])
@pytest.mark.parametrize("error", [KeyboardInterrupt(), SourceError("broken")])
@pytest.mark.parametrize("before", [None, b"from before"])
def test_what_ends_early_leaves_no_file(name, error, before, tmp_path):
    if before is not None:
        (tmp_path / name).write_bytes(before)
    with pytest.raises(type(error)):
        predict_to(small_model(), Interrupted(error), tmp_path / name)
    assert [p.name for p in tmp_path.iterdir()] == ([] if before is None else [name])
    if before is not None:
        assert (tmp_path / name).read_bytes() == before


def test_a_full_disk_is_named_and_leaves_no_file(tmp_path, monkeypatch):
    def full(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(output, "_predictions", full)
    with pytest.raises(OSError, match=r"No space left.*out\.parquet") as caught:
        predict_to(small_model(), ArraySource(make_data()[0]), tmp_path / "out.parquet")
    assert caught.value.errno == errno.ENOSPC
    assert list(tmp_path.iterdir()) == []


def test_a_device_that_is_full_in_earnest(tmp_path):
    full = tmp_path / "out.csv"
    try:
        full.symlink_to("/dev/full")
        full.open("w").close()
    except OSError:
        pytest.skip("there is no /dev/full here")
    with pytest.raises(OSError, match="No space left"):
        predict_to(small_model(), ArraySource(make_data()[0]), full)


def test_bad_targets_of_predictions(tmp_path):
    model, source = small_model(), ArraySource(make_data()[0])
    with pytest.raises(ValueError, match=r"must end in \.parquet, \.pq or \.csv"):
        predict_to(model, source, tmp_path / "out.xlsx")
    with pytest.raises(OSError, match="nowhere"):
        predict_to(model, source, tmp_path / "nowhere" / "out.parquet")
    with pytest.raises(TypeError, match="must be a source"):
        predict_to(model, make_data()[0], tmp_path / "out.parquet")


def test_other_columns_than_those_fitted_are_refused(folder):
    model = nf.LocalGPRegressor(length_scale=1.0, signal_variance=1.0, noise_variance=0.1, random_state=0)
    model.fit(ParquetSource(folder, target="y", features=["u", "v"]))
    with pytest.raises(SourceError, match=r"has the columns v, u, but the model was fitted with u, v"):
        model.predict(ParquetSource(folder, features=["v", "u"]))
    with pytest.raises(SourceError, match="X has 1 columns, but 2 are expected"):
        model.predict(ArraySource(np.ones((3, 1))))


@pytest.mark.parametrize("method", ["fit", "predict", "partial_fit"])
def test_a_path_is_not_guessed_at(method, tmp_path):
    for path in ("data.parquet", tmp_path):
        with pytest.raises(TypeError, match=r"'X' argument is the path .* ParquetSource and CSVSource"):
            getattr(small_model(), method)(path)


def test_targets_beside_a_source_are_refused():
    X, y, _ = make_data(10)
    with pytest.raises(ValueError, match="'y' argument must be None where X is a source"):
        nf.LocalGPRegressor().fit(ArraySource(X, y), y)


def test_a_source_that_does_not_exist_is_named():
    from nearfield import sources

    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        _ = sources.nothing_of_the_kind


def test_dask_sources_say_what_to_install(monkeypatch):
    from nearfield import sources

    monkeypatch.setitem(sys.modules, "nearfield.streaming.dask", None)
    with pytest.raises(ImportError, match=r"pip install 'nearfield\[dask\]'"):
        _ = sources.DaskSource
