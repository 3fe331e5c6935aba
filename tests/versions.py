"""Marks of tests for what only newer versions of torch can do: see decision 0243."""

from __future__ import annotations

import pytest
import torch
from torch.torch_version import TorchVersion


def has_torch(version: str) -> bool:
    """Return whether torch is of this version or newer."""
    return TorchVersion(torch.__version__) >= version


def _needs_torch(version: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(not has_torch(version), reason=f"needs torch {version} or newer")


exports = _needs_torch("2.7")
"""Marks what calls ``dglite.export``."""
compiles_whole = _needs_torch("2.8")
"""Marks what compiles with ``fullgraph=True``, and one program for all sizes."""
