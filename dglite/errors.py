"""Exceptions and warnings. A message says what came, what was expected and what to do."""

__all__ = ["DGLError", "DGLWarning"]


class DGLError(Exception):
    """Raised when a graph, a feature or an argument is not what an operation needs."""


class DGLWarning(UserWarning):
    """Category of every warning that dglite gives."""
