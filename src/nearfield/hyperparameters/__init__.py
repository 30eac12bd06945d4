"""Length scales, variances and noise from data: likelihood, blocks, optimiser, number of scales.

Imports `solvers` and below.
"""
