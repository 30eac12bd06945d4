"""Whatever the data, the defaults hold what they say: the judgement of the zoo, on data made up here."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from fuzz.judging import judge, measure
from fuzz.made_up import LAYOUTS, NOISES, made_up

from ..small import exact_up_to

CASES = [made_up(number, rows=(150, 600)) for number in range(21)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
def test_nothing_fails(case):
    with exact_up_to(200):  # most are of a size at which neighbourhoods are used
        assert judge(measure(case, beside="exact")) == []


def test_the_cases_have_every_layout_and_noise_among_them():
    labels = " ".join(case.label for case in CASES)
    assert all(word in labels for word in (*LAYOUTS, *(f"noise {noise}" for noise in NOISES), "units"))
