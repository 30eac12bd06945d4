"""What altered files once brought about: one test for each defect that fuzzing found."""

import copy
import gzip
import signal
import sys
import warnings
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("typer")
pa = pytest.importorskip("pyarrow")
sys.path.insert(0, str(Path(__file__).parents[2]))

import pyarrow.parquet as pq
from fuzz.models import Parts

import nearfield as nf
from fuzz import models
from nearfield import io, sources
from nearfield.cli import main
from nearfield.cli.training import read_training
from nearfield.common import memory
from nearfield.persistence import checks, codec, container
from nearfield.reporting.page import learnt
from nearfield.solvers.kernel_space import KernelSpace
from nearfield.streaming.tables import open_table, write_table


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Every model in a file, taken apart."""
    folder = tmp_path_factory.mktemp("models")
    models.TARGET.prepare(folder)
    return {path.stem: Parts.of(path.read_bytes()) for path in folder.glob("*.nf")}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.nf"


def put(parts, where, value):
    """A copy of a file's parts with a value in some place."""
    parts = copy.deepcopy(parts)
    node = parts.header
    for key in where[:-1]:
        node = node[key]
    node[where[-1]] = value
    return parts


def refused(path, data, words="can make no model of it"):
    path.write_bytes(data)
    with pytest.raises(ValueError, match=words) as caught:
        nf.load(path)
    assert path.name in str(caught.value)
    assert "\n" not in str(caught.value)


REPORT = ["state", "report_", "fields"]
STATISTICS = ["state", "statistics_", "fields"]
MAP = ["state", "feature_map_", "state"]
PLAN = ["parts", "plan", "fields"]
KERNEL = ["state", "kernel_", "fields"]

MISLEADING = {
    "a report of nonsense: samples": ("chosen", [*REPORT, "n_samples"], "many"),
    "a report of nonsense: seconds": ("chosen", [*REPORT, "seconds"], {"dict": {"fitting": "long"}}),
    "a report of nonsense: seconds as a list": ("chosen", [*REPORT, "seconds"], [1.0]),
    "a report of nonsense: hyperparameters": ("chosen", [*REPORT, "hyperparameters"], [1]),
    "a report of nonsense: a number without end": ("chosen", [*REPORT, "model_bytes"], 10**400),
    "a report of nonsense: degrees": ("chosen", [*REPORT, "degrees"], 3),
    "a report of nonsense: distance": ("chosen", [*REPORT, "divergence"], "small"),
    "a report of nonsense: measured without tolerance": ("chosen", [*REPORT, "tolerance"], None),
    "a report of nonsense: shares of one scale": ("chosen", [*REPORT, "variance_shares"], {"tuple": [0.5, 0.5]}),
    "a report of nonsense: trials": ("chosen", [*REPORT, "trials"], {"tuple": [{"tuple": ["a", "b", "c"]}]}),
    "a report of nonsense: scores": ("chosen", [*REPORT, "left_out"], {"dict": {"rmse": 1.0}}),
    "a rotation that is none": ("rotated", ["state", "_rotation"], 30.0),
    "a rotation on the sphere": ("sphere", ["state", "_rotation"], {"array": 0}),
    "a report that is none": ("chosen", ["state", "report_"], "good"),
    "a kernel that is none": ("exact", ["state", "kernel_"], None),
    "a kernel without scales": ("exact", [*KERNEL, "length_scales"], [1.0]),
    "a noise that is a word": ("exact", ["state", "noise_variance_"], "low"),
    "a noise below zero": ("exact", ["state", "noise_variance_"], -1.0),
    "a noise that is no number": ("exact", ["state", "noise_variance_"], {"float": "nan"}),
    "means of another number": ("exact", ["state", "y_mean_"], 3.0),
    "a truth value that is a list": ("exact", ["state", "_single_target"], []),
    "names of other columns": ("exact", ["state", "feature_names_in_"], {"names": ["a"]}),
    "learning that is none": ("exact", ["state", "learned_"], "much"),
    "features of another number": ("Fourier", [*MAP, "map_", "fields", "n_components"], 10**9),
    "features of no number": ("Fourier", [*MAP, "map_", "fields", "n_components"], 0),
    "a phase that is a list": ("odd", [*MAP, "map_", "fields", "phase"], [0]),
    "structured features of another number": ("odd", [*MAP, "map_", "fields", "n_components"], 500),
    "a map of other columns": ("Fourier", [*MAP, "n_features_in_"], 7),
    "a map that is none": ("Fourier", ["state", "feature_map_"], {"tuple": []}),
    "a map that is not given": ("Fourier", ["parameters", "feature_map"], None),
    "an amplitude that is a word": ("Fourier", [*MAP, "_amplitude"], "loud"),
    "a radius that is a word": ("local", [*PLAN, "radius"], "auto"),
    "a radius below zero": ("local", [*PLAN, "radius"], -1.0),
    "features for another kernel": ("local", [*PLAN, "features", "fields", "maps"], {"tuple": []}),
    "a lattice without cells": ("local", ["parts", "placement", "fields", "lattice", "fields", "side"], 0.0),
    "centres that open in words": ("local", ["parts", "open_centers"], "perhaps"),
    "a mixture in words": ("blend", ["parameters", "blend"], "yes"),
    "threads in words": ("exact", ["parameters", "n_jobs"], "all"),
    "no threads": ("local", ["parameters", "n_jobs"], 0),
    "parameters in parameters": ("exact", ["parameters", "length_scale"], [[[[[[1.0]]]]]]),
    "parameters without end": ("exact", ["parameters", "random_state"], 10**400),
    "models of no features": ("kernel", ["parts", "models"], [{"object": "FeatureModel", "fields": {}}]),
}


