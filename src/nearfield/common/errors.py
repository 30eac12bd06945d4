"""Errors that callers tell apart from others."""


class OutOfReachError(ValueError):
    """What was asked for would take too long, or has not converged: another way may do where there is one."""
