"""Model files: one file, checked, versioned, and safe to open whoever made it."""

from .persistence.files import FORMAT, ModelFile, inspect, load, load_with_metadata, save

__all__ = ["FORMAT", "ModelFile", "inspect", "load", "load_with_metadata", "save"]
