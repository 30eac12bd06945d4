"""The report of a fitted model as one web page."""

from .reporting.page import Projection, build, save, write

__all__ = ["Projection", "build", "save", "write"]
