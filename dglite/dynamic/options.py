"""Which optimisations the engine uses: all, unless switched off to see what they are worth."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Options:
    """See :func:`options`."""

    eager: bool = True
    lazy: bool = True
    fuse: bool = True


_ALL = Options()
_current = ContextVar("dglite.dynamic.options", default=_ALL)


def current_options() -> Options:
    """Return the options in force."""
    return _current.get()


@contextmanager
def options(eager: bool | None = None, lazy: bool | None = None, fuse: bool | None = None) -> Iterator[Options]:
    """Switch optimisations of vertex programs on or off inside a ``with`` block; results are the same.

    The names and the three ideas are those of Xu et al., "Cavs: an efficient runtime system for dynamic neural
    networks", 2018, whose Figure 10 switches them off one by one.

    Parameters
    ----------
    eager
        what depends on no child runs once for all vertices, before the sweep over the levels.
    lazy
        what no other vertex waits for runs once for all vertices, after the sweep: outputs, and in the backward
        direction the gradients of parameters and inputs.
    fuse
        element-wise operations that follow each other are one kernel.
    """
    changes = {name: value for name, value in (("eager", eager), ("lazy", lazy), ("fuse", fuse)) if value is not None}
    token = _current.set(replace(_current.get(), **changes))
    try:
        yield _current.get()
    finally:
        _current.reset(token)
