"""One seed, several purposes: what learning draws is not drawn again by tuning."""

from itertools import combinations

import numpy as np
import pytest

import nearfield as nf

pytestmark = pytest.mark.usefixtures("few_probes")
RNG = np.random.default_rng(0)
X = RNG.uniform(0, 9, (1700, 2))
Y = np.sin(X[:, 0]) + np.cos(X[:, 1]) + 0.1 * RNG.standard_normal(1700)
SETTINGS = {"n_scales": 1, "n_restarts": 0, "tolerance": 0.05, "noise": "constant", "likelihood": "gaussian"}


@pytest.fixture
def draws(monkeypatch):
    """Indices drawn from among all samples, call by call, but for samples that are always the same."""
    drawn = []

    class Recording(np.random.RandomState):
        def __init__(self, seed=None):
            super().__init__(seed)
            self.is_fixed = isinstance(seed, int) and seed == 0

        def choice(self, a, size=None, **options):
            result = super().choice(a, size, **options)
            if not self.is_fixed and np.ndim(a) == 0 and a == len(X) and 5 < size < len(X) // 2:
                drawn.append(result)
            return result

        def permutation(self, x):
            result = super().permutation(x)
            if not self.is_fixed and np.ndim(x) == 0 and x == len(X):
                drawn.append(result)
            return result

    monkeypatch.setattr(np.random, "RandomState", Recording)
    return drawn


def test_probes_are_not_the_points_that_hyperparameters_were_learnt_from(draws):
    nf.LocalGPRegressor(random_state=0, **SETTINGS).fit(X, Y)
    assert len(draws) >= 2
    for first, second in combinations(draws, 2):
        n = min(len(first), len(second))
        assert np.mean(first[:n] == second[:n]) < 0.2


@pytest.mark.parametrize("make", [lambda: 3, lambda: np.random.RandomState(3)])
def test_the_same_seed_gives_the_same_model(make):
    first, second = (nf.LocalGPRegressor(random_state=make(), **SETTINGS).fit(X, Y).predict(X[:50]) for _ in range(2))
    np.testing.assert_array_equal(first, second)
