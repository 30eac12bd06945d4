"""What tensors are refused for, in one sentence."""

import pytest

torch = pytest.importorskip("torch")

from nearfield import ExactGPRegressor

X = torch.linspace(0, 1, 12, dtype=torch.float64).reshape(6, 2)
Y = X[:, 0]
FIXED = {"length_scale": 1.0, "noise_variance": 0.1, "signal_variance": 1.0}


@pytest.mark.parametrize(
    ("X", "y", "weights", "message"),
    [
        (X[:0], Y[:0], None, r"0 sample\(s\) while a minimum of 1"),
        (X, X.reshape(6, 2, 1), None, r"one or two dimensions. Got shape \(6, 2, 1\)"),
        (X, Y, -torch.ones(6, dtype=torch.float64), "'sample_weight' argument must be one non-negative number"),
        (X, Y, torch.ones((6, 1), dtype=torch.float64), "'sample_weight' argument must be one non-negative number"),
        (X, Y, torch.zeros_like(Y), r"positive for at least 1 sample\."),
    ],
)
def test_training_tensors_that_make_no_sense_are_refused(X, y, weights, message):
    with pytest.raises(ValueError, match=message):
        ExactGPRegressor(**FIXED).fit(X, y, weights)


def test_one_sample_is_enough_where_nothing_is_learnt():
    with pytest.raises(ValueError, match=r"1 sample\(s\) while a minimum of 2"):
        ExactGPRegressor(length_scale=1.0).fit(X[:1], Y[:1])
    found = ExactGPRegressor(**FIXED).fit(X[:1], Y[:1]).predict(X, return_std=True)
    expected = ExactGPRegressor(**FIXED).fit(X[:1].numpy(), Y[:1].numpy()).predict(X.numpy(), return_std=True)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, torch.as_tensor(other))


def test_test_tensors_are_of_the_kind_fitted_on():
    model = ExactGPRegressor(**FIXED).fit(X, Y)
    with pytest.raises(ValueError, match="X is float32, but the model was fitted on float64: convert X"):
        model.predict(X.float())


def test_points_of_weight_zero_are_left_out():
    weights = torch.tensor([1.0, 0, 1, 1, 0, 1], dtype=torch.float64)
    kept = weights > 0
    some = ExactGPRegressor(**FIXED).fit(X, Y, weights).predict(X)
    torch.testing.assert_close(some, ExactGPRegressor(**FIXED).fit(X[kept], Y[kept]).predict(X))
