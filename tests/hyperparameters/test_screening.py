"""Columns without effect: found among others, left out, and told of; and the likelihood is the same."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import nearfield as nf
from nearfield.hyperparameters import scales
from nearfield.hyperparameters.blocks import LearningData
from nearfield.hyperparameters.learned import Learned, OnBound
from nearfield.hyperparameters.learning import LearningRequest, learn
from nearfield.hyperparameters.screening import LOSS, Screen, screen
from nearfield.kernels import Kernel

from ..warned import on_bounds

RELEVANT = {0, 1, 2, 5}
N = 450


def problem(n=N, d=9, seed=0):
    rng = np.random.RandomState(seed)
    X = rng.randn(n, d)
    f = np.sin(2 * X[:, 0]) + 0.7 * np.cos(X[:, 1]) * X[:, 2] + 0.3 * X[:, 5]
    return X, f + 0.2 * rng.randn(n)


@pytest.fixture(scope="module")
def learnt():
    X, y = problem()
    data, request = LearningData(X, (y - y.mean())[:, None]), LearningRequest(ard=True, n_scales=2, n_restarts=0)
    screened = learn(data, request, np.random.RandomState(0))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scales, "screen", lambda *_: None)
        whole = learn(data, request, np.random.RandomState(0))
    return screened, whole


def test_relevant_columns_are_kept_and_most_others_are_not(learnt):
    screened, whole = learnt
    assert not RELEVANT & set(screened.silent)
    assert len(screened.silent) >= 3  # of five
    assert whole.silent == ()


def test_the_likelihood_is_that_of_all_columns_but_for_a_nat_each(learnt):
    screened, whole = learnt
    assert screened.kernel.length_scales.shape[1] == 9
    assert abs(screened.log_likelihood - whole.log_likelihood) * N < LOSS * len(screened.silent)
    assert screened.converged


def test_columns_without_effect_have_the_longest_length_scale_in_each_component(learnt):
    screened, _ = learnt
    silent = list(screened.silent)
    lengths = screened.kernel.length_scales
    assert np.all(lengths[:, silent] == lengths[0, silent])
    assert lengths[:, silent].min() > 50
    assert np.isfinite(screened.standard_errors[: lengths.shape[1]]).any()


def test_a_column_that_all_others_need_is_never_screened():
    rng = np.random.RandomState(1)
    X = rng.rand(300, 4)
    y = np.sin(6 * X).sum(axis=1) + 0.05 * rng.randn(300)
    data, request = LearningData(X, (y - y.mean())[:, None]), LearningRequest(ard=True)
    data = data.with_blocks(True, np.random.RandomState(0))
    learned = Learned(Kernel(np.full((1, 4), 0.3), np.array([2.0])), 0.01, 0.0)
    assert screen(learned, data, request) is None


def test_numbers_of_columns_come_back_with_the_columns():
    screened = Screen(np.array([0, 2]), np.array([1]), np.array([10.0, 20.0, 30.0]))
    bound = OnBound("length_scale", 0, 1, 3.0, True)
    narrow = Learned(Kernel(np.array([[1.0, 3.0]]), np.array([1.0])), 0.1, on_bounds=(bound,))
    wide = screened.widened(narrow)
    assert_allclose(wide.kernel.length_scales, [[1.0, 20.0, 3.0]])
    assert wide.silent == (1,)
    assert wide.on_bounds[0].column == 2
    assert_allclose(screened.narrowed(wide).kernel.length_scales, [[1.0, 3.0]])
    assert screened.narrowed(wide).on_bounds[0].column == 1


def test_estimates_of_columns_that_are_left_out_are_left_out_too():
    screened = Screen(np.array([0, 2]), np.array([1]), np.array([10.0, 20.0, 30.0]))
    bounds = (OnBound("length_scale", 0, 1, 20.0, True), OnBound("noise_variance", None, None, 1e-9, False))
    narrow = screened.narrowed(Learned(Kernel(np.ones((1, 3)), np.array([1.0])), 0.1, on_bounds=bounds))
    assert [estimate.kind for estimate in narrow.on_bounds] == ["noise_variance"]


@on_bounds
@pytest.mark.parametrize("seed", range(3))
def test_one_component_that_does_without_some_columns_is_an_answer(seed):
    X, y = problem(120, 8, seed)
    request = LearningRequest(ard=True, n_restarts=0)
    learned = learn(LearningData(X, (y - y.mean())[:, None]), request, np.random.RandomState(seed))
    assert learned.kernel.length_scales.shape[1] == 8
    assert all(estimate.column is None or 0 <= estimate.column < 8 for estimate in learned.on_bounds)


def test_the_report_names_columns_without_effect_and_files_keep_them(tmp_path):
    pd = pytest.importorskip("pandas")
    X, y = problem(600, 7)
    names = ["a", "b", "c", "dull", "e", "f", "g"]
    model = nf.LocalGPRegressor(ard=True, n_scales=2, n_restarts=0, random_state=0, noise="constant", tolerance=0.1)
    model.set_params(likelihood="gaussian").fit(pd.DataFrame(X, columns=names), y)
    assert 3 in model.learned_.silent
    line = next(line for line in str(model.report_).splitlines() if line.strip().startswith("no effect"))
    assert "dull" in line
    assert "a," not in line
    nf.io.save(model, tmp_path / "model.nf")
    assert nf.io.load(tmp_path / "model.nf").learned_.silent == model.learned_.silent