@pytest.mark.parametrize("name", MISLEADING)
def test_values_that_do_not_fit_are_refused_on_loading(saved, path, name):
    model, where, value = MISLEADING[name]
    refused(path, put(saved[model], where, value).sealed())


@pytest.mark.parametrize(
    "name", ["length_scale_", "signal_variance_", "y_mean_", "_single_target", "n_features_in_", "report_", "_unit"]
)
def test_what_a_model_needs_must_be_there(saved, path, name):
    parts = copy.deepcopy(saved["local"])
    del parts.header["state"][name]
    refused(path, parts.sealed())


def with_array(parts, where, change):
    """The parts with one array changed, its shape and order too."""
    parts = copy.deepcopy(parts)
    node = parts.header
    for key in where:
        node = node[key]
    i = node["array"]
    entry = parts.header["arrays"][i]
    array = change(np.frombuffer(parts.arrays[i], entry["dtype"]).reshape(entry["shape"], order=entry["order"]).copy())
    parts.header["arrays"][i] = {**entry, "shape": list(array.shape), "dtype": array.dtype.str}
    parts.arrays[i] = array.tobytes(order=entry["order"])
    return parts


def setting(place, value):
    def change(array):
        array[place] = value
        return array

    return change


ARRAYS = {
    "points that are no numbers": ("local", ["parts", "data", "fields", "X"], setting((0, 0), np.nan)),
    "noise below zero": ("local", ["parts", "data", "fields", "noise"], setting(0, -1.0)),
    "noise of fewer points": ("local", ["parts", "data", "fields", "noise"], lambda a: a[:-1]),
    "targets that are infinite": ("local", ["parts", "data", "fields", "y"], setting((0, 0), np.inf)),
    "numbers of another type": ("exact", ["parts", "X"], lambda a: a.astype(np.float32)),
    "a length scale of nothing": ("exact", [*KERNEL, "length_scales"], lambda a: 0 * a),
    "length scales too far apart": ("targets", [*KERNEL, "length_scales"], setting((0, 0), 1e-100)),
    "a variance below zero": ("exact", [*KERNEL, "variances"], lambda a: -a),
    "reaches of fewer centres": ("nearest", ["parts", "placement", "fields", "reach"], lambda a: a[:-1]),
    "points too far for their distances": ("local", ["parts", "data", "fields", "X"], setting((0, 0), 1e200)),
    "centres too far for their distances": (
        "blend",
        ["parts", "placement", "fields", "centers"],
        setting((0, 0), 1e200),
    ),
    "an array without a dimension": ("targets", ["state", "length_scale_"], lambda a: a[:1].reshape(())),
    "a unit of nothing": ("local", ["state", "_unit"], lambda a: 0 * a),
    "sums without weight": ("Fourier", [*STATISTICS, "targets"], setting((-1, -1), 0.0)),
    "sums of another number of targets": ("Fourier", [*STATISTICS, "targets"], lambda a: a[:1, :1]),
    "monomials without a constant, of a degree that takes for ever": (
        "Taylor",
        [*MAP, "map_", "fields", "exponents"],
        setting(0, 10**12),
    ),
    "picks beyond the end": (
        "Maclaurin",
        [*MAP, "map_", "fields", "sketches", "tuple", 0, "tuple", 1, "fields", "picks"],
        setting((0, 0), 10**6),
    ),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_that_do_not_fit_are_refused_on_loading(saved, path, name):
    model, where, change = ARRAYS[name]
    refused(path, with_array(saved[model], where, change).sealed())


@pytest.mark.parametrize(
    "found",
    [
        {"divergence_error": {"float": "nan"}},
        {"divergence_error": {"float": "inf"}},
        {"divergence": 5e-324},
        {"tolerance": 1e308},
        {"divergence_error": 1e308},
        {"trials": {"tuple": [{"tuple": ["a", 0.1, {"float": "inf"}]}, {"tuple": ["b", {"float": "nan"}, 1.0]}]}},
        {"trials": {"tuple": [{"tuple": ["a", 1e308, 1e-308]}]}},
    ],
)
def test_a_page_does_without_a_chart_of_numbers_that_no_axis_holds(saved, path, found):
    parts = copy.deepcopy(saved["measured"])
    parts.header["state"]["report_"]["fields"].update(found)
    path.write_bytes(parts.sealed())
    model = nf.load(path)
    assert "Infinity" not in str(model.report_)
    page = learnt.distance(model) + learnt.chosen(model) + learnt.trials(model)
    assert "nan" not in page.replace("nats", "")
    assert "inf" not in page


def test_an_array_belongs_to_one_place(saved, path):
    """Otherwise a small file could have its one array worked on as often as it likes."""
    coefficients = saved["exact"].header["parts"]["coefficients"]
    refused(path, put(saved["exact"], ["parts", "noise"], coefficients).sealed())
    with pytest.raises(KeyError):
        codec.decode([{"array": 0}, {"array": 0}], [np.zeros(3)])


def test_predictions_that_are_not_finite_are_refused(saved, path):
    data = with_array(saved["exact"], ["parts", "coefficients"], lambda a: np.full_like(a, 1.7e308)).sealed()
    path.write_bytes(data)
    model = nf.load(path)
    with np.errstate(all="ignore"), pytest.raises(ValueError, match="not finite"):
        model.predict(np.ones((3, 2)) * 4)


def test_points_as_far_away_as_numbers_go():
    """They have no distances that are numbers, but answers all the same."""
    fitted = nf.FeatureGPRegressor(nf.FourierFeatures(10, random_state=0), **models.FIXED).fit(np.eye(4), np.arange(4))
    with pytest.warns(UserWarning, match="outside of the data"):
        answers = fitted.predict(np.full((1, 4), 1e308), return_std=True)
    assert np.all(np.isfinite(answers))


@pytest.mark.parametrize(
    "entry", [{"shape": [0, 2**70]}, {"shape": [2**70, 0]}, {"shape": [10**400]}, {"dtype": ["<f8"]}, {"order": {}}]
)
def test_array_entries_without_measure_are_refused(saved, path, entry):
    parts = copy.deepcopy(saved["exact"])
    parts.header["arrays"][0] = {**parts.header["arrays"][0], **entry}
    refused(path, parts.sealed(), "do not fit together|can make no model")


@pytest.mark.parametrize("value", ["NaN", "Infinity", '"\\ud800"'])
def test_headers_that_are_no_proper_json_are_refused(saved, path, value):
    text = container.json.dumps(saved["exact"].header)
    refused(path, saved["exact"].sealed((text[:-1] + f',"more":{value}}}').encode()), "do not fit together")


def test_words_that_are_no_unicode_are_not_saved_and_others_are(saved, path):
    path.write_bytes(saved["exact"].sealed())
    model = nf.load(path)
    with pytest.raises(ValueError, match="not valid Unicode"):
        nf.save(model, path, {"target": "\ud800"})
    nf.save(model, path, {"target": "温度 \U0001f321"})
    assert nf.load_with_metadata(path)[1] == {"target": "温度 \U0001f321"}


@pytest.mark.parametrize("library", ["1.0\nand more", 3, "x" * 1000, None])
def test_the_version_is_a_word(saved, path, library):
    refused(path, put(saved["exact"], ["library"], library).sealed(), "holds no model")


def test_memory_is_refused_in_the_name_of_the_file(saved, path, monkeypatch):
    path.write_bytes(saved["roles"].sealed())  # a drift is solved for again when the model is loaded
    file = io.inspect(path)
    monkeypatch.setattr(memory, "available", lambda: 1000)
    with pytest.raises(MemoryError, match=r"model\.nf: The exact Gaussian process needs"):
        file.model()
    with pytest.raises(MemoryError, match=r"model\.nf needs"):
        io.inspect(path)


def test_an_exact_process_without_drift_is_loaded_without_its_matrix(saved, path, monkeypatch):
    path.write_bytes(saved["exact"].sealed())
    monkeypatch.setattr(KernelSpace, "factorise", None)
    assert np.isfinite(nf.load(path).predict(np.zeros((1, 2)))).all()


def test_every_type_that_annotations_name_is_known():
    """`conform` must not meet an annotation it cannot read in a file that is as it should be."""
    for name, kind in codec._KINDS.items():
        assert checks.hints(kind.make), name


# ---- tables ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("unit", [b"a,", b"1", b'"\n",'])
def test_a_row_without_end_is_refused_while_it_is_small(tmp_path, unit):
    path = tmp_path / "bomb.csv.gz"
    path.write_bytes(gzip.compress(b"a,z\n" + unit * 6_000_000))
    with pytest.raises(ValueError, match=r"bomb\.csv\.gz"), open_table(str(path)) as table:
        for _ in table.batches():
            pass


def test_a_batch_of_long_rows_ends_early(tmp_path, monkeypatch):
    monkeypatch.setattr("nearfield.streaming.tables.text.LONGEST", 1000)
    path = tmp_path / "long.csv"
    path.write_text("a,b\n" + f"1,{'x' * 300}\n" * 10)
    with open_table(str(path)) as table:
        sizes = [batch.n_rows for batch in table.batches()]
    assert sum(sizes) == 10
    assert max(sizes) == 4


def test_blank_lines_are_no_row_without_end(tmp_path, monkeypatch):
    monkeypatch.setattr("nearfield.streaming.tables.text.LONGEST", 1000)
    path = tmp_path / "blank.csv"
    path.write_text("\n" * 3000 + "a,b\n" + "\n" * 3000 + "1,2\n")
    with open_table(str(path)) as table:
        assert [batch.numbers("a").tolist() for batch in table.batches()] == [[1.0]]


@contextmanager
def no_more_than(seconds):
    """Fail rather than hang: what takes well under a second may not take so many seconds of the processor's time."""

    def stop(*_):
        raise AssertionError(f"not done after {seconds} s of the processor's time")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def test_many_columns_are_compared_once(tmp_path):
    path = tmp_path / "wide.csv"
    names = [f"c{i}" for i in range(200_000)]
    path.write_text(",".join(names) + "\n")
    with (
        no_more_than(20),
        open_table(str(path)) as table,
    ):  # seconds of the processor: each with each would take minutes
        assert table.columns == names


def test_names_that_are_no_unicode(tmp_path):
    path = tmp_path / "latin.csv"
    path.write_bytes(b"a,\xe9,z\n1,2,3\n")
    with pytest.raises(sources.SourceError, match=r"latin\.csv.*UTF-8"):
        sources.CSVSource(path, target="z")
    path = tmp_path / "latin.parquet"
    pq.write_table(pa.table({"aaaa": [1.0], "z": [2.0]}), path)
    path.write_bytes(path.read_bytes().replace(b"aaaa", b"\xff\xe9aa"))
    with pytest.raises(ValueError, match=r"latin\.parquet"), open_table(str(path)):
        pass
    with pytest.raises(sources.SourceError, match=r"latin\.parquet"):
        sources.ParquetSource(path, target="z")


def test_a_source_does_not_guess_among_columns_of_one_name(tmp_path):
    path = tmp_path / "twice.csv"
    path.write_text("z,a,z\n1,2,3\n4,5,6\n")
    with pytest.raises(sources.SourceError, match=r"twice\.csv.*more than one column 'z'"):
        sources.CSVSource(path, target="z")
    path = tmp_path / "twice.parquet"
    pq.write_table(pa.Table.from_arrays([pa.array([1.0, 2.0])] * 3, names=["z", "a", "z"]), path)
    with pytest.raises(sources.SourceError, match=r"twice\.parquet.*more than one column 'z'"):
        sources.ParquetSource(path, target="z")


def test_a_source_of_very_many_columns_does_not_end_the_process(tmp_path, monkeypatch):
    """pyarrow takes 10 KB for each, and aborts where there is no memory: it is not given so many."""
    monkeypatch.setattr("pyarrow.csv.read_csv", None)
    path = tmp_path / "wide.csv"
    path.write_text(",".join(f"c{i}" for i in range(20_000)) + "\n" + "1," * 19_999 + "2\n")
    (batch,) = sources.CSVSource(path, target="c19999", features=["c7"]).batches()
    assert (batch.X.tolist(), batch.targets.tolist()) == ([[1.0]], [[2.0]])


def test_times_beyond_those_of_python(tmp_path):
    path = tmp_path / "far.parquet"
    pq.write_table(pa.table({"when": pa.array([2**62], pa.timestamp("us")), "z": [1.0]}), path)
    with open_table(str(path)) as table:
        (batch,) = table.batches()
        for ask in (batch.texts, batch.numbers, batch.count_numbers):
            with pytest.raises(ValueError, match=r"far\.parquet: column 'when'.*beyond"):
                ask("when")
        with (
            pytest.raises(ValueError, match=r"'when'.*cannot be written as text"),
            write_table(str(tmp_path / "out.csv"), ["when"], [table.field("when")]) as writer,
        ):
            writer.write([batch.cells("when")])
    assert not (tmp_path / "out.csv").exists()


def test_no_more_than_the_whole_is_read(tmp_path):
    path = tmp_path / "some.parquet"
    pq.write_table(pa.table({"z": [1.0, 2.0, 3.0]}), path)
    with open_table(str(path)) as table:
        table._file = type(
            "Lying", (), {"metadata": pq.ParquetFile(path).metadata, "iter_batches": table._file.iter_batches}
        )
        table._n_read = 5
        assert table.done() == 1.0


def test_a_table_that_fills_the_memory_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "constant.parquet"
    pq.write_table(pa.table({"a": np.zeros(300_000), "z": np.zeros(300_000)}), path)
    assert path.stat().st_size < 5000
    monkeypatch.setattr(memory, "available", lambda: 10**6)
    with pytest.raises(MemoryError, match=r"constant\.parquet, of which .* rows were read"):
        read_training(str(path), "z")


# ---- the command line ------------------------------------------------------------------------------------------------


@pytest.fixture
def model(tmp_path, saved):
    table = tmp_path / "rows.csv"
    table.write_text("a,b,z\n1,2,3\n2,3,4\n")

    def make(**metadata):
        path = tmp_path / "model.nf"
        parts = copy.deepcopy(saved["exact"])
        parts.header["metadata"] = metadata
        path.write_bytes(parts.sealed())
        return str(path), str(table)

    return make


COLUMNS = [{"name": "a", "kind": "number"}, {"name": "b", "kind": "number"}]


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (5, "in a way"),
        ([5], "in a way"),
        ([{"name": {"x": 1}, "kind": "number"}] * 2, "in a way"),
        ([{"name": "a", "kind": "one-hot", "categories": "red"}], "in a way"),
        ([{"name": "a", "kind": "one-hot"}], "in a way"),
        (COLUMNS[:1], "other columns"),
    ],
)
@pytest.mark.parametrize("command", ["predict", "evaluate", "report"])
def test_columns_of_nonsense_are_refused_by_every_command(model, capsys, tmp_path, command, columns, words):
    path, table = model(target="z", columns=columns)
    out = tmp_path / "out.csv"
    given = [table, "--model", path] if command == "evaluate" else [path, table, "--out", str(out)]
    assert main([command, *given]) == 2
    errors = capsys.readouterr().err
    assert errors.count("\n") == 1
    assert "model.nf" in errors
    assert words in errors
    assert not out.exists()


