"""Exceptions and warnings. A message says what came, what was expected and what to do."""

from __future__ import annotations

import sys
import warnings

__all__ = ["DGLError", "DGLWarning", "MissingFeatureError", "UnknownIdError", "warn_deprecated"]


class DGLError(Exception):
    """Raised when a graph, a feature or an argument is not what an operation needs."""


class MissingFeatureError(DGLError, KeyError):
    """Raised when graphs or types whose features are joined lack one; also a ``KeyError``, as DGL raises."""

    __str__ = Exception.__str__  # KeyError's shows the repr of its message


class UnknownIdError(DGLError, IndexError):
    """Raised when there is no node, edge or row of an id; also an ``IndexError``, as torch raises."""


class DGLWarning(UserWarning):
    """Category of every warning that dglite gives, except for those about deprecated spellings."""


def warn_deprecated(old: str, instead: str) -> None:
    """Warn that ``old`` should be replaced as ``instead`` says, at the line of the caller that is not in dglite."""
    frame, stacklevel = sys._getframe(1), 2
    while frame.f_back is not None and _package(frame.f_globals) == _package(globals()):
        frame, stacklevel = frame.f_back, stacklevel + 1
    warnings.warn(f"{old} is deprecated; {instead}", DeprecationWarning, stacklevel=stacklevel)


def _package(names: dict[str, object]) -> str:
    return str(names.get("__name__", "")).partition(".")[0]
