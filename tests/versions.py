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


def has_exact_elu() -> bool:
    """Return whether torch computes ELU of small numbers by ``expm1``, as dglite does, not as exp less 1."""
    return bool(torch.nn.functional.elu(torch.tensor(-1e-20)))


exports = _needs_torch("2.7")
"""Marks what calls ``dglite.export``."""
defers_scores = pytest.mark.skipif(
    not hasattr(torch._C._autograd, "_top_saved_tensors_default_hooks"), reason="this torch is too old to defer scores"
)
"""Marks what expects scores to wait for their consumer; with torch 2.4 they are computed at once."""
compiles_whole = _needs_torch("2.8")
"""Marks what compiles with ``fullgraph=True``, and one program for all sizes."""
