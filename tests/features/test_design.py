"""Columns that follow from others, found quickly where it is clear and closely where it is not."""

import numpy as np
import pytest

from nearfield.features import design
from nearfield.features.design import Design, Term, dependent_columns


@pytest.fixture
def columns():
    rng = np.random.default_rng(0)
    return np.column_stack([np.ones(400), rng.standard_normal((400, 3))])


def test_columns_that_are_clearly_independent_are_not_looked_at_closely(columns, monkeypatch):
    monkeypatch.setattr(design.np.linalg, "lstsq", None)
    assert dependent_columns(columns) == []


@pytest.mark.parametrize(("noise", "is_found"), [(0.0, True), (1e-12, True), (1e-7, False), (1e-4, False)])
def test_combinations_are_found_down_to_rounding(columns, noise, is_found):
    rest = noise * np.random.default_rng(1).standard_normal(400)
    F = np.column_stack([columns, 2 * columns[:, 1] - columns[:, 3] + rest])
    assert [(f.number, f.others) for f in dependent_columns(F)] == ([(4, (1, 3))] if is_found else [])


def test_scales_do_not_matter(columns):
    F = columns * [1e-8, 1e9, 1.0, 1e-3]
    assert dependent_columns(F) == []
    assert dependent_columns(np.column_stack([F, np.zeros(400)]))[0].number == 4


def test_columns_are_the_products_that_terms_name():
    points = np.random.default_rng(2).uniform(1, 3, (50, 3))
    points[:, 2] = np.arange(50) % 3
    terms = [Term(), Term((0,)), Term((1,)), Term((0, 1)), Term((2,), 1)]
    made = Design.of(terms, ["a"] * 5, points)
    z = (points - points.mean(axis=0)) / points.std(axis=0)
    expected = [np.ones(50), z[:, 0], z[:, 1], z[:, 0] * z[:, 1], points[:, 2] == 1]
    np.testing.assert_allclose(made(points), np.column_stack(expected), rtol=1e-12)
