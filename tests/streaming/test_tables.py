"""Tables: what is read is what was written, and what is no table says so in one sentence."""

import gzip
import io
import random
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearfield.streaming import tables
from nearfield.streaming.tables import BadValueError, open_table, write_table


def put(tmp_path, content, name="t.csv"):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


def read(path, size=10_000, **options):
    """Columns of numbers."""
    with open_table(path, **options) as table:
        parts = [{name: batch.numbers(name) for name in table.columns} for batch in table.batches(size)]
        return {name: np.concatenate([part[name] for part in parts]).tolist() for name in table.columns}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.csv", "a,b\n1,2.5\n-3,1e-3\n"),
        ("t.csv", "a,b\r\n1,2.5\r\n-3,1e-3\r\n"),
        ("t.csv", "a;b\n1;2.5\n-3;1e-3"),
        ("t.csv", "a\tb\n1\t2.5\n-3\t1e-3\n"),
        ("t.csv", "a|b\n1|2.5\n-3|1e-3\n"),
        ("t.tsv", "a\tb\n1\t2.5\n-3\t1e-3\n"),
        ("t.csv", " a , b \n 1 , 2.5\n-3, 1e-3 \n\n"),
        ("t.csv", "\n\na,b\n1,2.5\n\n-3,1e-3\n"),
        ("t.csv", "a,b\n1,2.5\n  \n-3,1e-3\n \t\n"),
        ("t.csv", '"a", "b"\n"1", "2.5"\n"-3", "1e-3"\n'),
        ("t.csv", 'a, b\n"1", "2.5"\n-3, 1e-3\n'),
        ("t.csv", "a,b,,\n1,2.5,,\n-3,1e-3,,\n"),
        ("t.csv", ",a,,b\n7,1,8,2.5\n7,-3,8,1e-3\n"),
        ("t.csv", '"a","b"\n"1","2.5"\n"-3","1e-3"\n'),
        ("t.csv", "\ufeffa,b\n1,2.5\n-3,1e-3\n"),
        ("t.csv", "a,b\n1,2.5\n-3,1e-3\n".encode("utf-16")),
        ("t.csv.gz", gzip.compress(b"a,b\n1,2.5\n-3,1e-3\n", mtime=0)),
        ("named-wrongly", gzip.compress(b"a,b\n1,2.5\n-3,1e-3\n", mtime=0)),
    ],
)
def test_text_of_many_kinds_is_the_same_table(tmp_path, name, content):
    assert read(put(tmp_path, content, name)) == {"a": [1, -3], "b": [2.5, 1e-3]}


@pytest.mark.parametrize("cell", ["", " ", "NA", "NaN", "nan", "null", "NULL", "None", "n/a", "#N/A"])
def test_missing_values_are_nan(tmp_path, cell):
    values = read(put(tmp_path, f"a,b\n1,2\n3,{cell}\n"))["b"]
    assert values[0] == 2
    assert np.isnan(values[1])


def test_an_empty_line_of_a_single_column_is_a_missing_value(tmp_path):
    assert np.isnan(read(put(tmp_path, "a\n1\n\n3\n"))["a"]).tolist() == [False, True, False]


