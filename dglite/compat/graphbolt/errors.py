"""Errors that are also of the classes that GraphBolt raises, for scripts that catch those."""

from __future__ import annotations

from ...errors import DGLError


class InputError(DGLError, AssertionError):
    """An argument, or what a stage gets, does not fit; GraphBolt asserts it."""


class DescriptionError(DGLError, ValueError):
    """The description of a data set lacks a field, or has one of another kind."""


class ReadOnlyError(DGLError, NotImplementedError):
    """A feature that is only read was to be written."""
