"""Local models: the pipeline from data to a fitted model, and all its steps.

Imports `hyperparameters` and below, and the report of `reporting`.
"""