def test_blanks_that_belong_to_cells_stay(tmp_path):
    with open_table(put(tmp_path, 'a,b\n x, "y"\n')) as table:
        (batch,) = table.batches()
        assert (batch.cells("a"), batch.cells("b")) == ([" x"], [' "y"'])


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "is empty"),
        ("\n \n", "is empty"),
        ("a,b,a\n1,2,3\n", "more than one column 'a'"),
        ("a,b\n1,2\n3\n", "row 2 has 1 field and the header has 2, with commas"),
        (",,\n1,2,3\n", "has no column names"),
        ("a;b\n1;2;3\n", "row 1 has 3 fields and the header has 2, with semicolons"),
        ("a,b\n1,2\n3,abc\n", r"column 'b' has 'abc' in row 2, where a number must be\.$"),
        ("a,b\n1,2\n3,4 m\n", "column 'b' has '4 m' in row 2"),
        ("a,b\n1,1_000\n", "column 'b' has '1_000' in row 1"),
        ("a;b\n1;2,5\n", "decimal point"),
        ('a,b\n1,"1,234"\n', "decimal point"),
        ("a,b\n1,2020-01-31\n", "dates are no numbers"),
        ("a,b\n1,31/01/2020\n", "dates are no numbers"),
        ("a,b\n1,2020-01-31T10:00:00\n", "dates are no numbers"),
        ("a,b\n1,inf\n", "column 'b' has 'inf' in row 1, which is infinite"),
        ("a,b\n1,-Infinity\n", "infinite"),
        ("a,b\n1,1e400\n", r"must not exceed 1e\+150"),
        ("a,b\n1,1e200\n", r"must not exceed 1e\+150"),
        (b"a,b\n1,\xe9\n", "not text in UTF-8"),
        (b"\x89PNG\r\n\x1a\n\x00", "not text in UTF-8"),
        ('a,b\n1,"2\n', "no proper table near line 2"),
        ('a,b\n1,"2"3\n', "no proper table near line 2"),
        (b"PK\x03\x04 and so on", "zip archive or a spreadsheet"),
        (gzip.compress(b"a,b\n" + b"1,2\n" * 10_000, mtime=0)[:60], "gzip"),
        (b"\x1f\x8b rubbish", "gzip"),
        (b"PAR1 and then nothing", "Parquet"),
        ("a,b\n1," + "x" * 1000 + "\n", r"'x{57}\.\.\.' in row 1"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence_that_names_the_file(tmp_path, content, words):
    if words == "Parquet":
        pytest.importorskip("pyarrow")
    path = put(tmp_path, content)
    with pytest.raises(ValueError, match=words) as caught:
        read(path)
    assert str(caught.value).startswith(path)
    assert "\n" not in str(caught.value)


# ---- numbers alone, which pyarrow may read ---------------------------------------------------------------------------

NUMBERS = (
    "1", "+1", "-0", "1e5", "1E-3", ".5", "5.", " 2", "3 ", "\t4", "1e-400", "1e149", "00012", "1" * 140, "4.9e-324",
    "2.2250738585072011e-308", "9007199254740993", "\uff11",
)  # fmt: skip
NO_NUMBERS = (
    "", "NA", "nan", "nan(1)", "inf", "-Infinity", "1e400", "1e200", "0x1p3", "1e", "1_0", "1f", "+-1", "1\0", "é",
    '"1"', '"', "1,2", "2020-01-31",
)  # fmt: skip


def random_text(rng):
    width = rng.choice((1, 2, 2, 3))
    odd = rng.choice(((), NUMBERS, NUMBERS, NUMBERS + NO_NUMBERS))
    rows = ["z,a,b"[: 2 * width - 1]]
    for _ in range(rng.randrange(12)):
        cells = [repr(rng.gauss(0, 1) * 10.0 ** rng.randrange(-20, 20)) for _ in range(width)]
        if odd and rng.random() < 0.3:
            cells[rng.randrange(width)] = rng.choice(odd)
        rows.append(",".join(cells))
    ends = rng.choice((("\n",), ("\r\n",), ("\n", "\r\n", "\r", "\n\n", "\n \n")))
    return "".join(row + rng.choice(ends) for row in rows)


def numbers_or_words(path, columns):
    try:
        with open_table(path) as table:
            return [np.stack(batch, axis=1).tolist() for batch in table.numbers(columns, 5)]
    except ValueError as error:
        return str(error)


def test_numbers_are_the_same_with_and_without_pyarrow(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow.csv")
    rng, plain, by_pyarrow = random.Random(0), tables.text._plain_numbers, []

    def counted(*arguments):
        by_pyarrow.append(plain(*arguments))
        return by_pyarrow[-1]

    def flat(batches):
        return batches if isinstance(batches, str) else repr([row for batch in batches for row in batch])

    for _ in range(400):
        path = put(tmp_path, random_text(rng))
        monkeypatch.setattr(tables.text, "BLOCK", rng.choice((10, 60, 1 << 22)))
        columns = rng.choice((["z"], read_header(path)))
        monkeypatch.setattr(tables.text, "_plain_numbers", counted)
        fast = numbers_or_words(path, columns)
        monkeypatch.setattr(tables.text, "_plain_numbers", lambda *_: None)
        assert flat(fast) == flat(numbers_or_words(path, columns))
    n_taken = sum(numbers is not None for numbers in by_pyarrow)
    assert min(n_taken, len(by_pyarrow) - n_taken) > 100


def read_header(path):
    with open_table(path) as table:
        return table.columns


def test_plain_text_goes_to_pyarrow_and_cells_to_csv(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow.csv")
    path = put(tmp_path, '"a","b"\n1,x\n2,\n')
    monkeypatch.setattr(tables.text.TextTable, "_rows", None)
    assert numbers_or_words(path, ["a"]) == [[[1.0], [2.0]]]


def test_many_columns_and_long_rows_do_not_go_to_pyarrow(tmp_path, monkeypatch):
    pyarrow_csv = pytest.importorskip("pyarrow.csv")
    monkeypatch.setattr(pyarrow_csv, "read_csv", None)
    n = tables.text.MOST_COLUMNS + 1  # it takes memory for each, and ends the process where there is none
    path = put(tmp_path, ",".join(f"c{i}" for i in range(n)) + "\n" + ",".join(["1"] * n) + "\n")
    assert numbers_or_words(path, ["c0"]) == [[[1.0]]]
    path = put(tmp_path, "a,b\n1," + "x" * tables.text.LONGEST_PLAIN + "y\n")
    assert "field larger than field limit" in numbers_or_words(path, ["a"])


def test_rows_are_counted_through_batches_and_missing_values(tmp_path):
    path = put(tmp_path, "a\n" + "1\nNA\n" * 10 + "x\n")
    with pytest.raises(BadValueError, match="row 21"):
        read(path, size=4)


def test_an_encoding_can_be_named(tmp_path):
    path = put(tmp_path, "café,b\n1,2\n".encode("latin-1"))
    assert read(path, encoding="latin-1") == {"café": [1], "b": [2]}
    with pytest.raises(ValueError, match="no encoding 'nonsense'"):
        read(path, encoding="nonsense")


def test_counts_of_numbers_and_words(tmp_path):
    with open_table(put(tmp_path, "a,b\n1,x\n2,NA\nz,3\n")) as table:
        (batch,) = table.batches()
        assert batch.count_numbers("a") == (2, 1)
        assert batch.count_numbers("b") == (1, 1)
        assert batch.texts("b") == ["x", None, "3"]


def test_standard_input_and_output(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(b"a;b\n1;2\n"))))
    with open_table("-") as table, write_table("-", ["b", "c"], [None, "float64"], table.delimiter) as writer:
        assert table.name == "standard input"
        for batch in table.batches():
            writer.write([batch.cells("b"), np.array([np.nan])])
    assert capsys.readouterr().out == "b;c\n2;\n"
    assert not sys.stdin.buffer.closed


headings = st.text("abcXYZ ,;\"'|\té", min_size=1, max_size=6).map(str.strip).filter(bool)
cells = st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters="\0"), max_size=8)