@pytest.mark.parametrize(
    "metadata",
    [
        {"target": "z", "columns": COLUMNS, "target_summary": {"min": "low", "max": 1, "mean": 2}},
        {"target": "z", "columns": COLUMNS, "summary": 5},
        {"target": "z", "columns": 5},
    ],
)
def test_info_says_what_it_cannot_read_in_its_own_words(model, capsys, metadata):
    path, _ = model(**metadata)
    assert main(["info", path]) == 2
    errors = capsys.readouterr().err
    assert errors.count("\n") == 1
    assert "describes itself in a way that cannot be read here" in errors


def test_the_report_page_of_a_hostile_file_is_one_line(saved, tmp_path, capsys):
    path = tmp_path / "model.nf"
    path.write_bytes(put(saved["chosen"], [*REPORT, "n_centers"], "<script>").sealed())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert main(["report", str(path), "--out", str(tmp_path / "page.html")]) == 2
    errors = capsys.readouterr().err
    assert errors.count("\n") == 1
    assert "can make no model of it" in errors
    assert not (tmp_path / "page.html").exists()


def test_a_file_name_with_an_end_of_line_makes_one_line(capsys):
    assert main(["info", "no\nsuch.nf"]) == 2
    assert capsys.readouterr().err == "nearfield: 'no\\nsuch.nf': No such file or directory\n"
