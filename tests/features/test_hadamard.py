import numpy as np
import pytest
from scipy.linalg import hadamard

from nearfield.features.hadamard import hadamard_transform, next_power_of_two, pad_columns


@pytest.mark.parametrize(("n", "expected"), [(1, 1), (2, 2), (3, 4), (4, 4), (5, 8), (1024, 1024), (1025, 2048)])
def test_next_power_of_two(n, expected):
    assert next_power_of_two(n) == expected


# The sizes cover one, two and three factors of up to 32 rows, whole and partial.
@pytest.mark.parametrize("d", [1, 2, 4, 16, 32, 64, 256, 1024, 2048])
def test_equals_the_matrix_product(d):
    x = np.random.RandomState(0).standard_normal((3, d))
    np.testing.assert_allclose(hadamard_transform(x), x @ hadamard(d).astype(float), rtol=0, atol=1e-11)


def test_twice_is_d_times_the_identity():
    x = np.random.RandomState(1).standard_normal((5, 512))
    np.testing.assert_allclose(hadamard_transform(hadamard_transform(x)), 512 * x, rtol=1e-12, atol=1e-10)


@pytest.mark.parametrize("shape", [(64,), (0, 64), (2, 3, 64), (2, 1, 3, 64)])
def test_leading_axes_are_a_loop(shape):
    x = np.random.RandomState(2).standard_normal(shape)
    expected = (x.reshape(-1, 64) @ hadamard(64).astype(float)).reshape(shape)
    np.testing.assert_allclose(hadamard_transform(x), expected, atol=1e-12)


@pytest.mark.parametrize("d", [3, 12, 1000])
def test_other_lengths_are_refused(d):
    with pytest.raises(ValueError, match=f"power of two long. Got {d}"):
        hadamard_transform(np.zeros((2, d)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dtype_is_kept_and_the_input_untouched(dtype):
    x = np.random.RandomState(3).standard_normal((4, 128)).astype(dtype)
    before = x.copy()
    assert hadamard_transform(x).dtype == dtype
    np.testing.assert_array_equal(x, before)


def test_pad_columns_appends_zeros():
    x = np.ones((2, 3, 5), dtype=np.float32)
    padded = pad_columns(x, 8)
    assert padded.shape == (2, 3, 8)
    assert padded.dtype == np.float32
    np.testing.assert_array_equal(padded[..., :5], x)
    np.testing.assert_array_equal(padded[..., 5:], 0)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_tensors_answer_in_kind(dtype):
    torch = pytest.importorskip("torch")
    x = np.random.RandomState(4).standard_normal((2, 3, 100)).astype(dtype)
    result = hadamard_transform(pad_columns(torch.asarray(x), 128))
    assert isinstance(result, torch.Tensor)
    assert result.dtype == getattr(torch, dtype)
    np.testing.assert_allclose(
        result.numpy(), hadamard_transform(pad_columns(x, 128)), atol=1e-4 if dtype == "float32" else 1e-12
    )