@given(
    names=st.lists(headings, min_size=2, max_size=2, unique=True),
    data=st.data(),
    name=st.sampled_from(["t.csv", "t.tsv", "t.csv.gz", "t.tsv.gz", "t.parquet"]),
)
@settings(max_examples=60)
def test_what_is_written_is_read_again(tmp_path_factory, names, data, name):
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    rows = data.draw(st.integers(0, 6))
    texts = data.draw(st.lists(cells, min_size=rows, max_size=rows))
    numbers = data.draw(st.lists(st.floats(-1e100, 1e100) | st.just(np.nan), min_size=rows, max_size=rows))
    path = str(tmp_path_factory.getbasetemp() / name)
    with write_table(path, names, [None, "float64"]) as writer:
        writer.write([texts, np.array(numbers, dtype=float)])
    with open_table(path) as table:
        assert table.columns == names
        batches = list(table.batches(2))
        back = [cell for batch in batches for cell in (batch.cells(names[0]))]
        if name.endswith("parquet"):
            back = [cell.as_py() for cell in back]
        assert back == texts
        found = np.concatenate([batch.numbers(names[1]) for batch in batches] or [np.empty(0)])
        np.testing.assert_array_equal(found, numbers)


def test_a_carriage_return_in_a_cell_does_not_end_its_row(tmp_path):
    path = str(tmp_path / "t.csv")
    with write_table(path, ["a\rb", "c"], [None, "float64"]) as writer:
        writer.write([["x\ry", "z"], np.array([1.0, np.nan])])
    with open_table(path) as table:
        (batch,) = table.batches()
        assert (batch.cells("a\rb"), batch.cells("c")) == (["x\ry", "z"], ["1.0", ""])


