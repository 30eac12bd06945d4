"""Data sets: files in the format of the real ones, made on the spot, and everything that can be wrong with them."""

import dataclasses
import gzip

import numpy as np
import pytest

from nearfield import datasets
from nearfield.datasets import DatasetError


def write(path, header, rows):
    with gzip.open(path, "wt") as stream:
        stream.write("\n".join([",".join(header), *(",".join(map(str, row)) for row in rows)]) + "\n")


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A data set of 12 rows under the name of yacht, and the folder that it is in."""
    rng = np.random.RandomState(0)
    table = np.round(rng.uniform(-5, 5, (12, 7)), 4)
    source = dataclasses.replace(datasets.SOURCES["yacht"], n_rows=12, digest=datasets.digest_of(table))
    monkeypatch.setitem(datasets.SOURCES, "yacht", source)
    monkeypatch.delenv(datasets.VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "data"
    folder.mkdir()
    write(folder / source.file, source.columns, table)
    return folder, source, table


def test_loads_from_a_folder_or_the_variable(small, monkeypatch):
    folder, source, table = small
    found = datasets.load_yacht(folder)
    np.testing.assert_array_equal(found.X, table[:, :-1])
    np.testing.assert_array_equal(found.y, table[:, -1])
    assert found.inputs == source.inputs
    monkeypatch.setenv(datasets.VARIABLE, str(folder))
    np.testing.assert_array_equal(datasets.load("yacht").y, table[:, -1])


def test_inputs_are_found_by_name(tmp_path, monkeypatch):
    source = datasets.SOURCES["uk_flats"]
    row = [-1.5, 52.0, 4, 5, "2020-12-01", "N", "L", "A", "A", "AB1 2CD", 100000, 11.5]
    source = dataclasses.replace(source, n_rows=1, digest=datasets.digest_of([[-1.5, 52.0, 11.5]]))
    monkeypatch.setitem(datasets.SOURCES, "uk_flats", source)
    write(tmp_path / source.file, source.columns, [row])
    found = datasets.load_uk_flats(tmp_path)
    assert found.X.tolist() == [[-1.5, 52.0]]
    assert found.y.tolist() == [11.5]


def test_the_checksum_is_of_the_numbers_not_of_how_they_are_written(small):
    folder, source, table = small
    write(folder / source.file, source.columns, [[f"{v:.8f}" for v in row] for row in table])
    np.testing.assert_array_equal(datasets.load("yacht", folder).X, table[:, :-1])


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda header, rows: (header[:-1], [r[:-1] for r in rows]), ["lacks resid_resistance"]),
        (lambda header, rows: (header[::-1], rows), ["has the columns", "must be"]),
        (lambda header, rows: (header, rows[:-1]), ["11 rows", "12"]),
        (lambda header, rows: (header, [*rows[:-1], ["word"] * 7]), ["line 13", "numbers"]),
        (lambda header, rows: (header, [*rows[:-1], ["nan"] * 7]), ["missing"]),
        (lambda header, rows: (header, [*rows[:-1], [1.0] * 7]), ["checksum"]),
    ],
)
def test_a_wrong_file_is_refused_in_one_sentence(small, spoil, words):
    folder, source, table = small
    write(folder / source.file, *spoil(list(source.columns), table.tolist()))
    with pytest.raises(DatasetError) as caught:
        datasets.load("yacht", folder)
    message = str(caught.value)
    assert source.file in message
    assert "\n" not in message
    assert all(word in message for word in words)


def test_what_is_no_gzip_file_is_refused(small):
    folder, source, _ = small
    (folder / source.file).write_bytes(b"lcb,froude\n1,2\n")
    with pytest.raises(DatasetError, match="gzip CSV"):
        datasets.load("yacht", folder)


def test_a_missing_file_says_where_to_get_it(small):
    folder, source, _ = small
    (folder / source.file).unlink()
    with pytest.raises(DatasetError, match=r"archive\.ics\.uci\.edu") as caught:
        datasets.load("yacht", folder)
    assert "resid_resistance" in str(caught.value)
    with pytest.raises(DatasetError, match="does not exist"):
        datasets.load("yacht", folder / "nowhere")
    with pytest.raises(DatasetError, match="no data set 'yatch'"):
        datasets.load("yatch", folder)


def test_a_download_is_parsed_verified_and_kept(small, monkeypatch):
    pooch = pytest.importorskip("pooch")
    _, source, table = small
    asked = []

    def retrieve(url, known_hash, fname, path, progressbar):
        asked.append(url)
        raw = path / fname
        raw.write_text("\n".join("  ".join(map(str, row)) for row in table) + "\n\n")
        return str(raw)

    monkeypatch.setattr(pooch, "retrieve", retrieve)
    for _ in range(2):
        np.testing.assert_array_equal(datasets.load("yacht").X, table[:, :-1])
    assert asked == [source.url]
    assert [p.name for p in datasets.cache_folder().iterdir()] == [source.file]


def test_a_download_of_something_else_leaves_nothing_behind(small, monkeypatch):
    pooch = pytest.importorskip("pooch")

    def retrieve(url, known_hash, fname, path, progressbar):
        (path / fname).write_text("<html>moved</html>")
        return str(path / fname)

    monkeypatch.setattr(pooch, "retrieve", retrieve)
    with pytest.raises(DatasetError, match="is not yacht"):
        datasets.load("yacht")
    assert list(datasets.cache_folder().iterdir()) == []


def test_a_download_that_fails_says_what_to_do_by_hand(small, monkeypatch):
    pooch = pytest.importorskip("pooch")

    def retrieve(*_, **__):
        raise OSError("no route\nto host")

    monkeypatch.setattr(pooch, "retrieve", retrieve)
    with pytest.raises(DatasetError, match="could not be downloaded") as caught:
        datasets.load("yacht")
    assert all(word in str(caught.value) for word in ("no route to host", "--data-dir", "yacht.csv.gz", "froude"))
    with pytest.raises(DatasetError, match="Land Registry"):
        datasets.load("uk_flats")


def test_without_pooch_the_message_names_the_extra(small, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pooch", None)
    with pytest.raises(DatasetError, match=r"nearfield\[data\]"):
        datasets.load("yacht")


def test_an_arff_file_is_read():
    text = "% remark\n@relation a\n@attribute x numeric\n@data\n1, 2.5\n% between\n3,4\n"
    assert datasets._parse_arff(text) == [["1", "2.5"], ["3", "4"]]


@pytest.mark.parametrize("name", list(datasets.SOURCES))
def test_the_real_files_are_what_they_should_be(data_dir, name):
    source = datasets.SOURCES[name]
    if not (data_dir / source.file).exists():
        pytest.skip(f"no {source.file}")
    found = datasets.load(name, data_dir)
    assert found.X.shape == (source.n_rows, len(source.inputs))
