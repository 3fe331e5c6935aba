"""Dynamic networks under ``torch.autocast``: computed in the dtype of their parameters, as by ``custom_fwd``."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch

_HALVES = (torch.bfloat16, torch.float16)
_NOTHING = nullcontext()


def as_float32(x: torch.Tensor) -> torch.Tensor:
    """Return what a layer under autocast gave in half precision as float32, with its gradient; else ``x`` itself."""
    return x.float() if x.dtype in _HALVES and torch.is_autocast_enabled(x.device.type) else x


def without_autocast(kind: str = "cpu") -> AbstractContextManager[object]:
    """Switch autocast off for a type of devices in a ``with`` block."""
    return torch.autocast(kind, enabled=False) if torch.is_autocast_enabled(kind) else _NOTHING
