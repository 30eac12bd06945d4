"""Random numbers for several purposes from one seed."""

import numpy as np
import pytest

import nearfield as nf
from nearfield.common.validation import spawn


def test_every_purpose_has_numbers_of_its_own_and_the_same_each_time():
    first, again, other = spawn(0, "learning"), spawn(0, "learning"), spawn(0, "tuning")
    plain = np.random.RandomState(0)
    numbers = [rng.random_sample(5) for rng in (first, again, other, plain)]
    assert np.array_equal(numbers[0], numbers[1])
    assert len(np.unique(numbers[1:])) == 15


def test_a_generator_gives_another_seed_each_time():
    rng = np.random.RandomState(0)
    first, second = spawn(rng, "learning"), spawn(rng, "learning")
    assert first.random_sample() != second.random_sample()
    again = spawn(np.random.RandomState(0), "learning")
    assert again.random_sample() == spawn(np.random.RandomState(0), "learning").random_sample()


@pytest.mark.unseeded
def test_without_a_seed_numbers_are_new_and_the_global_ones_stay():
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    assert spawn(None, "learning").random_sample() != spawn(None, "learning").random_sample()
    assert np.array_equal(np.random.get_state()[1], before)  # noqa: NPY002


@pytest.mark.parametrize(
    "draw",
    [
        lambda: spawn(None, "learning").random_sample(),
        lambda: nf.FourierFeatures(10).fit(np.eye(3)),
        lambda: nf.LocalGPRegressor(length_scale=1.0, centers="random", n_centers=2).fit(np.eye(3), np.arange(3.0)),
    ],
    ids=["numbers", "features", "regressor"],
)
def test_a_test_in_which_the_library_draws_without_a_seed_fails(draw):
    with pytest.raises(pytest.fail.Exception, match="random_state=0"):
        draw()


@pytest.mark.parametrize("seed", [-1, 2**32, "zero"])
def test_what_is_no_seed_is_refused(seed):
    with pytest.raises(ValueError, match=r"[Ss]eed"):
        spawn(seed, "learning")
