import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from threadpoolctl import threadpool_limits

from nearfield.kernels import Kernel
from nearfield.solvers.conjugate_gradients import mean_error_bound, quadratic_error_bound, solve
from nearfield.solvers.kernel_products import KernelProduct


@pytest.fixture(autouse=True, scope="module")
def _one_thread_of_blas():
    with threadpool_limits(limits=1, user_api="blas"):
        yield


class Problem:
    """A Gaussian process at random points, some of them twice: `A = K + S`, and right-hand sides `B`."""

    def __init__(self, d=2, n=200, r=4, noise=0.1, seed=0):
        rng = np.random.RandomState(seed)
        self.kernel = Kernel(np.array([[0.1], [0.3]]), np.array([0.5, 1.0]))
        self.X = rng.rand(n, d)
        self.X[: n // 10] = self.X[n // 2 : n // 2 + n // 10]
        self.noise = noise * rng.uniform(1, 2, n)
        self.A = self.kernel(self.X, self.X) + np.diag(self.noise)
        self.B = rng.randn(n, r)
        self.n_columns = []

    def product(self, V):
        self.n_columns.append(V.shape[1])
        return self.A @ V

    def nearly_inverse(self, share=0.05):
        """Inverse of a matrix near A, as a preconditioner."""
        G = np.random.RandomState(9).randn(*self.A.shape)
        inverse = np.linalg.inv(self.A + share * self.noise.min() * G @ G.T / len(G))
        return lambda V: inverse @ V

    def solve(self, precondition=None, tolerance=1e-8, max_iterations=500, **kwargs):
        return solve(self.product, precondition or (lambda V: V), self.B, tolerance, max_iterations, **kwargs)


@pytest.mark.parametrize("d", [1, 2, 3, 5])
def test_it_solves_what_a_dense_solver_solves(d):
    problem = Problem(d)
    K = KernelProduct(problem.kernel, problem.X)
    solution = solve(
        lambda V: K.product(V) + problem.noise[:, None] * V, lambda V: V / K.diagonal[:, None], problem.B, 1e-11, 500
    )
    exact = np.linalg.solve(problem.A, problem.B)
    assert solution.converged.all()
    assert_allclose(solution.x, exact, atol=1e-8 * abs(exact).max())
    assert_allclose(solution.quadratic, (problem.B * exact).sum(axis=0), rtol=1e-10)
    assert solution.history.shape == (solution.n_iterations + 1, 4)


def test_residuals_are_those_of_the_solution():
    problem = Problem()
    solution = problem.solve()
    norms = np.linalg.norm(problem.B - problem.A @ solution.x, axis=0)
    assert_allclose(solution.residual_norms, norms, rtol=1e-5)
    assert_allclose(solution.relative_residuals, norms / np.linalg.norm(problem.B, axis=0), rtol=1e-5)
    assert np.all(solution.relative_residuals <= 1e-8)
    assert np.all(np.diff(solution.history, axis=0) <= 0)


def test_a_good_preconditioner_needs_few_iterations():
    problem = Problem()
    plain, helped = problem.solve(), problem.solve(problem.nearly_inverse())
    assert helped.converged.all()
    assert helped.n_iterations < 10 < plain.n_iterations
    perfect = problem.solve(problem.nearly_inverse(0.0))
    assert (perfect.n_iterations, len(perfect.history)) == (0, 1)
    assert perfect.converged.all()


def test_right_hand_sides_of_zero_have_the_solution_zero():
    problem = Problem()
    problem.B[:, 1] = 0
    solution = problem.solve()
    assert_array_equal(solution.x[:, 1], 0)
    assert solution.converged.all()
    assert max(problem.n_columns) == 3
    problem.B[:] = 0
    solution = problem.solve()
    assert_array_equal(solution.x, 0)
    assert (solution.n_iterations, solution.converged.all()) == (0, True)


def test_columns_that_have_converged_are_left_out():
    problem = Problem()
    problem.B[:, 0] = np.linalg.eigh(problem.A)[1][:, -1]  # one step is enough
    solution = problem.solve()
    assert solution.converged.all()
    assert problem.n_columns[:4] == [4, 4, 3, 3]
    alone = Problem()
    alone.B = problem.B[:, 2:3]
    assert_allclose(alone.solve().x[:, 0], solution.x[:, 2], rtol=1e-6, atol=1e-8)


def test_columns_may_have_tolerances_of_their_own():
    problem, tolerances = Problem(), np.array([1e-9, 1e-2, 1e-5, 1e-2])
    solution = problem.solve(tolerance=tolerances)
    assert solution.converged.all()
    assert (solution.relative_residuals <= tolerances).all()
    assert (solution.relative_residuals[[1, 3]] > 1e-5).all()  # no more is done than is asked for
    assert set(problem.n_columns) >= {4, 2, 1}


@pytest.mark.parametrize("max_iterations", [0, 1, 7])
def test_too_few_iterations_are_told(max_iterations):
    problem = Problem()
    solution = problem.solve(max_iterations=max_iterations)
    assert solution.n_iterations == max_iterations
    assert not solution.converged.any()
    assert_allclose(
        solution.relative_residuals,
        np.linalg.norm(problem.B - problem.A @ solution.x, axis=0) / np.linalg.norm(problem.B, axis=0),
    )
    assert np.all(solution.relative_residuals <= 1)


def test_a_tolerance_out_of_reach_ends_all_the_same():
    solution = Problem().solve(tolerance=1e-30, max_iterations=5000)
    assert solution.n_iterations < 5000
    assert not solution.converged.any()
    assert np.all(solution.relative_residuals < 1e-13)


@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf, 0.0])
def test_a_column_that_breaks_down_keeps_its_best_solution(bad):
    problem = Problem()
    inverse = problem.nearly_inverse()
    marked = problem.B[:, [1]]
    calls = []

    def precondition(V):
        calls.append(V.shape[1])
        Z = inverse(V)
        return Z * [1.0, bad, 1.0, 1.0] if len(calls) == 3 else Z

    solution = problem.solve(precondition)
    assert_array_equal(solution.converged, [True, False, True, True])
    assert np.isfinite(solution.x).all()
    assert_allclose(solution.residual_norms[1], np.linalg.norm(marked - problem.A @ solution.x[:, [1]]))
    assert solution.relative_residuals[1] < 0.1


