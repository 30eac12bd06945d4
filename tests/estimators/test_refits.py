"""A fit starts from the parameters alone: nothing of an earlier fit survives."""

import numpy as np
import pandas as pd
import pytest
from sklearn.kernel_approximation import Nystroem
from sklearn.preprocessing import StandardScaler

import nearfield as nf

RNG = np.random.default_rng(0)
X = RNG.uniform(0, 6, (60, 2))
Y = np.sin(X[:, 0]) + 0.1 * RNG.standard_normal(60)
FOREIGN = Nystroem(gamma=0.5, n_components=20, random_state=0)
OURS = nf.FourierFeatures(40, random_state=0)


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("maps", [(OURS, FOREIGN), (FOREIGN, OURS)], ids=["ours first", "foreign first"])
def test_a_refit_with_a_map_of_another_kind_is_as_a_first_fit(maps, stored, tmp_path):
    model = nf.FeatureGPRegressor(maps[0], random_state=0).fit(X, Y)
    if stored and maps[0] is OURS:
        nf.save(model, tmp_path / "model")
        model = nf.load(tmp_path / "model")
    model.set_params(feature_map=maps[1]).fit(X, Y)
    fresh = nf.FeatureGPRegressor(maps[1], random_state=0).fit(X, Y)
    assert set(vars(model)) == set(vars(fresh))
    assert hasattr(model, "_amplitude") == (maps[1] is FOREIGN)
    assert model.learned_.kernel is model.kernel_
    np.testing.assert_array_equal(model.predict(X), fresh.predict(X))


@pytest.mark.parametrize("make", [nf.ExactGPRegressor, nf.LocalGPRegressor])
def test_names_of_columns_do_not_outlive_the_table(make):
    given = {"length_scale": 1.0, "signal_variance": 1.0, "noise_variance": 0.1}
    model = make(**given).fit(pd.DataFrame(X, columns=["a", "b"]), Y)
    assert not hasattr(model.fit(X, Y), "feature_names_in_")


def test_what_others_set_stays():
    class Scaled(nf.ExactGPRegressor):
        def fit(self, X, y):
            self.scaler_ = StandardScaler().fit(X)
            return super().fit(self.scaler_.transform(X), y)

    model = Scaled(length_scale=1.0, signal_variance=1.0, noise_variance=0.1)
    model.note = "mine"
    for _ in range(2):
        model.fit(X, Y)
        assert model.note == "mine"
        assert hasattr(model, "scaler_")


def test_a_fit_that_fails_leaves_the_earlier_one():
    model = nf.ExactGPRegressor(length_scale=1.0, signal_variance=1.0, noise_variance=0.1).fit(X, Y)
    before = model.predict(X)
    with pytest.raises(ValueError, match="noise_variance"):
        model.set_params(noise_variance=-1.0).fit(X, Y)
    np.testing.assert_array_equal(model.set_params(noise_variance=0.1).predict(X), before)
