"""Samples of rows."""

import numpy as np

from nearfield.common.samples import some_rows


def test_all_of_few_rows_and_some_of_many():
    np.testing.assert_array_equal(some_rows(5, 5), np.arange(5))
    assert len(some_rows(0, 5)) == 0
    rows = some_rows(10_000, 100)
    assert len(np.unique(rows)) == 100
    assert np.all((np.diff(rows) > 0) & (rows[1:] < 10_000))
    np.testing.assert_array_equal(rows, some_rows(10_000, 100))


def test_rows_of_a_raster_come_from_all_of_its_columns():
    for width in (10, 20, 50, 100):  # the hundredth part of which many rasters are wide
        columns = some_rows(10_000, 100) % width
        assert len(np.unique(columns)) > min(0.5 * width, 60)