def test_parquet_of_many_types(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import datetime
    from decimal import Decimal

    import pyarrow.parquet as pq

    table = pa.table(
        {
            "int": pa.array([1, None], pa.int32()),
            "float": pa.array([0.5, float("nan")], pa.float32()),
            "bool": [True, None],
            "decimal": [Decimal("1.25"), None],
            "words": ["2.5", None],
            "city": pa.array(["Rome", None]).dictionary_encode(),
            "date": [datetime.date(2020, 1, 31), None],
            "huge": [float("inf"), 0.0],
            "list": [[1], None],
        }
    )
    path = str(tmp_path / "t.parquet")
    pq.write_table(table, path)
    with open_table(path) as opened:
        (batch,) = opened.batches()
        for name, value in {"int": 1, "float": 0.5, "bool": 1, "decimal": 1.25, "words": 2.5}.items():
            np.testing.assert_array_equal(batch.numbers(name), [value, np.nan])
            assert batch.count_numbers(name) == (1, 0)
        assert batch.texts("city") == ["Rome", None]
        for name, words in {"city": "'Rome' in row 1", "date": "dates", "huge": "infinite", "list": "row 1"}.items():
            with pytest.raises(BadValueError, match=words):
                batch.numbers(name)
        assert opened.done() == 1


def test_parquet_keeps_the_types_of_columns(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    a, b = str(tmp_path / "a.parquet"), str(tmp_path / "b.parquet")
    pq.write_table(pa.table({"id": pa.array([7, 8], pa.int16()), "x": [0.5, 1.5]}), a)
    with open_table(a) as table, write_table(b, ["id", "mean"], [table.field("id"), "float64"]) as writer:
        for batch in table.batches(1):
            writer.write([batch.cells("id"), np.array([np.nan])])
    back = pq.read_table(b)
    assert back.schema.field("id").type == pa.int16()
    assert back.to_pydict() == {"id": [7, 8], "mean": [None, None]}


def test_without_pyarrow_parquet_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(ImportError, match=r"nearfield\[parquet\]"):
        read(put(tmp_path, b"PAR1"))
    with pytest.raises(ImportError, match=r"nearfield\[parquet\]"):
        tables.check_writable(str(tmp_path / "a.parquet"))


def test_a_table_half_written_is_not_there(tmp_path):
    for name in ("a.csv", "a.csv.gz", "a.parquet"):
        if name.endswith("parquet"):
            pytest.importorskip("pyarrow")
        with pytest.raises(KeyboardInterrupt), write_table(str(tmp_path / name), ["a"], ["float64"]) as writer:
            writer.write([np.ones(3)])
            raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("name", "words"), [("", "folder"), ("nowhere/a.csv", "does not exist")])
def test_outputs_that_cannot_be_written_are_refused_beforehand(tmp_path, name, words):
    with pytest.raises(OSError, match=words):
        tables.check_writable(str(tmp_path / name))


def test_checking_an_output_leaves_no_trace(tmp_path):
    tables.check_writable(str(tmp_path / "a.csv"))
    tables.check_writable("-")
    tables.check_writable("/dev/null")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "a.csv").write_text("old")
    tables.check_writable(str(tmp_path / "a.csv"))
    assert (tmp_path / "a.csv").read_text() == "old"
