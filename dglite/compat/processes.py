"""``dgl.multiprocessing``: what scripts use beside the names of ``torch.multiprocessing``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..io.shared_arrays import call_once_and_share

__all__ = ["call_once_and_share", "shared_tensor", "thread_wrapped_func"]


def shared_tensor(shape: Sequence[int], dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Return a tensor that all ranks of ``torch.distributed``'s group share, which run on one machine; zeros at first.

    All ranks call it, as :func:`call_once_and_share`.
    """
    shared: torch.Tensor = call_once_and_share(lambda: torch.zeros(tuple(shape), dtype=dtype), shape, dtype)
    return shared


def thread_wrapped_func(func: Callable[..., Any]) -> Callable[..., Any]:
    """Return a process's entry point as it is; DGL runs it in a thread, for the sake of OpenMP."""
    return func