def test_a_start_worse_than_nothing_is_overcome():
    problem = Problem()
    solution = problem.solve(lambda V: 1e3 * V)
    assert solution.converged.all()
    useless = problem.solve(lambda V: np.full_like(V, np.nan))
    assert not useless.converged.any()
    assert_array_equal(useless.x, 0)
    assert_array_equal(useless.relative_residuals, 1)


def test_progress_is_told_and_may_interrupt():
    seen = []
    problem = Problem()
    problem.solve(progress=lambda *told: seen.append(told))
    stages, done, values = zip(*seen, strict=True)
    assert set(stages) == {"conjugate gradients"}
    assert done[-1] == 1
    assert all(0 <= share < 1 for share in done[:-1])
    assert values[-1] <= 1e-8

    def stop(stage, done, value):
        raise StopIteration

    solution = problem.solve(progress=stop)
    assert solution.n_iterations == 1
    assert not solution.converged.any()

    def stop_at_the_end(stage, done, value):
        if done == 1:
            raise StopIteration

    assert problem.solve(progress=stop_at_the_end).converged.all()

    def interrupt(stage, done, value):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        problem.solve(progress=interrupt)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("max_iterations", [0, 1, 3, 10, 30])
@pytest.mark.parametrize("noise", [1e-3, 0.1, 10.0])
def test_bounds_hold(seed, max_iterations, noise):
    problem = Problem(noise=noise, seed=seed)
    Xs = np.random.RandomState(seed + 100).rand(6, 2)
    cross = problem.kernel(problem.X, Xs)
    y = problem.B[:, :1]
    problem.B = np.hstack([y, cross])
    solution = problem.solve(max_iterations=max_iterations)
    exact = np.linalg.solve(problem.A, problem.B)
    least = problem.noise.min()
    rounding = 1e-11
    mean_error = abs(cross.T @ (solution.x[:, 0] - exact[:, 0]))
    assert np.all(mean_error <= mean_error_bound(problem.kernel.variance, solution.residual_norms[0], least) + rounding)
    gap = (problem.B * exact).sum(axis=0) - solution.quadratic
    scale = abs((problem.B * exact).sum(axis=0))
    assert np.all(gap >= -rounding * scale)
    assert np.all(gap <= quadratic_error_bound(solution.residual_norms, least) + rounding * scale)


@pytest.mark.parametrize("noise", [1e-1, 1e-3, 1e-5, 1e-7])
@pytest.mark.parametrize("share", [0.1, 1.0, 1e2])  # of the error of the preconditioner
def test_what_converges_in_time_is_not_given_up(noise, share):
    problem = Problem(noise=noise)
    precondition = problem.nearly_inverse(share)
    plain = problem.solve(precondition, max_iterations=5000)
    solution = problem.solve(precondition, max_iterations=2 * plain.n_iterations, all_or_nothing=True)
    assert solution.forecast == 0
    assert_array_equal(solution.x, plain.x)


@pytest.mark.parametrize("noise", [1e-3, 1e-5, 1e-7])
def test_what_would_take_too_many_iterations_is_given_up_early(noise):
    problem = Problem(noise=noise)
    needed = problem.solve(max_iterations=5000).n_iterations
    allowed = needed // 3
    solution = problem.solve(max_iterations=allowed, all_or_nothing=True)
    assert not solution.converged.all()
    assert solution.forecast > allowed
    assert solution.n_iterations <= allowed // 2
    plain = problem.solve(max_iterations=allowed)
    assert (plain.n_iterations, plain.forecast) == (allowed, 0)
