"""How sure hyperparameters are, against second derivatives of the likelihood and errors of draws."""

from dataclasses import replace

import numpy as np
from numpy.testing import assert_allclose

from nearfield.hyperparameters.blocks import Block, LearningData
from nearfield.hyperparameters.learning import LearningRequest, learn, learn_hyperparameters
from nearfield.hyperparameters.objective import Objective
from nearfield.kernels import Kernel

from .single import kernel_log_likelihood

TRUTH, NOISE = Kernel.gaussian(0.3), 0.1


def draw(n, d, seed):
    rng = np.random.RandomState(seed)
    X = rng.rand(n, d)
    y = np.linalg.cholesky(TRUTH(X, X) + NOISE * np.eye(n)) @ rng.randn(n, 1)
    return X, y


def logarithms(learned):
    return np.log([learned.kernel.length_scales[0, 0], learned.kernel.variances[0], learned.noise_variance])


def test_they_are_those_of_the_second_derivatives():
    X, y = draw(150, 2, 0)
    learned = learn_hyperparameters(X, y, None, LearningRequest(n_restarts=0), np.random.RandomState(0))

    def gradient(theta):
        return kernel_log_likelihood(Kernel.gaussian(*np.exp(theta[:2])), float(np.exp(theta[2])), X, y)[1]

    best, steps = logarithms(learned), 1e-4 * np.eye(3)
    H = np.array([(gradient(best - step) - gradient(best + step)) / 2e-4 for step in steps])
    assert_allclose(learned.standard_errors, np.sqrt(np.diagonal(np.linalg.inv(H))), rtol=0.02)


def test_errors_of_draws_are_of_their_size():
    errors = []
    for seed in range(8):  # in order, given earlier points
        learned = learn_hyperparameters(
            *draw(1200, 2, seed), None, LearningRequest(n_restarts=0), np.random.RandomState(0)
        )
        truth = np.log([TRUTH.length_scales[0, 0], TRUTH.variance, NOISE])
        errors.append((logarithms(learned) - truth) / learned.standard_errors)
    # 24 squares of about standard normal numbers: from 0.5 to 1.6 in all but one of a thousand cases
    assert 0.5 < np.sqrt(np.mean(np.square(errors))) < 1.6


def test_blocks_of_the_same_points_do_not_count_twice():
    X, y = draw(150, 5, 0)
    data = LearningData(X, y, blocks=[Block(X, y)])
    once, again = (
        learn(replace(data, blocks=data.blocks * times), LearningRequest(n_restarts=0), np.random.RandomState(0))
        for times in (1, 4)
    )
    assert_allclose(logarithms(again), logarithms(once), atol=0.02)
    assert_allclose(again.standard_errors, once.standard_errors, rtol=0.05)


def test_they_are_there_where_some_blocks_have_no_maximum(monkeypatch):
    def learned():
        return learn_hyperparameters(
            *draw(1200, 2, 0), None, LearningRequest(n_restarts=0), np.random.RandomState(0)
        ).standard_errors

    usual, curvature = learned(), Objective.curvature

    def indefinite(self, *given):
        values, vectors = np.linalg.eigh(curvature(self, *given))
        return vectors * np.array([-values[0], *values[1:]]) @ vectors.T

    monkeypatch.setattr(Objective, "curvature", indefinite)
    assert_allclose(np.log(learned() / usual), 0.0, atol=np.log(2.0))
