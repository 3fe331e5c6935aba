"""The emulated card that the tests of the CUDA kernels share, and structures on it."""

from __future__ import annotations

import pytest

from dglite.kernels.cuda.emulate import Emulator, available
from dglite.kernels.cuda.structure import Structure
from tests.kernels.sparse_cases import Coo

__all__ = ["CARD", "LIMITS", "needs_compiler", "uploaded"]

CARD = Emulator()
LIMITS = {"cut": 16, "whole": 1 << 20}
"""Entries that one team takes at most: with the first, rows of the tests' graphs are cut into chunks."""

needs_compiler = pytest.mark.skipif(not available(), reason="no C++ compiler to emulate a card with: set CXX")


def uploaded(coo: Coo, index: str, limit: str) -> Structure:
    """Return the CSC of ``coo`` on the card."""
    return Structure.upload(CARD, *coo.csc(index), limit=LIMITS[limit])
