"""One component more, against the likelihood itself and draws whose components are known."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from nearfield.hyperparameters.blocks import LearningData
from nearfield.hyperparameters.composite import maximise_composite_likelihood, space_of, to_follow
from nearfield.hyperparameters.further import with_one_more
from nearfield.hyperparameters.objective import Objective
from nearfield.hyperparameters.request import Fixed, LearningRequest
from nearfield.kernels import Kernel

NOISE = 0.1


def draw(kernel, n, seed=0):
    rng = np.random.RandomState(seed)
    X = rng.rand(n, 2)
    y = np.linalg.cholesky(kernel(X, X) + NOISE * np.eye(n)) @ rng.randn(n, 1)
    return LearningData(X, y - y.mean())


def learnt(data, request, n_scales, starts=None):
    rng = np.random.RandomState(0)
    data = data.with_blocks(False, rng)
    return data, maximise_composite_likelihood(data, request, rng, n_scales=n_scales, starts=starts)


def one_more(data, learned, request):
    objective = Objective.of(space_of(data, request, learned.kernel.n_scales), data, request)
    return with_one_more(learned, objective, to_follow(data.blocks))


@pytest.mark.parametrize("n", [800, 1500])  # one block, and blocks in order
def test_the_component_that_is_missed_is_found_with_what_it_gains(n):
    truth = Kernel(np.array([[0.02], [0.3]]), np.array([0.5, 1.0]))
    data, alone = learnt(draw(truth, n), LearningRequest(), 1)
    further, *_ = one_more(data, alone, LearningRequest())
    assert further.kernel.n_scales == 2
    _, both = learnt(data, LearningRequest(), 2, starts=[further[:2]])
    gained = both.log_likelihood - alone.log_likelihood
    assert gained > 0.01
    assert 0.4 * gained < further.gain < 2.5 * gained
    assert_allclose(np.log(both.kernel.length_scales[:, 0]), np.log([0.02, 0.3]), atol=0.5)
    # It is nothing, where nothing is missed: less than some nats of the whole.
    again = one_more(data, both, LearningRequest())
    assert not again or again[0].gain * n < 5


def test_noise_that_is_given_stays():
    truth = Kernel(np.array([[0.02], [0.3]]), np.array([0.5, 1.0]))
    request = LearningRequest(fixed=Fixed(noise_variance=NOISE))
    data, alone = learnt(draw(truth, 600), request, 1)
    assert one_more(data, alone, request)[0].noise_variance == NOISE
