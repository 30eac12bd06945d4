"""The likelihood of a single set of points, by the class that sums over many."""

from nearfield.hyperparameters.likelihood import ConditionalStack, Stack, squared_differences


def kernel_log_likelihood(kernel, noise_variance, X, y, noise_factors=None, n_given=0, drift=None):
    """Log marginal likelihood of one set of points (n, d) with targets (n, k), and its gradient.

    With `n_given`, that of the other rows conditional on the first so many.
    """
    by_column = kernel.length_scales.shape[1] > 1
    factors, columns = (None if each is None else each[None] for each in (noise_factors, drift))
    if n_given:
        return ConditionalStack.of(X[None], y[None], by_column, n_given, factors)(kernel, noise_variance)
    return Stack(squared_differences(X[None], by_column), y[None], factors, drift=columns)(kernel, noise_variance)
