"""Linear algebra, additive statistics, and the two solvers of a Gaussian process; imports `kernels` and `common`."""
