"""Data that do not fit into memory: sources, passes over them, and local models from such passes.

Imports `local` and below.
"""
