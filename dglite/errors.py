"""Exceptions and warnings. A message says what came, what was expected and what to do."""

from __future__ import annotations

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


def warn_deprecated(old: str, instead: str, stacklevel: int = 3) -> None:
    """Give a :class:`DeprecationWarning` that ``old`` was written and that ``instead``, an imperative, helps.

    It points at the line that called the function which calls this one; ``stacklevel`` counts as in ``warnings.warn``.
    """
    warnings.warn(f"{old} is deprecated; {instead}", DeprecationWarning, stacklevel=stacklevel)
