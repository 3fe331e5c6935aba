"""Python's garbage collector, at rest while modules of dglite are imported."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_collection() -> Iterator[None]:
    """Collect no garbage meanwhile: modules make none, and one look at all of torch's objects takes 0.1 s.

    What was made counts as old afterwards, as it would after a collection.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled and not gc.get_freeze_count():
            gc.freeze()  # all generations become one, without a look at any object,
            gc.unfreeze()  # and that one the oldest
        if enabled:
            gc.enable()
