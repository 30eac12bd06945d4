import numpy as np
import pytest

torch = pytest.importorskip("torch")

from nearfield.hyperparameters.blocks import Block
from nearfield.kernels import Kernel
from nearfield.tensors.learning import Stack

from ..hyperparameters.single import kernel_log_likelihood


@pytest.mark.parametrize("family", ["gaussian", "matern12", "matern52"])
@pytest.mark.parametrize("ard", [False, True])
@pytest.mark.parametrize("n_scales", [1, 2])
def test_the_likelihood_of_blocks_is_that_of_numpy(ard, n_scales, family):
    rng = np.random.RandomState(0)
    blocks = []
    for n in (60, 90, 30):
        X, weights = rng.uniform(0, 5, (n, 2)), rng.uniform(0.5, 2, n)
        y = np.stack([np.sin(X[:, 0]), np.cos(X[:, 1])], axis=1) + 0.1 * rng.standard_normal((n, 2))
        blocks.append(Block.of(X, y, weights))
    scales = np.array([[0.7, 1.1], [2.0, 3.0]])[:n_scales, : 2 if ard else 1]
    kernel = Kernel(scales, np.array([1.0, 0.4])[:n_scales], family)
    parts = [kernel_log_likelihood(kernel, 0.05, b.X, b.y, b.noise_factors) for b in blocks]
    value, gradient = Stack(blocks, "cpu").log_likelihood(kernel, 0.05)
    assert value == pytest.approx(sum(v for v, _ in parts), rel=1e-10)
    np.testing.assert_allclose(gradient, np.sum([g for _, g in parts], axis=0), rtol=1e-8)


def test_numpy_users_never_import_torch():
    import subprocess
    import sys

    code = """
import sys, numpy as np, nearfield as nf
X = np.random.RandomState(0).uniform(0, 9, (300, 2))
nf.LocalGPRegressor(length_scale=1, signal_variance=1, noise_variance=.1).fit(X, X[:, 0]).predict(X)
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)
