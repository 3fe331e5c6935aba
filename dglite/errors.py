"""Exceptions and warnings. A message says what came, what was expected and what to do."""

from __future__ import annotations

import sys
import warnings

__all__ = ["DGLError", "DGLWarning", "MissingFeatureError", "UnknownIdError", "warn", "warn_deprecated"]


class DGLError(Exception):
    """Raised when a graph, a feature or an argument is not what an operation needs."""


class MissingFeatureError(DGLError, KeyError):
    """Raised when graphs or types whose features are joined lack one; also a ``KeyError``, as DGL raises."""

    __str__ = Exception.__str__  # KeyError's shows the repr of its message


class UnknownIdError(DGLError, IndexError):
    """Raised when there is no node, edge or row of an id; also an ``IndexError``, as torch raises."""


class DGLWarning(UserWarning):
    """Category of every warning that dglite gives, except for those about deprecated spellings."""


def warn(message: str, category: type[Warning] = DGLWarning) -> None:
    """Give a warning that points at the line outside of dglite from which dglite was called."""
    frame, level, ours = sys._getframe(1), 2, __name__.partition(".")[0]
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == ours:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def warn_deprecated(old: str, instead: str) -> None:
    """Give a :class:`DeprecationWarning` that ``old`` was written and that ``instead``, an imperative, helps."""
    warn(f"{old} is deprecated; {instead}", DeprecationWarning)
