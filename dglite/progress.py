"""Progress of what may take long: a bar that appears after two seconds, on terminals and in notebooks only."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from tqdm.auto import tqdm

DELAY = 2.0
"""Seconds before a bar appears: what is done by then shows none."""


def progress(
    steps: Iterable[Any] | None = None,
    description: str = "",
    unit: str = "it",
    total: int | None = None,
    hide: bool = False,
) -> Any:
    """Return tqdm's bar over ``steps``, or without ``steps``, a bar that ``update`` advances.

    It is written to stderr, removed when it is done, and hidden where stderr is a file, a pipe or a log.
    """
    return tqdm(
        steps, desc=description, unit=unit, total=total, delay=DELAY, leave=False, disable=hide or not _is_watched()
    )


def _is_watched() -> bool:
    return "ipykernel" in sys.modules or bool(getattr(sys.stderr, "isatty", bool)())
